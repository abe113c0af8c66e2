// Step 3 of the order of evaluation: whether a chain satisfies a pin set. Only a verified chain counts: anyone can
// present a certificate, so that alone proves nothing. Tests: DecisionTableTests, PinEvaluationTests.

import Bytes
import COpenSSL

struct PinEvaluation {
  /// The most pins, seen or configured, that a message lists.
  private static let listedPinLimit = 16

  private let policy: SecurityPolicy
  private let chain: PresentedChain
  private let seconds: Int64

  private var match: PinMatch?
  /// The certificates of all verified paths, each once, as a message shows them.
  private var seen: [String] = []
  /// In certificate mode: the verified path to a pinned certificate.
  private(set) var pathToPinned: [OpaquePointer]?

  init(policy: SecurityPolicy, chain: PresentedChain, seconds: Int64) {
    self.policy = policy
    self.chain = chain
    self.seconds = seconds
  }

  private var set: PinSet? { policy.settings.pinSet }

  /// Whether a mismatch rejects the chain. A set that only reports rejects nothing, and neither does an expired one
  /// with `on_expiry` = "report".
  var isEnforced: Bool {
    guard let set else { return false }
    return set.enforce && (set.failsOnExpiry || !set.isExpired(at: seconds))
  }

  /// Whether the search may end with this verified path. A pinned key may be on another path. For pinned certificates
  /// there is a separate search, which verifies the chain against them.
  mutating func accepts(_ path: [OpaquePointer]) -> Bool {
    switch set?.mode {
    case .publicKey:
      look(for: policy.pinnedKeys, on: path)
      return match != nil
    case .certificate:
      // The part of a verified path up to a pinned certificate is thereby verified too, and need not be verified again.
      if let pinned = path.first(where: { policy.pinnedAnchors?.anchor(equalTo: $0) != nil }) {
        match = PinMatch(of: pinned)
      }
      note(path)
      return true
    case .some(.none), nil: return true
    }
  }

  /// What matched; nil if nothing is pinned. `verified`: the result of step 2; nil if it was waived.
  mutating func judge(verified: [OpaquePointer]?) -> Result<PinMatch?, TrustFailure> {
    guard let set, set.isPinning else { return .success(nil) }
    if set.failsOnExpiry, let expires = set.expires, set.isExpired(at: seconds) {
      let text = "the pin set '\(set.name)' expired at \(dateText(expires)); it is \(dateText(seconds))"
      return .failure(TrustFailure(.pinsExpired, text))
    }
    if let match { return .success(match) }
    if set.mode == .certificate { return judgeCertificates(set) }
    if verified == nil {
      // The other certificates are unverified. Only the leaf has proved, in the handshake, that it has its key.
      look(for: policy.pinnedKeys, on: [chain.certificates[0]])
      if let match { return .success(match) }
    }
    let configured = policy.pinnedKeys.map(\.description).sorted()
    let found = verified == nil ? "the leaf" : "the verified chain"
    return .failure(
      TrustFailure(
        .pinMismatch,
        "expected a key of the pin set '\(set.name)' (\(Self.list(configured))); \(found) has \(Self.list(seen))",
        difference: Difference(expected: Self.list(configured), seen: Self.list(seen))))
  }

  /// Verifies the chain again with the pinned certificates as its only anchors.
  private mutating func judgeCertificates(_ set: PinSet) -> Result<PinMatch?, TrustFailure> {
    guard let pinned = policy.pinnedAnchors, pinned.count > 0 else {
      return .failure(mismatch(set, "the set has no certificate"))
    }
    // The operator vouches for a pinned certificate, so it must only meet what a private authority must.
    var search = PathSearch(chain, anchors: pinned, profile: .private, seconds: seconds)
    switch search.run({ path in path.contains { pinned.anchor(equalTo: $0) != nil } }) {
    case .fails(let fault) where search.attempts == 0 || fault.leadsElsewhere:
      return .failure(mismatch(set, fault.sentence(at: seconds)))
    case .fails(let fault): return .failure(TrustFailure(fault.kind, fault.sentence(at: seconds)))
    case .holds(let path):
      guard let certificate = path.first(where: { pinned.anchor(equalTo: $0) != nil }) else {
        return .failure(mismatch(set, "no certificate of the verified chain is pinned"))
      }
      pathToPinned = path
      return .success(PinMatch(of: certificate))
    }
  }

  private mutating func mismatch(_ set: PinSet, _ reason: String) -> TrustFailure {
    if seen.isEmpty { note(chain.certificates) }
    let configured = set.certificates.map { "\(quotable($0.subject)) serial \($0.serialNumber) \($0.publicKeyPin)" }
    return TrustFailure(
      .pinMismatch,
      "expected a chain to a certificate of the pin set '\(set.name)' (\(Self.list(configured))); "
        + "the server has \(Self.list(seen)); \(reason)",
      difference: Difference(expected: Self.list(configured), seen: Self.list(seen)))
  }

  private mutating func look(for pins: Set<PublicKeyPin>, on path: [OpaquePointer]) {
    for certificate in path {
      guard let pin = PublicKeyPin(of: certificate) else { continue }
      if pins.contains(pin) {
        match = PinMatch(pin, of: certificate)
        return
      }
    }
    note(path)
  }

  private mutating func note(_ path: [OpaquePointer]) {
    for certificate in path {
      let pin = PublicKeyPin(of: certificate)?.description ?? "a key that cannot be read"
      let serial = hexadecimal(octets(X509_get0_serialNumber(certificate)))
      let text =
        set?.mode == .certificate
        ? "\(title(certificate)) serial \(quotable(serial)) \(pin)" : "\(title(certificate)) \(pin)"
      if !seen.contains(text) { seen.append(text) }
    }
  }

  private static func list(_ items: [String]) -> String {
    items.isEmpty ? "none" : listed(items, atMost: listedPinLimit)
  }
}

extension PinMatch {
  fileprivate init?(of certificate: OpaquePointer) {
    guard let pin = PublicKeyPin(of: certificate) else { return nil }
    self.init(pin, of: certificate)
  }

  /// If its validity cannot be read, it counts as expired. Only a policy that allows invalid certificates accepts it at
  /// all.
  fileprivate init(_ pin: PublicKeyPin, of certificate: OpaquePointer) {
    self.init(pin: pin, subject: title(certificate), notAfter: seconds(X509_get0_notAfter(certificate)) ?? 0)
  }
}
