// [routes.NAME] and `route`: every key, what is said of what it does not take, of keys that contradict each other, and of
// names that refer to nothing.

import Reachability
import Security
import Testing

@testable import Policy

@Suite struct RouteReadingTests {
  /// A rule that lists the route, so that nothing is said of a route that no rule lists.
  static let rule = "\n[[rule]]\nname = \"r\"\nroute = [\"x\"]"
  static let world = SecurityReadingTests.world
  static let pins = SecurityReadingTests.pins

  private func route(_ body: String, _ files: DictionaryFiles = world) throws -> Route {
    let policy = try loaded("[routes.x]\n\(body)\(Self.rule)", files)
    #expect(policy.routes.count == 1)
    return try #require(policy.rules[0].routes.first)
  }

  // MARK: What is read

  @Test func everyKeyIsTaken() throws {
    var files = Self.world
    files.files["password"] = Array("hunter2\n".utf8)
    let route = try route(
      """
      via = "https://Proxy.Example:8443"
      credentials = { username = "kiosk", password = { file = "password" } }
      when = ["wired", "wifi"]
      interface = "eth0.100"
      unreachable = "wait"
      wait = "90s"
      security = { pins = "p", anchors = "ca.pem", min_tls = "1.3", server_name = "office.example" }
      \(Self.pins)
      """, files)
    #expect(route.name == "x")
    #expect(route.parent?.kind == .https && route.parent?.authority == "proxy.example:8443")
    #expect(
      route.parent?.password
        == RouteCredentials(username: Array("kiosk".utf8), password: Array("hunter2".utf8)))
    #expect(route.links == [.wired, .wifi] && route.interface == "eth0.100" && route.waitMilliseconds == 90_000)
    let settings = route.security.settings
    #expect(settings.pinSet?.name == "p" && settings.anchors?.origin == "ca.pem")
    #expect(settings.minimumVersion == .tls13 && settings.serverName == "office.example")
  }

  @Test func digestCredentialsAreNotSentUnasked() throws {
    let credentials = try route(
      "via = \"http://p\"\ncredentials = { scheme = \"digest\", username = \"u\", password = \"p:\" }"
    ).parent?.password
    #expect(credentials?.digest?.username == Array("u".utf8) && credentials?.digest?.password == Array("p:".utf8))
  }

  @Test func aSchemeThatIsNone() {
    let text =
      "[routes.x]\nvia = \"http://p\"\ncredentials = { scheme = \"HUNTER2\", username = \"u\", password = \"p\" }\(Self.rule)"
    let said = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text])).diagnostics
    #expect(
      said.map(\.sentence) == [
        "s.toml:3:26: error: 'scheme' in [routes.x.credentials]: expected \"basic\", \"digest\" or \"negotiate\""
      ])
  }

  @Test func whatIsLeftOutIsTheStandard() throws {
    #expect(try route("via = \"direct\"") == Route(name: "x"))
    let plain = try route("via = \"http://[2001:db8::1]\"")
    #expect(plain.parent?.authority == "[2001:db8::1]:80" && plain.parent?.credentials == nil)
    #expect(plain.links == [] && plain.interface == nil && plain.waitMilliseconds == nil)
    #expect(plain.security.digest == SecurityPolicy.standard.digest)
    #expect(try route("via = \"direct\"\nunreachable = \"fail\"").waitMilliseconds == nil)
    #expect(try route("via = \"direct\"\nunreachable = \"wait\"").waitMilliseconds == 30_000)
  }

  /// [defaults.security] is about origins: pins of every origin are none of a parent's.
  @Test func aParentInheritsNothing() throws {
    let policy = try loaded(
      "[defaults.security]\nmin_tls = \"1.3\"\npins = \"p\"\n\(Self.pins)"
        + "[routes.x]\nvia = \"https://a\"\n[routes.y]\nvia = \"https://b\"\nsecurity.max_tls = \"1.2\"\n"
        + "[[rule]]\nname = \"r\"\nroute = [\"x\", \"y\"]")
    #expect(policy.routes[0].security.settings == SecurityPolicy.Settings())
    #expect(policy.routes[1].security.settings.minimumVersion == .tls12)
    #expect(policy.routes[1].security.settings.maximumVersion == .tls12 && !policy.routes[1].security.isPinning)
    #expect(policy.securityPolicies.count == 3)
  }

  @Test func routesThatSayTheSameShareTheirSecurity() throws {
    let policy = try loaded(
      "[routes.x]\nvia = \"https://a\"\nsecurity.min_tls = \"1.3\"\n[routes.y]\nvia = \"https://b\"\n"
        + "security.min_tls = \"1.3\"\n[[rule]]\nname = \"r\"\nroute = [\"x\", \"y\"]\nsecurity.min_tls = \"1.3\"")
    #expect(policy.routes[0].security === policy.routes[1].security)
    #expect(policy.routes[0].security === policy.rules[0].security)
  }

  @Test func aRuleListsRoutesInItsOrder() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "a"
      hosts = ["a"]
      route = ["y", "direct", "x"]
      [routes.x]
      via = "direct"
      when = ["wifi"]
      [routes.y]
      via = "socks5://y"
      [[rule]]
      name = "b"
      hosts = ["b"]
      route = ["direct"]
      [[rule]]
      name = "c"
      hosts = ["c"]
      """)
    #expect(policy.rules.map { $0.routes.map(\.name) } == [["y", "direct", "x"], ["direct"], []])
    #expect(policy.rules[0].routes[1] == .direct && policy.rules[1].routes == [.direct])
    #expect(policy.routes.map(\.name) == ["y", "x"])
  }

  @Test func aRouteMayStandBehindTheRuleAndInAnotherFile() throws {
    var files = DictionaryFiles(["d/routes.toml": "[routes.x]\nvia = \"http://a\""])
    files.files["d/more.toml"] = Array("[[rule]]\nname = \"s\"\nhosts = [\"s\"]\nroute = [\"z\"]".utf8)
    let policy = try loaded(
      "include = [\"d/*.toml\"]\n[[rule]]\nname = \"r\"\nhosts = [\"r\"]\nroute = [\"x\"]\n[routes.z]\nvia = \"direct\"",
      files)
    #expect(policy.rules.map { $0.routes.map(\.name) } == [["x"], ["z"]])
  }

  @Test(arguments: [("100ms", 100), ("10m", 600_000)] as [(String, Int64)])
  func aWaitHasBounds(text: String, milliseconds: Int64) throws {
    #expect(try route("via = \"direct\"\nunreachable = \"wait\"\nwait = \"\(text)\"").waitMilliseconds == milliseconds)
  }

  @Test(arguments: ["http", "https"]) func basicTakesAnyBytesButAFew(scheme: String) throws {
    let credentials = try route(
      "via = \"\(scheme)://p\"\ncredentials = { username = \"ü\", password = \"a:b \(String(repeating: "p", count: 300))\" }"
    ).parent?.password
    #expect(credentials?.username == Array("ü".utf8) && credentials?.password.count == 304)
  }

  @Test func socksTakesColonsAndControls() throws {
    let credentials = try route(
      "via = \"socks5://p\"\ncredentials = { username = \"a:b\", password = \"\\u0001\(String(repeating: "p", count: 254))\" }"
    ).parent?.password
    #expect(credentials?.username == Array("a:b".utf8) && credentials?.password.count == 255)
  }

  // MARK: What is said of values

  private static let kinds = "expected \"unknown\", \"not-reachable\", \"wwan\", \"wifi\" or \"wired\""
  private static let device = "expected the name of a network device, 1 to 15 bytes without '/', ':' and white space"
  private static let via = ParentAddress.expectation
  private static let direct = "[routes.x]\nvia = \"direct\"\n"

  static let values: [LoadRow] = [
    LoadRow(
      "types",
      "[routes.x]\nvia = [\"direct\"]\ncredentials = {}\nwhen = \"wifi\"\ninterface = 0\nunreachable = true\nwait = 30\n"
        + "security = \"p\"\(rule)",
      "2:7: error: 'via' in [routes.x]: expected a string, found an array",
      "3:15: error: 'credentials' in [routes.x]: 'username' and 'password' must be there",
      "4:8: error: 'when' in [routes.x]: expected an array of strings, found a string",
      "5:13: error: 'interface' in [routes.x]: expected a string, found an integer",
      "6:15: error: 'unreachable' in [routes.x]: expected a string, found a boolean",
      "7:8: error: 'wait' in [routes.x]: expected a duration such as \"10s\" (units ms, s, m, h, d), found an integer",
      "8:12: error: 'security' in [routes.x]: expected a table, found a string"),
    LoadRow(
      "routes that are none", "routes = [\"x\"]", "1:10: error: 'routes': expected a table, found an array"),
    LoadRow(
      "a route that is none", "[routes]\nx = \"http://p\"",
      "2:5: error: 'x' in [routes]: expected a table, found a string"),
    LoadRow(
      "unknown keys", "\(direct)vai = \"direct\"\nunreachble = \"fail\"\(rule)",
      "3:1: error: unknown key 'vai' in [routes.x]; did you mean 'via'?",
      "4:1: error: unknown key 'unreachble' in [routes.x]; did you mean 'unreachable'?"),
    LoadRow(
      "unknown keys of its tables",
      "[routes.x]\nvia = \"https://p\"\nsecurity.pin = \"p\"\ncredentials = { user = { env = \"U\" }, password = { env = \"P\" } }\(rule)",
      "3:10: error: unknown key 'pin' in [routes.x.security]; did you mean 'pins'?",
      "4:15: error: 'credentials' in [routes.x]: 'username' must be there",
      "4:17: error: unknown key 'user' in [routes.x.credentials]; did you mean 'username'?",
      "4:58: error: 'env' in [routes.x.credentials.password]: the environment has no variable 'P'"),
    LoadRow(
      "no way", "[routes.x]\nwhen = [\"wifi\"]\(rule)", "1:9: error: [routes.x] has no 'via'; \(via)"),
    LoadRow("no way and nothing else", "[routes.x]\(rule)", "1:9: error: [routes.x] has no 'via'; \(via)"),
    LoadRow(
      "a way without a scheme", "[routes.x]\nvia = \"proxy:3128\"\(rule)",
      "2:7: error: 'via' in [routes.x]: \(via), found 'proxy:3128'; did you mean 'http://proxy:3128'?"),
    LoadRow(
      "words that are none", "\(direct)when = [\"wired\", \"wlan\"]\nunreachable = \"waits\"\(rule)",
      "3:18: error: 'when' in [routes.x]: \(kinds), found 'wlan'; did you mean 'wwan'?",
      "4:15: error: 'unreachable' in [routes.x]: expected \"fail\" or \"wait\", found 'waits'; did you mean 'wait'?"),
    LoadRow(
      "no link", "\(direct)when = []\(rule)",
      "3:8: error: 'when' in [routes.x]: an empty list matches nothing; leave the key out to match any"),
    LoadRow(
      "a link that is none", "\(direct)when = [\"not-reachable\"]\(rule)",
      "3:8: error: 'when' in [routes.x]: \"not-reachable\" is by no link, and nothing can be sent then, so the route "
        + "would never be used"),
    LoadRow(
      "a link that is none among others", "\(direct)when = [\"wifi\", \"not-reachable\"]\(rule)",
      "3:8: warning: 'when' in [routes.x]: \"not-reachable\" is by no link, and nothing can be sent then, so it has "
        + "no effect here"),
    LoadRow(
      "every link", "\(direct)when = [\"wifi\", \"wwan\", \"wired\", \"unknown\"]\(rule)",
      "3:8: warning: 'when' in [routes.x]: every kind is listed, so this always holds"),
    LoadRow(
      "devices that are none", "\(direct)interface = \"/dev/eth0\"\(rule)",
      "3:13: error: 'interface' in [routes.x]: \(device), found '/dev/eth0'"),
    LoadRow(
      "protocols that are none", "[routes.x]\nvia = \"https://p\"\nprotocols = [\"h2\", \"http/3\"]\(rule)",
      "3:20: error: 'protocols' in [routes.x]: expected \"h2\" or \"http/1.1\", found 'http/3'"),
    LoadRow(
      "no protocols", "[routes.x]\nvia = \"https://p\"\nprotocols = []\(rule)",
      "3:13: error: 'protocols' in [routes.x]: expected at least one, \"h2\" or \"http/1.1\", found an empty array"),
    LoadRow(
      "protocols without a parent", "\(direct)protocols = [\"h2\"]\(rule)",
      "3:13: error: 'protocols' in [routes.x]: there is no parent to offer them to: 'via' is \"direct\"; for origins, "
        + "set 'protocols' in their rule"),
    LoadRow(
      "protocols without TLS", "[routes.x]\nvia = \"http://p\"\nprotocols = [\"http/1.1\"]\(rule)",
      "3:13: error: 'protocols' in [routes.x]: they are offered in the TLS handshake, and http:// has none; use https://, "
        + "or leave this out"),
    LoadRow(
      "waits out of range",
      "\(direct)unreachable = \"wait\"\nwait = \"99ms\"\n[routes.y]\nvia = \"direct\"\nunreachable = \"wait\"\n"
        + "wait = \"11m\"\n[routes.z]\nvia = \"direct\"\nunreachable = \"wait\"\nwait = \"long\"\(rule)\nhosts = [\"a\"]\n"
        + "[[rule]]\nname = \"s\"\nroute = [\"y\", \"z\"]",
      "4:8: error: 'wait' in [routes.x]: expected a duration from 100ms to 10m, found '99ms'",
      "8:8: error: 'wait' in [routes.y]: expected a duration from 100ms to 10m, found '11m'",
      "12:8: error: 'wait' in [routes.z]: expected a duration such as \"10s\" (units ms, s, m, h, d), found 'long'"),
  ]

  @Test(arguments: values) func whatIsSaidOfValues(row: LoadRow) { row.check() }

  // MARK: What is said of a route as a whole

  static let wholes: [LoadRow] = [
    LoadRow(
      "a wait that nothing asks for",
      "\(direct)wait = \"5s\"\n[routes.y]\nvia = \"direct\"\nunreachable = \"fail\"\n"
        + "wait = \"5s\"\n[[rule]]\nname = \"r\"\nroute = [\"x\", \"y\"]",
      "3:8: warning: 'wait' in [routes.x]: it does nothing without unreachable = \"wait\"",
      "7:8: warning: 'wait' in [routes.y]: it does nothing without unreachable = \"wait\""),
    LoadRow(
      "credentials for nobody",
      "\(direct)credentials = { username = { env = \"P\" }, password = { env = \"P\" } }\(rule)",
      "3:15: error: 'credentials' in [routes.x]: there is no parent to show them to: 'via' is \"direct\""),
    LoadRow(
      "security of nobody", "\(direct)[routes.x.security]\nmin_tls = \"1.3\"\(rule)",
      "3:11: error: [routes.x.security]: what an origin is held to is for [rule.security] to say, and 'via' is \"direct\""
    ),
    LoadRow(
      "security without TLS",
      "[routes.x]\nvia = \"http://p\"\nsecurity = { min_tls = \"1.3\" }\n[routes.y]\nvia = \"socks5://p\"\n[routes.y.security]\n"
        + "[[rule]]\nname = \"r\"\nroute = [\"x\", \"y\"]",
      "3:1: error: [routes.x.security]: there is no TLS to a parent by http://, so nothing would be checked; use "
        + "https://, or leave this out",
      "6:11: error: [routes.y.security]: there is no TLS to a parent by socks5://, so nothing would be checked; use "
        + "https://, or leave this out"),
    LoadRow(
      "nothing more is said where the way is not known",
      "[routes.x]\nvia = \"x\"\nsecurity.min_tls = \"1.3\"\(rule)",
      "2:7: error: 'via' in [routes.x]: \(via), found 'x'; did you mean 'http://x'?"),
    LoadRow(
      "security that contradicts itself",
      "[routes.x]\nvia = \"https://p\"\n[routes.x.security]\nallow_invalid_certificates = true\npins = \"q\"\n"
        + "min_tls = \"1.3\"\nmax_tls = \"1.2\"\(rule)",
      "5:8: error: 'pins' in [routes.x.security]: there is no set of pins named 'q'",
      "6:11: error: 'min_tls' in [routes.x.security]: \"1.3\" is above 'max_tls', which is \"1.2\""),
    LoadRow(
      "pins of a parent are used", "[routes.x]\nvia = \"https://p\"\nsecurity.pins = \"p\"\n\(pins)\(rule)"),
    LoadRow(
      "a parent that is the proxy itself",
      "[proxy]\nlisten = [\"127.0.0.1:3128\", \"[::1]:8080\"]\n[routes.x]\nvia = \"http://127.0.0.1:3128\"\n[routes.y]\n"
        + "via = \"http://localhost:8080\"\n[routes.z]\nvia = \"http://localhost:8081\"\n[routes.w]\n"
        + "via = \"http://127.0.0.2:3128\"\n[[rule]]\nname = \"r\"\nroute = [\"x\", \"y\", \"z\", \"w\"]",
      "4:7: warning: 'via' in [routes.x]: this proxy itself listens on 127.0.0.1:3128 ('listen' in [proxy]), so "
        + "requests would come back to it",
      "6:7: warning: 'via' in [routes.y]: this proxy itself listens on [::1]:8080 ('listen' in [proxy]), so requests "
        + "would come back to it"),
    LoadRow(
      "a proxy that listens everywhere",
      "[proxy]\nlisten = [\"0.0.0.0:3128\"]\nallow_remote = true\ncredentials = { file = \"users\" }\n[routes.x]\n"
        + "via = \"http://127.0.0.2:3128\"\(rule)",
      "6:7: warning: 'via' in [routes.x]: this proxy itself listens on 0.0.0.0:3128 ('listen' in [proxy]), so requests "
        + "would come back to it"),
  ]

  @Test(arguments: wholes) func whatIsSaidOfARouteAsAWhole(row: LoadRow) {
    var files = Self.world
    files.variables["P"] = "p"
    files.files["users"] = Array("u:p\n".utf8)
    row.check(files)
  }

  @Test(arguments: [
    ("http", "u:x", "p", "'username': a user name must not hold ':' (RFC 7617, 2)"),
    ("https", "u", "p\\u0007", "'password': it must not hold control characters (RFC 7617, 2)"),
    ("http", "u\\n", "p", "'username': it must not hold control characters (RFC 7617, 2)"),
    ("http", "u", String(repeating: "p", count: 13_000), "a header value may have at most 16384 bytes"),
    ("digest http", "u:x", "p", "'username': a user name must not hold ':' (RFC 7616, 3.4.2)"),
    ("digest https", "u", "p\\u0007", "'password': it must not hold control characters (RFC 7616, 4)"),
    (
      "digest socks5", "u", "p",
      "'scheme': SOCKS knows no schemes, only user name and password (RFC 1929); leave it out"
    ),
    ("socks5", "", "p", "'username': SOCKS takes 1 to 255 bytes (RFC 1929, 2), found 0"),
    (
      "socks5", String(repeating: "u", count: 256), "p",
      "'username': SOCKS takes 1 to 255 bytes (RFC 1929, 2), found 256"
    ),
    (
      "socks5", "u", String(repeating: "p", count: 256),
      "'password': SOCKS takes 1 to 255 bytes (RFC 1929, 2), found 256"
    ),
  ]) func credentialsFitTheProtocol(scheme: String, username: String, password: String, fault: String) {
    let isDigest = scheme.hasPrefix("digest ")
    let text =
      "[routes.x]\nvia = \"\(scheme.replacing("digest ", with: ""))://p\"\ncredentials = { username = \"\(username)\", "
      + "\(isDigest ? "scheme = \"digest\", " : "")password = \"\(password)\" }\(Self.rule)"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    #expect(
      result.diagnostics.map(\.sentence) == ["s.toml:3:15: error: 'credentials' in [routes.x]: \(fault)"])
  }

  // MARK: Names

  private static let names = "expected 1 to 64 ASCII letters, digits, '.', '_', ':' and '-'"

  static let references: [LoadRow] = [
    LoadRow(
      "names that are none", "[routes.\"a b\"]\nvia = \"direct\"\n[routes.direct]\nvia = \"direct\"",
      "1:9: error: [routes]: \(names) in the name of a route, found 'a b'",
      "3:9: error: [routes.direct]: the name is reserved: a rule may list \"direct\" without a table of that name"),
    LoadRow(
      "a route that no rule lists", "\(direct)[[rule]]\nname = \"r\"\nroute = [\"direct\"]",
      "1:9: warning: [routes.x]: no rule lists this route, so it has no effect"),
    LoadRow(
      "a route that a rule with an error lists", "\(direct)[[rule]]\nname = \"r\"\nroute = [\"x\"]\nports = [0]",
      "6:10: error: 'ports' in [rule]: expected an integer from 1 to 65535, found 0"),
    LoadRow(
      "names that refer to nothing",
      "[routes.office]\nvia = \"direct\"\n[[rule]]\nname = \"r\"\nroute = [\"offices\", \"dircet\", \"none\", \"Direct\"]",
      "1:9: warning: [routes.office]: no rule lists this route, so it has no effect",
      "5:10: error: 'route' in [rule]: there is no route named 'offices'; did you mean 'office'?",
      "5:21: error: 'route' in [rule]: there is no route named 'dircet'; did you mean 'direct'?",
      "5:31: error: 'route' in [rule]: there is no route named 'none'",
      "5:39: error: 'route' in [rule]: there is no route named 'Direct'; did you mean 'direct'?"),
    LoadRow(
      "a route with an error is there all the same", "[routes.x]\nvia = \"http://\"\(rule)",
      "2:7: error: 'via' in [routes.x]: 'http://' names no host"),
    LoadRow(
      "a route twice in one list", "\(direct)[[rule]]\nname = \"r\"\nroute = [\"x\", \"direct\", \"x\", \"direct\"]",
      "5:25: warning: 'route' in [rule]: 'x' stands in the list twice",
      "5:30: warning: 'route' in [rule]: 'direct' stands in the list twice"),
    LoadRow("what stands behind direct is tried too", "\(direct)[[rule]]\nname = \"r\"\nroute = [\"direct\", \"x\"]"),
    LoadRow(
      "types",
      "\(direct)[[rule]]\nname = \"r\"\nhosts = [\"a\"]\nroute = \"x\"\n[[rule]]\nname = \"s\"\nhosts = [\"b\"]\nroute = 1\n"
        + "[[rule]]\nname = \"t\"\nroute = [\"x\", 1, []]",
      "6:9: error: 'route' in [rule]: expected an array of names of routes, found a string; write [\"x\"]",
      "10:9: error: 'route' in [rule]: expected an array of strings, found an integer",
      "13:15: error: 'route' in [rule]: expected a string, found an integer",
      "13:18: error: 'route' in [rule]: expected a string, found an array"),
    LoadRow(
      "no route at all", "[[rule]]\nname = \"r\"\nroute = []",
      "3:9: error: 'route' in [rule]: an empty list leads nowhere; leave the key out to go straight, or set action = "
        + "\"deny\""),
    LoadRow(
      "a key of many routes", "\(direct)[[rule]]\nname = \"r\"\nroutes = [\"x\"]",
      "1:9: warning: [routes.x]: no rule lists this route, so it has no effect",
      "5:1: error: unknown key 'routes' in [rule]; did you mean 'route'?"),
  ]

  @Test(arguments: references) func whatIsSaidOfNames(row: LoadRow) { row.check() }

  @Test func aListHasAnEnd() {
    let names = (0...16).map { "\"x\($0)\"" }.joined(separator: ", ")
    let tables = (0...16).map { "[routes.x\($0)]\nvia = \"direct\"\n" }.joined()
    let result = PolicyLoader.load(
      path: "s.toml", files: DictionaryFiles(["s.toml": "\(tables)[[rule]]\nname = \"r\"\nroute = [\(names)]"]))
    #expect(
      result.diagnostics.map(\.message) == ["'route' in [rule]: expected at most 16 routes, found 17"])
  }

  @Test func aNameBelongsToOneRouteOverAllFiles() {
    let files = DictionaryFiles([
      "s.toml": "include = [\"b.toml\"]\n\(Self.direct)\(Self.rule)", "b.toml": Self.direct,
    ])
    #expect(
      PolicyLoader.load(path: "s.toml", files: files).diagnostics.map(\.description) == [
        """
        b.toml:1:9: error: [routes.x] stands at s.toml:2 already; a name belongs to one route
            1 | [routes.x]
              |         ^
        """
      ])
  }
}
