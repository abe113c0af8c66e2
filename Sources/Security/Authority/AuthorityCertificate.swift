// The certificate of a local authority, and the conditions that it must meet. `sallyport ca show` needs nothing else;
// signing also needs the key (Authority).

import Bytes
import COpenSSL

/// Why a certificate and a key cannot be a local authority.
public enum AuthorityFault: Error, Hashable, Sendable, CustomStringConvertible {
  /// Not exactly one readable certificate; what was found instead.
  case certificateUnreadable(String)
  /// basicConstraints does not say CA, or keyUsage does not allow it to sign certificates.
  case notAuthority
  /// A path length other than 0 (nil: none): it could create further authorities.
  case pathLength(Int?)
  /// No subjectKeyIdentifier, which the authorityKeyIdentifier of each leaf must repeat.
  case keyIdentifierMissing
  case notYetValid(days: Int64)
  case expired(days: Int64)
  case keyUnreadable
  case keyEncrypted
  /// Neither RSA nor EC, or under 112 bits of security; what it is.
  case keyUnsuitable(String)
  /// The key does not belong to the certificate.
  case keyMismatch
  /// OpenSSL failed. This only happens without memory or randomness.
  case notMade

  public var description: String {
    switch self {
    case .certificateUnreadable(let found): "expected one certificate, PEM or DER; \(found)"
    case .notAuthority:
      "expected a certificate of an authority (basicConstraints CA:TRUE, keyUsage keyCertSign); this is another's"
    case .pathLength(let length):
      "expected path length 0, found \(length.map(String.init) ?? "none"): it could make further authorities"
    case .keyIdentifierMissing: "expected a subjectKeyIdentifier, which strict clients ask for; there is none"
    case .notYetValid(let days): "it is not valid yet: \(Self.count(days)) to go, if this machine's clock is right"
    case .expired(let days): "it expired \(Self.count(days)) ago; make another with 'sallyport ca init'"
    case .keyUnreadable: "expected a private key, PEM or DER; the key is neither"
    case .keyEncrypted: "expected a private key without a passphrase; the key is encrypted"
    case .keyUnsuitable(let found): "expected an EC or RSA key of at least 112 bits of security, found \(found)"
    case .keyMismatch: "the key is not that of the certificate"
    case .notMade: "OpenSSL has no memory or no randomness"
    }
  }

  private static func count(_ days: Int64) -> String {
    days == 0 ? "less than a day" : .counted(days, "day")
  }
}

/// A certificate that qualifies as a local authority's.
public final class AuthorityCertificate: Sendable {

  public let certificate: Certificate
  /// SHA-256 of the DER, 32 bytes.
  public let fingerprint: [UInt8]
  /// What its name constraints allow it to sign for; if both are empty, any name and address.
  public let permitted: [NameSubtree]
  public let excluded: [NameSubtree]
  /// The contents of subjectKeyIdentifier.
  let keyIdentifier: [UInt8]
  /// X509*
  nonisolated(unsafe) let raw: OpaquePointer
  /// nil: it has no name constraints.
  nonisolated(unsafe) let constraints: UnsafeMutablePointer<NAME_CONSTRAINTS>?

  /// One certificate, PEM or DER. Its validity is not checked.
  public static func read(_ bytes: [UInt8]) -> Result<AuthorityCertificate, AuthorityFault> {
    switch Certificate.read(bytes) {
    case .failure(let fault): return .failure(.certificateUnreadable(fault.description))
    case .success(let certificates):
      guard certificates.count == 1, let certificate = certificates.first else {
        return .failure(.certificateUnreadable("found \(certificates.count) of them"))
      }
      return of(certificate)
    }
  }

  private static func of(_ certificate: Certificate) -> Result<AuthorityCertificate, AuthorityFault> {
    let object = withErrorsOfItsOwn { decoded(certificate.der, freedBy: X509_free) { d2i_X509(nil, $0, $1) } }
    guard let raw = object else { return .failure(.certificateUnreadable("found what OpenSSL cannot decode")) }
    if let fault = fault(of: raw) {
      X509_free(raw)
      return .failure(fault)
    }
    return .success(AuthorityCertificate(certificate, adopting: raw))
  }

  private static func fault(of raw: OpaquePointer) -> AuthorityFault? {
    guard X509_check_ca(raw) == 1, X509_get_extension_flags(raw) & UInt32(EXFLAG_INVALID) == 0 else {
      return .notAuthority
    }
    guard X509_get_extension_flags(raw) & UInt32(EXFLAG_KUSAGE) != 0,
      X509_get_key_usage(raw) & UInt32(KU_KEY_CERT_SIGN) != 0
    else { return .notAuthority }
    let length = X509_get_pathlen(raw)
    guard length == 0 else { return .pathLength(length < 0 ? nil : Int(length)) }
    return X509_get0_subject_key_id(raw) == nil ? .keyIdentifierMissing : nil
  }

  private init(_ certificate: Certificate, adopting raw: OpaquePointer) {
    self.certificate = certificate
    self.raw = raw
    keyIdentifier = octets(X509_get0_subject_key_id(raw))
    constraints = cossl_name_constraints(raw)
    permitted = NameSubtree.list(of: constraints, excluded: false)
    excluded = NameSubtree.list(of: constraints, excluded: true)
    fingerprint = sha256(certificate.der)
  }

  deinit {
    NAME_CONSTRAINTS_free(constraints)
    X509_free(raw)
  }

  /// Why it may not sign at `seconds` since 1970; nil if it may. For OpenSSL, and so for clients, a certificate has
  /// already expired in its last second.
  public func validityFault(at seconds: Int64) -> AuthorityFault? {
    if seconds < certificate.notBefore {
      return .notYetValid(days: (certificate.notBefore - seconds) / CalendarTime.secondsPerDay)
    }
    return seconds >= certificate.notAfter
      ? .expired(days: (seconds - certificate.notAfter) / CalendarTime.secondsPerDay) : nil
  }
}
