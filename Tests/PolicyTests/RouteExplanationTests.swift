// What `sallyport explain` says of routes, of clients and links that a rule asks for, and of what the question left open.

import Reachability
import Testing

@testable import Policy

@Suite struct RouteExplanationTests {
  private static let text = """
    [trust]
    anchors = "ca.pem"
    [routes.office]
    via = "http://Proxy.Office.example:3128"
    credentials = { username = "HUNTER2", password = "HUNTER2" }
    when = ["wired", "wifi", "unknown"]
    interface = "eth0"
    unreachable = "wait"
    [routes.tls]
    via = "https://[2001:db8::1]"
    security.max_tls = "1.2"
    [routes.lan]
    via = "direct"
    when = ["wired"]
    [[rule]]
    name = "kiosk"
    hosts = ["a.example"]
    users = ["kiosk", 7]
    route = ["office"]
    [[rule]]
    name = "unit"
    hosts = ["a.example"]
    units = ["till.service"]
    paths = ["/till"]
    [[rule]]
    name = "wwan"
    hosts = ["a.example"]
    when = ["wwan", "not-reachable"]
    action = "deny"
    [[rule]]
    name = "both"
    hosts = ["b.example"]
    users = ["kiosk"]
    units = ["till.service"]
    when = ["unknown"]
    route = ["direct", "lan"]
    [[rule]]
    name = "nobody"
    hosts = ["c.example"]
    users = ["ghost"]
    [[rule]]
    name = "rest"
    route = ["office", "tls", "lan", "direct"]
    """

  private func explain(
    _ host: String, _ path: String = "/", _ client: LocalClient? = nil, _ link: ReachabilityStatus? = nil,
    isTunnel: Bool = false
  ) throws -> Explanation {
    var files = SecurityReadingTests.world
    files.files["s.toml"] = Array(Self.text.utf8)
    let result = PolicyLoader.load(path: "s.toml", files: files)
    let policy = try #require(result.policy, "\(result.diagnostics)")
    return Explanation(
      by: policy, method: isTunnel ? "CONNECT" : "GET", scheme: isTunnel ? .https : .http, host: canonical(host),
      port: isTunnel ? 443 : 80, path: isTunnel ? "" : path, isTunnel: isTunnel,
      Asker(Sender(client: client), link: link))
  }

  private static let kiosk = LocalClient(userID: 1001, user: "kiosk", cgroup: [])
  private static let till = LocalClient(userID: LocalClient.noUser, user: nil, cgroup: ["till.service"])
  private static let kioskInTill = LocalClient(userID: 1001, user: "kiosk", cgroup: ["till.service"])

  // MARK: Routes

  private static let ways = """
      route office: by http://proxy.office.example:3128; with credentials; where it is reached by wired, wifi or unknown; \
    from the interface eth0; while it cannot be reached, requests are held for up to 30s
      route tls: by https://[2001:db8::1]:443
        anchors: ca.pem, 1 certificate
        profile: private
        name: validated
        TLS: 1.2
      route lan: straight to the destination; where it is reached by wired
      route direct: straight to the destination
      where no route can be used: refused
      a parent gets names as they are: deny_addresses then holds for addresses in the URL only

    """

