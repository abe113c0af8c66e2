// The local authority of connect = "intercept": a certificate that the machine's programs trust, and its key.
//
// It signs leaves (LeafMint) for the names that it permits, and nothing else: its path length is 0. A key made here is
// P-256; an operator may bring an RSA key. The program reads and writes the files (AuthorityDirectory); this code
// handles only bytes. The bytes of the key are never printed and never part of an error. Tests: AuthorityTests.

import Bytes
import COpenSSL

/// The texts of a new authority.
public struct NewAuthority: Sendable {
  /// PEM
  public let certificate: [UInt8]
  /// PKCS #8 PEM, not encrypted. Never printed.
  public let key: [UInt8]
}

/// Keeps the key out of anything that prints or dumps the value.
extension NewAuthority: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "a new authority" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["certificate": certificate]) }
}

public final class Authority: Sendable {
  /// Long enough that replacement is rare, short enough that people remember how to do it.
  static let lifetimeSeconds: Int64 = 5 * 365 * CalendarTime.secondsPerDay
  /// For clients with slow clocks. As long as the back-dating of leaves, because no leaf may begin earlier.
  static let backDatingSeconds: Int64 = 2 * CalendarTime.secondsPerDay
  /// The least strength of an authority's key, in bits: that of RSA with 2,048.
  static let leastSecurityBits: Int32 = 112

  public let certificate: AuthorityCertificate
  /// EVP_PKEY*
  nonisolated(unsafe) let key: OpaquePointer

  private init(_ certificate: AuthorityCertificate, adopting key: OpaquePointer) {
    self.certificate = certificate
    self.key = key
  }

  deinit { EVP_PKEY_free(key) }

  // MARK: Loading

  /// From a certificate and its key, each PEM or DER, for use at `seconds` since 1970.
  public static func load(
    certificate: [UInt8], key: [UInt8], at seconds: Int64
  ) -> Result<Authority, AuthorityFault> {
    AuthorityCertificate.read(certificate).flatMap { load($0, key: key, at: seconds) }
  }

  public static func load(
    _ certificate: AuthorityCertificate, key: [UInt8], at seconds: Int64
  ) -> Result<Authority, AuthorityFault> {
    if let fault = certificate.validityFault(at: seconds) { return .failure(fault) }
    switch privateKey(key) {
    case .failure(let fault): return .failure(fault)
    case .success(let key):
      guard EVP_PKEY_eq(X509_get0_pubkey(certificate.raw), key) == 1 else {
        EVP_PKEY_free(key)
        return .failure(.keyMismatch)
      }
      return .success(Authority(certificate, adopting: key))
    }
  }

  /// An EVP_PKEY that the caller must free.
  private static func privateKey(_ bytes: [UInt8]) -> Result<OpaquePointer, AuthorityFault> {
    withErrorsOfItsOwn {
      guard let bio = BIO_new_mem_buf(bytes, Int32(clamping: bytes.count)) else { return .failure(.notMade) }
      defer { BIO_free(bio) }
      var isEncrypted = false
      let fromPEM = withUnsafeMutablePointer(to: &isEncrypted) { isEncrypted in
        PEM_read_bio_PrivateKey(bio, nil, { _, _, _, isEncrypted in refusePassphrase(isEncrypted) }, isEncrypted)
      }
      if isEncrypted { return .failure(.keyEncrypted) }
      guard let key = fromPEM ?? decoded(bytes, freedBy: EVP_PKEY_free, { d2i_AutoPrivateKey(nil, $0, $1) }) else {
        return .failure(.keyUnreadable)
      }
      if let fault = fault(ofKey: key) {
        EVP_PKEY_free(key)
        return .failure(fault)
      }
      return .success(key)
    }
  }

  private static func fault(ofKey key: OpaquePointer) -> AuthorityFault? {
    let name = EVP_PKEY_get0_type_name(key).map { String(cString: $0) } ?? "an unknown kind"
    guard [EVP_PKEY_EC, EVP_PKEY_RSA].contains(EVP_PKEY_get_base_id(key)),
      EVP_PKEY_get_security_bits(key) >= leastSecurityBits
    else { return .keyUnsuitable("\(name) of \(EVP_PKEY_get_bits(key)) bits") }
    return nil
  }

  // MARK: Making

  /// A new authority with a new key. `host` and `date` (YYYY-MM-DD) become part of its name, so that people can
  /// distinguish authorities. If `permitted` is empty, it may sign for any name.
  public static func make(
    host: String, date: String, permitted: [NameSubtree], at seconds: Int64
  ) -> Result<NewAuthority, AuthorityFault> {
    withErrorsOfItsOwn {
      guard let key = cossl_authority_key() else { return .failure(.notMade) }
      defer { EVP_PKEY_free(key) }
      guard let name = commonName(host: host, date: date),
        let certificate = certificate(key, name, permitted: permitted, seconds: seconds)
      else { return .failure(.notMade) }
      defer { X509_free(certificate) }
      guard let certificateText = text({ PEM_write_bio_X509($0, certificate) }),
        let keyText = text({ PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) })
      else { return .failure(.notMade) }
      return .success(NewAuthority(certificate: certificateText, key: keyText))
    }
  }

  /// `Sallyport local authority HOST DATE` and six random digits, because two authorities of the same day and host must
  /// have different names.
  private static func commonName(host: String, date: String) -> String? {
    var random = [UInt8](repeating: 0, count: 3)
    guard RAND_bytes(&random, Int32(random.count)) == 1 else { return nil }
    let digits = hexadecimal(random)
    let opening = "Sallyport local authority "
    let ending = " \(date) \(digits)"
    let letters = host.utf8.filter { $0 > 0x20 && $0 < 0x7f }
    let room = CertificateDraft.longestCommonName - opening.utf8.count - ending.utf8.count
    return opening + String(decoding: letters.prefix(max(0, room)), as: UTF8.self) + ending
  }

  private static func certificate(
    _ key: OpaquePointer, _ name: String, permitted: [NameSubtree], seconds: Int64
  ) -> OpaquePointer? {
    guard let draft = CertificateDraft(), let identifier = CertificateDraft.keyIdentifier(of: key) else { return nil }
    guard draft.setValidity(from: seconds - backDatingSeconds, through: seconds + lifetimeSeconds),
      draft.setSubject(commonName: name), draft.setIssuer(), draft.setPublicKey(of: key),
      draft.add(.basicConstraints(isAuthority: true)), draft.add(.authorityKeyUsage),
      draft.add(.subjectKeyIdentifier(identifier)), permitted.isEmpty || draft.add(.nameConstraints(permitted))
    else { return nil }
    return draft.signed(with: key)
  }

  /// The bytes that `write` writes to a BIO.
  private static func text(_ write: (OpaquePointer) -> Int32) -> [UInt8]? {
    guard let bio = BIO_new(BIO_s_mem()) else { return nil }
    defer { BIO_free(bio) }
    guard write(bio) == 1 else { return nil }
    var bytes: UnsafeMutablePointer<CChar>? = nil
    let count = cossl_memory_contents(bio, &bytes)
    return bytes?.withMemoryRebound(to: UInt8.self, capacity: count) {
      Array(UnsafeBufferPointer(start: $0, count: count))
    }
  }
}

/// OpenSSL's callback for the passphrase of an encrypted key: records the request and does not answer it.
private func refusePassphrase(_ wasAsked: UnsafeMutableRawPointer?) -> Int32 {
  wasAsked?.assumingMemoryBound(to: Bool.self).pointee = true
  return -1
}
