// An unenforced rule lets exchanges exceed its time-outs. This logs which exchanges it would have ended.
// Tests: UnenforcedTimesTests.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// To be called once the rule is known.
  mutating func prepareReports(_ edits: RequestPolicy) {
    guard let rule, !rule.enforce, rule.timeouts != nil || edits.timeoutMilliseconds != nil else { return }
    response.traits.insert(.reportsTimes)
  }

  /// Something took this long, and the rule may have a time-out for it.
  mutating func noteTime(_ milliseconds: Int64, of timeout: Timeout) {
    guard response.traits.contains(.reportsTimes), let timeouts = rule?.timeouts, timeouts.own.contains(timeout) else {
      return
    }
    report(milliseconds, above: timeouts.values[timeout], as: kind(of: timeout), timeout.rawValue)
  }

  /// Nothing moved until now.
  mutating func noteQuiet(until now: Int64) {
    // An exchange that pauses at the pace of its rule is not idle.
    if !response.traits.contains(.reportsTimes) || bodies.pacing != nil { return }
    switch phase {
    case .tunnel: noteTime(now - times.lastProgress, of: .tunnelIdle)
    case .exchanging:
      let awaitsHead = response.progress == .head && request.progress == .done
      noteTime(now - times.lastProgress, of: awaitsHead ? .responseHeader : .bodyStall)
    case .collecting: noteTime(now - times.lastProgress, of: .bodyStall)
    case .head, .connecting: break
    }
  }

  /// The exchange is over.
  public mutating func noteWhole(now: Int64) {
    // For a tunnel this counts only the time until it is open.
    guard response.traits.contains(.reportsTimes), !isTunnel, let most = rule?.request.timeoutMilliseconds else {
      return
    }
    report(now - record.begun, above: most, as: .exchangeTimeout, "timeout")
  }

  private mutating func report(_ took: Int64, above most: Int64, as kind: Problem.Kind, _ key: String) {
    // The first excess would have ended the exchange.
    guard took > most, record.report == nil else { return }
    record.report = kind
    // A finding about how the exchange did end comes first.
    guard record.finding == nil else { return }
    record.finding = Finding(
      "The rule, were it enforced, would have ended the exchange: its \(key) is \(most) ms, and it took \(took) ms.",
      Difference(expected: "\(key) of at most \(most) ms", seen: "\(took) ms"))
  }

  private func kind(of timeout: Timeout) -> Problem.Kind {
    switch timeout {
    case .connect: .connectionTimeout
    case .tlsHandshake: .tlsTimeout
    case .responseHeader: .responseTimeout
    case .bodyStall: request.progress == .done ? .responseTimeout : .stalled
    case .tunnelIdle, .upstreamIdle, .clientHeader, .clientIdle, .drain: .exchangeTimeout
    }
  }
}
