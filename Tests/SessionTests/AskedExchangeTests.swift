// An exchange that waits for an operator: nothing leaves before a yes, and every other end is told to the client.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session

/// What a server has of one session whose requests are asked about.
struct AskedSession: ~Copyable {
  let rules: Policy
  var session: Session
  var workspace: Workspace
  var outputs = Outputs()
  var now: Int64 = 1000

  init(_ text: String, temporary: [TemporaryRule] = []) {
    rules = policy(text)
    session = Session(policy: rules, in: ExchangeRooms(), now: 1000)
    workspace = Workspace(name: "sallyport", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
    workspace.setWallClock(milliseconds: 784_111_777_000)
    workspace.nonces.chance = { 0 }
    workspace.temporary = TemporaryRules(temporary)
  }

  /// Shows it, and says what the session wants then.
  mutating func says(_ text: String) -> Action {
    let bytes = octets(text)
    return session.clientReceived(bytes.span, now: now, policy: rules, in: &workspace, to: &outputs).action
  }

  /// Shows it, and the question is put.
  mutating func asks(_ text: String) {
    #expect(says(text) == .connect)
    let waits = session.exchange.awaitsOperator
    #expect(waits)
    session.exchange.operatorAsked(now: now)
  }

  mutating func isAnswered(_ verdict: TemporaryRule.Verdict) -> Action {
    session.exchange.operatorAnswered(verdict, by: "ada", now: now, in: &workspace, to: &outputs)
  }

  mutating func opened() -> Action {
    session.exchange.upstreamOpened(
      reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 80, assurance: nil, now: now, in: &workspace,
      to: &outputs)
  }

  var waits: Bool { session.exchange.awaitsOperator }
  var deadline: Int64 { session.deadline }
  var reason: Decision.Reason? { session.exchange.record.ruled.decision?.reason }
  var verdict: Decision.Verdict? { session.exchange.record.ruled.decision?.verdict }
  var answeredBy: String? { session.exchange.record.ruled.answeredBy }
  var reference: String { session.exchange.record.reference.text }
  var toClient: String { String(decoding: outputs.toClient.array, as: UTF8.self) }
  var toUpstream: String { String(decoding: outputs.toUpstream.array, as: UTF8.self) }
}

private let asking = "[[rule]]\nname = \"ask\"\naction = \"ask\"\n"

private func isEnd(_ action: Action) -> Bool {
  if case .end = action { true } else { false }
}

@Suite struct AskedExchangeTests {
  private func temporary(_ verdict: TemporaryRule.Verdict) throws -> TemporaryRule {
    TemporaryRule(
      id: 1, verdict: verdict, host: try HostPattern.parse("a.example").get(), since: 0, until: .max, by: "ada")
  }

  @Test func yesLetsItGoOn() {
    var asked = AskedSession(asking)
    asked.asks(get)
    let (verdict, reason, silent) = (asked.verdict, asked.reason, asked.toClient)
    #expect(verdict == .ask && reason == .ruleAsks && silent.isEmpty)
    asked.now += 20_000
    #expect(asked.isAnswered(.allow) == .connect)
    let (isAllowed, why, who, waits) = (asked.verdict, asked.reason, asked.answeredBy, asked.waits)
    #expect(isAllowed == .allow && why == .operatorAllows && who == "ada" && !waits)
    _ = asked.opened()
    let sent = asked.toUpstream
    #expect(sent.hasPrefix("GET /x HTTP/1.1\r\nHost: a.example\r\n"), "\(sent)")
  }

  @Test func noIsToldAndNothingIsSent() {
    var asked = AskedSession(asking)
    asked.asks(get)
    #expect(isEnd(asked.isAnswered(.deny)))
    let (text, reason, who) = (asked.toClient, asked.reason, asked.answeredBy)
    #expect(text.hasPrefix("HTTP/1.1 403 denied rule=ask ref="), "\(text)")
    #expect(text.contains("\"ask\":\"denied\"") && text.contains("\"reason\":\"operator-denies\""), "\(text)")
    #expect(reason == .operatorDenies && who == "ada")
  }

  static let waits: [(String, Int64)] = [(asking, 30_000), (asking + "[rule.ask]\nwait = \"5m\"\n", 300_000)]

  @Test(arguments: waits) func nobodyAnswersInTime(text: String, milliseconds: Int64) {
    var asked = AskedSession(text)
    asked.asks(get)
    let due = asked.deadline
    #expect(due == 1000 + milliseconds)
    asked.now = due
    let action = asked.session.timedOut(
      now: due, upstreamIsFull: false, in: &asked.workspace, to: &asked.outputs)
    #expect(isEnd(action))
    let (said, reason, reference) = (asked.toClient, asked.reason, asked.reference)
    #expect(said.hasPrefix("HTTP/1.1 403 unanswered rule=ask ref=\(reference)"), "\(said)")
    #expect(said.contains("sallyport allow \(reference)") && said.contains("\"ask\":\"unanswered\""), "\(said)")
    #expect(reason == .unanswered)
  }

