// What TLS connections of one kind have in common (SSL_CTX): versions, ciphers, and the certificate for the peer.
//
// OpenSSL judges no certificate here. The connection's own judge gets the chain that a server shows, before a byte of a
// request or a client's certificate has left. On a resumed session OpenSSL does not ask, so the caller has to keep
// sessions apart (`TLSStream.session`).

import Bytes
import COpenSSL

/// TLS protocol versions, as OpenSSL numbers them.
public enum TLSProtocolVersion: Int32, Sendable {
  case tls10 = 0x0301
  case tls11 = 0x0302
  case tls12 = 0x0303
  case tls13 = 0x0304
}

/// Settings for connections to servers.
public struct TLSClientSettings: Sendable {
  public var minimumVersion = TLSProtocolVersion.tls12
  public var maximumVersion = TLSProtocolVersion.tls13
  /// An OpenSSL cipher list, for TLS 1.2 and lower; nil: OpenSSL's own.
  public var ciphers: String? = nil
  /// Cipher suites of TLS 1.3, between colons; nil: OpenSSL's own.
  public var cipherSuites: String? = nil
  /// DER, leaf first; empty: no certificate is shown.
  public var certificates: [[UInt8]] = []
  /// PKCS #8 DER of the first certificate's key.
  public var key: [UInt8] = []
  /// Whether the server is asked for an OCSP response, and judged once that would have come.
  public var asksForStatus = false

  public init() {}
}

/// Why a context could not be made.
public struct TLSSetupFault: Error, Sendable, CustomStringConvertible {
  public let description: String

  public init(_ description: String) { self.description = description }
}

/// Contexts are read by all loops, and none changes them once they are made.
public final class TLSContext: @unchecked Sendable {
  /// The most that one read(2) may bring: four records of the largest size with their headers, and the head of a
  /// response. The buffer is given back once it has been read.
  public static let readAheadBytes = 68 << 10
  /// The same for short responses: one record of the largest size with its header.
  public static let recordBytes = 17 << 10
  /// Tickets for each client. One is enough, because a resumed connection gets the next; two would cost a twentieth of
  /// a handshake.
  static let tickets = 1
  /// Groups for the key exchange. Those of finite fields, which OpenSSL has too, keep a loop busy for 20 to 180 ms a
  /// handshake, and either peer could ask for them.
  static let groups = "X25519:P-256:X448:P-521:P-384"
  /// The protocols that clients may choose from, the preferred one first.
  static let servedProtocols = (HTTPProtocol.allCases.map(\.rawValue) + ["http/1.0"]).map { Array($0.utf8) }

  let raw: OpaquePointer
  let asksForStatus: Bool

  private init(raw: OpaquePointer, asksForStatus: Bool) {
    self.raw = raw
    self.asksForStatus = asksForStatus
  }

  deinit { SSL_CTX_free(raw) }

  /// For connections to servers.
  public static func client(_ settings: TLSClientSettings) -> Result<TLSContext, TLSSetupFault> {
    ERR_clear_error()
    guard let raw = SSL_CTX_new(TLS_client_method()) else { return .failure(fault("no TLS context")) }
    let context = TLSContext(raw: raw, asksForStatus: settings.asksForStatus)
    guard context.setCommon() else { return .failure(fault("groups")) }
    guard cossl_set_versions(raw, settings.minimumVersion.rawValue, settings.maximumVersion.rawValue) else {
      return .failure(fault("TLS versions"))
    }
    if let fault = context.setCiphers(settings) { return .failure(fault) }
    if !settings.certificates.isEmpty, let fault = context.setIdentity(settings) { return .failure(fault) }
    SSL_CTX_set_verify(raw, SSL_VERIFY_PEER, nil)
    SSL_CTX_set_cert_verify_callback(raw, { store, _ in judgeChain(store) }, nil)
    if settings.asksForStatus { cossl_set_status_callback(raw) { ssl, _ in judgeStatus(ssl) } }
    cossl_cache_for_client(raw)
    SSL_CTX_sess_set_new_cb(raw) { ssl, session in keepSession(ssl, session) }
    return .success(context)
  }

  /// For connections of clients; each stream has its own certificate. Clients resume with tickets that any loop can
  /// read.
  public static func server() -> Result<TLSContext, TLSSetupFault> {
    ERR_clear_error()
    guard let raw = SSL_CTX_new(TLS_server_method()) else { return .failure(fault("no TLS context")) }
    let context = TLSContext(raw: raw, asksForStatus: false)
    guard context.setCommon() else { return .failure(fault("groups")) }
    guard cossl_set_versions(raw, TLSProtocolVersion.tls12.rawValue, TLSProtocolVersion.tls13.rawValue) else {
      return .failure(fault("TLS versions"))
    }
    cossl_no_server_cache(raw)
    SSL_CTX_set_num_tickets(raw, Self.tickets)
    SSL_CTX_set_alpn_select_cb(
      raw, { _, out, outLength, offered, count, _ in selectHTTP(out, outLength, offered, count) }, nil)
    return .success(context)
  }

  private func setCommon() -> Bool {
    cossl_set_modes(raw)
    cossl_read_ahead(raw, Self.readAheadBytes)
    SSL_CTX_set_options(raw, cossl_hardening())
    SSL_CTX_set_msg_callback(raw) { isSent, _, type, bytes, count, ssl, _ in
      if isSent == 0, type == SSL3_RT_HANDSHAKE, count > 0 { noteMessage(ssl, bytes) }
    }
    // OpenSSL 3.5 has the hybrid group, and offers it by itself.
    if cossl_set_groups(raw, "X25519MLKEM768:" + Self.groups) { return true }
    ERR_clear_error()
    return cossl_set_groups(raw, Self.groups)
  }

