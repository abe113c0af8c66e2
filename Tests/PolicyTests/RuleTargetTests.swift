// `target` of a rule: which URLs it may be, how paths are joined to it, what policy says of the URL that comes of it, and what
// check and explain say.

import Testing

@testable import Policy

@Suite struct RuleTargetTests {
  private static func rule(_ target: String, _ more: String = "") -> String {
    "[[rule]]\nname = \"api\"\nhosts = [\"api\"]\nschemes = [\"http\"]\ntarget = \"\(target)\"\n\(more)\n"
  }

  private func target(_ text: String) throws -> RuleTarget {
    try #require(try loaded(Self.rule(text)).rules[0].target)
  }

  // MARK: Reading

  @Test(arguments: [
    ("https://api.example.com/v2/", "https://api.example.com/v2/"),
    ("https://api.example.com/v2", "https://api.example.com/v2/"),
    ("https://api.example.com", "https://api.example.com/"),
    ("HTTPS://API.example.com:443/V2", "https://api.example.com/V2/"),
    ("http://api.example.com:8080/a/b/", "http://api.example.com:8080/a/b/"),
    ("http://[2001:DB8::1]:80/x", "http://[2001:db8::1]/x/"),
    ("https://192.0.2.1:8443", "https://192.0.2.1:8443/"),
    ("https://b\u{fc}cher.example/", "https://xn--bcher-kva.example/"),
    ("https://api.example.com./v2", "https://api.example.com/v2/"),
  ]) func aBaseURLEndsWithASlash(text: String, expected: String) throws {
    #expect(try target(text).description == expected)
  }

  private static let url = "expected a base URL such as \"https://api.example.com/v2/\""

