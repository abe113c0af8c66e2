// The certificates that the tests of this module share: one authority that everybody trusts, one that nobody does, and
// what goes wrong between them. Made once for each run.

import Bytes
import Security
import TestSupport

/// 2026-12-01T00:00:00Z, the time at which the tests verify.
let now: Int64 = 1_796_083_200
let day: Int64 = 86_400
let host = "pay.example.com"

enum World {
  static let root = TestCertificate(.authority("Root", at: now))
  static let intermediate = TestCertificate(.authority("Intermediate", at: now, serialNumber: 2), issuer: root)
  static let leaf = TestCertificate(.leaf(["DNS:\(host)"], at: now), issuer: intermediate)
  /// Of an authority that no chain leads to.
  static let other = TestCertificate(
    .leaf(["DNS:other.example"], at: now).with { $0.commonName = "other" }, issuer: privateRoot)

  static let privateRoot = TestCertificate(.authority("Private Root", at: now))
  static let privateIntermediate = TestCertificate(
    .authority("Private Intermediate", at: now, serialNumber: 2), issuer: privateRoot)
  static let privateLeaf = TestCertificate(.leaf(["DNS:\(host)"], at: now), issuer: privateIntermediate)

  static let system = anchors([root], origin: "system")
}

func certificates(_ made: [TestCertificate]) -> [Certificate] {
  made.flatMap { one in
    guard case .success(let certificates) = Certificate.read(one.der) else { fatalError("no certificate") }
    return certificates
  }
}

func anchors(_ made: [TestCertificate], origin: String = "test") -> TrustAnchors {
  TrustAnchors(certificates(made), origin: origin)
}

func shown(_ made: [TestCertificate], stapled: [UInt8]? = nil) -> PresentedChain {
  withExtendedLifetime(made) { PresentedChain(retaining: made.map(\.x509), stapledResponse: stapled) }
}

func pin(of made: TestCertificate) -> PublicKeyPin { certificates([made])[0].publicKeyPin }

/// A policy, by what differs from the usual one.
func policy(_ change: (inout SecurityPolicy.Settings) -> Void = { _ in }) -> SecurityPolicy {
  var settings = SecurityPolicy.Settings()
  change(&settings)
  return SecurityPolicy(settings)
}

func pinSet(_ mode: SSLPinningMode, _ made: [TestCertificate]) -> PinSet {
  var set = PinSet(name: "payments")
  set.mode = mode
  set.certificates = certificates(made)
  return set
}

extension SecurityPolicy {
  /// For the host that the tests ask for, at their time, with their system's anchors.
  func verdict(
    _ chain: PresentedChain, for identity: ReferenceIdentity = .name(host), at seconds: Int64 = now
  ) -> Result<TrustSuccess, TrustFailure> {
    evaluate(chain, for: identity, systemAnchors: World.system, at: seconds)
  }

  func failure(
    _ chain: PresentedChain, for identity: ReferenceIdentity = .name(host), at seconds: Int64 = now
  ) -> TrustFailure? {
    guard case .failure(let failure) = verdict(chain, for: identity, at: seconds) else { return nil }
    return failure
  }
}
