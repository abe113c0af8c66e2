// Header sections: which fields are known, which end at this hop, what is written, and lists.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

/// What is left of these lines of a request once the fields that end at this hop are gone.
private func forwarded(_ lines: [String], edit: (inout FieldSection, Span<UInt8>) -> Void = { _, _ in })
  -> String?
{
  let bytes = octets(
    "GET http://a/ HTTP/1.1\r\nHost: a\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n")
  var head = RequestHead()
  guard case .complete = head.read(bytes.span, limits: usualLimits) else { return nil }
  edit(&head.fields, bytes.span)
  var buffer = ByteBuffer()
  head.fields.write(bytes.span, to: &buffer)
  return buffer.bytes.string
}

@Suite struct FieldsTests {
  static let known: [(String, KnownField, isHopByHop: Bool)] = [
    ("accept", .accept, false), ("authorization", .authorization, false), ("connection", .connection, true),
    ("content-length", .contentLength, false), ("cookie", .cookie, false), ("date", .date, false),
    ("expect", .expect, false), ("host", .host, false), ("keep-alive", .keepAlive, true),
    ("max-forwards", .maxForwards, false), ("proxy-authenticate", .proxyAuthenticate, true),
    ("proxy-authentication-info", .proxyAuthenticationInfo, true),
    ("proxy-authorization", .proxyAuthorization, true),
    ("proxy-connection", .proxyConnection, true), ("set-cookie", .setCookie, false), ("te", .te, true),
    ("trailer", .trailer, false), ("transfer-encoding", .transferEncoding, true), ("upgrade", .upgrade, true),
    ("via", .via, false),
  ]

  @Test func everyKnownFieldIsRecognisedInAnyCase() {
    for (name, field, isHopByHop) in Self.known {
      let upper = String(name.utf8.map { Character(Unicode.Scalar($0 >= 97 && $0 <= 122 ? $0 - 32 : $0)) })
      for text in [name, upper] {
        let bytes = octets("<\(text)>")
        let seen = KnownField.identify(bytes.span, 1..<bytes.count - 1)
        #expect(seen == field, "\(text)")
      }
      #expect(field.isHopByHop == isHopByHop, "\(name)")
    }
    #expect(!KnownField.other.isHopByHop)
  }

  @Test func whatDiffersInOneByteIsAnotherField() {
    for (name, _, _) in Self.known {
      let bytes = octets(name)
      for place in bytes.indices {
        for byte in 0...255 as ClosedRange<UInt8> where byte | 0x20 != bytes[place] {
          var other = bytes
          other[place] = byte
          let seen = KnownField.identify(other.span, 0..<other.count)
          // "te" and "tf" aside, no two known names differ in one byte.
          #expect(seen == .other, "\(shown(other))")
        }
        // Bit 5 alone turns "-" into CR and letters into capitals.
        var flipped = bytes
        flipped[place] ^= 0x20
        let seen = KnownField.identify(flipped.span, 0..<flipped.count)
        let isLetter = (0x61...0x7a).contains(bytes[place])
        #expect((seen != .other) == isLetter, "\(shown(flipped))")
      }
      for other in [Array(bytes.dropLast()), bytes + [0x73], [0x78] + bytes] {
        let seen = KnownField.identify(other.span, 0..<other.count)
        #expect(seen == .other, "\(shown(other))")
      }
    }
    #expect(KnownField.identify([UInt8]().span, 0..<0) == .other)
  }

  // MARK: What ends at this hop

  static let hops: [(sentence: String, lines: [String], left: String)] = [
    (
      "fields end to end are left as they came", ["X:  a ", "y:b", "Z:"], "Host: a\r\nX:  a \r\ny:b\r\nZ:\r\n"
    ),
    (
      "fields of the hop go",
      [
        "Connection: x", "Keep-Alive: timeout=5", "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic eDp5",
        "Proxy-Authenticate: Basic", "Proxy-Authentication-Info: n", "TE: trailers", "Upgrade: h2c", "A: b",
      ], "Host: a\r\nA: b\r\n"
    ),
    (
      "the coding goes, for it is written anew", ["Transfer-Encoding: chunked", "A: b"], "Host: a\r\nA: b\r\n"
    ),
    ("the trailer announcement stays", ["Trailer: X-Sum"], "Host: a\r\nTrailer: X-Sum\r\n"),
    ("what Connection names goes", ["X-A: 1", "Connection: x-a", "X-B: 2"], "Host: a\r\nX-B: 2\r\n"),
    ("in any case, and wherever it stands", ["Connection: X-A", "x-A: 1", "X-a: 2"], "Host: a\r\n"),
    ("in several fields", ["X-A: 1", "Connection: x-a", "X-B: 2", "Connection: foo , x-b"], "Host: a\r\n"),
    ("empty elements name nothing", ["X-A: 1", "Connection: , ,,"], "Host: a\r\nX-A: 1\r\n"),
    ("part of a name is not the name", ["X-AB: 1", "Connection: x-a"], "Host: a\r\nX-AB: 1\r\n"),
    ("Proxy-Connection names nothing", ["X-A: 1", "Proxy-Connection: x-a"], "Host: a\r\nX-A: 1\r\n"),
    (
      "what stands side by side leaves in one run, and apart in several",
      ["A: 1", "B: 2", "TE: x", "C: 3", "Upgrade: y", "D: 4"], "Host: a\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n"
    ),
  ]

