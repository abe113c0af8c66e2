// Whether a certificate is for a host (RFC 9525). Only subjectAltName counts: DNS names for a name, addresses for an
// address. A wildcard matches one whole leftmost label. Tests: HostCheckTests.

import Bytes
import COpenSSL
import Glibc

enum HostCheck {
  /// The most names of a certificate that a message lists.
  private static let listedNameLimit = 10

  /// nil if `leaf` is for `identity`.
  static func failure(of leaf: OpaquePointer, for identity: ReferenceIdentity) -> TrustFailure? {
    if holds(leaf, identity) { return nil }
    let names = hostNames(leaf).map(quotable)
    let seen = names.isEmpty ? title(leaf) : listed(names, atMost: listedNameLimit)
    let found = names.isEmpty ? "one that names no host (its subject, \(seen), does not count)" : "one for \(seen)"
    return TrustFailure(
      .nameMismatch, "expected a certificate for \(text(identity)), found \(found)",
      difference: Difference(expected: text(identity), seen: seen))
  }

  private static func holds(_ leaf: OpaquePointer, _ identity: ReferenceIdentity) -> Bool {
    switch identity {
    case .address(let bytes):
      return (bytes.count == 4 || bytes.count == 16)
        && X509_check_ip(leaf, bytes, bytes.count, PathVerification.hostFlags) == 1
    case .name(let name):
      let name = withoutTrailingDot(name)
      // An address in the form of a name is still an address: "127.0.0.1" among the DNS names of a certificate proves
      // nothing.
      if let bytes = address(name) { return holds(leaf, .address(bytes)) }
      guard isHostName(name) else { return false }
      return X509_check_host(leaf, name, name.utf8.count, PathVerification.hostFlags, nil) == 1
    }
  }

  /// Labels of letters, digits, hyphens and underscores. For OpenSSL, a name with a leading dot matches any name below
  /// it, and an empty name matches everything.
  private static func isHostName(_ name: String) -> Bool {
    name.utf8.split(separator: 0x2e, omittingEmptySubsequences: false).allSatisfy { label in
      !label.isEmpty && label.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || $0 == 0x2d || $0 == 0x5f }
    }
  }

  private static func withoutTrailingDot(_ name: String) -> String {
    name.utf8.count > 1 && name.utf8.last == 0x2e ? String(name.dropLast()) : name
  }

  private static func address(_ name: String) -> [UInt8]? {
    for (family, count) in [(AF_INET, 4), (AF_INET6, 16)] {
      var bytes = [UInt8](repeating: 0, count: count)
      if inet_pton(family, name, &bytes) == 1 { return bytes }
    }
    return nil
  }

  private static func text(_ identity: ReferenceIdentity) -> String {
    switch identity {
    case .name(let name): quotable(printable(name.utf8))
    case .address(let bytes): addressText(bytes) ?? "an address of \(bytes.count) bytes"
    }
  }
}
