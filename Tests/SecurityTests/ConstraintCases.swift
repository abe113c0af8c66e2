// The chains of the decision table of requirements: name constraints. What OpenSSL compares rightly is here as well, for
// nothing that is added may get in its way.

import COpenSSL
import Security
import TestSupport

extension RequirementCase {
  private typealias M = Made
  private typealias D = TestDER
  private static let roots = [World.root]
  private static let form = "form of name constraints"
  private static let under = "names under constraints"

  private enum Outcome { case good, openSSL, form, under }

  private static func row(
    _ name: String, _ outcome: Outcome, permitted: [[UInt8]]? = nil, excluded: [[UInt8]]? = nil, names: [[UInt8]],
    for identity: ReferenceIdentity = .name(host)
  ) -> RequirementCase {
    let presented = M.constrained(D.constraints(permitted: permitted, excluded: excluded), names: names)
    switch outcome {
    case .good: return .good(name, presented, roots, for: identity)
    case .openSSL: return .bad(name, nil, presented, roots, for: identity)
    case .form: return .bad(name, form, presented, roots, for: identity)
    case .under: return .bad(name, under, presented, roots, for: identity)
    }
  }

  private static let pay = D.domain(host)
  private static let example = D.domain("example.com")
  private static let block = D.address([192, 0, 2, 0, 255, 255, 255, 0])
  private static let inBlock = D.address([192, 0, 2, 1])
  private static let unknown = "1.3.6.1.4.1.99999.3"

  static let constraints: [RequirementCase] = domains + wildcards + addresses + malformed + otherForms + paths

  private static let domains: [RequirementCase] = [
    row("permitted", .good, permitted: [example], names: [pay]),
    row("permitted, the name itself", .good, permitted: [pay], names: [pay]),
    row("permitted, every name", .good, permitted: [D.domain("")], names: [pay]),
    row("not permitted", .openSSL, permitted: [D.domain("example.net")], names: [pay]),
    row("not permitted, though it ends so", .openSSL, permitted: [D.domain("ample.com")], names: [pay]),
    row("excluded", .openSSL, excluded: [example], names: [pay]),
    row("permitted and excluded", .openSSL, permitted: [example], excluded: [example], names: [pay]),
    row(
      "the second is excluded", .openSSL, excluded: [D.domain("not.example.com")],
      names: [pay, D.domain("not.example.com")]),
    row("another kind is permitted", .good, permitted: [block], names: [pay]),
    row("another kind is excluded", .good, excluded: [block], names: [pay]),
    .good(
      "constraints that are not critical",
      M.constrained(D.constraints(permitted: [example]), critical: false, names: [pay]), roots),
    .bad(
      "constraints that are not critical, and not met", nil,
      M.constrained(D.constraints(excluded: [example]), critical: false, names: [pay]), roots),
  ]

  private static let wildcards: [RequirementCase] = [
    row(
      "a wildcard over an excluded name", .under, excluded: [D.domain("bar.example.com")],
      names: [D.domain("*.example.com")]),
    row(
      "a wildcard over an excluded name, in capitals", .under, excluded: [D.domain("BAR.Example.com")],
      names: [D.domain("*.example.COM")]),
    row(
      "a wildcard over an excluded name, permitted", .under, permitted: [example],
      excluded: [D.domain("bar.example.com")], names: [D.domain("*.example.com")]),
    row("a wildcard within what is permitted", .good, permitted: [example], names: [D.domain("*.example.com")]),
    row("a wildcard beyond what is permitted", .openSSL, permitted: [pay], names: [D.domain("*.example.com")]),
    row("a wildcard within what is excluded", .openSSL, excluded: [example], names: [D.domain("*.example.com")]),
    row(
      "a wildcard beside an excluded name", .good, excluded: [D.domain("bar.example.net")],
      names: [D.domain("*.example.com")]),
    row(
      "a wildcard above an excluded name of two labels more", .good, excluded: [D.domain("a.bar.example.com")],
      names: [D.domain("*.example.com")]),
  ]

