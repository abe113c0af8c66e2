// The client certificate of the proxy itself, and its key. Tests: ClientIdentityTests.

import COpenSSL

/// The certificate to present to an origin, with its key.
public struct ClientIdentity: Hashable, Sendable {
  /// Leaf first.
  public let certificates: [Certificate]
  /// PKCS #8 DER. Never printed.
  public let key: [UInt8]

  /// Labels of the private keys that are accepted: PKCS #8, and the older formats for one algorithm each.
  private static let keyLabels: Set<String> = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"]
  /// `openssl ecparam -genkey` writes this before the key. The key itself names its curve.
  private static let parametersLabel = "EC PARAMETERS"
  private static let encryptedLabel = "ENCRYPTED PRIVATE KEY"

  /// PEM or DER for both. A key that does not belong to the certificate is an error, and so is an encrypted key.
  public static func read(certificates: [UInt8], key: [UInt8]) -> Result<ClientIdentity, CertificateFault> {
    withErrorsOfItsOwn {
      Certificate.read(certificates).flatMap { chain in
        privateKeyDER(key).flatMap { der in identity(chain, der) }
      }
    }
  }

  /// The DER of the one key in a PEM or DER text.
  private static func privateKeyDER(_ bytes: [UInt8]) -> Result<[UInt8], CertificateFault> {
    guard PEM.isText(bytes) else {
      guard bytes.first == DERContent.sequenceTag else {
        return .failure(CertificateFault("expected a private key in PEM or DER, found \(DERContent.describe(bytes))"))
      }
      return .success(bytes)
    }
    return PEM.blocks(bytes).flatMap { blocks in
      let blocks = blocks.filter { $0.label != parametersLabel }
      if blocks.contains(where: { $0.isEncrypted || $0.label == encryptedLabel }) { return .failure(encryptedKey) }
      if let other = blocks.first(where: { !keyLabels.contains($0.label) }) {
        return .failure(CertificateFault("expected a private key, found \(quotable(other.label))"))
      }
      guard let key = blocks.first, blocks.count == 1 else {
        return .failure(CertificateFault("expected one private key, found \(blocks.count)"))
      }
      return .success(key.der)
    }
  }

  private static let encryptedKey =
    CertificateFault("expected a private key that is not encrypted; 'openssl pkey' writes one")

  private static func identity(_ chain: [Certificate], _ der: [UInt8]) -> Result<ClientIdentity, CertificateFault> {
    if let encrypted = decoded(der, freedBy: X509_SIG_free, { d2i_X509_SIG(nil, $0, $1) }) {
      X509_SIG_free(encrypted)
      return .failure(encryptedKey)
    }
    guard let key = decoded(der, freedBy: EVP_PKEY_free, { d2i_AutoPrivateKey(nil, $0, $1) }) else {
      return .failure(CertificateFault("expected a private key, found \(DERContent.describe(der))"))
    }
    defer { EVP_PKEY_free(key) }
    let owner = chain.firstIndex { certificate in
      let object = CertificateObject.decode(certificate.der)
      return withExtendedLifetime(object) { object.map { X509_check_private_key($0.pointer, key) == 1 } ?? false }
    }
    switch owner {
    case 0: break
    case .some(let index):
      return .failure(CertificateFault("the key belongs to certificate \(index + 1); that one must be the first"))
    case nil:
      return .failure(CertificateFault("the private key is not that of the certificate \(quotable(chain[0].subject))"))
    }
    guard let pkcs8 = pkcs8DER(key) else {
      return .failure(CertificateFault("the private key cannot be written as PKCS #8"))
    }
    return .success(ClientIdentity(certificates: chain, key: pkcs8))
  }

  private static func pkcs8DER(_ key: OpaquePointer) -> [UInt8]? {
    guard let info = EVP_PKEY2PKCS8(key) else { return nil }
    defer { PKCS8_PRIV_KEY_INFO_free(info) }
    return encoded { i2d_PKCS8_PRIV_KEY_INFO(info, $0) }
  }
}

/// Keeps the key out of anything that prints or dumps an identity.
extension ClientIdentity: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { certificates.first?.subject ?? "" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["certificates": certificates]) }
}
