// The common name of a server's certificate. Nothing is decided by it. But if it names a host that the certificate is
// not for, people and old programs read something that the authority has not confirmed (BR 7.1.4.3).

import Bytes
import COpenSSL
import Glibc

enum CommonName {
  /// Only checks names that look like hosts. A parent domain of a name in subjectAltName is accepted, as in a
  /// certificate for `*.example.com` with the common name `example.com`. So is a domain in a certificate for addresses
  /// only.
  static func fault(_ facts: CertificateFacts) -> String? {
    let subject = X509_get_subject_name(facts.certificate)
    var index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1)
    while index >= 0 {
      if let data = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)), let text = text(data),
        !isFit(text, facts.names ?? [])
      {
        return quotable(printable(text))
      }
      index = X509_NAME_get_index_by_NID(subject, NID_commonName, index)
    }
    return nil
  }

  private static func isFit(_ name: [UInt8], _ names: [GeneralName]) -> Bool {
    let domains = names.filter { $0.kind == .domain }.map { Array($0.content) }
    let addresses = names.filter { $0.kind == .address }.compactMap { addressText(Array($0.content)) }
    if domains.contains(name) || addresses.contains(where: { $0.utf8.elementsEqual(name) }) { return true }
    if isAddress(name) { return false }
    // "Example Inc." is not a host.
    guard name.contains(0x2e), !name.contains(0x20) else { return true }
    if name.contains(where: { $0 >= 0x80 }) { return false }
    guard HostSyntax.isName(name, allowsWildcard: true), !domains.isEmpty else { return true }
    let below = [0x2e] + name.map(\.asciiLowercased)
    return domains.contains { $0.map(\.asciiLowercased).suffix(below.count) == below[...] }
  }

  /// In any of the notations that programs accept.
  private static func isAddress(_ name: [UInt8]) -> Bool {
    guard !name.contains(0) else { return false }
    let text = String(decoding: name, as: UTF8.self)
    var four = in_addr()
    var six = in6_addr()
    return (!name.contains(0x20) && inet_aton(text, &four) == 1) || inet_pton(AF_INET6, text, &six) == 1
  }

  private static func text(_ data: UnsafeMutablePointer<ASN1_STRING>) -> [UInt8]? {
    var bytes: UnsafeMutablePointer<UInt8>? = nil
    let count = ASN1_STRING_to_UTF8(&bytes, data)
    guard count >= 0, let bytes else { return nil }
    defer { CRYPTO_free(bytes, #file, #line) }
    return Array(UnsafeBufferPointer(start: bytes, count: Int(count)))
  }
}
