// A policy together with the loaded trust anchors and the TLS contexts that it needs, one for each security policy.
// Made outside the loops at start and at each reload; all loops read it.

import Policy
import Security
import Session
import Transport

/// A security policy ready for use. Equal policies are one object, across reloads too: connections and sessions are
/// kept by this object, so what a laxer policy opened is never used by a stricter one.
final class OriginSecurity: Sendable {
  let policy: SecurityPolicy
  /// The policy for a chain in a tunnel whose client asks for no OCSP response: the probe has seen one.
  let policyWithoutStaple: SecurityPolicy
  /// The policy's own anchors, or else those of [trust].
  let anchors: TrustAnchors
  /// false: what would be refused passes and is reported.
  let enforces: Bool
  let context: TLSContext

  init(policy: SecurityPolicy, anchors: TrustAnchors, enforces: Bool, context: TLSContext) {
    self.policy = policy
    var settings = policy.settings
    if settings.revocation == .staple { settings.revocation = .none }
    policyWithoutStaple = SecurityPolicy(settings)
    self.anchors = anchors
    self.enforces = enforces
    self.context = context
  }

  /// Whether a chain that was trusted once may be relied on without seeing it again.
  func mayRely(at seconds: Int64) -> Bool {
    guard let pins = policy.settings.pinSet, pins.failsOnExpiry, pins.enforce else { return true }
    return !pins.isExpired(at: seconds)
  }

  /// Whether certificates are checked at all.
  var looksAtCertificates: Bool {
    let settings = policy.settings
    return !settings.allowInvalidCertificates || settings.validatesDomainName || policy.isPinning
  }
}

/// A configuration as the program read it: the policy, and the local authority if a rule needs one.
public struct LoadedPolicy: Sendable {
  public let policy: Policy
  public let authority: Authority?
  /// Doubtful points of the configuration, in sentences.
  public let warnings: [String]

  public init(policy: Policy, authority: Authority?, warnings: [String] = []) {
    self.policy = policy
    self.authority = authority
    self.warnings = warnings
  }
}

/// The digest of a security policy as a dictionary key, used three times a request. A few bytes of a SHA-256 tell the
/// policies of a configuration apart as well as a hash of all its bytes would.
private struct DigestKey: Hashable {
  let digest: [UInt8]

  init(_ policy: SecurityPolicy) { digest = policy.digest }

  func hash(into hasher: inout Hasher) {
    hasher.combine(digest.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
  }
}

final class LivePolicy: Sendable {
  let policy: Policy
  /// nil if no rule intercepts.
  let interception: Interception?
  /// When the certificate of the local authority expires, in seconds since 1970.
  var authorityEnds: Int64? { interception?.mint.authority.certificate.certificate.notAfter }
  /// The store; nil: nothing is stored. It stays the same across reloads unless its settings change.
  let cache: SharedCache?
  private let enforced: [DigestKey: OriginSecurity]
  private let reporting: [DigestKey: OriginSecurity]

  fileprivate init(
    _ policy: Policy, _ interception: Interception?, cache: SharedCache?, enforced: [DigestKey: OriginSecurity],
    reporting: [DigestKey: OriginSecurity]
  ) {
    self.policy = policy
    self.interception = interception
    self.cache = cache
    self.enforced = enforced
    self.reporting = reporting
  }

  func security(_ policy: SecurityPolicy, enforces: Bool) -> OriginSecurity {
    guard let security = (enforces ? enforced : reporting)[DigestKey(policy)] else {
      preconditionFailure("a security policy that the policy does not list")
    }
    return security
  }

  func contains(_ security: OriginSecurity) -> Bool {
    (security.enforces ? enforced : reporting)[DigestKey(security.policy)] === security
  }
}

/// Makes live policies, and reuses what it made for the previous one.
struct LivePolicyMaker {
  private var systemAnchors: TrustAnchors? = nil
  private var current: LivePolicy? = nil
  /// Makes the store, if the configuration has one.
  var store: (CacheStorage) -> SharedCache = { SharedCache($0) }

