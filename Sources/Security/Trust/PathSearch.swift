// The paths from a leaf to an anchor (RFC 4158). X509_verify_cert follows one path and gives up when it fails: it
// rejects 26 of BetterTLS's 81 cases that also have a good path. So the paths are built here, depth first, and each
// path that reaches an anchor is verified as a whole. The search ends with the first one that is valid and that the
// caller accepts.
//
// Three limits bound what a server can make this cost: the number of paths verified, their length, and the steps taken
// without reaching an anchor. A hostile path fails at its first signature. For a usual chain, the first path is the
// good one. Tests: BetterTLSTests (81 cases of 81), PathSearchTests.

import COpenSSL

/// Whether `certificate` names `issuer` as its issuer, by name and key identifier. If the issuer may not sign
/// certificates, verifying the path will report that.
func mayHaveIssued(_ issuer: OpaquePointer, _ certificate: OpaquePointer) -> Bool {
  let verdict = X509_check_issued(issuer, certificate)
  return verdict == X509_V_OK || verdict == X509_V_ERR_KEYUSAGE_NO_CERTSIGN
}

struct PathSearch {
  /// The most paths that are verified. BetterTLS's cases need three; each costs about 0.2 ms.
  static let attemptLimit = 64
  /// The most certificates of a path, including leaf and anchor.
  static let lengthLimit = 12
  /// The most certificates that are tried, in all places of all paths. BetterTLS's cases need eleven.
  static let stepLimit = 1024

  private let presented: [OpaquePointer]
  private let anchors: TrustAnchors
  private let profile: TrustProfile
  private let verification: PathVerification

  /// Leaf first; the path being tried.
  private var path: [OpaquePointer]
  private(set) var attempts = 0
  private(set) var steps = 0
  private var isOver = false
  private var firstFault: PathFault?
  private var firstVerified: [OpaquePointer]?
  private var accepted: [OpaquePointer]?

  /// `chain` has a leaf, and must live as long as the result of the search.
  init(_ chain: PresentedChain, anchors: TrustAnchors, profile: TrustProfile, seconds: Int64) {
    var others: [OpaquePointer] = []
    for certificate in chain.certificates.dropFirst() where !Self.isAmong(others, certificate) {
      others.append(certificate)
    }
    presented = others
    path = [chain.certificates[0]]
    self.anchors = anchors
    self.profile = profile
    verification = PathVerification(seconds: seconds)
  }

  /// Asks `accepts` about each valid path until it returns true. Returns the accepted path, or else the first valid
  /// one, or else why the first one tried is not valid.
  mutating func run(_ accepts: ([OpaquePointer]) -> Bool) -> PathVerdict {
    if let anchor = anchors.anchor(equalTo: path[0]), endsChain(anchor) { attempt([anchor.pointer], accepts) }
    extend(accepts)
    if let path = accepted ?? firstVerified { return .holds(path) }
    return .fails(firstFault ?? whyNoneIsComplete())
  }

  /// Tries everything that can follow the last certificate of the path.
  private mutating func extend(_ accepts: ([OpaquePointer]) -> Bool) {
    guard let last = path.last, path.count < Self.lengthLimit else { return }
    var candidates = presented.filter { mayHaveIssued($0, last) }
    for anchor in ordered(anchors.issuers(of: last).map(\.pointer)) where !isOnPath(anchor) {
      if endsChain(anchor) {
        if isOver { return }
        attempt(path + [anchor], accepts)
      } else if !Self.isAmong(candidates, anchor) {
        candidates.append(anchor)
      }
    }
    for candidate in ordered(candidates) where !isOnPath(candidate) {
      if isOver || steps == Self.stepLimit { return }
      steps += 1
      path.append(candidate)
      extend(accepts)
      path.removeLast()
    }
  }

  private mutating func attempt(_ path: [OpaquePointer], _ accepts: ([OpaquePointer]) -> Bool) {
    attempts += 1
    switch verification.verify(path, in: profile) {
    case .holds(let chain):
      firstVerified = firstVerified ?? chain
      if accepts(chain) {
        accepted = chain
        isOver = true
      }
    case .fails(let fault):
      firstFault = firstFault ?? fault
      if fault.isOfLeaf { isOver = true }
    }
    if attempts == Self.attemptLimit { isOver = true }
  }

  /// A chain ends at a root. It ends at another certificate only if an operator gave that one.
  private func endsChain(_ anchor: OpaquePointer) -> Bool { anchors.endsAtIntermediates || isSelfIssued(anchor) }
  private func endsChain(_ anchor: CertificateObject) -> Bool { endsChain(anchor.pointer) }

  /// The same name with the same key, in this certificate or another: a second visit leads nowhere.
  private func isOnPath(_ candidate: OpaquePointer) -> Bool {
    path.contains { certificate in
      X509_NAME_cmp(X509_get_subject_name(certificate), X509_get_subject_name(candidate)) == 0
        && ASN1_STRING_cmp(X509_get0_pubkey_bitstr(certificate), X509_get0_pubkey_bitstr(candidate)) == 0
    }
  }

  private static func isAmong(_ certificates: [OpaquePointer], _ certificate: OpaquePointer) -> Bool {
    certificates.contains { X509_cmp($0, certificate) == 0 }
  }

  /// The most promising ones first: valid now, and declared as an authority.
  private func ordered(_ candidates: [OpaquePointer]) -> [OpaquePointer] {
    guard candidates.count > 1 else { return candidates }
    var time = time_t(verification.seconds)
    let ranked = candidates.map { candidate in
      let isCurrent =
        X509_cmp_time(X509_get0_notBefore(candidate), &time) < 0
        && X509_cmp_time(X509_get0_notAfter(candidate), &time) > 0
      return (rank: (isCurrent ? 0 : 2) + (X509_check_ca(candidate) != 0 ? 0 : 1), candidate: candidate)
    }
    return (0...3).flatMap { rank in ranked.filter { $0.rank == rank }.map(\.candidate) }
  }

  /// OpenSSL's reason why nothing leads to an anchor. If a certificate has the required name but may not be the issuer,
  /// also why.
  private func whyNoneIsComplete() -> PathFault {
    guard case .fails(var fault) = verification.verify(path + presented, endsAtAnchor: false) else {
      return PathFault(code: X509_V_ERR_UNSPECIFIED, depth: 0, certificate: path[0])
    }
    let issuer = X509_get_issuer_name(fault.certificate)
    let named =
      presented.filter { X509_NAME_cmp(X509_get_subject_name($0), issuer) == 0 }
      + anchors.named(asIssuerOf: fault.certificate).map(\.pointer)
    let refusals = named.map { X509_check_issued($0, fault.certificate) }
    if let refusal = refusals.first(where: { $0 != X509_V_OK && $0 != X509_V_ERR_KEYUSAGE_NO_CERTSIGN }) {
      fault.note =
        "a certificate of that issuer's name is there, but: \(String(cString: X509_verify_cert_error_string(Int(refusal))))"
    }
    return fault
  }
}
