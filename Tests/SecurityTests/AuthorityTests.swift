// The local authority: what its certificate says, and what is refused in its place.

import COpenSSL
import Security
import TestSupport
import Testing

@Suite struct AuthorityTests {
  /// 2026-11-20T00:00:00Z
  static let now: Int64 = 1_795_132_800
  static let day: Int64 = 86_400

  static func made(_ permitted: [NameSubtree] = [], at seconds: Int64 = now) throws -> NewAuthority {
    try Authority.make(host: "kiosk-7", date: "2026-11-20", permitted: permitted, at: seconds).get()
  }

  static func loaded(_ permitted: [NameSubtree] = [], at seconds: Int64 = now) throws -> Authority {
    let texts = try made(permitted, at: seconds)
    return try Authority.load(certificate: texts.certificate, key: texts.key, at: seconds).get()
  }

  // MARK: What is made

  @Test func itIsAnAuthorityForLeavesOnly() throws {
    let certificate = try #require(decodedCertificate(Self.loaded().certificate.certificate.der))
    let x509 = certificate.pointer
    #expect(X509_get_version(x509) == Int(X509_VERSION_3))
    #expect(X509_check_ca(x509) == 1)
    #expect(X509_get_pathlen(x509) == 0)
    #expect(X509_get_key_usage(x509) == UInt32(KU_KEY_CERT_SIGN | KU_CRL_SIGN))
    #expect(criticality(x509, NID_basic_constraints) == 1)
    #expect(criticality(x509, NID_key_usage) == 1)
    #expect(criticality(x509, NID_subject_key_identifier) == 0)
    #expect(criticality(x509, NID_ext_key_usage) == nil)
    #expect(criticality(x509, NID_name_constraints) == nil)
    #expect(X509_self_signed(x509, 1) == 1)
    #expect(X509_get_signature_nid(x509) == NID_ecdsa_with_SHA256)
  }

  @Test func itsKeyIsP256AndReadsBack() throws {
    let authority = try Self.loaded()
    #expect(authority.certificate.certificate.keyDescription == "EC P-256")
    #expect(String(decoding: try Self.made().key, as: UTF8.self).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
  }

  @Test func itLivesForFiveYearsFromTwoDaysAgo() throws {
    let certificate = try Self.loaded().certificate.certificate
    #expect(certificate.notBefore == Self.now - 2 * Self.day)
    #expect(certificate.notAfter == Self.now + 5 * 365 * Self.day)
  }

  @Test func serialNumbersArePositiveOfTwentyBytesAndDiffer() throws {
    var seen: Set<String> = []
    for _ in 0..<50 {
      let serial = try Self.loaded().certificate.certificate.serialNumber
      #expect(serial.utf8.count == 40)
      #expect(try #require(UInt8(serial.prefix(2), radix: 16)) < 0x80)
      #expect(seen.insert(serial).inserted)
    }
  }

  @Test func twoOfOneHostAndDayDifferInName() throws {
    let names = try (0..<20).map { _ in try Self.loaded().certificate.certificate.subject }
    #expect(Set(names).count == names.count)
    #expect(names.allSatisfy { $0.hasPrefix("CN=Sallyport local authority kiosk-7 2026-11-20 ") })
  }

  @Test(arguments: ["", String(repeating: "h", count: 300), "host name\u{0}\u{7}\n", "höst", "a,b=c+d"])
  func anyHostNameMakesACommonNameThatFits(_ host: String) throws {
    let made = try Authority.make(host: host, date: "2026-11-20", permitted: [], at: Self.now).get()
    let authority = try Authority.load(certificate: made.certificate, key: made.key, at: Self.now).get()
    let x509 = try #require(decodedCertificate(authority.certificate.certificate.der))
    #expect(commonName(x509.pointer).utf8.count <= 64)
    #expect(commonName(x509.pointer).hasPrefix("Sallyport local authority"))
  }

