// Certificates for intercepted hosts. Each is for the name that a client asked for, and is signed by the local
// authority.
//
// They are strict X.509 (RFC 5280; as Python 3.13 and OpenSSL's X509_V_FLAG_X509_STRICT require) and valid for as long
// as public certificates may be by 2029 (47 days, CA/Browser Forum ballot SC-081). They share one P-256 key, which is
// made with the mint and is never the authority's. The common parts of all leaves are encoded once. Minting takes 0.05
// ms, including 0.03 ms for the signature. Tests: LeafMintTests.

import Bytes
import COpenSSL

/// Why there is no leaf for a host.
public enum MintFault: Error, Hashable, Sendable, CustomStringConvertible {
  /// The authority is not valid now.
  case authority(AuthorityFault)
  /// The authority's name constraints forbid the host, so clients would reject the leaf.
  case notPermitted(host: String, permitted: [NameSubtree])
  /// Neither a DNS name in lower case nor an address of 4 or 16 bytes.
  case malformedHost
  case notMade

  public var description: String {
    switch self {
    case .authority(let fault): "the local authority cannot sign: \(fault)"
    case .notPermitted(let host, let permitted):
      "the local authority may not sign for '\(host)'; it permits \(Self.text(permitted))"
    case .malformedHost: "expected a DNS name in lower case or an address to make a certificate for"
    case .notMade: AuthorityFault.notMade.description
    }
  }

  private static func text(_ permitted: [NameSubtree]) -> String {
    permitted.isEmpty ? "others" : permitted.map(\.description).joined(separator: ", ")
  }
}

/// A certificate with its key, for the server's side of TLS.
public final class Leaf: Sendable {
  public let identity: ReferenceIdentity
  /// X509*, owned by this object and valid while it lives. SSL_use_certificate and similar functions take their own
  /// reference.
  public nonisolated(unsafe) let certificate: OpaquePointer
  /// EVP_PKEY*, owned like `certificate`.
  public nonisolated(unsafe) let key: OpaquePointer
  /// Seconds since 1970.
  public let notBefore: Int64
  public let notAfter: Int64
  /// From here on the leaf is past half of its life and is replaced.
  public let renewsAt: Int64

  /// Takes ownership of `certificate`, and retains `key`.
  fileprivate init(
    _ identity: ReferenceIdentity, adopting certificate: OpaquePointer, retaining key: OpaquePointer,
    from notBefore: Int64, through notAfter: Int64, now: Int64
  ) {
    self.identity = identity
    self.certificate = certificate
    self.key = key
    self.notBefore = notBefore
    self.notAfter = notAfter
    renewsAt = now + (notAfter - now) / 2
    EVP_PKEY_up_ref(key)
  }

  deinit {
    X509_free(certificate)
    EVP_PKEY_free(key)
  }

  public var der: [UInt8] { encoded { i2d_X509(certificate, $0) } ?? [] }
}

/// Threads may share it.
public final class LeafMint: Sendable {
  /// For clients with slow clocks.
  static let backDatingSeconds: Int64 = 2 * CalendarTime.secondsPerDay
  /// 47 days with the back-dating. Leaves live in memory and are renewed at half of this time.
  static let lifetimeSeconds: Int64 = 45 * CalendarTime.secondsPerDay

  public let authority: Authority
  private nonisolated(unsafe) let key: OpaquePointer
  /// The X509_EXTENSION* that all leaves have in common.
  private nonisolated(unsafe) let common: [OpaquePointer]

  /// Makes the key for all leaves. nil if OpenSSL has no memory or no randomness.
  public init?(_ authority: Authority) {
    guard let key = cossl_leaf_key() else { return nil }
    guard let identifier = CertificateDraft.keyIdentifier(of: key) else {
      EVP_PKEY_free(key)
      return nil
    }
    let values: [ExtensionValue] = [
      .basicConstraints(isAuthority: false), .leafKeyUsage, .serverAuthentication, .subjectKeyIdentifier(identifier),
      .authorityKeyIdentifier(authority.certificate.keyIdentifier),
    ]
    self.authority = authority
    self.key = key
    common = values.compactMap { $0.encoded() }
    guard common.count == values.count else { return nil }
  }

  deinit {
    for value in common { X509_EXTENSION_free(value) }
    EVP_PKEY_free(key)
  }

  /// The X509* that a server sends after the leaf, borrowed: the authority itself if another one signed it. nil if it
  /// is its own root, which clients already have.
  public var intermediate: OpaquePointer? {
    authority.certificate.certificate.isSelfSigned ? nil : authority.certificate.raw
  }

  /// A new leaf for `identity` at `now`, in seconds since 1970.
  public func mint(for identity: ReferenceIdentity, now: Int64) -> Result<Leaf, MintFault> {
    let issuer = authority.certificate
    if let fault = issuer.validityFault(at: now) { return .failure(.authority(fault)) }
    guard identity.isCanonical else { return .failure(.malformedHost) }
    let notBefore = max(now - Self.backDatingSeconds, issuer.certificate.notBefore)
    let notAfter = min(now + Self.lifetimeSeconds, issuer.certificate.notAfter)
    return withErrorsOfItsOwn {
      guard let signed = sign(identity, from: notBefore, to: notAfter) else { return .failure(.notMade) }
      if let constraints = issuer.constraints, NAME_CONSTRAINTS_check(signed, constraints) != X509_V_OK {
        X509_free(signed)
        return .failure(.notPermitted(host: identity.text, permitted: issuer.permitted))
      }
      return .success(Leaf(identity, adopting: signed, retaining: key, from: notBefore, through: notAfter, now: now))
    }
  }

  private func sign(_ identity: ReferenceIdentity, from notBefore: Int64, to notAfter: Int64) -> OpaquePointer? {
    let commonName = identity.commonName
    guard let draft = CertificateDraft() else { return nil }
    guard draft.setValidity(from: notBefore, through: notAfter), commonName.map(draft.setSubject(commonName:)) ?? true,
      draft.setIssuer(authority.certificate.raw), draft.setPublicKey(of: key),
      common.allSatisfy({ draft.add(encoded: $0) }),
      draft.add(.subjectAlternativeName(identity, isCritical: commonName == nil))
    else { return nil }
    return draft.signed(with: authority.key)
  }
}

extension ReferenceIdentity {
  /// The longest DNS name in bytes (RFC 1035, 2.3.4, without the root's dot).
  private static let longestName = 253

  fileprivate var text: String {
    switch self {
    case .name(let name): name
    case .address(let bytes): addressText(bytes) ?? ""
    }
  }

  /// The subject of a leaf, for clients whose logs show nothing else. If it is nil, the subject is empty and
  /// subjectAltName is critical (RFC 5280, 4.1.2.6): a name may be too long for it. For an address, OpenSSL and GnuTLS
  /// would read any common name as a DNS name and check it against the authority's name constraints.
  fileprivate var commonName: String? {
    guard case .name(let name) = self, name.utf8.count <= CertificateDraft.longestCommonName else { return nil }
    return name
  }

  fileprivate var isCanonical: Bool {
    switch self {
    case .address(let bytes): bytes.count == 4 || bytes.count == 16
    case .name(let name):
      (1...Self.longestName).contains(name.utf8.count) && name.utf8.first != 0x2e && name.utf8.last != 0x2e
        && name.utf8.allSatisfy {
          (0x61...0x7a).contains($0) || (0x30...0x39).contains($0) || [0x2d, 0x2e, 0x5f].contains($0)
        }
    }
  }
}
