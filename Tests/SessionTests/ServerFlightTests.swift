// The answer of a server: real ones, the ways it can go, and all that is refused.

import Bytes
import TestSupport
import Testing

@testable import Session
@testable import TLSWire

@Suite struct ServerFlightTests {
  private let memory = GuardedMemory(capacity: 512 << 10)

  /// Shows an answer in pieces, each time all that has come.
  private func read(
    _ pieces: [[UInt8]], answering hello: ClientHello, wantsStaple: Bool = true
  ) -> ServerFlightReading {
    var reader = ServerFlightReader(answering: hello, wantsStaple: wantsStaple)
    var shown: [UInt8] = []
    for piece in pieces {
      shown += piece
      let reading = memory.lend(shown) { reader.read($0) }
      if reading != .incomplete { return reading }
    }
    return .incomplete
  }

  // MARK: Real servers

  struct Answer: Sendable {
    let server: String
    let hello: [UInt8]
    let bytes: [UInt8]
    var wantsStaple = true
    let reading: ServerFlightReading
  }

  private static func shows(_ certificates: [[UInt8]], staple: [UInt8]? = nil) -> ServerFlightReading {
    .certificates(.tls12, PresentedCertificates(certificates: certificates, stapledResponse: staple))
  }

  static let captured = [
    Answer(
      server: "openssl, P-256, stapling", hello: CapturedHello.openssl12, bytes: CapturedFlight.p256Staple,
      reading: shows([CapturedFlight.leafP256, CapturedFlight.root], staple: CapturedFlight.ocspP256)),
    Answer(
      server: "openssl, P-256, stapling that nobody wants", hello: CapturedHello.openssl12,
      bytes: CapturedFlight.p256Staple, wantsStaple: false,
      reading: shows([CapturedFlight.leafP256, CapturedFlight.root])),
    Answer(
      server: "openssl, RSA, stapling", hello: CapturedHello.openssl12, bytes: CapturedFlight.rsaStaple,
      reading: shows([CapturedFlight.leafRSA, CapturedFlight.root], staple: CapturedFlight.ocspRSA)),
    Answer(
      server: "Java, RSA", hello: CapturedHello.openssl12, bytes: CapturedFlight.java,
      reading: shows([CapturedFlight.leafRSA, CapturedFlight.root])),
    Answer(
      server: "openssl, a warning first", hello: CapturedHello.openssl12, bytes: CapturedFlight.unknownName,
      reading: shows([CapturedFlight.leafP256])),
    Answer(
      server: "openssl, by ticket", hello: CapturedHello.openssl12Ticket, bytes: CapturedFlight.resumesTicket,
      reading: .resumed(.tls12)),
    Answer(
      server: "openssl, by session id", hello: CapturedHello.openssl12Session, bytes: CapturedFlight.resumesSession,
      reading: .resumed(.tls12)),
    Answer(
      server: "openssl, a pre-shared key", hello: CapturedHello.openssl12, bytes: CapturedFlight.preSharedKey,
      reading: .invalid(.noCertificate)),
    Answer(
      server: "openssl, a version it does not like", hello: CapturedHello.openssl12, bytes: CapturedFlight.versionAlert,
      reading: .alerted(end: 7)),
    Answer(
      server: "openssl, TLS 1.3", hello: CapturedHello.chromium, bytes: CapturedFlight.tls13,
      reading: .encrypted(isRetryRequest: false)),
    Answer(
      server: "openssl, TLS 1.3 with a HelloRetryRequest", hello: CapturedHello.openssl13Retried,
      bytes: CapturedFlight.tls13Retry, reading: .encrypted(isRetryRequest: true)),
  ]

  @Test(arguments: captured.indices) func ofARealServer(index: Int) {
    let row = Self.captured[index]
    for split in Split.usual {
      let reading = read(split.pieces(row.bytes), answering: hello(row.hello), wantsStaple: row.wantsStaple)
      #expect(reading == row.reading, "\(row.server), \(split)")
    }
  }

  /// Nothing is said before the record that says it is whole, and then nothing changes it.
  @Test(arguments: captured.indices) func isSaidOnceAndForAll(index: Int) {
    let row = Self.captured[index]
    var said: Int? = nil
    for count in 0...row.bytes.count {
      let reading = read([Array(row.bytes[..<count])], answering: hello(row.hello), wantsStaple: row.wantsStaple)
      if reading == .incomplete {
        #expect(said == nil)
      } else {
        #expect(reading == row.reading)
        said = said ?? count
      }
    }
    #expect(said.map { $0 > 5 } == true)
  }

