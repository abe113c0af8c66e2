// Client certificates with their keys: every form of a key, and every pair that is none.

import Security
import Testing
import TestSupport

@Suite struct ClientIdentityTests {
  private static let rsa = TestCertificate(
    .leaf([], at: now).with { $0.extendedKeyUsage = "clientAuth" }, key: TestKey(.rsa(bits: 2048)),
    issuer: World.intermediate)
  private static let leaf = World.leaf

  @Test(arguments: [
    (leaf, leaf.key.der, "PKCS #8 in DER"),
    (leaf, Array(leaf.key.pem.utf8), "PKCS #8 in PEM"),
    (leaf, leaf.key.traditionalDER, "an EC key in DER"),
    (leaf, Array(pemText("EC PRIVATE KEY", leaf.key.traditionalDER).utf8), "an EC key in PEM"),
    (
      leaf,
      Array((pemText("EC PARAMETERS", [0x06, 0x01, 0x00]) + pemText("EC PRIVATE KEY", leaf.key.traditionalDER)).utf8),
      "parameters before it"
    ),
    (rsa, Array(pemText("RSA PRIVATE KEY", rsa.key.traditionalDER).utf8), "an RSA key in PEM"),
    (rsa, rsa.key.traditionalDER, "an RSA key in DER"),
  ])
  func aKeyOfAnyFormBecomesPKCS8(certificate: TestCertificate, key: [UInt8], form: String) throws {
    for chain in [certificate.der, Array((certificate.pem + World.intermediate.pem).utf8)] {
      let identity = try ClientIdentity.read(certificates: chain, key: key).get()
      #expect(identity.certificates.first == certificates([certificate])[0], "\(form)")
      #expect(identity.key == certificate.key.der, "\(form)")
    }
  }

  @Test(arguments: [
    (leaf.der, rsa.key.der, "the private key is not that of the certificate CN=leaf"),
    (leaf.der, leaf.der, "expected a private key, found a certificate whose validity cannot be read"),
    (leaf.der, [], "expected a private key in PEM or DER, found nothing"),
    (leaf.der, Array("password".utf8), "expected a private key in PEM or DER, found text"),
    (leaf.der, Array(leaf.pem.utf8), "expected a private key, found CERTIFICATE"),
    (leaf.der, Array((leaf.key.pem + leaf.key.pem).utf8), "expected one private key, found 2"),
    (leaf.der, leaf.key.publicDER, "expected a private key, found a public key"),
    (
      leaf.der, Array(leaf.key.encryptedPEM.utf8),
      "expected a private key that is not encrypted; 'openssl pkey' writes one"
    ),
    (
      leaf.der, Array(leaf.key.encryptedTraditionalPEM.utf8),
      "expected a private key that is not encrypted; 'openssl pkey' writes one"
    ),
    (
      Array((World.intermediate.pem + leaf.pem).utf8), leaf.key.der,
      "the key belongs to certificate 2; that one must be the first"
    ),
    (Array((leaf.pem + leaf.key.pem).utf8), leaf.key.der, "expected a certificate, found PRIVATE KEY"),
  ])
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
