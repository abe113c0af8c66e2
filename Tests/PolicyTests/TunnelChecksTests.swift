// What check says of rules about requests whose https goes through tunnels that stay closed, of secrets in the clear, and of
// pins where no TLS is; and what explain leads with. Each row is all that is said.

import Testing

@testable import Policy

@Suite struct TunnelChecksTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let source: String
    let expected: [String]

    init(_ sentence: String, _ source: String, _ expected: String...) {
      testDescription = sentence
      self.source = source
      self.expected = expected
    }
  }

  private static func rule(_ name: String, _ body: String) -> String { "[[rule]]\nname = \"\(name)\"\n\(body)\n" }
  private static let closed = "proxy.default = \"deny\"\n"
  private static let secret = "authorization = { username = \"u\", password = { env = \"HIDDEN\" } }"

  private static func idle(_ keys: String, _ rest: String) -> String {
    "\(keys) no effect on https: programs reach it through tunnels, and \(rest)"
  }
  private static let own = "this rule leaves them closed. Set connect = \"intercept\"."

  static let rows = [
    Row("headers", rule("a", "request.headers.set = { X = \"1\" }"), idle("'headers' has", own)),
    Row("of http alone", rule("a", "schemes = [\"http\"]\nrequest.headers.set = { X = \"1\" }")),
    Row("of https alone", rule("a", "schemes = [\"https\"]\nrequest.cookies = false"), idle("'cookies' has", own)),
    Row("what is the default anyway", rule("a", "request.cookies = true\nrequest.timeout = \"1s\"")),
    Row("of a rule that intercepts", rule("a", "connect = \"intercept\"\nrequest.cookies = false\n[rule.response]")),
    Row(
      "of a rule that verifies", rule("a", "connect = \"verify\"\n[rule.response]"), idle("[rule.response] has", own)),
    Row("of a rule that denies tunnels", rule("a", "connect = \"deny\"\nrequest.cookies = false")),
    Row(
      "several keys",
      rule(
        "a",
        "[rule.request]\nuser_agent = \"x\"\nparameters = { a = 1 }\n[rule.response]"),
      idle("'user_agent', 'parameters' and [rule.response] have", own)),
    Row(
      "bodies that are taken whole", rule("a", "request.buffer_uploads = true"), idle("'buffer_uploads' has", own)),
    Row(
      "what is asked of TLS that the proxy does not take part in",
      rule("a", "[rule.security]\nciphers = \"HIGH\"\nprofile = \"public\"\nmin_tls = \"1.3\""),
      idle("'min_tls', 'ciphers' and 'profile' have", own)),
    Row(
      "what the defaults ask of TLS that the proxy does not take part in",
      "[defaults.security]\nciphers = \"HIGH\"\nmin_tls = \"1.3\"\n" + rule("a", "hosts = [\"a\"]"),
      "[defaults.security]: "
        + idle(
          "'min_tls' and 'ciphers' have", "no rule opens them. Set connect = \"verify\" or \"intercept\" in a rule.")
    ),
    Row(
      "what they ask where a rule verifies",
      "[defaults.security]\nmin_tls = \"1.3\"\n" + rule("a", "connect = \"verify\"")),
    Row(
      "what they ask where a rule upgrades",
      "[defaults.security]\nmin_tls = \"1.3\"\n" + rule("a", "schemes = [\"http\"]\nupgrade = true")),
    Row(
      "what they ask where a rule sends elsewhere over TLS",
      "[defaults.security]\nmin_tls = \"1.3\"\n" + rule("a", "schemes = [\"http\"]\ntarget = \"https://b/\"")),
    Row(
      "what they ask where no rule is", "[defaults.security]\nrevocation = \"staple\"\n",
      "[defaults.security]: "
        + idle("'revocation' has", "no rule opens them. Set connect = \"verify\" or \"intercept\" in a rule.")),
    Row(
      "what holds for tunnels too",
      rule("a", "request.throttle = { rate = \"1MiB\", download = \"1MiB\" }\nrequest.service_type = \"video\"")),
    Row(
      "a denial before an allowance",
      rule("no", "hosts = [\"a\"]\npaths = [\"/admin/*\"]\naction = \"deny\"") + rule("a", "hosts = [\"a\"]"),
      idle("'paths' has", "rule 'a' (s.toml:6) leaves them closed. Set connect = \"intercept\" in rule 'a'.")),
    Row(
      "a denial that no rule follows", rule("no", "methods = [\"DELETE\"]\naction = \"deny\""),
      idle("'methods' has", "no rule opens them. Add a rule for these hosts with connect = \"intercept\".")),
    Row(
      "a denial that is opened",
      rule("no", "hosts = [\"a\"]\npaths = [\"/x\"]\naction = \"deny\"")
        + rule("a", "hosts = [\"*\"]\nconnect = \"intercept\"")),
    Row(
      "some hosts that are opened",
      rule("no", "hosts = [\"a\", \"b\", \"c\"]\npaths = [\"/x\"]\naction = \"deny\"")
        + rule("open", "hosts = [\"b\"]\nconnect = \"intercept\""),
      "'paths' has no effect on https for a, c: programs reach it through tunnels, and no rule opens them. Add a rule for "
        + "these hosts with connect = \"intercept\"."),
    Row(
      "a narrower rule that closes one host",
      rule("no", "paths = [\"/x\"]\naction = \"deny\"") + rule("bank", "hosts = [\"bank\"]")
        + rule("open", "connect = \"intercept\""),
      "'paths' has no effect on https for bank: programs reach it through tunnels, and rule 'bank' (s.toml:5) leaves them "
        + "closed. Set connect = \"intercept\" in rule 'bank'."),
    Row(
      "a rule that never sees the host",
      rule("bank", "hosts = [\"bank\"]") + rule("no", "hosts = [\"bank\"]\npaths = [\"/x\"]\naction = \"deny\""),
      "rule 'no' can never match: rule 'bank' at s.toml:1 comes first and matches all that it does"),
    Row(
      "another rule that intercepts another host",
      rule("a", "hosts = [\"a\"]\nrequest.cookies = false")
        + rule("b", "hosts = [\"b\"]\nconnect = \"intercept\""), idle("'cookies' has", own)),
    Row(
      "an earlier rule about requests that decides",
      rule("first", "hosts = [\"a\"]\nmethods = [\"GET\"]\nconnect = \"tunnel\"")
        + rule("a", "hosts = [\"a\"]\nrequest.cookies = false"),
      idle("'cookies' has", "rule 'first' (s.toml:1) leaves them closed. Set connect = \"intercept\" in rule 'first'.")),
    Row(
      "rules of other users",
      rule("ci", "users = [1]\nconnect = \"tunnel\"")
        + rule("a", "users = [2]\nrequest.cookies = false\nconnect = \"intercept\"")),
    Row(
      "tunnels of other users",
      rule("a", "users = [2]\npaths = [\"/x\"]\nrequest.cookies = false")
        + rule("b", "users = [1]\nconnect = \"intercept\""),
      idle("'cookies' has", "no rule opens them. Set connect = \"intercept\".")),
    Row("port 80", rule("a", "ports = [80]\nrequest.cookies = false")),
    Row("another port", rule("a", "ports = [8443]\nrequest.cookies = false"), idle("'cookies' has", own)),
    // Allow-lists.
    Row(
      "an allow-list without tunnels", closed + rule("a", "hosts = [\"a\"]\nmethods = [\"GET\"]"),
      "this rule allows no https: programs reach it through tunnels, and no rule allows one. Set connect = \"intercept\", or "
        + "schemes = [\"http\"] where only http is meant"),
    Row(
      "an allow-list that says https", closed + rule("a", "schemes = [\"https\"]\npaths = [\"/x\"]"),
      "this rule allows no https: programs reach it through tunnels, and no rule allows one. Set connect = \"intercept\""
    ),
    Row(
      "an allow-list before a rule that denies", rule("a", "paths = [\"/x\"]") + rule("no", "action = \"deny\""),
      "this rule allows no https: programs reach it through tunnels, and rule 'no' (s.toml:4) denies them. "
        + "Set connect = \"intercept\", or schemes = [\"http\"] where only http is meant"),
    Row("an allow-list of http", closed + rule("a", "schemes = [\"http\"]\nmethods = [\"GET\"]")),
    Row("an allow-list that intercepts", closed + rule("a", "methods = [\"GET\"]\nconnect = \"intercept\"")),
    Row(
      "an allow-list that tunnels", closed + rule("a", "methods = [\"GET\"]\nconnect = \"tunnel\""),
      idle("'methods' has", own)),
    Row("conditions that limit nothing", rule("a", "methods = [\"GET\"]\nconnect = \"tunnel\"")),
    // Secrets and pins.
    Row(
      "a secret", rule("a", "connect = \"intercept\"\nrequest.\(secret)"),
      "'authorization' in [rule.request]: the secret leaves in the clear where a program asks for http. "
        + "Set upgrade = true, or schemes = [\"https\"]"),
    Row(
      "digest",
      rule(
        "a", "connect = \"intercept\"\nrequest.\(secret.replacing("username", with: "scheme = \"digest\", username"))"),
      "'authorization' in [rule.request]: digest answers, from which a weak password can be guessed, leave in the clear "
        + "where a program asks for http. Set upgrade = true, or schemes = [\"https\"]"),
    Row("a secret over TLS", rule("a", "connect = \"intercept\"\nupgrade = true\nrequest.\(secret)")),
    Row("a secret of https", rule("a", "schemes = [\"https\"]\nconnect = \"intercept\"\nrequest.\(secret)")),
    Row(
      "a secret of this machine",
      rule("a", "hosts = [\"localhost\", \"127.0.0.1\"]\nschemes = [\"http\"]\nrequest.\(secret)")),
    Row(
      "a parameter that is a secret",
      rule("a", "schemes = [\"http\"]\nrequest.parameters = { k = { env = \"HIDDEN\" } }"),
      "'parameters' in [rule.request]: the secret leaves in the clear where a program asks for http. "
        + "Set upgrade = true, or schemes = [\"https\"]"),
  ]

  @Test(arguments: rows) func isSaid(row: Row) {
    var files = DictionaryFiles(["s.toml": row.source])
    files.variables["HIDDEN"] = "x"
    let said = PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.message)
    #expect(said == row.expected, "\(row.testDescription)")
  }

  // MARK: explain

  private func note(_ source: String, _ method: String, _ path: String) throws -> String? {
    let policy = try loaded(source)
    let host = canonical("a.example")
    let tunnel = Explanation(
      by: policy, method: "CONNECT", scheme: .https, host: host, port: 443, path: "", isTunnel: true)
    return Explanation(by: policy, method: method, scheme: .https, host: host, port: 443, path: path, isTunnel: false)
      .note(through: tunnel)
  }

  @Test func explainLeadsWithIt() throws {
    let denies =
      Self.rule("no", "paths = [\"/admin/*\"]\naction = \"deny\"") + Self.rule("all", "hosts = [\"**.example\"]")
    #expect(
      try note(denies, "GET", "/admin/x")
        == "Rule 'no' (s.toml:1) denies the request, which has no effect on https: programs reach it through tunnels, and "
        + "rule 'all' (s.toml:5) leaves them closed. Set connect = \"intercept\" in rule 'all'.")
    #expect(try note(denies, "GET", "/") == nil)
    #expect(
      try note(Self.rule("a", "request.cookies = false"), "GET", "/")
        == "What rule 'a' (s.toml:1) says of requests has no effect on https: programs reach it through tunnels, and this "
        + "rule leaves them closed. Set connect = \"intercept\" in rule 'a'.")
    #expect(try note(Self.rule("a", "connect = \"intercept\"\nrequest.cookies = false"), "GET", "/") == nil)
    #expect(
      try note(Self.closed + Self.rule("a", "methods = [\"GET\"]"), "GET", "/")
        == "Rule 'a' (s.toml:2) allows the request, but programs reach https through a tunnel, which is denied. Set "
        + "connect = \"intercept\" in rule 'a'.")
  }
}
