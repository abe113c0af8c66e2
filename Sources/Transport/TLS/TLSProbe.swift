// Gets the certificates that a server shows, for `sallyport pin`: looks up, connects, shakes hands, hangs up. It blocks
// where the loops never do, all steps up to one deadline, and is for commands only.
//
// It accepts any version, cipher and key of the server, verifies nothing and sends nothing after the handshake. The
// caller decides what the certificates are worth, from the chain that this returns. Tests: test_pin.py.

import CLinux
import Bytes
import COpenSSL
import Glibc

/// What a server showed.
public struct ServerCertificates: Sendable {
  /// The address that answered.
  public let address: SocketAddress
  /// DER, leaf first, as the server sent them.
  public let certificates: [[UInt8]]
  /// `TLSv1.3`
  public let version: String
  /// Why the handshake failed although the certificates came, such as a client certificate that the server asks for.
  public let complaint: String?
}

/// Why there are no certificates.
public enum ProbeFailure: Error, Sendable, CustomStringConvertible {
  /// The name was not found; the resolver's words.
  case lookUp(String)
  /// No address could be connected to; the error of the last one.
  case connect(SystemError)
  case timedOut(seconds: Int)
  /// The answer is not TLS.
  case notTLS
  /// The connection ended during the handshake.
  case closed
  /// OpenSSL's words.
  case handshake(String)

  public var description: String {
    switch self {
    case .lookUp(let text): "the name is not found: \(text)"
    case .connect(let error): "cannot connect: \(error)"
    case .timedOut(let seconds): "no answer within \(seconds) seconds"
    case .notTLS: "expected TLS, but the server speaks something else on this port"
    case .closed: "expected TLS, but the server closed the connection within the handshake"
    case .handshake(let text): "the TLS handshake failed: \(text)"
    }
  }
}

public enum TLSProbe {
  /// For all steps. The look-up is not included, because getaddrinfo(3) has its own time-outs.
  public static let standardTimeoutMilliseconds: Int64 = 10_000
  /// More addresses than have to be tried for one name.
  private static let mostAddresses = 16

  /// The certificates of the server at `host` (a name, or an address without brackets). `serverName` is the SNI; nil:
  /// none, which RFC 6066 (3) requires for addresses.
  public static func certificates(
    host: String, port: UInt16, serverName: String?, timeoutMilliseconds: Int64 = standardTimeoutMilliseconds
  ) -> Result<ServerCertificates, ProbeFailure> {
    // A server that hangs up during a write is an error like others, not the end of the program.
    signal(SIGPIPE, SIG_IGN)
    var found = [cl_address](repeating: cl_address(), count: mostAddresses)
    let count = cl_look_up(host, port, &found, Int32(mostAddresses))
    guard count > 0 else { return .failure(.lookUp(String(cString: cl_look_up_error_text(count)))) }
    let wait = Wait(milliseconds: timeoutMilliseconds)
    var failure = ProbeFailure.timedOut(seconds: wait.seconds)
    for (index, raw) in found.prefix(Int(count)).enumerated() {
      let address = SocketAddress(raw)
      // Each remaining address gets an even share of the remaining time.
      switch connect(address, wait.share(of: Int(count) - index)) {
      case .failure(let reason): failure = reason
      case .success(let descriptor):
        defer { descriptor.close() }
        guard let handshake = Handshake(descriptor, serverName: serverName) else {
          return .failure(.handshake("OpenSSL has no memory"))
        }
        return handshake.run(wait, address)
      }
    }
    return .failure(failure)
  }

  private static func connect(_ address: SocketAddress, _ wait: Wait) -> Result<Descriptor, ProbeFailure> {
    switch Outgoing.open(address) {
    case .failure(let error): return .failure(.connect(error))
    case .success(let outgoing):
      let descriptor = outgoing.descriptor
      if outgoing.isConnected { return .success(descriptor) }
      let failure: ProbeFailure
      if wait.until(descriptor, writable: true) {
        // Reading the error takes it off the socket.
        let error = descriptor.connectError
        if error == 0 { return .success(descriptor) }
        failure = .connect(SystemError(error))
      } else {
        failure = .timedOut(seconds: wait.seconds)
      }
      descriptor.close()
      return .failure(failure)
    }
  }
}

/// The time that may be spent.
private struct Wait {
  let seconds: Int
  private let deadline: Int64

