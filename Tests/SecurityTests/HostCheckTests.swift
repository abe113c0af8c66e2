// Whom a certificate is for: names, wildcards and addresses of subjectAltName, and nothing else.

import Security
import Testing
import TestSupport

@Suite struct HostCheckTests {
  /// A certificate with these names is, or is not, for the identity.
  struct Row: Sendable, CustomStringConvertible {
    let names: [String]
    let identity: ReferenceIdentity
    let holds: Bool
    let description: String

    init(_ names: [String], _ identity: ReferenceIdentity, _ holds: Bool, _ description: String) {
      self.names = names
      self.identity = identity
      self.holds = holds
      self.description = description
    }
  }

  private static let rows: [Row] = [
    Row(["DNS:a.example"], .name("a.example"), true, "the name"),
    Row(["DNS:b.example", "DNS:a.example"], .name("a.example"), true, "the second name"),
    Row(["DNS:A.Example"], .name("a.example"), true, "another case"),
    Row(["DNS:a.example"], .name("a.example."), true, "a trailing dot of the reference"),
    Row(["DNS:a.example."], .name("a.example"), false, "a trailing dot in the certificate"),
    Row(["DNS:a.example"], .name("b.example"), false, "another name"),
    Row(["DNS:a.example"], .name("x.a.example"), false, "a name below"),
    Row(["DNS:a.example"], .name("example"), false, "a name above"),
    Row(["DNS:a.example"], .name(".example"), false, "a leading dot would mean any below"),
    Row(["DNS:a.example"], .name(".a.example"), false, "a leading dot before the name"),
    Row(["DNS:.a.example"], .name("x.a.example"), false, "a leading dot in the certificate"),
    Row(["DNS:a.example"], .name(""), false, "no name"),
    Row(["DNS:a.example"], .name("."), false, "a dot"),
    Row(["DNS:a.example"], .name("a..example"), false, "an empty label"),
    Row(["DNS:a.example"], .name("a.example\0.b.example"), false, "a NUL"),
    Row(["DNS:*.a.example"], .name("x.a.example"), true, "a wildcard"),
    Row(["DNS:*.a.example"], .name("a.example"), false, "a wildcard is one label"),
    Row(["DNS:*.a.example"], .name("x.y.a.example"), false, "a wildcard is one label only"),
    Row(["DNS:*.a.example"], .name("*.a.example"), false, "a wildcard asked for"),
    Row(["DNS:x*.a.example"], .name("xy.a.example"), false, "a partial wildcard"),
    Row(["DNS:*x.a.example"], .name("yx.a.example"), false, "a partial wildcard at the end"),
    Row(["DNS:x.*.example"], .name("x.a.example"), false, "a wildcard that is not the first label"),
    Row(["DNS:*.example"], .name("a.example"), false, "a wildcard right below the top"),
    Row(["DNS:*"], .name("example"), false, "a bare wildcard"),
    Row(["DNS:xn--kse-qla.example"], .name("xn--kse-qla.example"), true, "an IDNA name"),
    Row(["DNS:*.example.com"], .name("xn--kse-qla.example.com"), true, "an IDNA label under a wildcard"),
    Row(["DNS:xn--*.example.com"], .name("xn--kse-qla.example.com"), false, "a wildcard within an IDNA label"),
    Row(["DNS:xn--kse-qla.example"], .name("käse.example"), false, "a U-label is no reference"),
    Row(["DNS:a_b.example"], .name("a_b.example"), true, "an underscore"),
    Row([], .name("leaf"), false, "the subject's common name does not count"),
    Row(["email:leaf@a.example"], .name("leaf"), false, "nor with other names beside it"),
    Row(["IP:192.0.2.1"], .address([192, 0, 2, 1]), true, "an address"),
    Row(["IP:192.0.2.1"], .address([192, 0, 2, 2]), false, "another address"),
    Row(["IP:2001:db8::1"], .address([0x20, 1, 0xd, 0xb8] + [UInt8](repeating: 0, count: 11) + [1]), true, "IPv6"),
    Row(["IP:192.0.2.1"], .name("192.0.2.1"), true, "an address as a name is checked as an address"),
    Row(["IP:192.0.2.1"], .name("192.0.2.1."), true, "with a trailing dot too"),
    Row(["IP:2001:db8::1"], .name("2001:db8::1"), true, "IPv6 as a name"),
    Row(["DNS:192.0.2.1"], .name("192.0.2.1"), false, "an address among the DNS names"),
    Row(["DNS:192.0.2.1"], .address([192, 0, 2, 1]), false, "an address among the DNS names, asked for as one"),
    Row(["DNS:*.0.2.1"], .name("192.0.2.1"), false, "a wildcard is for no address"),
    Row(["IP:192.0.2.1"], .address([]), false, "no address"),
    Row(["IP:192.0.2.1"], .address([192, 0, 2]), false, "half an address"),
  ]

  @Test(arguments: rows)
  func aCertificateIsForWhomItNames(row: Row) {
    let leaf = TestCertificate(.leaf(row.names, at: now), issuer: World.intermediate)
    let failure = policy().failure(shown([leaf, World.intermediate]), for: row.identity)
    #expect(failure?.kind == (row.holds ? nil : .nameMismatch))
    let unchecked = policy { $0.validatesDomainName = false }
    #expect(unchecked.failure(shown([leaf, World.intermediate]), for: row.identity) == nil)
  }

  private static let messages: [([String], String)] = [
    (
      ["DNS:a.example", "IP:192.0.2.1"],
      "expected a certificate for pay.example.com, found one for a.example, 192.0.2.1"
    ),
    (
      [],
      "expected a certificate for pay.example.com, found one that names no host (its subject, CN=leaf, does not count)"
    ),
    (
      (0..<12).map { "DNS:\($0).example" },
      "expected a certificate for pay.example.com, found one for 0.example, 1.example, 2.example, 3.example, 4.example, "
        + "5.example, 6.example, 7.example, 8.example, 9.example and 2 more"
    ),
  ]

  @Test(arguments: messages)
  func theMessageSaysWhomItIsFor(names: [String], detail: String) {
    let leaf = TestCertificate(.leaf(names, at: now), issuer: World.intermediate)
    let failure = policy().failure(shown([leaf, World.intermediate]))
    #expect(failure?.kind == .nameMismatch && failure?.detail == detail)
    #expect(failure?.difference?.expected == "pay.example.com")
    #expect(detail.contains(failure?.difference?.seen ?? "nothing"))
  }

  @Test func anAddressIsNamedInTheMessage() {
    let failure = policy().failure(shown([World.leaf, World.intermediate]), for: .address([192, 0, 2, 1]))
    #expect(failure?.detail == "expected a certificate for 192.0.2.1, found one for pay.example.com")
  }
}
