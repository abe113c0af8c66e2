// Writes parameters as compact JSON (RFC 8259).
//
// Strings are escaped only where the grammar requires it. NSJSONSerialization also writes `/` as `\/`, which means the
// same and is not done here. Empty containers are written, because JSON can represent them. How it is tested:
// JSONWritingTests.

import Bytes

/// Writes parameters as JSON texts.
public enum JSONWriting {
  /// The most nested arrays and dictionaries in a value. Writing is recursive, so the creator of a value must refuse
  /// more. It is also the default of `limits.json_depth`.
  public static let deepestNesting = 512

  /// Appends `value`. A byte that is not part of a UTF-8 sequence is written as U+FFFD. If that can occur, check
  /// `isUTF8` first.
  public static func write(_ value: ParameterValue, to out: inout ByteBuffer) {
    switch value {
    case .string(let text): write(string: text.span, to: &out)
    case .integer(let number): write(number, to: &out)
    case .real(let number): write(number, to: &out)
    case .boolean(let boolean): out.append(boolean ? "true" : "false")
    case .array(let elements):
      out.append(0x5b)
      for (index, element) in elements.enumerated() {
        if index > 0 { out.append(0x2c) }
        write(element, to: &out)
      }
      out.append(0x5d)
    case .dictionary(let entries): write(entries, to: &out)
    }
  }

  /// Appends an object with `entries`, in their order.
  public static func write(_ entries: [ParameterEntry], to out: inout ByteBuffer) {
    out.append(0x7b)
    for (index, entry) in entries.enumerated() {
      if index > 0 { out.append(0x2c) }
      writeMember(entry, to: &out)
    }
    out.append(0x7d)
  }

  static func writeMember(_ entry: ParameterEntry, to out: inout ByteBuffer) {
    write(string: entry.key.span, to: &out)
    out.append(0x3a)
    write(entry.value, to: &out)
  }

  /// Whether `bytes` are strictly valid UTF-8 (RFC 3629).
  public static func isUTF8(_ bytes: Span<UInt8>) -> Bool { bytes.firstNotUTF8() == nil }

  private static func write(_ number: Int64, to out: inout ByteBuffer) {
    if number < 0 { out.append(0x2d) }
    out.append(decimal: number.magnitude)
  }

  /// The shortest decimal that reads back as the same number, without a trailing `.0`. Swift's description of a finite
  /// number is valid JSON: digits on both sides of the point, and an exponent with its sign.
  private static func write(_ number: Double, to out: inout ByteBuffer) {
    precondition(number.isFinite, "JSON has no such number")
    let text = number.description
    out.append(text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
  }

  /// Copies characters that need no escape in runs.
  private static func write(string text: Span<UInt8>, to out: inout ByteBuffer) {
    out.append(0x22)
    var copied = 0
    var at = text.firstNotPlain(from: 0)
    while at < text.count {
      if text[at] >= 0x80, let length = text.sequenceLength(at: at) {
        at += length
      } else {
        out.append(text.extracting(copied..<at))
        writeEscape(text[at], to: &out)
        at += 1
        copied = at
      }
      at = text.firstNotPlain(from: at)
    }
    out.append(text.extracting(copied..<at))
    out.append(0x22)
  }

  private static func writeEscape(_ byte: UInt8, to out: inout ByteBuffer) {
    switch byte {
    case 0x22: out.append("\\\"")
    case 0x5c: out.append("\\\\")
    case 0x08: out.append("\\b")
    case 0x0c: out.append("\\f")
    case 0x0a: out.append("\\n")
    case 0x0d: out.append("\\r")
    case 0x09: out.append("\\t")
    case 0x80...: out.append("\u{fffd}" as StaticString)
    default:
      out.append(byte < 0x10 ? "\\u000" : "\\u00")
      out.append(hexadecimal: UInt64(byte))
    }
  }
}
