// The chains of the decision table of requirements: certificates by themselves. Name constraints are in
// ConstraintCases.

import COpenSSL
import Security
import TestSupport

extension RequirementCase {
  private typealias M = Made
  private typealias X = TestExtension
  private static let roots = [World.root]

  static let all: [RequirementCase] =
    sound + form + extensions + authorities + leaves + commonNames + identifiers + keys + trustedLeaves + constraints

  private static let sound: [RequirementCase] = [
    .good("good", M.leaf(), roots),
    .good("no key usage in the leaf", M.leaf({ $0.keyUsage = nil }), roots),
    .good("no basic constraints in the leaf", M.leaf({ $0.isAuthority = nil }), roots),
    .good("an intermediate as the anchor", [M.leaf()[0]], [World.intermediate]),
    .good("the root shown, the intermediate the anchor", [M.leaf()[0], World.root], [World.intermediate]),
    .good("authorityInfoAccess", M.leaf({ _ in }, { X.authorityInformation.add(information, to: $0) }), roots),
    .good("for clients as well", M.leaf({ $0.extendedKeyUsage = "serverAuth,clientAuth" }), roots),
    .good("a wildcard", M.leaf({ $0.names = ["DNS:*.example.com"] }), roots),
    .good(
      "no subject, critical names",
      M.leaf({ $0.commonName = "" }, { X.names.mark(critical: true, in: $0) }), roots),
    .good("path length 0, a leaf below", M.intermediate({ $0.pathLength = 0 }), roots),
    .good("path length that grows", lengths(1, 2), roots),
    .good("a self-issued authority is not counted", selfIssuedBetween, roots),
    .good("the last second of validity", M.leaf({ $0.notAfter = now }), roots),
    .good("the first second of validity", M.leaf({ $0.notBefore = now }), roots),
    .bad("the second behind the last", nil, M.leaf({ $0.notAfter = now - 1 }), roots),
    .bad("the second before the first", nil, M.leaf({ $0.notBefore = now + 1 }), roots),
    .bad("path length exceeded", nil, lengths(0, 0), roots),
    .bad("issued by another root", nil, [TestCertificate(M.goodLeaf, issuer: World.privateRoot)], roots),
  ]

  private static let information = TestDER.sequence([
    TestDER.sequence([TestDER.objectIdentifier("1.3.6.1.5.5.7.48.2"), TestDER.domain("example.com")])
  ])

  /// Two intermediates with path lengths.
  private static func lengths(_ upper: Int, _ lower: Int) -> [TestCertificate] {
    let upper = M.authority("Upper", issuer: World.root, { $0.pathLength = upper })
    let lower = M.authority("Lower", issuer: upper, { $0.pathLength = lower })
    return [TestCertificate(M.goodLeaf, issuer: lower), lower, upper]
  }

  /// Upper (1), the same name again (1), lower (0), leaf.
  private static let selfIssuedBetween: [TestCertificate] = {
    let upper = M.authority("Upper", issuer: World.root, { $0.pathLength = 1 })
    let again = M.authority("Upper", issuer: upper, serial: 8, { $0.pathLength = 1 })
    let lower = M.authority("Lower", issuer: again, { $0.pathLength = 0 })
    return [TestCertificate(M.goodLeaf, issuer: lower), lower, again, upper]
  }()

  // MARK: The certificate itself

  private static func serial(_ octets: [UInt8], negative: Bool = false) -> Alteration {
    { x509 in
      let number = X509_get_serialNumber(x509)
      ASN1_STRING_set(number, octets, Int32(octets.count))
      number?.pointee.type = negative ? V_ASN1_NEG_INTEGER : V_ASN1_INTEGER
    }
  }

  private static func generalized(_ text: String) -> Alteration {
    { ASN1_TIME_set_string(X509_getm_notAfter($0), text) }
  }

  private static let versionOne: Alteration = { x509 in
    while X509_get_ext_count(x509) > 0 { X509_EXTENSION_free(X509_delete_ext(x509, 0)) }
    X509_set_version(x509, Int(X509_VERSION_1))
  }

