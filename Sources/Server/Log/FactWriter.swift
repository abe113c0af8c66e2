// How the facts of an exchange are written: as members of a JSON object, as words of a line for people, as fields of
// the journal, and as values for events. A name is the same in all four.

import Bytes
import HTTP1
import Policy
import Session
import Transport

/// Writes one fact after the other. `isBare`: a person understands it without its name.
protocol FactWriter {
  func reference(_ name: StaticString, _ value: Reference, to out: inout ByteBuffer)
  func address(_ name: StaticString, _ value: SocketAddress?, isBare: Bool, to out: inout ByteBuffer)
  /// Bytes of a message, printable ASCII because it was parsed; empty: there are none.
  func text(_ name: StaticString, _ value: Span<UInt8>, isBare: Bool, to out: inout ByteBuffer)
  func word(_ name: StaticString, _ value: String?, to out: inout ByteBuffer)
  /// A word that needs no escapes.
  func word(_ name: StaticString, _ value: StaticString?, to out: inout ByteBuffer)
  /// The same, where the word is a raw value.
  func token(_ name: StaticString, _ value: String?, to out: inout ByteBuffer)
  func wire(_ name: StaticString, _ value: HTTPProtocol?, to out: inout ByteBuffer)
  func number(_ name: StaticString, _ value: UInt64?, isBare: Bool, to out: inout ByteBuffer)
  /// How long something took, in microseconds, as milliseconds with three places; negative: it did not happen.
  func milliseconds(_ name: StaticString, _ microseconds: Int64, to out: inout ByteBuffer)
  func truth(_ name: StaticString, _ value: Bool, to out: inout ByteBuffer)
}

extension FactWriter {
  func token(_ name: StaticString, _ value: String?, to out: inout ByteBuffer) { word(name, value, to: &out) }

  func wire(_ name: StaticString, _ value: HTTPProtocol?, to out: inout ByteBuffer) {
    token(name, value?.rawValue, to: &out)
  }

  func address(_ name: StaticString, _ value: SocketAddress?, to out: inout ByteBuffer) {
    address(name, value, isBare: false, to: &out)
  }

  func text(_ name: StaticString, _ value: Span<UInt8>, to out: inout ByteBuffer) {
    text(name, value, isBare: false, to: &out)
  }

  func number(_ name: StaticString, _ value: UInt64?, to out: inout ByteBuffer) {
    number(name, value, isBare: false, to: &out)
  }
}

/// Members after others of a JSON object.
struct JSONFacts: FactWriter {
  /// Whether missing values are null. A reader of the API always gets all members. A line of the log leaves them out,
  /// or half of it would be nulls.
  let writesNulls: Bool

  private func begin(_ name: StaticString, _ out: inout ByteBuffer) {
    out.append(member: name)
  }

  private func absent(_ name: StaticString, _ out: inout ByteBuffer) {
    if !writesNulls { return }
    begin(name, &out)
    out.append("null")
  }

  func reference(_ name: StaticString, _ value: Reference, to out: inout ByteBuffer) {
    begin(name, &out)
    out.append(0x22)
    value.write(to: &out)
    out.append(0x22)
  }

  func address(_ name: StaticString, _ value: SocketAddress?, isBare: Bool, to out: inout ByteBuffer) {
    guard let value else { return absent(name, &out) }
    begin(name, &out)
    out.append(0x22)
    out.append(value)
    out.append(0x22)
  }

  func text(_ name: StaticString, _ value: Span<UInt8>, isBare: Bool, to out: inout ByteBuffer) {
    if value.isEmpty { return absent(name, &out) }
    begin(name, &out)
    out.append(json: value)
  }

  func word(_ name: StaticString, _ value: String?, to out: inout ByteBuffer) {
    guard let value else { return absent(name, &out) }
    begin(name, &out)
    out.append(json: value)
  }

  func word(_ name: StaticString, _ value: StaticString?, to out: inout ByteBuffer) {
    guard let value else { return absent(name, &out) }
    begin(name, &out)
    out.append(0x22)
    out.append(value)
    out.append(0x22)
  }

  func token(_ name: StaticString, _ value: String?, to out: inout ByteBuffer) {
    guard let value else { return absent(name, &out) }
    begin(name, &out)
    out.append(0x22)
    out.append(value.utf8.span)
    out.append(0x22)
  }

  func number(_ name: StaticString, _ value: UInt64?, isBare: Bool, to out: inout ByteBuffer) {
    guard let value else { return absent(name, &out) }
    begin(name, &out)
    out.append(decimal: value)
  }

  func milliseconds(_ name: StaticString, _ microseconds: Int64, to out: inout ByteBuffer) {
    if microseconds < 0 { return absent(name, &out) }
    begin(name, &out)
    out.append(thousandths: UInt64(microseconds))
  }

  func truth(_ name: StaticString, _ value: Bool, to out: inout ByteBuffer) {
    begin(name, &out)
    out.append(value ? "true" : "false")
  }
}

/// The facts as values, null where there is none, for an event that is written once it leaves. `out` stays empty.
final class FactValues: FactWriter {
  private(set) var members: [(String, JSONText)] = []

  private func add(_ name: StaticString, _ value: JSONText?) { members.append((name.description, value ?? .null)) }

  func reference(_ name: StaticString, _ value: Reference, to out: inout ByteBuffer) { add(name, .string(value.text)) }

