// Anchors: bundles read, counted once each, found by name; the system's, from where OpenSSL would take them.

import COpenSSL
import Glibc
import Testing
import TestSupport

@testable import Security

/// Serialized: the environment is one for the whole process, and these alone read the variables that they set.
@Suite(.serialized) struct TrustAnchorsTests {
  @Test func aBundleIsReadWhole() throws {
    let text = "# roots\n" + World.root.pem + World.privateRoot.pem + World.root.pem
    let read = try TrustAnchors.read(pem: Array(text.utf8), origin: "ca.pem").get()
    #expect(read.count == 2)
    #expect(read.origin == "ca.pem")
    #expect(read == anchors([World.privateRoot, World.root]))
    #expect(Set(read.certificatesDER) == [World.root.der, World.privateRoot.der])
    #expect(read.certificatesDER == anchors([World.privateRoot, World.root]).certificatesDER)
    #expect(try TrustAnchors.read(pem: World.root.der, origin: "ca.der").get() == anchors([World.root]))
  }

  private static let foreign: [([UInt8], String)] = [
    ([], "expected a certificate in PEM or DER, found nothing"),
    (octets("no certificate"), "expected a certificate in PEM or DER, found text"),
    (octets(World.root.key.pem), "expected a certificate, found PRIVATE KEY"),
    (
      octets(World.root.pem + pemText("CERTIFICATE", [0x30, 0x00])),
      "expected a certificate as number 2 of 2, found DER that is malformed, or of something else"
    ),
  ]

  @Test(arguments: foreign)
  func whatIsNoBundleIsAFault(bytes: [UInt8], fault: String) {
    guard case .failure(let found) = TrustAnchors.read(pem: bytes, origin: "x") else {
      Issue.record("expected a fault")
      return
    }
    #expect(found.description == fault)
  }

  @Test func anAnchorsNameMayBeWrittenInAnotherCase() {
    let root = TestCertificate(.authority("Spelled  Differently", at: now).with { $0.hasKeyIdentifiers = false })
    let alias = TestCertificate(
      .authority("SPELLED differently", at: now).with { $0.hasKeyIdentifiers = false }, key: root.key)
    let leaf = TestCertificate(.leaf(["DNS:\(host)"], at: now), issuer: alias)
    let policy = policy { $0.anchors = anchors([root]) }
    #expect(policy.failure(shown([leaf])) == nil)
  }

  @Test func theSystemsComeFromWhereOpenSSLTakesThem() throws {
    let directory = try Self.temporaryDirectory()
    let file = "\(directory)/bundle.pem"
    defer {
      unsetenv("SSL_CERT_FILE")
      unsetenv("SSL_CERT_DIR")
      for name in ["bundle.pem", "hashed/0a1b2c3d.0", "hashed/0a1b2c3d.1", "hashed/README.0", "hashed/other.pem"] {
        unlink("\(directory)/\(name)")
      }
      rmdir("\(directory)/hashed")
      rmdir(directory)
    }
    mkdir("\(directory)/hashed", 0o700)
    Self.write(World.root.pem, to: file)
    setenv("SSL_CERT_FILE", file, 1)
    setenv("SSL_CERT_DIR", "\(directory)/absent:\(directory)/hashed", 1)
    #expect(try TrustAnchors.system().get() == Self.system([World.root]))

    Self.write(World.privateRoot.pem, to: "\(directory)/hashed/0a1b2c3d.0")
    Self.write(World.root.pem, to: "\(directory)/hashed/0a1b2c3d.1")
    // Neither is a name under which OpenSSL looks.
    Self.write(World.other.pem, to: "\(directory)/hashed/README.0")
    Self.write(World.other.pem, to: "\(directory)/hashed/other.pem")
    let both = try TrustAnchors.system().get()
    #expect(both == Self.system([World.root, World.privateRoot]))
    #expect(both.origin == "system")
    #expect(both != anchors([World.root, World.privateRoot]), "no certificate but a root ends a chain here")

    setenv("SSL_CERT_FILE", "\(directory)/absent.pem", 1)
    guard case .failure(let missing) = TrustAnchors.system() else {
      Issue.record("a file that is named and not there is no fault")
      return
    }
    #expect(missing.description == "cannot read \(directory)/absent.pem: No such file or directory")

    Self.write("no certificate", to: file)
    setenv("SSL_CERT_FILE", file, 1)
    setenv("SSL_CERT_DIR", "\(directory)/absent", 1)
    guard case .failure(let none) = TrustAnchors.system() else {
      Issue.record("no anchor at all is no fault")
      return
    }
    #expect(none.description == "expected the system's anchors in \(file) or \(directory)/absent, found none")
  }

  /// They are decoded when a chain leads to them, by whichever thread comes first.
  @Test func theSystemsAreFoundBeforeAnyIsDecoded() throws {
    let damaged = Self.withoutSignature(World.root.der)
    #expect(CertificateObject.decode(damaged) == nil)
    let anchors = TrustAnchors(systems: [World.root.der, World.privateRoot.der, World.root.der, [0x30, 0x00], damaged])
    #expect(anchors.count == 3, "what has no subject is left out; what is no certificate cannot be known yet")
    let root = try #require(CertificateObject.decode(World.root.der))
    #expect(anchors.anchor(equalTo: root.pointer) != nil)
    #expect(anchors.named(asIssuerOf: root.pointer).count == 1, "the damaged one has the same name")
    #expect(anchors.certificatesDER.count == 2)
    #expect(TrustAnchors(systems: [World.root.der]) == Self.system([World.root]))
    #expect(anchors.with(profile: .private).issuers(of: root.pointer).count == 1)
  }

  /// The signature is no BIT STRING any more; all before it stays.
  private static func withoutSignature(_ der: [UInt8]) -> [UInt8] {
    func content(at index: Int) -> Range<Int> {
      let first = Int(der[index + 1])
      let count = first < 0x80 ? 0 : first & 0x7f
      let length = count == 0 ? first : der[index + 2..<index + 2 + count].reduce(0) { $0 << 8 | Int($1) }
      return index + 2 + count..<index + 2 + count + length
    }
    let signed = content(at: 0).lowerBound
    let algorithm = content(at: signed).upperBound
    var damaged = der
    damaged[content(at: algorithm).upperBound] = 0x04
    return damaged
  }

  private static func system(_ made: [TestCertificate]) -> TrustAnchors {
    TrustAnchors(made.compactMap { CertificateObject.decode($0.der) }, origin: "system", endsAtIntermediates: false)
  }

  private static func temporaryDirectory() throws -> String {
    var template = Array("/tmp/sallyport-anchors-XXXXXX".utf8CString)
    let name = try #require(mkdtemp(&template))
    return String(cString: name)
  }

  private static func write(_ text: String, to path: String) {
    guard let file = fopen(path, "w") else { fatalError("cannot write \(path)") }
    fputs(text, file)
    fclose(file)
  }
}
