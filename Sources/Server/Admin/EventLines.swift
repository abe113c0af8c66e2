// Events about an exchange before its end, and about the network. The event at the end is the line of the log.
// Tests: EventTextTests.

import Bytes
import Policy
import Session
import Transport

/// `progress`: how far an exchange is.
struct ProgressLine {
  /// Milliseconds since 1970.
  let wall: Int64
  let reference: Reference
  let rule: String?
  /// Bytes from the client, and to it, heads included.
  let bytesIn: UInt64
  let bytesOut: UInt64
  /// Their totals at the end; nil if unknown.
  let expectedIn: UInt64?
  let expectedOut: UInt64?
  let ageMilliseconds: Int64

  func write(to out: inout ByteBuffer) {
    out.append("{\"time\":\"")
    out.appendTimestamp(wall)
    out.append("\",\"ref\":\"")
    reference.write(to: &out)
    out.append("\",\"rule\":")
    if let rule { out.append(json: rule) } else { out.append("null") }
    out.append(",\"bytes_in\":")
    out.append(decimal: bytesIn)
    out.append(",\"bytes_out\":")
    out.append(decimal: bytesOut)
    write(",\"expected_in\":", expectedIn, &out)
    write(",\"expected_out\":", expectedOut, &out)
    out.append(",\"age_ms\":")
    out.append(decimal: UInt64(max(0, ageMilliseconds)))
    out.append("}")
  }

  private func write(_ key: StaticString, _ value: UInt64?, _ out: inout ByteBuffer) {
    out.append(key)
    if let value { out.append(decimal: value) } else { out.append("null") }
  }
}

extension AdminResources {
  /// `reachability`: the state of the machine now, and what has changed.
  static func reachability(_ report: ReachabilityReport, because reason: String) -> [(String, JSONText)] {
    machine(report) + [("reason", .string(reason))]
  }
}
