// `parameters`: every kind of value, limits, secrets, and what no XML can carry.

import Serialization
import Testing

@testable import Policy

@Suite struct ParameterReadingTests {
  private static let rule = "[[rule]]\nname = \"a\"\n"

  /// `line:column: severity: message` of each diagnostic. What parameters hold is hidden in excerpts, so that whole rows
  /// cannot be compared where there are any.
  private func said(_ source: String, _ files: DictionaryFiles = DictionaryFiles()) -> [String] {
    load(source, files).diagnostics.filter { !$0.isAboutTunnels }.map {
      "\($0.location.line):\($0.location.column): \($0.severity.rawValue): \($0.message)"
    }
  }

  private func load(_ source: String, _ files: DictionaryFiles = DictionaryFiles()) -> LoadResult {
    var files = files
    files.files["s.toml"] = Array(source.utf8)
    return PolicyLoader.load(path: "s.toml", files: files)
  }

  /// The parameters of the first rule, which says nothing but them.
  private func parameters(_ text: String, _ files: DictionaryFiles = DictionaryFiles()) throws -> [ParameterEntry] {
    let policy = try loaded(Self.rule + "[rule.request]\nparameters = \(text)", files)
    return policy.rules[0].request.serialization?.parameters ?? []
  }

  // MARK: Values

  @Test func everyKindOfValueIsTaken() throws {
    let expected = [
      ParameterEntry("array", .array([.integer(1), .array([]), .dictionary([ParameterEntry("x", .text("y"))])])),
      ParameterEntry("empty", .dictionary([])), ParameterEntry("integer", .integer(-9_223_372_036_854_775_808)),
      ParameterEntry("no", .boolean(false)), ParameterEntry("real", .real(2.5)), ParameterEntry("string", .text("ü\n")),
      ParameterEntry("yes", .boolean(true)),
    ]
    let text = """
      { yes = true, no = false, integer = -9223372036854775808, real = 2.5, string = "ü\\n", empty = {}, \
      array = [1, [], { x = "y" }] }
      """
    #expect(try parameters(text) == expected)
  }

