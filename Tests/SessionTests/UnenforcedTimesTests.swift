// A rule that is not enforced ends nothing, and says what it would have ended.

import Bytes
import Policy
import TestSupport
import Testing

@testable import Session

@Suite struct UnenforcedTimesTests {
  static func trial(_ enforce: Bool = false) -> Policy {
    policy(
      """
      [proxy.timeouts]
      response_header = "10s"
      body_stall = "10s"
      tunnel_idle = "10s"
      [[rule]]
      name = "trial"
      enforce = \(enforce)
      [rule.timeouts]
      response_header = "2s"
      body_stall = "2s"
      tunnel_idle = "2s"
      connect = "1m"
      [rule.request]
      timeout = "5s"
      """)
  }

  private func record(_ happenings: [Happening]) throws -> ExchangeRecord {
    let stage = Stage(Self.trial(), .whole)
    _ = stage.play(happenings)
    #expect(stage.faults.isEmpty, "\(stage.faults)")
    return try #require(stage.entries.last).record
  }

  private static let long = head("HTTP/1.1 200 OK", "Content-Length: 2")

  @Test func aResponseThatBeginsTooLate() throws {
    let record = try record([.client(get), .opened, .pass(2001), .upstream(ok)])
    #expect(record.outcome == .done && record.found.report == .responseTimeout)
    let finding = try #require(record.found.finding)
    #expect(
      finding.detail == "The rule, were it enforced, would have ended the exchange: its response_header is 2000 ms, "
        + "and it took 2001 ms.")
    #expect(finding.difference == Difference(expected: "response_header of at most 2000 ms", seen: "2001 ms"))
  }

  @Test func aBodyThatStalls() throws {
    let late = try record([.client(get), .opened, .upstream(Self.long + "o"), .pass(2001), .upstream("k")])
    #expect(late.outcome == .done && late.found.report == .responseTimeout)
    #expect(try #require(late.found.finding).detail.contains("body_stall is 2000 ms"))
    let upload = try record([.client(post + "he"), .opened, .pass(2001), .client("llo"), .upstream(ok)])
    #expect(upload.found.report == .stalled)
  }

  @Test func anExchangeThatTakesTooLong() throws {
    let events: [Happening] = [
      .client(get), .opened, .pass(1700), .upstream(Self.long), .pass(1700), .upstream("o"), .pass(1700),
      .upstream("k"),
    ]
    let record = try record(events)
    #expect(record.outcome == .done && record.found.report == .exchangeTimeout)
    #expect(try #require(record.found.finding).detail.contains("its timeout is 5000 ms, and it took 5100 ms"))
  }

  @Test func aTunnelThatRests() throws {
    let record = try record([
      .client(connect), .opened, .pass(2001), .upstream("x"), .clientEnds, .upstreamEnds,
    ])
    #expect(record.outcome == .done && record.found.report == .exchangeTimeout)
    #expect(try #require(record.found.finding).detail.contains("tunnel_idle"))
  }

  /// What an exchange is marked with stands apart: this one leaves for a target, and its end is late by a sweep's time.
  @Test func aRuleThatIsEnforcedReportsNothing() throws {
    let enforced = policy(
      """
      [[rule]]
      name = "api"
      target = "http://real.example/v2/"
      [rule.timeouts]
      body_stall = "2s"
      """)
    let stage = Stage(enforced, .whole)
    _ = stage.play([.client(get), .opened, .upstream(Self.long + "o"), .pass(2001), .upstream("k")])
    let record = try #require(stage.entries.last).record
    #expect(record.outcome == .done && record.found.report == nil && record.found.finding == nil)
  }

  @Test func whatKeepsTheTimesIsNotReported() throws {
    let whole = try record([.client(get), .opened, .pass(2000), .upstream(ok)])
    #expect(whole.found.report == nil && whole.found.finding == nil)
    let tunnel = try record([.client(connect), .opened, .pass(2000), .upstream("x"), .clientEnds, .upstreamEnds])
    #expect(tunnel.found.report == nil)
  }

  /// What ends it is what would have ended it without the rule, unless the rule gives more time.
  @Test func theTimesOfAllStillHold() throws {
    let record = try record([.client(get), .opened, .timeOut])
    #expect(record.outcome == .problem(.responseTimeout))
    #expect(record.found.finding?.detail.contains("within 10000 ms") ?? false)
    #expect(Self.trial().timeouts(of: 0).connectMilliseconds == 60_000)
    #expect(Self.trial(true).timeouts(of: 0).responseHeaderMilliseconds == 2000)
  }
}
