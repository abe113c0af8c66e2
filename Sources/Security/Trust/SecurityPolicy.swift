// [rule.security] as a value: AFSecurityPolicy, with what a proxy needs in addition. Immutable. Policies with the same
// settings have the same digest, which separates upstream connections and TLS sessions.

import COpenSSL

public enum TLSVersion: String, Sendable, CaseIterable, Comparable {
  case tls10 = "1.0"
  case tls11 = "1.1"
  case tls12 = "1.2"
  case tls13 = "1.3"

  public static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// What proves that a server's certificate has not been revoked.
public enum Revocation: Hashable, Sendable {
  case none
  /// A stapled OCSP answer is required and checked.
  case staple
  /// Certificate revocation lists, DER each.
  case crl([[UInt8]])
}

public final class SecurityPolicy: Sendable {
  public struct Settings: Hashable, Sendable {
    public var pinSet: PinSet? = nil
    public var allowInvalidCertificates = false
    public var validatesDomainName = true
    /// Used instead of [trust] for this rule; nil: those of [trust].
    public var anchors: TrustAnchors? = nil
    /// The requirements on certificates beyond OpenSSL's; nil: those of the anchors.
    public var profile: TrustProfile? = nil
    public var minimumVersion = TLSVersion.tls12
    public var maximumVersion = TLSVersion.tls13
    /// nil: OpenSSL's default.
    public var ciphers: CipherList? = nil
    /// The SNI and the name to verify, if not the request's host. Lower case, no trailing dot.
    public var serverName: String? = nil
    public var clientIdentity: ClientIdentity? = nil
    public var revocation = Revocation.none

    public init() {}
  }

  public let settings: Settings
  /// SHA-256 over all settings. The anchors of [trust] are not included: for a policy without its own anchors,
  /// `TrustAnchors.digest` also separates connections.
  public let digest: [UInt8]

  /// In public-key mode: the pins of the set, including those of its certificates.
  let pinnedKeys: Set<PublicKeyPin>
  /// In certificate mode: the pinned certificates, decoded.
  let pinnedAnchors: TrustAnchors?
  /// The lists of `revocation`, decoded; nil if there are none, or one cannot be read.
  let revocationLists: RevocationLists?

  public init(_ settings: Settings) {
    self.settings = settings
    digest = settings.digest
    let set = settings.pinSet
    switch set?.mode {
    case .publicKey:
      pinnedKeys = Set((set?.keys ?? []) + (set?.certificates ?? []).map(\.publicKeyPin))
      pinnedAnchors = nil
    case .certificate:
      pinnedKeys = []
      pinnedAnchors = set.map { TrustAnchors($0.certificates, origin: "the pins of '\($0.name)'") }
    case .some(.none), nil:
      pinnedKeys = []
      pinnedAnchors = nil
    }
    if case .crl(let lists) = settings.revocation {
      revocationLists = RevocationLists(lists)
    } else {
      revocationLists = nil
    }
  }

  public var isPinning: Bool { settings.pinSet?.isPinning ?? false }
}
