// The first message of a client: real ones, ones that no client sends but that are allowed, and all that is refused.

import Bytes
import TestSupport
import Testing

@testable import Session
@testable import TLSWire

@Suite struct ClientHelloTests {
  private let memory = GuardedMemory()

  // MARK: Real clients

  struct Seen: Sendable {
    let client: String
    let bytes: [UInt8]
    var name: String? = "a.example"
    var offersTLS13 = true
    var offersResumption = true
    var asksForStaple = false
    var hasEncryptedClientHello = false
    var protocols: [String] = []
  }

  static let captured = [
    Seen(
      client: "Chromium", bytes: CapturedHello.chromium, asksForStaple: true, hasEncryptedClientHello: true,
      protocols: ["h2", "http/1.1"]),
    Seen(
      client: "Chromium to an address", bytes: CapturedHello.chromiumToAddress, name: nil, asksForStaple: true,
      hasEncryptedClientHello: true, protocols: ["h2", "http/1.1"]),
    Seen(client: "curl", bytes: CapturedHello.curl, protocols: ["h2", "http/1.1"]),
    Seen(client: "curl to an address", bytes: CapturedHello.curlToAddress, name: nil, protocols: ["h2", "http/1.1"]),
    Seen(client: "git", bytes: CapturedHello.git, asksForStaple: true, protocols: ["h2", "http/1.1"]),
    Seen(client: "wget", bytes: CapturedHello.wget, asksForStaple: true),
    Seen(client: "BusyBox", bytes: CapturedHello.busybox, offersTLS13: false, offersResumption: false),
    Seen(client: "Java", bytes: CapturedHello.java, asksForStaple: true),
    Seen(client: "Node", bytes: CapturedHello.node, protocols: ["http/1.1"]),
    Seen(client: "Python", bytes: CapturedHello.python),
    Seen(
      client: "openssl, TLS 1.2", bytes: CapturedHello.openssl12, offersTLS13: false, offersResumption: false,
      asksForStaple: true),
    Seen(client: "openssl with a ticket", bytes: CapturedHello.openssl12Ticket, offersTLS13: false),
    Seen(client: "openssl with a session", bytes: CapturedHello.openssl12Session, offersTLS13: false),
  ]

  @Test(arguments: captured.indices) func ofARealClient(index: Int) throws {
    let row = Self.captured[index]
    for split in Split.usual {
      let reading = readHello(split.pieces(row.bytes), memory)
      guard case .complete(let hello, let end) = reading else {
        Issue.record("\(row.client), \(split): \(reading)")
        continue
      }
      #expect(end == row.bytes.count)
      #expect(hello.legacyVersion == .tls12)
      #expect(hello.serverName == row.name.map(octets), "\(row.client)")
      #expect(hello.offersTLS13 == row.offersTLS13, "\(row.client)")
      #expect(hello.offersResumption == row.offersResumption, "\(row.client)")
      #expect(hello.asksForStaple == row.asksForStaple, "\(row.client)")
      #expect(hello.hasEncryptedClientHello == row.hasEncryptedClientHello, "\(row.client)")
      #expect(hello.applicationProtocols == row.protocols, "\(row.client)")
    }
  }

  @Test(arguments: captured.indices) func isIncompleteUpToItsLastByte(index: Int) {
    let bytes = Self.captured[index].bytes
    for count in 0..<bytes.count where readHello([Array(bytes[..<count])], memory) != .incomplete {
      Issue.record("complete with \(count) of \(bytes.count) bytes")
    }
  }

  @Test func endsBeforeWhatFollowsIt() {
    for index in Self.captured.indices {
      let bytes = Self.captured[index].bytes
      for trailing in [changeCipherSpec, record(23, [1, 2, 3]), bytes, [0x47], [0xff, 0xff]] {
        let reading = readHello([bytes + trailing], memory)
        #expect(reading == .complete(hello(bytes), end: bytes.count))
      }
    }
  }

  // MARK: Records

  @Test func inTwoRecordsCutAnywhere() {
    let message = Array(CapturedHello.chromium.dropFirst(RecordHeader.byteCount))
    let whole = hello(CapturedHello.chromium)
    for cut in 1..<message.count {
      let bytes = record(22, Array(message[..<cut]), version: 0x0301) + record(22, Array(message[cut...]))
      let reading = readHello([bytes], memory)
      if reading != .complete(whole, end: bytes.count) { Issue.record("cut at \(cut): \(reading)") }
    }
  }

