// How the table of PathRequirements is applied: for a path that OpenSSL accepts, each requirement is checked for each
// certificate that it applies to, from the leaf on. Tests: PathRequirementTests walk the same table.

import COpenSSL

/// The role of a certificate in its path.
struct PathPosition: OptionSet, Hashable, Sendable {
  let rawValue: Int

  static let leaf = PathPosition(rawValue: 1)
  static let between = PathPosition(rawValue: 2)
  /// The end of the path.
  static let anchor = PathPosition(rawValue: 4)
  /// Leaf and anchor at once: an operator trusts exactly this certificate.
  static let trustedLeaf = PathPosition(rawValue: 8)

  static let none: PathPosition = []
  static let all: PathPosition = [.leaf, .between, .anchor, .trustedLeaf]
  /// Certificates that sign others.
  static let authorities: PathPosition = [.between, .anchor]
  /// Certificates that a server presents as its own.
  static let leaves: PathPosition = [.leaf, .trustedLeaf]
}

/// A certificate at its place in a path.
struct PathPlace {
  /// Leaf first.
  let path: [CertificateFacts]
  let index: Int

  var facts: CertificateFacts { path[index] }
  /// The certificates above it.
  var authorities: ArraySlice<CertificateFacts> { path[(index + 1)...] }

  var position: PathPosition {
    if path.count == 1 { return .trustedLeaf }
    return index == 0 ? .leaf : index == path.count - 1 ? .anchor : .between
  }
}

/// A row of the table.
struct PathRequirement: Sendable {
  /// For tests and lists: `serial number, positive`.
  let name: String
  /// The standard that requires it.
  let section: String
  /// Which certificates it applies to, in each profile.
  let inPublic: PathPosition
  let inPrivate: PathPosition
  /// What is expected, for a message.
  let expected: String
  /// What was found instead; nil if the requirement is met.
  let found: @Sendable (PathPlace) -> String?
  /// Whether it depends on the other certificates of the path.
  var isOfPath = false

  func positions(in profile: TrustProfile) -> PathPosition { profile == .public ? inPublic : inPrivate }

  static func violation(of path: [OpaquePointer], in profile: TrustProfile) -> PathViolation? {
    let facts = path.map(CertificateFacts.init)
    for index in facts.indices {
      let place = PathPlace(path: facts, index: index)
      let position = place.position
      for requirement in all where requirement.positions(in: profile).contains(position) {
        guard let found = requirement.found(place) else { continue }
        return PathViolation(requirement: requirement, found: found, profile: profile, position: position, depth: index)
      }
    }
    return nil
  }
}

/// A requirement that a certificate does not meet.
struct PathViolation: Sendable {
  let requirement: PathRequirement
  let found: String
  let profile: TrustProfile
  let position: PathPosition
  /// 0: the leaf.
  let depth: Int

  /// No other path can satisfy it.
  var isOfLeafAlone: Bool { position == .leaf && !requirement.isOfPath }

  /// What was expected of the certificate `subject`, and what it has.
  func sentence(of subject: String) -> String {
    let other: TrustProfile = profile == .public ? .private : .public
    let isAskedInOther = requirement.positions(in: other).contains(position)
    let note = isAskedInOther ? "" : "; the profile \"\(profile.rawValue)\" asks for it"
    return
      "expected \(requirement.expected) in the certificate \(subject), found \(found) (\(requirement.section))\(note)"
  }
}