  // MARK: Records

  private static let leaf = CapturedFlight.leafP256
  private static let root = CapturedFlight.root
  private static let ocsp = CapturedFlight.ocspP256
  private static let staples = extended(5, [])

  private static let stapledFlight =
    BuiltAnswer(staples).asMessage + certificates([leaf, root]) + status(ocsp) + message(12, [1, 2, 3])
    + serverHelloDone

  private static let client12 = hello(BuiltHello(named("a.example") + extended(5, [1, 0, 0, 0, 0])).asRecords)
  private static let client12Resuming = hello(BuiltHello(extended(35, [1])).asRecords)
  private static let client13 = hello(BuiltHello(versions(0x0304, 0x0303)).asRecords)

  @Test func inTwoRecordsCutAnywhere() {
    for cut in 1..<Self.stapledFlight.count {
      let bytes = record(22, Array(Self.stapledFlight[..<cut])) + record(22, Array(Self.stapledFlight[cut...]))
      let reading = read([bytes], answering: Self.client12)
      if reading != Self.shows([Self.leaf, Self.root], staple: Self.ocsp) {
        Issue.record("cut at \(cut): \(reading)")
      }
    }
  }

  @Test(arguments: [1, 2, 3, 4, 5, 7, 64, 1000, 16384]) func inRecordsOf(longest: Int) {
    let bytes = records(Self.stapledFlight, longest: longest)
    for split in [Split.whole, .random(seed: 3, longest: 11), .random(seed: 4, longest: 90)] {
      let reading = read(split.pieces(bytes), answering: Self.client12)
      #expect(reading == Self.shows([Self.leaf, Self.root], staple: Self.ocsp), "\(split)")
    }
  }

  // MARK: The ways it can go

  private static let plain = BuiltAnswer().asMessage
  private static let stapling = BuiltAnswer(staples).asMessage
  private static let chain = certificates([leaf, root])
  private static let unstapled = shows([leaf, root])

  private static func version(_ version: Int) -> [UInt8] {
    var answer = BuiltAnswer()
    answer.version = version
    return records(answer.asMessage)
  }

  private static func presents(_ version: ProtocolVersion) -> ServerFlightReading {
    .certificates(version, PresentedCertificates(certificates: [leaf, root], stapledResponse: nil))
  }

