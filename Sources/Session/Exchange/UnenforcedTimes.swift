// An unenforced rule lets exchanges exceed its time-outs. This is what is logged of those that it would have ended.
// Tests: UnenforcedTimesTests.

import Bytes
import Policy

struct ExceededTime {
  let kind: Problem.Kind
  let finding: Finding

  private init?(_ took: Int64, above most: Int64, as kind: Problem.Kind, key: String) {
    guard took > most else { return nil }
    self.kind = kind
    finding = Finding(
      "The rule, were it enforced, would have ended the exchange: its \(key) is \(most) ms, and it took \(took) ms.",
      Difference(expected: "\(key) of at most \(most) ms", seen: "\(took) ms"))
  }

  /// Something took this long, and the rule may have a time-out for it.
  init?(_ milliseconds: Int64, of timeout: Timeout, by rule: Rule?, requestIsDone: Bool) {
    guard let timeouts = rule?.timeouts, timeouts.own.contains(timeout) else { return nil }
    self.init(
      milliseconds, above: timeouts.values[timeout], as: Self.kind(of: timeout, requestIsDone: requestIsDone),
      key: timeout.rawValue)
  }

  /// The whole exchange took this long.
  init?(whole milliseconds: Int64, by rule: Rule?) {
    guard let most = rule?.request.timeoutMilliseconds else { return nil }
    self.init(milliseconds, above: most, as: .exchangeTimeout, key: "timeout")
  }

  /// Whether the rule has times and does not enforce them.
  static func areReported(by rule: Rule?, _ edits: RequestPolicy) -> Bool {
    guard let rule, !rule.enforce else { return false }
    return rule.timeouts != nil || edits.timeoutMilliseconds != nil
  }

  private static func kind(of timeout: Timeout, requestIsDone: Bool) -> Problem.Kind {
    switch timeout {
    case .connect: .connectionTimeout
    case .tlsHandshake: .tlsTimeout
    case .responseHeader: .responseTimeout
    case .bodyStall: requestIsDone ? .responseTimeout : .stalled
    case .tunnelIdle, .upstreamIdle, .clientHeader, .clientIdle, .drain: .exchangeTimeout
    }
  }
}