  private static let addresses: [RequirementCase] = [
    row("a permitted address", .good, permitted: [block], names: [inBlock], for: .address([192, 0, 2, 1])),
    row(
      "an address that is not permitted", .openSSL, permitted: [block], names: [D.address([192, 0, 3, 1])],
      for: .address([192, 0, 3, 1])),
    row("an excluded address", .openSSL, excluded: [block], names: [inBlock], for: .address([192, 0, 2, 1])),
    row(
      "a block among the names", .openSSL, permitted: [block],
      names: [pay, D.address([192, 0, 2, 0, 255, 255, 255, 0])]),
    row("an address as the constraint", .form, permitted: [inBlock], names: [pay]),
    row(
      "an IPv6 address as the constraint", .form, permitted: [D.address([UInt8](repeating: 0, count: 15) + [1])],
      names: [pay]),
    row(
      "a mask with holes", .form, permitted: [D.address([192, 0, 2, 0, 255, 0, 255, 0])], names: [pay]),
    row(
      "a prefix of 12 bits", .good, permitted: [D.address([172, 16, 0, 0, 255, 240, 0, 0])], names: [pay]),
  ]

  private static let malformed: [RequirementCase] = [
    row("a leading period", .form, permitted: [D.domain(".example.com")], names: [pay]),
    row("an excluded leading period", .form, excluded: [D.domain(".example.net")], names: [pay]),
    row("a wildcard as the constraint", .form, excluded: [D.domain("*.example.net")], names: [pay]),
    row("a trailing period", .form, excluded: [D.domain("example.net.")], names: [pay]),
    row("two @ in a constraint", .form, permitted: [D.mail("a@b@example.com")], names: [pay]),
    row("a scheme in a constraint", .form, permitted: [D.resource("https://example.com")], names: [pay]),
    row(
      "hosts below a domain, for mail and URIs", .good,
      permitted: [D.mail(".example.com"), D.resource(".example.com")], names: [pay]),
    row("neither list", .form, names: [pay]),
    row("two empty lists", .form, permitted: [], excluded: [], names: [pay]),
    .bad(
      "a minimum", form,
      M.constrained(
        D.sequence([D.element(0xa0, D.sequence([D.domain("example.net"), [0x80, 0x01, 0x01]]))]),
        names: [inBlock]), roots, for: .address([192, 0, 2, 1])),
    .bad(
      "malformed constraints in a root", form,
      {
        let root = M.authority(
          "Another Root", { _ in },
          {
            TestExtension.nameConstraints.add(
              D.constraints(permitted: [D.domain(".example.com")]), critical: true, to: $0)
          })
        return [M.named([pay], issuer: root), root]
      }(), []),
    row("a name with a leading period", .under, permitted: [example], names: [D.domain(".example.com"), pay]),
    row("a name with a star inside", .under, permitted: [example], names: [D.domain("a*.example.com"), pay]),
    row("a mailbox with two @", .under, permitted: [D.mail("example.com")], names: [pay, D.mail("a@b@example.com")]),
    row(
      "a URI without a host", .openSSL, permitted: [D.resource("example.com")],
      names: [pay, D.resource("urn:example.com")]),
    row(
      "a URI with an address", .under, excluded: [D.resource("example.com")],
      names: [pay, D.resource("https://192.0.2.1/")]),
  ]

