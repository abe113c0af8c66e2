// Hosts of requests in canonical form, and which patterns match them.

import Bytes
import Testing

@testable import Policy

@Suite struct HostPatternTests {
  private func read(_ text: String) -> (HostFault?, String, IPAddress?) {
    var host = CanonicalHost()
    let fault = host.set(Array(text.utf8).span)
    return (fault, String(decoding: host.bytes, as: UTF8.self), host.address)
  }

  @Test(arguments: [
    ("a.example", "a.example"), ("A.EXAMPLE", "a.example"), ("a.example.", "a.example"),
    ("localhost", "localhost"),
    ("a_b-c.example", "a_b-c.example"), ("xn--bcher-kva.example", "xn--bcher-kva.example"), ("1.a", "1.a"),
    ("0x1.a", "0x1.a"),
    ("1e3", "1e3"), ("0xg", "0xg"), (String(repeating: "a", count: 63), String(repeating: "a", count: 63)),
  ]) func aNameIsCanonical(text: String, canonical: String) {
    let (fault, name, address) = read(text)
    #expect(fault == nil && name == canonical && address == nil)
  }

  @Test(arguments: [
    ("127.0.0.1", "127.0.0.1"), ("127.0.0.1.", "127.0.0.1"), ("[::1]", "::1"),
    ("[2001:DB8:0:0::1]", "2001:db8::1"),
    ("[::FFFF:1.2.3.4]", "::ffff:1.2.3.4"),
  ]) func anAddressIsCanonical(text: String, canonical: String) {
    let (fault, name, address) = read(text)
    #expect(fault == nil && name == canonical && address == IPAddress(canonical))
  }

  @Test(
    arguments: [
      ("", .empty), (".", .empty), ("..", .badLabel), ("a..b", .badLabel), (".a", .badLabel),
      ("a..", .badLabel),
      (String(repeating: "a", count: 64), .badLabel), ("a b", .badCharacter), ("a%62", .badCharacter),
      ("a:80", .badCharacter),
      ("*.a", .badCharacter), ("b\u{fc}cher", .badCharacter), ("a\0", .badCharacter), ("::1", .badCharacter),
      ("[::1", .badAddress), ("[]", .badAddress), ("[::1%1]", .badAddress), ("[1.2.3.4]", .badAddress),
      ("[v1.a]", .badAddress),
      ("[::1].", .badAddress),
      ("0x7f.1", .numberLike), ("2130706433", .numberLike), ("127.1", .numberLike),
      ("0177.0.0.1", .numberLike),
      ("0x7f000001", .numberLike), ("1.2.3.4.5", .numberLike), ("a.1", .numberLike), ("a.0x", .numberLike),
      ("256.1.1.1", .numberLike),
      ("127.0.0.0x1", .numberLike), ("08.1", .numberLike), ("1.", .numberLike), ("0XA", .numberLike),
      (Array(repeating: "aaaaaaaaa", count: 26).joined(separator: "."), .tooLong),
    ] as [(String, HostFault)]) func aHostThatIsNoneIsRefused(text: String, fault: HostFault)
  {
    #expect(read(text).0 == fault, "\(text)")
    #expect(!fault.expectation.isEmpty)
  }

  @Test func aNameOf253BytesIsTheLongest() {
    let name = Array(repeating: "aaaaaaa", count: 31).joined(separator: ".") + ".aaaaa"
    #expect(name.utf8.count == 253)
    #expect(read(name).0 == nil && read(name + ".").0 == nil)
    #expect(read(name + "a").0 == .tooLong)
  }

  @Test func storageIsUsedAgain() {
    var host = CanonicalHost()
    let first = host.set(Array("127.0.0.1".utf8).span)
    #expect(first == nil && host.address != nil)
    let second = host.set(Array("b.example".utf8).span)
    #expect(second == nil && host.address == nil)
    #expect(host.bytes.elementsEqual("b.example".utf8))
  }

  // MARK: Matching

  static let matching: [(pattern: String, yes: [String], no: [String])] = [
    ("*", ["a", "a.example", "127.0.0.1", "[::1]"], []),
    ("a.example", ["a.example", "A.Example."], ["b.a.example", "aa.example", "example", "a.example.x"]),
    (
      "*.a.example", ["b.a.example", "x_y.A.EXAMPLE"],
      ["a.example", "c.b.a.example", "ba.example", "b.a.exampl"]
    ),
    (
      "**.a.example", ["a.example", "b.a.example", "d.c.b.a.example"],
      ["ba.example", "example", "a.example.x"]
    ),
    ("**.1.a", ["1.a", "0.1.a"], ["127.0.0.1"]),
    ("127.0.0.1", ["127.0.0.1", "127.0.0.1."], ["127.0.0.2", "[::1]", "a"]),
    (
      "10.0.0.0/8", ["10.255.255.255", "[::ffff:10.0.0.1]"],
      ["11.0.0.0", "[::a00:0]", "[64:ff9b::a00:0]", "a"]
    ),
    ("::ffff:10.0.0.0/104", ["[::ffff:10.0.0.1]", "10.0.0.1"], ["11.0.0.1"]),
    ("0.0.0.0/0", ["1.2.3.4", "[::ffff:1.2.3.4]"], ["[::1]", "a"]),
    ("::/0", ["[::1]", "[2001:db8::1]"], ["1.2.3.4", "a"]),
    ("2001:db8::/32", ["[2001:db8:ffff::]"], ["[2001:db9::]"]),
  ]

  @Test(arguments: matching) func aPatternMatchesItsHosts(pattern: String, yes: [String], no: [String]) throws {
    let pattern = try HostPattern.parse(pattern).get()
    for host in yes { #expect(pattern.matches(canonical(host)), "\(pattern) \(host)") }
    for host in no { #expect(!pattern.matches(canonical(host)), "\(pattern) \(host)") }
  }

  /// The index answers what the patterns answer.
  @Test(arguments: matching) func theIndexAgrees(pattern: String, yes: [String], no: [String]) throws {
    var conditions = Rule.Conditions()
    conditions.hosts = [try HostPattern.parse(pattern).get()]
    let index = RuleIndex(rules: [rule("a", conditions)])
    for (hosts, expected) in [(yes, [0]), (no, [])] {
      for host in hosts {
        var found: [Int] = []
        var lists: [Range<Int32>] = []
        index.forEachCandidate(of: canonical(host), lists: &lists) {
          found.append($0)
          return false
        }
        #expect(found == expected, "\(pattern) \(host)")
      }
    }
  }
}
