// The kind of key that a certificate has, for people.

import COpenSSL

extension Certificate {
  /// `EC P-256`, `RSA 2048`, `ED25519`; "unknown" if OpenSSL does not know it.
  public var keyDescription: String {
    guard let object = CertificateObject.decode(der), let key = X509_get0_pubkey(object.pointer),
      let kind = EVP_PKEY_get0_type_name(key)
    else { return "unknown" }
    switch String(cString: kind) {
    case "EC": return "EC \(Self.curve(key))"
    case "RSA", "RSA-PSS", "DSA", "DH": return "\(String(cString: kind)) \(EVP_PKEY_get_bits(key))"
    case let other: return printable(Array(other.utf8))
    }
  }

  /// The common name of the curve (FIPS 186), if it has one.
  private static func curve(_ key: OpaquePointer) -> String {
    var name = [CChar](repeating: 0, count: 80)
    var count = 0
    guard EVP_PKEY_get_group_name(key, &name, name.count, &count) == 1 else { return "with a curve of its own" }
    let text = String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return ["prime256v1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"][text] ?? text
  }
}
