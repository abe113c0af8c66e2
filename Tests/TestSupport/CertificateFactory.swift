// Certificates for tests, made with OpenSSL directly: good ones, and with every mistake that a test asks for.

import COpenSSL

/// A key pair.
public final class TestKey: @unchecked Sendable {
  public enum Kind: Sendable {
    case p256
    case rsa(bits: Int32)
    /// By NID_….
    case curve(Int32)
    /// P-256, with its parameters written out.
    case describedCurve
    case ed25519
    case dsa
  }

  public let pointer: OpaquePointer

  public init(_ kind: Kind = .p256) {
    let context: OpaquePointer?
    switch kind {
    case .p256:
      context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil)
      EVP_PKEY_keygen_init(context)
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1)
    case .rsa(let bits):
      context = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nil)
      EVP_PKEY_keygen_init(context)
      EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits)
    case .curve(let curve):
      context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil)
      EVP_PKEY_keygen_init(context)
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, curve)
    case .describedCurve:
      context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil)
      EVP_PKEY_keygen_init(context)
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1)
      EVP_PKEY_CTX_set_ec_param_enc(context, OPENSSL_EC_EXPLICIT_CURVE)
    case .ed25519:
      context = EVP_PKEY_CTX_new_id(EVP_PKEY_ED25519, nil)
      EVP_PKEY_keygen_init(context)
    case .dsa:
      context = Self.withParameters(ofDSA: 2048)
      EVP_PKEY_keygen_init(context)
    }
    var key: OpaquePointer?
    guard EVP_PKEY_keygen(context, &key) == 1, let key else { fatalError("no key") }
    EVP_PKEY_CTX_free(context)
    pointer = key
  }

  deinit { EVP_PKEY_free(pointer) }

  private static func withParameters(ofDSA bits: Int32) -> OpaquePointer? {
    let maker = EVP_PKEY_CTX_new_id(EVP_PKEY_DSA, nil)
    defer { EVP_PKEY_CTX_free(maker) }
    EVP_PKEY_paramgen_init(maker)
    EVP_PKEY_CTX_set_dsa_paramgen_bits(maker, bits)
    var parameters: OpaquePointer?
    guard EVP_PKEY_paramgen(maker, &parameters) == 1 else { fatalError("no parameters") }
    defer { EVP_PKEY_free(parameters) }
    return EVP_PKEY_CTX_new(parameters, nil)
  }

  /// PKCS #8.
  public var der: [UInt8] {
    guard let info = EVP_PKEY2PKCS8(pointer) else { fatalError("no PKCS #8") }
    defer { PKCS8_PRIV_KEY_INFO_free(info) }
    return written { i2d_PKCS8_PRIV_KEY_INFO(info, $0) }
  }

  public var pem: String { pemText("PRIVATE KEY", der) }

  /// Of its own algorithm: `EC PRIVATE KEY` or `RSA PRIVATE KEY`.
  public var traditionalDER: [UInt8] { written { i2d_PrivateKey(pointer, $0) } }

  public var publicDER: [UInt8] { written { i2d_PUBKEY(pointer, $0) } }

  /// PKCS #8 under a password.
  public var encryptedPEM: String {
    memoryText { PEM_write_bio_PKCS8PrivateKey($0, pointer, EVP_aes_128_cbc(), "password", 8, nil, nil) }
  }

  /// OpenSSL's old form under a password.
  public var encryptedTraditionalPEM: String {
    memoryText {
      PEM_write_bio_PrivateKey_traditional($0, pointer, EVP_aes_128_cbc(), Array("password".utf8), 8, nil, nil)
    }
  }
}

/// What a certificate is to say. The defaults are those of a good leaf.
public struct CertificatePlan: Sendable {
  public enum Digest: Sendable { case sha1, sha256 }

  /// `CN=…`, nothing more; empty: no subject.
  public var commonName: String
  /// As OpenSSL's configuration writes them: `DNS:a.example`, `IP:127.0.0.1`.
  public var names: [String]
  /// Seconds since 1970.
  public var notBefore: Int64
  public var notAfter: Int64
  /// nil: no basicConstraints.
  public var isAuthority: Bool? = false
  public var pathLength: Int? = nil
  /// As OpenSSL's configuration writes it; nil: none.
  public var keyUsage: String? = "digitalSignature"
  public var extendedKeyUsage: String? = "serverAuth"
  public var nameConstraints: String? = nil
  public var digest = Digest.sha256
  public var serialNumber: Int64
  /// subjectKeyIdentifier and authorityKeyIdentifier.
  public var hasKeyIdentifiers = true

  /// Valid from 30 days before `seconds` to 60 days after it.
  public static func leaf(_ names: [String], at seconds: Int64, serialNumber: Int64 = 1000) -> CertificatePlan {
    CertificatePlan(
      commonName: "leaf", names: names, notBefore: seconds - 30 * 86_400, notAfter: seconds + 60 * 86_400,
      serialNumber: serialNumber)
  }

  /// Valid from a year before `seconds` to a year after it.
  public static func authority(_ name: String, at seconds: Int64, serialNumber: Int64 = 1) -> CertificatePlan {
    var plan = CertificatePlan(
      commonName: name, names: [], notBefore: seconds - 365 * 86_400, notAfter: seconds + 365 * 86_400,
      serialNumber: serialNumber)
    plan.isAuthority = true
    plan.keyUsage = "keyCertSign,cRLSign"
    plan.extendedKeyUsage = nil
    return plan
  }

  /// The plan with a change.
  public func with(_ change: (inout CertificatePlan) -> Void) -> CertificatePlan {
    var plan = self
    change(&plan)
    return plan
  }
}

