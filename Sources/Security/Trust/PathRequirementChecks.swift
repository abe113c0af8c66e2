// The checks for the rows of PathRequirements.

import COpenSSL

extension PathRequirement {
  /// The most comparisons of names with subtrees in one path. Constrained authorities on the web have some dozens of
  /// subtrees, and leaves have at most a hundred names.
  private static let comparisonLimit = 1 << 16
  /// When version 3 was introduced (X.509 of 1997): no root is older. Seconds since 1970.
  private static let firstVersion3: Int64 = 852_076_800
  /// The day when the first baseline requirements took effect, 2012-07-01.
  private static let firstRequirements: Int64 = 1_341_100_800

  static func version(_ facts: CertificateFacts) -> String? {
    let version = X509_get_version(facts.certificate)
    return version == Int(X509_VERSION_3) ? nil : "version \(version + 1)"
  }

  static func isEmpty(_ name: OpaquePointer?) -> Bool { X509_NAME_entry_count(name) <= 0 }

  /// The extension exists and is not critical.
  static func uncritical(_ kind: Int32, _ place: PathPlace) -> String? {
    place.facts[kind]?.isCritical == false ? "one that is not" : nil
  }

  /// Roots made before there were requirements for them are exempt.
  static func isOldAnchor(_ place: PathPlace) -> Bool {
    guard place.position == .anchor, let made = seconds(X509_get0_notBefore(place.facts.certificate)) else {
      return false
    }
    return made >= firstVersion3 && made < firstRequirements
  }

  static func timeFault(_ certificate: OpaquePointer) -> String? {
    for time in [X509_get0_notBefore(certificate), X509_get0_notAfter(certificate)] {
      guard let time, ASN1_STRING_type(time) == V_ASN1_GENERALIZEDTIME else { continue }
      let text = octets(time)
      if text.prefix(4).lexicographicallyPrecedes("2050".utf8) {
        return "GeneralizedTime \(quotable(printable(text)))"
      }
    }
    return nil
  }

  static func pathLengthFault(_ facts: CertificateFacts) -> String? {
    guard let constraints = facts.basicConstraints, constraints.hasPathLength else { return nil }
    if !constraints.isAuthority { return "one beside CA:FALSE" }
    return facts.keyUsage == nil || facts.signsCertificates ? nil : "one without keyCertSign"
  }

  /// Purposes that a server's certificate may not have in addition to its own.
  static func purposeFault(_ facts: CertificateFacts) -> String? {
    let forbidden = [
      NID_anyExtendedKeyUsage: "anyExtendedKeyUsage", NID_code_sign: "codeSigning",
      NID_email_protect: "emailProtection", NID_time_stamp: "timeStamping", NID_OCSP_sign: "OCSPSigning",
      NID_ct_precert_signer: "the signing of precertificates",
    ]
    return facts.purposes?.lazy.compactMap { forbidden[$0] }.first
  }

  static func nameFault(_ facts: CertificateFacts) -> String? {
    let names = facts.names ?? []
    for name in names where name.kind == .domain || name.kind == .address {
      if !name.isWellFormed { return name.description }
      // No one owns a whole top-level domain, so a wildcard for it is a fault.
      if name.content.starts(with: [0x2a, 0x2e]), !name.content.dropFirst(2).contains(0x2e) {
        return name.description
      }
    }
    return nil
  }

  static func constraintFault(_ place: PathPlace) -> String? {
    // A self-issued certificate of an authority is for its next key, and its name is not checked (RFC 5280, 6.1.3 (b)).
    if place.index > 0 && place.facts.isSelfNamed { return nil }
    guard place.authorities.contains(where: { $0.nameConstraints != nil }), let names = place.facts.names else {
      return nil
    }
    var comparisons = 0
    for constraints in place.authorities.compactMap(\.nameConstraints) {
      comparisons += names.count * (constraints.permitted.count + constraints.excluded.count)
      guard comparisons <= comparisonLimit else { return "\(names.count) names under too many constraints" }
      for name in names {
        if let fault = constraints.fault(of: name) { return fault }
      }
    }
    return nil
  }
}

/// A serial number, as encoded.
struct SerialNumber {
  /// RFC 5280, 4.1.2.2.
  private static let longest = 20

  private let isNegative: Bool
  private let magnitude: [UInt8]

  init(_ facts: CertificateFacts) {
    let serial = X509_get0_serialNumber(facts.certificate)
    isNegative = ASN1_STRING_type(serial) == V_ASN1_NEG_INTEGER
    magnitude = octets(serial)
  }

  var isZero: Bool { magnitude.allSatisfy { $0 == 0 } }

  /// A zero octet precedes a number whose highest bit is set.
  var lengthFault: String? {
    if isNegative { return "a negative one" }
    let count = magnitude.count + ((magnitude.first ?? 0) >= 0x80 ? 1 : 0)
    return count > Self.longest ? "one of \(count) octets" : nil
  }
}

/// A key by its algorithm.
struct PublicKeyKind {
  /// BR 6.1.5.
  private static let leastModulus: Int32 = 2048

  private let certificate: OpaquePointer
  private let algorithm: Int32

  init(_ facts: CertificateFacts) {
    certificate = facts.certificate
    algorithm = cossl_key_algorithm(certificate)
  }

