// Rules out of a past: valid, minimal, all that was allowed and nothing that was denied; and a week of a build machine.

import Bytes
import Policy
import TestSupport
import Testing

@testable import History

@Suite struct HistoryLearningTests {
  private static let ada = Asker(user: "ada")
  private static let ci = Asker(user: "ci", unit: "ci.service")

  private static func learn(_ requests: [HistoryRequest]) throws -> HistoryLearning.Outcome {
    try HistoryLearning(
      load: { MadeUpFiles.load("[proxy]\ndefault = \"deny\"\n" + $0).policy },
      nameOf: { number, name in name.map { people[$0] == nil ? number : "\"\($0)\"" } ?? number }
    ).learn(from: requests)
  }

  /// The lines of the rules without comments.
  private static func lines(_ requests: [HistoryRequest]) throws -> [String] {
    try learn(requests).text.split(separator: "\n").map(String.init).filter {
      !$0.hasPrefix("#") && !$0.hasPrefix("name")
    }
  }

  private static func judge(_ outcome: HistoryLearning.Outcome, strictly: Bool = true) throws -> HistoryJudge {
    let result = MadeUpFiles.load("[proxy]\ndefault = \"deny\"\n" + outcome.text)
    if strictly { #expect(result.diagnostics.map(\.description) == []) }
    return HistoryJudge(try #require(result.policy)) { _ in false }
  }

  @Test func tunnelsAreByHostAndPort() throws {
    #expect(
      try Self.lines([
        Self.ci.asks("CONNECT b.example:443", count: 3), Self.ci.asks("CONNECT a.example:443"),
        Self.ci.asks("CONNECT a.example:8443"),
      ]) == [
        "[[rule]]", "users   = [\"ci\"]", "units   = [\"ci.service\"]", "hosts   = [\"a.example\", \"b.example\"]",
        "ports   = [443]", "schemes = [\"https\"]", "[[rule]]", "users   = [\"ci\"]", "units   = [\"ci.service\"]",
        "hosts   = [\"a.example\"]", "ports   = [8443]", "schemes = [\"https\"]",
      ])
  }

  @Test func requestsAreByMethodAndShape() throws {
    #expect(
      try Self.lines([
        Self.ada.asks("GET http://a.example/users/1"), Self.ada.asks("HEAD http://a.example/users/2"),
        Self.ada.asks("POST http://a.example/login"), Self.ada.asks("GET http://a.example/users/3"),
      ]) == [
        "[[rule]]", "users   = [\"ada\"]", "hosts   = [\"a.example\"]", "ports   = [80]", "schemes = [\"http\"]",
        "methods = [\"GET\", \"HEAD\"]", "paths   = [\"/users/{}\"]", "[[rule]]", "users   = [\"ada\"]",
        "hosts   = [\"a.example\"]", "ports   = [80]", "schemes = [\"http\"]", "methods = [\"POST\"]",
        "paths   = [\"/login\"]",
      ])
  }

  @Test func requestsInATunnelAreIntercepted() throws {
    let lines = try Self.lines([
      Self.ada.asks("CONNECT a.example:443"), Self.ada.asks("GET https://a.example/x"),
    ])
    #expect(lines.filter { $0 == "[[rule]]" }.count == 1)
    #expect(lines.contains("connect = \"intercept\"") && lines.contains("paths   = [\"/x\"]"))
    let alone = try Self.lines([Self.ada.asks("GET https://a.example/x")])
    #expect(alone.contains("connect = \"deny\""))
  }

  /// BusyBox wget sends the URL itself, past the tunnel that other programs have.
  @Test func aPlainTunnelStaysPlain() throws {
    var kind = Self.ada.asks("CONNECT a.example:443").kind
    kind[.assurance] = "none"
    let tunnel = HistoryRequest(kind: kind, path: "", count: 2, last: 1)
    let outcome = try Self.learn([tunnel, Self.ada.asks("GET https://a.example/x")])
    #expect(!outcome.text.contains("intercept"), "\(outcome.text)")
    var judge = try Self.judge(outcome)
    #expect(judge.judge(tunnel)?.reason == .rule)
    #expect(judge.judge(Self.ada.asks("GET https://a.example/x"))?.reason == .rule)
  }