  @Test(arguments: [1, 2, 3, 4, 5, 7, 64, 1000]) func inRecordsOf(longest: Int) {
    for row in Self.captured {
      let bytes = records(Array(row.bytes.dropFirst(RecordHeader.byteCount)), longest: longest)
      for split in [Split.whole, .bytewise, .random(seed: 3, longest: 11)] {
        let reading = readHello(split.pieces(bytes), memory)
        #expect(reading == .complete(hello(row.bytes), end: bytes.count), "\(row.client), \(split)")
      }
    }
  }

  @Test(arguments: [0x0300, 0x0301, 0x0303, 0x0304, 0x03ff]) func theMinorVersionOfTheRecordMeansNothing(version: Int) {
    let bytes = record(22, BuiltHello().asMessage, version: version)
    #expect(readHello([bytes], memory) == .complete(hello(bytes), end: bytes.count))
  }

  // MARK: What is allowed

  static let grease = [0x0a0a, 0x1a1a, 0xfafa]
  /// Key shares of 40 KiB: more than one record holds.
  static let large = BuiltHello(
    extended(51, vector(number(0x0a0a, 2) + vector([UInt8](repeating: 0x2a, count: 40 << 10), 2), 2))
      + named("a.example") + versions(0x0304))

  static let allowed: [(sentence: String, hello: BuiltHello, name: String?, offersTLS13: Bool)] = [
    ("no extensions at all", BuiltHello(nil), nil, false),
    ("an empty list of extensions", BuiltHello([]), nil, false),
    ("a name in capitals", BuiltHello(named("A.ExAmple")), "a.example", false),
    ("a name of one label", BuiltHello(named("localhost")), "localhost", false),
    ("a name with an underscore", BuiltHello(named("a_b.example")), "a_b.example", false),
    ("a name of an A-label", BuiltHello(named("xn--bcher-kva.example")), "xn--bcher-kva.example", false),
    (
      "the longest name", BuiltHello(named(String(repeating: "a", count: 255))), String(repeating: "a", count: 255),
      false
    ),
    ("TLS 1.3 among GREASE", BuiltHello(versions(0x0a0a, 0x0303, 0x0304)), nil, true),
    ("TLS 1.2 alone, in the extension", BuiltHello(versions(0x0303)), nil, false),
    (
      "GREASE extensions, one of them twice",
      BuiltHello(grease.flatMap { extended($0, []) } + named("a.example") + extended(0x0a0a, [0])), "a.example", false
    ),
    ("an extension that nobody knows, twice", BuiltHello(extended(4711, []) + extended(4711, [])), nil, false),
    ("40 KiB of key shares", large, "a.example", true),
    ("one byte more than a record", BuiltHello().padded(to: 16 << 10), "a.example", false),
    ("the longest hello", BuiltHello().padded(to: ClientHello.longest), "a.example", false),
  ]

  @Test(arguments: allowed.indices) func isAllowed(index: Int) throws {
    let row = Self.allowed[index]
    for split in [Split.whole, .random(seed: 1, longest: 5000), .random(seed: 2, longest: 90)] {
      let bytes = row.hello.asRecords
      let reading = readHello(split.pieces(bytes), memory)
      guard case .complete(let hello, let end) = reading else {
        Issue.record("\(row.sentence), \(split): \(reading)")
        return
      }
      #expect(end == bytes.count)
      #expect(hello.serverName == row.name.map(octets), "\(row.sentence)")
      #expect(hello.offersTLS13 == row.offersTLS13, "\(row.sentence)")
    }
  }

  @Test(arguments: [0x0300, 0x0301, 0x0302, 0x0303, 0x0304]) func ofVersion(version: Int) {
    var built = BuiltHello()
    built.version = version
    #expect(hello(built.asRecords).legacyVersion.rawValue == UInt16(version))
  }

