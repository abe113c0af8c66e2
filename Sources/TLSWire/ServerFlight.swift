// The first messages of a TLS server: the version that it chose and, up to TLS 1.2, the certificates that it presents
// (RFC 5246, 7.4; RFC 8446, 4.1.3).
//
// Under TLS 1.3 everything after the ServerHello is encrypted, and there is nothing more to see. Below TLS 1.3 the
// server continues in plaintext:
//
//   ServerHello → Certificate → [CertificateStatus] → …            a full handshake: the certificates can be evaluated
//   ServerHello → [NewSessionTicket] → ChangeCipherSpec → …        a session is resumed: no certificate is presented
//   ServerHello → ServerKeyExchange or ServerHelloDone → …         no certificate at all (pre-shared keys, anonymous)
//
// Only the first can be judged exactly. In the second, the keys come from an earlier handshake of that client. An
// attacker on the path cannot resume it without its master secret. But the proxy did not see that handshake, or the
// requirements on it. It is reported separately, so that it counts no more than a TLS 1.3 connection. The third is
// refused.
//
// Tested in ServerFlightTests with the flights of real servers and with built ones; fuzzed as ServerFlight.

import Bytes

/// What a server presented in plaintext.
public struct PresentedCertificates: Equatable, Sendable {
  /// The most certificates of one chain: several times what any public chain has.
  public static let most = 64
  /// The longest handshake message in bytes. OpenSSL accepts certificate lists of up to 100 KiB.
  public static let longestMessage = 128 << 10
  /// The most bytes of an answer until its certificates are complete: one message with them and one with the OCSP
  /// answer.
  public static let longestInput = 2 * longestMessage

  /// DER, leaf first; at least one.
  public let certificates: [[UInt8]]
  /// The OCSPResponse (RFC 6960) for the leaf, DER. nil if the server stapled none, or none was asked for.
  public let stapledResponse: [UInt8]?
}

/// The result for the beginning of a server's bytes.
enum ServerFlightReading: Equatable {
  /// More bytes are needed.
  case incomplete
  /// TLS 1.3. After a HelloRetryRequest the client will send another hello (RFC 8446, 4.1.4).
  case encrypted(isRetryRequest: Bool)
  /// A session of TLS 1.2 or below is resumed.
  case resumed(ProtocolVersion)
  case certificates(ProtocolVersion, PresentedCertificates)
  /// An alert, which ends before `end`, ends the connection.
  case alerted(end: Int)
  case invalid(HandshakeFault)
}

struct ServerFlightReader {
  /// The most warnings before the certificates. Servers that do not know the name send one (RFC 6066, 3) and continue.
  static let mostWarnings = 4

  private enum Phase {
    case serverHello
    case certificates
    /// A ticket has come in place of certificates: a session is resumed.
    case ticket
    case status
  }

  private static let limits = HandshakeMessages.Limits(
    message: PresentedCertificates.longestMessage, messageFault: .messageTooLong,
    input: PresentedCertificates.longestInput, inputFault: .answerTooLong)

  private let offersTLS13: Bool
  private let offersResumption: Bool
  private let wantsStaple: Bool
  private var messages = HandshakeMessages(limits: limits)
  private var phase = Phase.serverHello
  private var version = ProtocolVersion.tls12
  /// What the server chose (IANA, TLS Cipher Suites); nil: its hello has not been read.
  private(set) var cipherSuite: UInt16? = nil
  private var willStaple = false
  private var certificates: [[UInt8]] = []
  private var warnings = 0

  /// Reads the answer to `hello`. If `wantsStaple`, waits for the CertificateStatus message if one will come.
  init(answering hello: ClientHello, wantsStaple: Bool) {
    offersTLS13 = hello.offersTLS13
    offersResumption = hello.offersResumption
    self.wantsStaple = wantsStaple
  }

  /// `input` begins with the first record, and grows with each call. Must not be called again after a final result.
  mutating func read(_ input: Span<UInt8>) -> ServerFlightReading {
    while true {
      let event = messages.next(input)
      do throws(HandshakeFault) {
        let reading =
          switch event {
          case .incomplete: ServerFlightReading?.some(.incomplete)
          case .invalid(let fault): throw fault
          case .message(let type, let place): try readMessage(type, place, input: input)
          case .record(let type, let content): try readRecord(type, input.extracting(content))
          }
        if let reading { return reading }
      } catch {
        return .invalid(error)
      }
    }
  }

