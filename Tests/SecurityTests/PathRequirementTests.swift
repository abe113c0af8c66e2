// The decision table of requirements, walked: each chain has its verdict in each profile, each row has a chain that it
// refuses, and no root of the system is refused by any.

import COpenSSL
import Glibc
import TestSupport
import Testing

@testable import Security

@Suite struct PathRequirementTests {
  private static func failure(
    _ one: RequirementCase, _ profile: TrustProfile
  ) -> TrustFailure? {
    let policy = policy { settings in
      settings.anchors = anchors(one.anchors.isEmpty ? [one.presented[one.presented.count - 1]] : one.anchors)
      settings.profile = profile
    }
    return policy.failure(shown(one.presented), for: one.identity)
  }

  @Test(arguments: RequirementCase.all)
  func eachChainIsJudgedAsTheTableSays(one: RequirementCase) throws {
    for (profile, isGood) in [(TrustProfile.public, one.isGoodInPublic), (.private, one.isGoodInPrivate)] {
      let failure = Self.failure(one, profile)
      #expect((failure == nil) == isGood, "\(one) in \(profile): \(failure?.detail ?? "accepted")")
      guard let failure, !isGood else { continue }
      if let name = one.row {
        let row = try #require(PathRequirement.all.first { $0.name == name })
        // Where "public" asks for more, another row may come first there.
        guard profile == .private || row.inPrivate.isEmpty || one.isGoodInPrivate else { continue }
        guard profile == .public || !row.inPrivate.isEmpty else { continue }
        #expect(failure.kind == .untrusted)
        #expect(
          failure.detail.hasPrefix("expected \(row.expected) in the certificate ")
            && failure.detail.contains("(\(row.section))"), "\(one): \(failure.detail)")
      }
    }
  }

  /// Each root of the system, asked of it what is asked of an anchor: none is refused in any profile.
  @Test func noRootOfTheSystemIsRefused() throws {
    guard case .success(let roots) = TrustAnchors.system() else {
      print("PathRequirementTests: no anchors of the system, none tested")
      return
    }
    let leaf = World.leaf
    var refused: [String] = []
    for der in roots.certificatesDER {
      let root = try #require(CertificateObject.decode(der))
      withExtendedLifetime((root, leaf)) {
        let path = [leaf.x509, root.pointer].map { CertificateFacts($0) }
        let place = PathPlace(path: path, index: 1)
        #expect(place.position == .anchor)
        for row in PathRequirement.all where !row.inPublic.union(row.inPrivate).isDisjoint(with: .anchor) {
          if let found = row.found(place) { refused.append("\(title(root.pointer)): \(row.name): \(found)") }
        }
      }
    }
    #expect(refused == [])
    #expect(roots.count > 50)
  }

  @Test func aMessageNamesTheCertificateWhatItHasAndTheSection() {
    let one = RequirementCase.all.first { $0.description == "a purpose in a root" }
    #expect(
      one.flatMap { Self.failure($0, .public) }
        == TrustFailure(
          .untrusted,
          "expected no extKeyUsage in a root in the certificate CN=Another Root, found one (BR 7.1.2.1.2); "
            + "the profile \"public\" asks for it"))
    let serial = RequirementCase.all.first { $0.description == "serial of zero" }
    #expect(
      serial.flatMap { Self.failure($0, .private) }
        == TrustFailure(
          .untrusted,
          "expected a positive serial number in the certificate CN=leaf, found zero (RFC 5280, 4.1.2.2)"))
  }

  @Test func theProfileIsThatOfTheAnchorsWhereThePolicySaysNone() {
    let leaf = Made.leaf({ $0.extendedKeyUsage = nil })
    let given = anchors([World.root])
    func verdict(_ change: (inout SecurityPolicy.Settings) -> Void, _ trust: TrustAnchors) -> Bool {
      let verdict = policy(change).evaluate(shown(leaf), for: .name(host), systemAnchors: trust, at: now)
      if case .success = verdict { return true }
      return false
    }
    #expect(given.profile == .private)
    #expect(verdict({ _ in }, given))
    #expect(!verdict({ _ in }, given.with(profile: .public)))
    #expect(!verdict({ $0.profile = .public }, given))
    #expect(verdict({ $0.profile = .private }, given.with(profile: .public)))
    // A rule's own anchors are an operator's, whatever [trust] says of its own.
    #expect(verdict({ $0.anchors = given }, given.with(profile: .public)))
    // Waived with the step that it is a part of.
    #expect(
      verdict(
        {
          $0.allowInvalidCertificates = true
          $0.validatesDomainName = false
        }, given.with(profile: .public)))
    // Pinned certificates are held to what private authorities are held to, in the place of the anchors.
    #expect(given != given.with(profile: .public))
    #expect(given.with(profile: .public).digest != given.digest)
    #expect(given.with(profile: .private).digest == given.digest)
  }

  @Test func eachRowRefusesSomething() {
    let seen = Set(RequirementCase.all.compactMap(\.row))
    let unseen = PathRequirement.all.map(\.name).filter { !seen.contains($0) }
    #expect(unseen == [])
    #expect(Set(PathRequirement.all.map(\.name)).count == PathRequirement.all.count)
  }
}
