// The past decided again: what changes, for whom, and what cannot be known.

import Bytes
import Policy
import Testing

@testable import History

@Suite struct HistoryReplayTests {
  private static func judge(_ text: String) throws -> HistoryJudge {
    let result = MadeUpFiles.load(text)
    let policy = try #require(result.policy, "\(result.diagnostics)")
    return HistoryJudge(policy) { _ in false }
  }

  private static let ada = Asker(user: "ada")
  private static let ci = Asker(user: "ci", unit: "ci.service")

  @Test func whatChangesIsGroupedAndWhatIsDeniedComesFirst() throws {
    var judge = try Self.judge(
      """
      [proxy]
      default = "deny"
      [[rule]]
      name = "no-x"
      hosts = ["x.example"]
      action = "deny"
      [[rule]]
      name = "ada"
      users = ["ada"]
      hosts = ["a.example"]
      """)
    let replay = HistoryReplay(
      [
        Self.ada.asks("GET http://a.example/1", count: 5),
        Self.ada.asks("GET http://a.example/2", denied: true, count: 3),
        Self.ci.asks("GET http://x.example/1", count: 2, last: 7),
        Self.ci.asks("GET http://x.example/2", count: 4, last: 9),
        Self.ci.asks("CONNECT b.example:443"), Self.ci.asks("GET http://x.example/3", denied: true),
      ], by: &judge)
    #expect(replay.total == 16)
    #expect(replay.newlyDenied == 7)
    #expect(replay.newlyAllowed == 3)
    #expect(replay.inexact == 0 && replay.unasked == 0)
    #expect(replay.groups.map(\.rule) == ["no-x", nil, "ada"])
    #expect(replay.groups.map(\.change) == [.denied, .denied, .allowed])
    let first = replay.groups[0]
    #expect(first.place == "p.toml:3" && first.user == "ci" && first.unit == "ci.service")
    #expect(first.count == 6 && first.last == 9)
    #expect(first.requests.map(\.text) == ["GET http://x.example/2", "GET http://x.example/1"])
  }

  @Test(arguments: [
    ("users = [\"ci\"]", true), ("users = [\"ada\"]", false), ("units = [\"ci.service\"]", true),
    ("units = [\"system.slice\"]", true), ("units = [\"other.service\"]", false), ("when = [\"wifi\"]", true),
    ("when = [\"wwan\"]", false), ("methods = [\"GET\"]", true), ("methods = [\"POST\"]", false),
    ("paths = [\"/v1/*\"]", true), ("paths = [\"/v2/*\"]", false), ("ports = [8080]", true), ("ports = [80]", false),
    ("schemes = [\"http\"]", true), ("schemes = [\"https\"]", false),
    ("target = \"https://t.example/base/\"", true), ("deny_addresses = [\"192.0.2.0/24\"]", false),
    ("deny_addresses = [\"198.51.100.0/24\"]", true),
  ])
  func everyConditionIsHeldAgainstWhatWasRecorded(_ condition: String, _ isAllowed: Bool) throws {
    var request = Self.ci.asks("GET http://a.example:8080/v1/x")
    var kind = request.kind
    kind[.link] = "wifi"
    kind[.route] = "direct"
    kind[.upstream] = "192.0.2.7"
    request = HistoryRequest(kind: kind, path: request.path, count: 1, last: 0)
    var judge = try Self.judge(
      "[proxy]\ndefault = \"deny\"\n[[rule]]\nname = \"r\"\nhosts = [\"a.example\"]\n\(condition)\n")
    let judgement = judge.judge(request)
    #expect(judgement?.isAllowed == isAllowed)
    #expect(judgement?.isExact == true)
  }

  @Test func aTunnelIsDecidedAsOne() throws {
    var judge = try Self.judge(
      """
      [proxy]
      default = "deny"
      [[rule]]
      name = "requests"
      hosts = ["a.example"]
      methods = ["GET"]
      [[rule]]
      name = "port"
      hosts = ["b.example"]
      ports = [443, 8443]
      """)
    #expect(judge.judge(Self.ada.asks("CONNECT a.example:443"))?.isAllowed == false)
    #expect(judge.judge(Self.ada.asks("CONNECT b.example:8443"))?.isAllowed == true)
    #expect(judge.judge(Self.ada.asks("CONNECT b.example:22"))?.isAllowed == false)
  }

  @Test func whatWasNotRecordedIsDecidedTheStrictWay() throws {
    var judge = try Self.judge(
      "[[rule]]\nname = \"ci\"\nunits = [\"ci.service\"]\nhosts = [\"a.example\"]\naction = \"deny\"\n")
    var kind = Self.ada.asks("GET http://a.example/").kind
    kind[.known] = "unit-unknown"
    let doubtful = judge.judge(HistoryRequest(kind: kind, path: "/", count: 1, last: 0))
    #expect(doubtful?.isAllowed == false && doubtful?.isExact == false)
    var refused = Self.ada.asks("GET http://b.example/", denied: true).kind
    refused[.reason] = "address-denied"
    let address = judge.judge(HistoryRequest(kind: refused, path: "/", count: 1, last: 0))
    #expect(address?.isAllowed == false && address?.isExact == false)
    let long = Self.ada.asks("GET http://b.example/" + String(repeating: "x", count: 1023))
    #expect(judge.judge(long)?.isExact == false)
  }

  @Test func whatNamesNoHostIsNotAsked() throws {
    var judge = try Self.judge("")
    var kind = HistoryKind()
    kind[.decision] = "allow"
    kind[.method] = "OPTIONS"
    let replay = HistoryReplay([HistoryRequest(kind: kind, path: "", count: 2, last: 0)], by: &judge)
    #expect(replay.unasked == 2 && replay.total == 2 && replay.groups.isEmpty)
  }

  @Test func equalRequestsAreOne() {
    var requests = HistoryRequests()
    let kind = Self.ada.asks("GET http://a.example/").kind
    for number in 1...10 {
      requests.add(
        HistoryRecord(
          number: HistorySchema.firstNumber(at: Int64(number)), kind: 1, reference: 0, path: number > 9 ? "/b" : "/a",
          status: 200, bytesIn: 0, bytesOut: 0, totalMicroseconds: 0), kind)
    }
    #expect(requests.total == 10)
    #expect(requests.all.map(\.count) == [9, 1])
    #expect(requests.all.map(\.last) == [9, 10])
  }
}
