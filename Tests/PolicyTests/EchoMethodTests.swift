// TRACE: which rules refuse it, what they add to it, and what `explain` says.

import Testing

@testable import Policy

@Suite struct EchoMethodTests {
  private func files() -> DictionaryFiles {
    var files = DictionaryFiles()
    files.variables["HIDDEN"] = "HUNTER2"
    return files
  }

  private func explanation(_ request: String, _ rule: String, method: String = "TRACE", defaults: String = "") throws
    -> Explanation
  {
    // Routes and keys that one row uses are idle in another: warnings are none of this test's.
    var all = files()
    all.files["s.toml"] = Array(
      """
      \(defaults)
      [routes.office]
      via = "http://p.example:3128"
      [routes.bare]
      via = "http://q.example:3128"
      [routes.known]
      via = "http://r.example:3128"
      credentials = { username = "u", password = "HUNTER2" }
      [[rule]]
      name = "a"
      hosts = ["a.example"]
      \(rule)
      [rule.request]
      \(request)
      """.utf8)
    let policy = try #require(PolicyLoader.load(path: "s.toml", files: all).policy)
    return Explanation(
      by: policy, method: method, scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false)
  }

  @Test(arguments: [
    ("authorization = { username = \"u\", password = \"HUNTER2\" }", ""),
    ("authorization = { scheme = \"digest\", username = \"u\", password = \"HUNTER2\" }", ""),
    ("headers.set = { X-Token = { env = \"HIDDEN\" } }", ""),
    ("headers.default = { X-Other = { env = \"HIDDEN\" } }", ""),
    ("headers.set = { Authorization = \"Bearer HUNTER2\" }", ""),
    ("headers.default = { Cookie = \"session=HUNTER2\" }", ""),
    ("parameters = { api_key = { env = \"HIDDEN\" } }", ""),
    ("parameters = { deep = { list = [{ env = \"HIDDEN\" }] } }", ""),
    ("", "route = [\"known\"]"), ("", "route = [\"bare\", \"known\"]"),
    // What keeps the secret does not depend on what an operator tries out.
    ("authorization = { username = \"u\", password = \"HUNTER2\" }", "enforce = false"),
    ("authorization = { username = \"u\", password = \"HUNTER2\" }", "action = \"deny\"\nenforce = false"),
  ]) func aRuleWithASecretRefusesIt(request: String, rule: String) throws {
    for method in ["TRACE", "TRACK"] {
      let seen = try explanation(request, rule, method: method)
      #expect(seen.decision.verdict == .deny && seen.decision.reason == .methodRefused, "\(method)")
      #expect(seen.description.contains("rule 'a' (s.toml:"), "\(seen)")
      #expect(seen.description.contains("adds a secret to it (405)"), "\(seen)")
      #expect(seen.json.contains("\"reason\": \"method-refused\""))
    }
    #expect(try explanation(request, rule, method: "GET").decision.verdict == .allow)
    #expect(try explanation(request, rule, method: "OPTIONS").decision.verdict == .allow)
  }

  @Test(arguments: [
    ("headers.set = { X-Client = \"kiosk-7\" }\nheaders.default = { Accept = \"a/b\" }\nuser_agent = \"u\"", ""),
    ("parameters = { page = 1 }", ""), ("headers.remove = [\"Cookie\"]", ""), ("", "route = [\"bare\"]"),
  ]) func aRuleWithoutOneAddsNothingToIt(request: String, rule: String) throws {
    let seen = try explanation(request, rule)
    #expect(seen.decision.verdict == .allow)
    #expect(seen.set.isEmpty && seen.defaults.isEmpty)
    #expect(seen.serializer?.parameters.isEmpty ?? true)
  }

  @Test func whatIsInheritedIsKeptToo() throws {
    let defaults = "[defaults.request]\nauthorization = { username = \"u\", password = \"HUNTER2\" }"
    #expect(try explanation("", "", defaults: defaults).decision.reason == .methodRefused)
    let policy = try loaded(defaults)
    let seen = Explanation(
      by: policy, method: "TRACE", scheme: .https, host: canonical("b.example"), port: 443, path: "/", isTunnel: false)
    #expect(seen.decision == Decision(verdict: .deny, reason: .methodRefused, rule: nil))
    #expect(seen.description.contains("[defaults.request] adds a secret"), "\(seen)")
  }

  /// RFC 9110, 15.5.6: never the method that was refused.
  @Test func theOtherMethodsAreListed() throws {
    let policy = try loaded("[[rule]]\nname = \"a\"\nmethods = [\"GET\", \"TRACE\", \"PURGE\"]\n[[rule]]\nname = \"b\"")
    let allowed = [0, 1, nil].map { policy.otherMethods(of: Decision(verdict: .allow, reason: .rule, rule: $0)) }
    #expect(allowed[0] == ["GET", "PURGE"])
    #expect(allowed[1] == ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"] && allowed[2] == allowed[1])
  }
}
