// Chains as servers show them, each with what is true of it, said by hand: whether it leads to a trusted anchor, whom it
// is for, and what becomes of it when one of its certificates is the only anchor.

import Security
import TestSupport

enum Role: CaseIterable {
  case leaf, intermediate, root, other
}

/// What is wrong with a path, or nothing.
enum Soundness: Equatable {
  case sound
  case wrong(TrustFailure.Kind)
}

struct ChainCase: Sendable, CustomStringConvertible {
  let description: String
  let presented: [TestCertificate]
  /// Who plays which part; the root need not be shown.
  let roles: [Role: TestCertificate]
  /// Whether a path leads to the anchors that count, the name aside.
  let path: Soundness
  var isForHost = true
  /// What the verified chain holds, where there is one.
  var verified: Set<Role> = [.leaf, .intermediate, .root]
  /// What becomes of the chain with one role's certificate as the only anchor, the name aside; others lead nowhere.
  let anchoredAt: [Role: Soundness]
  /// Instead of the system's.
  var anchors: TrustAnchors? = nil
}

private func wrong(_ kind: TrustFailure.Kind) -> Soundness { .wrong(kind) }

extension ChainCase {
  private typealias W = World

  private static func roles(
    _ leaf: TestCertificate, _ intermediate: TestCertificate = W.intermediate, _ root: TestCertificate = W.root
  ) -> [Role: TestCertificate] {
    [.leaf: leaf, .intermediate: intermediate, .root: root, .other: W.other]
  }

  private static let everywhereSound: [Role: Soundness] = [.leaf: .sound, .intermediate: .sound, .root: .sound]

  /// A case whose leaf differs from the good one.
  private static func ofLeaf(
    _ name: String, _ leaf: TestCertificate, _ kind: TrustFailure.Kind, leafAlone: Soundness
  ) -> ChainCase {
    ChainCase(
      description: name, presented: [leaf, W.intermediate], roles: roles(leaf), path: wrong(kind),
      anchoredAt: [.leaf: leafAlone, .intermediate: wrong(kind), .root: wrong(kind)])
  }

  /// A case whose intermediate differs from the good one.
  private static func ofIntermediate(
    _ name: String, _ intermediate: TestCertificate, _ kind: TrustFailure.Kind, intermediateAnchored: Soundness
  ) -> ChainCase {
    let leaf = TestCertificate(good, issuer: intermediate)
    return ChainCase(
      description: name, presented: [leaf, intermediate], roles: roles(leaf, intermediate), path: wrong(kind),
      anchoredAt: [.leaf: .sound, .intermediate: intermediateAnchored, .root: wrong(kind)])
  }

  private static let good = CertificatePlan.leaf(["DNS:\(host)"], at: now)
  private static let authority = CertificatePlan.authority("Intermediate", at: now, serialNumber: 2)

  static let all: [ChainCase] = sound + leaves + intermediates + elsewhere

  private static let sound: [ChainCase] = [
    ChainCase(
      description: "good", presented: [W.leaf, W.intermediate], roles: roles(W.leaf), path: .sound,
      anchoredAt: everywhereSound),
    ChainCase(
      description: "good, with its root", presented: [W.leaf, W.intermediate, W.root], roles: roles(W.leaf),
      path: .sound, anchoredAt: everywhereSound),
    ChainCase(
      description: "reordered", presented: [W.leaf, W.root, W.intermediate], roles: roles(W.leaf), path: .sound,
      anchoredAt: everywhereSound),
    ChainCase(
      description: "an unrelated certificate appended", presented: [W.leaf, W.intermediate, W.other],
      roles: roles(W.leaf), path: .sound, anchoredAt: everywhereSound),
    ChainCase(
      description: "an unrelated certificate between", presented: [W.leaf, W.other, W.intermediate],
      roles: roles(W.leaf), path: .sound, anchoredAt: everywhereSound),
    ChainCase(
      description: "a private authority, with its anchor", presented: [W.privateLeaf, W.privateIntermediate],
      roles: roles(W.privateLeaf, W.privateIntermediate, W.privateRoot), path: .sound,
      anchoredAt: everywhereSound, anchors: RuleAnchors.privateRoot),
    ChainCase(
      description: "a private authority, its intermediate the anchor", presented: [W.privateLeaf],
      roles: roles(W.privateLeaf, W.privateIntermediate, W.privateRoot), path: .sound,
      verified: [.leaf, .intermediate],
      anchoredAt: [.leaf: .sound, .intermediate: .sound], anchors: RuleAnchors.privateIntermediate),
  ]

