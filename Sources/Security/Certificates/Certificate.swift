// A certificate as a value: its DER and the properties that are often needed. For configuration, commands and messages;
// chains are evaluated with OpenSSL's objects. Tests: CertificateTests; fuzzed by Tests/Fuzz/PinFiles.

import COpenSSL

/// Why bytes are not a certificate, in words.
public struct CertificateFault: Error, Hashable, Sendable, CustomStringConvertible {
  public let description: String

  public init(_ description: String) { self.description = description }
}

/// Two are equal if their DER is.
public struct Certificate: Hashable, Sendable {
  public let der: [UInt8]
  /// RFC 4514, one line, printable ASCII.
  public let subject: String
  public let issuer: String
  /// Hexadecimal, two upper-case digits per byte.
  public let serialNumber: String
  /// Seconds since 1970.
  public let notBefore: Int64
  public let notAfter: Int64
  /// The DNS names and addresses of subjectAltName.
  public let names: [String]
  /// basicConstraints says CA.
  public let isAuthority: Bool
  /// Subject and issuer are the same, and the certificate's own key made the signature.
  public let isSelfSigned: Bool
  public let publicKeyPin: PublicKeyPin

  /// The PEM labels for certificates; the second is SSLeay's.
  static let labels: Set<String> = ["CERTIFICATE", "X509 CERTIFICATE"]

  /// The certificates of a PEM or DER text; its content decides which it is. A PEM text may have several, with text
  /// between them. Anything else in their place, such as a private key, is an error.
  public static func read(_ bytes: [UInt8]) -> Result<[Certificate], CertificateFault> {
    readDER(bytes).flatMap { all in
      var certificates: [Certificate] = []
      for der in all {
        guard let certificate = CertificateObject.decode(der)?.value else {
          return .failure(CertificateFault(unreadable(der, number: certificates.count + 1, of: all.count)))
        }
        certificates.append(certificate)
      }
      return .success(certificates)
    }
  }

  /// The DER of each certificate in PEM or DER, at least one. It is not decoded yet.
  static func readDER(_ bytes: [UInt8]) -> Result<[[UInt8]], CertificateFault> {
    guard PEM.isText(bytes) else {
      guard bytes.first == DERContent.sequenceTag else {
        return .failure(CertificateFault("expected a certificate in PEM or DER, found \(DERContent.describe(bytes))"))
      }
      return .success([bytes])
    }
    return PEM.blocks(bytes).flatMap { blocks in
      if let other = blocks.first(where: { !labels.contains($0.label) }) {
        return .failure(CertificateFault("expected a certificate, found \(quotable(other.label))"))
      }
      return .success(blocks.map(\.der))
    }
  }

  private static func unreadable(_ der: [UInt8], number: Int, of count: Int) -> String {
    let kind = DERContent.describe(der)
    let found = kind == DERContent.certificate ? "one whose validity or key cannot be read" : kind
    return count == 1
      ? "expected a certificate, found \(found)"
      : "expected a certificate as number \(number) of \(count), found \(found)"
  }

  public static func == (left: Certificate, right: Certificate) -> Bool { left.der == right.der }
  public func hash(into hasher: inout Hasher) { der.withUnsafeBytes { hasher.combine(bytes: $0) } }
}

extension Certificate {
  /// Reads the properties of an X509. nil if it cannot be encoded as DER, or its validity times cannot be read.
  public init?(x509: OpaquePointer) {
    ERR_set_mark()
    defer { ERR_pop_to_mark() }
    guard let der = encoded({ i2d_X509(x509, $0) }), let publicKeyPin = PublicKeyPin(of: x509),
      let notBefore = seconds(X509_get0_notBefore(x509)), let notAfter = seconds(X509_get0_notAfter(x509))
    else { return nil }
    self.der = der
    subject = distinguishedName(X509_get_subject_name(x509))
    issuer = distinguishedName(X509_get_issuer_name(x509))
    serialNumber = hexadecimal(octets(X509_get0_serialNumber(x509)))
    self.notBefore = notBefore
    self.notAfter = notAfter
    names = hostNames(x509)
    isAuthority = X509_get_extension_flags(x509) & UInt32(EXFLAG_CA) != 0
    isSelfSigned = X509_self_signed(x509, 1) == 1
    self.publicKeyPin = publicKeyPin
  }
}

/// Describes DER that is not a certificate, so that a message can say what was found.
enum DERContent {
  static let sequenceTag: UInt8 = 0x30
  static let certificate = "a certificate"

  /// With an article: `a private key`.
  static func describe(_ bytes: [UInt8]) -> String {
    guard let first = bytes.first else { return "nothing" }
    guard first == sequenceTag else { return isText(bytes) ? "text" : "other bytes" }
    return withErrorsOfItsOwn { kind(bytes) } ?? "DER that is malformed, or of something else"
  }

  private static func isText(_ bytes: [UInt8]) -> Bool {
    bytes.allSatisfy { $0 >= 0x20 || $0 == 0x09 || $0 == 0x0a || $0 == 0x0d }
  }

  private static func kind(_ der: [UInt8]) -> String? {
    if reads(der, X509_free, read: { d2i_X509(nil, $0, $1) }) { return certificate }
    if reads(der, X509_SIG_free, read: { d2i_X509_SIG(nil, $0, $1) }) { return "an encrypted private key" }
    if reads(der, EVP_PKEY_free, read: { d2i_AutoPrivateKey(nil, $0, $1) }) { return "a private key" }
    if reads(der, EVP_PKEY_free, read: { d2i_PUBKEY(nil, $0, $1) }) { return "a public key" }
    if reads(der, X509_CRL_free, read: { d2i_X509_CRL(nil, $0, $1) }) { return "a revocation list" }
    if reads(der, X509_REQ_free, read: { d2i_X509_REQ(nil, $0, $1) }) { return "a certificate request" }
    if reads(der, PKCS12_free, read: { d2i_PKCS12(nil, $0, $1) }) { return "a PKCS #12 archive" }
    if reads(der, PKCS7_free, read: { d2i_PKCS7(nil, $0, $1) }) { return "a PKCS #7 message" }
    return nil
  }

  private static func reads<Value>(
    _ der: [UInt8], _ free: (Value?) -> Void,
    read: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> Value?
  ) -> Bool {
    guard let value = decoded(der, freedBy: free, read) else { return false }
    free(value)
    return true
  }
}