  init(milliseconds: Int64) { self.init(seconds: Int(milliseconds / 1_000), deadline: Clock.monotonic + milliseconds) }

  private init(seconds: Int, deadline: Int64) {
    self.seconds = seconds
    self.deadline = deadline
  }

  private var left: Int64 { deadline - Clock.monotonic }

  func share(of parts: Int) -> Wait { Wait(seconds: seconds, deadline: Clock.monotonic + max(0, left) / Int64(parts)) }

  /// Waits for the descriptor; false if the time ends first.
  func until(_ descriptor: Descriptor, writable: Bool) -> Bool {
    while left > 0 {
      var entry = cl_poll_entry(
        fd: descriptor.number, wants_read: !writable, wants_write: writable, can_read: false, can_write: false)
      if cl_poll(&entry, 1, Int32(clamping: left)) > 0 { return true }
    }
    return false
  }
}

/// The client's side of one handshake that trusts everything.
private final class Handshake {
  private let context: OpaquePointer
  private let ssl: OpaquePointer
  private let descriptor: Descriptor

  init?(_ descriptor: Descriptor, serverName: String?) {
    ERR_clear_error()
    guard let context = SSL_CTX_new(TLS_client_method()) else { return nil }
    guard cossl_probe_accept_anything(context), let ssl = SSL_new(context) else {
      SSL_CTX_free(context)
      return nil
    }
    self.context = context
    self.ssl = ssl
    self.descriptor = descriptor
    SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
    let offer = HTTPProtocol.offer(HTTPProtocol.allCases)
    guard SSL_set_fd(ssl, descriptor.number) == 1,
      SSL_set_alpn_protos(ssl, offer, UInt32(offer.count)) == 0
    else { return nil }
    if let serverName { guard cossl_probe_server_name(ssl, serverName) else { return nil } }
  }

  deinit {
    SSL_free(ssl)
    SSL_CTX_free(context)
  }

  func run(_ wait: Wait, _ address: SocketAddress) -> Result<ServerCertificates, ProbeFailure> {
    let failure = shakeHands(wait)
    let chain = chain
    // A close_notify costs nothing and keeps the server's log clean; whether it arrives does not matter.
    if failure == nil { SSL_shutdown(ssl) }
    if chain.isEmpty { return .failure(failure ?? .handshake("the server showed no certificate")) }
    return .success(
      ServerCertificates(
        address: address, certificates: chain, version: String(cString: SSL_get_version(ssl)),
        complaint: failure?.description))
  }

  private func shakeHands(_ wait: Wait) -> ProbeFailure? {
    while true {
      ERR_clear_error()
      let result = SSL_connect(ssl)
      if result == 1 { return nil }
      let error = SSL_get_error(ssl, result)
      guard error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE else { return reason(error) }
      guard wait.until(descriptor, writable: error == SSL_ERROR_WANT_WRITE) else {
        return .timedOut(seconds: wait.seconds)
      }
    }
  }

  private func reason(_ error: Int32) -> ProbeFailure {
    let code = ERR_peek_error()
    if error == SSL_ERROR_SYSCALL || code == 0 { return .closed }
    guard cossl_probe_is_ssl_error(code) else { return .handshake(Self.text(code)) }
    switch cossl_probe_reason(code) {
    case SSL_R_UNEXPECTED_EOF_WHILE_READING: return .closed
    case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_UNKNOWN_PROTOCOL, SSL_R_PACKET_LENGTH_TOO_LONG,
      SSL_R_BAD_RECORD_TYPE, SSL_R_UNEXPECTED_MESSAGE:
      return .notTLS
    default: return .handshake(Self.text(code))
    }
  }

  private static func text(_ code: UInt) -> String {
    ERR_reason_error_string(code).map { String(cString: $0) } ?? "OpenSSL gives no reason"
  }

  private var chain: [[UInt8]] {
    (0..<cossl_probe_count(ssl)).compactMap { index in
      guard let certificate = cossl_probe_certificate(ssl, index) else { return nil }
      var bytes: UnsafeMutablePointer<UInt8>? = nil
      let count = i2d_X509(certificate, &bytes)
      guard count > 0, let bytes else { return nil }
      defer { CRYPTO_free(bytes, #file, #line) }
      return Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
    }
  }
}