  static let offers: [(sentence: String, hello: BuiltHello, holds: @Sendable (ClientHello) -> Bool)] = [
    ("nothing to resume", BuiltHello(extended(35, [])), { !$0.offersResumption }),
    ("a ticket", BuiltHello(extended(35, [1])), { $0.offersResumption }),
    ("no stapling", BuiltHello(named("a.example")), { !$0.asksForStaple }),
    ("stapling", BuiltHello(extended(5, [1, 0, 0, 0, 0])), { $0.asksForStaple }),
    ("stapling for the whole chain", BuiltHello(extended(17, [0, 0])), { $0.asksForStaple }),
    ("ECH", BuiltHello(extended(0xfe0d, [0, 1])), { $0.hasEncryptedClientHello }),
    ("no ECH", BuiltHello(extended(0xfe0c, [0, 1])), { !$0.hasEncryptedClientHello }),
    ("one protocol", BuiltHello(protocols("h2")), { $0.applicationProtocols == ["h2"] }),
    (
      "protocols of all lengths", BuiltHello(protocols("x", String(repeating: "y", count: 255), "\u{a}\u{a}")),
      { $0.applicationProtocols == ["x", String(repeating: "y", count: 255), "\u{a}\u{a}"] }
    ),
    (
      "a protocol that is no text", BuiltHello(protocols("\u{ff}")),
      { $0.applicationProtocols == ["\u{fffd}"] }
    ),
  ]

  @Test(arguments: offers.indices) func says(index: Int) {
    let row = Self.offers[index]
    #expect(row.holds(hello(row.hello.asRecords)), "\(row.sentence)")
  }

  // MARK: What is refused

  private static func built(_ change: (inout BuiltHello) -> Void) -> [UInt8] {
    var hello = BuiltHello()
    change(&hello)
    return hello.asRecords
  }

  private static func extensions(_ extensions: [UInt8]) -> [UInt8] { BuiltHello(extensions).asRecords }

  private static func nameList(_ list: [UInt8]) -> [UInt8] { extensions(extended(0, list)) }

  static let refusedHellos: [(sentence: String, bytes: [UInt8], fault: HandshakeFault)] = [
    ("a version of major 2", built { $0.version = 0x0200 }, .malformedClientHello),
    ("a version of DTLS", built { $0.version = 0xfefd }, .malformedClientHello),
    ("a session id of 33 bytes", built { $0.session = [UInt8](repeating: 1, count: 33) }, .malformedClientHello),
    ("no cipher suites", built { $0.suites = [] }, .malformedClientHello),
    ("half a cipher suite", built { $0.suites = [0x13] }, .malformedClientHello),
    ("no compression method", built { $0.compression = [] }, .malformedClientHello),
    (
      "something behind the extensions", records(message(1, BuiltHello().body + [0])), .malformedClientHello
    ),
    ("one byte of extensions", records(message(1, BuiltHello(nil).body + [0])), .malformedClientHello),
    (
      "extensions that are longer than the hello", records(message(1, BuiltHello(nil).body + [0, 1])),
      .malformedClientHello
    ),
    ("an extension that is longer than the list", extensions([0, 99, 0, 1]), .malformedClientHello),
    ("half an extension", extensions([0, 99, 0]), .malformedClientHello),
    ("a name twice", extensions(named("a.example") + named("a.example")), .repeatedExtension),
    ("two names in two extensions", extensions(named("a.example") + named("b.example")), .repeatedExtension),
    ("versions twice", extensions(versions(0x0304) + versions(0x0303)), .repeatedExtension),
    ("ALPN twice", extensions(protocols("h2") + protocols("h2")), .repeatedExtension),
    ("a ticket twice", extensions(extended(35, []) + extended(35, [])), .repeatedExtension),
    ("stapling twice", extensions(extended(5, []) + extended(5, [])), .repeatedExtension),
    ("stapling for the chain twice", extensions(extended(17, []) + extended(17, [])), .repeatedExtension),
    ("ECH twice", extensions(extended(0xfe0d, []) + extended(0xfe0d, [])), .repeatedExtension),
    ("two names in one list", nameList(vector([0, 0, 1, 0x61, 0, 0, 1, 0x62], 2)), .severalServerNames),
    ("a name and a name of another type", nameList(vector([0, 0, 1, 0x61, 1, 0, 1, 0x62], 2)), .severalServerNames),
    ("a name of another type", nameList(vector([1, 0, 1, 0x61], 2)), .malformedServerName),
    ("an empty list of names", nameList([0, 0]), .malformedClientHello),
    ("an extension of no names", nameList([]), .malformedClientHello),
    ("something behind the list of names", nameList(vector([0, 0, 1, 0x61], 2) + [0]), .malformedServerName),
    ("an empty name", nameList(vector([0, 0, 0], 2)), .malformedServerName),
    ("a name that is longer than its list", nameList(vector([0, 0, 2, 0x61], 2)), .malformedClientHello),
    ("a name with a space", extensions(named("a b.example")), .malformedServerName),
    ("a name with a NUL", extensions(named("a.example\u{0}")), .malformedServerName),
    ("a name with DEL", extensions(named("a\u{7f}.example")), .malformedServerName),
    ("a name above ASCII", extensions(named("b\u{fc}cher.example")), .malformedServerName),
    ("a name of 256 bytes", extensions(named(String(repeating: "a", count: 256))), .malformedServerName),
    ("a name with a dot behind it", extensions(named("a.example.")), .serverNameEndsInDot),
    ("a dot", extensions(named(".")), .serverNameEndsInDot),
    ("no versions", extensions(extended(43, [0])), .malformedClientHello),
    ("half a version", extensions(extended(43, [1, 3])), .malformedClientHello),
    ("something behind the versions", extensions(extended(43, [2, 3, 4, 0])), .malformedClientHello),
    ("no protocols", extensions(extended(16, [0, 0])), .malformedClientHello),
    ("an empty protocol", extensions(protocols("h2", "")), .malformedClientHello),
    ("a protocol that is longer than the list", extensions(extended(16, [0, 2, 2, 0x68])), .malformedClientHello),
    ("something behind the protocols", extensions(extended(16, [0, 2, 1, 0x68, 0])), .malformedClientHello),
    ("a ServerHello", records(message(2, BuiltHello().body)), .notClientHello),
    ("a message of type 0", records(message(0, [])), .notClientHello),
    ("a second message in its record", records(BuiltHello().asMessage + [0]), .bytesBehindClientHello),
    ("two hellos in one record", records(BuiltHello().asMessage + BuiltHello().asMessage), .bytesBehindClientHello),
    (
      "one byte more than the longest", records(message(1, [UInt8](repeating: 0, count: ClientHello.longest + 1))),
      .clientHelloTooLong
    ),
    ("a length of 16 MiB", record(22, [1, 0xff, 0xff, 0xff]), .clientHelloTooLong),
    ("a length of 16 MiB, cut", record(22, [1, 0xff]) + record(22, [0xff, 0xff]), .clientHelloTooLong),
    (
      "40 KiB in records of two bytes", records(large.asMessage, longest: 2), .clientHelloTooScattered
    ),
  ]

