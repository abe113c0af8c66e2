// Entries of the journal as bytes: how loops hand them over with everything else that is logged, and how the thread that
// writes the log finds their fields again.
//
// The form is the one in which the journal itself exports entries: a line `FIELD=value` for each field and an empty line
// behind the last. No value holds a line feed: rule names, methods and targets were parsed, addresses and numbers are
// written here, and a message is cleaned. Tests: JournalEntryTests.

import Bytes
import HTTP1
import Policy
import Session
import Transport

/// How grave an entry is, as syslog numbers it.
enum JournalPriority: UInt8 {
  case error = 3
  case warning = 4
  /// A request that failed or was refused. A warning asks for an operator; a policy at work does not.
  case notice = 5
  case information = 6
  case debug = 7
}

extension JournalPriority {
  init(_ level: LogSettings.Level) {
    switch level {
    case .error: self = .error
    case .warning: self = .warning
    case .info: self = .information
    case .debug: self = .debug
    }
  }

  var digit: UInt8 { rawValue + 0x30 }
}

/// Finds entries and their fields.
struct JournalEntries {
  /// Where the next entry begins.
  private var place = 0

  /// Puts the fields of the next entry of `bytes`, without their line feeds, into `fields`; false where there is none.
  mutating func next(in bytes: Span<UInt8>, _ fields: inout [Range<Int>]) -> Bool {
    fields.removeAll(keepingCapacity: true)
    while place < bytes.count {
      let end = bytes.firstIndex(of: 0x0a, from: place) ?? bytes.count
      let field = place..<end
      place = end + 1
      if field.isEmpty { return true }
      fields.append(field)
    }
    return !fields.isEmpty
  }
}

extension ByteBuffer {
  /// An entry that is not of a request. `message` may hold anything.
  mutating func append(journal message: String, _ priority: JournalPriority) {
    append("MESSAGE=")
    append(printable: message)
    append("\nPRIORITY=")
    append(priority.digit)
    append("\n\n")
  }

  /// The text with a space in the place of each control character.
  mutating func append(printable text: String) {
    for byte in text.utf8 { append(byte < 0x20 || byte == 0x7f ? 0x20 : byte) }
  }
}

extension AccessLine {
  /// The fields by which requests are looked for, behind the line of the text form.
  func writeJournal(_ text: Span<UInt8>, _ out: inout ByteBuffer) {
    out.append("MESSAGE=")
    writeTextWithoutTime(text, &out)
    out.append("PRIORITY=")
    out.append(priority.digit)
    out.append("\nSALLYPORT_REF=")
    record.reference.write(to: &out)
    out.append("\nSALLYPORT_CLIENT=")
    out.append(client)
    out.append("\n")
    writeClientFields(&out)
    writeRequestFields(text, &out)
    if let rule { write(field: "SALLYPORT_RULE=", rule, &out) }
    if let decision = record.decision {
      write(field: "SALLYPORT_DECISION=", decision.verdict == .allow ? "allow" : "deny", &out)
      write(field: "SALLYPORT_REASON=", decision.reason.token, &out)
    }
    writeUpstreamFields(&out)
    write(field: "SALLYPORT_STATUS=", UInt64(record.status), &out)
    write(field: "SALLYPORT_BYTES_IN=", record.bytesIn, &out)
    write(field: "SALLYPORT_BYTES_OUT=", record.bytesOut, &out)
    write(field: "SALLYPORT_NAME_MS=", milliseconds: record.nameMilliseconds, &out)
    write(field: "SALLYPORT_CONNECT_MS=", milliseconds: record.connectMilliseconds, &out)
    write(field: "SALLYPORT_TLS_MS=", milliseconds: record.tlsMilliseconds, &out)
    write(field: "SALLYPORT_FIRST_BYTE_MS=", milliseconds: record.firstByteMilliseconds, &out)
    write(field: "SALLYPORT_TOTAL_MS=", milliseconds: max(0, totalMilliseconds), &out)
    if let assurance = record.assurance { write(field: "SALLYPORT_ASSURANCE=", assurance.token, &out) }
    if let report = record.report { write(field: "SALLYPORT_REPORT=", report.token, &out) }
    if let violation = record.violation { write(field: "SALLYPORT_VIOLATION=", violation.token, &out) }
    if !record.mended.isEmpty { write(field: "SALLYPORT_MENDED=", record.mended.text, &out) }
    if let token = record.outcome.token { write(field: "SALLYPORT_ERROR=", token, &out) }
    out.append("\n")
  }

