// The facts of an exchange, each written once: for the line of the access log, the journal entry, events and the admin
// API. In a steady state this allocates nothing, but for the values of events that are watched. Tests: AccessLineTests.

import Bytes
import HTTP1
import Policy
import Session
import Transport

/// What the line needs besides the exchange's record. The record is passed separately, because copying one costs as
/// much as writing it.
struct AccessLine {
  /// The rule that decided; nil if none matched.
  let rule: String?
  let client: SocketAddress
  let totalMicroseconds: Int64
  /// File and line of the rule.
  var place: String? = nil
  /// The pins that the origin's certificate was checked against.
  var pins: String? = nil

  /// `text` contains method, target and the type of the response, at the record's ranges.
  func write(
    _ record: borrowing ExchangeRecord, _ format: LineFormat, text: borrowing ByteBuffer, to out: inout ByteBuffer
  ) {
    switch format {
    case .json:
      Self.writeTime(record.times.begunWall, &out)
      write(record, JSONFacts(writesNulls: false), text: text.bytes, to: &out)
      out.append("}\n")
    case .text:
      out.appendTimestamp(record.times.begunWall)
      out.append(" ")
      write(record, TextFacts(), text: text.bytes, to: &out)
      out.append("\n")
    case .journal: writeJournal(record, text.bytes, to: &out)
    }
  }

  /// The JSON object without its last brace, with all its members. `wall` is the time in it, in milliseconds since
  /// 1970; nil: when the exchange began.
  func writeMembers(
    _ record: borrowing ExchangeRecord, _ text: Span<UInt8>, wall: Int64? = nil, to out: inout ByteBuffer
  ) {
    Self.writeTime(wall ?? record.times.begunWall, &out)
    write(record, JSONFacts(writesNulls: true), text: text, to: &out)
  }

  /// The same of an exchange in progress: what has been decided about it.
  func writeBeginning(_ record: borrowing ExchangeRecord, _ text: Span<UInt8>, to out: inout ByteBuffer) {
    Self.writeTime(record.times.begunWall, &out)
    let facts = JSONFacts(writesNulls: true)
    writeRequest(record, facts, text: text, to: &out)
    writeDecision(record, facts, to: &out)
  }

  /// All members but the time, as values.
  func values(_ record: borrowing ExchangeRecord, _ text: Span<UInt8>) -> [(String, JSONText)] {
    let facts = FactValues()
    var nothing = ByteBuffer()
    write(record, facts, text: text, to: &nothing)
    return facts.members
  }

  func valuesOfBeginning(_ record: borrowing ExchangeRecord, _ text: Span<UInt8>) -> [(String, JSONText)] {
    let facts = FactValues()
    var nothing = ByteBuffer()
    writeRequest(record, facts, text: text, to: &nothing)
    writeDecision(record, facts, to: &nothing)
    return facts.members
  }

  private static func writeTime(_ wall: Int64, _ out: inout ByteBuffer) {
    out.append("{\"time\":\"")
    out.appendTimestamp(wall)
    out.append("\"")
  }