  @Test(arguments: refusedHellos.indices) func isRefused(index: Int) {
    let row = Self.refusedHellos[index]
    let isLong = row.bytes.count > 4096
    for split in isLong ? [Split.whole, .random(seed: 2, longest: 4000)] : Split.usual {
      #expect(readHello(split.pieces(row.bytes), memory) == .invalid(row.fault), "\(row.sentence), \(split)")
    }
    #expect(readHello([row.bytes + BuiltHello().asRecords], memory) == .invalid(row.fault), "\(row.sentence), and more")
  }

  /// A body that ends early never passes for another one.
  @Test func isRefusedWhereverItIsCutShort() {
    for row in Self.captured {
      let body = Array(row.bytes.dropFirst(9))
      let afterSuites = 35 + Int(body[34]) + 2 + Int(body[35 + Int(body[34])]) << 8 + Int(body[36 + Int(body[34])])
      let withoutExtensions = afterSuites + 1 + Int(body[afterSuites])
      for count in 0..<body.count where count != withoutExtensions {
        let reading = readHello([records(message(1, Array(body[..<count])))], memory)
        if reading != .invalid(.malformedClientHello) { Issue.record("\(row.client), \(count) bytes: \(reading)") }
      }
      #expect(readHello([records(message(1, Array(body[..<withoutExtensions])))], memory) != .incomplete)
    }
  }

  // MARK: Records that are refused

