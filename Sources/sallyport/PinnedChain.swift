// The value of pins on the certificates of a chain.

import Security

struct PinnedChain {
  enum Role: String {
    case leaf, intermediate, root
    /// Not part of a chain that verifies: a pin on it never matches.
    case unverified
  }

  struct Member {
    let certificate: Certificate
    let role: Role
    /// false: the server did not send it; it is an anchor.
    let wasSent: Bool
  }

  /// Leaf first, then as they were sent, then anchors.
  let members: [Member]
  /// Why no chain leads to an anchor; nil if one does.
  let fault: String?
  /// Why the leaf is not for the name; nil if it is, or if there is no name to check.
  let nameFault: String?
  let checksName: Bool
  /// The time of these results, in seconds since 1970.
  let seconds: Int64

  /// `identity` nil: for no particular server.
  init(_ sent: [Certificate], identity: ReferenceIdentity?, anchors: TrustAnchors, at seconds: Int64) {
    let trial = Trial(sent: sent, identity: identity, anchors: anchors, seconds: seconds)
    fault = trial.fault()
    checksName = identity != nil
    nameFault = identity == nil ? nil : trial.nameFault(chainFault: fault)
    self.seconds = seconds
    var members: [Member] = []
    for (index, certificate) in sent.enumerated() where !members.contains(where: { $0.certificate == certificate }) {
      let role: Role =
        index == 0 ? .leaf : fault == nil && trial.holds(certificate) ? Self.role(certificate) : .unverified
      members.append(Member(certificate: certificate, role: role, wasSent: true))
    }
    if fault == nil {
      for anchor in trial.anchorsInReach() where !members.contains(where: { $0.certificate == anchor }) {
        if trial.holds(anchor) { members.append(Member(certificate: anchor, role: Self.role(anchor), wasSent: false)) }
      }
    }
    self.members = members
  }

  private static func role(_ certificate: Certificate) -> Role { certificate.isSelfSigned ? .root : .intermediate }

  /// The pins that can replace the leaf's: those of the chain that verifies, nearest to the leaf first.
  var backups: [Member] { members.filter { $0.role == .intermediate || $0.role == .root } }
}

/// Uses the daemon's own evaluation.
private struct Trial {
  let sent: [Certificate]
  let identity: ReferenceIdentity?
  let anchors: TrustAnchors
  let seconds: Int64

  /// Why no chain leads to an anchor, regardless of the name.
  func fault() -> String? { evaluate { $0.validatesDomainName = false } }

  /// Why the leaf is not for the name. If no chain leads to an anchor, only the name is checked.
  func nameFault(chainFault: String?) -> String? {
    evaluate {
      guard chainFault != nil, let leaf = sent.first else { return }
      // On an untrusted chain, a name is only checked under a pin.
      $0.allowInvalidCertificates = true
      $0.pinSet = Self.set(of: leaf)
    }
  }

  /// Whether a chain that verifies contains the key of `certificate`.
  func holds(_ certificate: Certificate) -> Bool {
    evaluate {
      $0.validatesDomainName = false
      $0.pinSet = Self.set(of: certificate)
    } == nil
  }

  private static func set(of certificate: Certificate) -> PinSet {
    var set = PinSet(name: "trial")
    set.keys = [certificate.publicKeyPin]
    return set
  }

  private func evaluate(_ change: (inout SecurityPolicy.Settings) -> Void) -> String? {
    var settings = SecurityPolicy.Settings()
    change(&settings)
    let verdict = PresentedChain.decode(sent.map(\.der)).flatMap { chain in
      SecurityPolicy(settings).evaluate(
        chain, for: identity ?? .name("localhost"), systemAnchors: anchors, at: seconds)
    }
    switch verdict {
    case .success: return nil
    case .failure(let failure): return failure.detail
    }
  }

  /// The anchors that, by their name, could have issued one of the certificates.
  func anchorsInReach() -> [Certificate] {
    let issuers = Set(sent.map(\.issuer))
    return anchors.certificatesDER.compactMap { try? Certificate.read($0).get().first }
      .filter { issuers.contains($0.subject) }
  }
}