  /// Everything except the time.
  func write(_ record: borrowing ExchangeRecord, _ facts: some FactWriter, text: Span<UInt8>, to out: inout ByteBuffer)
  {
    writeRequest(record, facts, text: text, to: &out)
    facts.number("status", UInt64(record.answer.status), isBare: true, to: &out)
    writeDecision(record, facts, to: &out)
    facts.word("outcome", record.outcome.word, to: &out)
    facts.word("detail", record.found.finding?.detail, to: &out)
    facts.word("expected", record.found.finding?.difference?.expected, to: &out)
    facts.word("seen", record.found.finding?.difference?.seen, to: &out)
    facts.word("report", record.found.report?.token, to: &out)
    facts.word("violation", record.answer.violation?.token, to: &out)
    facts.word("serializer", record.answer.serializer, to: &out)
    facts.word("mended", record.answer.mended.isEmpty ? nil : record.answer.mended.text, to: &out)
    facts.word("route", record.way.route, to: &out)
    facts.address("upstream", record.way.upstream.map { SocketAddress($0, port: record.way.upstreamPort) }, to: &out)
    facts.wire("upstream_protocol", record.way.upstreamWire, to: &out)
    facts.token("cache", record.answer.cache?.rawValue, to: &out)
    facts.truth("reused", record.way.isReused, to: &out)
    facts.truth("retried", record.way.isRetried, to: &out)
    facts.token("assurance", record.way.assurance?.rawValue, to: &out)
    facts.word("pins", pins, to: &out)
    facts.number(
      "upstream_status", record.answer.upstreamStatus > 0 ? UInt64(record.answer.upstreamStatus) : nil, to: &out)
    facts.text("upstream_type", text.extracting(record.text.upstreamType), to: &out)
    facts.number("bytes_in", record.traffic.bytesIn, to: &out)
    facts.number("bytes_out", record.traffic.bytesOut, to: &out)
    facts.milliseconds("name_ms", record.times.nameMicroseconds, to: &out)
    facts.milliseconds("connect_ms", record.times.connectMicroseconds, to: &out)
    facts.milliseconds("tls_ms", record.times.tlsMicroseconds, to: &out)
    facts.milliseconds("first_byte_ms", record.times.firstByteMicroseconds, to: &out)
    facts.milliseconds("total_ms", max(0, totalMicroseconds), to: &out)
  }

  private func writeRequest(
    _ record: borrowing ExchangeRecord, _ facts: some FactWriter, text: Span<UInt8>, to out: inout ByteBuffer
  ) {
    facts.reference("ref", record.reference, to: &out)
    facts.address("client", client, isBare: true, to: &out)
    facts.text("method", text.extracting(record.text.method), isBare: true, to: &out)
    facts.text("target", text.extracting(record.text.target), isBare: true, to: &out)
  }

  private func writeDecision(
    _ record: borrowing ExchangeRecord, _ facts: some FactWriter, to out: inout ByteBuffer
  ) {
    facts.wire("protocol", record.sender.wire, to: &out)
    if let client = record.sender.client, client.user == nil {
      facts.word("user", "\(client.userID)", to: &out)
    } else {
      facts.word("user", record.sender.client?.user, to: &out)
    }
    facts.word("unit", record.sender.client?.unit, to: &out)
    facts.word("program", record.sender.program, to: &out)
    facts.word("proxy_user", record.sender.proxyUser, to: &out)
    facts.word("rule", rule, to: &out)
    facts.word("place", place, to: &out)
    facts.token("decision", record.ruled.decision?.verdict.rawValue, to: &out)
    facts.token("reason", record.ruled.decision?.reason.rawValue, to: &out)
    facts.word("answered_by", record.ruled.answeredBy, to: &out)
  }
}

extension AccessLine {
  /// `policy`: the one that decided, with the rule that the record names.
  init(
    of record: borrowing ExchangeRecord, rule: String?, by policy: Policy, client: SocketAddress,
    totalMicroseconds: Int64
  ) {
    self.init(
      rule: rule, client: client, totalMicroseconds: totalMicroseconds,
      place: record.ruled.decision?.rule.map { policy.rules[$0].place },
      // Pins mean something only for a certificate that was checked.
      pins: record.way.assurance == nil
        ? nil : record.ruled.decision.flatMap { policy.security(of: $0).settings.pinSet?.name })
  }
}

extension ByteBuffer {
  /// RFC 3339, UTC, with milliseconds.
  mutating func appendTimestamp(_ wallMilliseconds: Int64) {
    CalendarTime(secondsSince1970: wallMilliseconds / 1000).writeRFC3339(to: &self)
    appendPlaces(ofThousandth: UInt64(wallMilliseconds % 1000))
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
