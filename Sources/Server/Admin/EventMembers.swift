// What events tell of an exchange before its end, and of the network. The event at the end has the facts of the log.
// Tests: EventTextTests.

import Bytes
import Policy
import Session
import Transport

extension AdminResources {
  /// `progress`: how far an exchange is. Bytes from the client, and to it, count heads; what is expected is the total
  /// at the end, if known.
  static func progress(
    _ record: borrowing ExchangeRecord, rule: String?, expectedIn: UInt64?, expectedOut: UInt64?, ageMilliseconds: Int64
  ) -> [(String, JSONText)] {
    func number(_ value: UInt64?) -> JSONText { value.map { .number(Int(clamping: $0)) } ?? .null }
    return [
      ("ref", .string(record.reference.text)), ("rule", rule.map { .string($0) } ?? .null),
      ("bytes_in", number(record.traffic.bytesIn)), ("bytes_out", number(record.traffic.bytesOut)),
      ("expected_in", number(expectedIn)), ("expected_out", number(expectedOut)),
      ("age_ms", .number(Int(max(0, ageMilliseconds)))),
    ]
  }

  /// `reachability`: the state of the machine now, and what has changed.
  static func reachability(_ report: ReachabilityReport, because reason: String) -> [(String, JSONText)] {
    machine(report) + [("reason", .string(reason))]
  }
}
