// What is said of two policies: each kind of difference with a request that shows it, and nothing that decides otherwise is
// passed over in silence.

import Bytes
import TestSupport
import Testing

@testable import Policy

@Suite struct PolicyComparisonTests {
  /// Two policies, and the differences as `kind | old rule | new rule | changes | witness`.
  struct Row: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let old: String
    let new: String
    let expected: [String]

    init(_ sentence: String, _ old: String, _ new: String, _ expected: String...) {
      testDescription = sentence
      self.old = old
      self.new = new
      self.expected = expected
    }
  }

  private static func rule(_ name: String, _ keys: String) -> String { "[[rule]]\nname = '\(name)'\n\(keys)\n" }
  private static let denies = "[proxy]\ndefault = 'deny'\n"

  static let rows: [Row] = [
    Row("the same", rule("a", "hosts = ['a']"), rule("a", "hosts = ['a']")),
    Row(
      "a rule that denies is added", "", rule("no", "hosts = ['**.bad']\naction = 'deny'"),
      "newly-denied | - | no |  | GET http://bad/"),
    Row(
      "a host is no longer listed", denies + rule("a", "hosts = ['a', 'b']"), denies + rule("a", "hosts = ['a']"),
      "newly-denied | a | - |  | GET http://b/"),
    Row(
      "another default", "", "[proxy]\ndefault = 'deny'\n",
      "newly-denied | - | - |  | GET http://other.other/"),
    Row(
      "a block that is wider", denies + rule("a", "hosts = ['10.0.0.0/8']"),
      denies + rule("a", "hosts = ['10.0.0.0/7']"),
      "newly-allowed | - | a |  | GET http://11.0.0.0/"),
    Row(
      "one label more", denies + rule("a", "hosts = ['*.a']"), denies + rule("a", "hosts = ['**.a']"),
      "newly-allowed | - | a |  | GET http://a/"),
    Row(
      "a port", denies + rule("a", "hosts = ['a']\nports = [80]"),
      denies + rule("a", "hosts = ['a']\nports = [80, 22]"),
      "newly-allowed | - | a |  | GET http://a:22/"),
    Row(
      "a method", rule("a", "hosts = ['a']\nmethods = ['PUT']\naction = 'deny'"),
      rule("a", "hosts = ['a']\nmethods = ['PUT', 'DELETE']\naction = 'deny'"),
      "newly-denied | - | a |  | DELETE http://a/"),
    Row(
      "a path", rule("a", "hosts = ['a']\npaths = ['/x/*']\naction = 'deny'"),
      rule("a", "hosts = ['a']\npaths = ['/x/y/*']\naction = 'deny'"),
      "newly-allowed | a | - |  | GET http://a/x/other"),
    Row(
      "two patterns at once",
      rule("a", "hosts = ['a']\npaths = ['/x/*']") + rule("b", "paths = ['*.html']\naction = 'deny'"),
      rule("b", "paths = ['*.html']\naction = 'deny'") + rule("a", "hosts = ['a']\npaths = ['/x/*']"),
      "newly-denied | a | b |  | GET http://a/x/other.html"),
    Row(
      "who asks", denies + rule("a", "hosts = ['a']\nusers = ['kiosk']"),
      denies + rule("a", "hosts = ['a']\nusers = ['kiosk', 'till']"),
      "newly-allowed | - | a |  | GET http://a/ --user till"),
    Row(
      "in which unit", denies + rule("a", "hosts = ['a']\nunits = ['a.service', 'b.service']"),
      denies + rule("a", "hosts = ['a']\nunits = ['a.service']"),
      "newly-denied | a | - |  | GET http://a/ --user 60000 --unit b.service"),
    Row(
      "by what link", rule("a", "hosts = ['a']\nwhen = ['wwan']\naction = 'deny'"), "",
      "newly-allowed | a | - |  | GET http://a/ --when wwan"),
    Row(
      "an address", "",
      "[proxy]\ndeny_addresses = ['10.0.0.0/8', '127.0.0.1', '169.254.0.0/16', 'multicast', 'unspecified', 'fe80::/10']",
      "newly-denied | - | - |  | GET http://127.0.0.1/"),
    Row(
      "another treatment", rule("a", "hosts = ['a']"), rule("a", "hosts = ['a']\nconnect = 'deny'"),
      "newly-denied | a | a |  | CONNECT a:443"),
    Row(
      "a tunnel that is intercepted", rule("a", "hosts = ['a']\nconnect = 'tunnel'"),
      rule("a", "hosts = ['a']\nconnect = 'intercept'"),
      "otherwise | a | a | connect \"tunnel\" → \"intercept\" | CONNECT a:443"),
    Row(
      "another way", "[routes.o]\nvia = 'http://p'\n" + rule("a", "hosts = ['a']\nschemes = ['http']\nroute = ['o']"),
      "[routes.o]\nvia = 'http://p'\n" + rule("a", "hosts = ['a']\nschemes = ['http']\nroute = ['o', 'direct']"),
      "otherwise | a | a | route [\"o\"] → [\"o\", \"direct\"] | GET http://a/"),
    Row(
      "a field, whose value is not shown",
      rule("a", "hosts = ['a']\nschemes = ['http']\nrequest.headers.set = { X-A = '1' }"),
      rule("a", "hosts = ['a']\nschemes = ['http']\nrequest.headers.set = { X-A = '2' }"),
      "otherwise | a | a | set | GET http://a/"),
    Row(
      "another name", rule("a", "hosts = ['a']\nschemes = ['http']"), rule("b", "hosts = ['a']\nschemes = ['http']"),
      "otherwise | a | b |  | GET http://a/"),
    Row(
      "another reason to deny", denies, denies + rule("a", "hosts = ['a']\naction = 'deny'"),
      "otherwise | - | a |  | GET http://a/"),
  ]

  @Test(arguments: rows) func isSaid(_ row: Row) throws {
    let comparison = PolicyComparison(try loadedRegardless(row.old), try loadedRegardless(row.new))
    var lines = comparison.differences.map { difference in
      let names = [difference.old.rule?.name ?? "-", difference.new.rule?.name ?? "-"]
      return ([difference.kind.rawValue] + names + [difference.changes.joined(separator: "; "), difference.witness])
        .joined(separator: " | ")
    }
    // More may differ with it, such as a tunnel to a port; it must be among them, and the same must have none.
    if !row.expected.isEmpty { lines = lines.filter(row.expected.contains) }
    #expect(lines == row.expected, "\(comparison)")
    #expect(comparison.isComplete)
  }

  /// Whatever the engine decides otherwise for a request of any kind, the comparison says so by the same rules.
  @Test func nothingIsPassedOverInSilence() throws {
    var generator = SeededGenerator(seed: 7)
    var differing = 0
    for _ in 0..<120 {
      let text = RandomPolicy.text(&generator)
      let old = try loadedRegardless(text)
      let new = try loadedRegardless(
        Bool.random(using: &generator) ? RandomPolicy.text(&generator) : RandomPolicy.changed(text, &generator))
      let comparison = PolicyComparison(old, new)
      #expect(comparison.isComplete)
      let said = Set(
        comparison.differences.map { "\($0.kind) \($0.old.rule?.name ?? "-") \($0.new.rule?.name ?? "-")" })
      for _ in 0..<80 {
        let request = RandomPolicy.request(&generator)
        let asker = RandomPolicy.asker(&generator)
        let absolute = Bool.random(using: &generator)
        let before = Forecast(by: old, of: request, asker, absolute: absolute)
        let after = Forecast(by: new, of: request, asker, absolute: absolute)
        guard before.verdict != after.verdict else { continue }
        differing += 1
        let kind: PolicyDifference.Kind =
          switch after.verdict {
          case .deny: .newlyDenied
          case .ask: .newlyAsked
          case .allow: .newlyAllowed
          }
        let rules = [(old, before), (new, after)].map { policy, forecast in
          forecast.last.decision.rule.map { policy.rules[$0].name } ?? "-"
        }
        let isSaid = said.contains("\(kind) \(rules[0]) \(rules[1])")
        #expect(
          isSaid,
          "\(request.method) \(request.path) of \(request.host.bytes.span.string):\(request.port)\n\(text)\n\(comparison)"
        )
      }
    }
    #expect(differing > 500)
  }

  @Test func aPolicyDiffersFromItselfInNothing() throws {
    var generator = SeededGenerator(seed: 11)
    for _ in 0..<30 {
      let policy = try loadedRegardless(RandomPolicy.text(&generator))
      #expect(PolicyComparison(policy, policy).differences.isEmpty)
    }
  }

  @Test func thereIsAnEndToTheRequests() throws {
    let paths = (0..<400).map { "'/\($0)/*'" }.joined(separator: ", ")
    let units = (0..<40).map { "'u\($0).service'" }.joined(separator: ", ")
    let old = try loadedRegardless(Self.rule("a", "hosts = ['a']\npaths = [\(paths)]\nunits = [\(units)]"))
    let comparison = PolicyComparison(old, try loadedRegardless(""))
    #expect(!comparison.isComplete && comparison.requests <= WitnessRequests.mostRequests)
    #expect(comparison.description.hasSuffix("the rest was not compared\n"))
  }

  @Test func asTextAndAsJSON() throws {
    let old = try loadedRegardless("")
    let new = try loadedRegardless(Self.rule("no", "hosts = ['bad', '10.0.0.1']\naction = 'deny'"))
    let comparison = PolicyComparison(old, new)
    let lines = comparison.description.split(separator: "\n").prefix(4).joined(separator: "\n")
    #expect(
      lines == """
        newly denied:
          allowed: no rule matches, and 'default' in [proxy] is "allow"
          → denied by rule 'no' (s.toml:1)
            GET http://bad/
        """)
    #expect(
      comparison.json.contains(
        #""old": {"verdict": "allow", "rule": null, "file": null, "line": null, "why": "allowed: no rule matches, and "#
          + #"'default' in [proxy] is \"allow\""}, "new": {"verdict": "deny", "rule": "no", "file": "s.toml", "line": 1"#
      ))
  }
}

extension RandomPolicy {
  /// The text with a line or two taken out.
  static func changed(_ text: String, _ generator: inout SeededGenerator) -> String {
    var lines = text.split(separator: "\n").map(String.init)
    for _ in 0..<Int.random(in: 1...3, using: &generator) {
      let index = Int.random(in: 0..<lines.count, using: &generator)
      if !lines[index].hasPrefix("["), !lines[index].hasPrefix("name"), !lines[index].hasPrefix("via") {
        lines.remove(at: index)
      }
    }
    return lines.joined(separator: "\n")
  }
}
