// [rule.request] and [defaults.request]: fields, the three short forms, conflicts, and inheritance.

import Bytes
import Testing

@testable import Policy

@Suite struct RequestReadingTests {
  @Test func pathsAreEncodedWhereARuleOrTheDefaultsSaySo() throws {
    let rule = "[[rule]]\nname = \"a\"\n"
    let rows: [(source: String, ofRule: Bool, ofPolicy: Bool)] = [
      (rule, false, false), (rule + "request.encode_path = true", true, true),
      (rule + "request.encode_path = false", false, false),
      ("[defaults.request]\nencode_path = true\n" + rule, true, true),
      ("[defaults.request]\nencode_path = true\n" + rule + "request.encode_path = false", false, true),
    ]
    for row in rows {
      let policy = try loaded(row.source)
      #expect(policy.rules[0].request.encodesPath == row.ofRule && policy.encodesPaths == row.ofPolicy, "\(row.source)")
    }
  }

  private let rule = "[[rule]]\nname = \"a\"\n"

  @Test func everyKeyIsTaken() throws {
    let policy = try loaded(
      rule + """
        [rule.request]
        headers.default = { Accept = "*/*" }
        headers.set = { X-Client = "kiosk-7", X-Empty = "" }
        headers.remove = ["Referer", "Via"]
        user_agent = "kiosk/7"
        accept_language = ["en-GB", "de", "*"]
        authorization = { username = "Aladdin", password = "open sesame" }
        timeout = "30s"
        cookies = false
        """)
    let request = policy.rules[0].request
    #expect(
      lines(request.fields) == [
        "remove referer", "remove via", "set X-Client: kiosk-7", "set X-Empty: ", "set User-Agent: kiosk/7",
        "set Accept-Language: en-GB;q=1, de;q=0.9, *;q=0.8",
        // The example of RFC 7617, 2.
        "set Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "default Accept: */*",
      ])
    #expect(request.fields.set.map(\.isSecret) == [false, false, false, false, true])
    #expect(request.timeoutMilliseconds == 30_000)
    #expect(!request.cookies)
    #expect(policy.defaultRequest.fields.isEmpty && policy.defaultRequest.cookies)
  }

  @Test func fieldsMayBeATableOfTheirOwn() throws {
    let policy = try loaded(
      rule + "[rule.request.headers]\nremove = [\"A\"]\n[rule.request.headers.set]\nB = \"c\"")
    #expect(lines(policy.rules[0].request.fields) == ["remove a", "set B: c"])
  }

  // MARK: Inheritance

  @Test func aRuleInheritsKeyByKeyWhereItIsSilent() throws {
    let policy = try loaded(
      """
      [[rule]]
      name = "silent"
      hosts = ["a"]
      [[rule]]
      name = "speaks"
      hosts = ["b"]
      [rule.request]
      cookies = true
      user_agent = "mine"
      [[rule]]
      name = "empty"
      [rule.request]
      [defaults.request]
      timeout = "1s"
      cookies = false
      user_agent = "theirs"
      accept_language = ["en"]
      """)
    let inherited = ["set User-Agent: theirs", "set Accept-Language: en;q=1"]
    for request in [policy.defaultRequest, policy.rules[0].request, policy.rules[2].request] {
      #expect(lines(request.fields) == inherited)
      #expect(request.timeoutMilliseconds == 1000 && !request.cookies)
    }
    #expect(lines(policy.rules[1].request.fields) == ["set Accept-Language: en;q=1", "set User-Agent: mine"])
    #expect(policy.rules[1].request.timeoutMilliseconds == 1000 && policy.rules[1].request.cookies)
  }

  @Test(arguments: [
    ("default", "headers.default = { x-a = \"mine\" }", ["default x-a: mine"]),
    ("set", "headers.set = { x-a = \"mine\" }", ["set x-a: mine"]),
    ("remove", "headers.remove = [\"x-a\"]", ["remove x-a"]),
  ]) func fieldsAreInheritedNameByName(kind: String, own: String, expected: [String]) throws {
    let inherited = [
      "headers.default = { X-A = \"theirs\", X-B = \"theirs\" }",
      "headers.set = { X-A = \"theirs\", X-B = \"theirs\" }",
      "headers.remove = [\"X-A\", \"X-B\"]",
    ]
    let rest = ["default X-B: theirs", "set X-B: theirs", "remove x-b"]
    for (defaults, other) in zip(inherited, rest) {
      let policy = try loaded("[defaults.request]\n\(defaults)\n\(rule)[rule.request]\n\(own)")
      #expect(Set(lines(policy.rules[0].request.fields)) == Set(expected + [other]), "\(defaults)")
    }
  }

  // MARK: Rows

  static let fields: [LoadRow] = [
    LoadRow(
      "fields of the framing and the connection",
      "[defaults.request]\nheaders.set = { Host = \"\", Connection = \"\", Keep-Alive = \"\", Via = \"\", Expect = \"\" }",
      "2:17: error: [defaults.request.headers.set]: 'Host' belongs to the connection or the framing; the proxy writes it itself",
      "2:28: error: [defaults.request.headers.set]: 'Connection' belongs to the connection or the framing; the proxy writes it itself",
      "2:45: error: [defaults.request.headers.set]: 'Keep-Alive' belongs to the connection or the framing; the proxy writes it itself",
      "2:62: error: [defaults.request.headers.set]: 'Via' belongs to the connection or the framing; the proxy writes it itself",
      "2:72: error: [defaults.request.headers.set]: 'Expect' belongs to the connection or the framing; the proxy writes it itself"
    ),
    LoadRow(
      "fields that may not be taken out",
      "[defaults.request]\nheaders.remove = [\"HOST\", \"te\", \"expect\"]",
      "2:19: error: [defaults.request.headers]: 'HOST' belongs to the connection or the framing; the proxy writes it itself",
      "2:27: error: [defaults.request.headers]: 'te' belongs to the connection or the framing; the proxy writes it itself"
    ),
    LoadRow(
      "a name that is no token", "[defaults.request]\nheaders.remove = [\"a:\"]",
      "2:19: error: [defaults.request.headers]: expected the name of a header field (a token, RFC 9110, 5.1), found 'a:'"
    ),
    LoadRow(
      "keys that are none",
      "[defaults.request]\nheader.remove = []\nheaders.sett = {}\ntimeuot = \"1s\"",
      "2:1: error: unknown key 'header' in [defaults.request]; did you mean 'headers'?",
      "3:9: error: unknown key 'sett' in [defaults.request.headers]; did you mean 'set'?",
      "4:1: error: unknown key 'timeuot' in [defaults.request]; did you mean 'timeout'?"),
    LoadRow(
      "types",
      "[defaults.request]\nheaders.remove = \"A\"\ncookies = 1\ntimeout = 30\nuser_agent = 1\naccept_language = \"en\"",
      "2:18: error: 'remove' in [defaults.request.headers]: expected an array of strings, found a string",
      "3:11: error: 'cookies' in [defaults.request]: expected true or false, found an integer",
      "4:11: error: 'timeout' in [defaults.request]: expected a duration such as \"10s\" (units ms, s, m, h, d), found an integer",
      "5:14: error: 'user_agent' in [defaults.request]: expected a string, found an integer",
      "6:19: error: 'accept_language' in [defaults.request]: expected an array of strings, found a string"),
    LoadRow(
      "values that no head can carry", "[defaults.request]\nuser_agent = \"a\\nb\"",
      "2:14: error: 'user_agent' in [defaults.request]: a header value must not hold CR, LF or NUL"),
    LoadRow(
      "control characters", "[defaults.request]\nuser_agent = \"a\\u0001\"",
      "2:14: error: 'user_agent' in [defaults.request]: a header value must not hold control characters"),
    LoadRow(
      "white space around a value", "[defaults.request]\nuser_agent = \" a\"",
      "2:14: error: 'user_agent' in [defaults.request]: a header value must not begin or end with white space"
    ),
    LoadRow(
      "an empty user agent", "[defaults.request]\nuser_agent = \"\"",
      "2:14: error: 'user_agent' in [defaults.request]: the value is empty; to send no User-Agent, put it into headers.remove"
    ),
    LoadRow(
      "a field removed twice", "[defaults.request]\nheaders.remove = [\"A\", \"a\"]",
      "2:24: warning: 'remove' in [defaults.request.headers]: 'a' is removed already in line 2"),
    LoadRow(
      "removed and set by a short form",
      "[defaults.request]\nheaders.remove = [\"User-Agent\"]\nuser_agent = \"x\"",
      "3:14: error: 'user_agent' in [defaults.request]: 'User-Agent' is both set and removed, the other in line 2; "
        + "a field that is set replaces what the client sent"),
    LoadRow(
      "one field set and another removed", "[defaults.request]\nuser_agent = \"x\"\nheaders.remove = [\"B\"]"),
    LoadRow(
      "seven languages",
      "[defaults.request]\naccept_language = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\"]",
      "2:50: warning: 'accept_language' in [defaults.request]: only the first 6 languages are sent, "
        + "because the weights fall from 1 by 0.1"),
    LoadRow(
      "what is no language", "[defaults.request]\naccept_language = [\"en;q=0.5\", \"de_DE\", \"\"]",
      "2:20: error: 'accept_language' in [defaults.request]: expected a language range such as \"de\" or \"en-GB\" "
        + "(RFC 4647, 2.1), found 'en;q=0.5'",
      "2:32: error: 'accept_language' in [defaults.request]: expected a language range such as \"de\" or \"en-GB\" "
        + "(RFC 4647, 2.1), found 'de_DE'",
      "2:41: error: 'accept_language' in [defaults.request]: expected a language range such as \"de\" or \"en-GB\" "
        + "(RFC 4647, 2.1), found ''"),
    LoadRow(
      "no language", "[defaults.request]\naccept_language = []",
      "2:19: error: 'accept_language' in [defaults.request]: expected at least one language; "
        + "to send no Accept-Language, put it into headers.remove"),
    LoadRow(
      "a timeout of nothing", "[defaults.request]\ntimeout = \"0s\"",
      "2:11: error: 'timeout' in [defaults.request]: expected a duration from 1ms to 365d, found '0s'"),
    LoadRow(
      "half an authorization", "[defaults.request]\nauthorization = { }",
      "2:17: error: 'authorization' in [defaults.request]: 'username' and 'password' must be there"),
    LoadRow(
      "defaults of what is not there", "[defaults.reqest]\n",
      "1:11: error: unknown key 'reqest' in [defaults]; did you mean 'request'?"),
  ]

  /// What hides values in its lines is in SecretTests: these rows compare whole lines.
  @Test(arguments: fields.filter { !$0.source.contains("headers.set = {") }) func rows(row: LoadRow) {
    row.check()
  }

  private func messages(_ source: String) -> [String] {
    PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": source])).diagnostics
      .map { "\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)" }
  }

  @Test func fieldsOfTheFramingAreRefused() {
    let row = Self.fields[0]
    #expect(messages(row.source) == row.expected)
    for name in FieldSyntax.owned {
      #expect(messages("[defaults.request]\nheaders.set = { \(name) = \"x\" }").count == 1, "\(name)")
      #expect(messages("[defaults.request]\nheaders.default = { \(name) = \"x\" }").count == 1, "\(name)")
      let isKept = FieldSyntax.kept.contains(name)
      #expect(
        messages("[defaults.request]\nheaders.remove = [\"\(name)\"]").count == (isKept ? 1 : 0), "\(name)")
    }
  }

  @Test(arguments: [
    (
      "headers.set = { A = \"1\" }\nheaders.remove = [\"a\"]",
      "3:19: error: 'remove' in [defaults.request.headers]: 'a' is both set and removed, the other in line 2; "
        + "a field that is set replaces what the client sent"
    ),
    (
      "headers.default = { A = \"1\" }\nheaders.remove = [\"a\"]",
      "3:19: error: 'remove' in [defaults.request.headers]: 'a' has a default and is removed, the other in line 2; "
        + "to replace what the client sent, use headers.set"
    ),
    (
      "headers.set = { A = \"1\", a = \"2\" }",
      "2:30: error: 'a' in [defaults.request.headers.set]: 'a' is set twice; the other place is line 2"
    ),
    (
      "headers.default = { A = \"1\", a = \"2\" }",
      "2:34: error: 'a' in [defaults.request.headers.default]: 'a' has two defaults; the other one is in line 2"
    ),
    (
      "headers.default = { User-Agent = \"1\" }\nuser_agent = \"2\"",
      "3:14: warning: 'user_agent' in [defaults.request]: the default of 'User-Agent' is never used, "
        + "because it is set as well; see line 2"
    ),
    (
      "headers.set = { \"X Y\" = \"1\" }",
      "2:17: error: [defaults.request.headers.set]: expected the name of a header field (a token, RFC 9110, 5.1), "
        + "found 'X Y'"
    ),
    (
      "headers.set = { Authorization = \"1\" }\nauthorization = { username = \"u\", password = \"p\" }",
      "3:17: error: 'authorization' in [defaults.request]: 'Authorization' is set twice; the other place is line 2"
    ),
  ]) func whatIsSaidOfWrittenFields(source: String, expected: String) {
    #expect(messages("[defaults.request]\n" + source) == [expected])
  }

  @Test func whatIsSetAndHasADefaultIsSet() {
    let source = "[defaults.request]\nheaders.default = { User-Agent = \"1\" }\nuser_agent = \"2\""
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": source]))
    #expect(result.policy.map { lines($0.defaultRequest.fields) } == ["set User-Agent: 2"])
  }

  @Test func theWeightsFallByATenth() throws {
    let request = try loaded(
      "[defaults.request]\naccept_language = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]"
    ).defaultRequest
    #expect(lines(request.fields) == ["set Accept-Language: a;q=1, b;q=0.9, c;q=0.8, d;q=0.7, e;q=0.6, f;q=0.5"])
  }

  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ]) func base64IsThatOfTheRFC(text: String, encoded: String) {
    #expect(String(decoding: Base64.encode(Array(text.utf8)), as: UTF8.self) == encoded)
  }
}