  private static let form: [RequirementCase] = [
    leaf("version 2 with extensions", "version of extensions", M.leaf({ _ in }, { X509_set_version($0, 1) })),
    .bad("version 1, which has no names", nil, M.leaf({ _ in }, versionOne), roots),
    .badInPublic("a root of version 1", "version", M.identified(belowA: M.authority("Old", { _ in }, versionOne))),
    leaf("serial of zero", "serial number, zero", M.leaf({ $0.serialNumber = 0 })),
    .bad("serial of zero in an intermediate", "serial number, zero", M.intermediate({ $0.serialNumber = 0 }), roots),
    .good("serial of zero in a root", M.root({ $0.serialNumber = 0 })),
    leaf("serial below zero", "serial number, length", M.leaf({ _ in }, serial([5], negative: true))),
    leaf(
      "serial of 22 octets", "serial number, length", M.leaf({ _ in }, serial([UInt8](repeating: 0x11, count: 22)))),
    leaf(
      "serial of 20 octets and a sign", "serial number, length",
      M.leaf({ _ in }, serial([UInt8](repeating: 0xf1, count: 20)))),
    .good("serial of 20 octets", M.leaf({ _ in }, serial([UInt8](repeating: 0x71, count: 20))), roots),
    .bad("a root whose signature algorithms differ", "signature algorithm", twoAlgorithms.0, twoAlgorithms.1),
    .bad("an issuer without a name", nil, M.leaf({ _ in }, { X509_set_issuer_name($0, X509_NAME_new()) }), roots),
    .bad("a root without a name", "issuer", M.root({ $0.commonName = "" })),
    .bad("an intermediate without a subject", "issuer", M.intermediate({ $0.commonName = "" }), roots),
    leaf(
      "GeneralizedTime before 2050", "encoding of the validity", M.leaf({ _ in }, generalized("20270101000000Z"))),
    .good("GeneralizedTime from 2050 on", M.leaf({ _ in }, generalized("29690503000000Z")), roots),
  ]

  /// A root whose outer algorithm is not the one that was signed.
  private static let twoAlgorithms: ([TestCertificate], [TestCertificate]) = {
    let made = M.root()
    // The last of the two is outside; SHA-256 becomes SHA-384.
    let identifier: [UInt8] = [0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]
    var der = made.anchors[0].der
    let at = (0...(der.count - identifier.count)).last { Array(der[$0..<$0 + identifier.count]) == identifier }
    if let at { der[at + identifier.count - 1] = 0x03 }
    return (made.presented, [TestCertificate(der: der, key: made.anchors[0].key)])
  }()

  // MARK: Extensions

  private static let extensions: [RequirementCase] = [
    leaf(
      "subjectAltName twice", nil,
      M.leaf({ _ in }, { X.names.add(TestDER.sequence([TestDER.domain(host)]), to: $0) })),
    leaf(
      "an unknown extension twice", "repeated extensions",
      M.leaf({ _ in }) { x509 in for _ in 0..<2 { X.unknown.add([0x05, 0x00], to: x509) } }),
    .bad(
      "a critical extension that nobody knows", nil,
      M.leaf({ _ in }, { X.unknown.add([0x05, 0x00], critical: true, to: $0) }), roots),
    .bad(
      "the same in an intermediate", nil,
      M.intermediate({ _ in }, { X.unknown.add([0x05, 0x00], critical: true, to: $0) }), roots),
    .bad("the same in a root", nil, M.root({ _ in }, { X.unknown.add([0x05, 0x00], critical: true, to: $0) })),
    .bad("critical authority key identifier", nil, M.leaf({ _ in }, critical(.authorityKeyIdentifier)), roots),
    .bad("critical subject key identifier", nil, M.root({ _ in }, critical(.subjectKeyIdentifier))),
    .bad(
      "critical authorityInfoAccess", nil,
      M.leaf({ _ in }, { X.authorityInformation.add(information, critical: true, to: $0) }), roots),
    leaf(
      "authorityInfoAccess that is text", "malformed extensions",
      M.leaf({ _ in }, { X.authorityInformation.add(Array("malformed".utf8), to: $0) })),
    leaf(
      "authorityInfoAccess that is empty", "malformed extensions",
      M.leaf({ _ in }, { X.authorityInformation.add([0x30, 0x00], to: $0) })),
    .bad(
      "subjectAltName that is text", nil,
      M.leaf({ _ in }, { X.names.set(Array("example.com".utf8), in: $0) }), roots),
    leaf(
      "subjectAltName that is empty", "malformed extensions",
      M.leaf({ _ in }, { X.names.set([0x30, 0x00], in: $0) })),
    leaf(
      "key usage without a bit", nil,
      M.leaf({ _ in }, { X.keyUsage.set([0x03, 0x01, 0x00], critical: true, in: $0) })),
    .bad(
      "policy constraints that are not critical", "policy constraints",
      M.intermediate({ _ in }, { X.policyConstraints.add(explicitPolicy(3), to: $0) }), roots),
    .good(
      "policy constraints that ask for nothing yet",
      M.intermediate({ _ in }, { X.policyConstraints.add(explicitPolicy(3), critical: true, to: $0) }), roots),
    .bad(
      "policy constraints without a policy", nil,
      M.intermediate({ _ in }, { X.policyConstraints.add(explicitPolicy(0), critical: true, to: $0) }), roots),
    .bad(
      "inhibitAnyPolicy that is not critical", "inhibitAnyPolicy",
      M.intermediate({ _ in }, { X.inhibitAnyPolicy.add([0x02, 0x01, 0x00], to: $0) }), roots),
    leaf(
      "path length in a leaf", "path length without authority",
      M.leaf(
        { _ in },
        { X.basicConstraints.set(TestDER.sequence([[0x02, 0x01, 0x00]]), critical: true, in: $0) })),
  ]

