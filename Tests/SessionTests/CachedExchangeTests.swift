// What an exchange says of itself to a cache: whether its answer may be stored, for which URL, with whose credentials; and what the
// client is told of an answer that comes out of the store.

import Bytes
import HTTP1
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct CachedExchangeTests {
  private static let stores = "[cache]\n[[rule]]\nname = \"r\"\n[rule.cache]\nshare = \"user\"\n"

  /// What a server has of one session.
  fileprivate struct Setting: ~Copyable {
    let rules: Policy
    var session: Session
    var workspace: Workspace
    var outputs = Outputs()

    init(_ text: String) {
      rules = policy(text)
      session = Session(policy: rules, in: ExchangeRooms(), now: 1000)
      workspace = Workspace(
        name: "sallyport", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
      workspace.nonces.chance = { 0 }
    }

    /// Shows all of it, and says what the session wants then.
    mutating func says(_ text: String) -> Action {
      let bytes = octets(text)
      let step = session.clientReceived(bytes.span, now: 1000, policy: rules, in: &workspace, to: &outputs)
      #expect(step.consumed == bytes.count)
      return step.action
    }

    /// Shows it until nothing more is taken, or it is all there.
    mutating func upstreamSays(_ text: String) {
      var bytes = octets(text)
      while !bytes.isEmpty {
        let step = session.exchange.upstreamReceived(bytes.span, now: 1000, in: &workspace, to: &outputs)
        bytes.removeFirst(step.consumed)
        switch step.action {
        case .read where step.consumed > 0: continue
        case .forward(let count):
          bytes.removeFirst(count)
          session.exchange.upstreamForwarded(count, now: 1000)
        default: return
        }
      }
    }

    var url: String { String(decoding: session.exchange.effectiveURL(outputs), as: UTF8.self) }
    var shown: String { String(decoding: session.exchange.shownURL(outputs), as: UTF8.self) }
    var setsAuthorization: Bool { session.exchange.ruling.setsAuthorization }
    var identity: [UInt8] { session.exchange.ruling.rule?.cacheIdentity ?? [] }
    var isCached: Bool { session.exchange.cacheRule != nil }
  }

  private static func request(_ line: String, _ fields: String...) -> String {
    ([line + " HTTP/1.1", "Host: a.example"] + fields).map { $0 + "\r\n" }.joined() + "\r\n"
  }

  // MARK: What is for a cache

  @Test func whatTheRuleSaysOfItsAnswersIsHandedOn() {
    var setting = Setting(Self.stores + "[rule.request]\ncache_policy = \"return-cache-else-load\"")
    #expect(setting.says(get) == .connect)
    #expect(setting.session.exchange.cacheRule?.share == .user)
    #expect(setting.session.exchange.ruling.cachePolicy == .returnCacheElseLoad)
    let isWhole = setting.session.exchange.isRequestWhole
    #expect(isWhole)
  }

  @Test(arguments: ["", "[[rule]]\nname = \"r\"", "[cache]", "[cache]\n[[rule]]\nname = \"r\""])
  func withoutBothTablesNothingIsStored(text: String) {
    var setting = Setting(text)
    #expect(setting.says(get) == .connect)
    let (isCached, policy) = (setting.isCached, setting.session.exchange.ruling.cachePolicy)
    #expect(!isCached && policy == .useProtocol)
  }

  /// Their answers depend on more than the request, or are no answers that a cache understands.
  @Test(arguments: [
    ("a tunnel", connect, ""),
    (
      "an upgrade", request("GET http://a.example/", "Connection: Upgrade", "Upgrade: websocket"),
      "upgrades = [\"websocket\"]"
    ),
    (
      "a call",
      request("POST http://a.example/s/m", "Content-Type: application/grpc", "TE: trailers", "Content-Length: 0"),
      ""
    ),
    ("credentials of the connection", request("GET http://a.example/", "Authorization: NTLM AAAA"), ""),
    ("credentials of the connection", request("GET http://a.example/", "Authorization: Negotiate AAAA"), ""),
    (
      "a challenge that the proxy answers", get,
      "request.authorization = { scheme = \"digest\", username = \"u\", password = \"p\" }"
    ),
  ])
  func whatACacheDoesNotUnderstandPassesItBy(name: String, text: String, more: String) {
    var setting = Setting("[cache]\n[[rule]]\nname = \"r\"\n\(more)\n[rule.cache]")
    // A stream is read as HTTP/1.1, and only there a call is one.
    if name == "a call" { setting.session.origin.wire = .http2 }
    #expect(setting.says(text) == .connect, "\(name)")
    let isCached = setting.isCached
    #expect(!isCached, "\(name)")
  }

  @Test func basicCredentialsOfTheProgramAreNoHindrance() {
    var setting = Setting(Self.stores)
    #expect(setting.says(Self.request("GET http://a.example/", "Authorization: Basic dTpw")) == .connect)
    let (isCached, setsAuthorization) = (setting.isCached, setting.setsAuthorization)
    #expect(isCached && !setsAuthorization)
  }

  /// An answer may come before the request is out: that is none to everybody who asks the same.
  @Test func aRequestWhoseBodyIsUnderWayIsNotWhole() {
    var setting = Setting(Self.stores)
    #expect(setting.says(post) == .connect)
    let (isCached, isWhole) = (setting.isCached, setting.session.exchange.isRequestWhole)
    #expect(isCached && !isWhole)
  }

  // MARK: What it is known by

  @Test(arguments: [
    ("GET http://A.Example/X?b=%41&a", "http://a.example/X?b=%41&a", "http://A.Example/X?b=%41&a"),
    ("GET http://a.example", "http://a.example/", "http://a.example"),
    ("GET http://a.example?q", "http://a.example/?q", "http://a.example?q"),
    ("GET http://a.example:80/", "http://a.example/", "http://a.example:80/"),
    ("GET http://a.example:8080/", "http://a.example:8080/", "http://a.example:8080/"),
    ("GET https://a.example/x", "https://a.example/x", "https://a.example/x"),
    ("HEAD http://a.example/x", "http://a.example/x", "http://a.example/x"),
    ("OPTIONS http://a.example", "http://a.example", "http://a.example"),
  ])
  func theURLIsTheOneThatIsAskedFor(line: String, effective: String, shown: String) {
    var setting = Setting(Self.stores)
    let authority = line.split(separator: "/")[1].split(separator: "?")[0]
    #expect(setting.says(head("\(line) HTTP/1.1", "Host: \(authority)")) == .connect)
    let (url, seen) = (setting.url, setting.shown)
    #expect(url == effective)
    #expect(seen == shown)
  }

  @Test func whatTheRuleAddsTellsAnswersApartAndIsNotShown() {
    var setting = Setting(Self.stores + "[rule.request]\nparameters = { key = \"s3cret\" }")
    #expect(setting.says(Self.request("GET http://a.example/x?a=1")) == .connect)
    let (url, seen) = (setting.url, setting.shown)
    #expect(url == "http://a.example/x?a=1&key=s3cret")
    #expect(seen == "http://a.example/x?a=1")
  }

  @Test func anOriginThatTheRuleNamesIsTheOneThatIsKnown() {
    var setting = Setting(
      "[cache]\n[[rule]]\nname = \"api\"\nhosts = [\"api\"]\ntarget = \"https://real.example/v2/\"\n[rule.cache]")
    #expect(setting.says(head("GET http://api/users?id=1 HTTP/1.1", "Host: api")) == .connect)
    let (url, seen) = (setting.url, setting.shown)
    #expect(url == "https://real.example/v2/users?id=1")
    #expect(seen == "http://api/users?id=1")
  }

  @Test func credentialsOfThePolicyTellAnswersApart() {
    let both =
      Self.stores + """
        [rule.request]
        authorization = { username = "u", password = "p" }
        headers.set = { Cookie = "a=1", X-Client = "kiosk" }
        """
    var setting = Setting(both)
    #expect(setting.says(Self.request("GET http://a.example/", "Authorization: Basic dTpx")) == .connect)
    let (setsAuthorization, identity) = (setting.setsAuthorization, setting.identity)
    #expect(setsAuthorization)
    var silent = Setting(Self.stores + "[rule.request]\nheaders.set = { X-Client = \"kiosk\" }")
    #expect(silent.says(get) == .connect)
    let (setsNone, other) = (silent.setsAuthorization, silent.identity)
    // Any field that a rule sets may be a key to what others must not see.
    #expect(!setsNone && other != identity && !other.isEmpty)
  }

  // MARK: Answers out of the store

  private static let stored = head("HTTP/1.1 200 OK", "Date: then", "Age: 7", "Content-Length: 2") + "ok"

  @Test func anAnswerOutOfTheStoreSaysSoAndNothingLeaves() {
    var setting = Setting(Self.stores)
    #expect(setting.says(get) == .connect)
    setting.session.exchange.noteCache(.hit, status: "hit; ttl=30")
    setting.session.exchange.answeredWithoutUpstream(
      isFetched: false, now: 1000, in: &setting.workspace, to: &setting.outputs)
    let leaves = !setting.outputs.toUpstream.isEmpty || !setting.outputs.replay.isEmpty
    let awaits = setting.session.exchange.awaitsFinalHead
    #expect(awaits && !leaves)
    setting.upstreamSays(Self.stored)
    let text = setting.outputs.toClient.bytes.string
    #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n") && text.contains("\r\nAge: 7\r\n"), "\(text)")
    #expect(text.contains("\r\nCache-Status: sallyport; hit; ttl=30\r\n"), "\(text)")
    #expect(setting.session.exchange.record.answer.cache == .hit)
  }

  @Test func theClientOfADeniedRequestIsToldNothingOfACache() {
    var setting = Setting("[cache]\n[[rule]]\nname = \"r\"\naction = \"deny\"")
    guard case .end = setting.says(get) else {
      Issue.record("a request that is denied goes on")
      return
    }
    let text = setting.outputs.toClient.bytes.string
    #expect(text.hasPrefix("HTTP/1.1 403 denied") && !text.contains("Cache-Status"), "\(text)")
  }

  @Test func anAnswerOfTheOriginSaysWhyItWasAsked() {
    var setting = Setting(Self.stores)
    #expect(setting.says(get) == .connect)
    setting.session.exchange.noteCache(.miss, status: "fwd=uri-miss")
    _ = setting.session.exchange.upstreamOpened(
      reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 80, now: 1000, in: &setting.workspace,
      to: &setting.outputs)
    setting.upstreamSays(ok)
    let text = setting.outputs.toClient.bytes.string
    #expect(text.contains("\r\nCache-Status: sallyport; fwd=uri-miss\r\n"), "\(text)")
    #expect(setting.session.exchange.record.answer.cache == .miss)
  }

  /// RFC 9211: each cache adds itself, and leaves what those before it have said.
  @Test func whatOtherCachesHaveSaidStays() {
    var setting = Setting(Self.stores)
    #expect(setting.says(get) == .connect)
    setting.session.exchange.noteCache(.stored, status: "fwd=uri-miss; stored; ttl=60")
    setting.session.exchange.answeredWithoutUpstream(
      isFetched: false, now: 1000, in: &setting.workspace, to: &setting.outputs)
    setting.upstreamSays(head("HTTP/1.1 200 OK", "Cache-Status: edge; hit", "Content-Length: 0"))
    let text = setting.outputs.toClient.bytes.string
    let theirs = text.firstRange(of: "Cache-Status: edge; hit\r\n")
    let own = text.firstRange(of: "Cache-Status: sallyport; fwd=uri-miss; stored; ttl=60\r\n")
    guard let theirs, let own else {
      Issue.record("\(text)")
      return
    }
    #expect(theirs.lowerBound < own.lowerBound)
  }

  @Test func withoutACacheNothingIsSaidOfOne() {
    var setting = Setting("")
    #expect(setting.says(get) == .connect)
    _ = setting.session.exchange.upstreamOpened(
      reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 80, now: 1000, in: &setting.workspace,
      to: &setting.outputs)
    setting.upstreamSays(ok)
    let text = setting.outputs.toClient.bytes.string
    #expect(!text.contains("Cache-Status"), "\(text)")
    #expect(setting.session.exchange.record.answer.cache == nil)
  }

  /// A condition of the cache's own was answered in a way that says nothing: the client's request leaves after all.
  @Test func aRequestIsAskedAgainAsItWas() {
    var setting = Setting(Self.stores)
    #expect(setting.says(get) == .connect)
    let asked = setting.outputs.toUpstream.array
    _ = setting.session.exchange.upstreamOpened(
      reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 80, now: 1000, in: &setting.workspace,
      to: &setting.outputs)
    setting.outputs.toUpstream.removeAll()
    setting.session.exchange.askAgain(asked, in: &setting.workspace, to: &setting.outputs)
    let (again, isConnecting) = (setting.outputs.toUpstream.array, setting.session.exchange.isConnecting)
    #expect(again == asked && isConnecting)
  }

  /// What a rule refuses, nobody else gets.
  @Test func anAnswerThatIsRefusedIsNoAnswerForOthers() {
    var setting = Setting(Self.stores + "[rule.response]\nserializer = \"json\"")
    #expect(setting.says(get) == .connect)
    setting.session.exchange.noteCache(.stored, status: "fwd=uri-miss; stored; ttl=60")
    setting.session.exchange.answeredWithoutUpstream(
      isFetched: false, now: 1000, in: &setting.workspace, to: &setting.outputs)
    let before = setting.session.exchange.record.refusedItsAnswer
    setting.upstreamSays(
      head("HTTP/1.1 200 OK", "Content-Type: application/json", "Content-Length: 2") + "{]")
    let after = setting.session.exchange.record.refusedItsAnswer
    #expect(!before && after)
    let text = setting.outputs.toClient.bytes.string
    #expect(text.hasPrefix("HTTP/1.1 502 malformed-content"), "\(text)")
  }
}
