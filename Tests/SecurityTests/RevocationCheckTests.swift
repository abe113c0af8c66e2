// Revocation: what the issuer says, whoever brings it; and what nobody says, which is refused.

import COpenSSL
import Testing
import TestSupport

@testable import Security

@Suite struct RevocationCheckTests {
  private typealias W = World
  private static let chain = [W.leaf, W.intermediate]
  private static let responder = TestCertificate(
    .leaf([], at: now).with {
      $0.commonName = "responder"
      $0.extendedKeyUsage = "OCSPSigning"
    }, issuer: W.intermediate)

  private static func answer(_ change: (inout AnswerPlan) -> Void = { _ in }) -> AnswerPlan {
    var plan = AnswerPlan(thisUpdate: now - day, nextUpdate: now + day)
    change(&plan)
    return plan
  }

  private static func stapled(
    _ plan: AnswerPlan = answer(), about leaf: TestCertificate = W.leaf, by signer: TestCertificate = W.intermediate
  ) -> [UInt8] { plan.response(about: leaf, issuedBy: W.intermediate, signedBy: signer) }

  /// A stapled answer, or none, and what comes of it.
  struct Row: Sendable, CustomStringConvertible {
    let description: String
    let stapled: [UInt8]?
    let kind: TrustFailure.Kind?
    /// What the message ends with.
    var ending = ""
  }

  private static let rows: [Row] = [
    Row(description: "good", stapled: stapled(), kind: nil),
    Row(
      description: "good, the certificate named by SHA-256", stapled: stapled(answer { $0.usesSHA256 = true }),
      kind: nil),
    Row(description: "good, signed by a delegate", stapled: stapled(by: responder), kind: nil),
    Row(
      description: "good, the clock a little behind", stapled: stapled(answer { $0.thisUpdate = now + 299 }), kind: nil),
    Row(
      description: "good, the clock a little ahead", stapled: stapled(answer { $0.nextUpdate = now - 299 }), kind: nil),
    Row(
      description: "missing", stapled: nil, kind: .revocationUnknown,
      ending: "expected a current OCSP answer for CN=leaf: the server stapled none"),
    Row(description: "empty", stapled: [], kind: .revocationUnknown, ending: "the server stapled none"),
    Row(
      description: "malformed", stapled: [0x30, 0x00], kind: .revocationUnknown, ending: "the stapled one is malformed"),
    Row(
      description: "an error of the responder", stapled: AnswerPlan.error(OCSP_RESPONSE_STATUS_TRYLATER),
      kind: .revocationUnknown, ending: "the responder says 'trylater'"),
    Row(
      description: "revoked", stapled: stapled(answer { $0.status = .revoked }), kind: .revoked,
      ending: "the certificate CN=leaf was revoked at 2026-11-30T00:00:00Z (keyCompromise), says its issuer"),
    Row(
      description: "revoked, long ago",
      stapled: stapled(answer { plan in (plan.status, plan.nextUpdate) = (.revoked, now - day / 2) }), kind: .revoked),
    Row(
      description: "revoked, signed by a stranger",
      stapled: stapled(answer { $0.status = .revoked }, by: W.privateRoot), kind: .revocationUnknown),
    Row(
      description: "unknown", stapled: stapled(answer { $0.status = .unknown }), kind: .revocationUnknown,
      ending: "the responder does not know the certificate"),
    Row(
      description: "old", stapled: stapled(answer { $0.nextUpdate = now - 301 }), kind: .revocationUnknown,
      ending: "the stapled one held until 2026-11-30T23:54:59Z; it is 2026-12-01T00:00:00Z"),
    Row(
      description: "from the future", stapled: stapled(answer { $0.thisUpdate = now + 301 }), kind: .revocationUnknown,
      ending: "the stapled one holds from 2026-12-01T00:05:01Z; it is 2026-12-01T00:00:00Z"),
    Row(
      description: "without an end", stapled: stapled(answer { $0.nextUpdate = nil }), kind: .revocationUnknown,
      ending: "the stapled one says not until when it holds"),
    Row(
      description: "about another certificate", stapled: stapled(about: W.other), kind: .revocationUnknown,
      ending: "the stapled one is not the issuer's"),
    Row(
      description: "signed by the root", stapled: stapled(by: W.root), kind: .revocationUnknown),
    Row(
      description: "signed by the leaf itself", stapled: stapled(by: W.leaf), kind: .revocationUnknown),
    Row(
      description: "signed by a stranger", stapled: stapled(by: W.privateRoot), kind: .revocationUnknown),
    Row(
      description: "signed by a stranger of the issuer's name",
      stapled: stapled(by: TestCertificate(.authority("Intermediate", at: now))), kind: .revocationUnknown),
    Row(
      description: "signed by one to whom nothing was delegated",
      stapled: stapled(by: TestCertificate(.leaf([], at: now), issuer: W.intermediate)), kind: .revocationUnknown),
    Row(
      description: "signed by a delegate whose time is over",
      stapled: stapled(
        by: TestCertificate(
          .leaf([], at: now).with { plan in (plan.extendedKeyUsage, plan.notAfter) = ("OCSPSigning", now - 1) },
          issuer: W.intermediate)), kind: .revocationUnknown),
    Row(
      description: "signed by a delegate of another",
      stapled: stapled(
        by: TestCertificate(.leaf([], at: now).with { $0.extendedKeyUsage = "OCSPSigning" }, issuer: W.root)),
      kind: .revocationUnknown),
    Row(
      description: "signed with SHA-1", stapled: stapled(answer { $0.isSignedWithSHA1 = true }),
      kind: .revocationUnknown, ending: "the stapled one is signed with SHA-1 or less"),
  ]