  private var isRSA: Bool { algorithm == NID_rsaEncryption || algorithm == NID_rsassaPss }
  private var isEdwards: Bool { algorithm == NID_ED25519 || algorithm == NID_ED448 }
  private var isEllipticCurve: Bool { algorithm == NID_X9_62_id_ecPublicKey }
  private var words: String { String(cString: OBJ_nid2sn(algorithm)) }

  var algorithmFault: String? { isRSA || isEdwards || isEllipticCurve ? nil : words }
  var uncommonFault: String? { isEdwards || algorithm == NID_rsassaPss ? words : nil }

  var sizeFault: String? {
    guard isRSA, let key = X509_get0_pubkey(certificate) else { return nil }
    let bits = EVP_PKEY_get_bits(key)
    return bits >= Self.leastModulus && bits % 8 == 0 ? nil : "one of \(bits) bits"
  }

  var describedCurveFault: String? {
    isEllipticCurve && cossl_key_curve(certificate) == NID_undef ? "one that is described" : nil
  }

  var uncommonCurveFault: String? {
    guard isEllipticCurve else { return nil }
    let curve = cossl_key_curve(certificate)
    let common = [NID_X9_62_prime256v1, NID_secp384r1, NID_secp521r1]
    return common.contains(curve) ? nil : String(cString: OBJ_nid2sn(curve))
  }
}

/// The authorityKeyIdentifier of a certificate that is signed with its own key.
enum RootIdentifier {
  static func fault(_ facts: CertificateFacts) -> String? {
    guard facts.isSelfNamed, let value = facts[NID_authority_key_identifier]?.value,
      let parts = DERReader.sequence(value)
    else { return nil }
    // [0] keyIdentifier, [1] authorityCertIssuer, [2] authorityCertSerialNumber
    let issuer = parts.first { $0.tag == 0xa1 }
    let serial = parts.first { $0.tag == 0x82 }
    guard let identifier = parts.first(where: { $0.tag == 0x80 }) else { return "one without a keyIdentifier" }
    // Today's baseline requirements forbid both. Older roots have them, and name themselves.
    if let issuer, !names(issuer, facts.certificate) { return "one that names another issuer" }
    if let serial, !isSerial(serial, of: facts.certificate) { return "one that names another serial number" }
    if let own = facts[NID_subject_key_identifier].flatMap({ DERReader.element(DERElement.octetString, $0.value) }),
      !own.content.elementsEqual(identifier.content),
      // If it is signed with the previous key, it is not a root of its own, and may name that key.
      X509_verify(facts.certificate, X509_get0_pubkey(facts.certificate)) == 1
    {
      return "one that names another key"
    }
    return nil
  }

  private static func names(_ issuer: DERElement, _ certificate: OpaquePointer) -> Bool {
    guard let names = issuer.elements, let own = encoded({ i2d_X509_NAME(X509_get_subject_name(certificate), $0) })
    else { return false }
    return names.count == 1 && names[0].tag == GeneralName.Kind.directory.rawValue
      && names[0].content.elementsEqual(own)
  }

  private static func isSerial(_ element: DERElement, of certificate: OpaquePointer) -> Bool {
    let own = octets(X509_get0_serialNumber(certificate))
    return element.content.drop { $0 == 0 }.elementsEqual(own.drop { $0 == 0 })
  }
}

extension CertificateFacts {
  /// The title of an extension that does not have the form of RFC 5280. Extensions that OpenSSL decodes during
  /// verification are already known to be well formed.
  var malformedExtension: String? {
    for one in extensions where !Self.isWellFormed(one) { return "\(Self.title(one)) that cannot be read" }
    return nil
  }

  private static func isWellFormed(_ one: CertificateExtension) -> Bool {
    switch one.kind {
    case NID_info_access, NID_sinfo_access:
      // At least one, each an object identifier and a name.
      isList(one.value) { parts in
        parts.count == 2 && parts[0].tag == DERElement.objectIdentifier && GeneralName(parts[1]).kind != nil
      }
    case NID_certificate_policies:
      isList(one.value) { $0.first?.tag == DERElement.objectIdentifier }
    case NID_crl_distribution_points, NID_freshest_crl, NID_policy_mappings:
      isList(one.value) { !$0.isEmpty }
    case NID_subject_key_identifier:
      DERReader.element(DERElement.octetString, one.value).map { !$0.content.isEmpty } ?? false
    case NID_key_usage: DERReader.element(DERElement.bitString, one.value) != nil
    case NID_basic_constraints, NID_authority_key_identifier: DERReader.sequence(one.value) != nil
    case NID_ext_key_usage:
      DERReader.sequence(one.value).map { list in
        !list.isEmpty && list.allSatisfy { $0.tag == DERElement.objectIdentifier }
      } ?? false
    case NID_subject_alt_name, NID_issuer_alt_name:
      DERReader.sequence(one.value).map { list in
        !list.isEmpty && list.allSatisfy { GeneralName($0).kind != nil }
      } ?? false
    case NID_name_constraints, NID_policy_constraints: DERReader.sequence(one.value) != nil
    case NID_inhibit_any_policy: DERReader.element(DERElement.integer, one.value) != nil
    default: true
    }
  }

  /// A sequence of at least one element. Each element is a sequence for which `isSound` is true.
  private static func isList(
    _ value: UnsafeBufferPointer<UInt8>, _ isSound: ([DERElement]) -> Bool
  ) -> Bool {
    guard let list = DERReader.sequence(value), !list.isEmpty else { return false }
    return list.allSatisfy { one in one.tag == DER.sequence && (one.elements.map(isSound) ?? false) }
  }
}