  private var priority: JournalPriority {
    record.outcome.token == nil && record.report == nil && record.violation == nil ? .information : .notice
  }

  private func writeClientFields(_ out: inout ByteBuffer) {
    guard let client = record.client else { return }
    if let user = client.user {
      write(field: "SALLYPORT_USER=", user, &out)
    } else {
      write(field: "SALLYPORT_USER=", UInt64(client.userID), &out)
    }
    // Whoever may make control groups names them, but never with a line feed: the kernel forbids it.
    if let unit = client.unit { write(field: "SALLYPORT_UNIT=", unit, &out) }
  }

  private func writeUpstreamFields(_ out: inout ByteBuffer) {
    if let route = record.route { write(field: "SALLYPORT_ROUTE=", route, &out) }
    guard let upstream = record.upstream else { return }
    out.append("SALLYPORT_UPSTREAM=")
    out.append(SocketAddress(upstream, port: record.upstreamPort))
    out.append("\n")
    if record.isReused { out.append("SALLYPORT_REUSED=true\n") }
    if record.isRetried { out.append("SALLYPORT_RETRIED=true\n") }
  }

  private func writeRequestFields(_ text: Span<UInt8>, _ out: inout ByteBuffer) {
    if !record.method.isEmpty {
      out.append("SALLYPORT_METHOD=")
      out.append(text.extracting(record.method))
      out.append("\n")
    }
    let target = text.extracting(record.target)
    if target.isEmpty { return }
    out.append("SALLYPORT_TARGET=")
    out.append(target)
    out.append("\n")
    let host = Self.host(in: target)
    if host.isEmpty { return }
    out.append("SALLYPORT_HOST=")
    // The journal compares values byte by byte.
    for index in host {
      let byte = target[index]
      out.append(byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte)
    }
    out.append("\n")
  }

  /// Where the host stands in `host:port` or `scheme://host:port/path`, an IPv6 address without its brackets.
  static func host(in target: Span<UInt8>) -> Range<Int> {
    var begin = 0
    var end = target.count
    let slash = target.firstIndex(of: 0x2f)
    if let slash, slash > 0, slash + 1 < end, target[slash - 1] == 0x3a, target[slash + 1] == 0x2f {
      begin = slash + 2
      end = target.firstIndex(of: 0x2f, from: begin) ?? end
    }
    let authority = target.extracting(begin..<end)
    if authority.count > 0, authority[0] == 0x5b {
      return begin + 1..<(authority.firstIndex(of: 0x5d) ?? authority.count) + begin
    }
    return begin..<(authority.firstIndex(of: 0x3a) ?? authority.count) + begin
  }

  private func write(field name: StaticString, _ value: StaticString, _ out: inout ByteBuffer) {
    out.append(name)
    out.append(value)
    out.append("\n")
  }

  private func write(field name: StaticString, _ value: String, _ out: inout ByteBuffer) {
    out.append(name)
    out.append(value)
    out.append("\n")
  }

  /// No field where it has not been measured.
  private func write(field name: StaticString, milliseconds: Int64, _ out: inout ByteBuffer) {
    if milliseconds >= 0 { write(field: name, UInt64(milliseconds), &out) }
  }

  private func write(field name: StaticString, _ value: UInt64, _ out: inout ByteBuffer) {
    out.append(name)
    out.append(decimal: value)
    out.append("\n")
  }
}
