// Certificates for the hosts that are intercepted: one for the name that a client asked for, signed by the local
// authority.
//
// They are strict X.509 (RFC 5280; what Python 3.13 and OpenSSL's X509_V_FLAG_X509_STRICT ask for), valid for as long
// as public ones may be by 2029 (47 days, CA/Browser Forum ballot SC-081), and share one P-256 key that is made with
// the mint and is never the authority's. What a leaf has in common with the others is encoded once; minting is then
// 0.05 ms, of which the signature is 0.03. Tests: LeafMintTests.

import COpenSSL

/// Why there is no leaf for a host.
public enum MintFault: Error, Hashable, Sendable, CustomStringConvertible {
  /// The authority is not valid now.
  case authority(AuthorityFault)
  /// The authority's name constraints forbid the host, so that clients would refuse the leaf.
  case notPermitted(host: String, permitted: [NameSubtree])
  /// No DNS name in lower case, and no address of 4 or 16 bytes.
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

/// A certificate with its key, for a server's side of TLS.
public final class Leaf: Sendable {
  public let identity: ReferenceIdentity
  /// X509*, this object's: it lives as long as this does; SSL_use_certificate and the like take a reference of their
  /// own.
  public nonisolated(unsafe) let certificate: OpaquePointer
  /// EVP_PKEY*, as `certificate`.
  public nonisolated(unsafe) let key: OpaquePointer
  /// Seconds since 1970.
  public let notBefore: Int64
  public let notAfter: Int64
  /// From here on half of its life is over, and another takes its place.
  public let renewsAt: Int64

  /// Takes over `certificate`, and another reference to `key`.
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
  /// For clients whose clocks are behind.
  static let backDatingSeconds: Int64 = 2 * AuthorityCertificate.secondsPerDay
  /// With the back-dating 47 days. Leaves live in memory and are renewed at half of it.
  static let lifetimeSeconds: Int64 = 45 * AuthorityCertificate.secondsPerDay

  public let authority: Authority
  private nonisolated(unsafe) let key: OpaquePointer
  /// X509_EXTENSION* that every leaf has.
  private nonisolated(unsafe) let common: [OpaquePointer]

  /// Makes the key of all leaves. nil where OpenSSL has no memory or no randomness.
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

  /// X509* that a server sends behind the leaf: the authority itself where another signed it, on loan; nil where it is
  /// its own root, which clients have.
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
      guard let signed = sign(identity, notBefore, notAfter) else { return .failure(.notMade) }
      if let constraints = issuer.constraints, NAME_CONSTRAINTS_check(signed, constraints) != X509_V_OK {
        X509_free(signed)
        return .failure(.notPermitted(host: identity.text, permitted: issuer.permitted))
      }
      return .success(Leaf(identity, adopting: signed, retaining: key, from: notBefore, through: notAfter, now: now))
    }
  }

  private func sign(_ identity: ReferenceIdentity, _ notBefore: Int64, _ notAfter: Int64) -> OpaquePointer? {
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
  /// Longest DNS name in bytes (RFC 1035, 2.3.4, without the root's dot).
  private static let longestName = 253

  fileprivate var text: String {
    switch self {
    case .name(let name): name
    case .address(let bytes): addressText(bytes) ?? ""
    }
  }

  /// What a leaf's subject says, for clients whose logs show nothing else; nil: nothing, and subjectAltName is critical
  /// then (RFC 5280, 4.1.2.6). A name that is too long does not fit. With an address OpenSSL and GnuTLS would take the
  /// common name, whatever it says, for a DNS name, and hold it against the authority's name constraints.
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