  @Test func whereNobodyCanBeAskedItIsRefused() {
    var asked = AskedSession(asking)
    #expect(asked.says(get) == .connect)
    #expect(
      isEnd(asked.session.exchange.operatorMissing("256 questions wait.", in: &asked.workspace, to: &asked.outputs)))
    let (said, reason) = (asked.toClient, asked.reason)
    #expect(said.hasPrefix("HTTP/1.1 403 unanswered ") && said.contains("256 questions wait."), "\(said)")
    #expect(said.contains("\"ask\":\"unasked\""), "\(said)")
    #expect(reason == .unanswered)
  }

  @Test func whenTheProxyStopsItIsToldAtOnce() {
    var asked = AskedSession(asking)
    asked.asks(get)
    #expect(isEnd(asked.session.shutDown(in: &asked.workspace, to: &asked.outputs)))
    let said = asked.toClient
    #expect(said.hasPrefix("HTTP/1.1 503 shutting-down "), "\(said)")
  }

  @Test func aClientThatBreaksOffEndsIt() {
    var asked = AskedSession(asking)
    asked.asks(get)
    #expect(isEnd(asked.session.clientFailed()))
  }

  @Test func theNextRequestWaitsBehindIt() {
    var asked = AskedSession(asking)
    let bytes = octets(get + get)
    let step = asked.session.clientReceived(
      bytes.span, now: 1000, policy: asked.rules, in: &asked.workspace, to: &asked.outputs)
    #expect(step.action == .connect && step.consumed == octets(get).count)
    asked.session.exchange.operatorAsked(now: 1000)
    let wants = asked.session.wantsClientBytes
    #expect(!wants)
  }

  @Test(arguments: ["tunnel", "verify"]) func aTunnelIsAskedAbout(connectTreatment: String) {
    var asked = AskedSession(asking + "connect = \"\(connectTreatment)\"\n")
    asked.asks(connect)
    #expect(asked.isAnswered(.allow) == .connect)
    let reason = asked.reason
    #expect(reason == .operatorAllows)
  }

  @Test func aTunnelThatIsReadIsGranted() {
    var asked = AskedSession(asking + "connect = \"intercept\"\n")
    #expect(asked.says(connect) == .intercept)
    let (waits, reason, verdict) = (asked.waits, asked.reason, asked.verdict)
    #expect(!waits && reason == .asksInside && verdict == .allow)
  }

  @Test func whatWasAnsweredForATimeAsksNobody() throws {
    var allowed = AskedSession(asking, temporary: [try temporary(.allow)])
    #expect(allowed.says(get) == .connect)
    let (waits, reason, who) = (allowed.waits, allowed.reason, allowed.answeredBy)
    #expect(!waits && reason == .temporaryAllow && who == "ada")
    var denied = AskedSession("", temporary: [try temporary(.deny)])
    #expect(isEnd(denied.says(get)))
    let (said, why, by) = (denied.toClient, denied.reason, denied.answeredBy)
    #expect(said.hasPrefix("HTTP/1.1 403 denied "), "\(said)")
    #expect(said.contains("\"reason\":\"temporary-deny\""), "\(said)")
    #expect(why == .temporaryDeny && by == "ada")
  }

  @Test func whatIsNotEnforcedIsReported() {
    var asked = AskedSession(asking + "enforce = false\n")
    #expect(asked.says(get) == .connect)
    let (waits, reason, report) = (asked.waits, asked.reason, asked.session.exchange.record.found.report)
    #expect(!waits && reason == .ruleWouldAsk && report == .unanswered)
  }

  @Test func listedAddressesAreDeniedWithoutAQuestion() {
    var asked = AskedSession(asking + "deny_addresses = [\"10.0.0.0/8\"]\n")
    #expect(isEnd(asked.says(head("GET http://10.0.0.1/ HTTP/1.1", "Host: 10.0.0.1"))))
    let (waits, said) = (asked.waits, asked.toClient)
    #expect(!waits && said.hasPrefix("HTTP/1.1 403 address-denied "), "\(said)")
  }

  /// A person may think for longer than the rule gives the exchange.
  @Test func theTimeOfTheExchangeDoesNotRunWhileItWaits() {
    var asked = AskedSession(asking + "[rule.request]\ntimeout = \"10s\"\n[rule.ask]\nwait = \"1h\"\n")
    asked.asks(get)
    let due = asked.deadline
    #expect(due == 3_601_000)
    asked.now += 1_800_000
    #expect(asked.isAnswered(.allow) == .connect)
    let after = asked.deadline
    #expect(after > asked.now, "\(after)")
  }
}