  private static func critical(_ extension: TestExtension) -> Alteration {
    { `extension`.mark(critical: true, in: $0) }
  }
  private static func uncritical(_ extension: TestExtension) -> Alteration {
    { `extension`.mark(critical: false, in: $0) }
  }

  private static func explicitPolicy(_ skip: UInt8) -> [UInt8] { TestDER.sequence([[0x80, 0x01, skip]]) }

  // MARK: Authorities

  private static let authorities: [RequirementCase] = [
    .bad("CA bit missing", nil, M.intermediate({ $0.isAuthority = false }), roots),
    .bad("no basic constraints in an intermediate", nil, M.intermediate({ $0.isAuthority = nil }), roots),
    .badInPublic(
      "no basic constraints in a root", "basic constraints of an authority", M.root({ $0.isAuthority = nil })),
    .badInPublic(
      "basic constraints of a root that are not critical", "critical basic constraints",
      M.root({ _ in }, uncritical(.basicConstraints))),
    .badInPublic(
      "basic constraints of an intermediate that are not critical", "critical basic constraints",
      M.intermediate({ _ in }, uncritical(.basicConstraints)), roots),
    .good(
      "basic constraints of an old root that are not critical",
      M.root({ $0.notBefore = 1_100_000_000 }, uncritical(.basicConstraints))),
    .badInPublic(
      "basic constraints of a root of 1970 that are not critical", "critical basic constraints",
      M.root({ $0.notBefore = 0 }, uncritical(.basicConstraints))),
    .bad("an intermediate without keyCertSign", nil, M.intermediate({ $0.keyUsage = "digitalSignature" }), roots),
    .bad("a root without keyCertSign", nil, M.root({ $0.keyUsage = "digitalSignature" })),
    .bad(
      "a root with a key usage of nothing", nil,
      M.root({ _ in }, { X.keyUsage.set([0x03, 0x01, 0x00], in: $0) })),
    .badInPublic(
      "an intermediate without key usage", "key usage of an authority", M.intermediate({ $0.keyUsage = nil }), roots),
    .good("a root without key usage", M.root({ $0.keyUsage = nil })),
    .good(
      "key usage of authorities that is not critical",
      M.intermediate({ _ in }, uncritical(.keyUsage)), roots),
    .badInPublic("a purpose in a root", "purposes of a root", M.root({ $0.extendedKeyUsage = "serverAuth" })),
    .good("a purpose in an intermediate", M.intermediate({ $0.extendedKeyUsage = "serverAuth" }), roots),
  ]