  @Test func parametersMayBeATableOfTheirOwn() throws {
    let policy = try loaded(
      Self.rule + "[rule.request.parameters]\nb.c.d = 1\n[rule.request.parameters.a]\nx = 2\n")
    #expect(
      policy.rules[0].request.serialization?.parameters == [
        ParameterEntry("a", .dictionary([ParameterEntry("x", .integer(2))])),
        ParameterEntry("b", .dictionary([ParameterEntry("c", .dictionary([ParameterEntry("d", .integer(1))]))])),
      ])
  }

  @Test func keysAreSortedByCodePointAtEveryLevel() throws {
    // In UTF-16 U+10000 comes before U+E000, by code point behind it.
    let keys = ["\u{e000}", "b", "a", "B", "\u{10000}", "aa", "ä"]
    let sorted = ["B", "a", "aa", "b", "ä", "\u{e000}", "\u{10000}"]
    let table = "{ " + keys.map { "\"\($0)\" = 1" }.joined(separator: ", ") + " }"
    let inner = sorted.map { ParameterEntry($0, .integer(1)) }
    #expect(try parameters(table) == inner)
    #expect(
      try parameters("{ x = \(table), l = [\(table)] }") == [
        ParameterEntry("l", .array([.dictionary(inner)])), ParameterEntry("x", .dictionary(inner)),
      ])
  }

  @Test(arguments: [
    (
      "{ a = 1979-05-27 }",
      "4:20: error: 'a' in [rule.request.parameters]: expected a string, a number, true, false, a table or an array, "
        + "found a date or time; write it in quotes"
    ),
    (
      "{ a = [07:32:00] }",
      "4:21: error: 'a' in [rule.request.parameters]: expected a string, a number, true, false, a table or an array, "
        + "found a date or time; write it in quotes"
    ),
    ("{ a = inf }", "4:20: error: 'a' in [rule.request.parameters]: expected a finite number, found inf"),
    ("{ a = -inf }", "4:20: error: 'a' in [rule.request.parameters]: expected a finite number, found inf"),
    ("{ a.b = nan }", "4:22: error: 'b' in [rule.request.parameters.a]: expected a finite number, found nan"),
    (
      "{ \"\" = 1 }",
      "4:16: error: [rule.request.parameters]: expected a name, found ''; a form has no way to write a parameter without "
        + "one"
    ),
    (
      "{ a = [{ \"\" = 1 }] }",
      "4:23: error: [rule.request.parameters.a]: expected a name, found ''; a form has no way to write a parameter "
        + "without one"
    ),
    ("1", "4:14: error: 'parameters' in [rule.request]: expected a table, found an integer"),
    ("[]", "4:14: error: 'parameters' in [rule.request]: expected a table, found an array"),
  ]) func whatIsNoParameterIsSaidWhereItStands(text: String, expected: String) {
    #expect(said(Self.rule + "[rule.request]\nparameters = \(text)") == [expected])
  }

  @Test func everyMistakeIsSaid() {
    #expect(said(Self.rule + "[rule.request]\nparameters = { a = inf, b = [nan, nan], c = { \"\" = 1 } }").count == 4)
  }

  // MARK: Limits of parameters

  @Test func tooManyValuesAreAnError() throws {
    let most = ParameterSize.mostValues
    func list(_ count: Int) -> String { "{ a = [\(Array(repeating: "1", count: count).joined(separator: ", "))] }" }
    #expect(try parameters(list(most)).count == 1)
    let expected = "4:14: error: 'parameters' in [rule.request]: expected at most 1000 values"
    #expect(said(Self.rule + "[rule.request]\nparameters = \(list(most + 1))") == [expected])
    let empty = "{ a = [\(Array(repeating: "[]", count: most + 1).joined(separator: ", "))] }"
    #expect(said(Self.rule + "[rule.request]\nparameters = \(empty)") == [expected])
  }

  @Test func longParametersAreAnError() throws {
    let expected =
      "4:14: error: 'parameters' in [rule.request]: expected at most 16384 bytes when written as a form"
    // `a=`, `&`, and `b%5Bc%5D=`, `&`: with the values as much as there may be.
    func text(_ count: Int) -> String {
      "{ a = \"\(String(repeating: "x", count: 1000))\", b = { c = \"\(String(repeating: "ü", count: count))\" } }"
    }
    let rest = ParameterSize.mostEncodedBytes - 1000 - "a=&b%5Bc%5D=&".utf8.count
    #expect(try parameters(text(rest / 6)).count == 2)
    #expect(said(Self.rule + "[rule.request]\nparameters = \(text(rest / 6 + 1))") == [expected])
    let long = String(repeating: "k", count: ParameterSize.mostEncodedBytes)
    #expect(said(Self.rule + "[rule.request]\nparameters = { \(long) = {} }") == [expected])
  }

  @Test func whatIsInheritedCounts() throws {
    let values = "[\(Array(repeating: "1", count: 600).joined(separator: ", "))]"
    let defaults = "[defaults.request]\nparameters = { a = \(values) }\n"
    #expect(
      said(defaults + Self.rule + "request.parameters = { b = \(values) }") == [
        "5:22: error: 'parameters' in [rule.request]: expected at most 1000 values, together with the parameters of "
          + "[defaults.request]"
      ])
    #expect(said(defaults + Self.rule + "request.parameters = { a = \(values) }") == [])
    #expect(said(defaults + Self.rule + "request.serializer = \"json\"") == [])
  }

  @Test func deepParametersAreAnError() throws {
    // Dotted keys: TOML arrays and inline tables may nest no deeper than 32.
    func text(_ depth: Int) -> String {
      let step = "{ " + Array(repeating: "a", count: 13).joined(separator: ".") + " = "
      let (steps, rest) = (depth / 13, depth % 13)
      let inner = "{ " + Array(repeating: "a", count: rest + 1).joined(separator: ".") + " = 1 }"
      return String(repeating: step, count: steps) + inner + String(repeating: " }", count: steps)
    }
    #expect(try parameters(text(63)).count == 1)
    let messages = said(Self.rule + "[rule.request]\nparameters = \(text(64))")
    #expect(messages.count == 1)
    #expect(messages.first?.hasSuffix(": expected at most 64 tables and arrays inside one another") == true)
  }

  // MARK: Secrets

  private var world: DictionaryFiles {
    var files = DictionaryFiles(["secret": "HUNTER2\n", "/run/c/key": "HUNTER2"])
    files.variables = ["KEY": "HUNTER2"]
    files.credentialsDirectory = "/run/c"
    return files
  }

  @Test func aTableWithOneOfTheThreeKeysIsASecret() throws {
    let text = """
      { a = { file = "secret" }, b = [1, { env = "KEY" }], c = { d = { credential = "key" } }, password = "HUNTER2", \
      env = "prod", e = { env = "prod", lang = "en" } }
      """
    let secret = ParameterValue.text("HUNTER2")
    let request = try loaded(Self.rule + "[rule.request]\nparameters = \(text)", world).rules[0].request
    #expect(
      request.serialization?.parameters == [
        ParameterEntry("a", secret), ParameterEntry("b", .array([.integer(1), secret])),
        ParameterEntry("c", .dictionary([ParameterEntry("d", secret)])),
        ParameterEntry("e", .dictionary([ParameterEntry("env", .text("prod")), ParameterEntry("lang", .text("en"))])),
        ParameterEntry("env", .text("prod")), ParameterEntry("password", secret),
      ])
    #expect(request.secretParameters == ["a", "b[]", "c[d]", "password"])
  }

  @Test func whatStandsUnderASecretNameIsSecret() throws {
    let request = try loaded(
      Self.rule + "[rule.request]\nparameters = { token = { a = 1, b = [true, \"x\"] }, x = { api_key = 2.5 }, y = 1 }"
    ).rules[0].request
    #expect(request.secretParameters == ["token[a]", "token[b][]", "x[api_key]"])
  }

  @Test(arguments: [
    (
      "{ a = { file = \"none\" } }",
      "4:29: error: 'file' in [rule.request.parameters.a]: cannot read 'none': No such file or directory"
    ),
    (
      "{ a = [{ env = \"UNSET\" }] }",
      "4:29: error: 'env' in [rule.request.parameters.a]: the environment has no variable 'UNSET'"
    ),
    (
      "{ a = { credential = 1 } }",
      "4:35: error: 'credential' in [rule.request.parameters.a]: expected a string, found an integer"
    ),
    (
      "{ a = { file = \"latin\" } }",
      "4:20: error: 'a' in [rule.request.parameters]: the secret is no UTF-8, which a parameter must be"
    ),
  ]) func whatIsNoSecretIsSaidWhereItStands(text: String, expected: String) {
    var files = world
    files.files["latin"] = [0x48, 0xfc]
    #expect(said(Self.rule + "[rule.request]\nparameters = \(text)", files) == [expected])
  }

  @Test func aSecretInAFileThatOthersReadIsAWarning() {
    var files = world
    files.exposed = ["s.toml", "secret"]
    #expect(
      load(Self.rule + "[rule.request]\nparameters = { a = \"x\", token = \"y\", c = { file = \"secret\" } }", files)
        .diagnostics.filter { !$0.isAboutTunnels }.map(\.description) == [
          """
          s.toml:4:33: warning: 'token' in [rule.request.parameters]: a secret stands in this file, which others can read; use { file = "…" }, or mode 0640
              4 | parameters = { a = "…", token = "…", c = { file = "secret" } }
                |                                 ^
          """,
          """
          s.toml:4:51: warning: 'file' in [rule.request.parameters.c]: others can read 'secret', which holds a secret; give it mode 0600 or 0640
              4 | parameters = { a = "…", token = "…", c = { file = "secret" } }
                |                                                   ^
          """,
        ])
  }

  @Test(arguments: [
    "parameters = { a = \"HUNTER2\", b = inf }", "parameters = { token = [\"HUNTER2\", 1979-05-27] }",
    "parameters = { a = { file = \"secret\" }, \"\" = \"HUNTER2\" }", "parameters = [\"HUNTER2\"]",
    "parameters = \"HUNTER2\"", "parameters = { a = \"HUNTER2\\u0001\" }\nserializer = \"plist\"",
    "parameters = { a = { file = \"control\" } }\nserializer = \"plist\"",
    "parameters = { a = { file = \"latin\" } }", "parameter = { a = \"HUNTER2\" }",
    "parameters = { a = \"HUNTER2\", b = { file = \"secret\", fiel = nan } }",
    "parameters.a.b.c = { \"\" = [{ d = \"HUNTER2\" }] }", "parameters = { a = { file = \"long\" } }",
  ]) func noValueIsShown(body: String) {
    var files = world
    files.files["control"] = Array("HUNTER2\u{1}".utf8)
    files.files["latin"] = Array("HUNTER2".utf8) + [0xff]
    files.files["long"] = Array(String(repeating: "HUNTER2", count: 9000).utf8)
    files.exposed = ["s.toml", "secret"]
    let diagnostics = load("[defaults.request]\n\(body)", files).diagnostics
    #expect(!diagnostics.isEmpty)
    let shown = diagnostics.map(\.description).joined(separator: "\n") + Diagnostic.json(diagnostics)
    #expect(!shown.contains("HUNTER2"), "\(shown)")
  }

  // MARK: XML

  private static let unfit = "a control character, U+FFFE or U+FFFF, which no XML can carry"

  @Test(arguments: [
    ("{ a = \"\\u0001\" }", 20, "'a' in [rule.request.parameters]"),
    ("{ a = [\"x\", \"\\u000b\"] }", 26, "'a' in [rule.request.parameters]"),
    ("{ a = \"\\ufffe\" }", 20, "'a' in [rule.request.parameters]"),
    ("{ a.b = \"x\\uffff\" }", 22, "'b' in [rule.request.parameters.a]"),
    ("{ \"a\\u001f\" = 1 }", 28, "'a\\u001f' in [rule.request.parameters]"),
    ("{ a = { env = \"BELL\" } }", 20, "'a' in [rule.request.parameters]"),
  ]) func aPropertyListCarriesNoControlCharacters(text: String, column: Int, title: String) throws {
    var files = DictionaryFiles()
    files.variables["BELL"] = "\u{7}"
    let source = Self.rule + "[rule.request]\nparameters = \(text)\n"
    let expected =
      "4:\(column): error: \(title): its name or value holds \(Self.unfit), and serializer = \"plist\" writes XML"
    #expect(said(source + "serializer = \"plist\"", files) == [expected])
    #expect(said(source + "serializer = \"json\"", files) == [])
    #expect(said(source, files) == [])
    #expect(said("[defaults.request]\nserializer = \"plist\"\n\(source)", files).count == 1)
  }

  @Test func aPropertyListCarriesEverythingElse() throws {
    let text = "{ a = \"\\t\\n\\r\\u007f\\u0080\\ufffd\\ud7ff\\ue000\\U0010ffff<&\" }"
    #expect(said(Self.rule + "[rule.request]\nserializer = \"plist\"\nparameters = \(text)") == [])
  }

  @Test func whatIsInheritedIsToldOnce() {
    let defaults = "[defaults.request]\nparameters = { a = \"\\u0001\" }\n"
    let plist = "request.serializer = \"plist\""
    #expect(
      said(defaults + Self.rule + plist) == [
        "5:22: error: 'serializer' in [rule.request]: the parameter 'a' of [defaults.request] holds \(Self.unfit)"
      ])
    #expect(said(defaults + Self.rule + plist + "\nrequest.parameters.a = 1") == [])
    #expect(said(defaults + "serializer = \"plist\"\n" + Self.rule + plist + "\nrequest.parameters.b = 1").count == 1)
  }
}
