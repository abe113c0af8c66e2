// TRACE through rules that add something, Upgrade through rules that list protocols, and answers to it.

import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct RefusedMethodsTests {
  static let rules = policy(
    """
    [[rule]]
    name = "secret"
    hosts = ["secret.example"]
    [rule.request]
    authorization = { username = "u", password = "HUNTER2" }
    [[rule]]
    name = "upgraded"
    hosts = ["upgraded.example"]
    upgrade = true
    [rule.request]
    headers.set = { Authorization = "Bearer HUNTER2" }
    [[rule]]
    name = "trial"
    hosts = ["trial.example"]
    action = "deny"
    enforce = false
    [rule.request]
    headers.default = { X-Api-Key = "HUNTER2" }
    [[rule]]
    name = "harmless"
    hosts = ["harmless.example"]
    [rule.request]
    headers.set = { X-Added = "by-the-rule" }
    headers.default = { X-Default = "by-the-rule" }
    parameters = { page = 1 }
    parameters_in_uri = ["GET", "TRACE", "TRACK"]
    [[rule]]
    name = "no-upgrades"
    hosts = ["none.example"]
    upgrades = []
    [[rule]]
    name = "websockets"
    hosts = ["ws.example"]
    upgrades = ["websocket"]
    [[rule]]
    name = "tried"
    hosts = ["tried.example"]
    upgrades = []
    enforce = false
    [[rule]]
    name = "open"
    hosts = ["a.example"]
    connect = "intercept"
    upgrades = []
    [rule.request]
    authorization = { username = "u", password = "HUNTER2" }
    """)

  private func transcript(_ events: [Happening]) -> String {
    let stage = Stage(Self.rules, .whole)
    let transcript = stage.play(events)
    #expect(stage.faults.isEmpty, "\(stage.faults)")
    return transcript
  }

  // MARK: TRACE

  @Test(arguments: ["TRACE", "TRACK"], ["secret", "upgraded", "trial"])
  func aRuleWithASecretRefusesTrace(method: String, host: String) {
    let seen = transcript([.client(head("\(method) http://\(host).example/ HTTP/1.1", "Host: \(host).example"))])
    #expect(seen.contains("< HTTP/1.1 405 method-not-allowed rule=\(host) ref=REF001"), "\(seen)")
    #expect(seen.contains("< Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\n"), "\(seen)")
    #expect(!seen.contains("connect ") && !seen.contains("HUNTER2"), "\(seen)")
    #expect(seen.contains("end (405 method-not-allowed): client keep"), "\(seen)")
  }

  @Test func insideATunnelItIsTheSame() {
    let seen = transcript([.client(connect), .client(head("TRACE / HTTP/1.1", "Host: a.example"))])
    #expect(seen.contains("< HTTP/1.1 405 method-not-allowed rule=open"), "\(seen)")
    #expect(!seen.contains("HUNTER2"), "\(seen)")
  }

  @Test(arguments: ["TRACE", "TRACK"]) func nothingThatARuleAddsGoesWithIt(method: String) {
    let seen = transcript([
      .client(head("\(method) http://harmless.example/x HTTP/1.1", "Host: harmless.example", "X-Added: mine")),
      .opened, .upstream(ok),
    ])
    #expect(seen.contains("> \(method) /x HTTP/1.1\n"), "\(seen)")
    #expect(!seen.contains("by-the-rule") && !seen.contains("mine") && !seen.contains("page"), "\(seen)")
  }

  @Test func otherMethodsGetAll() {
    let seen = transcript([
      .client(head("GET http://harmless.example/x HTTP/1.1", "Host: harmless.example")), .opened, .upstream(ok),
    ])
    #expect(seen.contains("> GET /x?page=1 HTTP/1.1") && seen.contains("> X-Added: by-the-rule"), "\(seen)")
  }

  // MARK: Upgrade

  private static func asking(_ host: String, _ name: String) -> String {
    head("GET http://\(host)/ HTTP/1.1", "Host: \(host)", "Connection: Upgrade", "Upgrade: \(name)")
  }

  private static func switching(_ name: String) -> String {
    head("HTTP/1.1 101 Go", "Connection: Upgrade", "Upgrade: \(name)") + "x"
  }

  @Test(arguments: [
    ("none.example", "websocket", "no-upgrades", "none"), ("ws.example", "x-mine", "websockets", "websocket"),
  ]) func aProtocolThatIsNotListedIsRefused(host: String, name: String, rule: String, listed: String) {
    let seen = transcript([.client(Self.asking(host, name))])
    #expect(seen.contains("< HTTP/1.1 403 denied rule=\(rule) ref=REF001"), "\(seen)")
    #expect(seen.contains("Upgrade to \(name)"), "\(seen)")
    #expect(!seen.contains("connect "), "\(seen)")
  }

  @Test(arguments: ["websocket", "WebSocket", "websocket/13"]) func oneThatIsListedIsRelayed(name: String) {
    let seen = transcript([.client(Self.asking("ws.example", name)), .opened, .upstream(Self.switching(name))])
    #expect(seen.contains("> Upgrade: \(name)") && seen.contains("< HTTP/1.1 101"), "\(seen)")
  }

  /// Java's client asks for h2c with every request: it is dropped, as without a list, and not refused.
  @Test func whatIsNeverRelayedIsDropped() {
    let seen = transcript([.client(Self.asking("none.example", "h2c")), .opened, .upstream(ok)])
    #expect(!seen.contains("> Upgrade") && seen.contains("< HTTP/1.1 200"), "\(seen)")
  }

  @Test func aRuleThatIsNotEnforcedReports() {
    let seen = transcript([
      .client(Self.asking("tried.example", "websocket")), .opened, .upstream(Self.switching("websocket")),
    ])
    #expect(seen.contains("> Upgrade: websocket") && seen.contains("< HTTP/1.1 101"), "\(seen)")
  }

  @Test func insideATunnelUpgradeIsRefusedToo() {
    let asked = head("GET / HTTP/1.1", "Host: a.example", "Connection: upgrade", "Upgrade: websocket")
    let seen = transcript([.client(connect), .client(asked)])
    #expect(seen.contains("< HTTP/1.1 403 denied rule=open"), "\(seen)")
  }

  @Test(arguments: ["x-other", "websocket/13", "websocke", "h2c"])
  func anotherProtocolThanWasAskedForIsNotPassedOn(name: String) {
    for host in ["ws.example", "b.example"] {
      let seen = transcript([.client(Self.asking(host, "websocket")), .opened, .upstream(Self.switching(name))])
      #expect(seen.contains("< HTTP/1.1 502 malformed-response"), "\(seen)")
      #expect(!seen.contains("< HTTP/1.1 101"), "\(seen)")
    }
  }

  /// The protocol of one exchange is not that of the next.
  @Test func whatWasAskedForIsForgotten() {
    let seen = transcript([
      .client(Self.asking("b.example", "websocket")), .opened, .upstream(ok),
      .client(head("GET http://b.example/ HTTP/1.1", "Host: b.example")), .opened,
      .upstream(Self.switching("websocket")),
    ])
    #expect(seen.contains("< HTTP/1.1 502 malformed-response"), "\(seen)")
  }
}
