// Client certificates with their keys: every form of a key, and every pair that is none.

import Security
import Testing
import TestSupport

@Suite struct ClientIdentityTests {
  private static let rsa = TestCertificate(
    .leaf([], at: now).with { $0.extendedKeyUsage = "clientAuth" }, key: TestKey(.rsa(bits: 2048)),
    issuer: World.intermediate)
  private static let leaf = World.leaf

  private static let keys: [(TestCertificate, [UInt8], String)] = [
    (leaf, leaf.key.der, "PKCS #8 in DER"),
    (leaf, octets(leaf.key.pem), "PKCS #8 in PEM"),
    (leaf, leaf.key.traditionalDER, "an EC key in DER"),
    (leaf, octets(pemText("EC PRIVATE KEY", leaf.key.traditionalDER)), "an EC key in PEM"),
    (
      leaf,
      octets(pemText("EC PARAMETERS", [0x06, 0x01, 0x00]) + pemText("EC PRIVATE KEY", leaf.key.traditionalDER)),
      "parameters before it"
    ),
    (rsa, octets(pemText("RSA PRIVATE KEY", rsa.key.traditionalDER)), "an RSA key in PEM"),
    (rsa, rsa.key.traditionalDER, "an RSA key in DER"),
  ]

  @Test(arguments: keys)
  func aKeyOfAnyFormBecomesPKCS8(certificate: TestCertificate, key: [UInt8], form: String) throws {
    for chain in [certificate.der, octets(certificate.pem + World.intermediate.pem)] {
      let identity = try ClientIdentity.read(certificates: chain, key: key).get()
      #expect(identity.certificates.first == certificates([certificate])[0], "\(form)")
      #expect(identity.key == certificate.key.der, "\(form)")
    }
  }

  private static let mismatches: [([UInt8], [UInt8], String)] = [
    (leaf.der, rsa.key.der, "the private key is not that of the certificate CN=leaf"),
    (leaf.der, leaf.der, "expected a private key, found a certificate"),
    (leaf.der, [], "expected a private key in PEM or DER, found nothing"),
    (leaf.der, octets("password"), "expected a private key in PEM or DER, found text"),
    (leaf.der, octets(leaf.pem), "expected a private key, found CERTIFICATE"),
    (leaf.der, octets(leaf.key.pem + leaf.key.pem), "expected one private key, found 2"),
    (leaf.der, leaf.key.publicDER, "expected a private key, found a public key"),
    (
      leaf.der, octets(leaf.key.encryptedPEM),
      "expected a private key that is not encrypted; 'openssl pkey' writes one"
    ),
    (
      leaf.der, octets(leaf.key.encryptedTraditionalPEM),
      "expected a private key that is not encrypted; 'openssl pkey' writes one"
    ),
    (
      octets(World.intermediate.pem + leaf.pem), leaf.key.der,
      "the key belongs to certificate 2; that one must be the first"
    ),
    (octets(leaf.pem + leaf.key.pem), leaf.key.der, "expected a certificate, found PRIVATE KEY"),
  ]

  @Test(arguments: mismatches)
  func whatIsNoPairSaysWhatWasSeen(certificates: [UInt8], key: [UInt8], fault: String) {
    guard case .failure(let found) = ClientIdentity.read(certificates: certificates, key: key) else {
      Issue.record("expected a fault")
      return
    }
    #expect(found.description == fault)
  }

  @Test func theKeyIsNeverPrinted() throws {
    let identity = try ClientIdentity.read(certificates: Self.leaf.der, key: Self.leaf.key.der).get()
    var settings = SecurityPolicy.Settings()
    settings.clientIdentity = identity
    var dumped = ""
    dump(identity, to: &dumped)
    dump(settings, to: &dumped)
    let middle = identity.key[40..<44].map(String.init)
    for text in ["\(identity)", String(reflecting: identity), "\(settings)"] {
      #expect(!text.contains(middle.joined(separator: ", ")))
    }
    #expect(!dumped.contains("- " + middle.joined(separator: "\n")) && !dumped.contains("key: \(identity.key.count)"))
    #expect("\(identity)" == "CN=leaf")
  }
}