  private static let leaves: [ChainCase] = [
    ofLeaf(
      "expired", TestCertificate(good.with { $0.notAfter = now - day }, issuer: W.intermediate), .expired,
      leafAlone: wrong(.expired)),
    ofLeaf(
      "not yet valid", TestCertificate(good.with { $0.notBefore = now + day }, issuer: W.intermediate), .notYetValid,
      leafAlone: wrong(.notYetValid)),
    ofLeaf(
      "for clients only",
      TestCertificate(good.with { $0.extendedKeyUsage = "clientAuth" }, issuer: W.intermediate), .untrusted,
      leafAlone: wrong(.untrusted)),
    ofLeaf(
      "leaf signed with SHA-1", TestCertificate(good.with { $0.digest = .sha1 }, issuer: W.intermediate), .untrusted,
      leafAlone: .sound),
    ofLeaf(
      "leaf of RSA-1024", TestCertificate(good, key: TestKey(.rsa(bits: 1024)), issuer: W.intermediate), .untrusted,
      leafAlone: wrong(.untrusted)),
    ChainCase(
      description: "wrong name",
      presented: [wrongName, W.intermediate], roles: roles(wrongName), path: .sound, isForHost: false,
      anchoredAt: everywhereSound),
  ]

  private static let wrongName = TestCertificate(
    good.with { $0.names = ["DNS:shop.example.com"] }, issuer: W.intermediate)

  private static let intermediates: [ChainCase] = [
    ofIntermediate(
      "intermediate expired", TestCertificate(authority.with { $0.notAfter = now - day }, issuer: W.root), .expired,
      intermediateAnchored: wrong(.expired)),
    ofIntermediate(
      "CA bit missing", TestCertificate(authority.with { $0.isAuthority = false }, issuer: W.root), .untrusted,
      intermediateAnchored: wrong(.untrusted)),
    ofIntermediate(
      "no basic constraints", TestCertificate(authority.with { $0.isAuthority = nil }, issuer: W.root), .untrusted,
      // Of an anchor OpenSSL asks less: whoever gave it vouches for it.
      intermediateAnchored: .sound),
    ofIntermediate(
      "intermediate may not sign certificates",
      TestCertificate(authority.with { $0.keyUsage = "digitalSignature" }, issuer: W.root), .untrusted,
      intermediateAnchored: wrong(.untrusted)),
    ofIntermediate(
      "intermediate signed with SHA-1", TestCertificate(authority.with { $0.digest = .sha1 }, issuer: W.root),
      .untrusted, intermediateAnchored: .sound),
    ofIntermediate(
      "intermediate of RSA-1024", TestCertificate(authority, key: TestKey(.rsa(bits: 1024)), issuer: W.root),
      .untrusted,
      intermediateAnchored: wrong(.untrusted)),
    ofIntermediate(
      "name constraints that exclude the host",
      TestCertificate(authority.with { $0.nameConstraints = "excluded;DNS:example.com" }, issuer: W.root), .untrusted,
      intermediateAnchored: wrong(.untrusted)),
    pathLength,
  ]

  /// The upper intermediate allows no authority below it.
  private static let pathLength: ChainCase = {
    let upper = TestCertificate(authority.with { $0.pathLength = 0 }, issuer: W.root)
    let lower = TestCertificate(.authority("Lower", at: now, serialNumber: 3), issuer: upper)
    let leaf = TestCertificate(good, issuer: lower)
    return ChainCase(
      description: "path length", presented: [leaf, lower, upper], roles: roles(leaf, upper), path: wrong(.untrusted),
      anchoredAt: [.leaf: .sound, .intermediate: wrong(.untrusted), .root: wrong(.untrusted)])
  }()

  private static let elsewhere: [ChainCase] = [
    ChainCase(
      description: "incomplete", presented: [W.leaf], roles: roles(W.leaf), path: wrong(.untrusted),
      anchoredAt: [.leaf: .sound, .intermediate: .sound]),
    ChainCase(
      description: "self-signed", presented: [selfSigned], roles: roles(selfSigned), path: wrong(.untrusted),
      anchoredAt: [.leaf: .sound]),
    ChainCase(
      description: "self-signed and an anchor", presented: [selfSigned], roles: roles(selfSigned), path: .sound,
      verified: [.leaf], anchoredAt: [.leaf: .sound], anchors: RuleAnchors.of(selfSigned)),
    ChainCase(
      description: "self-signed and expired", presented: [expiredSelfSigned], roles: roles(expiredSelfSigned),
      path: wrong(.untrusted), anchoredAt: [.leaf: wrong(.expired)]),
    ChainCase(
      description: "a private authority, without its anchor", presented: [W.privateLeaf, W.privateIntermediate],
      roles: roles(W.privateLeaf, W.privateIntermediate, W.privateRoot), path: wrong(.untrusted),
      anchoredAt: everywhereSound),
    ChainCase(
      description: "forged, the intermediate's name without its key", presented: [forged, W.intermediate],
      roles: roles(forged), path: wrong(.untrusted), anchoredAt: [.leaf: .sound]),
  ]

  private static let selfSigned = TestCertificate(good.with { $0.commonName = "self" })
  private static let expiredSelfSigned = TestCertificate(good.with { $0.notAfter = now - day })
  private static let forged = TestCertificate(
    good, issuer: TestCertificate(authority.with { $0.hasKeyIdentifiers = false }))
}

private enum RuleAnchors {
  static let privateRoot = of(World.privateRoot)
  static let privateIntermediate = of(World.privateIntermediate)
  static func of(_ certificate: TestCertificate) -> TrustAnchors { anchors([certificate], origin: "private-ca.pem") }
}
