// A trust store that every Java version reads: JKS, where each trusted certificate is an entry of its own. The password
// is not a secret: it is the key of a checksum, and Java's own store uses the same one. Tests: test_ca.py, with
// keytool.

import Bytes
import COpenSSL

public enum JavaTrustStore {
  /// The value that javax.net.ssl.trustStorePassword must have.
  public static let password = "changeit"

  private static let magic: UInt32 = 0xfeed_feed
  private static let version: UInt32 = 2
  private static let trustedCertificate: UInt32 = 2
  /// Java hashes this after the password.
  private static let salt = "Mighty Aphrodite"

  /// A store with the certificates of a PEM text; nil if it has none. The same text always gives the same bytes:
  /// entries are numbered and dated to the beginning of 1970.
  public static func make(pem: [UInt8]) -> [UInt8]? {
    guard case .success(let certificates) = Certificate.readDER(pem), !certificates.isEmpty else { return nil }
    var store: [UInt8] = []
    append(magic, to: &store)
    append(version, to: &store)
    append(UInt32(certificates.count), to: &store)
    for (index, certificate) in certificates.enumerated() {
      append(trustedCertificate, to: &store)
      append(text: "anchor-\(index)", to: &store)
      store += [UInt8](repeating: 0, count: 8)
      append(text: "X.509", to: &store)
      append(UInt32(certificate.count), to: &store)
      store += certificate
    }
    let keyed = password.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] } + Array(salt.utf8) + store
    return store + sha1(keyed)
  }

  private static func append(_ value: UInt32, to bytes: inout [UInt8]) {
    for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: value >> UInt32(shift))) }
  }

  /// ASCII, preceded by its length.
  private static func append(text: String, to bytes: inout [UInt8]) {
    bytes += [UInt8(text.utf8.count >> 8), UInt8(text.utf8.count & 0xff)] + Array(text.utf8)
  }
}

extension TrustAnchors {
  /// The certificates as a PEM text, 64 digits per line (RFC 7468).
  public var pem: [UInt8] {
    certificatesDER.flatMap { der -> [UInt8] in
      let digits = Base64.encode(der)
      let lines = stride(from: 0, to: digits.count, by: 64).flatMap { digits[$0..<min($0 + 64, digits.count)] + [0x0a] }
      return Array("-----BEGIN CERTIFICATE-----\n".utf8) + lines + Array("-----END CERTIFICATE-----\n".utf8)
    }
  }
}
