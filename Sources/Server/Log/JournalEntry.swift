// Entries of the journal as bytes: how loops hand them over with all other log output, and how the thread that writes
// the log finds their fields.
//
// The format is the journal's own export format: a line `FIELD=value` for each field, and an empty line after the last.
// No value contains a line feed: rule names, methods and targets were parsed, addresses and numbers are written here,
// and messages are cleaned. Tests: JournalEntryTests.

import Bytes
import HTTP1
import Policy
import Session
import Transport

/// How severe an entry is, as syslog numbers it.
enum JournalPriority: UInt8 {
  case error = 3
  case warning = 4
  /// A request that failed or was refused. A warning calls for an operator; a policy at work does not.
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

  /// Puts the fields of the next entry of `bytes`, without their line feeds, into `fields`; false if there is none.
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
  /// An entry that is not about a request. `message` may contain anything.
  mutating func append(journal message: String, _ priority: JournalPriority) {
    append("MESSAGE=")
    append(printable: message)
    append("\nPRIORITY=")
    append(priority.digit)
    append("\n\n")
  }

  /// The text with a space in place of each control character.
  mutating func append(printable text: String) {
    for byte in text.utf8 { append(byte < 0x20 || byte == 0x7f ? 0x20 : byte) }
  }
}

extension AccessLine {
  /// The line of the text form, then the fields that requests are searched by.
  func writeJournal(_ record: borrowing ExchangeRecord, _ text: Span<UInt8>, to out: inout ByteBuffer) {
    out.append("MESSAGE=")
    write(record, TextFacts(), text: text, to: &out)
    out.append("\nPRIORITY=")
    out.append(Self.priority(of: record).digit)
    out.append("\n")
    write(record, JournalFacts(), text: text, to: &out)
    writeHost(text.extracting(record.text.target), &out)
    out.append("\n")
  }

  private static func priority(of record: borrowing ExchangeRecord) -> JournalPriority {
    record.outcome.token == nil && record.found.report == nil && record.answer.violation == nil ? .information : .notice
  }

  /// Only the host: the journal compares values byte by byte.
  private func writeHost(_ target: Span<UInt8>, _ out: inout ByteBuffer) {
    let host = Self.host(in: target)
    if host.isEmpty { return }
    out.append("SALLYPORT_HOST=")
    for index in host {
      let byte = target[index]
      out.append(byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte)
    }
    out.append("\n")
  }

  /// The range of the host in `host:port` or `scheme://host:port/path`, an IPv6 address without its brackets.
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
}