  @Test(arguments: rows)
  func aStapledAnswerIsRequiredAndChecked(row: Row) {
    let failure = policy { $0.revocation = .staple }.failure(shown(Self.chain, stapled: row.stapled))
    #expect(failure?.kind == row.kind)
    #expect(failure?.detail.hasSuffix(row.ending) ?? true, "\(failure?.detail ?? "")")
    // Who does not ask for it does not look at it.
    #expect(policy().failure(shown(Self.chain, stapled: row.stapled)) == nil)
  }

  @Test func anAnswerAboutAnotherSerialNumberIsNone() {
    let other = TestCertificate(.leaf(["DNS:\(host)"], at: now, serialNumber: 77), issuer: W.intermediate)
    let failure = policy { $0.revocation = .staple }.failure(shown(Self.chain, stapled: Self.stapled(about: other)))
    #expect(
      failure
        == TrustFailure(
          .revocationUnknown,
          "expected a current OCSP answer for CN=leaf: the stapled one is about another certificate"))
  }

  @Test func everyFlippedBitOfAnAnswerIsRefused() {
    let good = Self.stapled()
    let policy = policy { $0.revocation = .staple }
    for index in stride(from: 0, to: good.count, by: 3) {
      var bytes = good
      bytes[index] ^= 0x01
      // The certificates that are enclosed are not signed for; the issuer's copy here is not needed.
      let kind = policy.failure(shown(Self.chain, stapled: bytes))?.kind
      #expect(kind == .revocationUnknown || (kind == nil && index > good.count / 3), "byte \(index)")
    }
  }

  @Test func withoutAVouchingIssuerThereIsNoAnswer() {
    // Step 2 waived, and the leaf's key pinned: nothing says who the issuer is.
    let waived = policy { settings in
      settings.revocation = .staple
      settings.allowInvalidCertificates = true
      settings.pinSet = pinSet(.publicKey, [W.leaf])
    }
    #expect(waived.failure(shown(Self.chain, stapled: Self.stapled()))?.kind == .revocationUnknown)
    // The chain that leads to a pinned certificate does.
    let pinned = policy { settings in
      settings.revocation = .staple
      settings.allowInvalidCertificates = true
      settings.pinSet = pinSet(.certificate, [W.intermediate])
    }
    #expect(pinned.failure(shown(Self.chain, stapled: Self.stapled())) == nil)
    #expect(
      pinned.failure(shown(Self.chain, stapled: Self.stapled(Self.answer { $0.status = .revoked })))?.kind == .revoked)
    // A leaf that is itself the anchor has nobody above it.
    let leafAlone = policy { settings in
      settings.revocation = .staple
      settings.allowInvalidCertificates = true
      settings.pinSet = pinSet(.certificate, [W.leaf])
    }
    #expect(leafAlone.failure(shown(Self.chain, stapled: Self.stapled()))?.kind == .revocationUnknown)
  }

  @Test func aReportOnlySetDoesNotForgiveARevokedCertificate() {
    let policy = policy { settings in
      settings.revocation = .staple
      settings.pinSet = pinSet(.publicKey, [W.other])
      settings.pinSet?.enforce = false
    }
    let revoked = Self.stapled(Self.answer { $0.status = .revoked })
    #expect(policy.failure(shown(Self.chain, stapled: revoked))?.kind == .revoked)
  }

  private static let list = ListPlan(lastUpdate: now - day, nextUpdate: now + day)

  private static func list(revoking serials: [Int64], _ change: (inout ListPlan) -> Void = { _ in }) -> ListPlan {
    var plan = list
    plan.revokedSerialNumbers = serials
    change(&plan)
    return plan
  }

  private static let lists: [(String, [[UInt8]], TrustFailure.Kind?)] = [
    ("good", [list.list(of: W.intermediate)], nil),
    ("good, others revoked", [list(revoking: [1, 999, 1001]).list(of: W.intermediate)], nil),
    ("good, among others", [list.list(of: W.privateRoot), list.list(of: W.intermediate)], nil),
    ("good, and the intermediate's", [list.list(of: W.root), list.list(of: W.intermediate)], nil),
    ("leaf revoked", [list(revoking: [5, 1000, 7]).list(of: W.intermediate)], .revoked),
    (
      "intermediate revoked", [list(revoking: [2]).list(of: W.root), list.list(of: W.intermediate)], .revoked
    ),
    ("missing", [], .revocationUnknown),
    ("the intermediate's alone", [list.list(of: W.root)], .revocationUnknown),
    ("of another", [list.list(of: W.privateRoot)], .revocationUnknown),
    (
      "out of date",
      [
        list(revoking: []) { plan in (plan.lastUpdate, plan.nextUpdate) = (now - 2 * day, now - 1) }.list(
          of: W.intermediate)
      ],
      .revocationUnknown
    ),
    ("from the future", [list(revoking: []) { $0.lastUpdate = now + 60 }.list(of: W.intermediate)], .revocationUnknown),
    ("signed by a stranger", [list.list(of: W.intermediate, signedBy: W.privateRoot)], .revocationUnknown),
    ("no list", [[0x30, 0x00]], .revocationUnknown),
  ]

  @Test(arguments: lists)
  func listsAreChecked(name: String, lists: [[UInt8]], kind: TrustFailure.Kind?) {
    let failure = policy { $0.revocation = .crl(lists) }.failure(shown(Self.chain))
    #expect(failure?.kind == kind, "\(name): \(failure?.detail ?? "")")
  }

  @Test func theMessageSaysWhatIsMissing() {
    let policy = policy { $0.revocation = .crl([]) }
    #expect(
      policy.failure(shown(Self.chain))
        == TrustFailure(
          .revocationUnknown,
          "expected a current revocation list for CN=leaf: unable to get certificate CRL; it is 2026-12-01T00:00:00Z"))
  }
}
