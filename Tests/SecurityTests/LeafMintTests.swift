// Leaves: whether the strictest client takes them, for the one name and no other; and the cache in front of the mint.

import COpenSSL
import Security
import TestSupport
import Testing

@Suite struct LeafMintTests {
  static let now = AuthorityTests.now
  static let day = AuthorityTests.day

  static func mint(_ permitted: [NameSubtree] = [], at seconds: Int64 = now) throws -> LeafMint {
    try #require(LeafMint(AuthorityTests.loaded(permitted, at: seconds)))
  }

  /// X509_V_OK, or why a strict client refuses `leaf`.
  static func verify(
    _ leaf: Leaf, _ mint: LeafMint, for identity: ReferenceIdentity, at seconds: Int64 = now
  ) -> Int32 {
    guard let root = decodedCertificate(mint.authority.certificate.certificate.der),
      let shown = decodedCertificate(leaf.der), let store = X509_STORE_new(), let context = X509_STORE_CTX_new()
    else { return -1 }
    defer {
      X509_STORE_CTX_free(context)
      X509_STORE_free(store)
    }
    X509_STORE_add_cert(store, root.pointer)
    X509_STORE_CTX_init(context, store, shown.pointer, nil)
    let parameters = X509_STORE_CTX_get0_param(context)
    X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_X509_STRICT | X509_V_FLAG_CHECK_SS_SIGNATURE))
    X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER)
    X509_VERIFY_PARAM_set_auth_level(parameters, 2)
    X509_VERIFY_PARAM_set_time(parameters, Int(seconds))
    switch identity {
    case .name(let name):
      X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NEVER_CHECK_SUBJECT))
      X509_VERIFY_PARAM_set1_host(parameters, name, name.utf8.count)
    case .address(let bytes): X509_VERIFY_PARAM_set1_ip(parameters, bytes, bytes.count)
    }
    X509_verify_cert(context)
    return X509_STORE_CTX_get_error(context)
  }

  static let long = (0..<7).map { "a-label-of-some-length-\($0)" }.joined(separator: ".") + ".example"
  static let identities: [ReferenceIdentity] = [
    .name("a.example"), .name("localhost"), .name("xn--bcher-kva.example"), .name("_dmarc.a-b.example"),
    .name(String(repeating: "a", count: 63) + ".x"), .name(long), .address([192, 0, 2, 1]),
    .address([0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [1]),
  ]

  @Test(arguments: identities)
  func aStrictClientTakesTheLeafForThisHostAlone(_ identity: ReferenceIdentity) throws {
    let mint = try Self.mint()
    let leaf = try mint.mint(for: identity, now: Self.now).get()
    #expect(Self.verify(leaf, mint, for: identity) == X509_V_OK)
    #expect(Self.verify(leaf, mint, for: .name("b.a.example")) == X509_V_ERR_HOSTNAME_MISMATCH)
    #expect(Self.verify(leaf, mint, for: .address([192, 0, 2, 2])) == X509_V_ERR_IP_ADDRESS_MISMATCH)
    let certificate = try Certificate.read(leaf.der).get()[0]
    #expect(certificate.names.count == 1)
  }

  @Test func whatALeafSays() throws {
    let mint = try Self.mint()
    let leaf = try mint.mint(for: .name("a.example"), now: Self.now).get()
    let x509 = leaf.certificate
    #expect(X509_get_version(x509) == Int(X509_VERSION_3))
    #expect(X509_check_ca(x509) == 0)
    #expect(X509_get_key_usage(x509) == UInt32(KU_DIGITAL_SIGNATURE))
    #expect(X509_get_extended_key_usage(x509) == UInt32(XKU_SSL_SERVER))
    #expect(criticality(x509, NID_basic_constraints) == 1)
    #expect(criticality(x509, NID_key_usage) == 1)
    #expect(criticality(x509, NID_ext_key_usage) == 0)
    #expect(criticality(x509, NID_subject_alt_name) == 0)
    #expect(commonName(x509) == "a.example")
    #expect(X509_get_signature_nid(x509) == NID_ecdsa_with_SHA256)
    #expect(X509_check_private_key(x509, leaf.key) == 1)
    #expect(try Certificate.read(leaf.der).get()[0].keyDescription == "EC P-256")
  }

  /// A name that does not fit, and addresses: GnuTLS holds the common name of those against constraints on DNS names.
  @Test(arguments: identities.filter { $0 != .name("a.example") })
  func theSubjectIsTheNameOrEmptyBehindACriticalSubjectAltName(_ identity: ReferenceIdentity) throws {
    let leaf = try Self.mint().mint(for: identity, now: Self.now).get()
    var expected = ""
    if case .name(let name) = identity, name.utf8.count <= 64 { expected = name }
    #expect(commonName(leaf.certificate) == expected)
    #expect(X509_NAME_entry_count(X509_get_subject_name(leaf.certificate)) == (expected.isEmpty ? 0 : 1))
    #expect(criticality(leaf.certificate, NID_subject_alt_name) == (expected.isEmpty ? 1 : 0))
  }

  static func bytes(_ string: UnsafePointer<ASN1_OCTET_STRING>?) -> [UInt8] {
    guard let string else { return [] }
    return Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(string), count: Int(ASN1_STRING_length(string))))
  }

  @Test func theKeyIdentifiersMatchByteForByte() throws {
    let mint = try Self.mint()
    let leaf = try mint.mint(for: .name("a.example"), now: Self.now).get()
    let root = try #require(decodedCertificate(mint.authority.certificate.certificate.der))
    let identifier = Self.bytes(X509_get0_subject_key_id(root.pointer))
    #expect(identifier.count == 20)
    #expect(Self.bytes(X509_get0_authority_key_id(leaf.certificate)) == identifier)
    #expect(Self.bytes(X509_get0_subject_key_id(leaf.certificate)).count == 20)
    #expect(Self.bytes(X509_get0_subject_key_id(leaf.certificate)) != identifier)
  }

  @Test func anOperatorsKeyIdentifierOfAnyLengthIsRepeated() throws {
    var plan = CertificatePlan.authority("an operator's own", at: Self.now)
    plan.pathLength = 0
    let root = TestCertificate(plan, key: TestKey(.rsa(bits: 2_048)))
    let mint = try #require(
      LeafMint(Authority.load(certificate: root.der, key: root.key.der, at: Self.now).get()))
    let leaf = try mint.mint(for: .name("a.example"), now: Self.now).get()
    #expect(Self.verify(leaf, mint, for: .name("a.example")) == X509_V_OK)
    #expect(X509_get_signature_nid(leaf.certificate) == NID_sha256WithRSAEncryption)
    #expect(
      Self.bytes(X509_get0_authority_key_id(leaf.certificate)) == Self.bytes(X509_get0_subject_key_id(root.x509)))
    #expect(mint.intermediate == nil)
  }

  @Test func anAuthorityThatAnotherSignedIsSentBehindTheLeaf() throws {
    let root = TestCertificate(.authority("root", at: Self.now))
    var plan = CertificatePlan.authority("between", at: Self.now, serialNumber: 2)
    plan.pathLength = 0
    let between = TestCertificate(plan, issuer: root)
    let mint = try #require(
      LeafMint(Authority.load(certificate: between.der, key: between.key.der, at: Self.now).get()))
    let sent = try #require(mint.intermediate)
    #expect(X509_cmp(sent, between.x509) == 0)
  }

  // MARK: One key, many serial numbers

  @Test func theLeavesOfAMintShareAKeyThatIsNotTheAuthoritys() throws {
    let mint = try Self.mint()
    let first = try Certificate.read(mint.mint(for: .name("a.example"), now: Self.now).get().der).get()[0]
    let second = try Certificate.read(mint.mint(for: .name("b.example"), now: Self.now).get().der).get()[0]
    #expect(first.publicKeyPin == second.publicKeyPin)
    #expect(first.publicKeyPin != mint.authority.certificate.certificate.publicKeyPin)
    #expect(first.serialNumber != second.serialNumber)
    let other = try #require(LeafMint(mint.authority))
    let third = try Certificate.read(other.mint(for: .name("a.example"), now: Self.now).get().der).get()[0]
    #expect(third.publicKeyPin != first.publicKeyPin)
  }

  @Test func aLeafOutlivesItsMint() throws {
    var mint: LeafMint? = try Self.mint()
    let leaf = try #require(mint).mint(for: .name("a.example"), now: Self.now).get()
    mint = nil
    #expect(X509_check_private_key(leaf.certificate, leaf.key) == 1)
  }

  // MARK: Validity

  struct Life: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// In days from when the authority was made.
    let minted: Int64
    let expected: ClosedRange<Int64>
  }

  static let lives = [
    Life(testDescription: "at once", minted: 0, expected: -2...45),
    Life(testDescription: "a year later", minted: 365, expected: 363...410),
    Life(testDescription: "before the authority was made, on a clock that is behind", minted: -1, expected: -2...44),
    Life(testDescription: "when the authority has ten days left", minted: 1_815, expected: 1_813...1_825),
  ]

  @Test(arguments: lives)
  func aLeafLivesWithinTheAuthority(_ row: Life) throws {
    let mint = try Self.mint()
    let minted = Self.now + row.minted * Self.day
    let leaf = try mint.mint(for: .name("a.example"), now: minted).get()
    #expect(leaf.notBefore == Self.now + row.expected.lowerBound * Self.day)
    #expect(leaf.notAfter == Self.now + row.expected.upperBound * Self.day)
    #expect(leaf.notAfter - leaf.notBefore < 200 * Self.day)
    #expect(leaf.renewsAt >= minted && leaf.renewsAt <= leaf.notAfter)
    let certificate = try Certificate.read(leaf.der).get()[0]
    #expect(certificate.notBefore == leaf.notBefore && certificate.notAfter == leaf.notAfter)
    #expect(Self.verify(leaf, mint, for: .name("a.example"), at: minted) == X509_V_OK)
  }

  @Test func anAuthorityThatIsNotValidMintsNothing() throws {
    let mint = try Self.mint()
    func fault(_ days: Int64, _ seconds: Int64 = 0) -> MintFault? {
      switch mint.mint(for: .name("a.example"), now: Self.now + days * Self.day + seconds) {
      case .success: nil
      case .failure(let fault): fault
      }
    }
    #expect(fault(1_825, -1) == nil)
    #expect(fault(1_825) == .authority(.expired(days: 0)))
    #expect(fault(1_835) == .authority(.expired(days: 10)))
    #expect(fault(-5) == .authority(.notYetValid(days: 3)))
  }

  @Test func datesBehind2049AreReadBack() throws {
    let later: Int64 = 2_556_144_000  // 2051-01-01
    let mint = try Self.mint(at: later)
    let leaf = try mint.mint(for: .name("a.example"), now: later).get()
    #expect(try Certificate.read(leaf.der).get()[0].notAfter == later + 45 * Self.day)
    #expect(Self.verify(leaf, mint, for: .name("a.example"), at: later) == X509_V_OK)
  }

  // MARK: Names

  struct Permission: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let permitted: [NameSubtree]
    let identity: ReferenceIdentity
    let isPermitted: Bool
  }

  static let office: [NameSubtree] = [.name("office.example"), .addresses([10, 1, 0, 0], prefixLength: 16)]
  static let names: [NameSubtree] = [.name("office.example")]
  static let blocks: [NameSubtree] = [.addresses([10, 1, 0, 0], prefixLength: 16)]
  static let permissions = [
    Permission(testDescription: "the name", permitted: office, identity: .name("office.example"), isPermitted: true),
    Permission(testDescription: "below", permitted: office, identity: .name("a.b.office.example"), isPermitted: true),
    Permission(testDescription: "above", permitted: office, identity: .name("example"), isPermitted: false),
    Permission(testDescription: "same end", permitted: office, identity: .name("xoffice.example"), isPermitted: false),
    Permission(testDescription: "another", permitted: office, identity: .name("bank.example"), isPermitted: false),
    Permission(testDescription: "an address", permitted: office, identity: .address([10, 1, 2, 3]), isPermitted: true),
    Permission(testDescription: "outside", permitted: office, identity: .address([10, 2, 0, 1]), isPermitted: false),
    Permission(
      testDescription: "IPv6 where IPv4 is permitted", permitted: office,
      identity: .address([UInt8](repeating: 0, count: 15) + [1]), isPermitted: false),
    Permission(
      testDescription: "an address where names are", permitted: names, identity: .address([10, 1, 2, 3]),
      isPermitted: false),
    Permission(
      testDescription: "IPv6 where names are", permitted: names,
      identity: .address([UInt8](repeating: 0, count: 15) + [1]), isPermitted: false),
    Permission(
      testDescription: "a name where addresses are", permitted: blocks, identity: .name("office.example"),
      isPermitted: false),
  ]

  /// The mint refuses exactly what clients would.
  @Test(arguments: permissions)
  func onlyWhatIsPermittedIsMinted(_ row: Permission) throws {
    let mint = try Self.mint(row.permitted)
    switch mint.mint(for: row.identity, now: Self.now) {
    case .success(let leaf):
      #expect(row.isPermitted)
      #expect(Self.verify(leaf, mint, for: row.identity) == X509_V_OK)
    case .failure(let fault):
      #expect(!row.isPermitted)
      guard case .notPermitted(_, row.permitted) = fault else {
        Issue.record("\(fault)")
        return
      }
    }
  }

  @Test(
    arguments: [
      .name(""), .name("A.example"), .name("a.example."), .name(".a"), .name("*.a.example"), .name("a b"), .name("ä"),
      .name("a\u{0}.example"), .name("a@b"), .name(String(repeating: "a.", count: 127)), .address([]),
      .address([1, 2, 3]), .address([UInt8](repeating: 0, count: 17)),
    ] as [ReferenceIdentity])
  func whatIsNoCanonicalHostIsRefused(_ identity: ReferenceIdentity) throws {
    guard case .failure(.malformedHost) = try Self.mint().mint(for: identity, now: Self.now) else {
      Issue.record("minted")
      return
    }
  }

  @Test func nothingStaysInOpenSSLsQueueOfErrors() throws {
    ERR_clear_error()
    let mint = try Self.mint([.name("office.example")])
    _ = mint.mint(for: .name("bank.example"), now: Self.now)
    _ = mint.mint(for: .name("office.example"), now: Self.now)
    #expect(ERR_peek_error() == 0)
  }

  @Test func threadsShareAMint() async throws {
    let mint = try Self.mint()
    let serials = await withTaskGroup(of: [String].self) { group in
      for thread in 0..<4 {
        group.addTask {
          (0..<50).compactMap { number in
            guard let leaf = try? mint.mint(for: .name("host-\(thread)-\(number).example"), now: Self.now).get(),
              Self.verify(leaf, mint, for: .name("host-\(thread)-\(number).example")) == X509_V_OK
            else { return nil }
            return try? Certificate.read(leaf.der).get()[0].serialNumber
          }
        }
      }
      return await group.reduce(into: [String]()) { $0 += $1 }
    }
    #expect(serials.count == 200)
    #expect(Set(serials).count == 200)
  }
}
