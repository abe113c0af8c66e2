// Files of revocation lists.

import Security
import Testing
import TestSupport

@Suite struct RevocationListTests {
  private static let one = ListPlan(lastUpdate: now, nextUpdate: now + day).list(of: World.root)
  private static let two = ListPlan(lastUpdate: now, nextUpdate: now + day).list(of: World.intermediate)

  @Test func listsAreReadInEitherForm() throws {
    #expect(try Revocation.readList(Self.one).get() == [Self.one])
    let text = "# lists\n" + pemText("X509 CRL", Self.one) + "\n" + pemText("X509 CRL", Self.two)
    #expect(try Revocation.readList(octets(text)).get() == [Self.one, Self.two])
  }

  private static let foreign: [([UInt8], String)] = [
    ([], "expected a revocation list, found nothing"),
    (octets("text"), "expected a revocation list, found text"),
    (Self.one + [0], "expected a revocation list, found DER that is malformed, or of something else"),
    (World.root.key.der, "expected a revocation list, found a private key"),
    (octets(World.root.pem), "expected a revocation list (X509 CRL), found CERTIFICATE"),
    (octets(pemText("X509 CRL", World.root.key.publicDER)), "expected a revocation list, found a public key"),
  ]

  @Test(arguments: foreign)
  func whatIsNoneSaysWhatWasSeen(bytes: [UInt8], fault: String) {
    #expect(Revocation.readList(bytes) == .failure(CertificateFault(fault)))
  }
}
