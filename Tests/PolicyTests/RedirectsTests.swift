// `redirects` of a rule: how it is read, and what check and explain say of it.

import Testing

@testable import Policy

@Suite struct RedirectsTests {
  @Test(arguments: [
    ("", Redirects.pass), ("redirects = \"pass\"", .pass), ("redirects = \"same-host\"", .sameHost),
    ("redirects = \"same-scheme\"", .sameScheme), ("redirects = \"deny\"", .deny),
  ]) func itIsRead(line: String, expected: Redirects) throws {
    #expect(try loaded("[[rule]]\nname = \"a\"\n\(line)").rules[0].redirects == expected)
  }

  private func diagnostics(_ lines: String) -> [String] {
    var files = DictionaryFiles()
    files.files["s.toml"] = Array("[[rule]]\nname = \"a\"\n\(lines)".utf8)
    return PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description)
  }

  @Test(arguments: [
    (
      "redirects = \"same_host\"",
      "3:13: error: 'redirects' in [rule]: expected \"pass\", \"same-host\", \"same-scheme\""
    ),
    ("redirects = true", "3:13: error: 'redirects' in [rule]: expected a string"),
    (
      "action = \"deny\"\nredirects = \"deny\"",
      "4:13: warning: 'redirects' in [rule]: it has no effect in a rule that denies"
    ),
    ("redirects = \"deny\"", "3:1: warning: 'redirects' has no effect on https"),
    ("redirects = \"deny\"\nconnect = \"verify\"", "3:1: warning: 'redirects' has no effect on https"),
  ]) func whatIsWrongIsSaid(lines: String, expected: String) {
    let seen = diagnostics(lines)
    #expect(seen.contains { $0.contains(expected) }, "\(seen)")
  }

  @Test(arguments: [
    "redirects = \"pass\"", "redirects = \"deny\"\nconnect = \"intercept\"",
    "redirects = \"deny\"\nschemes = [\"http\"]",
    "redirects = \"deny\"\nenforce = false\nschemes = [\"http\"]",
  ]) func whatIsRightIsNot(lines: String) {
    #expect(diagnostics(lines) == [])
  }

  @Test func aTunnelInTheClearIsNoWayAround() throws {
    #expect(try loaded("[[rule]]\nname = \"a\"\nredirects = \"deny\"").rules[0].speaksOfRequests)
    #expect(try !loaded("[[rule]]\nname = \"a\"\nredirects = \"pass\"").rules[0].speaksOfRequests)
  }

  @Test func explainShowsIt() throws {
    let policy = try loaded("[[rule]]\nname = \"a\"\nredirects = \"same-host\"")
    let seen = Explanation(
      by: policy, method: "GET", scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false)
    #expect(seen.description.contains("  redirects: same-host: one that leads to another host"), "\(seen)")
    #expect(seen.json.contains("\"redirects\": \"same-host\""), "\(seen.json)")
  }
}