  /// One path that servers read in several ways does not open its host: each of them is named.
  @Test(arguments: [
    "/api//x", "/api/..%2fx", "/api/;a=b", "/api/../x", "/docs/my%20file.pdf", "/docs/..%2fa%20b", "/100%25",
    "/a%2Ab//c",
    "/a{}b//c", "/%7B%7D/x", "/k%C3%A4se//x", "/api/%252e%252e/x", "/s%00", "/x.", "//q", "",
  ]) func anOddPathOpensNoHost(path: String) throws {
    let asked = ["/api/info", "/api/status", path].map { Self.ada.asks("GET http://a.example\($0)") }
    let outcome = try Self.learn(asked)
    var judge = try Self.judge(outcome)
    for request in asked { #expect(judge.judge(request)?.reason == .rule, "\(request.path): \(outcome.text)") }
    for path in ["/secret", "/api/secret", "/api/axb", "/a/b/c"] {
      #expect(judge.judge(Self.ada.asks("GET http://a.example\(path)"))?.reason != .rule, "\(path): \(outcome.text)")
    }
  }

  /// What a shape stands for is one segment.
  @Test func nothingBelowWhatWasSeenIsAllowed() throws {
    var judge = try Self.judge(try Self.learn([Self.ada.asks("GET http://a.example/users/17")]))
    #expect(judge.judge(Self.ada.asks("GET http://a.example/users/18"))?.reason == .rule)
    for path in ["/users/18/admin", "/users/x/admin", "/users/", "/users"] {
      #expect(judge.judge(Self.ada.asks("GET http://a.example\(path)"))?.reason != .rule, "\(path)")
    }
  }

  /// A path that servers read in many ways opens the host to its method; a denied one that no rule can name spoils that.
  @Test func whatNoRuleTellsApartIsLeftOutAlone() throws {
    let odd = Self.ada.asks("POST http://a.example/%u002f/./%252f")
    let allowed = [Self.ada.asks("GET http://a.example/"), Self.ci.asks("GET http://b.example/x")]
    let denied = Self.ada.asks("GET http://a.example/%00/%23/%C3%A9/secret", denied: true)
    let outcome = try Self.learn([odd, denied] + allowed)
    var judge = try Self.judge(outcome)
    for request in allowed { #expect(judge.judge(request)?.reason == .rule, "\(outcome.text)") }
    for request in [odd, denied] { #expect(judge.judge(request)?.reason != .rule, "\(outcome.text)") }
    #expect(outcome.text.contains("# Left out: 1 exchange that were allowed, because no rule tells them"))
    #expect(outcome.learned == 2)
  }

  /// What was denied stays denied, whatever ways there are of reading what was allowed.
  @Test(arguments: ["//dd//e", "/x/../y", "/%2e%2e/k", "/a%3Fb"]) func aPathOfSeveralReadings(path: String) throws {
    let denied = Self.ada.asks("GET http://a.example/admin/x", denied: true)
    let allowed = Self.ada.asks("GET http://a.example\(path)")
    let outcome = try Self.learn([allowed, denied])
    var judge = try Self.judge(outcome)
    #expect(judge.judge(allowed)?.reason == .rule && judge.judge(denied)?.reason != .rule, "\(outcome.text)")
  }

  @Test func manySiblingsAreFolded() throws {
    func paths(_ count: Int) throws -> [String] {
      try Self.lines((0..<count).map { Self.ada.asks("GET http://a.example/simple/\(Self.word($0))/") }).filter {
        $0.hasPrefix("paths") || $0.hasPrefix("  ")
      }
    }
    #expect(try paths(8) == ["paths   = [\"/simple/*\"]"])
    #expect(try paths(7).count >= 1)
    #expect(try !paths(7).contains("paths   = [\"/simple/*\"]"))
  }

  /// Five letters, none of them a hexadecimal digit.
  private static func word(_ number: Int) -> String {
    let letters = Array("ghjkmnpqrstvwxyz".utf8)
    let digits = (0..<5).map { place in letters[(number >> (place * 2)) % letters.count] }
    return String(decoding: digits, as: UTF8.self)
  }

  @Test func numberedHostsAreFoldedWhereThereAreEnough() throws {
    func hosts(_ count: Int) throws -> String? {
      try Self.lines((1...count).map { Self.ci.asks("GET http://mirror\($0).cdn.example/x") }).first {
        $0.hasPrefix("hosts")
      }
    }
    #expect(try hosts(HistoryLearning.foldedHosts) == "hosts   = [\"*.cdn.example\"]")
    #expect(try hosts(2) == "hosts   = [\"mirror1.cdn.example\", \"mirror2.cdn.example\"]")
    // What stands below a name of one label may be anybody's.
    #expect(
      try Self.lines((1...9).map { Self.ci.asks("GET http://m\($0).example/x") }).contains { $0.contains("*") } == false
    )
  }

  @Test func whatWasDeniedNearbyKeepsRulesNarrow() throws {
    let mirrors = (1...9).map { Self.ci.asks("GET http://mirror\($0).cdn.example/pool/a\($0)b") }
    let users = (1...20).map { Self.ci.asks("GET http://api.example/users/\($0)") }
    let denied = [
      Self.ci.asks("GET http://evil.cdn.example/pool/x", denied: true),
      Self.ci.asks("GET http://api.example/users/99", denied: true),
      Self.ada.asks("GET http://api.example/users/1", denied: true),
    ]
    let outcome = try Self.learn(mirrors + users + denied)
    var judge = try Self.judge(outcome)
    for request in mirrors + users { #expect(judge.judge(request)?.isAllowed == true) }
    for request in denied { #expect(judge.judge(request)?.isAllowed == false) }
    #expect(outcome.text.contains("# hosts   = [\"api.example\"]"))
  }

  @Test func theLatestWordHolds() throws {
    let outcome = try Self.learn([
      Self.ada.asks("GET http://a.example/x", last: 1_000),
      Self.ada.asks("GET http://a.example/x", denied: true, last: 2_000),
      Self.ada.asks("GET http://b.example/x", last: 2_000),
      Self.ada.asks("GET http://b.example/x", denied: true, last: 1_000),
    ])
    var judge = try Self.judge(outcome)
    #expect(judge.judge(Self.ada.asks("GET http://a.example/x"))?.isAllowed == false)
    #expect(judge.judge(Self.ada.asks("GET http://b.example/x"))?.isAllowed == true)
  }

  @Test func aUnitThatIsDeniedIsToldFromItsUser() throws {
    let inUnit = Asker(user: "ci", unit: "b.service")
    let requests = [
      Asker(user: "ci").asks("CONNECT a.example:443"), inUnit.asks("CONNECT a.example:443", denied: true),
      Asker(user: "ci").asks("GET http://a.example/x"), inUnit.asks("GET http://a.example/x", denied: true),
    ]
    var judge = try Self.judge(try Self.learn(requests))
    for request in requests { #expect(judge.judge(request)?.isAllowed == !request.kind.isDenied) }
  }

  /// What one asker is denied at one host is one rule, however many its paths are.
  @Test func manyDeniedPathsAreFewRules() throws {
    let inUnit = Asker(user: "ci", unit: "b.service")
    var requests: [HistoryRequest] = []
    for host in ["a", "b", "c", "d"] {
      for number in 0..<100 {
        let text = "GET http://\(host).example/w\(number)"
        requests.append(Asker(user: "ci").asks(text))
        if number % 3 != 0 { requests.append(inUnit.asks(text, denied: true)) }
      }
    }
    let outcome = try Self.learn(requests)
    #expect(outcome.rules < 20)
    var judge = try Self.judge(outcome)
    for request in requests { #expect(judge.judge(request)?.isAllowed == !request.kind.isDenied) }
  }

  @Test func pathsThatServersReadInSeveralWaysAreAllowedToo() throws {
    let requests = ["/a//b", "/a/../b", "/a%2fb", "/a*b", "/A%20b"].map { Self.ada.asks("GET http://a.example\($0)") }
    var judge = try Self.judge(try Self.learn(requests))
    for request in requests { #expect(judge.judge(request)?.isAllowed == true, "\(request.path)") }
  }

  @Test func whoIsInDoubtIsLeftOut() throws {
    var kind = Self.ada.asks("GET http://a.example/").kind
    kind[.known] = "unknown"
    let doubtful = HistoryRequest(kind: kind, path: "/", count: 4, last: 0)
    let outcome = try Self.learn([doubtful, Self.ada.asks("GET http://b.example/")])
    #expect(outcome.leftOut == 4)
    #expect(outcome.text.contains("# Left out: 4 exchanges"))
    #expect(throws: HistoryLearning.Fault.self) { _ = try Self.learn([doubtful]) }
  }

  /// The daemon keeps 32 bytes of a method. A rule for these would allow what nobody asked, and not what was asked.
  @Test func aMethodThatMayBeLongerIsLeftOut() throws {
    let (whole, cut) = (String(repeating: "M", count: 31), String(repeating: "M", count: 32))
    let outcome = try Self.learn([
      Self.ada.asks("\(cut) http://a.example/"), Self.ada.asks("\(whole) http://b.example/"),
    ])
    #expect(outcome.leftOut == 1 && outcome.learned == 1)
    #expect(!outcome.text.contains(cut) && outcome.text.contains(whole))
  }

  // MARK: A week of a build machine

  /// 50,000 requests of five users.
  private static func week() -> [HistoryRequest] {
    var random = SeededGenerator(seed: 7)
    func pick<T>(_ values: [T]) -> T { values.randomElement(using: &random)! }
    func hash(_ count: Int) -> String {
      (0..<count).map { _ in String(Int.random(in: 0..<16, using: &random), radix: 16) }.joined()
    }
    let packages = (0..<300).map { "pkg-\(word($0))\(word($0 / 7))" }
    var requests: [HistoryRequest] = []
    let build = Asker(user: "ci", unit: "build.service")
    for index in 0..<50_000 {
      let last = 1_795_000_000_000 + Int64(index) * 12_000
      let request: HistoryRequest
      switch index % 10 {
      case 0, 1: request = build.asks("GET http://index.example/simple/\(pick(packages))/", last: last)
      case 2:
        request = build.asks(
          "GET http://files.example/packages/\(hash(2))/\(hash(2))/\(hash(60))/\(pick(packages))-1.0.whl", last: last)
      case 3:
        request = build.asks(
          "GET http://mirror\(Int.random(in: 1...24, using: &random)).deb.example/debian/pool/main/\(pick(["a", "b", "c"]))/x.deb",
          last: last)
      case 4:
        request = build.asks(
          pick(["GET", "HEAD"]) + " http://deb.example/dists/stable/by-hash/SHA256/\(hash(64))", last: last)
      case 5: request = Asker(user: "ada").asks("CONNECT git.example:443", last: last)
      case 6:
        request = Asker(user: "bob").asks(
          "GET http://npm.example/\(pick(packages))/-/\(pick(packages))-\(Int.random(in: 0..<9, using: &random)).tgz",
          last: last)
      case 7:
        request = Asker(user: "dora").asks(
          "POST http://git.internal.example/api/v4/jobs/\(Int.random(in: 1..<99999, using: &random))/trace", last: last)
      case 8: request = Asker(user: "eve", unit: "mail.service").asks("CONNECT smtp.example:465", last: last)
      default:
        request = build.asks(
          pick(["GET http://telemetry.example/v1", "CONNECT ads.example:443"]), denied: true, last: last)
      }
      requests.append(request)
    }
    return requests
  }

  /// Two hundred that nobody asked for in the week.
  private static func bad() -> [HistoryRequest] {
    let askers = [
      Asker(user: "ci", unit: "build.service"), Asker(user: "ada"), Asker(user: "bob"), Asker(user: "dora"),
      Asker(user: "eve", unit: "mail.service"),
    ]
    let requests = askers.flatMap { asker in
      (0..<8).flatMap { number in
        [
          asker.asks("GET http://evil\(number).example/"),
          asker.asks("CONNECT index.example.evil\(number).example:443"),
          asker.asks("DELETE http://index.example/simple/pkg-\(number)/"),
          asker.asks("CONNECT git.example:\(2200 + number)"),
          asker.asks("GET http://deb.example:\(8000 + number)/dists/stable/Release"),
        ]
      }
    }
    return requests
  }

  @Test func aWeekIsLearnedAndNothingElseIs() throws {
    let week = Self.week()
    let outcome = try Self.learn(week)
    #expect(!outcome.text.contains("**"))
    var judge = try Self.judge(outcome)
    let replay = HistoryReplay(week, by: &judge)
    #expect(replay.newlyDenied == 0 && replay.newlyAllowed == 0 && replay.inexact == 0)
    #expect(outcome.rules <= 12)
    let bad = Self.bad()
    #expect(bad.count == 200)
    for request in bad { #expect(judge.judge(request)?.isAllowed == false, "\(request.kind.origin)\(request.path)") }
    // Of half of the users the other half is refused.
    let half = week.filter { ["ci", "ada"].contains($0.kind[.user]) }
    var narrow = try Self.judge(try Self.learn(half))
    let missing = HistoryReplay(week, by: &narrow)
    #expect(missing.newlyDenied == 15_000)
    #expect(Set(missing.groups.map(\.user)) == ["bob", "dora", "eve"])
  }
}
