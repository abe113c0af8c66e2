// A tunnel that goes on in another session: under the policy that is there, with what was recorded of it.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct TunnelTransferTests {
  /// A session and what belongs to it.
  private struct Setting: ~Copyable {
    var workspace = Workspace(
      name: "sallyport", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
    var outputs = Outputs()
  }

  private static let client = TunnelState.Place(IPAddress(ipv4: 0x7f00_0001), port: 40_000)

  private static func octets(_ span: Span<UInt8>) -> [UInt8] { (0..<span.count).map { span[$0] } }

  /// Opens a tunnel by `head`, under `policy`, and answers the session.
  private static func opened(
    _ head: String, _ policy: Policy, answer: String? = nil, _ setting: inout Setting
  ) -> Session {
    var session = Session(policy: policy, in: ExchangeRooms(), now: 1000)
    setting.workspace.setWallClock(milliseconds: 784_111_777_000)
    let bytes = TestSupport.octets(head)
    let step = session.clientReceived(
      bytes.span, now: 1000, policy: policy, in: &setting.workspace, to: &setting.outputs)
    #expect(step.action == .connect)
    session.exchange.noteConnectTime(12_345)
    _ = session.exchange.upstreamOpened(
      reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 443, now: 1012, in: &setting.workspace,
      to: &setting.outputs)
    if let answer {
      let bytes = TestSupport.octets(answer)
      _ = session.exchange.upstreamReceived(bytes.span, now: 1020, in: &setting.workspace, to: &setting.outputs)
    }
    return session
  }

  private static func state(of session: borrowing Session, _ setting: borrowing Setting) -> TunnelState? {
    TunnelState(session.exchange, client: client, host: Array("a.example".utf8), text: setting.outputs.text.bytes)
  }

  private static let rules = policy("[[rule]]\nname = \"web\"\nhosts = [\"a.example\"]")

  @Test func aTunnelByConnectIsDescribed() throws {
    var setting = Setting()
    var session = Self.opened(connect, Self.rules, &setting)
    session.exchange.clientForwarded(5, now: 1100)
    session.exchange.upstreamForwarded(7, now: 1200)
    let described = Self.state(of: session, setting)
    let state = try #require(described)
    #expect(state.flags == [] && state.ends == [])
    #expect(state.reference == session.exchange.record.reference)
    #expect((state.begun, state.begunWall, state.lastProgress) == (1000, 784_111_777_000, 1200))
    #expect((state.status, state.connectMilliseconds, state.nameMilliseconds) == (200, 12, -1))
    #expect(state.bytesIn == UInt64(connect.utf8.count) + 5)
    #expect(state.bytesOut == 39 + 7)
    #expect(state.method == Array("CONNECT".utf8) && state.target == Array("a.example:443".utf8))
    #expect((state.rule, state.reason, state.assurance) == ("web", .rule, Assurance.none))
    #expect(state.upstream == TunnelState.Place(IPAddress(ipv4: 0xc000_0201), port: 443) && state.port == 443)
  }

  @Test func aTunnelByUpgradeIsDescribed() throws {
    let head = head(
      "GET http://a.example/chat HTTP/1.1", "Host: a.example", "Connection: upgrade", "Upgrade: websocket")
    let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    var setting = Setting()
    let session = Self.opened(head, Self.rules, answer: answer, &setting)
    let described = Self.state(of: session, setting)
    let state = try #require(described)
    #expect(state.flags == .isUpgrade)
    #expect((state.status, state.firstByteMilliseconds, state.port) == (101, 20, 80))
    #expect(state.target == Array("http://a.example/chat".utf8))
  }

  @Test func whatIsNoPlainTunnelIsNotDescribed() {
    var setting = Setting()
    let request = Self.opened(get, Self.rules, &setting)
    let ofRequest = Self.state(of: request, setting)
    #expect(!request.exchange.isPlainTunnel && ofRequest == nil)
    let verify = policy("[[rule]]\nname = \"v\"\nhosts = [\"*\"]\nconnect = \"verify\"")
    var other = Setting()
    let inspected = Self.opened(connect, verify, &other)
    let ofInspected = Self.state(of: inspected, other)
    #expect(inspected.exchange.isInTunnel && !inspected.exchange.isPlainTunnel && ofInspected == nil)
  }

  /// Everything that a session can describe of itself it describes again after it was resumed.
  @Test(
    arguments: [
      ([], []), ([], .clientEnded), ([], .upstreamEnded), (.dropsRequest, []), (.dropsRequest, .clientEnded),
      (.isReused, []), (.isRetried, []), (.isForgiven, []),
    ] as [(TunnelState.Flags, TunnelState.Ends)])
  func aResumedTunnelIsDescribedAsBefore(_ flags: TunnelState.Flags, _ ends: TunnelState.Ends) throws {
    for (base, rule) in [(TunnelStateTests.plain(), "web"), (TunnelStateTests.full(), "web")] {
      var state = base
      (state.flags, state.ends) = (flags, ends)
      state.rule = rule
      state.reason = .rule
      (state.toClient, state.toUpstream) = ([], [])
      var setting = Setting()
      let session = Session(
        resuming: state, policy: Self.rules, in: ExchangeRooms(), now: 9000, in: &setting.workspace,
        to: &setting.outputs)
      let again = TunnelState(
        session.exchange, client: state.client, host: state.host, text: setting.outputs.text.bytes)
      #expect(again == state)
      #expect(session.exchange.record.ruled.decision?.rule == 0)
    }
  }

  @Test func whatWaitedWaitsAgain() {
    var state = TunnelStateTests.plain()
    (state.toClient, state.toUpstream) = ([1, 2, 3], [4, 5])
    var setting = Setting()
    _ = Session(
      resuming: state, policy: plainPolicy, in: ExchangeRooms(), now: 9000, in: &setting.workspace, to: &setting.outputs
    )
    let (toClient, toUpstream) = (
      Self.octets(setting.outputs.toClient.bytes), Self.octets(setting.outputs.toUpstream.bytes)
    )
    #expect(toClient == [1, 2, 3] && toUpstream == [4, 5])
  }

  @Test func aRuleThatIsGoneIsStillNamed() {
    var state = TunnelStateTests.plain()
    state.rule = "gone"
    state.reason = .rule
    var setting = Setting()
    let session = Session(
      resuming: state, policy: Self.rules, in: ExchangeRooms(), now: 9000, in: &setting.workspace, to: &setting.outputs)
    #expect(session.exchange.ruling.rule == nil && session.exchange.ruleName == "gone")
    #expect(session.exchange.record.ruled.decision == Decision(verdict: .allow, reason: .rule, rule: nil))
  }

  @Test func theTimeOfIdlenessIsThePolicysFromTheLastByteOn() {
    var state = TunnelStateTests.plain()
    (state.begun, state.lastProgress) = (100, 5000)
    let hour = policy("[proxy.timeouts]\ntunnel_idle = \"1h\"")
    var setting = Setting()
    var session = Session(
      resuming: state, policy: hour, in: ExchangeRooms(), now: 9000, in: &setting.workspace, to: &setting.outputs)
    #expect(session.deadline == 5000 + 3_600_000)
    let action = session.timedOut(now: session.deadline, in: &setting.workspace, to: &setting.outputs)
    #expect(action == .end(Ending(client: .abort, keepsUpstream: false)))
    #expect(session.exchange.record.outcome == .tunnelIdle)
  }

  @Test func aClockThatWentBackIsNoReasonToWaitLonger() {
    var state = TunnelStateTests.plain()
    (state.begun, state.lastProgress) = (100_000, 200_000)
    var setting = Setting()
    let session = Session(
      resuming: state, policy: plainPolicy, in: ExchangeRooms(), now: 9000, in: &setting.workspace, to: &setting.outputs
    )
    #expect(session.deadline == 9000 + plainPolicy.configuration.timeouts.tunnelIdleMilliseconds)
    #expect(session.exchange.record.times.begun == 9000)
  }

  /// Bytes go both ways, and the ends come as they come in any tunnel.
  @Test func aResumedTunnelMovesAndEnds() {
    var setting = Setting()
    var session = Session(
      resuming: TunnelStateTests.plain(), policy: plainPolicy, in: ExchangeRooms(), now: 9000, in: &setting.workspace,
      to: &setting.outputs)
    let bytes: [UInt8] = [1, 2, 3]
    let up = session.clientReceived(
      bytes.span, now: 9000, policy: plainPolicy, in: &setting.workspace, to: &setting.outputs)
    #expect(up == Step(consumed: 0, action: .forward(count: 3)))
    let down = session.exchange.upstreamReceived(bytes.span, now: 9000, in: &setting.workspace, to: &setting.outputs)
    #expect(down == Step(consumed: 0, action: .forward(count: 3)))
    session.exchange.clientForwarded(3, now: 9001)
    let half = session.clientEnded(now: 9002, in: &setting.workspace, to: &setting.outputs)
    #expect(half == .closeOtherWrite)
    let whole = session.exchange.upstreamEnded(.closed, now: 9003, in: &setting.workspace, to: &setting.outputs)
    #expect(whole == .end(Ending(client: .close, keepsUpstream: false)))
    #expect(session.exchange.record.outcome == .done && session.exchange.record.traffic.bytesIn == 3)
  }

  @Test func anEndThatCameBeforeIsNotAwaitedAgain() {
    var state = TunnelStateTests.plain()
    state.ends = .clientEnded
    var setting = Setting()
    var session = Session(
      resuming: state, policy: plainPolicy, in: ExchangeRooms(), now: 9000, in: &setting.workspace, to: &setting.outputs
    )
    let action = session.exchange.upstreamEnded(.closed, now: 9003, in: &setting.workspace, to: &setting.outputs)
    #expect(action == .end(Ending(client: .close, keepsUpstream: false)))
  }

  @Test func aReportedFaultIsStillSaidAtTheEnd() {
    var state = TunnelStateTests.plain()
    state.reportedFault = .client(.plainHTTP)
    var setting = Setting()
    var session = Session(
      resuming: state, policy: plainPolicy, in: ExchangeRooms(), now: 9000, in: &setting.workspace, to: &setting.outputs
    )
    _ = session.shutDown(in: &setting.workspace, to: &setting.outputs)
    #expect(session.exchange.record.outcome == .tunnelFaultReported(.client(.plainHTTP)))
  }
}