  struct Permits: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let permitted: [NameSubtree]
    /// As `openssl x509 -text` has them.
    let expectedPermitted: [String]
    let expectedExcluded: [String]
  }

  static let everyAddress = ["0.0.0.0/0", "::/0"]
  static let permits = [
    Permits(
      testDescription: "a name excludes every address", permitted: [.name("a.example")],
      expectedPermitted: ["a.example"], expectedExcluded: everyAddress),
    Permits(
      testDescription: "several names", permitted: [.name("a.example"), .name("b")],
      expectedPermitted: ["a.example", "b"], expectedExcluded: everyAddress),
    Permits(
      testDescription: "a block excludes every name",
      permitted: [.addresses([10, 0, 0, 0], prefixLength: 8)], expectedPermitted: ["10.0.0.0/8"],
      expectedExcluded: ["every name"]),
    Permits(
      testDescription: "a block that ends within a byte",
      permitted: [.addresses([172, 16, 0, 0], prefixLength: 12)], expectedPermitted: ["172.16.0.0/12"],
      expectedExcluded: ["every name"]),
    Permits(
      testDescription: "a name and an address of IPv6",
      permitted: [
        .name("a.example"), .addresses([UInt8](repeating: 0, count: 15) + [1], prefixLength: 128),
      ],
      expectedPermitted: ["a.example", "::1/128"], expectedExcluded: []),
    Permits(
      testDescription: "every address of IPv4", permitted: [.addresses([0, 0, 0, 0], prefixLength: 0)],
      expectedPermitted: ["0.0.0.0/0"], expectedExcluded: ["every name"]),
    Permits(
      testDescription: "more than 127 bytes of names",
      permitted: (0..<40).map { .name("host-\($0).department.example") },
      expectedPermitted: (0..<40).map { "host-\($0).department.example" }, expectedExcluded: everyAddress),
    Permits(testDescription: "nothing", permitted: [], expectedPermitted: [], expectedExcluded: []),
  ]

  @Test(arguments: permits)
  func itsNameConstraintsReadBack(_ row: Permits) throws {
    let authority = try Self.loaded(row.permitted).certificate
    #expect(authority.permitted.map(\.description) == row.expectedPermitted)
    #expect(authority.excluded.map(\.description) == row.expectedExcluded)
    let x509 = try #require(decodedCertificate(authority.certificate.der))
    #expect(criticality(x509.pointer, NID_name_constraints) == (row.permitted.isEmpty ? nil : 1))
  }

  // MARK: What is refused

  static func plan(_ change: (inout CertificatePlan) -> Void = { _ in }) -> CertificatePlan {
    var plan = CertificatePlan.authority("an operator's own", at: now)
    plan.pathLength = 0
    change(&plan)
    return plan
  }

  static func fault(_ certificate: [UInt8], _ key: [UInt8], at seconds: Int64 = now) -> AuthorityFault? {
    switch Authority.load(certificate: certificate, key: key, at: seconds) {
    case .success: nil
    case .failure(let fault): fault
    }
  }

  struct Refusal: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let plan: CertificatePlan
    let fault: AuthorityFault?
  }

  static let refusals = [
    Refusal(testDescription: "an authority with path length 0", plan: plan(), fault: nil),
    Refusal(testDescription: "no path length", plan: plan { $0.pathLength = nil }, fault: .pathLength(nil)),
    Refusal(testDescription: "path length 1", plan: plan { $0.pathLength = 1 }, fault: .pathLength(1)),
    Refusal(
      testDescription: "a leaf", plan: .leaf(["DNS:a.example"], at: now), fault: .notAuthority),
    Refusal(testDescription: "no basicConstraints", plan: plan { $0.isAuthority = nil }, fault: .notAuthority),
    Refusal(testDescription: "no keyUsage", plan: plan { $0.keyUsage = nil }, fault: .notAuthority),
    Refusal(
      testDescription: "a keyUsage without keyCertSign", plan: plan { $0.keyUsage = "cRLSign" }, fault: .notAuthority),
    Refusal(
      testDescription: "no key identifier", plan: plan { $0.hasKeyIdentifiers = false }, fault: .keyIdentifierMissing),
    Refusal(
      testDescription: "expired ten days ago", plan: plan { $0.notAfter = now - 10 * day }, fault: .expired(days: 10)),
    Refusal(
      testDescription: "valid in three days", plan: plan { $0.notBefore = now + 3 * day },
      fault: .notYetValid(days: 3)),
    Refusal(testDescription: "valid from this second", plan: plan { $0.notBefore = now }, fault: nil),
    Refusal(
      testDescription: "in its last second, which OpenSSL's clients take for the end", plan: plan { $0.notAfter = now },
      fault: .expired(days: 0)),
  ]

  @Test(arguments: refusals)
  func whatIsNoAuthorityIsRefused(_ row: Refusal) {
    let certificate = TestCertificate(row.plan)
    #expect(Self.fault(certificate.der, certificate.key.der) == row.fault)
  }

  @Test func certificateAndKeyMayBePEMOrDER() {
    let certificate = TestCertificate(Self.plan())
    let key = certificate.key
    for bytes in [certificate.der, Array(certificate.pem.utf8)] {
      #expect(Self.fault(bytes, key.der) == nil)
      #expect(Self.fault(bytes, key.traditionalDER) == nil)
      #expect(Self.fault(bytes, Array(key.pem.utf8)) == nil)
    }
  }

  @Test func anRSAKeyOf2048BitsServes() {
    let certificate = TestCertificate(Self.plan(), key: TestKey(.rsa(bits: 2_048)))
    #expect(Self.fault(certificate.der, certificate.key.der) == nil)
  }

  @Test func aWeakKeyIsRefused() {
    let certificate = TestCertificate(Self.plan(), key: TestKey(.rsa(bits: 1_024)))
    #expect(Self.fault(certificate.der, certificate.key.der) == .keyUnsuitable("RSA of 1024 bits"))
  }

  @Test func keysThatAreNoneOrEncryptedOrAnothersAreToldApart() {
    let certificate = TestCertificate(Self.plan())
    let rows: [([UInt8], AuthorityFault)] = [
      ([], .keyUnreadable), (Array("no key".utf8), .keyUnreadable), (certificate.der, .keyUnreadable),
      (Array(certificate.pem.utf8), .keyUnreadable), (certificate.key.der + [0], .keyUnreadable),
      (Array(certificate.key.encryptedPEM.utf8), .keyEncrypted),
      (Array(certificate.key.encryptedTraditionalPEM.utf8), .keyEncrypted),
      (TestKey().der, .keyMismatch), (TestKey(.rsa(bits: 2_048)).der, .keyMismatch),
    ]
    for (key, fault) in rows { #expect(Self.fault(certificate.der, key) == fault) }
  }

  @Test func exactlyOneCertificateIsExpected() {
    let certificate = TestCertificate(Self.plan())
    let key = certificate.key.der
    for bytes in [[], Array("text".utf8), key, Array((certificate.pem + certificate.pem).utf8)] {
      guard case .certificateUnreadable = Self.fault(bytes, key) else {
        Issue.record("read as a certificate: \(shown(bytes))")
        continue
      }
    }
  }

  @Test func noFaultShowsTheKey() throws {
    let made = try Self.made()
    let other = try Self.made()
    let fault = try #require(Self.fault(made.certificate, other.key))
    let middle = String(decoding: other.key, as: UTF8.self).split(separator: "\n")[1]
    #expect(!fault.description.contains(middle))
    var dumped = ""
    dump(other, to: &dumped)
    for text in ["\(other)", String(reflecting: other), dumped] {
      #expect(!text.contains("key"))
      #expect(!text.contains(middle))
    }
    #expect(Self.fault(made.certificate, other.key.dropLast(40) + [0x2d]) == .keyUnreadable)
  }
}

