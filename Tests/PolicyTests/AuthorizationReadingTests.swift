// `authorization`: its schemes, what is inherited, and what is said of what cannot be.

import Testing

@testable import Policy

@Suite struct AuthorizationReadingTests {
  private let rule = "[[rule]]\nname = \"a\"\nhosts = [\"localhost\"]\n[rule.request]\n"
  private let digest = "authorization = { scheme = \"digest\", username = \"u\", password = \"HUNTER2\" }\n"
  private let basic = "authorization = { scheme = \"basic\", username = \"u\", password = \"HUNTER2\" }\n"

  @Test func digestIsKeptAndTheClientsOwnTakenOut() throws {
    let request = try loaded(rule + digest).rules[0].request
    #expect(request.digest?.username == Array("u".utf8) && request.digest?.password == Array("HUNTER2".utf8))
    #expect(request.fields.set.isEmpty && request.fields.removed == [Array("authorization".utf8)])
  }

  @Test func basicIsTheScheme() throws {
    let request = try loaded(rule + basic).rules[0].request
    #expect(request.digest == nil && request.fields.set.count == 1)
  }

  /// Rows: the rule's, the defaults', and what a request gets.
  @Test func aRuleSaysItInsteadOfTheDefaults() throws {
    let rows: [(own: String, inherited: String, isDigest: Bool, isSet: Bool)] = [
      ("", digest, true, false), (digest, basic, true, false), (basic, digest, false, true),
      ("headers.set = { Authorization = \"Bearer x\" }\n", digest, false, true),
      ("headers.remove = [\"Authorization\"]\n", digest, false, false),
    ]
    for row in rows {
      let request = try loaded(rule + row.own + "[defaults.request]\n" + row.inherited).rules[0].request
      #expect((request.digest != nil) == row.isDigest && !request.fields.set.isEmpty == row.isSet, "\(row)")
    }
  }

  @Test(arguments: [
    ("scheme = \"digset\", username = \"u\", password = \"p\"", "'scheme'", "expected \"basic\" or \"digest\""),
    ("scheme = \"HUNTER2\", username = \"u\", password = \"p\"", "'scheme'", "expected \"basic\" or \"digest\""),
    ("scheme = \"digest\", username = \"u:v\", password = \"p\"", "'username'", "must not hold ':' (RFC 7616, 3.4.2)"),
    (
      "scheme = \"digest\", username = \"u\", password = \"p\\u0001\"", "'password'", "must not hold control characters"
    ),
    ("password = \"p:\\u0001\", username = \"u\", scheme = \"digest\"", "'password'", "(RFC 7616, 4)"),
    ("scheme = \"digest\", username = \"u\"", "'authorization'", "'password' must be there"),
    (
      "scheme = \"digest\", username = \"\(String(repeating: "u", count: 1025))\", password = \"p\"", "'username'",
      "expected at most 1024 bytes, found 1025"
    ),
  ])
  func whatIsNoAuthorization(table: String, key: String, expected: String) {
    let source = rule + "authorization = { \(table) }"
    let said = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": source])).diagnostics
      .map(\.description)
    #expect(said.contains { $0.contains(key) && $0.contains(expected) }, "\(said)")
    #expect(!said.contains { $0.contains("HUNTER2") })
  }

  @Test func digestCountsAsASecret() throws {
    #expect(try loaded(rule + digest).rules[0].request.carriesSecret)
  }
}
