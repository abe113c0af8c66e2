// What of temporary rules outlives the daemon: every field comes back, and no damage makes a rule wider than it was.

import Bytes
import Testing

@testable import Policy

@Suite struct TemporaryRuleFileTests {
  private func rule(
    _ id: Int, _ verdict: TemporaryRule.Verdict, _ host: String, _ change: (inout TemporaryRule) -> Void = { _ in }
  ) throws -> TemporaryRule {
    var rule = TemporaryRule(
      id: id, verdict: verdict, host: try HostPattern.parse(host).get(), since: 1_700_000_000_000,
      until: 1_700_000_600_000, by: "root")
    change(&rule)
    return rule
  }

  private func all() throws -> [TemporaryRule] {
    [
      try rule(1, .allow, "a.example"),
      try rule(2, .deny, "**.example") { $0.port = 65535 },
      try rule(3, .allow, "*.a.example") {
        $0.method = "GET"
        $0.path = "/users/{}/a%2A\"b\\c"
        $0.userID = 1001
        $0.user = "kiosk"
        $0.unit = "ci@x.service"
        $0.by = "an \"operator\"\n\u{1b}[1m"
      },
      try rule(4, .deny, "10.0.0.0/8") { $0.client = IPAddress("192.0.2.1") },
      try rule(5, .allow, "192.0.2.7") { $0.client = IPAddress("2001:db8::1") },
      try rule(6, .allow, "2001:db8::7") { $0.method = "CONNECT" },
      try rule(Int.max, .deny, "2001:db8::/32") { $0.userID = UInt32.max - 1 },
    ]
  }

  @Test func everyFieldComesBack() throws {
    let rules = try all()
    #expect(
      try TemporaryRuleFile.read(Array(TemporaryRuleFile.text(TemporaryRuleFile.Content(rules: rules)).utf8)).rules
        == rules)
    for rule in rules {
      let text = TemporaryRuleFile.text(TemporaryRuleFile.Content(rules: [rule]))
      #expect(try TemporaryRuleFile.read(Array(text.utf8)).rules == [rule])
    }
  }

  /// A denial of an earlier version still holds.
  @Test func theWildcardOfEarlierVersionsIsUnderstood() throws {
    let new = try rule(1, .deny, "a.example") { $0.path = "/u/{}/x" }
    let old = try rule(1, .deny, "a.example") { $0.path = "/u/*/x" }
    let text = TemporaryRuleFile.text(TemporaryRuleFile.Content(rules: [old]))
    #expect(try TemporaryRuleFile.read(Array(text.utf8)).rules == [new])
  }

  @Test func noneIsAFileToo() throws {
    #expect(
      try TemporaryRuleFile.read(Array(TemporaryRuleFile.text(TemporaryRuleFile.Content(rules: [])).utf8)).rules == [])
    #expect(try TemporaryRuleFile.read([]).rules == [])
  }

  @Test func exactHostsComeBack() throws {
    for name in ["a.example", "192.0.2.7", "[2001:db8::7]"] {
      var written = try rule(1, .allow, "a.example")
      written.host = HostPattern(exactly: canonical(name))
      let text = TemporaryRuleFile.text(TemporaryRuleFile.Content(rules: [written]))
      #expect(try TemporaryRuleFile.read(Array(text.utf8)).rules == [written], "\(name)")
      #expect(written.host.matches(canonical(name)))
    }
  }

  @Test func asManyAsMayBeFitIntoTheFile() throws {
    let path = "/" + String(repeating: "a", count: 4000)
    let rules = try (1...1024).map { number in try rule(number, .allow, "a.example") { $0.path = path } }
    let text = TemporaryRuleFile.text(TemporaryRuleFile.Content(rules: rules))
    #expect(text.utf8.count <= TemporaryRuleFile.largestBytes)
    #expect(try TemporaryRuleFile.read(Array(text.utf8)).rules.count == 1024)
  }

  static let whole = [
    "id = 1", "verdict = \"allow\"", "host = \"a.example\"", "since = 1", "until = 2", "by = \"root\"",
  ]

  private func fault(_ text: String) -> String? {
    do {
      _ = try TemporaryRuleFile.read(Array(text.utf8))
      return nil
    } catch { return error.description }
  }

  @Test func whatIsMissingIsAFault() {
    #expect(fault("[[temporary]]\n" + Self.whole.joined(separator: "\n")) == nil)
    for left in Self.whole.indices {
      var lines = Self.whole
      lines.remove(at: left)
      let said = fault("\n[[temporary]]\n" + lines.joined(separator: "\n"))
      #expect(said?.hasPrefix("line 2: ") ?? false, "\(Self.whole[left]): \(said ?? "nothing")")
    }
  }

  /// What is no value of its key, or no key, must not be passed over: the permission would be wider than it was.
  @Test(arguments: [
    "port = 65536", "port = -1", "port = \"80\"", "port = true", "uid = -1", "uid = 4294967296", "uid = \"root\"",
    "client = \"nobody\"", "client = 7", "path = 7", "method = 7", "unit = 7", "user = 7", "pth = \"/x\"", "path = []",
  ])
  func whatIsNoValueIsAFault(line: String) {
    let said = fault("[[temporary]]\n" + (Self.whole + [line]).joined(separator: "\n"))
    #expect(said != nil, "\(line)")
  }

  @Test(arguments: [
    ("verdict = \"allow\"", "verdict = \"maybe\""), ("verdict = \"allow\"", "verdict = \"ask\""),
    ("host = \"a.example\"", "host = \"a..example\""), ("host = \"a.example\"", "host = \"\""),
    ("id = 1", "id = \"1\""), ("since = 1", "since = \"now\""), ("until = 2", "until = 1.5"),
    ("by = \"root\"", "by = 0"),
  ])
  func whatCannotBeReadIsAFault(good: String, bad: String) {
    let text = "[[temporary]]\n" + Self.whole.joined(separator: "\n")
    #expect(fault(text.replacing(good, with: bad)) != nil, "\(bad)")
  }

  @Test(arguments: [
    ("[[temporary]\n", "line 1"), ("x = 1\n", "expected 'next' or [[temporary]], found 'x'"),
    ("[temporary]\nid = 1\n", "line 1"), ("temporary = 7\n", "line 1"), ("\u{0}\u{0}\u{0}", "line 1"),
    ("temporary = [7]\n", "line 1"), ("\n\n[[temporary]]\nid = \n", "line 4"),
  ])
  func otherFilesAreFaults(text: String, expected: String) {
    let said = fault(text)
    #expect(said?.contains(expected) ?? false, "\(said ?? "nothing")")
  }

  @Test func bytesThatAreNoTextAreAFault() {
    #expect(throws: TemporaryRuleFile.Fault.self) { try TemporaryRuleFile.read([0xff, 0xfe, 0x80]) }
  }

  /// However much of the file is lost: what is read is what was written, or nothing.
  @Test func aFileThatIsCutOffSaysNothingElse() throws {
    let rules = try all()
    let bytes = Array(TemporaryRuleFile.text(TemporaryRuleFile.Content(rules: rules)).utf8)
    for count in 0..<bytes.count {
      guard let read = try? TemporaryRuleFile.read(Array(bytes[..<count])).rules else { continue }
      #expect(read == Array(rules.prefix(read.count)), "\(count) bytes")
    }
  }
}
