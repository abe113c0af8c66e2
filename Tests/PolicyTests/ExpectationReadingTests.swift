// [[expect]]: every key, and what is said of what it does not take.

import Reachability
import Testing

@testable import Policy

@Suite struct ExpectationReadingTests {
  @Test func everyKeyIsTaken() throws {
    let policy = try loaded(
      """
      [[expect]]
      name = "the till may pay"
      request = "POST https://pay.example/v2/x?a=1"
      user = "till"
      unit = "till.service"
      link = "wired"
      verdict = "allow"
      rule = "pay"
      connect = "intercept"
      route = ["office", "direct"]
      header = { X-Client = "7", Cookie = false, Authorization = true }
      [[expect]]
      request = "https://pay.example"
      absolute = true
      route = "office"
      rule = false
      [[expect]]
      request = "CONNECT [2001:db8::1]:8443"
      user = 1001
      connect = "deny"
      [[rule]]
      name = "pay"
      hosts = ["pay.example"]
      route = ["office", "direct"]
      [routes.office]
      via = "http://proxy.office.example"
      """)
    let first = policy.expectations[0]
    #expect(first.location.description == "s.toml:1" && first.name == "the till may pay")
    #expect(first.request.method == "POST" && first.request.path == "/v2/x" && first.request.query == "?a=1")
    #expect(first.asker.sender.client?.userID == 1002 && first.asker.sender.client?.unit == "till.service")
    #expect(first.asker.link == .wired && !first.isAbsolute)
    #expect(
      first.wishes.map(\.wish.text) == [
        "verdict = \"allow\"", "rule = \"pay\"", "connect = \"intercept\"", "route = [\"office\", \"direct\"]",
        "header X-Client = \"7\"", "header Cookie = false", "header Authorization = true",
      ])
    #expect(
      first.title == "POST https://pay.example/v2/x?a=1 by user till in unit till.service on a wired link")
    let second = policy.expectations[1]
    #expect(second.isAbsolute && second.request.method == "GET" && second.asker.sender.client == nil)
    #expect(second.wishes.map(\.wish) == [.firstRoute("office"), .rule(nil)])
    #expect(second.title == "GET https://pay.example without CONNECT")
    let third = policy.expectations[2]
    #expect(third.request.isTunnel && third.request.port == 8443 && third.title.hasSuffix("by user 1001"))
  }

  static let rows: [LoadRow] = [
    LoadRow(
      "nothing", "[[expect]]",
      "1:1: error: [[expect]] has no 'request'; write \"GET https://HOST/PATH\" or \"CONNECT HOST:PORT\"",
      "1:1: error: [[expect]] expects nothing; it takes 'verdict', 'rule', 'connect', 'route' or 'header'"),
    LoadRow(
      "one bracket", "[expect]\nrequest = 'GET http://a/'",
      "1:2: error: expected [[expect]], found [expect]; an expectation begins with two brackets"),
    LoadRow("no table", "expect = 1", "1:1: error: 'expect': expected an array of tables, found an integer"),
    LoadRow(
      "a near miss", "[[expect]]\nrequest = 'http://a/'\nverdikt = 'allow'\nrule = false",
      "3:1: error: unknown key 'verdikt' in [expect]; did you mean 'verdict'?"),
    LoadRow(
      "a verdict that is none", "[[expect]]\nrequest = 'http://a/'\nverdict = 'permit'",
      "3:11: error: 'verdict' in [expect]: expected \"allow\", \"deny\" or \"ask\", found 'permit'"),
    LoadRow(
      "a verdict that is no text", "[[expect]]\nrequest = 'http://a/'\nverdict = false",
      "3:11: error: 'verdict' in [expect]: expected a string, found a boolean"),
    LoadRow(
      "a host and a port alone", "[[expect]]\nrequest = 'a.example:443'\nverdict = 'deny'",
      "2:11: error: 'request' in [expect]: expected a URL behind the method, found 'a.example:443'; "
        + "did you mean 'CONNECT a.example:443'?"),
    LoadRow(
      "no scheme", "[[expect]]\nrequest = 'PUT a.example/x'\nverdict = 'deny'",
      "2:11: error: 'request' in [expect]: expected a URL behind the method, found 'a.example/x'; "
        + "did you mean 'PUT https://a.example/x'?"),
    LoadRow(
      "three words", "[[expect]]\nrequest = 'GET http://a/ HTTP/1.1'\nverdict = 'deny'",
      "2:11: error: 'request' in [expect]: expected a method and a URL with one space between, "
        + "found 'GET http://a/ HTTP/1.1'"),
    LoadRow(
      "a host that is none", "[[expect]]\nrequest = 'GET http://0x7f.1/'\nverdict = 'deny'",
      "2:11: error: 'request' in [expect]: the host of 'http://0x7f.1/' is malformed; expected "
        + "a host name or a dotted quad of four decimal numbers; this is a number that some resolvers read as an address"
    ),
    LoadRow(
      "a rule that does not exist",
      "[[rule]]\nname = 'trackers'\nhosts = ['t']\n[[expect]]\nrequest = 'http://a/'\nrule = 'tracker'",
      "6:8: error: 'rule' in [expect]: there is no rule named 'tracker'; did you mean 'trackers'?"),
    LoadRow(
      "a route that does not exist", "[[expect]]\nrequest = 'http://a/'\nroute = 'direkt'",
      "3:9: error: 'route' in [expect]: there is no route named 'direkt'; did you mean 'direct'?"),
    LoadRow(
      "connect of what needs none", "[[expect]]\nrequest = 'http://a/'\nconnect = 'tunnel'",
      "3:11: error: 'connect' in [expect]: no CONNECT stands before this request; 'connect' is for https and for "
        + "CONNECT"),
    LoadRow(
      "absolute of http", "[[expect]]\nrequest = 'http://a/'\nabsolute = true\nverdict = 'allow'",
      "3:12: error: 'absolute' in [expect]: it speaks of https:// that is sent without CONNECT; leave it out"),
    LoadRow(
      "no fields", "[[expect]]\nrequest = 'http://a/'\nheader = {}",
      "3:10: error: 'header' in [expect]: an empty table expects nothing; leave the key out"),
    LoadRow(
      "a user that does not exist", "[[expect]]\nrequest = 'http://a/'\nuser = 'nemo'\nverdict = 'allow'",
      "3:8: warning: 'user' in [expect]: no user named 'nemo' exists, so this entry matches nobody; names are "
        + "looked up when the configuration is read"),
    LoadRow(
      "a link that is none", "[[expect]]\nrequest = 'http://a/'\nlink = 'lan'\nverdict = 'allow'",
      "3:8: error: 'link' in [expect]: expected \"unknown\", \"not-reachable\", \"wwan\", \"wifi\" or \"wired\", "
        + "found 'lan'"),
  ]

  @Test(arguments: rows) func isSaidOf(_ row: LoadRow) { row.check() }

  /// Excerpts hide what stands in `header`, as they do for `headers`.
  @Test(arguments: [
    (
      "request = 'CONNECT a:443'\nheader = { X-A = true }",
      [
        "3:10: 'header' in [expect]: a CONNECT has no fields that leave; name the request inside, such as "
          + "\"GET https://HOST/\""
      ]
    ),
    (
      "request = 'http://a/'\nheader = { Host = 'b', 'a b' = true, X-A = 1, X-B = \"a\\nb\" }",
      [
        "3:12: [expect.header]: 'Host' belongs to the connection or the framing; the proxy writes it itself",
        "3:24: [expect.header]: expected the name of a header field (a token, RFC 9110, 5.1), found 'a b'",
        "3:44: 'X-A' in [expect.header]: expected the value that leaves, true for any, or false for none, "
          + "found an integer",
        "3:53: 'X-B' in [expect.header]: a header value must not hold CR, LF or NUL",
      ]
    ),
  ]) func isSaidOfFields(_ text: String, _ expected: [String]) {
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": "[[expect]]\n\(text)"]))
    #expect(
      result.diagnostics.map { "\($0.location.line):\($0.location.column): \($0.message)" } == expected)
  }

  @Test func anyFileMayHoldThem() throws {
    let files = DictionaryFiles([
      "s.toml": "include = ['p.d/*.toml']\n[[expect]]\nrequest = 'http://a/'\nrule = 'late'",
      "p.d/1.toml": "[[expect]]\nrequest = 'http://b/'\nrule = 'late'",
      "p.d/2.toml": "[[rule]]\nname = 'late'\nhosts = ['a']",
    ])
    let result = PolicyLoader.load(path: "s.toml", files: files)
    #expect(result.diagnostics.map(\.description) == [])
    let policy = try #require(result.policy)
    #expect(policy.expectations.map(\.location.description) == ["s.toml:2", "p.d/1.toml:1"])
    #expect(
      ExpectationReport(on: policy, own: { .unknown }).failures.map(\.expectation.location.file) == ["p.d/1.toml"])
  }

  @Test func thereIsAnEndToThem() {
    let one = "[[expect]]\nrequest = 'http://a/'\nrule = false\n"
    let text = String(repeating: one, count: Expectation.most + 1)
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]))
    #expect(result.policy == nil)
    #expect(result.diagnostics.map(\.message) == ["more than 10000 expectations"])
  }
}
