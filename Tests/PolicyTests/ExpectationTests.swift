// Whether an expectation holds, and what is said where it does not.

import Bytes
import Testing

@testable import Policy

@Suite struct ExpectationTests {
  private static let policy = """
    [proxy]
    default = "deny"
    deny_addresses = ["self", "private"]
    [defaults.request]
    headers.default = { Accept-Language = "en" }
    [routes.office]
    via = "http://proxy.office.example"
    when = ["wired"]
    [[rule]]
    name = "no-admin"
    hosts = ["**.shop.example"]
    paths = ["/admin/*"]
    action = "deny"
    reason = "ask the owners"
    [[rule]]
    name = "shop"
    hosts = ["**.shop.example"]
    connect = "intercept"
    route = ["office", "direct"]
    [rule.request]
    headers.set = { X-Client = "kiosk-7", X-Token = { env = "TOKEN" }, User-Agent = "kiosk/7" }
    headers.remove = ["Referer"]
    cookies = false
    authorization = { username = "u", password = { env = "TOKEN" } }
    [[rule]]
    name = "till"
    hosts = ["till.example"]
    users = ["till"]
    [[rule]]
    name = "any"
    hosts = ["till.example", "open.example", "10.0.0.1", "192.0.2.1"]
    [[rule]]
    name = "last"
    hosts = ["open.example", "last.example"]

    """

  /// An expectation, and the lines below its title; none where it holds.
  struct Row: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let expectation: String
    let failure: [String]

