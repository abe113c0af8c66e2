// [rule.timeouts]: how it is read, what it inherits, what is said of it.

import Testing

@testable import Policy

@Suite struct TimeoutTests {
  @Test func aRuleSaysSomeAndInheritsTheRest() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "a"
      hosts = ["a.example"]
      [rule.timeouts]
      response_header = "10m"
      tunnel_idle = "2h"
      [[rule]]
      name = "b"
      [proxy.timeouts]
      response_header = "5s"
      connect = "3s"
      """)
    let own = policy.timeouts(of: 0)
    #expect(own.responseHeaderMilliseconds == 600_000)
    #expect(own.tunnelIdleMilliseconds == 7_200_000)
    #expect(own.connectMilliseconds == 3_000)
    #expect(own.bodyStallMilliseconds == 60_000)
    #expect(policy.timeouts(of: 1) == policy.configuration.timeouts)
    #expect(policy.timeouts(of: nil) == policy.configuration.timeouts)
    #expect(policy.rules[0].timeouts?.own == [.responseHeader, .tunnelIdle])
  }

  @Test(arguments: Timeout.allCases) func everyKeyIsReadIntoItsPlace(timeout: Timeout) throws {
    let proxy = try loaded("[proxy.timeouts]\n\(timeout.rawValue) = \"7s\"").configuration.timeouts
    for other in Timeout.allCases {
      #expect(proxy[other] == (other == timeout ? 7_000 : Timeouts()[other]))
    }
    guard Timeout.ofRule.contains(timeout) else { return }
    let rule = try loaded("[[rule]]\nname = \"a\"\ntimeouts.\(timeout.rawValue) = \"7s\"").timeouts(of: 0)
    #expect(rule == proxy)
  }

  @Test func theSchemaNamesThem() {
    #expect(TableSchema.timeouts.names == Timeout.allCases.map(\.rawValue))
    #expect(TableSchema.ruleTimeouts.names == Timeout.ofRule.map(\.rawValue))
  }

  @Test(arguments: [
    (
      "timeouts.client_idle = \"1s\"",
      "3:10: error: 'client_idle' in [rule.timeouts]: it runs before a rule has decided, and stands in [proxy.timeouts] alone"
    ),
    (
      "timeouts.drain = \"1s\"",
      "3:10: error: 'drain' in [rule.timeouts]: it is for the whole proxy, and stands in [proxy.timeouts] alone"
    ),
    ("timeouts.conect = \"1s\"", "3:10: error: unknown key 'conect' in [rule.timeouts]; did you mean 'connect'?"),
    ("timeouts.connect = 1", "3:20: error: 'connect' in [rule.timeouts]: expected "),
    ("timeouts = \"1s\"", "3:12: error: 'timeouts' in [rule]: expected a table"),
    (
      "response_header = \"1s\"",
      "3:1: error: unknown key 'response_header' in [rule]; it stands in [rule.timeouts]: write 'timeouts.response_header'"
    ),
    (
      "action = \"deny\"\ntimeouts.connect = \"1s\"",
      "4:1: warning: [rule.timeouts] has no effect in a rule that denies every request"
    ),
    (
      "hosts = [\"a.test\"]\ntimeouts.response_header = \"1s\"\ntimeouts.tunnel_idle = \"1s\"",
      "4:10: warning: 'timeouts.response_header' has no effect on https: programs reach it through tunnels"
    ),
  ]) func whatIsWrongIsSaid(lines: String, expected: String) {
    let seen = diagnostics(lines)
    #expect(seen.contains { $0.contains(expected) }, "\(seen)")
  }

  @Test(arguments: ["connect", "tls_handshake", "tunnel_idle"]) func whatHoldsForATunnelIsNoWarning(key: String) {
    #expect(diagnostics("hosts = [\"a.test\"]\ntimeouts.\(key) = \"1s\"") == [])
  }

  private func diagnostics(_ lines: String) -> [String] {
    var files = DictionaryFiles()
    files.files["s.toml"] = Array("[[rule]]\nname = \"a\"\n\(lines)".utf8)
    return PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description)
  }

  @Test func explainTells() throws {
    let policy = try loaded("[[rule]]\nname = \"a\"\ntimeouts = { tunnel_idle = \"2h\", response_header = \"10m\" }")
    for isTunnel in [false, true] {
      let seen = Explanation(
        by: policy, method: isTunnel ? "CONNECT" : "GET", scheme: isTunnel ? .https : .http,
        host: canonical("a.example"),
        port: isTunnel ? 443 : 80, path: isTunnel ? "" : "/", isTunnel: isTunnel)
      #expect(seen.description.contains("  timeouts: response_header 10m, tunnel_idle 2h\n"), "\(seen)")
      let json = "\"timeouts\": {\"response_header_ms\": 600000, \"tunnel_idle_ms\": 7200000}"
      #expect(seen.json.contains(json), "\(seen.json)")
    }
  }
}
