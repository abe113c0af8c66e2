// action = "ask": what is one question, what an answer holds for, what the configuration may say, and that the rule
// which is advised allows what it was written for and nothing beside it.

import Bytes
import Testing

@testable import Policy

@Suite struct AskingTests {
  static let ci = LocalClient(userID: 1001, user: "kiosk", cgroup: ["system.slice", "ci.service"])
  static let other = LocalClient(userID: 1002, user: "till", cgroup: ["system.slice", "till.service"])
  static let asks = "[[rule]]\nname = \"ask\"\naction = \"ask\"\n"
  static let denies = "[proxy]\ndefault = \"deny\"\n"

  private func named(_ request: String) throws -> NamedRequest {
    let parts = request.split(separator: " ")
    return try NamedRequest.read(method: String(parts[0]), url: String(parts[1])).get()
  }

  private func asked(_ request: String, _ client: LocalClient? = ci, from address: IPAddress? = nil) throws
    -> AskedRequest
  {
    AskedRequest(try named(request), of: Sender(client: client, address: address), isIntercepted: true)
  }

  /// Thousands of questions may wait, and temporary rules are in a file of bounded size.
  @Test func aLongMethodIsAskedAboutByItsDigest() throws {
    let (one, other) = (String(repeating: "A", count: 65), String(repeating: "A", count: 60_000))
    let long = try asked("\(other) http://a.example/")
    #expect(long.method.utf8.count == 65 && long.method.hasPrefix("~"))
    let (same, shorter) = (try asked("\(other) http://a.example/"), try asked("\(one) http://a.example/"))
    #expect(long == same && long != shorter)
    #expect(long.rule(connect: nil) == nil, "no rule can name it")
    let denial = try #require(long.temporaryRule(.deny, id: 1, since: 0, until: 100, by: "root"))
    #expect(try outcome(loaded(""), [denial], "\(other) http://a.example/") == "deny temporary-deny")
    #expect(try outcome(loaded(""), [denial], "\(one) http://a.example/") == "allow default")
    let short = String(repeating: "A", count: 64)
    #expect(try asked("\(short) http://a.example/").method == short)
  }

  private func temporary(
    _ verdict: TemporaryRule.Verdict, _ host: String = "a.example", until: Int64 = 100,
    _ change: (inout TemporaryRule) -> Void = { _ in }
  ) throws -> TemporaryRule {
    var rule = TemporaryRule(
      id: 1, verdict: verdict, host: try HostPattern.parse(host).get(), since: 0, until: until, by: "root")
    change(&rule)
    return rule
  }

  /// What comes of a request: `allow rule`, `deny temporary-deny`.
  private func outcome(
    _ policy: Policy, _ rules: [TemporaryRule], _ request: String, _ client: LocalClient? = ci,
    from address: IPAddress? = nil, wall: Int64 = 50
  ) throws -> String {
    let request = try named(request)
    let method = Array(request.method.utf8)
    let path = Array(request.path.utf8)
    var workspace = DecisionWorkspace()
    workspace.host = request.host
    let facts = RequestFacts(
      scheme: request.isHTTPS ? .https : .http, port: request.port, method: method.span, path: path.span,
      isTunnel: request.isTunnel, sender: Sender(client: client, address: address))
    let decision = policy.decide(facts, in: &workspace)
    let amended = TemporaryRules(rules).amend(decision, facts, wall: wall, in: &workspace)
    return "\(amended.decision.verdict.rawValue) \(amended.decision.reason.rawValue)"
  }

  // MARK: Rules that ask come last

  @Test func whatAnyRuleDecidesIsNeverAskedAbout() throws {
    let policy = try loaded(
      Self.denies + Self.asks
        + """
        [[rule]]
        name = "yes"
        hosts = ["yes.example"]
        [[rule]]
        name = "no"
        hosts = ["no.example"]
        action = "deny"
        """)
    #expect(try outcome(policy, [], "GET http://yes.example/") == "allow rule")
    #expect(try outcome(policy, [], "GET http://no.example/") == "deny rule-denies")
    #expect(try outcome(policy, [], "GET http://else.example/") == "ask rule-asks")
    #expect(try outcome(policy, [], "CONNECT else.example:443") == "ask rule-asks")
    #expect(try outcome(policy, [], "CONNECT else.example:25") == "deny port-not-listed")
  }

