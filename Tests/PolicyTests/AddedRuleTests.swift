// What keeps a rule from its effect that an operator adds behind all others.

import Bytes
import Testing

@testable import Policy

@Suite struct AddedRuleTests {
  private static func rule(_ name: String, _ lines: String...) -> String {
    "[[rule]]\nname = \"\(name)\"\n" + lines.map { $0 + "\n" }.joined()
  }

  private static let local = IPAddress("127.0.0.1")

  /// That the one rule covers the other is the point of some.
  private static func added(_ text: String) throws -> AddedRule {
    let files = DictionaryFiles(["s.toml": text])
    let policy = try #require(PolicyLoader.load(path: "s.toml", files: files).policy)
    return try #require(AddedRule("added", in: policy, address: local))
  }

  struct Row: Sendable {
    let before: [String]
    let added: [String]
    let isObstacle: Bool
  }

  static let denials: [Row] = [
    Row(before: [], added: ["hosts = [\"a.example\"]"], isObstacle: false),
    Row(
      before: ["hosts = [\"a.example\"]", "paths = [\"/public/*\"]"], added: ["hosts = [\"a.example\"]"],
      isObstacle: true),
    Row(
      before: ["hosts = [\"*.example\"]", "methods = [\"POST\"]"], added: ["hosts = [\"a.example\"]"], isObstacle: true),
    Row(before: ["hosts = [\"a.example\"]"], added: ["hosts = [\"*.example\"]"], isObstacle: true),
    Row(before: ["users = [1]"], added: ["hosts = [\"a.example\"]"], isObstacle: true),
    Row(before: ["hosts = [\"b.example\"]"], added: ["hosts = [\"a.example\"]"], isObstacle: false),
    Row(
      before: ["hosts = [\"a.example\"]", "action = \"deny\""], added: ["hosts = [\"a.example\"]"], isObstacle: false),
    Row(
      before: ["hosts = [\"a.example\"]", "action = \"deny\"", "enforce = false"], added: ["hosts = [\"a.example\"]"],
      isObstacle: true),
    Row(
      before: ["hosts = [\"a.example\"]", "action = \"ask\""], added: ["hosts = [\"a.example\"]"], isObstacle: false),
  ]

  @Test(arguments: denials) func whatLetsPassBeforeADenial(row: Row) throws {
    let first = row.before.isEmpty ? "" : "[[rule]]\nname = \"first\"\n" + row.before.map { $0 + "\n" }.joined()
    let added = "[[rule]]\nname = \"added\"\naction = \"deny\"\n" + row.added.map { $0 + "\n" }.joined()
    #expect(
      try Self.added(first + added).allowance?.name
        == (row.isObstacle ? "first" : nil))
  }

  /// As `deny REF --always` writes it, behind what `allow REF --always` wrote.
  @Test func aDenialOfOneKindOfRequest() throws {
    func rule(_ name: String, _ action: String, _ method: String, _ path: String) -> String {
      Self.rule(
        name, "hosts = [\"a.example\"]", "schemes = [\"http\"]", "ports = [80]", "methods = [\"\(method)\"]",
        "paths = [\"\(path)\"]", "action = \"\(action)\"")
    }
    let denial = rule("added", "deny", "POST", "/b")
    #expect(
      try Self.added(rule("first", "allow", "GET", "/a") + denial).allowance
        == nil)
    let obstacle = try Self.added(rule("first", "allow", "POST", "/*") + denial)
    #expect(obstacle.allowance?.name == "first")
    let byDefault = try Self.added(denial)
    #expect(byDefault.allowance == nil)
  }

  static let permissions: [Row] = [
    Row(before: ["paths = [\"/other\"]"], added: [], isObstacle: false),
    Row(before: ["paths = [\"/Admin*\"]"], added: [], isObstacle: true),
    Row(before: ["clients = [\"127.0.0.0/8\"]"], added: [], isObstacle: true),
    Row(before: ["users = [7]"], added: ["users = [7]"], isObstacle: true),
    Row(before: ["users = [8]"], added: ["users = [7]"], isObstacle: false),
    Row(before: ["methods = [\"POST\"]"], added: [], isObstacle: false),
  ]

  @Test(arguments: permissions) func whatDeniesBeforeAPermission(row: Row) throws {
    let first = "[[rule]]\nname = \"first\"\naction = \"deny\"\n" + row.before.map { $0 + "\n" }.joined()
    let added = Self.rule(
      "added", "hosts = [\"a.example\"]", "schemes = [\"http\"]", "methods = [\"GET\"]", "paths = [\"/admin/x\"]",
      "ports = [80]")
    let rule = try Self.added(first + added + row.added.map { $0 + "\n" }.joined())
    #expect(rule.decider?.name == (row.isObstacle ? "first" : nil))
  }

  @Test func aTunnelIsAskedAboutAsOne() throws {
    let first = Self.rule("first", "action = \"deny\"", "ports = [8443]")
    func added(_ port: Int) -> String {
      Self.rule(
        "added", "hosts = [\"a.example\"]", "schemes = [\"https\"]", "ports = [\(port)]", "connect = \"tunnel\"")
    }
    #expect(try Self.added(first + added(8443)).decider?.name == "first")
    #expect(try Self.added(first + added(443)).decider == nil)
  }
}