  @Test(arguments: [
    ("", url), ("api.example.com", url), ("ftp://a.example/", url), ("https:/a.example/", url),
    ("https://", "names no host"),
    ("https:///v2/", "names no host"),
    ("https://u:secret@a.example/", "a user name and a password do not stand in the URL"),
    ("https://a.example/v2?x=1", "found a query or a fragment"),
    ("https://a.example/#f", "found a query or a fragment"),
    ("https://a.example:0/", "expected a port from"), ("https://a.example:0443/", "expected a port from"),
    ("https://a.example:/", "expected a port from"), ("https://a.example:x/", "expected a port from"),
    ("https://0x7f.1/", "this is a number"), ("https://a..example/", "labels of 1 to 63"),
    ("https://[::1/", "expected an IPv6 address between brackets"), ("https://[::1]x/", url),
    ("https://a.example/v2/../v3/", "expected a path without"),
    ("https://a.example/%76/", "expected a path without"), ("https://a.example/a;b/", "expected a path without"),
    ("https://a.example//v2/", "expected a path without"), ("https://a.example/v2./", "expected a path without"),
    ("https://a.example/v 2/", "expected a path without"), ("https://a.example/a\\\\b/", "expected a path without"),
    ("https://a.example/\u{e9}/", "expected a path without"),
  ]) func whatIsNoBaseURLIsSaid(text: String, expected: String) {
    var files = DictionaryFiles()
    files.files["s.toml"] = Array(Self.rule(text).utf8)
    let seen = PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description)
    #expect(seen.contains { $0.contains("5:10: error: 'target' in [rule]: ") && $0.contains(expected) }, "\(seen)")
    #expect(!seen.contains { $0.contains("found") && $0.contains("secret@") }, "\(seen)")
  }

  @Test(arguments: [
    (rule("https://a.example/", "upgrade = true"), "6:11: warning: 'upgrade' in [rule]: it does nothing"),
    (
      rule("https://a.example/", "action = \"deny\""),
      "5:10: warning: 'target' in [rule]: it has no effect in a rule that denies"
    ),
    ("[[rule]]\nname = \"a\"\ntarget = \"https://a.example/\"", "3:1: warning: 'target' has no effect on https"),
    (
      "[[rule]]\nname = \"a\"\nconnect = \"verify\"\ntarget = \"https://a.example/\"",
      "4:1: warning: 'target' has no effect on https"
    ),
    (
      "[[rule]]\nname = \"a\"\nconnect = \"intercept\"\ntarget = \"http://a.example/\"",
      "requests for https leave in the clear"
    ),
    (
      rule("http://a.example/", "request.authorization = { username = \"u\", password = { env = \"HIDDEN\" } }"),
      "the secret leaves in the clear"
    ),
  ]) func whatDoesNothingIsSaid(source: String, expected: String) {
    var files = DictionaryFiles()
    files.variables["HIDDEN"] = "x"
    files.files["s.toml"] = Array(source.utf8)
    let seen = PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description)
    #expect(seen.contains { $0.contains(expected) }, "\(seen)")
  }

  @Test(arguments: [
    rule("https://a.example/"), rule("https://a.example/v2", "enforce = false"),
    rule("https://a.example/", "request.authorization = { username = \"u\", password = { env = \"HIDDEN\" } }"),
    rule("http://localhost:8080/", "request.authorization = { username = \"u\", password = { env = \"HIDDEN\" } }"),
    "[[rule]]\nname = \"a\"\nconnect = \"intercept\"\ntarget = \"https://a.example/\"",
  ]) func whatIsRightIsNot(source: String) {
    var files = DictionaryFiles()
    files.variables["HIDDEN"] = "x"
    files.files["s.toml"] = Array(source.utf8)
    #expect(PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description) == [])
  }

  // MARK: Joining

  @Test(arguments: [
    ("https://a.example/v2/", "/users", "/v2/users"), ("https://a.example/v2", "/users", "/v2/users"),
    ("https://a.example/v2", "/users/", "/v2/users/"), ("https://a.example/v2", "/", "/v2/"),
    ("https://a.example/v2", "", "/v2/"),
    ("https://a.example", "/users", "/users"), ("https://a.example", "", "/"),
    ("https://a.example/v2/", "/v2/x", "/v2/v2/x"),
    ("https://a.example/v2/", "//b.example/x", "/v2//b.example/x"),
    ("https://a.example/v2/", "/http://b/", "/v2/http://b/"),
  ]) func aPathIsAppended(text: String, path: String, expected: String) throws {
    #expect(try String(decoding: target(text).joined(Array(path.utf8).span), as: UTF8.self) == expected)
  }

  @Test(arguments: [
    "/..", "/../", "/../x", "/../../x", "/a/../../x", "/%2e%2e/x", "/%2E%2e%2fx", "/..%2fx", "/..%5cx", "/..;/x",
    "/..;a=b/x",
    "/%2e%2e;/x", "/%252e%252e/x", "/a/..%2f..%2fx", "/.%2e/x", "/..%3f/x", "/%u002e%u002e/x", "//../../x", "/./../x",
    "/%2f../../x", "/...",
  ]) func noPathLeadsOutOfTheBasePath(path: String) throws {
    let target = try target("https://a.example/v2/")
    #expect(target.escape(target.joined(Array(path.utf8).span)) != nil)
    let whole = try self.target("https://a.example/")
    #expect(whole.escape(whole.joined(Array(path.utf8).span)) == nil)
  }

  @Test(arguments: [
    "", "/", "/x", "/x/../y", "/.", "/x/..", "//x", "/x%2fy", "/x;y/z", "/..x/", "/%2e", "/a%20b", "/x./y",
  ])
  func whatStaysBelowPasses(path: String) throws {
    let target = try target("https://a.example/v2/")
    #expect(target.escape(target.joined(Array(path.utf8).span)) == nil)
  }

  // MARK: Policy

  private static let denials =
    "[[rule]]\nname = \"no\"\nhosts = [\"real.example\"]\npaths = [\"/v2/admin/*\"]\naction = \"deny\"\nreason = \"not from here\"\n"

  private func explained(_ source: String, _ path: String) throws -> Explanation {
    try Explanation(
      by: loaded(source), method: "GET", scheme: .http, host: canonical("api"), port: 80, path: path, isTunnel: false,
      query: "?q")
  }

  @Test func aRuleThatDeniesTheTargetCounts() throws {
    let source = Self.rule("https://real.example/v2/") + Self.denials
    let denied = try explained(source, "/admin/x")
    #expect(denied.decision == Decision(verdict: .deny, reason: .ruleDenies, rule: 1))
    #expect(denied.description.contains("denied by rule 'no'"), "\(denied)")
    let by = "  the request would go to https://real.example/v2/admin/x?q, by 'target' of rule 'api' (s.toml:1)\n"
    #expect(denied.description.contains(by), "\(denied)")
    #expect(try explained(source, "/b/../admin/x").decision.verdict == .deny)
    #expect(try explained(source, "/other").decision.verdict == .allow)
    #expect(
      try explained(source.replacing("reason", with: "enforce = false\nreason"), "/admin/x").decision.verdict == .allow)
  }

  /// The rule that maps is the permission: what only no rule speaks of goes.
  @Test func aDefaultIsNoObjection() throws {
    let source = "proxy.default = \"deny\"\n" + Self.rule("https://real.example/v2/")
    let seen = try explained(source, "/x")
    #expect(seen.decision == Decision(verdict: .allow, reason: .rule, rule: 0))
    #expect(seen.description.contains("  target: https://real.example/v2/x?q\n"), "\(seen)")
    #expect(seen.json.contains("\"target\": \"https://real.example/v2/x?q\""), "\(seen.json)")
    #expect(seen.description.contains("assurance: exact"), "\(seen)")
  }

  @Test func aRuleThatIsReachedDoesNotMapAgain() throws {
    let second = "[[rule]]\nname = \"next\"\nhosts = [\"real.example\"]\ntarget = \"https://other.example/\"\n"
    let seen = try explained(Self.rule("https://real.example/v2/") + second, "/x")
    #expect(seen.mapped?.url == "https://real.example/v2/x?q" && seen.rule?.name == "api")
  }

  @Test func explainNamesTheReadingThatLeadsOut() throws {
    let seen = try explained(Self.rule("https://real.example/v2/"), "/..%2fx")
    #expect(seen.decision.reason == .outsideTarget)
    #expect(seen.description.contains("denied by rule 'api' (s.toml:1): the path leads out of its target"), "\(seen)")
    #expect(seen.description.contains("path read as /x (decoded"), "\(seen)")
    let lax = try explained(Self.rule("https://real.example/v2/", "enforce = false"), "/..%2fx")
    #expect(lax.decision.verdict == .allow)
  }

  /// The rule blocks nothing, and so does not keep others from it.
  @Test func aPathThatLeadsOutOfAnUnenforcedTargetMeetsTheOtherRules() throws {
    let no = "[[rule]]\nname = \"no\"\nhosts = [\"real.example\"]\npaths = [\"/admin/*\"]\naction = \"deny\"\n"
    let source = Self.rule("https://real.example/v2/", "enforce = false") + no
    let denied = try explained(source, "/../admin/x").decision
    #expect(denied == Decision(verdict: .deny, reason: .ruleDenies, rule: 1))
    for source in [source, "proxy.default = \"deny\"\n" + Self.rule("https://real.example/v2/", "enforce = false")] {
      #expect(try explained(source, "/../other").decision.verdict == .allow)
      var workspace = DecisionWorkspace()
      workspace.host = canonical("api")
      let (method, path) = (Array("GET".utf8), Array("/../other".utf8))
      let facts = RequestFacts(
        scheme: .http, port: 80, method: method.span, path: path.span, isTunnel: false, sender: Sender())
      let mapping = try loaded(source).mapping(
        of: Decision(verdict: .allow, reason: .rule, rule: 0), facts, in: &workspace)
      #expect(mapping?.objection?.reason == .ruleWouldDeny, "it is reported")
    }
  }

  @Test func theAddressIsTheTargets() throws {
    let seen = try explained(Self.rule("http://169.254.1.1/"), "/x")
    #expect(seen.address?.address.description == "169.254.1.1" && seen.address?.block != nil)
  }

  @Test func aTunnelIsNotMapped() throws {
    let policy = try loaded("[[rule]]\nname = \"api\"\nhosts = [\"api\"]\ntarget = \"https://real.example/\"")
    let seen = Explanation(
      by: policy, method: "CONNECT", scheme: .https, host: canonical("api"), port: 443, path: "", isTunnel: true)
    #expect(seen.mapped == nil && seen.decision.verdict == .allow)
    #expect(policy.rules[0].speaksOfRequests)
  }
}