    init(_ sentence: String, _ expectation: String, _ failure: String...) {
      testDescription = sentence
      self.expectation = expectation
      self.failure = failure
    }
  }

  private static let shop = "allowed by rule 'shop' (s.toml:15)"
  private static let any = "allowed by rule 'any' (s.toml:29)"
  private static let noRule = "denied: no rule matches, and 'default' in [proxy] is \"deny\""

  static let rows: [Row] = [
    Row("all of it", "request = 'https://a.shop.example/x'\nverdict = 'allow'\nrule = 'shop'\nconnect = 'intercept'"),
    Row("what is inside", "request = 'https://shop.example/admin/x'\nverdict = 'deny'\nrule = 'no-admin'"),
    Row("what is sent without CONNECT", "request = 'https://shop.example/admin/x'\nabsolute = true\nrule = 'no-admin'"),
    Row("the tunnel alone", "request = 'CONNECT shop.example:443'\nverdict = 'allow'\nconnect = 'intercept'"),
    Row("no rule", "request = 'http://other.example/'\nrule = false\nverdict = 'deny'"),
    Row("a user", "request = 'http://till.example/'\nuser = 'till'\nrule = 'till'"),
    Row(
      "the other verdict", "request = 'GET http://shop.example/admin/x'\nverdict = 'allow'",
      "expected verdict = \"allow\", seen \"deny\"", "denied by rule 'no-admin' (s.toml:9)",
      "reason shown to the client: ask the owners"),
    Row(
      "two wishes at once", "request = 'http://other.example/'\nverdict = 'allow'\nrule = 'any'",
      "expected verdict = \"allow\", seen \"deny\"", "expected rule = \"any\", seen no rule", noRule,
      "rule 'any' (s.toml:29) does not match: hosts: expected till.example, open.example, 10.0.0.1, 192.0.2.1, "
        + "seen other.example"),
    Row(
      "a user whom the rule does not mean", "request = 'http://till.example/'\nuser = 'kiosk'\nrule = 'till'",
      "expected rule = \"till\", seen \"any\"", any,
      "rule 'till' (s.toml:25) does not match: users: expected till, seen kiosk"),
    Row(
      "a rule that comes too late", "request = 'http://open.example/'\nrule = 'last'",
      "expected rule = \"last\", seen \"any\"", any, "rule 'last' (s.toml:32) comes after it"),
    Row(
      "a path in a tunnel that stays closed", "request = 'https://open.example/x'\nverdict = 'deny'",
      "expected verdict = \"deny\", seen \"allow\"", any,
      "programs reach it by CONNECT, and the requests in that tunnel are not read (connect = \"tunnel\")"),
    Row(
      "another treatment", "request = 'CONNECT open.example:443'\nconnect = 'verify'",
      "expected connect = \"verify\", seen \"tunnel\"", any),
    Row(
      "a port that is not listed", "request = 'CONNECT open.example:8443'\nconnect = 'tunnel'",
      "expected connect = \"tunnel\", seen \"deny\"",
      "denied by rule 'any' (s.toml:29): with 'default' = \"deny\" tunnels go to port 443 and to ports that the rule "
        + "lists; add 'ports = [443, 8443]'"),
    Row(
      "an address that is denied", "request = 'http://10.0.0.1/'\nverdict = 'allow'",
      "expected verdict = \"allow\", seen \"deny\"", any,
      "10.0.0.1 is in 10.0.0.0/8, which deny_addresses of [proxy] names: it is not connected to"),
    Row(
      "an address of this machine", "request = 'http://192.0.2.1/'\nverdict = 'allow'",
      "expected verdict = \"allow\", seen \"deny\"", any,
      "192.0.2.1 is an address of this machine, which deny_addresses of [proxy] names: it is not connected to"),
    Row(
      "bytes above 0x7f in a path", "request = 'http://open.example/ü'\nverdict = 'allow'",
      "expected verdict = \"allow\", seen \"deny\"", any,
      "the path has bytes above 0x7f, and the rule has no encode_path = true"),
    Row("the first way", "request = 'http://shop.example/'\nroute = 'office'"),
    Row("the ways on a link", "request = 'http://shop.example/'\nlink = 'wifi'\nroute = ['direct']"),
    Row("straight", "request = 'http://open.example/'\nroute = 'direct'"),
    Row(
      "another way", "request = 'http://shop.example/'\nroute = 'direct'",
      "expected route = \"direct\", seen [\"office\", \"direct\"]", shop),
    Row(
      "other ways", "request = 'http://shop.example/'\nlink = 'wifi'\nroute = ['office', 'direct']",
      "expected route = [\"office\", \"direct\"], seen [\"direct\"]", shop),
    Row(
      "a way of what is denied", "request = 'http://other.example/'\nroute = 'direct'",
      "expected route = \"direct\", seen nothing leaves", noRule),
    Row(
      "fields that leave",
      "request = 'https://shop.example/'\nheader = { x-client = 'kiosk-7', X-Token = true, Accept-Language = 'en', "
        + "Authorization = true }"),
    Row("a secret by its value", "request = 'http://shop.example/'\nheader = { X-Token = 't0k3n' }"),
    Row("fields that do not leave", "request = 'http://shop.example/'\nheader = { Referer = false, Cookie = false }"),
    Row("nothing of what is denied leaves", "request = 'http://other.example/'\nheader = { X-A = false }"),
    Row(
      "fields that are otherwise",
      "request = 'http://shop.example/'\nheader = { X-Client = 'k', X-Token = 'x', User-Agent = false, X-A = false, "
        + "Referer = true, Accept-Language = 'de', Authorization = 'Basic eA==' }",
      "expected header X-Client = \"k\", seen another value (hidden)",
      "expected header X-Token = (value hidden), seen another value (hidden)",
      "expected header User-Agent = false, seen it leaves",
      "expected header X-A = false, seen it leaves as the program sends it",
      "expected header Referer = true, seen it is removed", "expected header Accept-Language = \"de\", seen \"en\"",
      "expected header Authorization = (value hidden), seen another value (hidden)", shop),
    Row(
      "fields in a tunnel that stays closed", "request = 'https://open.example/'\nheader = { X-A = true }",
      "expected header X-A = true, seen a tunnel that the proxy does not read (connect = \"tunnel\")", any,
      "programs reach it by CONNECT, and the requests in that tunnel are not read (connect = \"tunnel\")"),
  ]

  private static func files() -> DictionaryFiles {
    var files = DictionaryFiles()
    files.variables = ["TOKEN": "t0k3n"]
    return files
  }

  @Test(arguments: rows) func isDecided(_ row: Row) throws {
    let policy = try loaded(Self.policy + "[[expect]]\n" + row.expectation, Self.files())
    let own = OwnAddresses([try #require(IPAddress("192.0.2.1"))])
    let lines = ExpectationReport(on: policy, own: { own }).failures.map { failure in
      failure.description.split(separator: "\n").dropFirst().map { String($0.dropFirst(2)) }
    }
    #expect(lines == (row.failure.isEmpty ? [] : [row.failure]))
  }

  @Test func aFailureIsAnErrorAtItsWish() throws {
    let policy = try loaded(
      Self.policy + "[[expect]]\nrequest = 'http://x.example/'\nname = 'x'\nverdict = 'allow'", Self.files())
    let failure = try #require(ExpectationReport(on: policy, own: { .unknown }).failures.first)
    #expect(
      failure.diagnostic.description == """
        s.toml:38:11: error: expectation failed: GET http://x.example/: expected verdict = "allow", seen "deny": \
        denied: no rule matches, and 'default' in [proxy] is "deny"
           38 | verdict = 'allow'
              |           ^
        """)
    #expect(
      failure.json.text == #"{"file": "s.toml", "line": 35, "name": "x", "request": "GET http://x.example/", "#
        + #""failures": [{"expected": "verdict = \"allow\"", "seen": "\"deny\""}], "#
        + #""why": ["denied: no rule matches, and 'default' in [proxy] is \"deny\""]}"#)
  }

  @Test func aSecretThatIsNotReadableIsNotGuessedAt() throws {
    let text = Self.policy + "[[expect]]\nrequest = 'http://shop.example/'\nheader = { X-Token = 'x' }"
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": text]), secrets: .inspected)
    let policy = try #require(result.policy)
    guard case .unread("X-Token") = ExpectationOutcome(of: policy.expectations[0], by: policy) else {
      return #expect(Bool(false), "it was compared with what stands in for it")
    }
    #expect(ExpectationReport(on: policy, own: { .unknown }).failures.isEmpty)
  }
}
