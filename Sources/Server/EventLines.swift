// What events say of an exchange before it is over, at whose end it is the line of the log, and of the network.
// Tests: EventTextTests.

import Bytes
import Policy
import Session
import Transport

/// `begun`: what has been decided.
struct BeginningLine {
  let record: ExchangeRecord
  /// The rule that decided; nil where none matched.
  let rule: String?
  let client: SocketAddress

  /// `text` holds method and target, at the record's ranges.
  func write(text: borrowing ByteBuffer, to out: inout ByteBuffer) {
    out.append("{\"time\":\"")
    out.appendTimestamp(record.begunWall)
    out.append("\",\"ref\":\"")
    record.reference.write(to: &out)
    out.append("\",\"client\":\"")
    out.append(client)
    out.append("\",\"method\":")
    write(text.bytes.extracting(record.method), &out)
    out.append(",\"target\":")
    write(text.bytes.extracting(record.target), &out)
    out.append(",\"rule\":")
    if let rule { out.append(json: rule) } else { out.append("null") }
    out.append(",\"decision\":")
    if let decision = record.decision {
      out.append(decision.verdict == .allow ? "\"allow\",\"reason\":\"" : "\"deny\",\"reason\":\"")
      out.append(decision.reason.token)
      out.append("\"}")
    } else {
      out.append("null,\"reason\":null}")
    }
  }

  private func write(_ text: Span<UInt8>, _ out: inout ByteBuffer) {
    if text.isEmpty { out.append("null") } else { out.append(json: text) }
  }
}

/// `progress`: how far it is.
struct ProgressLine {
  /// Milliseconds since 1970.
  let wall: Int64
  let reference: Reference
  let rule: String?
  /// Bytes of the client, and to it, heads included.
  let bytesIn: UInt64
  let bytesOut: UInt64
  /// What these will have come to; nil where nobody knows.
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
  /// `reachability`: what the machine is like now, and what has changed.
  static func reachability(_ report: ReachabilityReport, because reason: String) -> [(String, JSONText)] {
    machine(report) + [("reason", .string(reason))]
  }
}