  // MARK: Leaves

  private static let leaves: [RequirementCase] =
    [
      leaf("a leaf that is an authority", "leaf that is an authority", M.leaf({ $0.isAuthority = true })),
      leaf(
        "a leaf that may sign certificates", "leaf that signs certificates",
        M.leaf({ $0.keyUsage = "digitalSignature,keyCertSign" })),
      leaf(
        "an authority in the leaf's place", "leaf that is an authority",
        [
          M.authority(
            "ca.example", issuer: World.root,
            {
              $0.names = ["DNS:\(host)"]
              $0.extendedKeyUsage = "serverAuth"
              $0.keyUsage = "digitalSignature,keyCertSign"
            })
        ]),
      .bad(
        "an authority in the leaf's place that may only sign", nil,
        [M.authority("ca.example", issuer: World.root, { $0.names = ["DNS:\(host)"] })], roots),
      leaf("constraints in a leaf", "name constraints in a leaf", M.leaf({ _ in }, constrained(critical: false))),
      leaf(
        "critical constraints in a leaf", "name constraints in a leaf", M.leaf({ _ in }, constrained(critical: true))),
      .badInPublic("no purpose", "purposes of a leaf", M.leaf({ $0.extendedKeyUsage = nil }), roots),
      .bad("for clients only", nil, M.leaf({ $0.extendedKeyUsage = "clientAuth" }), roots),
      .bad("any purpose alone", nil, M.leaf({ $0.extendedKeyUsage = "anyExtendedKeyUsage" }), roots),
      leaf("a purpose of old browsers alone", "purpose serverAuth", M.leaf({ $0.extendedKeyUsage = "msSGC" })),
      .badInPublic(
        "a critical purpose", "critical purposes", M.leaf({ $0.extendedKeyUsage = "critical,serverAuth" }), roots),
      .badInPublic(
        "critical names beside a subject", "critical names of a leaf with a subject",
        M.leaf({ _ in }, critical(.names)), roots),
      leaf(
        "names that are not critical without a subject", "critical names of a leaf without a subject",
        M.leaf({ $0.commonName = "" })),
      .bad("no names", "names of a leaf", M.leaf({ $0.names = [] }), roots),
      .badInPublic(
        "a malformed name among others", "malformed names of a leaf",
        [
          M.named([TestDER.domain(host), TestDER.domain("*.*.example.com")], issuer: World.intermediate),
          World.intermediate,
        ],
        roots),
      .badInPublic(
        "a block of addresses among the names", "malformed names of a leaf",
        [
          M.named(
            [TestDER.domain(host), TestDER.address([192, 0, 2, 0, 255, 255, 255, 0])], issuer: World.intermediate),
          World.intermediate,
        ], roots),
      .bad(
        "a wildcard for a top level", nil, M.leaf({ $0.names = ["DNS:*.com"] }), roots, for: .name("example.com")),
    ]
    + [
      "anyExtendedKeyUsage", "codeSigning", "emailProtection", "timeStamping", "OCSPSigning", "1.3.6.1.4.1.11129.2.4.4",
    ].map { purpose in
      .badInPublic(
        "\(purpose) beside serverAuth", "purposes beside serverAuth",
        M.leaf({ $0.extendedKeyUsage = "serverAuth,\(purpose)" }), roots)
    }

  private static func constrained(critical: Bool) -> Alteration {
    {
      X.nameConstraints.add(TestDER.constraints(permitted: [TestDER.domain("example.com")]), critical: critical, to: $0)
    }
  }

  // MARK: Common names

  private static func common(
    _ name: String, _ names: [String], isGood: Bool, for identity: ReferenceIdentity = .name(host)
  ) -> RequirementCase {
    let presented = M.leaf({
      $0.commonName = name
      $0.names = names
    })
    let title = "common name \(name) beside \(names.joined(separator: " "))"
    return isGood
      ? .good(title, presented, roots, for: identity)
      : .badInPublic(title, "common name of a leaf", presented, roots, for: identity)
  }

