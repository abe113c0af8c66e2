// What a person reads when pins do not match: those that were seen beside those configured, and whose each is.

import Security
import Testing
import TestSupport

@Suite struct PinEvaluationTests {
  private typealias W = World
  private static let chain = [W.leaf, W.intermediate, W.other]

  private static func detail(
    _ mode: SSLPinningMode, _ pinned: [TestCertificate], _ change: (inout SecurityPolicy.Settings) -> Void = { _ in }
  ) -> String? {
    policy { settings in
      settings.pinSet = pinSet(mode, pinned)
      change(&settings)
    }.failure(shown(chain))?.detail
  }

  @Test func keysSeenStandBesideThoseConfigured() {
    let configured = [pin(of: W.privateRoot), pin(of: W.other)].map(\.description).sorted().joined(separator: ", ")
    let seen =
      "CN=leaf \(pin(of: W.leaf)), CN=Intermediate \(pin(of: W.intermediate)), CN=Root \(pin(of: W.root))"
    #expect(
      Self.detail(.publicKey, [W.privateRoot, W.other])
        == "expected a key of the pin set 'payments' (\(configured)); the verified chain has \(seen)")
    #expect(
      Self.detail(.publicKey, [])
        == "expected a key of the pin set 'payments' (none); the verified chain has \(seen)")
  }

  @Test func whereTheChainIsNotVerifiedTheLeafAloneIsSeen() {
    #expect(
      Self.detail(.publicKey, [W.root]) { $0.allowInvalidCertificates = true }
        == "expected a key of the pin set 'payments' (\(pin(of: W.root))); the leaf has CN=leaf \(pin(of: W.leaf))")
  }

  @Test func certificatesAreNamedBySerialNumberToo() {
    let renewed = TestCertificate(
      .leaf(["DNS:\(host)"], at: now, serialNumber: 0x0fff), key: W.leaf.key, issuer: W.privateIntermediate)
    #expect(
      Self.detail(.certificate, [renewed])
        == "expected a chain to a certificate of the pin set 'payments' (CN=leaf serial 0FFF \(pin(of: W.leaf))); "
        + "the server has CN=leaf serial 03E8 \(pin(of: W.leaf)), CN=Intermediate serial 02 \(pin(of: W.intermediate)), "
        + "CN=Root serial 01 \(pin(of: W.root)); unable to get local issuer certificate, at CN=Intermediate, "
        + "issued by CN=Root")
  }

  @Test func anExpiredSetSaysSo() {
    #expect(
      Self.detail(.publicKey, [W.leaf]) { $0.pinSet?.expires = now - day }
        == "the pin set 'payments' expired at 2026-11-30T00:00:00Z; it is 2026-12-01T00:00:00Z")
  }

  @Test func theKeyThatMatchedIsTold() throws {
    for (mode, pinned) in [(SSLPinningMode.publicKey, W.root), (.publicKey, W.intermediate), (.certificate, W.leaf)] {
      let policy = policy { $0.pinSet = pinSet(mode, [W.other, pinned]) }
      #expect(try policy.verdict(shown(Self.chain)).get().matchedPin == pin(of: pinned))
    }
    #expect(try policy().verdict(shown(Self.chain)).get().matchedPin == nil)
  }

  @Test func keysOfSPKIAndOfCertificatesCountAlike() {
    for certificate in [W.leaf, W.intermediate, W.root] {
      let policy = policy { settings in
        settings.pinSet = pinSet(.publicKey, [W.other])
        settings.pinSet?.keys = [pin(of: W.privateRoot), pin(of: certificate)]
      }
      #expect(policy.failure(shown(Self.chain)) == nil)
    }
    // In certificate mode a key is no certificate.
    let certificates = policy { settings in
      settings.pinSet = pinSet(.certificate, [])
      settings.pinSet?.keys = [pin(of: W.leaf)]
    }
    #expect(certificates.failure(shown(Self.chain))?.kind == .pinMismatch)
  }

  @Test func aRenewedCertificateOfTheSameKeyIsThePinnedKeyButNotThePinnedCertificate() {
    let renewed = TestCertificate(
      .leaf(["DNS:\(host)"], at: now, serialNumber: 8), key: W.leaf.key, issuer: W.intermediate)
    let chain = [renewed, W.intermediate]
    let key = policy { $0.pinSet = pinSet(.publicKey, [W.leaf]) }
    let certificate = policy { $0.pinSet = pinSet(.certificate, [W.leaf]) }
    #expect(key.failure(shown(chain)) == nil)
    #expect(certificate.failure(shown(chain))?.kind == .pinMismatch)
  }

  @Test func whatAStrangerWroteIsCutShortAndPrintable() {
    let long = TestCertificate(
      .leaf(["DNS:\(host)"], at: now).with { $0.commonName = String(repeating: "\u{1b}[2J", count: 16) },
      issuer: W.intermediate)
    let policy = policy { $0.pinSet = pinSet(.publicKey, [W.other]) }
    let detail = policy.failure(shown([long, W.intermediate]))?.detail ?? ""
    #expect(detail.utf8.count < 800)
    #expect(detail.unicodeScalars.allSatisfy { (0x20..<0x7f).contains($0.value) || $0 == "…" })
  }
}