  @Test func routesAreToldInTheirOrder() throws {
    let explanation = try explain("d.example", "/x", Self.kioskInTill, .wifi)
    #expect(
      explanation.description == """
        GET http://d.example:80/x

        allowed by rule 'rest' (s.toml:41)

        rules before it that do not match:
          kiosk (s.toml:15): hosts: expected a.example, seen d.example
          unit (s.toml:20): hosts: expected a.example, seen d.example
          wwan (s.toml:25): hosts: expected a.example, seen d.example
          both (s.toml:30): hosts: expected b.example, seen d.example
          nobody (s.toml:37): hosts: expected c.example, seen d.example

        what will be done:

        """ + Self.ways)
    #expect(!explanation.description.contains("HUNTER2") && !explanation.json.contains("HUNTER2"))
  }

  @Test func aTunnelHasRoutesToo() throws {
    let explanation = try explain("d.example", "", isTunnel: true)
    #expect(
      explanation.description.hasSuffix(
        """
        what will be done:
          connect: tunnel; what passes inside is not read or changed
          assurance: none

        """ + Self.ways))
  }

  @Test func whereNothingGoesStraightThatIsSaid() throws {
    let lines = try explain("a.example", "/", Self.kiosk).description.split(separator: "\n").suffix(2)
    #expect(
      lines == [
        "  where no route can be used: refused, because nothing goes straight",
        "  a parent gets names as they are: deny_addresses then holds for addresses in the URL only",
      ])
  }

  @Test func aRuleWithoutParentsSaysNothingOfThem() throws {
    #expect(
      try explain("b.example", "/", Self.kioskInTill, .unknown).description.hasSuffix(
        """
        what will be done:
          route direct: straight to the destination
          route lan: straight to the destination; where it is reached by wired
          where no route can be used: refused

        """))
  }

  @Test func whatIsDeniedTakesNoRoute() throws {
    let explanation = try explain("a.example", "/", nil, .wwan)
    #expect(explanation.routes == nil && !explanation.json.contains("routes"))
  }

  @Test func jsonSaysTheSame() throws {
    #expect(
      try explain("d.example", "/x").json.hasSuffix(
        "\"routes\": [{\"name\": \"office\", \"via\": \"http://proxy.office.example:3128\", \"credentials\": true, "
          + "\"protocols\": null, \"when\": [\"wired\", \"wifi\", \"unknown\"], \"interface\": \"eth0\", \"wait_ms\": 30000, \"security\": null}, "
          + "{\"name\": \"tls\", \"via\": \"https://[2001:db8::1]:443\", \"credentials\": false, "
          + "\"protocols\": [\"h2\", \"http/1.1\"], \"when\": [], "
          + "\"interface\": null, \"wait_ms\": null, \"security\": {\"pins\": null, \"allow_invalid_certificates\": false, "
          + "\"validates_domain_name\": true, \"anchors\": \"ca.pem\", \"profile\": \"private\", "
          + "\"min_tls\": \"1.2\", \"max_tls\": \"1.2\", \"ciphers\": null, \"server_name\": null, \"client_certificate\": null, \"revocation\": \"none\", "
          + "\"enforce\": true}}, "
          + "{\"name\": \"lan\", \"via\": \"direct\", \"credentials\": false, \"protocols\": null, \"when\": [\"wired\"], \"interface\": null, "
          + "\"wait_ms\": null, \"security\": null}, "
          + "{\"name\": \"direct\", \"via\": \"direct\", \"credentials\": false, \"protocols\": null, \"when\": [], \"interface\": null, "
          + "\"wait_ms\": null, \"security\": null}]}, \"address\": null}\n"))
  }

  // MARK: Who asks

  private func passedOver(_ explanation: Explanation) -> [String] {
    explanation.passedOver.map { "\($0.rule): \($0.condition): \($0.expected), \($0.seen)" }
  }

  @Test func aClientThatIsNotMeantIsSeen() throws {
    let client = LocalClient(userID: 8, user: "eve", cgroup: ["user.slice", "session-1.scope"])
    #expect(
      passedOver(try explain("a.example", "/till", client, .wired)).prefix(3) == [
        "kiosk: users: kiosk, 7, eve", "unit: units: till.service, session-1.scope",
        "wwan: when: wwan, not-reachable, wired",
      ])
    let nameless = LocalClient(userID: 9, user: nil, cgroup: [])
    #expect(
      passedOver(try explain("a.example", "/till", nameless)).prefix(3) == [
        "kiosk: users: kiosk, 7, 9", "unit: units: till.service, a client whose unit is not known",
        "wwan: when: wwan, not-reachable, unknown",
      ])
    #expect(
      passedOver(try explain("a.example", "/", Self.till)).prefix(2) == [
        "kiosk: users: kiosk, 7, a user who is not known", "unit: paths: /till, /",
      ])
    #expect(passedOver(try explain("a.example")).first == "kiosk: users: kiosk, 7, a client that is not known")
  }

  // MARK: What was left open

  private func assumed(_ explanation: Explanation) -> [String] {
    explanation.assumptions.map {
      "\($0.option.rawValue): \($0.rules.map { "\($0.rule) at \($0.location.line)" }.joined(separator: ", "))"
    }
  }

  @Test func whatNobodySaidIsTold() throws {
    let kiosk = "kiosk at 15"
    let unit = "unit at 20"
    let wwan = "wwan at 25"
    let both = "both at 30"
    #expect(try assumed(explain("a.example", "/till")) == ["user: \(kiosk)", "unit: \(unit)", "when: \(wwan)"])
    #expect(try assumed(explain("a.example", "/")) == ["user: \(kiosk)", "when: \(wwan)"], "the path is another")
    #expect(try assumed(explain("a.example", "/", nil, .wired)) == ["user: \(kiosk)"])
    #expect(try assumed(explain("a.example", "/", Self.kiosk)) == [], "the first rule decides, and all of it was said")
    #expect(try assumed(explain("a.example", "/till", Self.till)) == ["user: \(kiosk)"])
    #expect(
      try assumed(explain("b.example")) == ["user: \(both)", "unit: \(both)", "when: \(both)"])
    #expect(try assumed(explain("b.example", "/", Self.kiosk, .wifi)) == [], "the link is another")
    #expect(try assumed(explain("b.example", "/", Self.kiosk, .unknown)) == ["unit: \(both)"])
    #expect(
      try assumed(explain("b.example", "/", Self.kioskInTill)) == ["when: \(both)"],
      "the rule that decides does so for links that are not known")
    #expect(try assumed(explain("c.example")) == [], "nobody is meant")
    #expect(try assumed(explain("d.example")) == [])
  }

  @Test func whatIsNotKnownOfATunnelIsNoMatterOfTheClient() throws {
    #expect(
      try assumed(explain("a.example", isTunnel: true)) == ["user: kiosk at 15", "when: wwan at 25"])
  }

  @Test func itStandsBetweenTheRulesAndTheDeeds() throws {
    let explanation = try explain("b.example")
    #expect(
      explanation.description.contains(
        """
          nobody (s.toml:37): hosts: expected c.example, seen b.example

        asked without --user, as of a user that is not known: of another the answer may differ, because rule 'both' (s.toml:30) asks for it
        asked without --unit, as of a unit that is not known: of another the answer may differ, because rule 'both' (s.toml:30) asks for it
        asked without --when, as of a link that is "unknown": of another the answer may differ, because rule 'both' (s.toml:30) asks for it

        what will be done:

        """))
    #expect(
      explanation.json.contains(
        "\"assumed\": [{\"option\": \"user\", \"rules\": [\"both\"]}, "
          + "{\"option\": \"unit\", \"rules\": [\"both\"]}, "
          + "{\"option\": \"when\", \"rules\": [\"both\"]}], \"actions\""))
  }

  @Test func aPolicyWithoutRulesIsExplained() {
    let explanation = Explanation(
      by: Policy(), method: "GET", scheme: .http, host: canonical("a"), port: 80, path: "/", isTunnel: false)
    #expect(explanation.assumptions == [] && explanation.routes == nil)
  }
}
