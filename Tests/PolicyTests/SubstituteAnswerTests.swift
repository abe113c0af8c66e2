// `answer` of [rule.response]: how it is read, which files are refused, what is inherited, and what `explain` says.

import Testing

@testable import Policy

@Suite struct SubstituteAnswerTests {
  private static let page = "<p>offline"
  private static let rule = "[[rule]]\nname = \"a\"\nschemes = [\"http\"]\n"

  private func load(_ text: String, _ change: (inout DictionaryFiles) -> Void = { _ in }, _ use: SecretUse = .required)
    -> LoadResult
  {
    var files = DictionaryFiles(["etc/s.toml": text, "etc/offline.html": Self.page, "/a/big": "x"])
    files.files["/a/big"] = [UInt8](repeating: 0x61, count: SubstituteAnswer.largestBytes + 1)
    files.files["/a/full"] = [UInt8](repeating: 0x61, count: SubstituteAnswer.largestBytes)
    change(&files)
    return PolicyLoader.load(path: "etc/s.toml", files: files, secrets: use)
  }

  @Test func theFileIsReadRelativeToTheConfiguration() throws {
    let result = load(Self.rule + "response.answer = { file = \"offline.html\", type = \"text/html\" }")
    #expect(result.diagnostics.map(\.description) == [])
    let answer = try #require(result.policy?.rules[0].answer)
    #expect(answer.path == "etc/offline.html" && answer.content == Array(Self.page.utf8) && answer.type == "text/html")
    #expect(answer.occasions == [.unreachable, .serverError])
    #expect(result.files.contains("etc/offline.html"))
    #expect(result.policy?.rules[0].response?.judges == false)
  }

  @Test func aFileOfAMebibyteIsTaken() throws {
    let result = load(Self.rule + "response.answer = { file = \"/a/full\", type = \"text/plain\", when = [\"5xx\"] }")
    #expect(result.policy?.rules[0].answer?.content.count == 1 << 20)
  }

  @Test(arguments: [
    (
      "{ file = \"/a/big\", type = \"text/html\" }",
      "4:28: error: 'file' in [rule.response.answer]: cannot read '/a/big', of 1 MiB at most: the file has more than"
    ),
    (
      "{ file = \"none.html\", type = \"text/html\" }",
      "4:28: error: 'file' in [rule.response.answer]: cannot read 'etc/none.html', of 1 MiB at most: No such file"
    ),
    ("{ file = \"\", type = \"text/html\" }", "4:28: error: 'file' in [rule.response.answer]: expected a path"),
    (
      "{ file = \"offline.html\" }", "4:19: error: 'answer' in [rule.response]: expected a table with 'file' and 'type'"
    ),
    ("{ type = \"text/html\" }", "4:19: error: 'answer' in [rule.response]: expected a table with 'file' and 'type'"),
    ("{ file = \"offline.html\", type = \"html\" }", "error: 'type' in [rule.response.answer]: expected a media type"),
    ("{ file = \"offline.html\", type = \"*/*\" }", "error: 'type' in [rule.response.answer]: expected a media type"),
    (
      "{ file = \"offline.html\", type = \"text/html\\r\\nX: y\" }", "error: 'type' in [rule.response.answer]: expected"
    ),
    (
      "{ file = \"offline.html\", type = \"text/html\", when = [] }",
      "error: 'when' in [rule.response.answer]: an empty list"
    ),
    (
      "{ file = \"offline.html\", type = \"text/html\", when = [\"4xx\"] }",
      "error: 'when' in [rule.response.answer]: expected \"unreachable\", \"5xx\" or \"violation\", found '4xx'"
    ),
    (
      "{ file = \"offline.html\", type = \"text/html\", when = [\"5xx\", \"5xx\"] }",
      "warning: 'when' in [rule.response.answer]: "
    ),
    ("{ file = \"offline.html\", type = \"text/html\", status = 200 }", "error: unknown key 'status'"),
    ("\"offline.html\"", "4:19: error: 'answer' in [rule.response]: expected a table"),
    (
      "{ file = \"offline.html\", type = \"text/html\", when = [\"violation\"] }",
      "4:19: warning: 'answer' in [rule.response]: \"violation\" never comes"
    ),
  ]) func whatIsWrongIsSaid(value: String, expected: String) {
    let seen = load(Self.rule + "response.answer = \(value)").diagnostics.map(\.description)
    #expect(seen.contains { $0.contains(expected) }, "\(seen)")
  }

  @Test func aViolationComesWhereSomethingIsJudged() {
    let table = "answer = { file = \"offline.html\", type = \"text/html\", when = [\"violation\"] }"
    let own = load(Self.rule + "[rule.response]\nserializer = \"json\"\n\(table)")
    let inherited = load(Self.rule + "[rule.response]\n\(table)\n[defaults.response]\nserializer = \"json\"")
    #expect((own.diagnostics + inherited.diagnostics).map(\.description) == [])
    let idle = load("[defaults.response]\n\(table)").diagnostics.map(\.description)
    #expect(idle.contains { $0.contains("\"violation\" never comes") }, "\(idle)")
  }

  @Test func itIsInheritedWhole() throws {
    let defaults =
      "\n[defaults.response]\nanswer = { file = \"offline.html\", type = \"text/html\", when = [\"unreachable\"] }"
    let silent = try #require(load(Self.rule + defaults).policy)
    #expect(silent.rules[0].answer?.occasions == [.unreachable])
    let none = Decision(verdict: .allow, reason: .defaultAllow, rule: nil)
    #expect(silent.substituteAnswer(of: none)?.type == "text/html")
    let own = "[rule.response]\nanswer = { file = \"offline.html\", type = \"text/plain\" }"
    let speaks = try #require(load(Self.rule + own + defaults).policy)
    #expect(speaks.rules[0].answer?.occasions == [.unreachable, .serverError])
    #expect(speaks.rules[0].answer?.type == "text/plain")
  }

  /// People who may not read it may still check; what needs no secret needs no page.
  @Test func aFileThatOnlyTheServiceMayReadIsANote() {
    let text = Self.rule + "response.answer = { file = \"offline.html\", type = \"text/html\" }"
    let hide: (inout DictionaryFiles) -> Void = { $0.unreadable["etc/offline.html"] = "Permission denied" }
    #expect(load(text, hide).policy == nil)
    let inspected = load(text, hide, .inspected)
    #expect(inspected.policy != nil)
    #expect(
      inspected.diagnostics.map(\.description).contains { $0.contains("note: ") && $0.contains("not readable by you") })
    #expect(load(text, hide, .unneeded).policy != nil)
  }

  @Test func explainShowsIt() throws {
    let policy = try #require(
      load(Self.rule + "response.answer = { file = \"offline.html\", type = \"text/html\" }").policy)
    let seen = Explanation(
      by: policy, method: "GET", scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false)
    #expect(
      seen.description.contains("  answer: etc/offline.html (text/html, 10B) where unreachable, 5xx\n"), "\(seen)")
    let json =
      "\"answer\": {\"file\": \"etc/offline.html\", \"type\": \"text/html\", \"bytes\": 10, \"when\": [\"unreachable\", \"5xx\"]}"
    #expect(seen.json.contains(json), "\(seen.json)")
  }
}