  private static let commonNames: [RequirementCase] = [
    common(host, ["DNS:\(host)"], isGood: true),
    common("*.example.com", ["DNS:*.example.com"], isGood: true),
    common("example.com", ["DNS:*.example.com"], isGood: true),
    common("Example Inc.", ["DNS:\(host)"], isGood: true),
    common("192.0.2.1", ["IP:192.0.2.1"], isGood: true, for: .address([192, 0, 2, 1])),
    common("2001:db8::1", ["IP:2001:db8::1", "DNS:\(host)"], isGood: true),
    common("example.com", ["IP:192.0.2.1"], isGood: true, for: .address([192, 0, 2, 1])),
    common("other.example.com", ["DNS:\(host)"], isGood: false),
    common("Pay.Example.COM", ["DNS:\(host)"], isGood: false),
    common("xn--bcher-kva.example", ["DNS:\(host)"], isGood: false),
    common("b\u{fc}cher.example", ["DNS:\(host)"], isGood: false),
    common("0xC0000201", ["IP:192.0.2.1"], isGood: false, for: .address([192, 0, 2, 1])),
    common("192.0.002.001", ["IP:192.0.2.1"], isGood: false, for: .address([192, 0, 2, 1])),
    common("2001:DB8::1", ["IP:2001:db8::1", "DNS:\(host)"], isGood: false),
    common("2001:0db8:0000:0000:0000:0000:0000:0001", ["IP:2001:db8::1", "DNS:\(host)"], isGood: false),
    common("2001:db8:0:0:1:0:0:1", ["IP:2001:db8::1:0:0:1", "DNS:\(host)"], isGood: false),
  ]

  // MARK: Identifiers of keys

  private static let identifiers: [RequirementCase] = [
    .badInPublic(
      "a leaf without an authority key identifier", "authority key identifier",
      M.leaf({ _ in }, { X.authorityKeyIdentifier.remove(from: $0) }), roots),
    .badInPublic(
      "an intermediate without an authority key identifier", "authority key identifier",
      M.intermediate({ _ in }, { X.authorityKeyIdentifier.remove(from: $0) }), roots),
    .badInPublic(
      "an anchor of another root without an authority key identifier", "authority key identifier",
      {
        let made = M.intermediate({ _ in }, { X.authorityKeyIdentifier.remove(from: $0) })
        return ([made[0]], [made[1]])
      }()),
    .good(
      "a root without an authority key identifier", M.root({ _ in }, { X.authorityKeyIdentifier.remove(from: $0) })),
    .badInPublic(
      "a root without a subject key identifier", "subject key identifier",
      M.identified(belowA: M.authority("Old", { $0.hasKeyIdentifiers = false }))),
    .good(
      "an old root without a subject key identifier",
      M.identified(
        belowA: M.authority(
          "Old",
          {
            $0.hasKeyIdentifiers = false
            $0.notBefore = 1_100_000_000
          }))),
    .badInPublic(
      "an intermediate without a subject key identifier", "subject key identifier",
      M.identified(
        belowA: M.authority("Middle", issuer: World.root, { _ in }, { X.subjectKeyIdentifier.remove(from: $0) })
      ).presented, roots),
    rootIdentifier("no key identifier", []),
    rootIdentifier("another issuer", [.own, .raw(TestDER.element(0xa1, TestDER.directory(commonName: "myCN")))]),
    rootIdentifier("another serial number", [.own, .raw([0x82, 0x02, 0x04, 0xd2])]),
    rootIdentifier("another key", [.raw(TestDER.element(0x80, [1, 2, 3]))]),
    rootIdentifier(
      "itself",
      [
        .own, .raw(TestDER.element(0xa1, TestDER.directory(commonName: "Another Root"))), .raw([0x82, 0x01, 0x07]),
      ], isGood: true),
  ]

  private enum Part: Sendable {
    /// The root's own key identifier.
    case own
    case raw([UInt8])
  }

  /// A root whose authority key identifier is made of `parts`.
  private static func rootIdentifier(_ name: String, _ parts: [Part], isGood: Bool = false) -> RequirementCase {
    let made = M.root({ _ in }) { x509 in
      // Behind the tag and the length.
      let own = TestDER.element(0x80, Array(X.subjectKeyIdentifier.value(in: x509).dropFirst(2)))
      let all = parts.map { part -> [UInt8] in if case .raw(let bytes) = part { bytes } else { own } }
      X.authorityKeyIdentifier.set(TestDER.sequence(all), in: x509)
    }
    let title = "a root whose authority key identifier names \(name)"
    return isGood ? .good(title, made) : .badInPublic(title, "authority key identifier of a root", made)
  }