/// A certificate with its key.
public final class TestCertificate: @unchecked Sendable {
  public let x509: OpaquePointer
  public let key: TestKey
  public let der: [UInt8]

  public var pem: String { pemText("CERTIFICATE", der) }

  /// Signed by `issuer`, or by its own key. `alter` has the last word before that.
  public init(
    _ plan: CertificatePlan, key: TestKey = TestKey(), issuer: TestCertificate? = nil,
    alter: (OpaquePointer) -> Void = { _ in }
  ) {
    // Swift frees an object behind its last use, and reading a pointer of it may be that.
    defer { withExtendedLifetime(issuer) {} }
    guard let x509 = X509_new() else { fatalError("no certificate") }
    X509_set_version(x509, Int(X509_VERSION_3))
    ASN1_INTEGER_set_int64(X509_get_serialNumber(x509), plan.serialNumber)
    ASN1_TIME_set(X509_getm_notBefore(x509), time_t(plan.notBefore))
    ASN1_TIME_set(X509_getm_notAfter(x509), time_t(plan.notAfter))
    if !plan.commonName.isEmpty {
      let name = Array(plan.commonName.utf8)
      X509_NAME_add_entry_by_NID(
        X509_get_subject_name(x509), NID_commonName, MBSTRING_UTF8, name, Int32(name.count), -1, 0)
    }
    X509_set_issuer_name(x509, X509_get_subject_name(issuer?.x509 ?? x509))
    X509_set_pubkey(x509, key.pointer)
    let signer = issuer?.x509 ?? x509
    for (kind, value) in Self.extensions(of: plan) { Self.add(kind, value, to: x509, signedBy: signer) }
    // A root leaves it out, and an issuer that has no identifier of its key leaves nothing to write.
    if plan.hasKeyIdentifiers, issuer != nil, X509_get_ext_by_NID(signer, NID_subject_key_identifier, -1) >= 0 {
      Self.add(NID_authority_key_identifier, "keyid", to: x509, signedBy: signer)
    }
    alter(x509)
    let signing = (issuer?.key ?? key).pointer
    let digest =
      EVP_PKEY_get_base_id(signing) == EVP_PKEY_ED25519 ? nil : plan.digest == .sha1 ? EVP_sha1() : EVP_sha256()
    guard X509_sign(x509, signing, digest) > 0 else {
      fatalError("no signature")
    }
    self.x509 = x509
    self.key = key
    der = written { i2d_X509(x509, $0) }
  }

  /// One that was made already, and then changed.
  public init(der: [UInt8], key: TestKey) {
    let made = der.withUnsafeBufferPointer { buffer in
      var at = buffer.baseAddress
      return d2i_X509(nil, &at, buffer.count)
    }
    guard let made else { fatalError("no certificate") }
    x509 = made
    self.key = key
    self.der = der
  }

  deinit { X509_free(x509) }

  private static func extensions(of plan: CertificatePlan) -> [(Int32, String)] {
    var all: [(Int32, String)] = []
    if let isAuthority = plan.isAuthority {
      let length = plan.pathLength.map { ",pathlen:\($0)" } ?? ""
      all.append((NID_basic_constraints, "critical,CA:\(isAuthority ? "TRUE" : "FALSE")\(length)"))
    }
    if let usage = plan.keyUsage { all.append((NID_key_usage, "critical,\(usage)")) }
    if let usage = plan.extendedKeyUsage { all.append((NID_ext_key_usage, usage)) }
    if let constraints = plan.nameConstraints { all.append((NID_name_constraints, "critical,\(constraints)")) }
    if !plan.names.isEmpty { all.append((NID_subject_alt_name, plan.names.joined(separator: ","))) }
    if plan.hasKeyIdentifiers { all.append((NID_subject_key_identifier, "hash")) }
    return all
  }

  private static func add(_ kind: Int32, _ value: String, to x509: OpaquePointer, signedBy signer: OpaquePointer) {
    var context = X509V3_CTX()
    X509V3_set_ctx(&context, signer, x509, nil, nil, 0)
    guard let made = X509V3_EXT_conf_nid(nil, &context, kind, value) else { fatalError("no extension: \(value)") }
    X509_add_ext(x509, made, -1)
    X509_EXTENSION_free(made)
  }
}

public func pemText(_ label: String, _ der: [UInt8]) -> String {
  var base64 = [UInt8](repeating: 0, count: (der.count + 2) / 3 * 4 + 1)
  let count = Int(EVP_EncodeBlock(&base64, der, Int32(der.count)))
  let text = Array(base64.prefix(count))
  let lines = stride(from: 0, to: text.count, by: 64).map {
    String(decoding: text[$0..<min($0 + 64, text.count)], as: UTF8.self)
  }
  return "-----BEGIN \(label)-----\n\(lines.joined(separator: "\n"))\n-----END \(label)-----\n"
}

/// The DER that one of OpenSSL's `i2d_…` functions writes.
func written(_ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8] {
  let count = Int(write(nil))
  guard count > 0 else { fatalError("nothing to write") }
  return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
    var pointer = buffer.baseAddress
    initialized = Int(write(&pointer))
  }
}

/// What `write` puts into a memory BIO.
private func memoryText(_ write: (OpaquePointer) -> Int32) -> String {
  guard let memory = BIO_new(BIO_s_mem()) else { fatalError("no memory") }
  defer { BIO_free(memory) }
  guard write(memory) == 1 else { fatalError("nothing written") }
  var contents: UnsafeMutablePointer<CChar>?
  let count = cossl_memory_contents(memory, &contents)
  guard let contents else { fatalError("nothing written") }
  return contents.withMemoryRebound(to: UInt8.self, capacity: count) {
    String(decoding: UnsafeBufferPointer(start: $0, count: count), as: UTF8.self)
  }
}
