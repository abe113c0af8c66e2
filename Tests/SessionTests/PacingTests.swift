// The pace of tunnels and downloads as a session has it: what of a client may move, which pauses end when, and that they are
// no time in which nothing moves.

import Bytes
import Policy
import Reachability
import TestSupport
import Testing

@testable import Session

@Suite struct PacingTests {
  private static func rules(_ throttle: String, _ more: String = "") -> Policy {
    policy("\(more)\n[[rule]]\nname = \"paced\"\nrequest.throttle = \(throttle)")
  }

  private struct Setting: ~Copyable {
    var workspace = Workspace(
      name: "sallyport", mark: Stage.mark, references: ReferenceSource(seed: 0, index: 0, of: 1))
    var outputs = Outputs()
  }

  /// A session in a tunnel or an exchange that was opened at 1000.
  private static func opened(
    _ request: String, _ policy: Policy, link: ReachabilityStatus = .wifi, _ setting: inout Setting
  ) -> Session {
    var session = Session(policy: policy, in: ExchangeRooms(), now: 1000)
    let bytes = octets(request)
    _ = session.clientReceived(bytes.span, now: 1000, policy: policy, in: &setting.workspace, to: &setting.outputs)
    _ = session.exchange.upstreamOpened(
      reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 443, by: UpstreamWay(route: "direct", link: link),
      now: 1000, in: &setting.workspace, to: &setting.outputs)
    return session
  }

  private static let connect = head("CONNECT a.example:443 HTTP/1.1", "Host: a.example:443")
  private static let get = head("GET http://a.example/ HTTP/1.1", "Host: a.example")

  // MARK: Tunnels

  @Test func aTunnelIsPacedTowardsTheDestination() {
    let packets = Self.rules("{ packet = \"1KiB\", delay = \"200ms\" }")
    let stage = Stage(packets, .whole)
    let says = String(repeating: "x", count: 2500)
    let transcript = stage.play([
      .client(Self.connect), .opened, .client(says), .timeOut, .timeOut, .upstream("y"), .clientEnds, .upstreamEnds,
    ])
    #expect(stage.faults.isEmpty, "\(stage.faults)")
    #expect(transcript.split(separator: "\n").count { $0 == "after 200 ms" } == 2, "\(transcript)")
    let lengths = transcript.split(separator: "\n").filter { $0.hasPrefix("> raw") }.map(\.count)
    #expect(lengths.count >= 3, "\(transcript)")
  }

  @Test func whatIsReadOfAClientIsBoundedByThePacket() {
    var setting = Setting()
    var session = Self.opened(Self.connect, Self.rules("{ packet = \"1KiB\", delay = \"1m\" }"), &setting)
    #expect(session.exchange.pacesUpload && !session.exchange.pacesDownload && session.exchange.uploadAllowance == 1024)
    let bytes = [UInt8](repeating: 7, count: 3000)
    let step = session.clientReceived(
      bytes.span, now: 1000, policy: session.exchange.policy, in: &setting.workspace, to: &setting.outputs)
    #expect(step == Step(consumed: 0, action: .forward(count: 1024)))
    session.exchange.clientForwarded(1024, now: 1000)
    #expect(session.exchange.uploadRests && !session.wantsClientBytes && session.deadline == 61_000)
    let more = session.clientReceived(
      bytes.span, now: 1000, policy: session.exchange.policy, in: &setting.workspace, to: &setting.outputs)
    #expect(more == Step(consumed: 0, action: .hold))
    let action = session.timedOut(now: 61_000, in: &setting.workspace, to: &setting.outputs)
    #expect(action == .read && session.wantsClientBytes && session.exchange.uploadAllowance == 1024)
  }

  @Test func aPauseIsNoTimeInWhichNothingMoves() {
    let idle = "[proxy.timeouts]\ntunnel_idle = \"10s\""
    var setting = Setting()
    var session = Self.opened(Self.connect, Self.rules("{ packet = \"1KiB\", delay = \"1m\" }", idle), &setting)
    session.exchange.clientForwarded(1024, now: 1000)
    _ = session.timedOut(now: session.deadline, in: &setting.workspace, to: &setting.outputs)
    #expect(session.deadline == 61_000 + 10_000)
    #expect(session.exchange.record.outcome == .done)
  }

  @Test func aTunnelOfAnotherLinkHasNoPace() {
    for (link, holds) in [(ReachabilityStatus.wwan, true), (.unknown, true), (.wired, false)] {
      var setting = Setting()
      let throttle = "{ rate = \"1MiB\", download = \"1MiB\", when = [\"wwan\"] }"
      let session = Self.opened(Self.connect, Self.rules(throttle), link: link, &setting)
      #expect(session.exchange.pacesUpload == holds && session.exchange.pacesDownload == holds)
    }
  }

  @Test func aTunnelOfAnEarlierProcessKeepsThePaceOfTheRuleInForce() {
    var setting = Setting()
    var state = TunnelStateTests.plain()
    state.rule = "paced"
    state.reason = .rule
    let policy = Self.rules("{ packet = \"1KiB\", delay = \"1s\", download = \"1KiB\" }")
    var session = Session(
      resuming: state, policy: policy, in: ExchangeRooms(), now: 9000, in: &setting.workspace, to: &setting.outputs)
    let isEarly = session.exchange.pacesUpload
    #expect(!isEarly)
    session.exchange.beginPace(on: .wifi, owing: 2048, now: 9000)
    #expect(session.exchange.pacesDownload && session.exchange.uploadRests && session.deadline == 9000 + 2000)
  }

  // MARK: Downloads

  @Test func whatLeavesForTheClientIsPaidFor() {
    var setting = Setting()
    var session = Self.opened(Self.get, Self.rules("{ download = \"10KiB\" }"), &setting)
    #expect(session.exchange.downloadAllowance(now: 1000) == 1024)
    session.exchange.clientTook(1024, now: 1000)
    #expect(session.exchange.downloadRests && session.deadline == 1100)
    #expect(!session.exchange.pacesUpload && session.exchange.unchangedResponseBytes == 0)
    let early = session.exchange.resumeDownload(now: 1099)
    #expect(!early)
    let action = session.timedOut(now: 1100, in: &setting.workspace, to: &setting.outputs)
    #expect(action == .read && !session.exchange.downloadRests && session.exchange.downloadAllowance(now: 1100) == 1024)
    // The time for the head of the response counts from here.
    #expect(session.deadline == 1100 + session.exchange.ruling.timeouts.responseHeaderMilliseconds)
  }

  @Test func anAnswerOfTheProxysOwnHasNoPace() {
    var setting = Setting()
    var session = Self.opened(Self.get, Self.rules("{ download = \"1KiB\" }"), &setting)
    let bytes = octets("HTTP/9.9 nonsense\r\n\r\n")
    _ = session.exchange.upstreamReceived(bytes.span, now: 1000, in: &setting.workspace, to: &setting.outputs)
    #expect(
      session.exchange.record.answeredItself && !session.exchange.pacesDownload
        && session.exchange.downloadAllowance(now: 1000) == nil)
  }

  @Test func withoutAThrottleThereIsNone() {
    var setting = Setting()
    let session = Self.opened(Self.get, policy("[[rule]]\nname = \"r\""), &setting)
    #expect(
      session.exchange.bodies.pacing == nil && session.exchange.uploadAllowance == nil
        && session.exchange.downloadAllowance(now: 0) == nil)
  }
}