  // MARK: Keys

  private static let dsa = TestKey(.dsa)

  private static let keys: [RequirementCase] = [
    .good("a leaf of RSA-2048", M.leaf(key: TestKey(.rsa(bits: 2048))), roots),
    .good("a leaf on P-384", M.leaf(key: TestKey(.curve(NID_secp384r1))), roots),
    .good("a leaf on P-521", M.leaf(key: TestKey(.curve(NID_secp521r1))), roots),
    .bad("a leaf of RSA-1024", nil, M.leaf(key: TestKey(.rsa(bits: 1024))), roots),
    leaf("a leaf of RSA-2052", "size of RSA keys", M.leaf(key: TestKey(.rsa(bits: 2052)))),
    .bad("a root of RSA-2052", "size of RSA keys", M.root(key: TestKey(.rsa(bits: 2052)))),
    leaf("a leaf of DSA", "kind of key", M.leaf(key: dsa)),
    .bad("a root of DSA", "kind of key", M.root(key: dsa)),
    .bad("a leaf on P-192", nil, M.leaf(key: TestKey(.curve(NID_X9_62_prime192v1))), roots),
    .badInPublic("a leaf on P-224", "public curves", M.leaf(key: TestKey(.curve(NID_secp224r1))), roots),
    .badInPublic("a leaf on secp256k1", "public curves", M.leaf(key: TestKey(.curve(NID_secp256k1))), roots),
    leaf("a leaf on a curve that is described", "named curves", M.leaf(key: TestKey(.describedCurve))),
    .badInPublic("a leaf of Ed25519", "EdDSA and RSASSA-PSS keys", M.leaf(key: TestKey(.ed25519)), roots),
    .badInPublic("a root of Ed25519", "EdDSA and RSASSA-PSS keys", M.root(key: TestKey(.ed25519))),
  ]

  // MARK: Leaves that are their own anchors

  private static func trusted(
    _ name: String, _ row: String, _ change: Change = { _ in }, _ alter: Alteration = { _ in }
  ) -> RequirementCase {
    let own = TestCertificate(M.goodLeaf.with(change), alter: alter)
    return .badInPublic(name, row, [own], [own])
  }

  private static let trustedLeaves: [RequirementCase] = [
    .good("a self-signed leaf", selfSigned(), selfSigned()),
    trusted("a self-signed authority for a host", "leaf that is an authority", { $0.isAuthority = true }),
    trusted(
      "a self-signed leaf that signs", "leaf that signs certificates", { $0.keyUsage = "digitalSignature,keyCertSign" }),
    trusted("a self-signed leaf with a serial of zero", "serial number, zero", { $0.serialNumber = 0 }),
    trusted("a self-signed leaf without a purpose", "purposes of a leaf", { $0.extendedKeyUsage = nil }),
    trusted("a self-signed leaf without a subject", "issuer", { $0.commonName = "" }),
    {
      let own = TestCertificate(M.goodLeaf, alter: serial([5], negative: true))
      return .bad("a self-signed leaf with a serial below zero", "serial number, length", [own], [own])
    }(),
  ]

  private static let ownLeaf = TestCertificate(M.goodLeaf)
  private static func selfSigned() -> [TestCertificate] { [ownLeaf] }

  // MARK: Pairs

  private typealias Pair = (presented: [TestCertificate], anchors: [TestCertificate])

  private static func good(_ name: String, _ pair: Pair) -> RequirementCase {
    .good(name, pair.presented, pair.anchors)
  }
  private static func bad(_ name: String, _ row: String?, _ pair: Pair) -> RequirementCase {
    .bad(name, row, pair.presented, pair.anchors)
  }
  private static func badInPublic(_ name: String, _ row: String, _ pair: Pair) -> RequirementCase {
    .badInPublic(name, row, pair.presented, pair.anchors)
  }
}