  @Test(arguments: hops.map { ($0.sentence, $0.lines, $0.left) })
  func theHopTakesWhatIsIts(sentence: String, lines: [String], left: String) {
    #expect(forwarded(lines) == left)
  }

  @Test(arguments: [
    ("Connection: close", "close"), ("Connection: Keep-Alive", "keep-alive"),
    ("Connection: te,upgrade", "upgrade te"), ("Connection: x", ""),
    ("Proxy-Connection: keep-alive", "keep-alive"),
    ("Proxy-Connection: close", "close"), ("Proxy-Connection: upgrade, te", ""),
  ]) func optionsAreHeeded(line: String, said: String) {
    let bytes = octets("GET http://a/ HTTP/1.1\r\nHost: a\r\n\(line)\r\n\r\n")
    var head = RequestHead()
    _ = head.read(bytes.span, limits: usualLimits)
    var words: [String] = []
    if head.options.close { words.append("close") }
    if head.options.keepAlive { words.append("keep-alive") }
    if head.options.upgrade { words.append("upgrade") }
    if head.options.te { words.append("te") }
    #expect(words.joined(separator: " ") == said)
  }

  // MARK: Edits

  @Test func aFieldIsDroppedByItsNumberAndByItsName() {
    let lines = ["X-A: 1", "Cookie: c", "x-a: 2", "Cookie: d", "X-B: 3"]
    #expect(
      forwarded(lines) { fields, _ in fields.drop(.cookie) } == "Host: a\r\nX-A: 1\r\nx-a: 2\r\nX-B: 3\r\n")
    let left = forwarded(lines) { fields, bytes in
      fields.drop(Array("x-a".utf8), in: bytes)
      fields.drop(Array("x-b".utf8), in: bytes)
      fields.drop(Array("x".utf8), in: bytes)
    }
    #expect(left == "Host: a\r\nCookie: c\r\nCookie: d\r\n")
  }

  @Test func aFieldIsThereUnlessItWasDropped() {
    _ = forwarded(["X-A: 1", "X-B: 2", "Connection: x-b"]) { fields, bytes in
      let seen = ["x-a", "x-b", "x-c", "host"].map { fields.contains(Array($0.utf8), in: bytes) }
      #expect(seen == [true, false, false, true])
    }
  }

  @Test func theFirstOfSeveralFieldsIsFound() {
    _ = forwarded(["Via: 1.0 a", "via: 1.1 b"]) { fields, bytes in
      let text = fields.first(.via).map { bytes.extracting($0).string }
      #expect(text == "1.0 a")
      #expect(fields.first(.cookie) == nil)
    }
  }

  @Test func valuesAreTrimmedAndLinesAreNot() {
    let bytes = octets("GET http://a/ HTTP/1.1\r\nHost: a\r\nX: \t a \t b \t\r\nY:\t \r\n\r\n")
    var head = RequestHead()
    _ = head.read(bytes.span, limits: usualLimits)
    let lines = head.fields.lines.map { line in
      [line.name, line.value, line.line].map { bytes.span.extracting($0).string }
    }
    #expect(lines[1] == ["X", "a \t b", "X: \t a \t b \t\r\n"])
    #expect(lines[2] == ["Y", "", "Y:\t \r\n"])
  }

  // MARK: Lists

  @Test(
    arguments: [
      ("", []), (" \t ", []), (",", []), (" , ,\t,", []), ("a", ["a"]), (" a ", ["a"]), ("a,b", ["a", "b"]),
      ("a , b\t,c", ["a", "b", "c"]), (",a,,b,", ["a", "b"]), ("a b, c", ["a b", "c"]),
      ("a\u{ff},b", ["a\u{fffd}", "b"]),
      (",,,,,,,,a", ["a"]), ("a,\t", ["a"]),
    ] as [(String, [String])]) func aListIsWalked(text: String, elements: [String])
  {
    let bytes = octets("<" + text + ">")
    var list = ListElements(1..<bytes.count - 1)
    var seen: [String] = []
    while let element = list.next(bytes.span) { seen.append(bytes.span.extracting(element).string) }
    #expect(seen == elements)
    #expect(list.next(bytes.span) == nil)
  }

  @Test func randomListsAreThoseOfASplit() {
    var generator = SeededGenerator(seed: 3)
    for _ in 0..<2000 {
      let bytes = (0..<Int.random(in: 0...30, using: &generator)).map { _ in
        octets("ab, \t").randomElement(using: &generator) ?? 0
      }
      var list = ListElements(0..<bytes.count)
      var seen: [[UInt8]] = []
      while let element = list.next(bytes.span) { seen.append(Array(bytes[element])) }
      let expected = bytes.split(separator: 0x2c).compactMap { part -> [UInt8]? in
        var part = part
        while part.first == 0x20 || part.first == 0x09 { part.removeFirst() }
        while part.last == 0x20 || part.last == 0x09 { part.removeLast() }
        return part.isEmpty ? nil : Array(part)
      }
      #expect(seen == expected, "\(shown(bytes))")
    }
  }

  // MARK: Characters

  @Test func everyByteIsClassified() {
    let token = Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
    let target = Set(
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?[]@!$&'()*+,;=%\\^`{|}".utf8)
    let scheme = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.".utf8)
    let name = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._".utf8)
    for byte in 0...255 as ClosedRange<UInt8> {
      #expect(byte.isTokenCharacter == token.contains(byte), "\(byte)")
      #expect(byte.isTargetCharacter == target.contains(byte), "\(byte)")
      #expect(byte.isSchemeCharacter == scheme.contains(byte), "\(byte)")
      #expect(byte.isRegisteredNameCharacter == name.contains(byte), "\(byte)")
      #expect(byte.isBlank == (byte == 0x20 || byte == 0x09), "\(byte)")
    }
  }
}

