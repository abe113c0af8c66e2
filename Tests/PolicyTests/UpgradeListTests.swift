// `upgrades`: how it is read, and which protocols it lets a request ask for.

import Testing

@testable import Policy

@Suite struct UpgradeListTests {
  private func read(_ line: String) throws -> UpgradeList? {
    try loaded("[[rule]]\nname = \"a\"\n\(line)").rules[0].upgrades
  }

  @Test(arguments: [
    ("[]", "websocket", false), ("[\"websocket\"]", "websocket", true), ("[\"WebSocket\"]", "wEbsocket", true),
    ("[\"websocket\"]", "websocket/13", true), ("[\"websocket\"]", "websockets", false),
    ("[\"irc/6.9\"]", "IRC/6.9", true), ("[\"irc/6.9\"]", "irc", false), ("[\"irc/6.9\"]", "irc/6.8", false),
    ("[\"a\", \"b\"]", "b", true), ("[\"a\", \"b\"]", "c", false),
  ]) func whatAListAllows(list: String, name: String, expected: Bool) throws {
    let upgrades = try read("upgrades = \(list)")
    let isAllowed = upgrades?.allows(Array(name.utf8).span)
    #expect(isAllowed == expected)
  }

  @Test func aRuleThatIsSilentAllowsAny() throws {
    #expect(try read("") == nil)
  }

  @Test(arguments: [
    ("upgrades = [\"web socket\"]", "3:13: error: 'upgrades' in [rule]: expected a protocol such as \"websocket\""),
    ("upgrades = [\"a/b/c\"]", "3:13: error: 'upgrades' in [rule]: expected a protocol such as \"websocket\""),
    ("upgrades = [\"h2c\"]", "3:13: warning: 'upgrades' in [rule]: 'h2c' is HTTP itself, which is never upgraded to"),
    ("upgrades = \"websocket\"", "3:12: error: 'upgrades' in [rule]: expected an array"),
    ("upgrades = [\"a\", \"A\"]", "3:18: warning: "),
    ("action = \"deny\"\nupgrades = []", "4:12: warning: 'upgrades' in [rule]: it has no effect in a rule that denies"),
  ]) func whatIsWrongIsSaid(lines: String, expected: String) {
    var files = DictionaryFiles()
    files.files["s.toml"] = Array("[[rule]]\nname = \"a\"\n\(lines)".utf8)
    let seen = PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description)
    #expect(seen.contains { $0.contains(expected) }, "\(seen)")
  }

  @Test func explainShowsTheList() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "a"
      hosts = ["a.example"]
      upgrades = ["websocket", "x/1"]
      [[rule]]
      name = "b"
      upgrades = []
      """)
    let seen = Explanation(
      by: policy, method: "GET", scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false)
    #expect(seen.description.contains("  upgrades: websocket, x/1\n"), "\(seen)")
    #expect(seen.json.contains("\"upgrades\": [\"websocket\", \"x/1\"]"), "\(seen.json)")
    #expect(policy.rules[1].upgrades?.description == "none")
  }
}