  private mutating func readMessage(
    _ type: UInt8, _ place: HandshakeMessages.Place, input: Span<UInt8>
  ) throws(HandshakeFault) -> ServerFlightReading? {
    switch phase {
    case .serverHello:
      guard type == Message.serverHello else { throw .notServerHello }
      return try helloReceived(try ServerHello(messages.body(place, input)))
    case .certificates:
      if type == Message.newSessionTicket {
        guard offersResumption else { throw .resumptionNotOffered }
        phase = .ticket
        return nil
      }
      guard type == Message.certificate else { throw .noCertificate }
      certificates = try Self.certificates(messages.body(place, input))
      if !willStaple || !wantsStaple { return presented(stapledResponse: nil) }
      phase = .status
      return nil
    case .ticket:
      // After the ticket of a resumed session, all messages are encrypted (RFC 5077, 3.1).
      throw .noCertificate
    case .status:
      // A server that has agreed to staple may still have nothing to send (RFC 6066, 8).
      guard type == Message.certificateStatus else { return presented(stapledResponse: nil) }
      return presented(stapledResponse: try Self.stapledResponse(messages.body(place, input)))
    }
  }

  private mutating func readRecord(
    _ type: ContentType, _ content: Span<UInt8>
  ) throws(HandshakeFault) -> ServerFlightReading? {
    // Whatever follows the certificates no longer matters: the verdict on them decides.
    if phase == .status { return presented(stapledResponse: nil) }
    switch type {
    case .alert: return try alerted(content)
    case .changeCipherSpec where phase == .certificates || phase == .ticket: return try resumed()
    case .changeCipherSpec, .applicationData, .handshake: throw .unexpectedRecord
    }
  }

  private mutating func helloReceived(_ hello: ServerHello) throws(HandshakeFault) -> ServerFlightReading? {
    cipherSuite = hello.cipherSuite
    if hello.version == .tls13 {
      guard offersTLS13 else { throw .versionNotOffered }
      return .encrypted(isRetryRequest: hello.isRetryRequest)
    }
    guard hello.showsX509 else { throw .notX509 }
    version = hello.version
    willStaple = hello.willStaple
    phase = .certificates
    return nil
  }

  /// After an alert of level warning, the handshake continues; close_notify and all others end it (RFC 5246, 7.2).
  private mutating func alerted(_ content: Span<UInt8>) throws(HandshakeFault) -> ServerFlightReading? {
    guard content.count == 2 else { throw .malformedAlert }
    let isWarning = content[0] == 1
    let isCloseNotify = content[1] == 0
    if !isWarning || isCloseNotify { return .alerted(end: messages.position) }
    warnings += 1
    if warnings > Self.mostWarnings { throw .tooManyAlerts }
    return nil
  }

  private func resumed() throws(HandshakeFault) -> ServerFlightReading {
    guard offersResumption else { throw .resumptionNotOffered }
    return .resumed(version)
  }

  private func presented(stapledResponse: [UInt8]?) -> ServerFlightReading {
    .certificates(version, PresentedCertificates(certificates: certificates, stapledResponse: stapledResponse))
  }
}

// MARK: Its messages

extension ServerFlightReader {
  private enum Message {
    static let serverHello: UInt8 = 2
    static let newSessionTicket: UInt8 = 4
    static let certificate: UInt8 = 11
    static let certificateStatus: UInt8 = 22
  }

  /// Certificate (RFC 5246, 7.4.2).
  private static func certificates(_ body: Span<UInt8>) throws(HandshakeFault) -> [[UInt8]] {
    var fields = FieldCursor(body, otherwise: .malformedCertificates)
    var list = try fields.vector(lengthBytes: 3)
    guard fields.isAtEnd, !list.isAtEnd else { throw .malformedCertificates }
    var certificates: [[UInt8]] = []
    while !list.isAtEnd {
      if certificates.count == PresentedCertificates.most { throw .tooManyCertificates }
      let certificate = try list.vector(lengthBytes: 3).rest
      guard !certificate.isEmpty else { throw .malformedCertificates }
      certificates.append(certificate.array)
    }
    return certificates
  }

