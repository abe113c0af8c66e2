// A chain for the decision table of requirements, with the verdict in each profile, said by hand; and how such chains are
// made: a root, an intermediate and a leaf that keep to everything, with one thing changed.

import COpenSSL
import Security
import TestSupport

struct RequirementCase: Sendable, CustomStringConvertible {
  let description: String
  /// The row of the table that refuses it; nil: OpenSSL does, or nothing.
  let row: String?
  let isGoodInPublic: Bool
  let isGoodInPrivate: Bool
  /// Leaf first.
  let presented: [TestCertificate]
  let anchors: [TestCertificate]
  let identity: ReferenceIdentity

  private init(
    _ description: String, row: String?, _ isGoodInPublic: Bool, _ isGoodInPrivate: Bool,
    _ presented: [TestCertificate], _ anchors: [TestCertificate], _ identity: ReferenceIdentity
  ) {
    self.description = description
    self.row = row
    self.isGoodInPublic = isGoodInPublic
    self.isGoodInPrivate = isGoodInPrivate
    self.presented = presented
    self.anchors = anchors
    self.identity = identity
  }

  typealias Alteration = @Sendable (OpaquePointer) -> Void
  typealias Change = @Sendable (inout CertificatePlan) -> Void

  static func good(
    _ description: String, _ presented: [TestCertificate], _ anchors: [TestCertificate],
    for identity: ReferenceIdentity = .name(host)
  ) -> RequirementCase {
    RequirementCase(description, row: nil, true, true, presented, anchors, identity)
  }

  /// Refused in both profiles; `row` nil: by OpenSSL.
  static func bad(
    _ description: String, _ row: String?, _ presented: [TestCertificate], _ anchors: [TestCertificate],
    for identity: ReferenceIdentity = .name(host)
  ) -> RequirementCase {
    RequirementCase(description, row: row, false, false, presented, anchors, identity)
  }

  /// Refused in "public" alone.
  static func badInPublic(
    _ description: String, _ row: String, _ presented: [TestCertificate], _ anchors: [TestCertificate],
    for identity: ReferenceIdentity = .name(host)
  ) -> RequirementCase {
    RequirementCase(description, row: row, false, true, presented, anchors, identity)
  }
}

/// Chains with one thing changed.
enum Made {
  static let root = World.root
  static let intermediate = World.intermediate
  static let goodLeaf = CertificatePlan.leaf(["DNS:\(host)"], at: now)

  /// A leaf of the good intermediate.
  static func leaf(
    _ change: RequirementCase.Change = { _ in }, key: TestKey = TestKey(),
    _ alter: RequirementCase.Alteration = { _ in }
  ) -> [TestCertificate] {
    [TestCertificate(goodLeaf.with(change), key: key, issuer: intermediate, alter: alter), intermediate]
  }

  static func authority(
    _ name: String, issuer: TestCertificate? = nil, serial: Int64 = 7, key: TestKey = TestKey(),
    _ change: RequirementCase.Change = { _ in }, _ alter: RequirementCase.Alteration = { _ in }
  ) -> TestCertificate {
    TestCertificate(
      .authority(name, at: now, serialNumber: serial).with(change), key: key, issuer: issuer, alter: alter)
  }

  /// A good leaf below an intermediate that differs.
  static func intermediate(
    key: TestKey = TestKey(), _ change: RequirementCase.Change = { _ in },
    _ alter: RequirementCase.Alteration = { _ in }
  ) -> [TestCertificate] {
    let middle = authority("Middle", issuer: root, key: key, change, alter)
    return [TestCertificate(goodLeaf, issuer: middle), middle]
  }

  /// A good leaf below a root that differs; the root comes last.
  static func root(
    key: TestKey = TestKey(), _ change: RequirementCase.Change = { _ in },
    _ alter: RequirementCase.Alteration = { _ in }
  ) -> (presented: [TestCertificate], anchors: [TestCertificate]) {
    let root = authority("Another Root", key: key, change, alter)
    return ([TestCertificate(goodLeaf, issuer: root)], [root])
  }

  /// A leaf that names a key of its issuer, which does not say which it has; the issuer shown, and as the anchor.
  static func identified(belowA issuer: TestCertificate) -> (presented: [TestCertificate], anchors: [TestCertificate]) {
    let leaf = TestCertificate(
      goodLeaf, issuer: issuer,
      alter: { x509 in
        TestExtension.authorityKeyIdentifier.set(TestDER.sequence([TestDER.element(0x80, [1, 2, 3])]), in: x509)
      })
    return ([leaf, issuer], [issuer])
  }

  /// A leaf with these names below an intermediate with these constraints.
  static func constrained(_ constraints: [UInt8], critical: Bool = true, names: [[UInt8]]) -> [TestCertificate] {
    let middle = authority(
      "Constrained", issuer: root, { _ in },
      { TestExtension.nameConstraints.add(constraints, critical: critical, to: $0) })
    return [named(names, issuer: middle), middle]
  }

  static func named(_ names: [[UInt8]], issuer: TestCertificate) -> TestCertificate {
    TestCertificate(goodLeaf, issuer: issuer, alter: { TestExtension.names.set(TestDER.sequence(names), in: $0) })
  }
}

extension RequirementCase {
  static func leaf(_ description: String, _ row: String?, _ presented: [TestCertificate]) -> RequirementCase {
    .bad(description, row, presented, [World.root])
  }
}