  private static let otherForms: [RequirementCase] = [
    row("a permitted mailbox", .good, permitted: [D.mail("foo@example.com")], names: [pay, D.mail("foo@example.com")]),
    row("a permitted mail domain", .good, permitted: [D.mail("example.com")], names: [pay, D.mail("foo@example.com")]),
    row(
      "a mailbox that is not permitted", .openSSL, permitted: [D.mail("example.com")],
      names: [pay, D.mail("foo@example.net")]),
    row(
      "an otherName of a constrained kind", .openSSL, permitted: [example], excluded: [D.other(unknown)],
      names: [pay, D.other(unknown)]),
    row(
      "no otherName, though its kind is constrained", .good, permitted: [example], excluded: [D.other(unknown)],
      names: [pay]),
    row(
      "an otherName of another kind", .good, permitted: [example], excluded: [D.other("1.3.6.1.4.1.99999.4")],
      names: [pay, D.other(unknown)]),
    row(
      "a registeredID", .openSSL, excluded: [D.registered(unknown)], names: [pay, D.registered("1.3.6.1.4.1.99999.4")]),
    row("a directory name that is permitted", .good, permitted: [D.directory(commonName: "leaf")], names: [pay]),
    row("a subject that is not permitted", .openSSL, permitted: [D.directory(commonName: "foo")], names: [pay]),
    row(
      "a subject that is not permitted, a name that is", .openSSL, permitted: [D.directory(commonName: "foo")],
      names: [pay, D.directory(commonName: "foo")]),
    row("a subject that is excluded", .openSSL, excluded: [D.directory(commonName: "leaf")], names: [pay]),
    row(
      "a directory name that is excluded", .openSSL, excluded: [D.directory(commonName: "foo")],
      names: [pay, D.directory(commonName: "foo")]),
  ]

  // MARK: Longer paths

  private static func middle(
    _ name: String, _ issuer: TestCertificate?, key: TestKey = TestKey(), permitted: [[UInt8]]? = nil,
    excluded: [[UInt8]]? = nil, names: [String] = []
  ) -> TestCertificate {
    M.authority(name, issuer: issuer, key: key, { $0.names = names }) { x509 in
      guard permitted != nil || excluded != nil else { return }
      TestExtension.nameConstraints.add(
        D.constraints(permitted: permitted, excluded: excluded), critical: true, to: x509)
    }
  }

  private static func below(_ issuer: TestCertificate) -> TestCertificate {
    TestCertificate(M.goodLeaf, issuer: issuer)
  }

  private static let paths: [RequirementCase] = [
    {
      let root = middle("Same", nil, permitted: [example], names: ["DNS:not-example.net"])
      let again = middle("Same", root, names: ["DNS:not-example.net"])
      return .good("a self-issued authority is not constrained", [below(again), again], [root])
    }(),
    {
      let root = middle("Root", nil, permitted: [D.domain("example.net")])
      let authority = middle(host, root)
      let leaf = TestCertificate(M.goodLeaf.with { $0.commonName = host }, issuer: authority)
      return .bad("a self-issued leaf is constrained", nil, [leaf, authority], [root])
    }(),
    {
      let upper = middle("Upper", World.root, permitted: [pay], excluded: [D.domain("bad.example.com")])
      let lower = middle("Lower", upper, names: ["DNS:bad.example.com"])
      return .bad("an intermediate with an excluded name", nil, [below(lower), lower, upper], roots)
    }(),
    {
      let upper = middle("Upper", World.root, excluded: [D.domain("bar.example.com")])
      let lower = middle("Lower", upper, names: ["DNS:*.example.com"])
      return .bad("an intermediate with a wildcard over an excluded name", under, [below(lower), lower, upper], roots)
    }(),
    {
      let upper = middle("Upper", World.root, permitted: [pay, D.domain("bar.example.com")])
      let lower = middle("Lower", upper, permitted: [D.domain("bar.example.com")])
      return .bad("constraints that narrow", nil, [below(lower), lower, upper], roots)
    }(),
    {
      let upper = middle("Upper", World.root, permitted: [D.domain("bar.example.com")])
      let lower = middle("Lower", upper, permitted: [pay, D.domain("bar.example.com")])
      return .bad("constraints that widen", nil, [below(lower), lower, upper], roots)
    }(),
    {
      // The same authority twice, once below constraints that its name is not within.
      let key = TestKey()
      let constrained = middle("Upper", World.root, excluded: [D.domain("bar.example.com")])
      let wrong = middle("Lower", constrained, key: key, names: ["DNS:*.example.com"])
      let right = middle("Lower", World.privateRoot, key: key)
      return .good(
        "another path, when one is refused", [below(wrong), wrong, constrained, right],
        [World.root, World.privateRoot])
    }(),
  ]
}
