// Paths among what a server shows: the usual one at the first try, others when that one fails, and an end to it when
// somebody made a maze.

import COpenSSL
import Testing
import TestSupport

@testable import Security

@Suite struct PathSearchTests {
  private typealias W = World

  /// What a search comes to, and the paths it verified.
  private struct Outcome {
    var path: [OpaquePointer]?
    var fault: PathFault?
    var attempts = 0
    var steps = 0
  }

  private static func search(
    _ presented: [TestCertificate], _ anchors: TrustAnchors, accepts: ([OpaquePointer]) -> Bool = { _ in true },
    _ check: (Outcome) -> Void
  ) {
    let chain = shown(presented)
    withExtendedLifetime((chain, anchors)) {
      var search = PathSearch(chain, anchors: anchors, profile: .private, seconds: now)
      let verdict = search.run(accepts)
      var outcome = Outcome(attempts: search.attempts, steps: search.steps)
      switch verdict {
      case .holds(let path): outcome.path = path
      case .fails(let fault): outcome.fault = fault
      }
      check(outcome)
    }
  }

  private static func authority(
    _ name: String, _ serial: Int64 = 1, key: TestKey = TestKey(), issuer: TestCertificate? = nil,
    _ change: (inout CertificatePlan) -> Void = { _ in }
  ) -> TestCertificate {
    TestCertificate(.authority(name, at: now, serialNumber: serial).with(change), key: key, issuer: issuer)
  }

  private static func leaf(_ issuer: TestCertificate) -> TestCertificate {
    TestCertificate(.leaf(["DNS:\(host)"], at: now), issuer: issuer)
  }

  @Test(arguments: [
    [W.leaf, W.intermediate], [W.leaf, W.intermediate, W.root], [W.leaf, W.root, W.intermediate, W.leaf],
    [W.leaf, W.intermediate, W.intermediate, W.other, W.privateRoot],
  ])
  func aGoodChainIsVerifiedOnce(presented: [TestCertificate]) {
    Self.search(presented, W.system) { outcome in
      #expect(outcome.path?.count == 3)
      #expect(outcome.attempts == 1)
      #expect(outcome.steps == 1)
    }
  }

  @Test func aCrossSignatureThatHasExpiredIsPassedBy() {
    let key = TestKey()
    let oldRoot = Self.authority("Old Root") { $0.notAfter = now - day }
    let expired = Self.authority("Middle", 2, key: key, issuer: oldRoot)
    let current = Self.authority("Middle", 3, key: key, issuer: W.root)
    let leaf = Self.leaf(current)
    for presented in [[leaf, expired, current], [leaf, current, expired]] {
      Self.search(presented, anchors([oldRoot, W.root])) { outcome in
        #expect(outcome.path?.count == 3)
        #expect(outcome.attempts <= 2)
      }
    }
  }

  @Test func whatIsCurrentAndAnAuthorityIsTriedFirst() {
    let key = TestKey()
    let expired = Self.authority("Middle", 2, key: key, issuer: W.root) { $0.notAfter = now - day }
    let noAuthority = Self.authority("Middle", 3, key: key, issuer: W.root) { $0.isAuthority = false }
    let future = Self.authority("Middle", 4, key: key, issuer: W.root) { $0.notBefore = now + day }
    let good = Self.authority("Middle", 5, key: key, issuer: W.root)
    Self.search([Self.leaf(good), expired, noAuthority, future, good], W.system) { outcome in
      #expect(outcome.path?.count == 3)
      #expect(outcome.attempts == 1)
    }
  }

  @Test func theSearchGoesOnUntilAPathIsAccepted() {
    let key = TestKey()
    let otherRoot = Self.authority("Other Root")
    let first = Self.authority("Middle", 2, key: key, issuer: W.root)
    let second = Self.authority("Middle", 3, key: key, issuer: otherRoot)
    let leaf = Self.leaf(first)
    let both = anchors([W.root, otherRoot])
    for wanted in [W.root, otherRoot] {
      Self.search([leaf, first, second], both, accepts: { path in path.contains { X509_cmp($0, wanted.x509) == 0 } }) {
        #expect($0.path.map { X509_cmp($0[2], wanted.x509) == 0 } == true)
      }
      let pinned = policy { settings in
        settings.anchors = both
        settings.pinSet = pinSet(.publicKey, [wanted])
      }
      #expect(pinned.failure(shown([leaf, first, second])) == nil)
    }
    // Where no path is accepted, the first that holds is the answer, and the caller decides.
    Self.search([leaf, first, second], both, accepts: { _ in false }) { outcome in
      #expect(outcome.path?.count == 3)
      #expect(outcome.attempts == 2)
    }
  }