  private func setCiphers(_ settings: TLSClientSettings) -> TLSSetupFault? {
    if let suites = settings.cipherSuites, SSL_CTX_set_ciphersuites(raw, suites) != 1 {
      return Self.fault("cipher suites '\(suites)'")
    }
    // Without a certificate or encryption there is nothing to judge, whatever an alias such as ALL includes.
    if let ciphers = settings.ciphers, SSL_CTX_set_cipher_list(raw, ciphers + ":!aNULL:!eNULL") != 1 {
      return Self.fault("ciphers '\(ciphers)'")
    }
    // An origin chooses the size of the field: one of 10,000 bits keeps a loop busy for more than a second.
    if !cossl_drop_finite_fields(raw) {
      return TLSSetupFault("ciphers '\(settings.ciphers ?? "DEFAULT")': only those with finite-field Diffie-Hellman")
    }
    return nil
  }

  private func setIdentity(_ settings: TLSClientSettings) -> TLSSetupFault? {
    for (index, der) in settings.certificates.enumerated() {
      guard let certificate = Self.decode(der) else { return Self.fault("client certificate") }
      defer { X509_free(certificate) }
      let done =
        index == 0
        ? SSL_CTX_use_certificate(raw, certificate) == 1 : cossl_add_chain_certificate(raw, certificate)
      if !done { return Self.fault("client certificate") }
    }
    let key = settings.key.withUnsafeBufferPointer { bytes in
      var at = bytes.baseAddress
      return d2i_AutoPrivateKey(nil, &at, bytes.count)
    }
    guard let key else { return Self.fault("key of the client certificate") }
    defer { EVP_PKEY_free(key) }
    return SSL_CTX_use_PrivateKey(raw, key) == 1 ? nil : Self.fault("key of the client certificate")
  }

  private static func decode(_ der: [UInt8]) -> OpaquePointer? {
    der.withUnsafeBufferPointer { bytes in
      var at = bytes.baseAddress
      return d2i_X509(nil, &at, bytes.count)
    }
  }

  private static func fault(_ what: String) -> TLSSetupFault {
    TLSSetupFault("\(what): \(TLSErrors.take()?.text ?? "OpenSSL gives no reason")")
  }
}

// MARK: What OpenSSL calls

private func stream(of ssl: OpaquePointer?) -> TLSStream? {
  guard let ssl, let owner = cossl_owner(ssl) else { return nil }
  return Unmanaged<TLSStream>.fromOpaque(owner).takeUnretainedValue()
}

/// SSL_CTX_set_cert_verify_callback: 1 if the chain is trusted. Without a judge, none is.
private func judgeChain(_ store: OpaquePointer?) -> Int32 {
  guard let store, let ssl = cossl_connection_of(store), let stream = stream(of: ssl) else { return 0 }
  // Under TLS 1.2 the OCSP response comes after the certificates, so in every version `judgeStatus` judges then.
  if stream.asksForStatus { return 1 }
  guard stream.judge(X509_STORE_CTX_get0_untrusted(store), status: nil) else {
    cossl_reject(store)
    return 0
  }
  return 1
}

/// SSL_CTX_set_tlsext_status_cb: called before a client's certificate or a request leaves, with or without a response.
private func judgeStatus(_ ssl: OpaquePointer?) -> Int32 {
  guard let ssl, let stream = stream(of: ssl) else { return 0 }
  if SSL_session_reused(ssl) == 1 { return 1 }
  var response: UnsafePointer<UInt8>? = nil
  let count = cossl_status(ssl, &response)
  let status = response.flatMap { count > 0 ? Array(UnsafeBufferPointer(start: $0, count: count)) : nil }
  return stream.judge(SSL_get_peer_cert_chain(ssl), status: status) ? 1 : 0
}

/// SSL_CTX_set_msg_callback: a handshake message has come. Its type is the first byte (RFC 8446, 4).
private func noteMessage(_ ssl: OpaquePointer?, _ message: UnsafeRawPointer?) {
  guard let message, message.load(as: UInt8.self) == SSL3_MT_KEY_UPDATE else { return }
  stream(of: ssl)?.receivedKeyUpdate()
}

/// SSL_CTX_sess_set_new_cb: 1 if the session is kept.
private func keepSession(_ ssl: OpaquePointer?, _ session: OpaquePointer?) -> Int32 {
  guard let session, let stream = stream(of: ssl) else { return 0 }
  return stream.take(session) ? 1 : 0
}

private func selectHTTP(
  _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ outLength: UnsafeMutablePointer<UInt8>?,
  _ offered: UnsafePointer<UInt8>?, _ count: UInt32
) -> Int32 {
  guard let out, let outLength, let offered else { return SSL_TLSEXT_ERR_NOACK }
  for wanted in TLSContext.servedProtocols {
    var at = 0
    while at < count {
      let length = Int(offered[at])
      if at + 1 + length > count { break }
      if length == wanted.count, (0..<length).allSatisfy({ offered[at + 1 + $0] == wanted[$0] }) {
        out.pointee = offered + at + 1
        outLength.pointee = UInt8(length)
        return SSL_TLSEXT_ERR_OK
      }
      at += 1 + length
    }
  }
  // A client with none of these protocols gets an alert (RFC 7301, 3.2).
  return SSL_TLSEXT_ERR_ALERT_FATAL
}