  static let taken: [(sentence: String, hello: ClientHello, bytes: [UInt8], reading: ServerFlightReading)] = [
    ("all messages in one record", client12, records(plain + chain + serverHelloDone), unstapled),
    ("a record for each message", client12, records(plain) + records(chain) + records(serverHelloDone), unstapled),
    ("an empty list of extensions", client12, records(BuiltAnswer([]).asMessage + chain), unstapled),
    (
      "an extension that nobody knows", client12, records(BuiltAnswer(extended(4711, [1])).asMessage + chain), unstapled
    ),
    ("one certificate", client12, records(plain + certificates([leaf])), shows([leaf])),
    ("certificates of one byte", client12, records(plain + certificates([[1], [2]])), shows([[1], [2]])),
    (
      "as many certificates as are taken", client12,
      records(plain + certificates([[UInt8]](repeating: [1], count: PresentedCertificates.most))),
      shows([[UInt8]](repeating: [1], count: PresentedCertificates.most))
    ),
    (
      "the longest message", client12,
      records(plain + certificates([[UInt8](repeating: 1, count: PresentedCertificates.longestMessage - 6)])),
      shows([[UInt8](repeating: 1, count: PresentedCertificates.longestMessage - 6)])
    ),
    ("SSL 3.0", client12, version(0x0300) + records(chain), presents(.ssl30)),
    ("TLS 1.0", client12, version(0x0301) + records(chain), presents(.tls10)),
    ("TLS 1.1", client12, version(0x0302) + records(chain), presents(.tls11)),
    ("TLS 1.2 where 1.3 was offered", client13, version(0x0303) + records(chain), presents(.tls12)),
    ("the random bytes of a retry under TLS 1.2", client13, retryRandomUnderTLS12, presents(.tls12)),
    ("TLS 1.3", client13, records(BuiltAnswer.tls13.asMessage), .encrypted(isRetryRequest: false)),
    ("TLS 1.3 with a retry", client13, records(BuiltAnswer.retryRequest.asMessage), .encrypted(isRetryRequest: true)),
    ("TLS 1.3 that names no X.509", client13, records(tls13RawKeys), .encrypted(isRetryRequest: false)),
    // Staples.
    (
      "a staple", client12, records(stapling + chain + status(ocsp)), shows([leaf, root], staple: ocsp)
    ),
    (
      "a staple for the whole chain", client12,
      records(stapling + chain + message(22, [2] + vector(vector(ocsp, 3) + vector([], 3), 3))),
      shows([leaf, root], staple: ocsp)
    ),
    (
      "a staple for the whole chain but for the leaf", client12,
      records(stapling + chain + message(22, [2] + vector(vector([], 3) + vector(ocsp, 3), 3))), unstapled
    ),
    ("a staple agreed on that does not come", client12, records(stapling + chain + message(12, [])), unstapled),
    ("a staple agreed on, and the end", client12, records(stapling + chain + serverHelloDone), unstapled),
    ("a staple agreed on, and an alert", client12, records(stapling + chain) + alert(2, 40), unstapled),
    ("a staple agreed on, and a ChangeCipherSpec", client12, records(stapling + chain) + changeCipherSpec, unstapled),
    ("a staple that was not agreed on", client12, records(plain + chain + status(ocsp)), unstapled),
    // Certificates of another type that turn out to be of none.
    ("X.509 by name", client12, records(BuiltAnswer(extended(20, [0])).asMessage + chain), unstapled),
    ("X.509 by its older name", client12, records(BuiltAnswer(extended(9, [0])).asMessage + chain), unstapled),
    // Sessions.
    ("resumed", client12Resuming, records(plain) + changeCipherSpec, .resumed(.tls12)),
    (
      "resumed with a new ticket", client12Resuming, records(plain + message(4, [0])) + changeCipherSpec,
      .resumed(.tls12)
    ),
    ("offered to resume, and not resumed", client12Resuming, records(plain + chain), unstapled),
    ("resumed under TLS 1.0", client12Resuming, version(0x0301) + changeCipherSpec, .resumed(.tls10)),
    // Alerts.
    ("a fatal alert", client12, alert(2, 40), .alerted(end: 7)),
    ("a fatal alert and more", client12, alert(2, 40) + records(plain + chain), .alerted(end: 7)),
    ("close_notify", client12, alert(1, 0), .alerted(end: 7)),
    ("an alert of no level", client12, alert(0, 0), .alerted(end: 7)),
    ("a warning, then an alert", client12, alert(1, 112) + alert(2, 40), .alerted(end: 14)),
    (
      "an alert behind the ServerHello", client12, records(plain) + alert(2, 40),
      .alerted(end: records(plain).count + 7)
    ),
    ("a warning behind the ServerHello", client12, records(plain) + alert(1, 112) + records(chain), unstapled),
    (
      "as many warnings as are taken", client12,
      alert(1, 112) + alert(1, 112) + alert(1, 112) + alert(1, 112) + records(plain + chain), unstapled
    ),
    // Not all there yet.
    ("nothing", client12, [], .incomplete),
    ("a warning alone", client12, alert(1, 112), .incomplete),
    ("a ServerHello alone", client12, records(plain), .incomplete),
    ("a Certificate that goes on", client12, records(plain) + record(22, Array(chain.dropLast())), .incomplete),
    ("a staple that is to come", client12, records(stapling + chain), .incomplete),
  ]

  private static let retryRandomUnderTLS12: [UInt8] = {
    var answer = BuiltAnswer()
    answer.random = BuiltAnswer.retryRandom
    return records(answer.asMessage + chain)
  }()

  private static let tls13RawKeys = BuiltAnswer(extended(43, [3, 4]) + extended(20, [2])).asMessage

  @Test(arguments: taken.indices) func isTaken(index: Int) {
    let row = Self.taken[index]
    let isLong = row.bytes.count > 8192
    for split in isLong ? [Split.whole, .random(seed: 2, longest: 4000)] : Split.usual {
      #expect(read(split.pieces(row.bytes), answering: row.hello) == row.reading, "\(row.sentence), \(split)")
    }
  }