@Suite struct HostAndPortTests {
  @Test(
    arguments: [
      ("a", "a", nil), ("a.example", "a.example", nil), ("A-b_c.9", "A-b_c.9", nil), ("a:80", "a", 80),
      ("a:1", "a", 1),
      ("a:65535", "a", 65535), ("a:00001", "a", 1), ("[::1]", "[::1]", nil), ("[::1]:8080", "[::1]", 8080),
      ("[::ffff:1.2.3.4]:1", "[::ffff:1.2.3.4]", 1), ("1.2.3.4:5", "1.2.3.4", 5), ("a.", "a.", nil),
      ("a:", "a", nil), ("[::1]:", "[::1]", nil),
    ] as [(String, String, UInt16?)]) func isRead(text: String, host: String, port: UInt16?) throws
  {
    let bytes = octets("<" + text + ">")
    let parts = try HostAndPort.read(bytes.span, 1..<bytes.count - 1).get()
    #expect(bytes.span.extracting(parts.host).string == host)
    #expect(parts.port == port)
    // An empty port is not written on.
    let authority = bytes.span.extracting(parts.authority).string
    #expect(authority == (text.hasSuffix(":") ? String(text.dropLast()) : text))
  }

  @Test(arguments: [
    ("", MessageFault.badHost), (":80", .badHost), ("a b", .badHost), ("a%41", .badHost), ("[", .badHost),
    ("[]", .badHost), ("[:]", .badHost), ("[::1", .badHost), ("[::1]a", .badHost), ("[::g]", .badHost),
    ("::1", .badHost), ("a/b", .badHost), ("a@b", .badHost), ("\u{e9}", .badHost),
    ("[fe80::1%eth0]", .badHost),
    ("a:0", .badPort), ("a:65536", .badPort), ("a:99999", .badPort), ("a:000001", .badPort),
    ("a:-1", .badPort), ("a: 1", .badPort), ("a:1 ", .badPort), ("a:0x1", .badPort), ("a:1:2", .badPort),
    ("a:\u{b2}", .badPort),
  ]) func isRefused(text: String, fault: MessageFault) {
    let bytes = octets("<" + text + ">")
    #expect(HostAndPort.read(bytes.span, 1..<bytes.count - 1) == .failure(fault), "\(text)")
  }
}
