// Deciding: the first rule whose every condition holds, alone; and the index against a scan of all rules.

import Bytes
import Testing

@testable import Policy

/// A rule that stands nowhere.
func rule(
  _ name: String, _ conditions: Rule.Conditions = Rule.Conditions(), action: RuleAction = .allow,
  enforce: Bool = true,
  connect: ConnectTreatment? = nil
) -> Rule {
  Rule(
    name: name, location: .init(file: "t.toml", line: 1, column: 1), conditions: conditions, action: action,
    enforce: enforce,
    connect: connect)
}

@Suite struct PolicyTests {
  private func decide(
    _ policy: Policy, _ method: String, _ scheme: Scheme, _ host: String, _ port: UInt16, _ path: String
  ) -> Decision {
    var workspace = DecisionWorkspace()
    workspace.host = canonical(host)
    let method = Array(method.utf8)
    let path = Array(path.utf8)
    let facts = RequestFacts(
      scheme: scheme, port: port, method: method.span, path: path.span,
      isTunnel: method == Array("CONNECT".utf8))
    return policy.decide(facts, in: &workspace)
  }

  private func name(_ policy: Policy, _ decision: Decision) -> String? {
    decision.rule.map { policy.rules[$0].name }
  }

  @Test func theFirstRuleWhoseEveryConditionHoldsDecides() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "port"
      hosts = ["**.a.example"]
      ports = [8080]
      [[rule]]
      name = "scheme"
      hosts = ["**.a.example"]
      schemes = ["https"]
      [[rule]]
      name = "method"
      hosts = ["**.a.example"]
      methods = ["POST", "PUT"]
      [[rule]]
      name = "path"
      hosts = ["x.a.example"]
      paths = ["/v1/*", "/v2"]
      [[rule]]
      name = "name"
      hosts = ["x.a.example", "*.a.example"]
      [[rule]]
      name = "any"
      ports = [80]
      """)
    let rows: [(String, Scheme, String, UInt16, String, String?)] = [
      ("GET", .http, "x.a.example", 8080, "/", "port"), ("GET", .https, "x.a.example", 443, "/", "scheme"),
      ("POST", .http, "x.a.example", 80, "/v1/", "method"), ("post", .http, "x.a.example", 80, "/", "name"),
      ("GET", .http, "x.a.example", 80, "/v1/a", "path"), ("GET", .http, "x.a.example", 80, "/v2", "path"),
      ("GET", .http, "x.a.example", 80, "/v2/", "name"), ("GET", .http, "y.a.example", 80, "/v2", "name"),
      ("GET", .http, "a.example", 80, "/", "any"), ("GET", .http, "b.example", 80, "/", "any"),
      ("GET", .http, "b.example", 81, "/", nil), ("CONNECT", .https, "x.a.example", 443, "", "scheme"),
      ("CONNECT", .https, "b.example", 80, "", "any"), ("CONNECT", .https, "b.example", 443, "", nil),
    ]
    for (method, scheme, host, port, path, expected) in rows {
      let decision = decide(policy, method, scheme, host, port, path)
      #expect(name(policy, decision) == expected, "\(method) \(host):\(port)\(path)")
      #expect(decision.verdict == .allow)
      #expect(decision.reason == (expected == nil ? .defaultAllow : .rule))
    }
  }

  @Test func aTunnelPassesRulesWithMethodsOrPathsUnlessConnectIsSet() throws {
    for condition in ["methods = ['GET']", "paths = ['/x']", "methods = ['GET']\npaths = ['/x']"] {
      let silent = try loaded("[[rule]]\nname = 'a'\n\(condition)\n[[rule]]\nname = 'b'\nconnect = 'deny'")
      #expect(name(silent, decide(silent, "CONNECT", .https, "h", 443, "")) == "b")
      #expect(decide(silent, "CONNECT", .https, "h", 443, "").reason == .connectDenied)
      let set = try loaded(
        "[[rule]]\nname = 'a'\n\(condition)\nconnect = 'tunnel'\n[[rule]]\nname = 'b'\nconnect = 'deny'")
      #expect(name(set, decide(set, "CONNECT", .https, "h", 443, "")) == "a")
      #expect(name(set, decide(set, "POST", .http, "h", 80, "/")) == "b")
    }
  }

  @Test(arguments: [
    ("action = 'deny'", "GET", Decision.Verdict.deny, Decision.Reason.ruleDenies),
    ("action = 'deny'", "CONNECT", .deny, .ruleDenies),
    ("action = 'deny'\nenforce = false", "GET", .allow, .ruleWouldDeny),
    ("action = 'deny'\nenforce = false", "CONNECT", .allow, .ruleWouldDeny),
    ("connect = 'deny'", "GET", .allow, .rule), ("connect = 'deny'", "CONNECT", .deny, .connectDenied),
    ("connect = 'deny'\nenforce = false", "CONNECT", .allow, .ruleWouldDeny),
    ("connect = 'tunnel'", "CONNECT", .allow, .rule), ("", "GET", .allow, .rule),
  ]) func theVerdictHasItsReason(
    body: String, method: String, verdict: Decision.Verdict, reason: Decision.Reason
  ) throws {
    let policy = try loaded("[[rule]]\nname = 'a'\n\(body)")
    let decision = decide(policy, method, .https, "h", 443, method == "CONNECT" ? "" : "/")
    #expect(decision == Decision(verdict: verdict, reason: reason, rule: 0))
  }

  @Test func theDefaultIsWhatProxySays() throws {
    let open = try loaded("[[rule]]\nname = 'a'\nhosts = ['x']\naction = 'deny'")
    #expect(
      decide(open, "GET", .http, "y", 80, "/") == Decision(verdict: .allow, reason: .defaultAllow, rule: nil))
    let closed = try loaded("proxy.default = 'deny'\n[[rule]]\nname = 'a'\nhosts = ['x']")
    #expect(
      decide(closed, "GET", .http, "y", 80, "/") == Decision(verdict: .deny, reason: .defaultDeny, rule: nil))
    #expect(decide(closed, "GET", .http, "x", 80, "/").verdict == .allow)
    #expect(decide(try loaded("proxy.default = 'deny'"), "GET", .http, "y", 80, "/").reason == .defaultDeny)
  }

  @Test func theRequestPolicyIsThatOfTheDecidingRule() throws {
    let policy = try loaded(
      "[defaults.request]\ntimeout = '1s'\n[[rule]]\nname = 'a'\nhosts = ['x']\nrequest.timeout = '2s'")
    #expect(policy.request(of: decide(policy, "GET", .http, "x", 80, "/")).timeoutMilliseconds == 2000)
    #expect(policy.request(of: decide(policy, "GET", .http, "y", 80, "/")).timeoutMilliseconds == 1000)
  }

  @Test func aRulesOwnListOfAddressesComesInsteadOfTheProxys() throws {
    let policy = try loaded(
      "[[rule]]\nname = 'a'\nports = [2]\ndeny_addresses = ['10.0.0.0/8']\n[[rule]]\nname = 'b'")
    let metadata = try #require(IPAddress("169.254.169.254"))
    let inside = try #require(IPAddress("::ffff:10.0.0.1"))
    #expect(policy.denyingBlock(metadata, rule: 0, isOwn: { _ in false }) == nil)
    #expect(policy.denyingBlock(inside, rule: 0, isOwn: { _ in false })?.description == "10.0.0.0/8")
    #expect(policy.denyingBlock(metadata, rule: 1, isOwn: { _ in false })?.description == "169.254.0.0/16")
    #expect(policy.denyingBlock(metadata, rule: nil, isOwn: { _ in false })?.description == "169.254.0.0/16")
    #expect(policy.denyingBlock(inside, rule: nil, isOwn: { _ in false }) == nil)
  }

  @Test func theLongestAdditionIsKnown() throws {
    let policy = try loaded(
      "[defaults.request]\nuser_agent = 'ab'\n[[rule]]\nname = 'a'\nrequest.user_agent = 'abcd'")
    #expect(policy.longestAddition == "User-Agent: abcd\r\n".utf8.count)
  }

  // MARK: The index

  /// A small generator, so that a failure can be run again.
  private struct Random: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return state ^ state >> 29
    }
  }

  private func pattern(_ random: inout Random) -> HostPattern {
    let name = host(&random, labels: 1...4)
    switch Int.random(in: 0..<12, using: &random) {
    case 0: return .block(block(&random, isIPv4: true))
    case 1: return .block(block(&random, isIPv4: false))
    case 2...4: return .oneLabelBelow(name)
    case 5...7: return .atOrBelow(name)
    default: return .name(name)
    }
  }

  private func host(_ random: inout Random, labels: ClosedRange<Int>) -> String {
    (0..<Int.random(in: labels, using: &random)).map { _ in "l\(Int.random(in: 0..<12, using: &random))" }
      .joined(separator: ".")
  }

  private func address(_ random: inout Random, isIPv4: Bool) -> IPAddress {
    let bits = UInt64.random(in: 0...7, using: &random)
    if isIPv4 { return IPAddress(ipv4: UInt32(bits << 28 | UInt64.random(in: 0...3, using: &random))) }
    if bits == 7 {
      return IPAddress(ipv6High: 0, low: 0xffff << 32 | UInt64.random(in: 0...7, using: &random) << 28)
    }
    return IPAddress(ipv6High: bits << 61, low: UInt64.random(in: 0...3, using: &random))
  }

  private func block(_ random: inout Random, isIPv4: Bool) -> AddressBlock {
    let address = address(&random, isIPv4: isIPv4)
    let length = Int.random(in: 0...address.width, using: &random)
    return AddressBlock(address: AddressBlock.masked(address, length), length: length)!
  }

  @Test func tenThousandRulesDecideAsAScanDoes() {
    var random = Random(state: 42)
    let rules = (0..<10_000).map { number in
      var conditions = Rule.Conditions()
      conditions.hosts = (0..<Int.random(in: 1...3, using: &random)).map { _ in pattern(&random) }
      conditions[PortCondition.self] = PortCondition(ports: [UInt16.random(in: 1...400, using: &random)])
      if number > 9_900, number % 9 == 0 { conditions.hosts = number % 2 == 0 ? [] : [.any] }
      return rule("r\(number)", conditions)
    }
    let policy = Policy(rules: rules)
    var decided = 0
    for _ in 0..<500 {
      let kind = Int.random(in: 0..<6, using: &random)
      let text =
        kind == 0
        ? "\(address(&random, isIPv4: true))"
        : kind == 1 ? "[\(address(&random, isIPv4: false))]" : host(&random, labels: 1...6)
      let port = UInt16.random(in: 1...400, using: &random)
      let host = canonical(text)
      let expected = rules.firstIndex { rule in
        rule.conditions.values(of: PortCondition.self).contains(port)
          && (rule.conditions.hosts.isEmpty || rule.conditions.hosts.contains { $0.matches(host) })
      }
      let decision = decide(policy, "GET", .http, text, port, "/")
      if decision.rule != expected { Issue.record("\(text):\(port): \(String(describing: decision.rule))") }
      if expected != nil { decided += 1 }
    }
    #expect(decided > 150, "the hosts must hit rules, or nothing is compared")
  }

  // MARK: Paths

  @Test(arguments: [
    ("/a", ["/a"], ["/a/", "/A", "/", "/ab", ""]), ("/a/*", ["/a/", "/a/b", "/a/b/c"], ["/a", "/b/"]),
    ("*", ["", "/", "/a/b"], []), ("*.html", ["/a.html", ".html", "/a.html.html"], ["/a.htm", "/a.html/"]),
    ("/*/b/*", ["/a/b/c", "//b/", "/a/b/b/"], ["/a/b", "/b/c"]), ("/a**b", ["/ab", "/axb"], ["/a"]),
    ("/*a*a*a", ["/aaa", "/xaxaxa"], ["/aa", "/aaab"]), ("/a*", ["/a", "/a%2f", "/a*"], ["/"]),
  ]) func aPathPatternMatchesWholePaths(pattern: String, yes: [String], no: [String]) {
    let pattern = PathPattern(pattern)
    for (paths, expected) in [(yes, true), (no, false)] {
      for path in paths {
        let isMatch = pattern.matches(Array(path.utf8).span)
        #expect(isMatch == expected, "\(pattern) \(path)")
      }
    }
  }

  @Test(.timeLimit(.minutes(1))) func manyWildcardsStayBounded() {
    let pattern = PathPattern("/" + String(repeating: "*a", count: 16) + "b")
    let isMatch = pattern.matches(Array(("/" + String(repeating: "a", count: 32_000)).utf8).span)
    #expect(!isMatch)
  }

  // MARK: Edits

  @Test func aFieldThatIsSetIsRemovedFirst() {
    var fields = FieldEdits()
    fields.set("X-A", Array("1".utf8))
    fields.set("x-a", Array("2".utf8))
    fields.setDefault("X-B", Array("3".utf8))
    fields.setDefault("X-b", Array("4".utf8))
    fields.remove("X-C")
    fields.remove("x-c")
    #expect(fields.removed.map { String(decoding: $0, as: UTF8.self) } == ["x-a", "x-c"])
    #expect(lines(fields) == ["remove x-c", "set x-a: 2", "default X-b: 4"])
    #expect(fields.addedBytes == "x-a: 2\r\nX-b: 4\r\n".utf8.count)
    #expect(!fields.isEmpty && FieldEdits().isEmpty)
  }
}