  /// CertificateStatus (RFC 6066, 8), or the first answer of a list for the whole chain (RFC 6961, 2.2): the leaf's,
  /// which may be empty if there is none.
  private static func stapledResponse(_ body: Span<UInt8>) throws(HandshakeFault) -> [UInt8]? {
    var fields = FieldCursor(body, otherwise: .malformedStatus)
    let type = try fields.number(byteCount: 1)
    var content = try fields.vector(lengthBytes: 3)
    guard fields.isAtEnd, !content.isAtEnd else { throw .malformedStatus }
    switch type {
    case 1: return content.rest.array
    case 2:
      let first = try content.vector(lengthBytes: 3).rest
      return first.isEmpty ? nil : first.array
    default: throw .malformedStatus
    }
  }
}

/// ServerHello (RFC 5246, 7.4.1.3; RFC 8446, 4.1.3).
private struct ServerHello {
  /// The chosen version, from the field or from the extension.
  private(set) var version: ProtocolVersion
  /// Only meaningful under TLS 1.3.
  let isRetryRequest: Bool
  let cipherSuite: UInt16
  private(set) var willStaple = false
  private(set) var showsX509 = true
  private var hasChosenVersion = false

  /// SHA-256 of "HelloRetryRequest" in place of the random bytes (RFC 8446, 4.1.3).
  static let retryRequest: [UInt8] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
  ]

  /// The extensions that are read (IANA, TLS ExtensionType Values).
  private enum Extension {
    static let statusRequest = 5
    static let certificateType = 9
    static let severalStatusRequests = 17
    static let serverCertificateType = 20
    static let cachedInformation = 25
    static let supportedVersions = 43
  }

  init(_ body: Span<UInt8>) throws(HandshakeFault) {
    let fault = HandshakeFault.malformedServerHello
    var fields = FieldCursor(body, otherwise: fault)
    let legacyVersion = try fields.version()
    isRetryRequest = try fields.opaque(32).equals(Self.retryRequest.span)
    guard try fields.vector(lengthBytes: 1).rest.count <= 32 else { throw fault }
    cipherSuite = UInt16(try fields.number(byteCount: 2))
    // Compression method.
    _ = try fields.opaque(1)
    version = legacyVersion
    if !fields.isAtEnd {
      var extensions = try fields.vector(lengthBytes: 2)
      guard fields.isAtEnd else { throw fault }
      while !extensions.isAtEnd {
        let type = try extensions.number(byteCount: 2)
        try readExtension(type, try extensions.vector(lengthBytes: 2))
      }
    }
    // The extension selects TLS 1.3, and the field selects older versions, never the other way round (RFC 8446, 4.2.1).
    guard hasChosenVersion ? version == .tls13 : version >= .ssl30 && version <= .tls12 else { throw .unknownVersion }
  }

  private mutating func readExtension(_ type: Int, _ content: consuming FieldCursor) throws(HandshakeFault) {
    switch type {
    case Extension.statusRequest, Extension.severalStatusRequests: willStaple = true
    // With these, the Certificate message may have another layout (RFC 6091, RFC 7250, RFC 7924); 0 is X.509.
    case Extension.certificateType, Extension.serverCertificateType:
      if try content.number(byteCount: 1) != 0 { showsX509 = false }
    case Extension.cachedInformation: showsX509 = false
    case Extension.supportedVersions:
      if hasChosenVersion { throw .repeatedExtension }
      hasChosenVersion = true
      version = try content.version()
      guard content.isAtEnd else { throw .malformedServerHello }
    default: return
    }
  }
}

/// The first bytes of a server's answer as they pass, to see whether it asks for another hello.
struct FirstServerHello {
  /// The end of the random bytes: after the headers of the record and of the message, and the version.
  private static let byteCount = RecordHeader.byteCount + 4 + 2 + 32

  private var seen: [UInt8] = []

  /// `input` is what has arrived since the last call. nil: more is needed. Anything but a ServerHello asks for none.
  mutating func asksForAnotherHello(_ input: Span<UInt8>) -> Bool? {
    for index in 0..<min(input.count, Self.byteCount - seen.count) { seen.append(input[index]) }
    if let type = seen.first, type != ContentType.handshake.rawValue { return false }
    guard seen.count == Self.byteCount else { return nil }
    let isServerHello = seen[RecordHeader.byteCount] == 2
    return isServerHello && seen.span.extracting(last: 32).equals(ServerHello.retryRequest.span)
  }
}
