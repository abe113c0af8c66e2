// The form of a diagnostic, to the character.

import Testing

@testable import Policy

@Suite struct DiagnosticTests {
  private func rendered(
    _ source: String, _ files: DictionaryFiles = DictionaryFiles(), name: String = "s.toml"
  ) -> [String] {
    var files = files
    files.files[name] = Array(source.utf8)
    return PolicyLoader.load(path: name, files: files).diagnostics.map(\.description)
  }

  @Test func theFormIsThatOfTheDesign() {
    let rules = """
      #
      #
      #
      #
      #
      #
      #
      #
      #
      [[rule]]
      name = "payments"

      [rule.security]
      pinset = "payments"
      """
    var files = DictionaryFiles(["policy.d/payments.toml": rules])
    files.files["sallyport.toml"] = Array("include = [\"policy.d/*.toml\"]".utf8)
    let result = PolicyLoader.load(path: "sallyport.toml", files: files)
    #expect(
      result.diagnostics.map(\.description) == [
        """
        policy.d/payments.toml:14:1: error: unknown key 'pinset' in [rule.security]; did you mean 'pins'?
           14 | pinset = "payments"
              | ^
        """
      ])
    #expect(result.policy == nil)
  }

  @Test func tabsAreKeptSoThatTheCaretStandsUnderTheColumn() {
    #expect(
      rendered("[log]\n\taccess\t= 1") == [
        "s.toml:2:11: error: 'access' in [log]: expected true or false, found an integer\n"
          + "    2 | \taccess\t= 1\n      | \t      \t  ^"
      ])
  }

  @Test func columnsAreCharacters() {
    #expect(
      rendered("[log]\n\"ümlaut\" = 1\nlevel = \"ü\"") == [
        "s.toml:2:1: error: unknown key 'ümlaut' in [log]\n    2 | \"ümlaut\" = 1\n      | ^",
        "s.toml:3:9: error: 'level' in [log]: expected \"error\", \"warning\", \"info\" or \"debug\", found 'ü'\n"
          + "    3 | level = \"ü\"\n      |         ^",
      ])
  }

  @Test func controlCharactersAreEscapedAndMoveTheCaret() {
    #expect(
      rendered("[log]\n\"a\\u001b\" = 1\n") == [
        "s.toml:2:1: error: unknown key 'a\\u001b' in [log]\n    2 | \"a\\u001b\" = 1\n      | ^"
      ])
    #expect(
      rendered("\u{200b} = 1") == [
        "s.toml:1:1: error: invalid TOML: a character outside of strings and comments that is not ASCII\n"
          + "    1 | \\u200b = 1\n      | ^"
      ])
    #expect(
      rendered("[log]\nlevel = [ \"\u{202e}\", 1] \n").last?.hasSuffix(
        "    2 | level = [ \"\\u202e\", 1]\n      |         ^") == true)
    #expect(rendered("[x", name: "a\nb.toml")[0].hasPrefix("a\\nb.toml:1:3: error: "))
  }

  @Test func aLongLineIsCutAroundTheCaret() throws {
    let many = Array(repeating: "80", count: 200).joined(separator: ", ")
    let source = "[[rule]]\nname = \"a\"\nports = [\(many), 0, 81]"
    let text = try #require(rendered(source).first { $0.contains("found 0") })
    let lines = text.split(separator: "\n").map(String.init)
    #expect(lines[1].hasPrefix("    3 | …"))
    #expect(lines[1].unicodeScalars.count <= 8 + SourceText.longestExcerpt + 2)
    let caret = try #require(lines[2].unicodeScalars.firstIndex(of: "^"))
    let column = lines[2].unicodeScalars.distance(from: lines[2].unicodeScalars.startIndex, to: caret)
    #expect(Array(lines[1].unicodeScalars)[column] == "0")
    #expect(Array(lines[1].unicodeScalars)[column - 2..<column] == [",", " "])
  }

  @Test func aLongValueIsCutInTheSentence() {
    let text = rendered("[log]\nlevel = \"\(String(repeating: "x", count: 5000))\"")[0]
    #expect(text.split(separator: "\n")[0].hasSuffix("found '\(String(repeating: "x", count: 100))…'"))
  }

  @Test func theFileAsAWholeHasNoLine() {
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles())
    #expect(
      result.diagnostics.map(\.description) == [
        "s.toml: error: cannot read the file: No such file or directory"
      ])
    #expect(result.diagnostics[0].location.line == 0)
  }

  @Test func jsonIsAnArrayOfObjects() {
    var files = DictionaryFiles(["s.toml": "[log]\nlevl = 1\n[[rule]]\nname = \"a\"\nreason = \"x\"\n"])
    #expect(
      Diagnostic.json(PolicyLoader.load(path: "s.toml", files: files).diagnostics) == """
        [
          {"file": "s.toml", "line": 2, "column": 1, "severity": "error", "message": "unknown key 'levl' in [log]; did you mean 'level'?"},
          {"file": "s.toml", "line": 5, "column": 10, "severity": "warning", "message": "'reason' in [rule]: it is never shown: the rule denies nothing"}
        ]

        """)
    files.files["s.toml"] = []
    #expect(Diagnostic.json(PolicyLoader.load(path: "s.toml", files: files).diagnostics) == "[]\n")
  }

  @Test func jsonEscapesQuotesAndControlCharacters() {
    #expect(JSONText.string("a\"\\\n\u{1b}ü").text == "\"a\\\"\\\\\\n\\u001bü\"")
    #expect(
      JSONText.object([("a", .array([.null, .boolean(true), .number(-1)]))]).text
        == "{\"a\": [null, true, -1]}")
  }

  @Test func oneLoadSaysABoundedNumberOfThings() {
    let source = String(repeating: "[[rule]]\n", count: ConfigurationReading.mostDiagnostics + 50)
    let diagnostics = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": source]))
      .diagnostics
    #expect(diagnostics.count == ConfigurationReading.mostDiagnostics + 1)
    #expect(
      diagnostics.last?.description == "s.toml: error: more than 10000 diagnostics; the others are left out")
  }

  @Test(arguments: [
    ("pinset", "pins"), ("prots", "ports"), ("Listen", "listen"), ("user-agent", "user_agent"),
    ("lisen", "listen"),
    ("listne", "listen"), ("deny_address", "deny_addresses"), ("cred", "credentials"),
  ]) func aSlipIsRecognised(word: String, meant: String) {
    #expect(
      Suggestion.nearest(to: word, among: TableSchema.proxy.names + ["pins", "ports", "user_agent"]) == meant)
  }

  @Test(arguments: ["x", "", "completely", "zzzzz", String(repeating: "l", count: 100)])
  func anotherWordIsNoSlip(word: String) {
    #expect(Suggestion.nearest(to: word, among: TableSchema.proxy.names) == nil)
  }

  @Test(arguments: [
    ("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("abc", "abd", 1), ("abcd", "acbd", 1),
    ("kitten", "sitten", 1),
    ("kitten", "sittin", 2),
  ]) func distancesCountEdits(left: String, right: String, edits: Int) {
    #expect(Suggestion.distance(left, right, atMost: 2) == edits)
    #expect(Suggestion.distance(right, left, atMost: 2) == edits)
    #expect(Suggestion.distance(left, right, atMost: edits - 1) == nil)
  }
}
