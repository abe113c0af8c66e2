// Whether a chain is trusted for a host under a policy. This is the order of evaluation of sallyport.toml(5), the same
// for origination, verify and intercept.
//
// It runs within a handshake, on an event loop. A good chain costs one X509_verify_cert; PathSearch bounds the cost of
// a hostile one. Nothing here waits or allocates without a limit.
// Tests: DecisionTableTests state the rule a second time and compare; BetterTLSTests; one file for each part.

import Bytes
import COpenSSL

/// What a server's certificate must be for.
public enum ReferenceIdentity: Hashable, Sendable {
  /// A DNS name in lower case, A-labels, no trailing dot.
  case name(String)
  /// 4 or 16 bytes.
  case address([UInt8])
}

/// Why a chain is rejected.
public struct TrustFailure: Error, Hashable, Sendable {
  public enum Kind: Sendable {
    /// No chain to an anchor, or a signature or purpose that is not valid, or a weak or malformed certificate.
    case untrusted
    case expired
    case notYetValid
    case nameMismatch
    case pinMismatch
    /// The pin set has expired, and `on_expiry` is "fail".
    case pinsExpired
    case revoked
    /// No stapled answer, no list, or one that is out of date.
    case revocationUnknown
  }

  public let kind: Kind
  /// A sentence: what was expected and what was seen. For a mismatch, the configured pins, and the pins that were seen
  /// with the certificate of each. Printable ASCII and "…".
  public let detail: String
  /// The same in two parts, if it has them.
  public let difference: Difference?

  public init(_ kind: Kind, _ detail: String, difference: Difference? = nil) {
    self.kind = kind
    self.detail = detail
    self.difference = difference
  }
}

/// A trusted chain.
public struct TrustSuccess: Sendable {
  /// What a report-only or expired set would have rejected; nil if there is nothing to report.
  public let report: TrustFailure?
  /// What satisfied the pin set; nil if nothing is pinned, or nothing matched.
  public let match: PinMatch?
  /// The key of the certificate that satisfied the pin set.
  public var matchedPin: PublicKeyPin? { match?.pin }

  public init(report: TrustFailure? = nil, match: PinMatch? = nil) {
    self.report = report
    self.match = match
  }
}

/// The certificate of a trusted chain that satisfies a pin set.
public struct PinMatch: Hashable, Sendable {
  public let pin: PublicKeyPin
  /// Its subject, or its first name if the subject is empty: one line, printable ASCII and "…".
  public let subject: String
  /// When it expires, in seconds since 1970.
  public let notAfter: Int64

  public init(pin: PublicKeyPin, subject: String, notAfter: Int64) {
    self.pin = pin
    self.subject = subject
    self.notAfter = notAfter
  }
}

extension SecurityPolicy {
  /// Evaluates `chain` for `identity` at `seconds` since 1970. The caller must replace the identity by the policy's
  /// serverName, if it has one. `systemAnchors` are used if the policy has none of its own. Leaves nothing in OpenSSL's
  /// error queue.
  public func evaluate(
    _ chain: PresentedChain, for identity: ReferenceIdentity, systemAnchors: TrustAnchors, at seconds: Int64
  ) -> Result<TrustSuccess, TrustFailure> {
    // Everything below uses pointers to objects that these three own.
    withExtendedLifetime((self, chain, systemAnchors)) {
      withErrorsOfItsOwn {
        let anchors = settings.anchors ?? systemAnchors
        return Evaluation(policy: self, chain: chain, identity: identity, anchors: anchors, seconds: seconds).outcome()
      }
    }
  }
}

private struct Evaluation {
  let policy: SecurityPolicy
  let chain: PresentedChain
  let identity: ReferenceIdentity
  let anchors: TrustAnchors
  let seconds: Int64

  private var settings: SecurityPolicy.Settings { policy.settings }

  func outcome() -> Result<TrustSuccess, TrustFailure> {
    guard let leaf = chain.certificates.first else {
      return .failure(TrustFailure(.untrusted, "expected a certificate, but the server showed none"))
    }
    guard chain.certificates.count <= PresentedChain.certificateLimit else {
      let count =
        "\(chain.certificates.count) certificates, of which at most \(PresentedChain.certificateLimit) are read"
      return .failure(TrustFailure(.untrusted, "the server showed \(count)"))
    }
    // Step 1. The loader rejects such a policy. One that was made in another way must not accept everything.
    if settings.allowInvalidCertificates && settings.validatesDomainName && !policy.isPinning {
      return .failure(
        TrustFailure(
          .untrusted, "the policy allows invalid certificates and asks for a name, but pins nothing that vouches for it"
        ))
    }
    var pins = PinEvaluation(policy: policy, chain: chain, seconds: seconds)

    // Step 2.
    var verified: [OpaquePointer]?
    if !settings.allowInvalidCertificates {
      var search = PathSearch(
        chain, anchors: anchors, profile: settings.profile ?? anchors.profile, seconds: seconds)
      switch search.run({ pins.accepts($0) }) {
      case .holds(let path): verified = path
      case .fails(let fault): return .failure(fault.trustFailure(trusting: anchors, at: seconds))
      }
    }
    if settings.validatesDomainName, let failure = HostCheck.failure(of: leaf, for: identity) {
      return .failure(failure)
    }

    // Step 3.
    let pinned = pins.judge(verified: verified)
    if case .failure(let failure) = pinned, pins.isEnforced { return .failure(failure) }
    if let failure = revocationFailure(verified ?? pins.pathToPinned) { return .failure(failure) }
    switch pinned {
    case .success(let match): return .success(TrustSuccess(match: match))
    case .failure(let failure): return .success(TrustSuccess(report: failure))
    }
  }

  /// Revocation is a question to an issuer. Without a verified chain there is no issuer to ask, and the answer was
  /// required.
  private func revocationFailure(_ path: [OpaquePointer]?) -> TrustFailure? {
    if case .none = settings.revocation { return nil }
    guard let path else {
      return TrustFailure(
        .revocationUnknown, "the policy asks for revocation, but allows invalid certificates: no issuer is known to ask"
      )
    }
    return RevocationCheck(policy: policy, path: path, seconds: seconds).failure(stapled: chain.stapledResponse)
  }
}
