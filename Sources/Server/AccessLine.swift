// The one line that is written for each request or tunnel. Nothing is allocated for it in a steady state.

import Bytes
import HTTP1
import Policy
import Session
import Transport

struct AccessLine {
  let record: ExchangeRecord
  /// The rule that decided; nil where none matched.
  let rule: String?
  let client: SocketAddress
  let totalMilliseconds: Int64
  /// The moment that the line tells, in milliseconds since 1970; nil: when the exchange began.
  var wall: Int64? = nil

  /// `text` holds method and target, at the record's ranges.
  func write(_ format: LineFormat, text: borrowing ByteBuffer, to out: inout ByteBuffer) {
    switch format {
    case .json: writeJSON(text.bytes, &out)
    case .text: writeText(text.bytes, &out)
    case .journal: writeJournal(text.bytes, &out)
    }
  }

  private func writeJSON(_ text: Span<UInt8>, _ out: inout ByteBuffer) {
    out.append("{\"time\":\"")
    out.appendTimestamp(wall ?? record.begunWall)
    out.append("\",\"id\":\"")
    record.reference.write(to: &out)
    out.append("\",\"client\":\"")
    out.append(client)
    out.append("\",\"user\":")
    if let client = record.client { writeUser(client, &out) } else { out.append("null") }
    out.append(",\"unit\":")
    if let unit = record.client?.unit { out.append(json: unit) } else { out.append("null") }
    out.append(",\"method\":")
    write(json: text.extracting(record.method), &out)
    out.append(",\"target\":")
    write(json: text.extracting(record.target), &out)
    out.append(",\"rule\":")
    if let rule { out.append(json: rule) } else { out.append("null") }
    out.append(",\"decision\":")
    if let decision = record.decision {
      out.append(decision.verdict == .allow ? "\"allow\",\"reason\":\"" : "\"deny\",\"reason\":\"")
      out.append(decision.reason.token)
      out.append("\"")
    } else {
      out.append("null,\"reason\":null")
    }
    out.append(",\"route\":")
    if let route = record.route { out.append(json: route) } else { out.append("null") }
    out.append(",\"upstream\":")
    if let upstream = record.upstream {
      out.append("\"")
      out.append(SocketAddress(upstream, port: record.upstreamPort))
      out.append("\"")
    } else {
      out.append("null")
    }
    out.append(record.isReused ? ",\"reused\":true" : ",\"reused\":false")
    out.append(record.isRetried ? ",\"retried\":true" : ",\"retried\":false")
    out.append(",\"status\":")
    out.append(decimal: UInt64(record.status))
    out.append(",\"bytes_in\":")
    out.append(decimal: record.bytesIn)
    out.append(",\"bytes_out\":")
    out.append(decimal: record.bytesOut)
    write(json: ",\"name_ms\":", record.nameMilliseconds, &out)
    write(json: ",\"connect_ms\":", record.connectMilliseconds, &out)
    write(json: ",\"tls_ms\":", record.tlsMilliseconds, &out)
    write(json: ",\"first_byte_ms\":", record.firstByteMilliseconds, &out)
    write(json: ",\"total_ms\":", totalMilliseconds, &out)
    out.append(",\"assurance\":")
    if let assurance = record.assurance {
      out.append("\"")
      out.append(assurance.token)
      out.append("\"")
    } else {
      out.append("null")
    }
    out.append(",\"report\":")
    if let report = record.report {
      out.append("\"")
      out.append(report.token)
      out.append("\"")
    } else {
      out.append("null")
    }
    out.append(",\"violation\":")
    if let violation = record.violation {
      out.append("\"")
      out.append(violation.token)
      out.append("\"")
    } else {
      out.append("null")
    }
    out.append(",\"mended\":")
    if record.mended.isEmpty { out.append("null") } else { out.append(json: record.mended.text) }
    out.append(",\"error\":")
    if let token = record.outcome.token {
      out.append("\"")
      out.append(token)
      out.append("\"}\n")
    } else {
      out.append("null}\n")
    }
  }

  private func writeUser(_ client: LocalClient, _ out: inout ByteBuffer) {
    if let user = client.user { return out.append(json: user) }
    out.append("\"")
    out.append(decimal: UInt64(client.userID))
    out.append("\"")
  }

  private func write(json text: Span<UInt8>, _ out: inout ByteBuffer) {
    if text.isEmpty { out.append("null") } else { out.append(json: text) }
  }

  private func write(json key: StaticString, _ milliseconds: Int64, _ out: inout ByteBuffer) {
    out.append(key)
    if milliseconds < 0 { out.append("null") } else { out.append(decimal: UInt64(milliseconds)) }
  }

  private func writeText(_ text: Span<UInt8>, _ out: inout ByteBuffer) {
    out.appendTimestamp(record.begunWall)
    out.append(" ")
    writeTextWithoutTime(text, &out)
  }