  @Test func anAnchorThatIsNoRootEndsAChainWhereAnOperatorGaveIt() {
    let middle = W.intermediate
    let given = anchors([middle])
    let found = TrustAnchors(
      [CertificateObject.decode(middle.der)].compactMap(\.self), origin: "system", endsAtIntermediates: false)
    Self.search([W.leaf], given) { #expect($0.path?.count == 2) }
    Self.search([W.leaf], found) { #expect($0.path == nil) }
    // What the system's store holds beside its roots still helps to reach one of them.
    let both = TrustAnchors(
      [middle, W.root].compactMap { CertificateObject.decode($0.der) }, origin: "system", endsAtIntermediates: false)
    Self.search([W.leaf], both) { #expect($0.path?.count == 3) }
    // And so for the leaf itself.
    Self.search([W.leaf], anchors([W.leaf])) { #expect($0.path?.count == 1) }
  }

  @Test func anAnchorOfTheIntermediatesNameDoesNotTakeItsPlace() {
    let root = Self.authority("Same")
    let middle = Self.authority("Same", 2, issuer: root)
    // Only the signature says which of the two has issued it.
    let leaf = TestCertificate(.leaf(["DNS:\(host)"], at: now).with { $0.hasKeyIdentifiers = false }, issuer: middle)
    Self.search([leaf, middle], anchors([root])) { #expect($0.path?.count == 3) }
  }

  @Test(arguments: [(10, true), (11, false)])
  func aPathHasTwelveCertificatesAtMost(between: Int, isFound: Bool) {
    var chain = [W.root]
    for number in 0..<between { chain.append(Self.authority("Level \(number)", 2, issuer: chain[number])) }
    let leaf = Self.leaf(chain[between])
    Self.search([leaf] + chain.dropFirst().reversed(), W.system) { #expect(($0.path != nil) == isFound) }
  }

  @Test func sixtyFourPathsAreVerifiedAtMost() {
    let key = TestKey()
    let roots = (0..<70).map { number in
      Self.authority("Crowd", Int64(number + 1)) { $0.hasKeyIdentifiers = false }
    }
    let signer = Self.authority("Crowd", 99, key: key) { $0.hasKeyIdentifiers = false }
    Self.search([Self.leaf(signer)], anchors(roots)) { outcome in
      #expect(outcome.attempts == PathSearch.attemptLimit)
      #expect(outcome.fault?.code == X509_V_ERR_CERT_SIGNATURE_FAILURE)
    }
    Self.search([Self.leaf(signer)], anchors(roots.prefix(20) + [signer])) { outcome in
      #expect(outcome.path?.count == 2)
      #expect(outcome.attempts <= 21)
    }
  }

  @Test func aMazeHasAnEnd() {
    let maze = (0..<40).map { (number: Int) in
      Self.authority("Maze", Int64(number + 1)) { $0.hasKeyIdentifiers = false }
    }
    let crossed = (0..<40).map { (number: Int) in
      Self.authority("Maze", Int64(100 + number), key: maze[number].key, issuer: maze[(number + 1) % 40]) {
        $0.hasKeyIdentifiers = false
      }
    }
    Self.search([Self.leaf(maze[0])] + crossed, W.system) { outcome in
      #expect(outcome.path == nil)
      #expect(outcome.attempts == 0)
      #expect(outcome.steps <= PathSearch.stepLimit)
    }
  }

  @Test func twoThatSignEachOtherAreNoLoop() {
    let one = Self.authority("One")
    let two = Self.authority("Two", issuer: one)
    let again = Self.authority("One", 2, key: one.key, issuer: two)
    Self.search([Self.leaf(one), again, two, one], W.system) { outcome in
      #expect(outcome.path == nil)
      #expect(outcome.steps < 10)
    }
  }

  @Test func aLeafThatIsWrongEndsTheSearch() {
    let key = TestKey()
    let ways = (0..<10).map { Self.authority("Middle", Int64($0 + 2), key: key, issuer: W.root) }
    let leaf = TestCertificate(
      .leaf(["DNS:\(host)"], at: now).with { $0.notAfter = now - 1 }, issuer: ways[0])
    Self.search([leaf] + ways, W.system) { outcome in
      #expect(outcome.fault?.code == X509_V_ERR_CERT_HAS_EXPIRED)
      #expect(outcome.attempts == 1)
    }
  }

  @Test func anIssuerOfTheRightNameThatIsNotItIsMentioned() {
    let twin = Self.authority("Intermediate", 7, issuer: W.root)
    let failure = policy().failure(shown([W.leaf, twin]))
    #expect(
      failure
        == TrustFailure(
          .untrusted,
          "unable to get local issuer certificate, at CN=leaf, issued by CN=Intermediate; a certificate of that issuer's name "
            + "is there, but: authority and subject key identifier mismatch; trusted are the anchors of system (1)"))
  }
}
