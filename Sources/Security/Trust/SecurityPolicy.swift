// [rule.security] as a value: AFSecurityPolicy, with what a proxy needs besides. Immutable; two policies that say the
// same have the same digest, by which upstream connections and TLS sessions are kept apart.

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
    /// Instead of [trust], for this rule; nil: those of [trust].
    public var anchors: TrustAnchors? = nil
    /// What is asked of certificates beyond what OpenSSL asks; nil: as the anchors have it.
    public var profile: TrustProfile? = nil
    public var minimumVersion = TLSVersion.tls12
    public var maximumVersion = TLSVersion.tls13
    /// OpenSSL cipher string, or TLS 1.3 suites among it; nil: OpenSSL's default.
    public var ciphers: String? = nil
    /// SNI and name to verify, when not the request's host. Lower case, no trailing dot.
    public var serverName: String? = nil
    public var clientIdentity: ClientIdentity? = nil
    public var revocation = Revocation.none

    public init() {}
  }

  public let settings: Settings
  /// SHA-256 over all that the settings say. The anchors of [trust] are no part of it: where a policy has none of its
  /// own, connections are kept apart by `TrustAnchors.digest` too.
  public let digest: [UInt8]

  /// In public-key mode: the pins of the set, those of its certificates among them.
  let pinnedKeys: Set<PublicKeyPin>
  /// In certificate mode: the pinned certificates, decoded.
  let pinnedAnchors: TrustAnchors?
  /// The lists of `revocation`, decoded; nil where there are none, or one cannot be read.
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