  /// `complain` receives a sentence about each problem that does not stop the daemon.
  mutating func make(_ loaded: LoadedPolicy, complain: (String) -> Void) -> Result<LivePolicy, TLSSetupFault> {
    let policy = loaded.policy
    let read = anchors(policy.configuration.trust, complain)
    let trust = policy.configuration.trustProfile.map { read.with(profile: $0) } ?? read
    var enforced: [DigestKey: OriginSecurity] = [:]
    var reporting: [DigestKey: OriginSecurity] = [:]
    for security in policy.securityPolicies {
      switch ready(security, trust: trust) {
      case .failure(let fault): return .failure(fault)
      case .success(let pair):
        enforced[DigestKey(security)] = pair.enforced
        reporting[DigestKey(security)] = pair.reporting
      }
    }
    return interception(loaded.authority).map { interception in
      let live = LivePolicy(policy, interception, cache: cache(policy), enforced: enforced, reporting: reporting)
      current = live
      return live
    }
  }

  private func cache(_ policy: Policy) -> SharedCache? {
    guard let storage = policy.configuration.cache else { return nil }
    return current?.cache.flatMap { $0.storage == storage ? $0 : nil } ?? store(storage)
  }

  /// While the authority stays the same, it keeps its leaf certificates, and its clients keep their sessions.
  private func interception(_ authority: Authority?) -> Result<Interception?, TLSSetupFault> {
    guard let authority else { return .success(nil) }
    if let kept = current?.interception,
      kept.mint.authority.certificate.certificate.der == authority.certificate.certificate.der
    {
      return .success(kept)
    }
    guard let mint = LeafMint(authority) else {
      return .failure(TLSSetupFault("no key for the leaves of the local authority could be made"))
    }
    return TLSContext.server().map { Interception(mint: mint, context: $0) }
  }

  private func ready(
    _ security: SecurityPolicy, trust: TrustAnchors
  ) -> Result<(enforced: OriginSecurity, reporting: OriginSecurity), TLSSetupFault> {
    let anchors = security.settings.anchors ?? trust
    if let known = current?.kept(security, anchors) { return .success(known) }
    return TLSContext.client(TLSClientSettings(security.settings)).map { context in
      (
        OriginSecurity(policy: security, anchors: anchors, enforces: true, context: context),
        OriginSecurity(policy: security, anchors: anchors, enforces: false, context: context)
      )
    }
  }

  /// The system's anchors are read once: a change to them takes effect after a restart.
  private mutating func anchors(_ source: TrustSource, _ complain: (String) -> Void) -> TrustAnchors {
    if case .anchors(let anchors) = source { return anchors }
    if let systemAnchors { return systemAnchors }
    let anchors: TrustAnchors
    switch TrustAnchors.system() {
    case .success(let found): anchors = found
    case .failure(let fault):
      complain("the system's trust anchors cannot be read, so no certificate is trusted: \(fault)")
      anchors = TrustAnchors([], origin: "system")
    }
    systemAnchors = anchors
    return anchors
  }
}

extension LivePolicy {
  fileprivate func kept(
    _ security: SecurityPolicy, _ anchors: TrustAnchors
  ) -> (enforced: OriginSecurity, reporting: OriginSecurity)? {
    guard let one = enforced[DigestKey(security)], let other = reporting[DigestKey(security)], one.anchors == anchors
    else {
      return nil
    }
    return (one, other)
  }
}

extension TLSClientSettings {
  fileprivate init(_ settings: SecurityPolicy.Settings) {
    self.init()
    minimumVersion = TLSProtocolVersion(settings.minimumVersion)
    maximumVersion = TLSProtocolVersion(settings.maximumVersion)
    ciphers = settings.ciphers?.list
    cipherSuites = settings.ciphers?.suites
    certificates = settings.clientIdentity?.certificates.map(\.der) ?? []
    key = settings.clientIdentity?.key ?? []
    asksForStatus = settings.revocation == .staple
  }
}

extension TLSProtocolVersion {
  fileprivate init(_ version: TLSVersion) {
    switch version {
    case .tls10: self = .tls10
    case .tls11: self = .tls11
    case .tls12: self = .tls12
    case .tls13: self = .tls13
    }
  }
}
