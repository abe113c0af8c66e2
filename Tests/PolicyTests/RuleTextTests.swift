// A rule as text: every key in its place, what needs quoting quoted, long lists in lines, and names a rule may have.

import Testing

@testable import Policy

@Suite struct RuleTextTests {
  @Test func aRuleOfNothingButAHost() {
    #expect(
      RuleText(name: "a", hosts: ["a.example"]).text == """
        [[rule]]
        name    = "a"
        hosts   = ["a.example"]

        """)
  }

  @Test func everyKeyHasItsPlace() throws {
    var rule = RuleText(name: "allow.kiosk.a.example", hosts: ["a.example"])
    rule.users = ["\"kiosk\"", "1002"]
    rule.units = ["ci.service"]
    rule.ports = [443, 8443]
    rule.schemes = [.https]
    rule.methods = ["GET"]
    rule.paths = ["/users/*"]
    rule.connect = .intercept
    #expect(
      rule.text == """
        [[rule]]
        name    = "allow.kiosk.a.example"
        users   = ["kiosk", 1002]
        units   = ["ci.service"]
        hosts   = ["a.example"]
        ports   = [443, 8443]
        schemes = ["https"]
        methods = ["GET"]
        paths   = ["/users/*"]
        connect = "intercept"

        """)
    let read = try #require(try loadedRegardless(rule.text).rules.first)
    #expect(read.name == rule.name && read.conditions[UserCondition.self]?.numbers == [1001, 1002])
    #expect(
      read.conditions.values(of: UnitCondition.self) == ["ci.service"]
        && read.conditions.values(of: PortCondition.self) == [443, 8443])
    #expect(
      read.conditions.values(of: MethodCondition.self) == ["GET"]
        && read.conditions.values(of: PathsCondition.self).map(\.description) == ["/users/*"])
    #expect(
      read.conditions.values(of: SchemeCondition.self) == [.https] && read.connect == .intercept
        && read.action == .allow)
  }

  @Test func anotherActionIsSaid() throws {
    for action in [RuleAction.deny, .ask] {
      var rule = RuleText(name: "a", hosts: ["a.example"])
      rule.action = action
      #expect(rule.text.hasSuffix("action  = \"\(action.rawValue)\"\n"))
      #expect(try loadedRegardless(rule.text).rules[0].action == action)
    }
  }

  @Test func whatNeedsQuotingIsQuoted() throws {
    var rule = RuleText(name: "a", hosts: ["a.example"])
    rule.paths = ["/a\"b\\c"]
    #expect(rule.text.contains("paths   = [\"/a\\\"b\\\\c\"]\n"))
  }

  @Test func aLongListTakesALineForEachElement() throws {
    let hosts = (0..<12).map { "host-\($0).a.example" }
    let rule = RuleText(name: "a", hosts: hosts)
    #expect(rule.text.contains("hosts   = [\n  \"host-0.a.example\",\n"))
    #expect(rule.text.hasSuffix("  \"host-11.a.example\",\n]\n"))
    #expect(try loadedRegardless(rule.text).rules[0].conditions.hosts.map(\.description) == hosts)
  }

  @Test(arguments: [
    (["allow", "ci", "a.example"], "allow.ci.a.example"), (["allow", "2001:db8::1"], "allow.2001-db8--1"),
    (["deny", "ü x", "**.a"], "deny.---x.--.a"), (["a_b", "c-d"], "a_b.c-d"),
  ])
  func namesAreWhatANameMayHold(parts: [String], name: String) throws {
    #expect(RuleText.plainName(parts) == name)
    _ = try loadedRegardless(RuleText(name: name, hosts: ["a"]).text)
  }

  @Test func aNameLeavesRoomForANumber() {
    #expect(RuleText.plainName([String(repeating: "n", count: 99)]).utf8.count == 56)
  }
}
