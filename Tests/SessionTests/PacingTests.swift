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
    var session = Session(policy: policy, now: 1000)
    let bytes = octets(request)
    _ = session.clientReceived(bytes.span, now: 1000, policy: policy, &setting.workspace, &setting.outputs)
    _ = session.upstreamOpened(
      reused: false, address: IPAddress(ipv4: 0xc000_0201), port: 443, by: UpstreamWay(route: "direct", link: link),
      now: 1000, &setting.workspace, &setting.outputs)
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
    #expect(session.pacesUpload && !session.pacesDownload && session.uploadAllowance == 1024)
    let bytes = [UInt8](repeating: 7, count: 3000)
    let step = session.clientReceived(
      bytes.span, now: 1000, policy: session.policy, &setting.workspace, &setting.outputs)
    #expect(step == Step(consumed: 0, action: .forward(count: 1024)))
    session.clientForwarded(1024, now: 1000)
    #expect(session.uploadRests && !session.wantsClientBytes && session.deadline == 61_000)
    let more = session.clientReceived(
      bytes.span, now: 1000, policy: session.policy, &setting.workspace, &setting.outputs)
    #expect(more == Step(consumed: 0, action: .hold))
    let action = session.timedOut(now: 61_000, &setting.workspace, &setting.outputs)
    #expect(action == .read && session.wantsClientBytes && session.uploadAllowance == 1024)
  }

  @Test func aPauseIsNoTimeInWhichNothingMoves() {
    let idle = "[proxy.timeouts]\ntunnel_idle = \"10s\""
    var setting = Setting()
    var session = Self.opened(Self.connect, Self.rules("{ packet = \"1KiB\", delay = \"1m\" }", idle), &setting)
    session.clientForwarded(1024, now: 1000)
    _ = session.timedOut(now: session.deadline, &setting.workspace, &setting.outputs)
    #expect(session.deadline == 61_000 + 10_000)
    #expect(session.record.outcome == .done)
  }

  @Test func aTunnelOfAnotherLinkHasNoPace() {
    for (link, holds) in [(ReachabilityStatus.wwan, true), (.unknown, true), (.wired, false)] {
      var setting = Setting()
      let throttle = "{ rate = \"1MiB\", download = \"1MiB\", when = [\"wwan\"] }"
      let session = Self.opened(Self.connect, Self.rules(throttle), link: link, &setting)
      #expect(session.pacesUpload == holds && session.pacesDownload == holds)
    }
  }

  @Test func aTunnelOfAnEarlierProcessKeepsThePaceOfTheRuleInForce() {
    var setting = Setting()
    var state = TunnelStateTests.plain()
    state.rule = "paced"
    state.reason = .rule
    let policy = Self.rules("{ packet = \"1KiB\", delay = \"1s\", download = \"1KiB\" }")
    var session = Session(resuming: state, policy: policy, now: 9000, &setting.workspace, &setting.outputs)
    let isEarly = session.pacesUpload
    #expect(!isEarly)
    session.beginPace(on: .wifi, owing: 2048, now: 9000)
    #expect(session.pacesDownload && session.uploadRests && session.deadline == 9000 + 2000)
  }

  // MARK: Downloads

  @Test func whatLeavesForTheClientIsPaidFor() {
    var setting = Setting()
    var session = Self.opened(Self.get, Self.rules("{ download = \"10KiB\" }"), &setting)
    #expect(session.downloadAllowance(now: 1000) == 1024)
    session.clientTook(1024, now: 1000)
    #expect(session.downloadRests && session.deadline == 1100)
    #expect(!session.pacesUpload && session.unchangedResponseBytes == 0)
    let early = session.resumeDownload(now: 1099)
    #expect(!early)
    let action = session.timedOut(now: 1100, &setting.workspace, &setting.outputs)
    #expect(action == .read && !session.downloadRests && session.downloadAllowance(now: 1100) == 1024)
    // The time for the head of the response counts from here.
    #expect(session.deadline == 1100 + session.timeouts.responseHeaderMilliseconds)
  }

  @Test func anAnswerOfTheProxysOwnHasNoPace() {
    var setting = Setting()
    var session = Self.opened(Self.get, Self.rules("{ download = \"1KiB\" }"), &setting)
    let bytes = octets("HTTP/9.9 nonsense\r\n\r\n")
    _ = session.upstreamReceived(bytes.span, now: 1000, &setting.workspace, &setting.outputs)
    #expect(session.answeredItself && !session.pacesDownload && session.downloadAllowance(now: 1000) == nil)
  }

  @Test func withoutAThrottleThereIsNone() {
    var setting = Setting()
    let session = Self.opened(Self.get, policy("[[rule]]\nname = \"r\""), &setting)
    #expect(session.pacing == nil && session.uploadAllowance == nil && session.downloadAllowance(now: 0) == nil)
  }
}
