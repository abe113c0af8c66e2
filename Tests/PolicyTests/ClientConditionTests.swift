// `users`, `units` and `when` of a rule: what is read, what is said of the rest, and whom they let through.

import Reachability
import Testing

@testable import Policy

@Suite struct ClientConditionTests {
  static let rule = "[[rule]]\nname = \"r\"\n"

  private func conditions(_ body: String) throws -> Rule.Conditions {
    try loaded(Self.rule + body).rules[0].conditions
  }

  // MARK: What is read

  @Test func usersAreNumbersAndKeepTheirNames() throws {
    let conditions = try conditions("users = [\"kiosk\", 0, 4294967294]")
    #expect(conditions[UserCondition.self]?.numbers == [1001, 0, 4_294_967_294])
    #expect(conditions[UserCondition.self]?.names == ["kiosk", "0", "4294967294"])
  }

  @Test func aRuleWithoutUsersIsForAny() throws {
    let conditions = try conditions("")
    #expect(
      conditions[UserCondition.self]?.numbers == nil && conditions.values(of: UnitCondition.self) == []
        && conditions.values(of: LinkCondition.self) == [])
  }

  @Test func anUnknownUserIsNobody() throws {
    let result = PolicyLoader.load(
      path: "s.toml", files: DictionaryFiles(["s.toml": Self.rule + "users = [\"ghost\"]"]))
    let policy = try #require(result.policy)
    #expect(
      policy.rules[0].conditions[UserCondition.self]?.numbers == []
        && policy.rules[0].conditions[UserCondition.self]?.names == ["ghost"])
    #expect(policy.identity.asksForClient)
    #expect(decides(policy, nil) == nil)
    #expect(decides(policy, LocalClient(userID: 0, user: "root", cgroup: [])) == nil)
  }

  @Test(arguments: [
    "a.service", "user-1000.slice", "session-4.scope", "a.socket", "srv-data.mount", "dev-sda2.swap",
    "getty@tty1.service", "system-getty.slice", "a:b_c.d@e\\\\x2df.service", "A.service",
    String(repeating: "u", count: 247) + ".service",
  ]) func unitsAreTakenAsTheyAre(name: String) throws {
    let units = try conditions("units = [\"\(name)\"]").values(of: UnitCondition.self)
    #expect(units == [name.split(separator: "\\\\").joined(separator: "\\")])
  }

  @Test func linksAreKinds() throws {
    let conditions = try conditions("when = [\"not-reachable\", \"wwan\", \"wifi\", \"unknown\"]")
    #expect(conditions.values(of: LinkCondition.self) == [.notReachable, .wwan, .wifi, .unknown])
  }

  @Test func onlyUsersAndUnitsAskWhoTheClientIs() throws {
    #expect(try loaded(Self.rule + "users = [1]").identity.asksForClient)
    #expect(try loaded(Self.rule + "units = [\"a.service\"]").identity.asksForClient)
    #expect(try !loaded(Self.rule + "when = [\"wifi\"]").identity.asksForClient)
  }

  @Test func aNameIsLookedUpOnceALoad() throws {
    final class Count: @unchecked Sendable { var lookups = 0 }
    struct Counting: PolicyFiles {
      let count = Count()
      let credentialsDirectory: String? = nil
      func read(_ path: String, limit: Int) -> Result<[UInt8], FileFault> {
        let rules = (0..<100).map {
          "[[rule]]\nname = \"r\($0)\"\nhosts = [\"h\($0)\"]\nusers = [\"kiosk\", \"ghost\"]\n"
        }
        return .success(Array(rules.joined().utf8))
      }
      func expand(_ pattern: String, in directory: String) -> Result<[String], FileFault> { .success([]) }
      func isReadableByOthers(_ path: String) -> Bool { false }
      func environment(_ name: String) -> [UInt8]? { nil }
      func userID(named name: String) -> Result<UInt32?, FileFault> {
        count.lookups += 1
        return .success(name == "kiosk" ? 1001 : nil)
      }
    }
    let files = Counting()
    let result = PolicyLoader.load(path: "s.toml", files: files)
    #expect(result.policy?.rules.count == 100 && result.diagnostics.count == 100)
    #expect(files.count.lookups == 2)
  }

  // MARK: Whom they let through

  private func decides(_ policy: Policy, _ client: LocalClient?, _ link: ReachabilityStatus = .unknown) -> Int? {
    Explanation(
      by: policy, method: "GET", scheme: .http, host: canonical("a.example"), port: 80, path: "/", isTunnel: false,
      Asker(Sender(client: client), link: link)
    ).decision.rule
  }

  @Test func aClientIsOneOfTheUsersInOneOfTheUnits() throws {
    let policy = try loaded(Self.rule + "users = [\"kiosk\", 7]\nunits = [\"kiosk.slice\", \"b.service\"]")
    func client(_ user: UInt32, _ cgroup: String...) -> LocalClient {
      LocalClient(userID: user, user: nil, cgroup: cgroup)
    }
    #expect(decides(policy, client(1001, "kiosk.slice", "x.service")) == 0)
    #expect(decides(policy, client(7, "system.slice", "b.service")) == 0)
    #expect(decides(policy, client(7, "system.slice", "bb.service")) == nil)
    #expect(decides(policy, client(8, "b.service")) == nil)
    #expect(decides(policy, client(7)) == nil)
    #expect(decides(policy, nil) == nil)
  }

  @Test func namesThatSystemdEscapesAreThoseOfTheUnits() throws {
    let policy = try loaded(Self.rule + "units = [\"memory.service\", \"_x.slice\"]")
    for (component, unit) in [("_memory.service", "memory.service"), ("__x.slice", "_x.slice")] {
      let client = LocalClient(userID: 1, user: nil, cgroup: ["system.slice", component])
      #expect(client.unit == unit && client.cgroup == ["system.slice", unit])
      #expect(decides(policy, client) == 0)
    }
  }

  @Test func theLinkIsOneOfTheKinds() throws {
    let policy = try loaded(Self.rule + "when = [\"wifi\", \"wired\"]")
    for link in ReachabilityStatus.allCases {
      #expect(decides(policy, nil, link) == ([.wifi, .wired].contains(link) ? 0 : nil), "\(link)")
    }
  }

  // MARK: What is said of the rest

  private static let users = "'users' in [rule]"
  @Test func unitsOfAUserManagerCountOnlyWithTheUser() throws {
    let own = ["user.slice", "user-7.slice", "user@7.service", "app.slice", "kiosk.service"]
    let units = Self.rule + "units = [\"kiosk.service\"]"
    let both = units + "\nusers = [7]"
    #expect(decides(try loaded(units), LocalClient(userID: 7, user: nil, cgroup: own)) == nil)
    #expect(decides(try loaded(both), LocalClient(userID: 7, user: nil, cgroup: own)) != nil)
    #expect(decides(try loaded(both), LocalClient(userID: 8, user: nil, cgroup: own)) == nil)
    let manager = try loaded(Self.rule + "units = [\"user@7.service\"]")
    #expect(decides(manager, LocalClient(userID: 7, user: nil, cgroup: own)) != nil)
  }

  private static let units = "'units' in [rule]"
  private static let suffixes = "(.service, .scope, .slice, .socket, .mount or .swap)"
  private static let form = "expected the name of a systemd unit, 1 to 255 ASCII letters, digits and ':_.\\@-'"

  static let userRows: [LoadRow] = [
    LoadRow(
      "types", rule + "users = \"kiosk\"",
      "3:9: error: \(users): expected an array of names and numbers of users, found a string"),
    LoadRow(
      "elements", rule + "users = [true, 1.5, [\"kiosk\"]]",
      "3:10: error: \(users): expected the name or the number of a user, found a boolean",
      "3:16: error: \(users): expected the name or the number of a user, found a float",
      "3:21: error: \(users): expected the name or the number of a user, found an array"),
    LoadRow(
      "an empty list", rule + "users = []",
      "3:9: error: \(users): an empty list matches nothing; leave the key out to match any"),
    LoadRow(
      "numbers that nobody has", rule + "users = [-1, 4294967295]",
      "3:10: error: \(users): expected an integer from 0 to 4294967294, found -1",
      "3:14: error: \(users): expected an integer from 0 to 4294967294, found 4294967295"),
    LoadRow(
      "a number between quotes", rule + "users = [\"1001\"]",
      "3:10: error: \(users): there is no user named '1001'; a number stands without quotes"),
    LoadRow(
      "a name that nobody has", rule + "users = [\"kiosk\", \"ghost\"]",
      "3:19: warning: \(users): no user named 'ghost' exists, so this entry matches nobody; names are looked up when "
        + "the configuration is read"),
    LoadRow(
      "names that nobody can have", rule + "users = [\"\", \"a:b\", \"a\\nb\"]",
      "3:10: error: \(users): \(name), found ''", "3:14: error: \(users): \(name), found 'a:b'",
      "3:21: error: \(users): \(name), found 'a\\nb'"),
    LoadRow(
      "somebody twice", rule + "users = [\"root\", 0, \"root\", 7, 7, \"toor\"]",
      "3:18: warning: \(users): '0' is the same user as 'root', who stands in the list already",
      "3:21: warning: \(users): 'root' stands in the list twice",
      "3:32: warning: \(users): '7' stands in the list twice",
      "3:35: warning: \(users): 'toor' is the same user as 'root', who stands in the list already"),
    LoadRow(
      "users who are near to the key", rule + "user = [\"root\"]",
      "3:1: error: unknown key 'user' in [rule]; did you mean 'users'?"),
  ]

  private static let name = "expected the name of a user, 1 to 255 bytes without ':' and control characters"

  @Test(arguments: userRows) func whatIsSaidOfUsers(row: LoadRow) { row.check() }

  @Test func aNameServiceThatFailsIsAnError() {
    var files = DictionaryFiles()
    files.lostUsers["kiosk"] = "Connection timed out"
    LoadRow(
      "a directory that does not answer", Self.rule + "users = [\"kiosk\"]",
      "3:10: error: 'users' in [rule]: cannot look up the user 'kiosk': Connection timed out"
    ).check(files)
  }

  static let unitRows: [LoadRow] = [
    LoadRow(
      "types", rule + "units = \"a.service\"",
      "3:9: error: \(units): expected an array of names of systemd units, found a string"),
    LoadRow(
      "an element that is none", rule + "units = [1]", "3:10: error: \(units): expected a string, found an integer"),
    LoadRow(
      "an empty list", rule + "units = []",
      "3:9: error: \(units): an empty list matches nothing; leave the key out to match any"),
    LoadRow(
      "no suffix", rule + "units = [\"kiosk\"]",
      "3:10: error: \(units): expected a unit that has a control group \(suffixes), found 'kiosk'; "
        + "did you mean 'kiosk.service'?"),
    LoadRow(
      "suffixes of others",
      rule + "units = [\"a.timer\", \"a.sevice\", \"a.slices\", \"org.app\", \".service\", \"a.target\"]",
      "3:10: error: \(units): expected a unit that has a control group \(suffixes), found 'a.timer'; "
        + "did you mean 'a.service'?",
      "3:21: error: \(units): expected a unit that has a control group \(suffixes), found 'a.sevice'; "
        + "did you mean 'a.service'?",
      "3:33: error: \(units): expected a unit that has a control group \(suffixes), found 'a.slices'; "
        + "did you mean 'a.slice'?",
      "3:45: error: \(units): expected a unit that has a control group \(suffixes), found 'org.app'; "
        + "did you mean 'org.app.service'?",
      "3:56: error: \(units): expected a unit that has a control group \(suffixes), found '.service'; "
        + "did you mean '.service.service'?",
      "3:68: error: \(units): expected a unit that has a control group \(suffixes), found 'a.target'; "
        + "did you mean 'a.service'?"),
    LoadRow(
      "characters that no unit has",
      rule
        + "units = [\"\", \"a b.service\", \"kiosk-*.service\", \"a.slice/b.service\", \"@a.service\", \"ü.service\"]",
      "3:10: error: \(units): \(form), found ''", "3:14: error: \(units): \(form), found 'a b.service'",
      "3:29: error: \(units): \(form), found 'kiosk-*.service'; there are no wildcards, but the name of a slice stands "
        + "for every unit in it",
      "3:48: error: \(units): \(form), found 'a.slice/b.service'; name one component of the path",
      "3:69: error: \(units): \(form), found '@a.service'", "3:83: error: \(units): \(form), found 'ü.service'"),
    LoadRow(
      "templates", rule + "units = [\"app@.service\", \"my-app@.socket\"]",
      "3:10: error: \(units): 'app@.service' is a template, of which instances run only; name those ('app@NAME.service') "
        + "or their slice, which is 'system-app.slice' where the unit does not name another",
      "3:26: error: \(units): 'my-app@.socket' is a template, of which instances run only; name those "
        + "('my-app@NAME.socket') or their slice, which is 'system-my\\x2dapp.slice' where the unit does not name another"
    ),
    LoadRow(
      "the slice of all units", rule + "units = [\"-.slice\"]",
      "3:10: error: \(units): '-.slice' is the slice of all units; leave 'units' out to match any"),
    LoadRow(
      "a unit twice", rule + "units = [\"a.service\", \"b.service\", \"a.service\"]",
      "3:36: warning: \(units): 'a.service' stands in the list twice"),
  ]

  @Test(arguments: unitRows) func whatIsSaidOfUnits(row: LoadRow) { row.check() }

  @Test(arguments: [
    "users = ['\(String(repeating: "u", count: 256))']", "units = ['\(String(repeating: "u", count: 248)).service']",
  ])
  func aNameHasAnEnd(body: String) {
    let result = PolicyLoader.load(path: "s.toml", files: DictionaryFiles(["s.toml": Self.rule + body]))
    let found = "found '\(String(repeating: "u", count: 100))…'"
    #expect(result.diagnostics.count == 1 && result.diagnostics[0].message.hasSuffix(found), "\(result.diagnostics)")
  }

  static let linkRows: [LoadRow] = [
    LoadRow(
      "types", rule + "when = \"wifi\"", "3:8: error: 'when' in [rule]: expected an array of strings, found a string"),
    LoadRow(
      "an empty list", rule + "when = []",
      "3:8: error: 'when' in [rule]: an empty list matches nothing; leave the key out to match any"),
    LoadRow(
      "kinds that are none", rule + "when = [\"wird\", \"lte\", 4]",
      "3:9: error: 'when' in [rule]: expected \"unknown\", \"not-reachable\", \"wwan\", \"wifi\" or \"wired\", found 'wird'; "
        + "did you mean 'wired'?",
      "3:17: error: 'when' in [rule]: expected \"unknown\", \"not-reachable\", \"wwan\", \"wifi\" or \"wired\", found 'lte'",
      "3:24: error: 'when' in [rule]: expected a string, found an integer"),
    LoadRow(
      "a kind twice", rule + "when = [\"wifi\", \"wifi\"]",
      "3:17: warning: 'when' in [rule]: 'wifi' stands in the list twice"),
    LoadRow(
      "every kind", rule + "when = [\"unknown\", \"not-reachable\", \"wwan\", \"wifi\", \"wired\"]",
      "3:8: warning: 'when' in [rule]: every kind is listed, so this always holds"),
    LoadRow("every kind by which something is reached", rule + "when = [\"unknown\", \"wwan\", \"wifi\", \"wired\"]"),
  ]

  @Test(arguments: linkRows) func whatIsSaidOfLinks(row: LoadRow) { row.check() }
}