  func address(_ name: StaticString, _ value: SocketAddress?, isBare: Bool, to out: inout ByteBuffer) {
    add(name, value.map { .string(AdminResources.text($0)) })
  }

  func text(_ name: StaticString, _ value: Span<UInt8>, isBare: Bool, to out: inout ByteBuffer) {
    add(name, value.isEmpty ? nil : .string(value.asciiString))
  }

  func word(_ name: StaticString, _ value: String?, to out: inout ByteBuffer) { add(name, value.map { .string($0) }) }

  func word(_ name: StaticString, _ value: StaticString?, to out: inout ByteBuffer) {
    add(name, value.map { .string($0.description) })
  }

  func number(_ name: StaticString, _ value: UInt64?, isBare: Bool, to out: inout ByteBuffer) {
    add(name, value.map { .number(Int(clamping: $0)) })
  }

  func milliseconds(_ name: StaticString, _ microseconds: Int64, to out: inout ByteBuffer) {
    add(name, microseconds < 0 ? nil : .thousandths(microseconds))
  }

  func truth(_ name: StaticString, _ value: Bool, to out: inout ByteBuffer) { add(name, .boolean(value)) }
}

/// `name=value` after a space, except that the reference comes first, and missing values are left out. A value that has
/// more than printable ASCII, or could be taken for another fact, is quoted.
struct TextFacts: FactWriter {
  private func begin(_ name: StaticString, isBare: Bool = false, _ out: inout ByteBuffer) {
    out.append(" ")
    if isBare { return }
    out.append(name)
    out.append("=")
  }

  func reference(_ name: StaticString, _ value: Reference, to out: inout ByteBuffer) {
    value.write(to: &out)
  }

  /// A person assumes HTTP/1.1.
  func wire(_ name: StaticString, _ value: HTTPProtocol?, to out: inout ByteBuffer) {
    if let value, value != .http11 { token(name, value.rawValue, to: &out) }
  }

  func address(_ name: StaticString, _ value: SocketAddress?, isBare: Bool, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, isBare: isBare, &out)
    out.append(value)
  }

  func text(_ name: StaticString, _ value: Span<UInt8>, isBare: Bool, to out: inout ByteBuffer) {
    if value.isEmpty {
      if isBare { out.append(" -") }
      return
    }
    begin(name, isBare: isBare, &out)
    // Method and target were parsed, so they are nothing else.
    if isBare || value.isPlainWord { out.append(value) } else { out.append(json: value) }
  }

  func word(_ name: StaticString, _ value: String?, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, &out)
    let bytes = value.utf8.span
    if bytes.isPlainWord { out.append(bytes) } else { out.append(json: value) }
  }

  func word(_ name: StaticString, _ value: StaticString?, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, &out)
    out.append(value)
  }

  func number(_ name: StaticString, _ value: UInt64?, isBare: Bool, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, isBare: isBare, &out)
    out.append(decimal: value)
  }

  func milliseconds(_ name: StaticString, _ microseconds: Int64, to out: inout ByteBuffer) {
    if microseconds < 0 { return }
    begin(name, &out)
    out.append(thousandths: UInt64(microseconds))
  }

  func truth(_ name: StaticString, _ value: Bool, to out: inout ByteBuffer) {
    if !value { return }
    out.append(" ")
    out.append(name)
  }
}

/// `SALLYPORT_NAME=value`, a line each, and none for a missing value.
struct JournalFacts: FactWriter {
  private func begin(_ name: StaticString, _ out: inout ByteBuffer) {
    out.append("SALLYPORT_")
    name.withUTF8Buffer { bytes in
      for byte in bytes { out.append(byte >= 0x61 && byte <= 0x7a ? byte & 0xdf : byte) }
    }
    out.append("=")
  }

  func reference(_ name: StaticString, _ value: Reference, to out: inout ByteBuffer) {
    begin(name, &out)
    value.write(to: &out)
    out.append("\n")
  }

  func address(_ name: StaticString, _ value: SocketAddress?, isBare: Bool, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, &out)
    out.append(value)
    out.append("\n")
  }

  func text(_ name: StaticString, _ value: Span<UInt8>, isBare: Bool, to out: inout ByteBuffer) {
    if value.isEmpty { return }
    begin(name, &out)
    for index in 0..<value.count { out.append(value[index] < 0x20 ? 0x20 : value[index]) }
    out.append("\n")
  }

  func word(_ name: StaticString, _ value: String?, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, &out)
    out.append(printable: value)
    out.append("\n")
  }

  func word(_ name: StaticString, _ value: StaticString?, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, &out)
    out.append(value)
    out.append("\n")
  }

  func number(_ name: StaticString, _ value: UInt64?, isBare: Bool, to out: inout ByteBuffer) {
    guard let value else { return }
    begin(name, &out)
    out.append(decimal: value)
    out.append("\n")
  }

  func milliseconds(_ name: StaticString, _ microseconds: Int64, to out: inout ByteBuffer) {
    if microseconds < 0 { return }
    begin(name, &out)
    out.append(thousandths: UInt64(microseconds))
    out.append("\n")
  }

  func truth(_ name: StaticString, _ value: Bool, to out: inout ByteBuffer) {
    if !value { return }
    begin(name, &out)
    out.append("true\n")
  }
}