  @Test func twoRulesThatAskAreTriedInTheirOrder() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "first"
      hosts = ["a.example"]
      action = "ask"
      [[rule]]
      name = "second"
      action = "ask"
      [[rule]]
      name = "plain"
      hosts = ["b.example"]
      """)
    #expect(policy.rules.map(\.name) == ["plain", "first", "second"])
  }

  @Test func whatIsNotEnforcedAsksNobody() throws {
    let policy = try loaded(Self.asks + "enforce = false")
    #expect(try outcome(policy, [], "GET http://a.example/") == "allow rule-would-ask")
  }

  @Test func aTunnelThatIsReadIsGranted() throws {
    let decision = Decision(verdict: .ask, reason: .ruleAsks, rule: 0)
    #expect(decision.asTunnel(connect: .intercept).reason == .asksInside)
    #expect(decision.asTunnel(connect: .intercept).verdict == .allow)
    for connect in [ConnectTreatment.tunnel, .verify, nil] { #expect(decision.asTunnel(connect: connect) == decision) }
  }

  // MARK: What the configuration may say

  @Test func theTermsAreRead() throws {
    let policy = try loaded(
      "[proxy]\ncontact = \"ops\"\nstate = \"/var/x\"\n" + Self.asks + "[rule.ask]\nwait = \"5m\"\nremember = \"0s\"\n")
    #expect(policy.rules[0].ask.waitMilliseconds == 300_000)
    #expect(policy.rules[0].ask.rememberMilliseconds == 0)
    #expect(policy.configuration.proxy.contact == "ops")
    #expect(policy.configuration.proxy.state == "/var/x")
    let usual = try loaded(Self.asks)
    #expect(usual.rules[0].ask == AskTerms())
    #expect(AskTerms().waitMilliseconds == 30_000 && AskTerms().rememberMilliseconds == 600_000)
  }

  @Test(arguments: [("1s", true), ("1d", true), ("999ms", false), ("25h", false), ("0s", false), ("x", false)])
  func theWaitIsFromASecondToADay(text: String, isGood: Bool) {
    let source = Self.asks + "[rule.ask]\nwait = \"\(text)\"\n"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": source]))
    #expect((result.policy != nil) == isGood, "\(result.diagnostics)")
  }

  @Test func whatDoesNothingIsWarnedOf() {
    func warnings(_ text: String) -> String {
      let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
      #expect(result.policy != nil)
      return result.diagnostics.map(\.description).joined(separator: "\n")
    }
    let terms = warnings("[[rule]]\nname = \"a\"\nhosts = [\"a.example\"]\n[rule.ask]\nwait = \"1m\"\n")
    #expect(terms.contains("warning: [rule.ask] has no effect without action = \"ask\""), "\(terms)")
    let covered = warnings(Self.asks + "hosts = [\"a.example\"]\n[[rule]]\nname = \"all\"\nhosts = [\"**.example\"]\n")
    #expect(covered.contains("warning: rule 'ask' never asks: rule 'all'"), "\(covered)")
    let fine = warnings(Self.asks + "[[rule]]\nname = \"some\"\nhosts = [\"a.example\"]\n")
    #expect(!fine.contains("never"), "\(fine)")
  }

  // MARK: One question

  static let pairs: [(String, String, isSame: Bool)] = [
    ("GET http://a.example/x", "GET http://A.Example:80/x?q=1", true),
    ("GET http://a.example/users/17", "GET http://a.example/users/18", true),
    ("GET http://a.example/c/0f1e2d3c", "GET http://a.example/c/a1b2c3d4", true),
    (
      "GET http://a.example/01234567-89ab-cdef-0123-456789abcdef",
      "GET http://a.example/76543210-89ab-cdef-0123-456789abcdef", true
    ),
    ("GET http://a.example/x", "GET http://a.example/y", false),
    ("GET http://a.example/x", "POST http://a.example/x", false),
    ("GET http://a.example/x", "GET http://b.example/x", false),
    ("GET http://a.example/x", "GET http://a.example:8080/x", false),
    ("GET http://a.example/x", "GET https://a.example/x", false),
    ("GET http://a.example:443/x", "GET https://a.example/x", false),
    ("GET https://a.example/x", "CONNECT a.example:443", false),
    ("CONNECT a.example:443", "CONNECT A.example:443", true),
    ("CONNECT a.example:443", "CONNECT a.example:8443", false),
    ("GET http://a.example/users/17", "GET http://a.example/users/17/delete", false),
  ]

  @Test(arguments: pairs) func requestsThatAskTheSame(one: String, two: String, isSame: Bool) throws {
    #expect((try asked(one) == asked(two)) == isSame)
    #expect(try asked(one) != asked(one, Self.other))
    #expect(try asked(one) != asked(one, nil, from: IPAddress("192.0.2.1")))
  }

  @Test func onlyUnitsThatLastAreNamed() throws {
    func unit(_ cgroup: [String]?) throws -> String? {
      try asked("GET http://a.example/", LocalClient(userID: 1001, user: "kiosk", cgroup: cgroup)).unit
    }
    #expect(try unit(["system.slice", "ci.service"]) == "ci.service")
    #expect(try unit(["user.slice", "session-3.scope"]) == nil)
    #expect(try unit(["system.slice", "run-r17.service"]) == nil)
    #expect(try unit(nil) == nil)
  }

  @Test func whoIsInDoubtIsNotRemembered() throws {
    for client in [
      LocalClient.unknown, LocalClient(userID: 1001, user: "kiosk", cgroup: nil),
      LocalClient(userID: 1001, user: "kiosk", cgroup: ["ci.service"], isUserInDoubt: true),
    ] {
      let request = try asked("GET http://a.example/", client)
      #expect(request.isInDoubt)
      #expect(request.temporaryRule(.allow, id: 1, since: 0, until: 100, by: "root") == nil)
    }
  }

  // MARK: What an answer holds for

  private func answer(_ verdict: TemporaryRule.Verdict, _ request: String, _ client: LocalClient? = ci) throws
    -> TemporaryRule
  {
    try #require(
      try asked(request, client, from: client == nil ? IPAddress("192.0.2.1") : nil)
        .temporaryRule(verdict, id: 1, since: 0, until: 100, by: "root"))
  }

  /// An answer holds for the same question: as in `pairs`.
  @Test(arguments: pairs, [TemporaryRule.Verdict.allow, .deny])
  func anAnswerHoldsForTheSameQuestionAlone(
    pair: (String, String, isSame: Bool), verdict: TemporaryRule.Verdict
  ) throws {
    let policy = try loaded(Self.asks)
    let rules = [try answer(verdict, pair.0)]
    let answered = verdict == .allow ? "allow temporary-allow" : "deny temporary-deny"
    #expect(try outcome(policy, rules, pair.0) == answered)
    #expect(try outcome(policy, rules, pair.1) == (pair.isSame ? answered : "ask rule-asks"))
    #expect(try outcome(policy, rules, pair.0, Self.other) == "ask rule-asks")
    #expect(try outcome(policy, rules, pair.0, nil) == "ask rule-asks")
  }

  @Test func anAnswerToAClientElsewhereHoldsForItsAddress() throws {
    let policy = try loaded(Self.asks)
    let rules = [try answer(.allow, "GET http://a.example/x", nil)]
    func of(_ address: String) throws -> String {
      try outcome(policy, rules, "GET http://a.example/x", nil, from: IPAddress(address))
    }
    #expect(try of("192.0.2.1") == "allow temporary-allow")
    #expect(try of("192.0.2.2") == "ask rule-asks")
  }

  @Test func aPermissionHoldsWhereNoRuleDecides() throws {
    let rules = [try temporary(.allow, "**.example")]
    let text = """
      [[rule]]
      name = "no"
      hosts = ["no.example"]
      action = "deny"
      [[rule]]
      name = "shut"
      hosts = ["shut.example"]
      connect = "deny"
      """
    let policy = try loaded(Self.denies + text)
    #expect(try outcome(policy, rules, "GET http://a.example/") == "allow temporary-allow")
    #expect(try outcome(policy, [], "GET http://a.example/") == "deny default-denies")
    #expect(try outcome(policy, rules, "GET http://no.example/") == "deny rule-denies")
    #expect(try outcome(policy, rules, "CONNECT no.example:443") == "deny rule-denies")
    #expect(try outcome(policy, rules, "CONNECT shut.example:443") == "deny connect-denied")
    #expect(try outcome(policy, rules, "CONNECT shut.example:25") == "deny connect-denied")
    let listed = try loaded(Self.denies + "[[rule]]\nname = \"l\"\nhosts = [\"l.example\"]\n")
    #expect(try outcome(listed, rules, "CONNECT l.example:25") == "deny port-not-listed")
    let asking = try loaded(Self.denies + Self.asks)
    #expect(try outcome(asking, rules, "GET http://a.example/") == "allow temporary-allow")
    #expect(try outcome(asking, rules, "GET http://a.test/") == "ask rule-asks")
  }

  @Test func aDenialHoldsWhateverTheRulesAllow() throws {
    let rules = [try temporary(.deny, "**.example")]
    let texts = [
      "", "[[rule]]\nname = \"yes\"\n", Self.asks, Self.asks + "enforce = false\n",
      "[[rule]]\nname = \"would\"\naction = \"deny\"\nenforce = false\n",
    ]
    for text in texts {
      let policy = try loaded(text)
      for request in ["GET http://a.example/", "CONNECT a.example:443", "CONNECT a.example:25"] {
        #expect(try outcome(policy, rules, request) == "deny temporary-deny", "\(text) \(request)")
      }
      #expect(try outcome(policy, rules, "GET http://a.test/") != "deny temporary-deny", "\(text)")
    }
  }

  @Test func aDenialComesBeforeAPermission() throws {
    let policy = try loaded(Self.asks)
    let pair = [try temporary(.allow), try temporary(.deny) { $0.method = "POST" }]
    for rules in [pair, pair.reversed()] {
      #expect(try outcome(policy, rules, "POST http://a.example/") == "deny temporary-deny")
      #expect(try outcome(policy, rules, "GET http://a.example/") == "allow temporary-allow")
    }
  }

  @Test func whatIsOverHoldsNoMore() throws {
    let policy = try loaded(Self.asks)
    for (verdict, word) in [
      (TemporaryRule.Verdict.allow, "allow temporary-allow"), (.deny, "deny temporary-deny"),
    ] {
      let rules = [try temporary(verdict, until: 100)]
      #expect(try outcome(policy, rules, "GET http://a.example/", wall: 99) == word)
      #expect(try outcome(policy, rules, "GET http://a.example/", wall: 100) == "ask rule-asks")
    }
    let both = [try temporary(.allow, until: 200), try temporary(.deny, until: 100)]
    #expect(try outcome(policy, both, "GET http://a.example/", wall: 99) == "deny temporary-deny")
    #expect(try outcome(policy, both, "GET http://a.example/", wall: 100) == "allow temporary-allow")
  }

  static let doubts: [(String, LocalClient)] = [
    ("nothing is known", .unknown),
    ("the user is in doubt", LocalClient(userID: 1002, user: "till", cgroup: ["ci.service"], isUserInDoubt: true)),
    ("the unit is in doubt", LocalClient(userID: 1001, user: "kiosk", cgroup: nil)),
  ]

  /// A client must not gain by keeping the proxy from finding out who it is.
  @Test(arguments: doubts) func doubtIsStrict(name: String, client: LocalClient) throws {
    let policy = try loaded(Self.asks)
    func of(_ verdict: TemporaryRule.Verdict) throws -> String {
      let rule = try temporary(verdict) {
        $0.userID = 1001
        $0.unit = "ci.service"
      }
      return try outcome(policy, [rule], "GET http://a.example/", client)
    }
    #expect(try of(.deny) == "deny temporary-deny", "\(name)")
    #expect(try of(.allow) == "ask rule-asks", "\(name)")
  }

  @Test func aSubordinateUserIsItsOwnerToADenialAndToAPermissionWhereItIsCertain() throws {
    let policy = try loaded(Self.asks)
    let one = LocalClient(userID: 200_000, user: nil, owners: [1001], cgroup: [])
    let several = LocalClient(userID: 200_000, user: nil, owners: [1001, 1002], cgroup: [])
    func of(_ verdict: TemporaryRule.Verdict, _ client: LocalClient) throws -> String {
      try outcome(policy, [try temporary(verdict) { $0.userID = 1001 }], "GET http://a.example/", client)
    }
    #expect(try of(.deny, one) == "deny temporary-deny")
    #expect(try of(.deny, several) == "deny temporary-deny")
    #expect(try of(.allow, one) == "allow temporary-allow")
    #expect(try of(.allow, several) == "ask rule-asks")
  }

  @Test func tunnelsToOtherPortsAreNamed() throws {
    let policy = try loaded(Self.denies)
    func of(_ verdict: TemporaryRule.Verdict, _ port: UInt16?, _ request: String) throws -> String {
      try outcome(policy, [try temporary(verdict) { $0.port = port }], request)
    }
    #expect(try of(.allow, nil, "CONNECT a.example:443") == "allow temporary-allow")
    #expect(try of(.allow, nil, "CONNECT a.example:8443") == "deny default-denies")
    #expect(try of(.allow, 8443, "CONNECT a.example:8443") == "allow temporary-allow")
    #expect(try of(.allow, 8443, "CONNECT a.example:443") == "deny default-denies")
    #expect(try of(.allow, nil, "GET http://a.example:8443/") == "allow temporary-allow")
    let open = try loaded("")
    let denial = [try temporary(.deny)]
    #expect(try outcome(open, denial, "CONNECT a.example:8443") == "deny temporary-deny")
  }

  @Test func aPathWithSeveralReadingsIsJudgedStrictly() throws {
    let policy = try loaded(Self.asks)
    let denial = [try temporary(.deny) { $0.path = "/admin/x" }]
    let permission = [try temporary(.allow) { $0.path = "/open/x" }]
    for path in ["/admin/x", "/%61dmin/x", "/x/../admin/x"] {
      #expect(try outcome(policy, denial, "GET http://a.example\(path)") == "deny temporary-deny", "\(path)")
    }
    #expect(try outcome(policy, permission, "GET http://a.example/open/x") == "allow temporary-allow")
    #expect(try outcome(policy, permission, "GET http://a.example/open/../open/x") == "ask rule-asks")
  }

  /// A denial of a path holds for what servers take for it, as a denial by a rule does.
  @Test(arguments: ["/SECRET", "/secret/", "/secret//", "/%53ecret", "//secret", "/secret;x", "/x/../Secret"])
  func aDenialOfAPathIsLoose(path: String) throws {
    let policy = Policy()
    let denied = try asked("GET http://a.example/secret")
    let rules = [try #require(denied.temporaryRule(.deny, id: 1, since: 0, until: .max, by: "root"))]
    #expect(try outcome(policy, rules, "GET http://a.example\(path)") == "deny temporary-deny")
    for other in ["/secrets", "/x/secret", "/secret/x"] {
      #expect(try outcome(policy, rules, "GET http://a.example\(other)") != "deny temporary-deny", "\(other)")
    }
    let host = CanonicalHost(canonical: Array("a.example".utf8), address: nil)
    let sender = Sender(client: Self.ci)
    #expect(TemporaryRules(rules).deniesRequests(to: host, port: 80, of: sender, wall: 0))
    #expect(!TemporaryRules(rules).deniesRequests(to: host, port: 81, of: sender, wall: 0))
    #expect(!TemporaryRules(rules).deniesRequests(to: host, port: 80, of: Sender(client: Self.other), wall: 0))
    #expect(!TemporaryRules([]).deniesRequests(to: host, port: 80, of: sender, wall: 0))
  }

  /// However either of the two is spelled.
  @Test(arguments: [
    ("/caf%C3%A9", "/%63af%C3%A9"), ("/a%20b", "/%61%20b"), ("/%61dmin", "/admin"), ("/dl/17.*", "/dl/17.*"),
    ("/u/17", "/u/18/"), ("/\(String(repeating: "a", count: 3000))", "/\(String(repeating: "a", count: 3000))"),
  ])
  func aDenialHoldsForOtherSpellings(denied: String, asked spelling: String) throws {
    let request = try asked("GET http://a.example\(denied)")
    let rule = try #require(request.temporaryRule(.deny, id: 1, since: 0, until: .max, by: "root"))
    #expect(try outcome(Policy(), [rule], "GET http://a.example\(spelling)") == "deny temporary-deny")
    #expect(try outcome(Policy(), [rule], "GET http://a.example/other") != "deny temporary-deny")
  }

  /// RFC 9110, 4.2.3: an empty path is "/".
  @Test func anEmptyPathIsTheRoot() throws {
    #expect(try asked("GET http://a.example") == asked("GET http://a.example/"))
  }

  /// What no rule can match is not written: servers read such a path in other ways as well.
  @Test(arguments: ["/x/../y", "/a//b", "/./c", "/a;v=1/b", "/v1./x"]) func noRuleIsAdvisedThatNeverMatches(
    path: String
  ) throws {
    #expect(try asked("GET http://a.example\(path)").rule(connect: nil) == nil)
    #expect(try asked("GET http://a.example\(path)").rule(.deny, connect: nil) != nil)
  }

  // MARK: The narrowest rule

  /// A request, and those beside it that the rule must not let through.
  static let narrow: [(String, beside: [String])] = [
    ("GET http://a.example/x", ["POST http://a.example/x", "GET http://a.example/y", "GET https://a.example/x"]),
    ("GET http://a.example/port", ["GET http://a.example:8080/port"]),
    ("GET https://a.example/port", ["GET https://a.example:8443/port"]),
    ("GET http://a.example/", ["GET http://a.example/x", "GET http://b.example/", "CONNECT a.example:443"]),
    ("GET http://a.example", ["GET http://a.example/x", "GET http://b.example/", "POST http://a.example/"]),
    ("GET http://a.example:8080/x", ["GET http://a.example/x", "GET http://a.example:8081/x"]),
    ("GET http://a.example/x?token=1", ["GET http://a.example/y?token=1"]),
    ("GET https://a.example/x", ["GET http://a.example/x", "POST https://a.example/x", "GET https://a.example/y"]),
    ("GET https://a.example:8443/x", ["GET https://a.example/x"]),
    ("CONNECT a.example:443", ["CONNECT a.example:8443", "CONNECT b.example:443", "GET http://a.example/"]),
    ("CONNECT a.example:8443", ["CONNECT a.example:443"]),
    ("GET http://a.example/users/17", ["GET http://a.example/users", "GET http://a.example/users/17/delete"]),
    ("GET http://a.example/users/17/a.png", ["GET http://a.example/users/17/x/a.png"]),
    ("GET http://a.example/a*b", ["GET http://a.example/axb", "GET http://a.example/ab"]),
    ("GET http://a.example/*", ["GET http://a.example/x"]),
    ("GET http://a.example/a%20b", ["GET http://a.example/a", "GET http://a.example/b"]),
    ("GET http://a.example/a;v=1/b", ["GET http://a.example/a", "GET http://a.example/a/c"]),
    ("GET http://a.example/x//y", ["GET http://a.example/x", "GET http://a.example/x/z"]),
    ("GET http://a.example/dl/17.*", ["GET http://a.example/dl/17.x/y", "GET http://a.example/dl/1.x/below"]),
    ("GET http://a.example/%41", ["GET http://a.example/B"]),
    ("GET http://a.example/1/2/3/4/5/6/7/8/9/10", ["GET http://a.example/x"]),
    ("PROPFIND http://a.example/x", ["GET http://a.example/x"]),
    ("GET http://192.0.2.7/x", ["GET http://192.0.2.8/x"]),
    ("GET http://[2001:db8::7]:8080/x", ["GET http://[2001:db8::8]:8080/x"]),
    ("CONNECT [2001:db8::7]:443", ["CONNECT [2001:db8::8]:443"]),
    ("OPTIONS http://a.example", ["GET http://a.example/"]),
    ("GET http://a.example/quo\"te", ["GET http://a.example/quote"]),
  ]

  @Test(arguments: narrow) func theRuleThatIsAdvisedAllowsWhatItWasWrittenForAlone(
    request: String, beside: [String]
  ) throws {
    guard let question = try? asked(request) else { return }
    let path = question.isTunnel ? nil : try named(request).path
    let text = Self.denies + (question.rule(connect: nil, path: path)?.text ?? "")
    let policy = try loadedRegardless(text)
    #expect(try outcome(policy, [], request) == "allow rule", "\(text)")
    #expect(try outcome(policy, [], request, Self.other) == "deny default-denies", "\(text)")
    #expect(try outcome(policy, [], request, nil) == "deny default-denies", "\(text)")
    for other in beside { #expect(try outcome(policy, [], other) != "allow rule", "\(other): \(text)") }
    // And the rule for all that are asked about as one, if their shape has one: `--always`.
    if let alike = question.rule(connect: nil)?.text {
      let shared = try loadedRegardless(Self.denies + alike)
      #expect(try outcome(shared, [], request) == "allow rule", "\(text)")
      for other in beside where try asked(other) != question {
        #expect(try outcome(shared, [], other) != "allow rule", "\(other): \(text)")
      }
    }
    let denial = try loadedRegardless((question.rule(.deny, connect: nil, path: path)?.text ?? ""))
    #expect(try outcome(denial, [], request) == "deny rule-denies")
    for other in beside { #expect(try outcome(denial, [], other) == "allow default", "\(other)") }
  }

  @Test func howATunnelIsTreatedIsKept() throws {
    let question = try asked("CONNECT a.example:443")
    #expect(question.rule(connect: .verify)?.connect == .verify)
    #expect(question.rule(connect: .deny)?.connect == nil)
    #expect(question.rule(.deny, connect: .verify)?.connect == nil)
  }

  /// A long path is a question of its own, and no rule; a path of many segments is itself. Neither takes long to look at.
  @Test func longPathsAreBounded() throws {
    let many = "/" + String(repeating: "7/", count: 500)
    #expect(try asked("GET http://a.example\(many)").path == many)
    let long = "/" + String(repeating: "a/", count: 30_000)
    let question = try asked("GET http://a.example\(long)")
    #expect(question.path?.utf8.count == 65 && question.rule(connect: nil) == nil)
    #expect(try asked("GET http://a.example\(long)x").path != question.path)
    let rule = try #require(question.temporaryRule(.allow, id: 1, since: 0, until: .max, by: "root"))
    let policy = try loaded(Self.asks)
    #expect(try outcome(policy, [rule], "GET http://a.example\(long)") == "allow temporary-allow")
    #expect(try outcome(policy, [rule], "GET http://a.example\(long)x") == "ask rule-asks")
  }

  /// What releases those who wait is what the next one would be allowed by.
  @Test func aRuleWithoutAPortReleasesTunnelsToThatOfHTTPSAlone() throws {
    let rule = try temporary(.allow)
    #expect(rule.covers(try asked("CONNECT a.example:443")))
    #expect(!rule.covers(try asked("CONNECT a.example:22")))
    #expect(try temporary(.deny).covers(try asked("CONNECT a.example:22")))
  }

  @Test func usersWithoutANameAreNumbers() throws {
    let question = try asked("GET http://a.example/x", LocalClient(userID: 54321, user: nil, cgroup: []))
    #expect(question.rule(connect: nil)?.users == ["54321"])
    let policy = try loadedRegardless(Self.denies + (question.rule(connect: nil)?.text ?? ""))
    #expect(policy.rules[0].conditions[UserCondition.self]?.numbers == [54321])
  }

  @Test func theLongestRequestHasARuleToo() throws {
    let path = "/" + String(repeating: "a", count: 2000)
    let question = try asked("GET http://a.example\(path)")
    _ = try loadedRegardless(Self.denies + (question.rule(connect: nil)?.text ?? ""))
    let name = String(repeating: "n", count: 60) + ".example"
    let long = try asked("GET http://\(name)/")
    _ = try loadedRegardless(Self.denies + (long.rule(connect: nil)?.text ?? ""))
  }
}
