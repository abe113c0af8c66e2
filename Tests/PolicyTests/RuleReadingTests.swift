// [[rule]]: every key, what is said of what it does not take, and the warnings about keys that do nothing.

import Testing

@testable import Policy

@Suite struct RuleReadingTests {
  @Test func everyKeyIsTaken() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "A.b_c:d-1"
      hosts = ["a.example", "10.0.0.0/8"]
      ports = [80, 65535]
      methods = ["GET", "PURGE"]
      paths = ["/v2/*", "*.html"]
      schemes = ["http", "https"]
      action = "deny"
      reason = "so it is"
      enforce = false
      connect = "deny"
      deny_addresses = ["private"]
      [[rule]]
      name = "b"
      """)
    let rule = policy.rules[0]
    #expect(rule.name == "A.b_c:d-1")
    #expect(rule.location.description == "s.toml:1" && rule.location.column == 1)
    #expect(rule.conditions.hosts.map(\.description) == ["a.example", "10.0.0.0/8"])
    #expect(rule.conditions.values(of: PortCondition.self) == [80, 65535])
    #expect(rule.conditions.values(of: MethodCondition.self) == ["GET", "PURGE"])
    #expect(rule.conditions.values(of: PathsCondition.self).map(\.description) == ["/v2/*", "*.html"])
    #expect(rule.conditions.values(of: SchemeCondition.self) == [.http, .https])
    #expect(rule.action == .deny)
    #expect(rule.reason == "so it is")
    #expect(!rule.enforce)
    #expect(rule.connect == .deny)
    #expect(rule.denyAddresses?.blocks.count == 4)
    let silent = policy.rules[1]
    #expect(silent.location.line == 13)
    #expect(
      silent.conditions.hosts.isEmpty && silent.conditions.values(of: PortCondition.self).isEmpty
        && silent.conditions.values(of: MethodCondition.self).isEmpty)
    #expect(silent.action == .allow && silent.enforce && silent.connect == nil && silent.denyAddresses == nil)
    #expect(!silent.upgrade && silent.security === policy.defaultSecurity)
    #expect(
      silent.request.cookies && silent.request.timeoutMilliseconds == nil && silent.request.fields.isEmpty)
  }

  @Test func everyTreatmentIsTaken() throws {
    let words = ConnectTreatment.allCases.map(\.rawValue)
    let text = words.map { "[[rule]]\nname = '\($0)'\nhosts = ['\($0)']\nconnect = '\($0)'\nupgrade = true\n" }
    let policy = try loaded(text.joined())
    #expect(policy.rules.map(\.connect) == [.tunnel, .verify, .intercept, .deny])
    #expect(policy.rules.allSatisfy { $0.upgrade })
  }

  static let names: [LoadRow] = [
    LoadRow(
      "no name", "[[rule]]\nhosts = [\"a\"]",
      "1:1: error: [[rule]] has no 'name'; it stands in every log line and metric of the rule"),
    LoadRow(
      "characters that no name has",
      "[[rule]]\nname = \"a b\"\n[[rule]]\nname = \"\"\n[[rule]]\nname = \"ü\"",
      "2:8: error: 'name' in [rule]: expected 1 to 64 ASCII letters, digits, '.', '_', ':' and '-', found 'a b'",
      "4:8: error: 'name' in [rule]: expected 1 to 64 ASCII letters, digits, '.', '_', ':' and '-', found ''",
      "6:8: error: 'name' in [rule]: expected 1 to 64 ASCII letters, digits, '.', '_', ':' and '-', found 'ü'"
    ),
    LoadRow(
      "a name of 65 bytes", "[[rule]]\nname = \"\(String(repeating: "n", count: 65))\"",
      "2:8: error: 'name' in [rule]: expected 1 to 64 ASCII letters, digits, '.', '_', ':' and '-', "
        + "found '\(String(repeating: "n", count: 65))'"),
    LoadRow("a name of 64 bytes", "[[rule]]\nname = \"\(String(repeating: "n", count: 64))\""),
    LoadRow(
      "a name twice", "[[rule]]\nname = \"a\"\nhosts = [\"x\"]\n[[rule]]\nname = \"a\"",
      "5:8: error: 'name' in [rule]: 'a' is the name of the rule at s.toml:2 already; a name belongs to one rule"
    ),
    LoadRow(
      "one bracket", "[rule]\nname = \"a\"",
      "1:2: error: expected [[rule]], found [rule]; a rule begins with two brackets"),
    LoadRow(
      "rules that are none", "rule = \"a\"", "1:1: error: 'rule': expected an array of tables, found a string"
    ),
    LoadRow("a rule that is none", "rule = [1]", "1:9: error: 'rule': expected a table, found an integer"),
  ]

  @Test(arguments: names) func nameRows(row: LoadRow) { row.check() }

  static let conditions: [LoadRow] = [
    LoadRow(
      "an empty list matches nothing",
      "[[rule]]\nname = \"a\"\nhosts = []\nports = []\nmethods = []\npaths = []\nschemes = []",
      "3:9: error: 'hosts' in [rule]: an empty list matches nothing; leave the key out to match any",
      "4:9: error: 'ports' in [rule]: an empty list matches nothing; leave the key out to match any",
      "5:11: error: 'methods' in [rule]: an empty list matches nothing; leave the key out to match any",
      "6:9: error: 'paths' in [rule]: an empty list matches nothing; leave the key out to match any",
      "7:11: error: 'schemes' in [rule]: an empty list matches nothing; leave the key out to match any"),
    LoadRow(
      "single values where lists are expected",
      "[[rule]]\nname = \"a\"\nhosts = \"a\"\nports = 80\nmethods = \"GET\"\npaths = \"/\"\nschemes = \"http\"",
      "3:9: error: 'hosts' in [rule]: expected an array of host patterns, found a string",
      "4:9: error: 'ports' in [rule]: expected an array of integers, found an integer",
      "5:11: error: 'methods' in [rule]: expected an array of strings, found a string",
      "6:9: error: 'paths' in [rule]: expected an array of strings, found a string",
      "7:11: error: 'schemes' in [rule]: expected an array of strings, found a string"),
    LoadRow(
      "ports", "[[rule]]\nname = \"a\"\nports = [0, 65536, \"80\", 443, 443]",
      "3:10: error: 'ports' in [rule]: expected an integer from 1 to 65535, found 0",
      "3:13: error: 'ports' in [rule]: expected an integer from 1 to 65535, found 65536",
      "3:20: error: 'ports' in [rule]: expected an integer from 1 to 65535, found a string",
      "3:31: warning: 'ports' in [rule]: 443 stands in the list twice"),
    LoadRow(
      "methods in the wrong case", "[[rule]]\nname = \"a\"\nmethods = [\"get\", \"Post\", \"purge\"]",
      "3:12: warning: 'methods' in [rule]: methods are case-sensitive; did you mean 'GET'?",
      "3:19: warning: 'methods' in [rule]: methods are case-sensitive; did you mean 'POST'?"),
    LoadRow(
      "what is no method", "[[rule]]\nname = \"a\"\nmethods = [\"GET POST\", \"\"]",
      "3:12: error: 'methods' in [rule]: expected a method (a token, RFC 9110, 9.1), found 'GET POST'",
      "3:24: error: 'methods' in [rule]: expected a method (a token, RFC 9110, 9.1), found ''"),
    LoadRow(
      "CONNECT is not matched by method", "[[rule]]\nname = \"a\"\nmethods = [\"CONNECT\"]",
      "3:12: warning: 'methods' in [rule]: methods are not looked at when a tunnel is asked for; "
        + "'connect' says what is done with one"),
    LoadRow(
      "paths", "[[rule]]\nname = \"a\"\npaths = [\"v1\", \"/a?b\", \"/a#b\", \"/a b\", \"/ü\", \"\"]",
      "3:10: error: 'paths' in [rule]: expected a path that begins with '/' or '*', found 'v1'",
      "3:16: error: 'paths' in [rule]: '/a?b' holds '?', which no path does: "
        + "the query is not looked at, and only '*' and '{}' are wildcards",
      "3:24: error: 'paths' in [rule]: '/a#b' holds '#', which no path does: a client keeps the fragment",
      "3:32: error: 'paths' in [rule]: '/a b' holds what a path carries percent-encoded only; "
        + "write '%' and two digits for each byte",
      "3:40: error: 'paths' in [rule]: '/ü' holds what a path carries percent-encoded only; "
        + "write '%' and two digits for each byte",
      "3:46: error: 'paths' in [rule]: expected a path that begins with '/' or '*', found ''"),
    LoadRow(
      "paths that are never compared", "[[rule]]\nname = \"a\"\npaths = [\"/a//b\", \"/x/../y\"]",
      "3:10: warning: 'paths' in [rule]: '/a//b' never matches: servers read such a path without empty segments, "
        + "'.' and '..' as well, and a rule that allows matches where all readings do",
      "3:19: warning: 'paths' in [rule]: '/x/../y' never matches: servers read such a path without empty segments, "
        + "'.' and '..' as well, and a rule that allows matches where all readings do"
    ),
    LoadRow(
      "too many wildcards", "[[rule]]\nname = \"a\"\npaths = [\"/\(String(repeating: "*a", count: 17))\"]",
      "3:10: error: 'paths' in [rule]: expected at most 16 '*' and '{}' in one path"),
    LoadRow(
      "one segment after any number", "[[rule]]\nname = \"a\"\npaths = [\"/a/{}/*\", \"/a*/{}\"]",
      "3:21: error: 'paths' in [rule]: '/a*/{}' has '{}' after '*', which may already stand for "
        + "any number of segments; write '{}' for each segment, and '*' last"),
    LoadRow(
      "schemes", "[[rule]]\nname = \"a\"\nschemes = [\"htps\", \"ftp\"]",
      "3:12: error: 'schemes' in [rule]: expected \"http\" or \"https\", found 'htps'; did you mean 'https'?",
      "3:20: error: 'schemes' in [rule]: expected \"http\" or \"https\", found 'ftp'"),
    LoadRow(
      "'*' among other hosts", "[[rule]]\nname = \"a\"\nhosts = [\"a.example\", \"*\"]",
      "3:23: warning: 'hosts' in [rule]: '*' matches any host, so the other patterns have no effect"),
  ]

  @Test(arguments: conditions) func conditionRows(row: LoadRow) { row.check() }

  static let treatments: [LoadRow] = [
    LoadRow(
      "an unknown action", "[[rule]]\nname = \"a\"\naction = \"block\"",
      "3:10: error: 'action' in [rule]: expected \"allow\", \"deny\" or \"ask\", found 'block'"),
    LoadRow(
      "an unknown treatment", "[[rule]]\nname = \"a\"\nconnect = \"verfy\"",
      "3:11: error: 'connect' in [rule]: expected \"tunnel\", \"verify\", \"intercept\" or \"deny\", found 'verfy'; "
        + "did you mean 'verify'?"),
    LoadRow(
      "an upgrade that is none", "[[rule]]\nname = \"a\"\nupgrade = \"yes\"",
      "3:11: error: 'upgrade' in [rule]: expected true or false, found a string"),
    LoadRow(
      "unknown keys",
      "[[rule]]\nname = \"a\"\nhost = [\"a\"]\nmethod = \"GET\"\n[rule.requests]\ntimeout = \"1s\"",
      "3:1: error: unknown key 'host' in [rule]; did you mean 'hosts'?",
      "4:1: error: unknown key 'method' in [rule]; did you mean 'methods'?",
      "5:7: error: unknown key 'requests' in [rule]; did you mean 'request'?"),
    LoadRow(
      "a reason that is none",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\nreason = \"a\\nb\"\n[[rule]]\nname = \"b\"\nreason = \"\"",
      "4:10: error: 'reason' in [rule]: expected a text of 1 to 512 bytes without control characters",
      "7:10: error: 'reason' in [rule]: expected a text of 1 to 512 bytes without control characters"),
    LoadRow(
      "an address set of a rule", "[[rule]]\nname = \"a\"\ndeny_addresses = [\"privat\"]",
      "3:19: error: 'deny_addresses' in [rule]: expected \"link-local\", \"multicast\", \"unspecified\", \"loopback\", "
        + "\"private\", \"cgnat\" or \"self\", an address or a CIDR block, found 'privat'; did you mean 'private'?"),
  ]

  @Test(arguments: treatments) func treatmentRows(row: LoadRow) { row.check() }

  static let idle: [LoadRow] = [
    LoadRow(
      "a reason that nobody sees", "[[rule]]\nname = \"a\"\nreason = \"x\"",
      "3:10: warning: 'reason' in [rule]: it is never shown: the rule denies nothing"),
    LoadRow("a reason for tunnels", "[[rule]]\nname = \"a\"\nconnect = \"deny\"\nreason = \"x\""),
    LoadRow(
      "enforce = false where nothing is denied and nothing is encrypted",
      "[[rule]]\nname = \"a\"\nenforce = false\nschemes = [\"http\"]",
      "3:11: warning: 'enforce' in [rule]: it has no effect: the rule denies nothing"),
    LoadRow(
      "enforce = false where only certificates are refused", "[[rule]]\nname = \"a\"\nenforce = false",
      "3:11: warning: 'enforce' in [rule]: the rule denies nothing; the only effect is that an invalid certificate is "
        + "allowed and logged"),
    LoadRow(
      "enforce = false with a timeout", "[[rule]]\nname = \"a\"\nenforce = false\nrequest.timeout = \"1s\""),
    LoadRow(
      "enforce = false with a timeout that is inherited",
      "[[rule]]\nname = \"a\"\nenforce = false\n[defaults.request]\ntimeout = \"1s\""),
    LoadRow(
      "enforce = false with protocols to switch to",
      "[[rule]]\nname = \"a\"\nenforce = false\nupgrades = []"),
    LoadRow(
      "enforce = false with a security of its own",
      "[[rule]]\nname = \"a\"\nenforce = false\nsecurity.min_tls = \"1.3\""),
    LoadRow(
      "enforce = false with addresses",
      "[[rule]]\nname = \"a\"\nenforce = false\ndeny_addresses = [\"private\"]"),
    LoadRow(
      "enforce = false with a response to check", "[[rule]]\nname = \"a\"\nenforce = false\n[rule.response]"),
    LoadRow(
      "enforce = false with a response to check that is inherited",
      "[[rule]]\nname = \"a\"\nenforce = false\n[defaults.response]"),
    LoadRow(
      "enforce = false with parameters",
      "[[rule]]\nname = \"a\"\nenforce = false\nrequest.parameters = { a = 1 }"),
    LoadRow(
      "responses to requests that are denied",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\n[rule.response]",
      "4:7: warning: [rule.response] has no effect in a rule that denies every request"),
    LoadRow(
      "edits of requests that are denied",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\n[rule.request]\ncookies = false",
      "4:7: warning: [rule.request] has no effect in a rule that denies every request"),
    LoadRow(
      "edits of requests that would be denied",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\nenforce = false\n[rule.request]\ncookies = false"),
    LoadRow(
      "addresses of requests that are denied",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\ndeny_addresses = [\"private\"]",
      "4:18: warning: 'deny_addresses' in [rule]: it has no effect in a rule that denies every request"),
    LoadRow(
      "certificates of requests that are denied",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\nupgrade = true\n[rule.security]\nmin_tls = \"1.3\"",
      "4:11: warning: 'upgrade' in [rule]: it has no effect in a rule that denies every request",
      "5:7: warning: [rule.security] has no effect in a rule that denies every request"),
    LoadRow(
      "routes of requests that are denied",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\nroute = [\"direct\"]",
      "4:9: warning: 'route' in [rule]: it has no effect in a rule that denies every request"),
    LoadRow(
      "routes of requests that would be denied",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\nenforce = false\nroute = [\"direct\"]"),
    LoadRow(
      "enforce = false without cellular access",
      "[[rule]]\nname = \"a\"\nenforce = false\nrequest.allows_cellular_access = false"),
    LoadRow(
      "enforce = false without cellular access that is inherited",
      "[[rule]]\nname = \"a\"\nenforce = false\n[defaults.request]\nallows_cellular_access = false"),
    LoadRow(
      "an upgrade of what is https already", "[[rule]]\nname = \"a\"\nschemes = [\"https\"]\nupgrade = true",
      "4:11: warning: 'upgrade' in [rule]: it has no effect: 'schemes' leaves out http"),
    LoadRow("an upgrade of both", "[[rule]]\nname = \"a\"\nschemes = [\"https\", \"http\"]\nupgrade = true"),
    LoadRow(
      "connect where no tunnel matches", "[[rule]]\nname = \"a\"\nschemes = [\"http\"]\nconnect = \"deny\"",
      "4:11: warning: 'connect' in [rule]: a tunnel counts as https, which 'schemes' leaves out, so this is never used"
    ),
    LoadRow(
      "a tunnel that is denied anyway", "[[rule]]\nname = \"a\"\naction = \"deny\"\nconnect = \"tunnel\"",
      "4:11: warning: 'connect' in [rule]: 'action = \"deny\"' denies tunnels too, so \"tunnel\" has no effect"
    ),
    LoadRow(
      "a tunnel that is denied before it is intercepted",
      "[[rule]]\nname = \"a\"\naction = \"deny\"\nconnect = \"intercept\"",
      "4:11: warning: 'connect' in [rule]: 'action = \"deny\"' denies tunnels too, so \"intercept\" has no effect"
    ),
    LoadRow(
      "a denial inside tunnels that are intercepted",
      "[[rule]]\nname = \"a\"\nhosts = [\"x.a\"]\nschemes = [\"https\"]\npaths = [\"/admin*\"]\naction = \"deny\"\n"
        + "[[rule]]\nname = \"b\"\nhosts = [\"**.a\"]\nconnect = \"intercept\""),
    LoadRow(
      "a rule with an error is not warned of as well",
      "[[rule]]\nname = \"a\"\naction = \"dney\"\nreason = \"x\"",
      "3:10: error: 'action' in [rule]: expected \"allow\", \"deny\" or \"ask\", found 'dney'; did you mean 'deny'?"),
  ]

  @Test(arguments: idle) func idleRows(row: LoadRow) { row.check() }
}
