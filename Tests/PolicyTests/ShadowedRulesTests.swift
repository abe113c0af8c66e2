// Which rules are reported never to match, and which are not.

import Reachability
import Testing

@testable import Policy

@Suite struct ShadowedRulesTests {
  struct Row: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let first: String
    let second: String
    let isShadowed: Bool

    init(_ sentence: String, _ first: String, _ second: String, _ isShadowed: Bool) {
      (testDescription, self.first, self.second, self.isShadowed) = (sentence, first, second, isShadowed)
    }
  }

  static let rows: [Row] = [
    Row("everything covers everything", "", "", true),
    Row("everything covers a host", "", "hosts = ['a']", true),
    Row("a host does not cover everything", "hosts = ['a']", "", false),
    Row("a name covers itself", "hosts = ['A.']", "hosts = ['a']", true),
    Row("another name", "hosts = ['a']", "hosts = ['b']", false),
    Row("one of two", "hosts = ['a']", "hosts = ['a', 'b']", false),
    Row("two cover one", "hosts = ['a', 'b']", "hosts = ['b']", true),
    Row("'*' covers all", "hosts = ['*']", "hosts = ['a', '10.0.0.0/8', '**.b']", true),
    Row("'**' is no name of this kind, '*' is not covered", "hosts = ['**.a']", "hosts = ['*']", false),
    Row("a tree covers its name", "hosts = ['**.a.b']", "hosts = ['a.b']", true),
    Row("a tree covers what is below", "hosts = ['**.b']", "hosts = ['x.y.a.b']", true),
    Row("a tree covers one label more", "hosts = ['**.b']", "hosts = ['*.b']", true),
    Row("a tree covers a tree below", "hosts = ['**.b']", "hosts = ['**.a.b']", true),
    Row("a tree does not cover the one above", "hosts = ['**.a.b']", "hosts = ['**.b']", false),
    Row("one label more covers a name", "hosts = ['*.b']", "hosts = ['a.b']", true),
    Row("one label more, not two", "hosts = ['*.b']", "hosts = ['a.a.b']", false),
    Row("one label more does not cover the name", "hosts = ['*.b']", "hosts = ['b']", false),
    Row("one label more does not cover the tree", "hosts = ['*.b']", "hosts = ['**.b']", false),
    Row("a name that only ends alike", "hosts = ['**.b']", "hosts = ['ab']", false),
    Row("a block covers an address", "hosts = ['10.0.0.0/8']", "hosts = ['10.1.2.3']", true),
    Row("a block covers a block", "hosts = ['10.0.0.0/8']", "hosts = ['10.1.0.0/16']", true),
    Row("a block does not cover a wider one", "hosts = ['10.1.0.0/16']", "hosts = ['10.0.0.0/8']", false),
    Row("all of IPv6 does not cover IPv4", "hosts = ['::/0']", "hosts = ['10.0.0.1']", false),
    Row("an IPv6 block covers an address", "hosts = ['2001:db8::/32']", "hosts = ['2001:db8::1']", true),
    Row("a block is no name", "hosts = ['0.0.0.0/0']", "hosts = ['a']", false),
    Row("ports", "ports = [80, 443]", "ports = [443]", true),
    Row("another port", "ports = [80]", "ports = [80, 443]", false),
    Row("some ports do not cover all", "ports = [80]", "", false),
    Row("schemes", "schemes = ['http', 'https']", "schemes = ['http']", true),
    Row("both schemes named are not taken for all", "schemes = ['http', 'https']", "", false),
    Row("methods", "methods = ['GET', 'HEAD']", "methods = ['GET']", true),
    Row("another method", "methods = ['GET']", "methods = ['get2']", false),
    Row("methods do not cover all methods", "methods = ['GET']", "", false),
    Row("paths", "paths = ['/a/*']", "paths = ['/a/b', '/a/*/c']", true),
    Row("a path that is wider", "paths = ['/a/*']", "paths = ['/*']", false),
    Row("what denies takes any reading", "paths = ['/a/*']", "paths = ['/a/b']\naction = 'deny'", false),
    Row("what denies covers what allows", "paths = ['/a/*']\naction = 'deny'", "paths = ['/a/b']", true),
    Row("both deny", "paths = ['/a/*']\naction = 'deny'", "paths = ['/a/b']\naction = 'deny'", true),
    Row(
      "what is not enforced does not deny", "paths = ['/a/*']\naction = 'deny'\nenforce = false",
      "paths = ['/a/b']\naction = 'deny'", false),
    Row("no paths cover any", "", "paths = ['/a/b']\naction = 'deny'", true),
    Row("an escape that one server decodes", "paths = ['/a/b']", "paths = ['/a%2Fb']", false),
    Row("the same escape", "paths = ['/a%2fb']", "paths = ['/a%2Fb']", true),
    Row("a wildcard is not matched by a letter", "paths = ['/a']", "paths = ['/*']", false),
    Row(
      "paths and methods together", "paths = ['/a*']\nmethods = ['GET']",
      "paths = ['/ab']\nmethods = ['GET']", true),
    Row(
      "tunnels are not covered by a rule about requests", "methods = ['GET']",
      "methods = ['GET']\nconnect = 'tunnel'", false),
    Row(
      "tunnels are covered where connect is set", "methods = ['GET']\nconnect = 'tunnel'",
      "methods = ['GET']", true),
    Row(
      "where no tunnel matches, connect does not matter", "methods = ['GET']",
      "methods = ['GET']\nschemes = ['http']", true),
    Row(
      "tunnels that are intercepted are covered where connect is set", "methods = ['GET']\nconnect = 'verify'",
      "methods = ['GET']\nconnect = 'intercept'", true),
    Row(
      "tunnels that are verified are not covered by a rule about requests", "paths = ['/a']",
      "paths = ['/a']\nconnect = 'verify'", false),
    Row(
      "what is inside an intercepted tunnel is not covered by a rule about http", "schemes = ['http']",
      "connect = 'intercept'", false),
    Row("users", "users = ['root', 1001]", "users = ['kiosk']", true),
    Row("a user by another name", "users = ['root']", "users = ['toor', 0]", true),
    Row("another user", "users = ['kiosk']", "users = ['kiosk', 'till']", false),
    Row("users do not cover clients that are not known", "users = ['root', 'kiosk']", "", false),
    Row("any client covers a user", "", "users = ['kiosk']", true),
    Row("users that are not there cover nobody", "users = ['ghost']", "users = ['kiosk']", false),
    Row("nobody is not called covered", "", "users = ['ghost']", false),
    Row("users do not cover units", "users = ['kiosk']", "units = ['kiosk.service']", false),
    Row("units do not cover users", "units = ['kiosk.service']", "users = ['kiosk']", false),
    Row("units", "units = ['a.service', 'b.slice']", "units = ['b.slice']", true),
    Row("another unit", "units = ['a.service']", "units = ['a.service', 'b.slice']", false),
    Row("units do not cover all clients", "units = ['a.service']", "", false),
    Row("any client covers a unit", "hosts = ['**.b']", "hosts = ['a.b']\nunits = ['a.service']", true),
    Row(
      "users and units", "users = ['kiosk']\nunits = ['a.service']", "users = ['kiosk']\nunits = ['a.service']", true),
    Row(
      "users alone do not cover what asks for a unit of others", "users = ['till']\nunits = ['a.service']",
      "units = ['a.service']", false),
    Row("users cover users of a unit", "users = ['kiosk']", "users = ['kiosk']\nunits = ['a.service']", true),
    Row("links", "when = ['wifi', 'wired']", "when = ['wired']", true),
    Row("another link", "when = ['wifi']", "when = ['wifi', 'wired']", false),
    Row("links do not cover any link", "when = ['wifi', 'wired', 'wwan', 'unknown']", "", false),
    Row("any link covers a link", "", "when = ['not-reachable']", true),
    Row("a link does not cover a user", "when = ['wifi']", "users = ['kiosk']\nwhen = ['wifi', 'wwan']", false),
    Row("what a rule does is no condition", "route = ['direct']", "action = 'deny'", true),
    Row("all conditions must be covered", "hosts = ['a']\nports = [80]", "hosts = ['a']", false),
  ]

  private func warnings(_ bodies: [String]) -> [String] {
    var text = ""
    for (number, body) in bodies.enumerated() { text += "[[rule]]\nname = \"r\(number)\"\n\(body)\n" }
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    #expect(result.policy != nil)
    return result.diagnostics.map(\.message).filter { $0.contains("never match") }
  }

  @Test(arguments: rows) func aRuleIsShadowedOrNot(row: Row) {
    let expected = "rule 'r1' can never match: rule 'r0' at s.toml:1 comes first and matches all that it does"
    #expect(warnings([row.first, row.second]) == (row.isShadowed ? [expected] : []))
  }

  @Test func theDiagnosticStandsAtTheRule() {
    LoadRow(
      "a catch-all first", "[[rule]]\nname = \"all\"\n\n  [[rule]]\n  name = \"late\"\n  hosts = [\"a\"]",
      "4:3: warning: rule 'late' can never match: rule 'all' at s.toml:1 comes first and matches all that it does"
    ).check()
  }

  @Test func theFirstThatShadowsIsNamed() {
    #expect(
      warnings(["hosts = ['x']", "hosts = ['**.b']", "hosts = ['*']", "hosts = ['a.b']"]) == [
        "rule 'r3' can never match: rule 'r1' at s.toml:4 comes first and matches all that it does"
      ])
  }

  @Test func aRuleWithAnErrorIsLeftOut() {
    let text = "[[rule]]\nname = \"a\"\nports = [0]\n[[rule]]\nname = \"b\"\nports = [80]"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    #expect(result.diagnostics.map(\.location.line) == [3])
  }

  private static let askers: [(LocalClient?, ReachabilityStatus)] = [
    (nil, .unknown), (LocalClient(userID: 0, user: "root", cgroup: ["b.slice", "a.service"]), .wired),
    (LocalClient(userID: 1001, user: "kiosk", cgroup: ["b.slice"]), .wifi),
    (LocalClient(userID: 1001, user: "kiosk", cgroup: ["a.service"]), .wifi),
    (LocalClient(userID: 1002, user: nil, cgroup: []), .notReachable),
  ]

  /// What is reported is true: no request finds its way past the earlier rule to the later one.
  @Test func aShadowedRuleNeverDecides() throws {
    for row in Self.rows where row.isShadowed {
      let text = "[[rule]]\nname = \"r0\"\n\(row.first)\n[[rule]]\nname = \"r1\"\n\(row.second)"
      let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
      let policy = try #require(result.policy)
      for host in ["a", "b", "a.b", "x.a.b", "x.y.a.b", "10.1.2.3", "[2001:db8::1]"] {
        for isTunnel in [false, true] {
          for scheme in Scheme.allCases where !isTunnel || scheme == .https {
            for port in [80, 443] as [UInt16] {
              for path in ["/a", "/ab", "/a/b", "/a/x/c"] {
                for (client, link) in Self.askers {
                  let explanation = Explanation(
                    by: policy, method: isTunnel ? "CONNECT" : "GET", scheme: scheme, host: canonical(host), port: port,
                    path: isTunnel ? "" : path, isTunnel: isTunnel,
                    Asker(Sender(client: client), link: link))
                  #expect(explanation.decision.rule != 1, "\(row.testDescription): \(host) \(path)")
                }
              }
            }
          }
        }
      }
    }
  }
}
