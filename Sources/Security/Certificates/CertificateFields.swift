// The fields of a certificate, as values and as text. Each function only reads the X509.

import COpenSSL
import Glibc

extension PublicKeyPin {
  /// The pin of a certificate's SubjectPublicKeyInfo; nil if it cannot be encoded as DER.
  init?(of x509: OpaquePointer) {
    guard let key = X509_get_X509_PUBKEY(x509), let der = encoded({ i2d_X509_PUBKEY(key, $0) }) else { return nil }
    self.init(bytes: sha256(der))
  }
}

/// Seconds since 1970; nil if the time is malformed.
func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
  var parts = tm()
  guard let time, ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
  return Int64(timegm(&parts))
}

/// The content of a string or an integer.
func octets(_ string: UnsafePointer<ASN1_STRING>?) -> [UInt8] {
  guard let string, let data = ASN1_STRING_get0_data(string) else { return [] }
  return Array(UnsafeBufferPointer(start: data, count: Int(ASN1_STRING_length(string))))
}

/// RFC 4514, one line, printable ASCII.
func distinguishedName(_ name: OpaquePointer?) -> String {
  guard let name, let memory = BIO_new(BIO_s_mem()) else { return "" }
  defer { BIO_free(memory) }
  guard cossl_name_print(memory, name) >= 0 else { return "" }
  var contents: UnsafeMutablePointer<CChar>?
  let count = cossl_memory_contents(memory, &contents)
  guard count > 0, let contents else { return "" }
  return contents.withMemoryRebound(to: UInt8.self, capacity: count) {
    String(decoding: UnsafeBufferPointer(start: $0, count: count), as: UTF8.self)
  }
}

/// The name of a certificate in a message: its subject, or its first name if the subject is empty.
func title(_ x509: OpaquePointer) -> String {
  let subject = distinguishedName(X509_get_subject_name(x509))
  if !subject.isEmpty { return quotable(subject) }
  return hostNames(x509).first.map(quotable) ?? "a certificate without a subject"
}

/// DNS names and addresses of subjectAltName, in order.
func hostNames(_ x509: OpaquePointer) -> [String] {
  guard let all = cossl_alternative_names(x509) else { return [] }
  defer { GENERAL_NAMES_free(all) }
  return (0..<cossl_names_count(all)).compactMap { index in
    var kind: Int32 = 0
    guard let value = GENERAL_NAME_get0_value(cossl_names_at(all, index), &kind) else { return nil }
    let content = octets(UnsafePointer(value.assumingMemoryBound(to: ASN1_STRING.self)))
    switch kind {
    case GEN_DNS: return printable(content)
    case GEN_IPADD: return addressText(content)
    default: return nil
    }
  }
}

/// The text of an IPv4 or IPv6 address of 4 or 16 bytes; nil for any other length.
func addressText(_ bytes: [UInt8]) -> String? {
  let family: Int32
  switch bytes.count {
  case 4: family = AF_INET
  case 16: family = AF_INET6
  default: return nil
  }
  var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
  guard inet_ntop(family, bytes, &text, socklen_t(text.count)) != nil else { return nil }
  return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
