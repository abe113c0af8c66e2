// All reasons to refuse the beginning of a TLS connection, from either side. Nothing is repaired: a proxy that forwards
// what it cannot read has decided nothing.

/// Why a handshake is refused. The raw value is the stable word for logs and tests; `sentence` is for people.
public enum HandshakeFault: String, Error, Equatable, Sendable, CaseIterable {
  // Not TLS at all.
  case plainHTTP = "plain-http"
  case ssh = "ssh"
  case sslv2 = "sslv2-hello"
  case notTLS = "not-tls"
  // Records (RFC 8446, 5.1).
  case emptyRecord = "empty-record"
  case oversizedRecord = "oversized-record"
  case interleavedRecord = "interleaved-record"
  case unexpectedRecord = "unexpected-record"
  case alertBeforeHello = "alert-before-hello"
  // The ClientHello (RFC 8446, 4.1.2).
  case notClientHello = "not-client-hello"
  case malformedClientHello = "malformed-client-hello"
  case clientHelloTooLong = "client-hello-too-long"
  case clientHelloTooScattered = "client-hello-too-scattered"
  case bytesBehindClientHello = "bytes-behind-client-hello"
  case repeatedExtension = "repeated-extension"
  // The server name in it (RFC 6066, 3).
  case malformedServerName = "malformed-server-name"
  case serverNameEndsInDot = "server-name-ends-in-dot"
  case severalServerNames = "several-server-names"
  // The answer of the server (RFC 5246, 7.4).
  case spokeFirst = "spoke-first"
  case notServerHello = "not-server-hello"
  case malformedServerHello = "malformed-server-hello"
  case unknownVersion = "unknown-version"
  case versionNotOffered = "version-not-offered"
  case resumptionNotOffered = "resumption-not-offered"
  case noCertificate = "no-certificate"
  case malformedCertificates = "malformed-certificates"
  case tooManyCertificates = "too-many-certificates"
  case notX509 = "not-x509"
  case malformedStatus = "malformed-status"
  case malformedAlert = "malformed-alert"
  case tooManyAlerts = "too-many-alerts"
  case messageTooLong = "message-too-long"
  case answerTooLong = "answer-too-long"
  // Either.
  case truncated = "truncated"

  /// What was expected and what was seen, as the rest of "the client's TLS handshake …" or "the server's …".
  public var sentence: String {
    switch self {
    case .plainHTTP: "is plain HTTP where TLS was expected"
    case .ssh: "is SSH where TLS was expected"
    case .sslv2: "begins with a hello of SSL 2.0, which has no place for a server name"
    case .notTLS: "is no TLS: a record begins with its type (20 to 23) and major version 3"
    case .emptyRecord: "has a record that carries nothing"
    case .oversizedRecord: "has a record that claims more than the 16 KiB that TLS allows"
    case .interleavedRecord: "has a record of another type in the middle of a handshake message"
    case .unexpectedRecord: "has a record of another type where a handshake message was expected"
    case .alertBeforeHello: "begins with an alert where a ClientHello was expected"
    case .notClientHello: "has another handshake message where a ClientHello was expected"
    case .malformedClientHello: "has a ClientHello whose fields do not fit into it as RFC 8446 lays them out"
    case .clientHelloTooLong: "has a ClientHello of more than \(ClientHello.longest >> 10) KiB"
    case .clientHelloTooScattered:
      "has a ClientHello in so many records that they come to more than \(ClientHello.longestInput >> 10) KiB"
    case .bytesBehindClientHello: "has a record in which something follows the ClientHello"
    case .repeatedExtension: "has an extension twice in one hello"
    case .malformedServerName: "has a server name that is no host name"
    case .serverNameEndsInDot: "has a server name that ends in a dot, which RFC 6066 does not allow"
    case .severalServerNames: "has more than one server name"
    case .spokeFirst: "came before the client had said anything, which no TLS server does"
    case .notServerHello: "has another handshake message where a ServerHello was expected"
    case .malformedServerHello: "has a ServerHello whose fields do not fit into it as RFC 8446 lays them out"
    case .unknownVersion: "chooses a version that is none of SSL 3.0 to TLS 1.3"
    case .versionNotOffered: "chooses TLS 1.3, which the client did not offer"
    case .resumptionNotOffered: "resumes a session where the client offered none"
    case .noCertificate: "goes on without a certificate of the server"
    case .malformedCertificates: "has a Certificate message whose lengths do not add up, or with no certificate in it"
    case .tooManyCertificates: "has more than \(PresentedCertificates.most) certificates"
    case .notX509: "agrees on certificates that are not X.509"
    case .malformedStatus: "has a CertificateStatus message that is not laid out as RFC 6066 and RFC 6961 say"
    case .malformedAlert: "has an alert that is not two bytes"
    case .tooManyAlerts: "has more than \(ServerFlightReader.mostWarnings) warnings before its certificate"
    case .messageTooLong: "has a handshake message of more than \(PresentedCertificates.longestMessage >> 10) KiB"
    case .answerTooLong:
      "comes to more than \(PresentedCertificates.longestInput >> 10) KiB before its certificates are complete"
    case .truncated: "ends before it is complete"
    }
  }
}