  /// For what bears a time of its own.
  func writeTextWithoutTime(_ text: Span<UInt8>, _ out: inout ByteBuffer) {
    record.reference.write(to: &out)
    out.append(" ")
    out.append(client)
    out.append(" ")
    if record.method.isEmpty { out.append("-") } else { out.append(text.extracting(record.method)) }
    out.append(" ")
    if record.target.isEmpty { out.append("-") } else { out.append(text.extracting(record.target)) }
    out.append(" ")
    out.append(decimal: UInt64(record.status))
    out.append(" rule=")
    if let rule { out.append(rule) } else { out.append("-") }
    if let decision = record.decision {
      out.append(decision.verdict == .allow ? " allow:" : " deny:")
      out.append(decision.reason.token)
    }
    if let client = record.client {
      out.append(" user=")
      if let user = client.user { out.append(user) } else { out.append(decimal: UInt64(client.userID)) }
      if let unit = client.unit {
        out.append(" unit=")
        // Whoever may make control groups names them.
        out.append(printable: unit)
      }
    }
    if let upstream = record.upstream {
      out.append(" route=")
      out.append(record.route ?? "-")
      out.append(" upstream=")
      out.append(SocketAddress(upstream, port: record.upstreamPort))
      if record.isReused { out.append(" reused") }
      if record.isRetried { out.append(" retried") }
    }
    out.append(" in=")
    out.append(decimal: record.bytesIn)
    out.append(" out=")
    out.append(decimal: record.bytesOut)
    write(text: " name=", record.nameMilliseconds, &out)
    write(text: " connect=", record.connectMilliseconds, &out)
    write(text: " tls=", record.tlsMilliseconds, &out)
    write(text: " first=", record.firstByteMilliseconds, &out)
    write(text: " total=", totalMilliseconds, &out)
    if let assurance = record.assurance {
      out.append(" assurance=")
      out.append(assurance.token)
    }
    if let report = record.report {
      out.append(" report=")
      out.append(report.token)
    }
    if let violation = record.violation {
      out.append(" violation=")
      out.append(violation.token)
    }
    if !record.mended.isEmpty {
      out.append(" mended=")
      out.append(record.mended.text)
    }
    if let token = record.outcome.token {
      out.append(" error=")
      out.append(token)
    }
    out.append("\n")
  }

  private func write(text key: StaticString, _ milliseconds: Int64, _ out: inout ByteBuffer) {
    if milliseconds < 0 { return }
    out.append(key)
    out.append(decimal: UInt64(milliseconds))
    out.append("ms")
  }
}

extension ByteBuffer {
  /// RFC 3339, UTC, with milliseconds.
  mutating func appendTimestamp(_ wallMilliseconds: Int64) {
    CalendarTime(secondsSince1970: wallMilliseconds / 1000).writeRFC3339(to: &self)
    append(".")
    append(decimal: UInt64(wallMilliseconds % 1000), width: 3)
    append("Z")
  }

  /// `127.0.0.1:80` or `[::1]:80`
  mutating func append(_ address: SocketAddress) {
    if !address.isIPv4 { append("[") }
    IPAddress(address).write(to: &self)
    append(address.isIPv4 ? ":" : "]:")
    append(decimal: UInt64(address.port))
  }
}

extension Assurance {
  var token: StaticString {
    switch self {
    case .none: "none"
    case .sni: "sni"
    case .probe: "probe"
    case .exact: "exact"
    }
  }
}

extension Decision.Reason {
  /// The stable word of the log.
  var token: StaticString {
    switch self {
    case .rule: "rule"
    case .ruleDenies: "rule-denies"
    case .connectDenied: "connect-denied"
    case .portNotListed: "port-not-listed"
    case .ruleWouldDeny: "rule-would-deny"
    case .outsideTarget: "outside-target"
    case .addressDenied: "address-denied"
    case .defaultAllow: "default"
    case .defaultDeny: "default-denies"
    case .methodRefused: "method-refused"
    }
  }
}

extension IPAddress {
  /// 4 or 16 bytes, in network order.
  var octets: [UInt8] {
    let all = [high, low].flatMap { part in (0..<8).map { UInt8(truncatingIfNeeded: part >> (56 - 8 * UInt64($0))) } }
    return isIPv4 ? Array(all.suffix(4)) : all
  }

  init(_ address: SocketAddress) {
    self =
      address.isIPv4
      ? IPAddress(ipv4: UInt32(truncatingIfNeeded: address.low)) : IPAddress(ipv6High: address.high, low: address.low)
  }
}

extension SocketAddress {
  init(_ address: IPAddress, port: UInt16) {
    self.init(high: address.high, low: address.low, port: port, isIPv4: address.isIPv4)
  }

  func with(port: UInt16) -> SocketAddress { SocketAddress(high: high, low: low, port: port, isIPv4: isIPv4) }
}
