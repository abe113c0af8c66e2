// Addresses: reading, writing, blocks, and the sets of deny_addresses.

import Testing

@testable import Bytes

@Suite struct IPAddressTests {
  @Test(
    arguments: [
      ("0.0.0.0", 0), ("127.0.0.1", 0x7f00_0001), ("255.255.255.255", 0xffff_ffff), ("1.2.3.4", 0x0102_0304),
    ] as [(String, UInt32)]) func aDottedQuadIsRead(text: String, value: UInt32)
  {
    #expect(IPAddress(text) == IPAddress(ipv4: value))
    #expect(IPAddress(ipv4: value).description == text)
  }

  @Test(arguments: [
    "", "1", "1.2.3", "1.2.3.4.5", "1.2.3.4.", ".1.2.3.4", "256.1.1.1", "1.2.3.256", "01.2.3.4", "1.2.3.04",
    "00.0.0.0",
    "1..2.3", "1.2.3.a", "0x1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1,2,3,4", "1.2.3.1000", "-1.2.3.4",
    "1.2.3.4/32",
  ]) func whatIsNoDottedQuadIsRefused(text: String) { #expect(IPAddress(text) == nil) }

  /// RFC 5952, 4 and 5, and RFC 4291, 2.2: any of the ways to write it, and the one that is canonical.
  @Test(arguments: [
    ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("0:0:0:0:0:0:0:0", "::"), ("2001:DB8::1", "2001:db8::1"),
    ("2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"), ("2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
    ("2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"), ("2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
    ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"), ("1:0:0:2:0:0:0:0", "1:0:0:2::"), ("0:0:1:0:0:0:0:0", "0:0:1::"),
    ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"), ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("1::8", "1::8"),
    ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
    ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("::ffff:1.2.3.4", "::ffff:1.2.3.4"), ("::ffff:0102:0304", "::ffff:1.2.3.4"), ("::1.2.3.4", "::102:304"),
    ("64:ff9b::192.0.2.33", "64:ff9b::c000:221"), ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
    ("1::2:3:4:5:1.2.3.4", "1:0:2:3:4:5:102:304"), ("a:0b:00c:000d::", "a:b:c:d::"), ("0::0", "::"),
    ("1:0::", "1::"),
  ]) func anIPv6AddressIsReadAndWrittenCanonically(text: String, canonical: String) {
    #expect(IPAddress(text)?.description == canonical)
    #expect(IPAddress("[\(text)]") == IPAddress(text))
    #expect(IPAddress(canonical) == IPAddress(text))
    #expect(IPAddress(text)?.isIPv4 == false)
  }

  @Test(arguments: [
    ":", ":::", "1", "1:", ":1", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8:", ":1:2:3:4:5:6:7:8",
    "1::2::3",
    "::1::", "1:::2", "12345::", "g::", "::1%eth0", "[::1", "::1]", "[]", "[1.2.3.4]", "1:2:3:4:5:6:7::8",
    "::1.2.3",
    "::1.2.3.4:5", "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "::01.2.3.4", " ::1", "1:2:3:4:5:6:7:8::",
    "::1:2:3:4:5:6:7:8",
  ]) func whatIsNoIPv6AddressIsRefused(text: String) { #expect(IPAddress(text) == nil) }

  @Test func everyGroupStandsWhereItBelongs() {
    for gap in 0...7 {
      for behind in 0...(7 - gap) {
        let front = (0..<gap).map { "\($0 + 1)" }.joined(separator: ":")
        let back = (0..<behind).map { "\(9 - behind + $0)" }.joined(separator: ":")
        let whole = (0..<8).map { $0 < gap ? $0 + 1 : $0 >= 8 - behind ? $0 + 1 : 0 }.map { "\($0)" }.joined(
          separator: ":")
        #expect(IPAddress("\(front)::\(back)") == IPAddress(whole), "\(front)::\(back)")
      }
    }
  }

  // MARK: What is inside

  @Test(arguments: [
    ("::ffff:10.1.2.3", "10.1.2.3"), ("::10.1.2.3", "10.1.2.3"), ("64:ff9b::10.1.2.3", "10.1.2.3"),
    ("64:ff9b:1::10.1.2.3", "10.1.2.3"), ("64:ff9b:1:ffff:ffff:ffff:10.1.2.3", "10.1.2.3"),
    ("2002:a01:203::", "10.1.2.3"),
    ("2002:a01:203:ffff::1", "10.1.2.3"), ("::ffff:0.0.0.0", "0.0.0.0"), ("64:ff9b::", "0.0.0.0"),
  ]) func theEmbeddedAddressIsFound(text: String, embedded: String) {
    #expect(IPAddress(text)?.embeddedIPv4?.description == embedded)
  }

  @Test(arguments: [
    "::", "::1", "2001:db8::a01:203", "64:ff9b:2::a01:203", "64:ff9b::1:a01:203", "fe80::a01:203", "10.1.2.3",
  ])
  func othersEmbedNone(text: String) { #expect(IPAddress(text)?.embeddedIPv4 == nil) }

  @Test(arguments: [
    ("127.0.0.1", true), ("127.255.255.255", true), ("128.0.0.1", false), ("::1", true), ("::2", false),
    ("::ffff:127.0.0.1", true), ("::ffff:128.0.0.1", false), ("0.0.0.0", false), ("::", false),
  ]) func loopbackIsKnown(text: String, isLoopback: Bool) {
    #expect(IPAddress(text)?.isLoopback == isLoopback)
  }

  @Test func unspecifiedIsKnown() {
    #expect(IPAddress("0.0.0.0")?.isUnspecified == true && IPAddress("::")?.isUnspecified == true)
    #expect(IPAddress("0.0.0.1")?.isUnspecified == false && IPAddress("1::")?.isUnspecified == false)
  }

  // MARK: Blocks

  @Test(arguments: [
    ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"), ("0.0.0.0/0", "255.255.255.255", "::"),
    ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
    ("192.0.2.128/25", "192.0.2.128", "192.0.2.127"), ("::/0", "ffff::", "1.2.3.4"),
    ("fe80::/10", "febf::1", "fec0::"),
    ("2001:db8::/64", "2001:db8::ffff:0:0:1", "2001:db8:0:1::"),
    ("2001:db8::/65", "2001:db8:0:0:7fff::", "2001:db8:0:0:8000::"),
    ("::1/128", "::1", "::"),
  ]) func aBlockHoldsItsAddresses(block: String, inside: String, outside: String) throws {
    let block = try #require(AddressBlock(block))
    #expect(block.contains(try #require(IPAddress(inside))))
    #expect(!block.contains(try #require(IPAddress(outside))))
  }

  @Test(arguments: [
    "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/08", "10.0.0.0/+8", "::/129",
    "::1/127", "x/8", "/8", "",
    "10.0.0.0/8/8",
  ]) func whatIsNoBlockIsRefused(text: String) { #expect(AddressBlock(text) == nil) }

  // MARK: Sets

  private func set(_ texts: String...) -> AddressSet {
    var set = AddressSet()
    for text in texts where !set.insert(text) { Issue.record("'\(text)' was refused") }
    return set
  }

  /// What `deny_addresses` is where nothing is said.
  private var denied: AddressSet { self.set("link-local", "multicast", "unspecified") }

  @Test(arguments: [
    ("169.254.169.254", "169.254.0.0/16"), ("fe80::1", "fe80::/10"), ("224.0.0.1", "224.0.0.0/4"),
    ("239.1.1.1", "224.0.0.0/4"),
    ("255.255.255.255", "255.255.255.255/32"), ("ff02::1", "ff00::/8"), ("0.0.0.0", "0.0.0.0/8"),
    ("0.1.2.3", "0.0.0.0/8"),
    ("::", "::/128"), ("::ffff:169.254.169.254", "169.254.0.0/16"), ("64:ff9b::a9fe:a9fe", "169.254.0.0/16"),
    ("2002:a9fe:a9fe::", "169.254.0.0/16"), ("::ffff:0.0.0.0", "0.0.0.0/8"),
    ("64:ff9b::224.0.0.1", "224.0.0.0/4"),
    ("64:ff9b:1::169.254.1.1", "169.254.0.0/16"), ("::169.254.1.1", "169.254.0.0/16"),
  ]) func theDefaultSetDeniesWhatItMeans(text: String, block: String) throws {
    let address = try #require(IPAddress(text))
    #expect(denied.firstBlock(containing: address)?.description == block)
  }

  @Test(arguments: [
    "127.0.0.1", "::1", "10.0.0.1", "8.8.8.8", "2001:db8::1", "::ffff:8.8.8.8", "169.253.255.255", "fec0::1",
    "2002:808:808::",
  ]) func theDefaultSetAllowsOthers(text: String) throws {
    #expect(denied.firstBlock(containing: try #require(IPAddress(text))) == nil)
  }

  @Test func classesHoldWhatTheirNamesSay() throws {
    let rows = [
      ("loopback", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "2002:7f00:1::"], ["128.0.0.1", "::2"]),
      (
        "private",
        ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1", "::ffff:10.0.0.1"],
        ["172.32.0.0", "172.15.255.255", "192.169.0.0", "fe00::1"]
      ),
      ("cgnat", ["100.64.0.1", "100.127.255.255"], ["100.128.0.0", "100.63.255.255"]),
      ("192.0.2.0/24", ["192.0.2.9", "64:ff9b::192.0.2.9"], ["192.0.3.0"]),
      ("2001:db8::1", ["2001:db8::1"], ["2001:db8::2"]),
      ("::ffff:0:0/96", ["::ffff:1.2.3.4"], ["1.2.3.4"]),
    ]
    for (name, inside, outside) in rows {
      let set = set(name)
      for text in inside {
        #expect(set.firstBlock(containing: try #require(IPAddress(text))) != nil, "\(name) \(text)")
      }
      for text in outside {
        #expect(set.firstBlock(containing: try #require(IPAddress(text))) == nil, "\(name) \(text)")
      }
    }
  }

  @Test func whatIsNeitherClassNorBlockIsRefused() {
    var set = AddressSet()
    for text in ["Private", "lan", "10.0.0.1/8", "", "a.example"] {
      if set.insert(text) { Issue.record("'\(text)' was taken") }
    }
    #expect(set.blocks.isEmpty)
  }
}
