// `until` of a rule: what is read, when it holds, and what is said before and after.

import Testing

@testable import Policy

@Suite struct UntilConditionTests {
  private static func rule(_ until: String, _ more: String = "") -> String {
    "[[rule]]\nname = \"r\"\nuntil = \(until)\n\(more)"
  }

  private func decides(_ policy: Policy, at wall: Int64, isTunnel: Bool = false) -> Bool {
    Explanation(
      by: policy, method: isTunnel ? "CONNECT" : "GET", scheme: isTunnel ? .https : .http, host: canonical("a.example"),
      port: isTunnel ? 443 : 80, path: isTunnel ? "" : "/", isTunnel: isTunnel, Asker(wall: wall)
    ).decision.rule == 0
  }

  static let moments: [(String, end: Int64)] = [
    ("2100-01-01T00:00:00Z", 4_102_444_800), ("2100-01-01T02:00:00+02:00", 4_102_444_800),
    ("2100-01-01T00:00:00", 4_102_444_800), ("2099-12-31", 4_102_444_800),
  ]

  @Test(arguments: moments) func aRuleHoldsUntilItsEnd(text: String, end: Int64) throws {
    for action in ["allow", "deny"] {
      let policy = try loaded(Self.rule(text, "action = \"\(action)\""))
      for isTunnel in [false, true] {
        #expect(decides(policy, at: end * 1000 - 1, isTunnel: isTunnel))
        #expect(!decides(policy, at: end * 1000, isTunnel: isTunnel))
        // Nobody said when.
        #expect(decides(policy, at: 0, isTunnel: isTunnel))
      }
    }
  }

  @Test func explainSaysThatItHasEnded() throws {
    let policy = try loaded(Self.rule("2100-01-01T00:00:00Z"))
    let explanation = Explanation(
      by: policy, method: "GET", scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false,
      Asker(wall: 4_102_444_860_000))
    #expect(
      explanation.passedOver.map(\.text) == [
        "until: expected before 2100-01-01 00:00:00 UTC, seen 2100-01-01 00:01:00 UTC"
      ])
    #expect(explanation.assumptions.isEmpty)
  }

  @Test(arguments: ["\"2100-01-01\"", "12:00:00", "4102444800"]) func whatIsNoDateIsAnError(text: String) {
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": Self.rule(text)]))
    #expect(result.policy == nil)
    #expect(result.diagnostics.first?.description.contains("expected a date, or a date and time") == true)
  }

  static let pairs: [(wide: String, narrow: String, covers: Bool)] = [
    ("until = 2100-01-01", "until = 2099-01-01", true), ("until = 2099-01-01", "until = 2100-01-01", false),
    ("until = 2099-01-01", "", false), ("", "until = 2099-01-01", true),
  ]

  @Test(arguments: pairs) func whatEndsSoonerIsCovered(wide: String, narrow: String, covers: Bool) {
    let text = "[[rule]]\nname = \"wide\"\n\(wide)\n[[rule]]\nname = \"narrow\"\n\(narrow)\n"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    #expect(result.diagnostics.contains { "\($0)".contains("can never match") } == covers)
  }
}