  // MARK: What is refused

  static let refused: [(sentence: String, hello: ClientHello, bytes: [UInt8], fault: HandshakeFault)] = [
    ("HTTP", client12, octets("HTTP/1.1 400 Bad Request\r\n\r\n"), .plainHTTP),
    ("SSH", client12, octets("SSH-2.0-OpenSSH_9.2\r\n"), .ssh),
    ("a greeting", client12, octets("220 a.example ESMTP\r\n"), .notTLS),
    ("an empty record", client12, record(22, []), .emptyRecord),
    ("a record of 16 KiB and one byte", client12, [22, 3, 3, 0x40, 0x01], .oversizedRecord),
    ("application data", client12, record(23, [1]), .unexpectedRecord),
    ("a ChangeCipherSpec first", client12Resuming, changeCipherSpec, .unexpectedRecord),
    ("application data behind the ServerHello", client12, records(plain) + record(23, [1]), .unexpectedRecord),
    ("an alert within a message", client12, record(22, [2, 0, 0]) + alert(2, 40), .interleavedRecord),
    (
      "a ChangeCipherSpec within the Certificate", client12Resuming,
      records(plain) + record(22, [11, 0, 0]) + changeCipherSpec, .interleavedRecord
    ),
    ("an alert of one byte", client12, record(21, [2]), .malformedAlert),
    ("two alerts in one record", client12, record(21, [1, 112, 2, 40]), .malformedAlert),
    (
      "one warning more than are taken", client12,
      alert(1, 112) + alert(1, 112) + alert(1, 112) + alert(1, 112) + alert(1, 112), .tooManyAlerts
    ),
    (
      "warnings on both sides of the ServerHello", client12,
      alert(1, 112) + alert(1, 90) + alert(1, 1) + records(plain) + alert(1, 112) + alert(1, 112), .tooManyAlerts
    ),
    ("a ClientHello", client12, BuiltHello().asRecords, .notServerHello),
    ("a HelloRequest", client12, records(message(0, [])), .notServerHello),
    ("a Certificate first", client12, records(chain), .notServerHello),
    ("a ServerKeyExchange first", client12, records(message(12, [])), .notServerHello),
    ("an empty ServerHello", client12, records(message(2, [])), .malformedServerHello),
    ("a ServerHello cut short", client12, records(message(2, BuiltAnswer().body.dropLast())), .malformedServerHello),
    (
      "something behind the extensions", client12, records(message(2, BuiltAnswer([]).body + [0])),
      .malformedServerHello
    ),
    ("half a length of extensions", client12, records(message(2, BuiltAnswer().body + [0])), .malformedServerHello),
    ("an extension that is too long", client12, records(BuiltAnswer([0, 5, 0, 1]).asMessage), .malformedServerHello),
    ("a session id of 33 bytes", client12, longSession, .malformedServerHello),
    ("half a version", client13, records(BuiltAnswer(extended(43, [3])).asMessage), .malformedServerHello),
    (
      "a version and something behind it", client13, records(BuiltAnswer(extended(43, [3, 4, 3])).asMessage),
      .malformedServerHello
    ),
    (
      "TLS 1.3 twice", client13, records(BuiltAnswer(extended(43, [3, 4]) + extended(43, [3, 4])).asMessage),
      .repeatedExtension
    ),
    ("TLS 1.2 by the extension", client13, records(BuiltAnswer(extended(43, [3, 3])).asMessage), .unknownVersion),
    ("a draft of TLS 1.3", client13, records(BuiltAnswer(extended(43, [0x7f, 0x1c])).asMessage), .unknownVersion),
    ("TLS 1.4", client13, records(BuiltAnswer(extended(43, [3, 5])).asMessage), .unknownVersion),
    ("TLS 1.3 by the field", client13, version(0x0304), .unknownVersion),
    ("SSL 2.0", client12, version(0x0200), .unknownVersion),
    ("DTLS 1.2", client12, version(0xfefd), .unknownVersion),
    ("TLS 1.3 that was not offered", client12, records(BuiltAnswer.tls13.asMessage), .versionNotOffered),
    ("a retry that was not offered", client12, records(BuiltAnswer.retryRequest.asMessage), .versionNotOffered),
    ("resumed, which was not offered", client12, records(plain) + changeCipherSpec, .resumptionNotOffered),
    ("a ticket, which was not offered", client12, records(plain + message(4, [0])), .resumptionNotOffered),
    ("a ServerKeyExchange without a certificate", client12, records(plain + message(12, [])), .noCertificate),
    ("a CertificateRequest without a certificate", client12, records(plain + message(13, [])), .noCertificate),
    ("the end without a certificate", client12, records(plain + serverHelloDone), .noCertificate),
    ("a second ServerHello", client12, records(plain + plain), .noCertificate),
    ("a staple without a certificate", client12, records(stapling + status(ocsp)), .noCertificate),
    ("a raw public key", client12, records(BuiltAnswer(extended(20, [2])).asMessage + chain), .notX509),
    ("OpenPGP", client12, records(BuiltAnswer(extended(9, [1])).asMessage + chain), .notX509),
    ("cached certificates", client12, records(BuiltAnswer(extended(25, [])).asMessage + chain), .notX509),
    (
      "a type of certificates that is empty", client12, records(BuiltAnswer(extended(20, [])).asMessage),
      .malformedServerHello
    ),
    ("no certificates", client12, records(plain + certificates([])), .malformedCertificates),
    ("an empty certificate", client12, records(plain + certificates([[1], []])), .malformedCertificates),
    ("an empty Certificate message", client12, records(plain + message(11, [])), .malformedCertificates),
    (
      "a certificate that is longer than the list", client12, records(plain + message(11, vector([0, 0, 2, 1], 3))),
      .malformedCertificates
    ),
    (
      "a list that is longer than the message", client12, records(plain + message(11, [0, 0, 5, 0, 0, 1, 1])),
      .malformedCertificates
    ),
    (
      "something behind the list", client12, records(plain + message(11, vector(vector([1], 3), 3) + [0])),
      .malformedCertificates
    ),
    (
      "the Certificate of TLS 1.3", client12,
      records(plain + message(11, [0] + vector(vector(leaf, 3) + vector([], 2), 3))), .malformedCertificates
    ),
    (
      "one certificate more than are taken", client12,
      records(plain + certificates([[UInt8]](repeating: [1], count: PresentedCertificates.most + 1))),
      .tooManyCertificates
    ),
    (
      "a staple of another type", client12, records(stapling + chain + message(22, [3] + vector([1], 3))),
      .malformedStatus
    ),
    ("an empty staple", client12, records(stapling + chain + message(22, [1] + vector([], 3))), .malformedStatus),
    (
      "an empty list of staples", client12, records(stapling + chain + message(22, [2] + vector([], 3))),
      .malformedStatus
    ),
    (
      "a staple and something behind it", client12, records(stapling + chain + message(22, [1] + vector([1], 3) + [0])),
      .malformedStatus
    ),
    (
      "a list of staples cut short", client12, records(stapling + chain + message(22, [2] + vector([0, 0, 2, 1], 3))),
      .malformedStatus
    ),
    ("a message of 16 MiB", client12, records(plain) + record(22, [11, 0xff, 0xff, 0xff]), .messageTooLong),
    (
      "one byte more than the longest message", client12,
      records(plain + certificates([[UInt8](repeating: 1, count: PresentedCertificates.longestMessage - 5)])),
      .messageTooLong
    ),
    (
      "60 KiB in records of one byte", client12,
      records(plain + certificates([[UInt8](repeating: 1, count: 60 << 10)]), longest: 1), .answerTooLong
    ),
  ]

  private static let longSession: [UInt8] = {
    var answer = BuiltAnswer()
    answer.session = [UInt8](repeating: 1, count: 33)
    return records(answer.asMessage)
  }()

  @Test(arguments: refused.indices) func isRefused(index: Int) {
    let row = Self.refused[index]
    let isLong = row.bytes.count > 8192
    for split in isLong ? [Split.whole, .random(seed: 2, longest: 4000)] : Split.usual {
      #expect(read(split.pieces(row.bytes), answering: row.hello) == .invalid(row.fault), "\(row.sentence), \(split)")
    }
    let more = row.bytes + records(Self.plain + Self.chain)
    #expect(read([more], answering: row.hello) == .invalid(row.fault), "\(row.sentence), and more")
  }
}