  static let refusedRecords: [(sentence: String, bytes: [UInt8], fault: HandshakeFault)] = [
    ("an empty record", record(22, []), .emptyRecord),
    ("an empty record behind a piece", record(22, [1, 0]) + record(22, []), .emptyRecord),
    ("an empty alert", record(21, []), .emptyRecord),
    ("a record of 16 KiB and one byte", [22, 3, 1, 0x40, 0x01], .oversizedRecord),
    ("a record of 64 KiB", [22, 3, 1, 0xff, 0xff], .oversizedRecord),
    ("early data of more than 16 KiB and 256 bytes", [23, 3, 3, 0x41, 0x01], .oversizedRecord),
    ("an alert", alert(2, 40), .alertBeforeHello),
    ("a ChangeCipherSpec", changeCipherSpec, .unexpectedRecord),
    ("application data", record(23, [1]), .unexpectedRecord),
    ("a heartbeat", record(24, [1]), .notTLS),
    ("an alert within the hello", record(22, [1, 0, 0, 9]) + alert(2, 40), .interleavedRecord),
    ("a ChangeCipherSpec within the hello", record(22, [1]) + changeCipherSpec, .interleavedRecord),
    ("no record behind a piece", record(22, [1, 0]) + octets("GET / HTTP/1.1"), .notTLS),
    ("a record of SSL 2.0's version", [22, 2, 0, 0, 1, 1], .notTLS),
    ("a record of DTLS", [22, 0xfe, 0xff, 0, 0, 0, 0], .notTLS),
    ("a hello of SSL 2.0", hexadecimal("802e0100020015000000100100800200800300800400800500800600"), .sslv2),
    ("a long hello of SSL 2.0", hexadecimal("ffff01030100"), .sslv2),
    ("another message of SSL 2.0", hexadecimal("802e0400"), .notTLS),
    ("GET", octets("GET / HTTP/1.1\r\n"), .plainHTTP),
    ("HEAD", octets("HEAD / HTTP/1.1\r\n"), .plainHTTP),
    ("POST", octets("POST / HTTP/1.1\r\n"), .plainHTTP),
    ("PUT", octets("PUT / HTTP/1.1\r\n"), .plainHTTP),
    ("DELETE", octets("DELETE / HTTP/1.1\r\n"), .plainHTTP),
    ("CONNECT", octets("CONNECT a.example:443 HTTP/1.1\r\n"), .plainHTTP),
    ("OPTIONS", octets("OPTIONS * HTTP/1.1\r\n"), .plainHTTP),
    ("TRACE", octets("TRACE / HTTP/1.1\r\n"), .plainHTTP),
    ("PATCH", octets("PATCH / HTTP/1.1\r\n"), .plainHTTP),
    ("HTTP/2 without TLS", octets("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), .plainHTTP),
    ("SSH", octets("SSH-2.0-OpenSSH_9.2\r\n"), .ssh),
    ("a method that nobody knows", octets("GETS / HTTP/1.1\r\n"), .notTLS),
    ("a word", octets("EHLO a.example\r\n"), .notTLS),
    ("a line end", octets("\r\n"), .notTLS),
    ("zeros", [0, 0, 0, 0], .notTLS),
  ]

  @Test(arguments: refusedRecords.indices) func aRecordIsRefused(index: Int) {
    let row = Self.refusedRecords[index]
    for split in Split.usual {
      #expect(readHello(split.pieces(row.bytes), memory) == .invalid(row.fault), "\(row.sentence), \(split)")
    }
  }

  /// The first byte alone decides, unless it may still become one of the things that are told apart.
  @Test func anyFirstByte() {
    let waits = Set([20, 21, 22, 23]).union(octets("GHPDCOTS").map(Int.init)).union(0x80...0xff)
    for byte in 0...255 {
      let expected: ClientHelloReading = waits.contains(byte) ? .incomplete : .invalid(.notTLS)
      #expect(readHello([[UInt8(byte)]], memory) == expected, "\(byte)")
    }
  }

  /// Once it is refused, more bytes do not change why.
  @Test func aRefusalDoesNotDependOnWhatFollows() {
    for row in Self.refusedRecords {
      for trailing in [[0], octets("more"), BuiltHello().asRecords] {
        #expect(readHello([row.bytes + trailing], memory) == .invalid(row.fault), "\(row.sentence)")
      }
    }
  }

  // MARK: What is said

  @Test func everyFaultHasAWordAndASentenceOfItsOwn() {
    let sentences = HandshakeFault.allCases.map(\.sentence)
    #expect(Set(sentences).count == sentences.count)
    for fault in HandshakeFault.allCases {
      #expect(fault.rawValue.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x2d })
      #expect(fault.sentence.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f } && !fault.sentence.hasSuffix("."))
    }
    #expect(HandshakeFault.clientHelloTooLong.sentence == "has a ClientHello of more than 64 KiB")
  }
}
