// A certificate under construction: the local authority's own, or a leaf that it signs.
//
// The extension values are few and small. Their DER is written by hand, exactly as in RFC 5280 (4.2). OpenSSL's
// configuration language is not used, because in it a name could express more than a name. Tests read the values back
// with OpenSSL.

import COpenSSL

/// Distinguished encoding (X.690).
enum DER {
  static let sequence: UInt8 = 0x30
  static let octetString: UInt8 = 0x04

  /// Tag, length, contents.
  static func element(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
    let count = contents.count
    if count < 0x80 { return [tag, UInt8(count)] + contents }
    if count < 0x100 { return [tag, 0x81, UInt8(count)] + contents }
    precondition(count < 0x1_0000, "an extension is under 64 KiB")
    return [tag, 0x82, UInt8(count >> 8), UInt8(count & 0xff)] + contents
  }
}

/// Extension values, and whether each is critical.
enum ExtensionValue {
  case basicConstraints(isAuthority: Bool)
  case authorityKeyUsage
  case leafKeyUsage
  case serverAuthentication
  case subjectKeyIdentifier([UInt8])
  case authorityKeyIdentifier([UInt8])
  case subjectAlternativeName(ReferenceIdentity, isCritical: Bool)
  case nameConstraints([NameSubtree])

  private var identifier: Int32 {
    switch self {
    case .basicConstraints: NID_basic_constraints
    case .authorityKeyUsage, .leafKeyUsage: NID_key_usage
    case .serverAuthentication: NID_ext_key_usage
    case .subjectKeyIdentifier: NID_subject_key_identifier
    case .authorityKeyIdentifier: NID_authority_key_identifier
    case .subjectAlternativeName: NID_subject_alt_name
    case .nameConstraints: NID_name_constraints
    }
  }

  private var isCritical: Bool {
    switch self {
    case .basicConstraints, .authorityKeyUsage, .leafKeyUsage, .nameConstraints: true
    case .serverAuthentication, .subjectKeyIdentifier, .authorityKeyIdentifier: false
    case .subjectAlternativeName(_, let isCritical): isCritical
    }
  }

  private var der: [UInt8] {
    switch self {
    // cA TRUE and pathLenConstraint 0: it only signs leaves.
    case .basicConstraints(isAuthority: true): [0x30, 0x06, 0x01, 0x01, 0xff, 0x02, 0x01, 0x00]
    case .basicConstraints(isAuthority: false): [0x30, 0x00]
    // Bits 5 and 6 of a BIT STRING: keyCertSign, cRLSign.
    case .authorityKeyUsage: [0x03, 0x02, 0x01, 0x06]
    // Bit 0: digitalSignature.
    case .leafKeyUsage: [0x03, 0x02, 0x07, 0x80]
    // 1.3.6.1.5.5.7.3.1
    case .serverAuthentication: [0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01]
    case .subjectKeyIdentifier(let identifier): DER.element(DER.octetString, identifier)
    case .authorityKeyIdentifier(let identifier): DER.element(DER.sequence, DER.element(0x80, identifier))
    case .subjectAlternativeName(.name(let name), _): DER.element(DER.sequence, DER.element(0x82, Array(name.utf8)))
    case .subjectAlternativeName(.address(let bytes), _): DER.element(DER.sequence, DER.element(0x87, bytes))
    case .nameConstraints(let permitted): NameSubtree.constraints(permitted)
    }
  }

  /// An X509_EXTENSION that the caller must free; nil if memory is short.
  func encoded() -> OpaquePointer? {
    guard let value = ASN1_OCTET_STRING_new() else { return nil }
    defer { ASN1_OCTET_STRING_free(value) }
    let bytes = der
    guard ASN1_OCTET_STRING_set(value, bytes, Int32(bytes.count)) == 1 else { return nil }
    return X509_EXTENSION_create_by_NID(nil, identifier, isCritical ? 1 : 0, value)
  }
}

/// An X509 of OpenSSL that is not signed yet. Each step returns whether it succeeded; OpenSSL only fails for lack of
/// memory.
final class CertificateDraft {
  /// Octets of a serial number: the most that RFC 5280 (4.1.2.2) allows.
  static let serialNumberBytes = 20
  /// ub-common-name of RFC 5280, appendix A.
  static let longestCommonName = 64

  private let raw: OpaquePointer

  init?() {
    guard let raw = X509_new() else { return nil }
    self.raw = raw
    guard X509_set_version(raw, Int(X509_VERSION_3)) == 1, setSerialNumber() else { return nil }
  }

  deinit { X509_free(raw) }

  /// Random, positive, and always of full length: the top two bits are 01.
  private func setSerialNumber() -> Bool {
    var bytes = [UInt8](repeating: 0, count: Self.serialNumberBytes)
    guard RAND_bytes(&bytes, Int32(bytes.count)) == 1 else { return false }
    bytes[0] = bytes[0] & 0x3f | 0x40
    return ASN1_STRING_set(X509_get_serialNumber(raw), bytes, Int32(bytes.count)) == 1
  }

  /// Seconds since 1970, both inclusive.
  func setValidity(from notBefore: Int64, through notAfter: Int64) -> Bool {
    ASN1_TIME_set(X509_getm_notBefore(raw), Int(notBefore)) != nil
      && ASN1_TIME_set(X509_getm_notAfter(raw), Int(notAfter)) != nil
  }

  /// At most `longestCommonName` ASCII characters.
  func setSubject(commonName: String) -> Bool {
    X509_NAME_add_entry_by_NID(
      X509_get_subject_name(raw), NID_commonName, MBSTRING_ASC, commonName, Int32(commonName.utf8.count), -1, 0) == 1
  }

  /// The issuer is the subject of `authority` (an X509), or of this certificate itself.
  func setIssuer(_ authority: OpaquePointer? = nil) -> Bool {
    X509_set_issuer_name(raw, X509_get_subject_name(authority ?? raw)) == 1
  }

  func setPublicKey(of key: OpaquePointer) -> Bool { X509_set_pubkey(raw, key) == 1 }

  func add(_ value: ExtensionValue) -> Bool {
    guard let encoded = value.encoded() else { return false }
    defer { X509_EXTENSION_free(encoded) }
    return add(encoded: encoded)
  }

  /// Adds a copy of an X509_EXTENSION.
  func add(encoded: OpaquePointer) -> Bool { X509_add_ext(raw, encoded, -1) == 1 }

  /// Signs with SHA-256, which completes the draft. The caller must free the X509. Its extensions have been parsed, so
  /// threads may share it.
  func signed(with key: OpaquePointer) -> OpaquePointer? {
    guard X509_sign(raw, key, EVP_sha256()) > 0, X509_check_purpose(raw, -1, 0) == 1, X509_up_ref(raw) == 1 else {
      return nil
    }
    return raw
  }

  /// The leftmost 160 bits of the SHA-256 of the public key's bits (RFC 7093, 2, method 1). SKI and AKI identify the
  /// key by it.
  static func keyIdentifier(of key: OpaquePointer) -> [UInt8]? {
    var point: UnsafeMutablePointer<UInt8>? = nil
    let count = EVP_PKEY_get1_encoded_public_key(key, &point)
    guard count > 0, let point else { return nil }
    defer { CRYPTO_free(point, #file, #line) }
    return Array(sha256(Array(UnsafeBufferPointer(start: point, count: count))).prefix(20))
  }
}
