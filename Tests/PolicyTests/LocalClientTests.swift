// Who a client is to a rule: what could not be looked up, subordinate users, and which units count.

import Testing

@testable import Policy

@Suite struct LocalClientTests {
  private func client(_ user: UInt32, _ cgroup: [String]?, owners: [UInt32] = [], inDoubt: Bool = false) -> LocalClient
  {
    LocalClient(userID: user, user: nil, owners: owners, cgroup: cgroup, isUserInDoubt: inDoubt)
  }

  /// The number of the rule that decides.
  private func rule(_ body: String, _ client: LocalClient?, isTunnel: Bool = false) throws -> Bool {
    let policy = try loaded("[[rule]]\nname = \"r\"\n" + body)
    let method = Array("GET".utf8)
    let path = Array((isTunnel ? "" : "/").utf8)
    var workspace = DecisionWorkspace()
    workspace.host = canonical("h.test")
    let facts = RequestFacts(
      scheme: isTunnel ? .https : .http, port: 80, method: method.span, path: path.span, isTunnel: isTunnel,
      sender: Sender(client: client))
    return policy.decide(facts, in: &workspace).rule == 0
  }

  // MARK: Only slices nest

  static let paths: [([String], trusted: [String], unit: String?)] = [
    ([], [], nil),
    (["a.slice", "a-b.slice", "c.service"], ["a.slice", "a-b.slice", "c.service"], "c.service"),
    (["a.slice", "podman.service", "backup.service"], ["a.slice", "podman.service"], "podman.service"),
    (["a.slice", "podman.service", "x.slice"], ["a.slice", "podman.service"], "podman.service"),
    (["machine.slice", "c.scope", "payload", "a.service"], ["machine.slice", "c.scope"], "c.scope"),
    (["a.slice", "plain", "backup.service"], ["a.slice", "plain"], "a.slice"),
    (["docker", "backup.service"], ["docker"], nil),
    (
      ["user.slice", "user@7.service", "app.slice", "k.service", "m.service"],
      ["user.slice", "user@7.service", "app.slice", "k.service"], "k.service"
    ),
    (["user@7.service", "init.scope", "user@8.service"], ["user@7.service", "init.scope"], "init.scope"),
    (["user@7.service", "app.slice"], ["user@7.service", "app.slice"], "app.slice"),
    (["user@7.service"], ["user@7.service"], "user@7.service"),
    (["_memory.slice", "_cpu.service", "x.service"], ["memory.slice", "cpu.service"], "cpu.service"),
  ]

  @Test(arguments: paths) func onlySlicesNest(path: [String], trusted: [String], unit: String?) {
    let client = client(1, path)
    #expect(client.cgroup == trusted && client.unit == unit && client.outcome == .known)
  }

  // MARK: What is unknown decides the strict way

  static let conditions = ["users = [7]", "units = [\"a.service\"]", "users = [7]\nunits = [\"a.service\"]"]

  @Test(arguments: conditions) func theUnknownMatchesWhatRefusesAndNothingElse(condition: String) throws {
    let unknown = LocalClient.unknown
    #expect(try rule(condition + "\naction = \"deny\"", unknown))
    #expect(try !rule(condition, unknown))
    // It would allow, and no later rule would be asked.
    #expect(try !rule(condition + "\naction = \"deny\"\nenforce = false", unknown))
    // A tunnel is refused, a request is not.
    #expect(try rule(condition + "\nconnect = \"deny\"", unknown, isTunnel: true))
    #expect(try !rule(condition + "\nconnect = \"deny\"", unknown))
    #expect(try !rule(condition + "\naction = \"deny\"", nil))
    #expect(try !rule(condition, nil))
  }

  @Test func whatIsKnownCountsBesideWhatIsNot() throws {
    let both = "users = [7]\nunits = [\"a.service\"]\naction = \"deny\""
    #expect(try rule(both, client(7, nil)))
    #expect(try !rule(both, client(8, nil)))
    #expect(try rule(both, client(0, ["a.service"], inDoubt: true)))
    #expect(try !rule(both, client(0, ["b.service"], inDoubt: true)))
    // A unit that is in doubt says nothing to a rule about users alone.
    #expect(try rule("users = [7]", client(7, nil)))
  }

  @Test func nobodyIsMeantByAUserThatDoesNotExist() throws {
    let result = PolicyLoader.load(
      path: "s.toml",
      files: DictionaryFiles(["s.toml": "[[rule]]\nname = \"r\"\nusers = [\"ghost\"]\naction = \"deny\""]))
    let rule = try #require(result.policy?.rules.first)
    let facts = RequestFacts(
      scheme: .http, port: 80, method: Array("GET".utf8).span, path: Array("/".utf8).span, isTunnel: false,
      sender: Sender(client: .unknown))
    var context = ConditionContext(host: nil, paths: PathReadings())
    guard case .condition(let failed)? = rule.firstFailure(facts, &context) else {
      Issue.record("nobody was meant, and it matched")
      return
    }
    #expect(failed is UserCondition)
  }

  @Test func theLogNamesWhatIsUnknown() {
    #expect(LocalClient.unknown.user == "unknown" && LocalClient.unknown.unit == "unknown")
    #expect(client(7, nil).unit == "unknown" && client(7, nil).user == nil && client(7, nil).outcome == .unitUnknown)
    #expect(client(7, [], inDoubt: true).user == "unknown" && client(7, [], inDoubt: true).outcome == .userUnknown)
  }

  // MARK: Subordinate users

  @Test func aSubordinateUserIsItsOwner() throws {
    let container = client(100_000, [], owners: [7])
    #expect(try rule("users = [7]", container))
    #expect(try rule("users = [7]\naction = \"deny\"", container))
    #expect(try rule("users = [100000]", container))
    #expect(try !rule("users = [8]", container))
    #expect(container.principal == 7 && client(9, []).principal == 9)
  }

  @Test func ofTwoOwnersEitherIsRefusedAndBothMustBeAllowed() throws {
    let shared = client(100_000, [], owners: [7, 8])
    #expect(try rule("users = [7]\naction = \"deny\"", shared))
    #expect(try !rule("users = [7]", shared))
    #expect(try rule("users = [7, 8]", shared))
  }
}