// MARK: Reading with OpenSSL

/// An X509 of its own, for looking at.
final class DecodedCertificate {
  let pointer: OpaquePointer

  init(adopting pointer: OpaquePointer) { self.pointer = pointer }
  deinit { X509_free(pointer) }
}

func decodedCertificate(_ der: [UInt8]) -> DecodedCertificate? {
  let pointer = der.withUnsafeBufferPointer { bytes in
    var at = bytes.baseAddress
    return d2i_X509(nil, &at, bytes.count)
  }
  return pointer.map(DecodedCertificate.init(adopting:))
}

/// 1 where the extension is there and critical, 0 where it is not critical, nil where it is not there.
func criticality(_ x509: OpaquePointer, _ kind: Int32) -> Int? {
  let place = X509_get_ext_by_NID(x509, kind, -1)
  return place < 0 ? nil : Int(X509_EXTENSION_get_critical(X509_get_ext(x509, place)))
}

func commonName(_ x509: OpaquePointer) -> String {
  let name = X509_get_subject_name(x509)
  let place = X509_NAME_get_index_by_NID(name, NID_commonName, -1)
  guard place >= 0, let entry = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, place)) else { return "" }
  let count = Int(ASN1_STRING_length(entry))
  return String(
    decoding: UnsafeBufferPointer(start: ASN1_STRING_get0_data(entry), count: count), as: UTF8.self)
}
