// Certificates as values: PEM and DER told apart by content, what they say, and what is none.

import COpenSSL
import Security
import Testing
import TestSupport

@Suite struct CertificateTests {
  private static let all = TestCertificate(
    .leaf(
      ["DNS:pay.example.com", "IP:192.0.2.1", "DNS:*.example.com", "IP:2001:db8::1", "email:a@example.com"], at: now
    )
    .with {
      $0.commonName = "Käse, \"1\""
      $0.serialNumber = 0x0a1b2c
    }, issuer: World.intermediate)

  @Test func everyPropertyIsRead() throws {
    let read = try Certificate.read(Self.all.der).get()
    let certificate = try #require(read.first)
    #expect(read.count == 1)
    #expect(certificate.der == Self.all.der)
    #expect(certificate.subject == #"CN=K\C3\A4se\, \"1\""#)
    #expect(certificate.issuer == "CN=Intermediate")
    #expect(certificate.serialNumber == "0A1B2C")
    #expect(certificate.notBefore == now - 30 * day)
    #expect(certificate.notAfter == now + 60 * day)
    #expect(certificate.names == ["pay.example.com", "192.0.2.1", "*.example.com", "2001:db8::1"])
    #expect(!certificate.isAuthority)
    #expect(!certificate.isSelfSigned)
    #expect(certificate.publicKeyPin.bytes == Self.digest(Self.all.key.publicDER))
  }

  private static func digest(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    SHA256(bytes, bytes.count, &digest)
    return digest
  }

  @Test func authoritiesAndSelfSignedOnesAreTold() {
    let read = certificates([World.root, World.intermediate, World.leaf])
    #expect(read.map(\.isAuthority) == [true, true, false])
    #expect(read.map(\.isSelfSigned) == [true, false, false])
    // The same name is not enough: the signature must be its own key's.
    let twin = TestCertificate(
      .authority("Root", at: now).with { $0.hasKeyIdentifiers = false },
      issuer: TestCertificate(.authority("Root", at: now).with { $0.hasKeyIdentifiers = false }))
    #expect(certificates([twin]).map(\.isSelfSigned) == [false])
  }

  @Test func aPEMTextMayHoldSeveral() throws {
    let text = "# payments\n" + World.leaf.pem + "\nissued by\n" + World.intermediate.pem
    #expect(try Certificate.read(octets(text)).get() == certificates([World.leaf, World.intermediate]))
    let old = pemText("X509 CERTIFICATE", World.leaf.der)
    #expect(try Certificate.read(octets(old)).get() == certificates([World.leaf]))
  }

  @Test func equalityIsThatOfTheBytes() {
    let renewed = TestCertificate(.leaf(["DNS:\(host)"], at: now), key: World.leaf.key, issuer: World.intermediate)
    let pair = certificates([World.leaf, renewed])
    #expect(pair[0] != pair[1])
    #expect(pair[0].publicKeyPin == pair[1].publicKeyPin)
    #expect(Set(certificates([World.leaf, World.leaf])).count == 1)
  }

  private static let foreign: [([UInt8], String)] = [
    ([], "expected a certificate in PEM or DER, found nothing"),
    (octets("hello\n"), "expected a certificate in PEM or DER, found text"),
    ([0x00, 0x01, 0xff], "expected a certificate in PEM or DER, found other bytes"),
    ([0x30, 0x03, 0x02, 0x01, 0x01], "expected a certificate, found DER that is malformed, or of something else"),
    (World.leaf.der + [0], "expected a certificate, found DER that is malformed, or of something else"),
    (Array(World.leaf.der.dropLast()), "expected a certificate, found DER that is malformed, or of something else"),
    (World.leaf.key.der, "expected a certificate, found a private key"),
    (World.leaf.key.traditionalDER, "expected a certificate, found a private key"),
    (World.leaf.key.publicDER, "expected a certificate, found a public key"),
    (
      ListPlan(lastUpdate: now, nextUpdate: now).list(of: World.root), "expected a certificate, found a revocation list"
    ),
    (octets(World.leaf.key.pem), "expected a certificate, found PRIVATE KEY"),
    (octets(World.leaf.pem + World.leaf.key.pem), "expected a certificate, found PRIVATE KEY"),
    (octets(pemText("TRUSTED CERTIFICATE", World.leaf.der)), "expected a certificate, found TRUSTED CERTIFICATE"),
    (octets(pemText("CERTIFICATE", World.leaf.key.der)), "expected a certificate, found a private key"),
    (
      octets(World.leaf.pem + pemText("CERTIFICATE", [0x30, 0x00])),
      "expected a certificate as number 2 of 2, found DER that is malformed, or of something else"
    ),
    (
      Array(World.leaf.pem.utf8.dropLast(10)), "line 1: the CERTIFICATE that begins here is cut off: it has no END line"
    ),
  ]

  @Test(arguments: foreign)
  func whatIsNoneSaysWhatWasSeen(bytes: [UInt8], fault: String) {
    #expect(Certificate.read(bytes) == .failure(CertificateFault(fault)))
  }

  @Test func everyCutOfACertificateIsAFault() {
    for count in 0..<World.leaf.der.count {
      if case .success = Certificate.read(Array(World.leaf.der.prefix(count))) { Issue.record("\(count) bytes") }
    }
  }

  @Test func readingLeavesNoErrorsBehind() {
    ERR_clear_error()
    _ = Certificate.read([0x30, 0x03, 0x02, 0x01, 0x01])
    _ = Certificate.read(World.leaf.der)
    #expect(ERR_peek_error() == 0)
  }
}
