// Text as cells of a terminal: control characters are escaped, wide characters count as two columns, and text that does
// not fit is cut. Strangers on the network choose the names of hosts, paths and programs. Tests: GlyphsTests.

import Bytes
import Policy

public struct Glyphs: Sendable {
  /// Whether the terminal shows characters beyond ASCII.
  let isUnicode: Bool
  /// The columns of a character by wcwidth(3), so that this code and the terminal agree; negative: it is not shown.
  private let columnsOf: @Sendable (Unicode.Scalar) -> Int

  /// The most combining marks on one character. More would cover the lines above it.
  private static let mostMarks = 2

  public init(isUnicode: Bool, columnsOf: @escaping @Sendable (Unicode.Scalar) -> Int) {
    self.isUnicode = isUnicode
    self.columnsOf = columnsOf
  }

  var cut: Unicode.Scalar { isUnicode ? "…" : "~" }

  func columns(_ text: String) -> Int {
    text.utf8.allSatisfy { $0 < 0x80 } ? text.utf8.count : text.unicodeScalars.reduce(0) { $0 + max(0, columnsOf($1)) }
  }

  /// Without characters that a terminal interprets, does not show, or cannot show.
  func safe(_ text: String) -> String {
    let printable = text.printable
    if printable.utf8.allSatisfy({ $0 < 0x80 }) { return printable }
    var output = String.UnicodeScalarView()
    var marks = Self.mostMarks
    for scalar in printable.unicodeScalars {
      let columns = scalar.isASCII ? 1 : isUnicode ? columnsOf(scalar) : -1
      if columns < 0 {
        output.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
        marks = 0
      } else if columns > 0 {
        output.append(scalar)
        marks = 0
      } else if marks < Self.mostMarks {
        output.append(scalar)
        marks += 1
      }
    }
    return String(output)
  }

  /// The text, safe, in exactly this many columns: cut or padded.
  func fit(_ text: String, _ columns: Int, isRight: Bool = false) -> String {
    guard columns > 0 else { return "" }
    let text = safe(text)
    let width = self.columns(text)
    if width <= columns {
      let padding = String(repeating: " ", count: columns - width)
      return isRight ? padding + text : text + padding
    }
    var output = String.UnicodeScalarView()
    var used = 0
    for scalar in text.unicodeScalars {
      let width = scalar.isASCII ? 1 : max(0, columnsOf(scalar))
      if used + width > columns - 1 { break }
      output.append(scalar)
      used += width
    }
    output.append(cut)
    return String(output) + String(repeating: " ", count: columns - 1 - used)
  }

  /// Lines of at most this many columns, each safe. Longer lines continue in the next one; they break after a space if
  /// there is one in their second half.
  func wrap(_ text: String, _ columns: Int) -> [String] {
    var lines: [String] = []
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      var output = String.UnicodeScalarView()
      var used = 0
      for scalar in safe(String(line)).unicodeScalars {
        let width = scalar.isASCII ? 1 : max(0, columnsOf(scalar))
        if used + width > max(1, columns) {
          var rest = String.UnicodeScalarView()
          if let space = output.lastIndex(of: " "), output.distance(from: output.startIndex, to: space) * 2 > columns {
            rest.append(contentsOf: output[output.index(after: space)...])
            output.removeSubrange(space...)
          }
          lines.append(String(output))
          output = rest
          used = self.columns(String(rest))
        }
        output.append(scalar)
        used += width
      }
      lines.append(String(output))
    }
    return lines
  }
}

/// Numbers and moments in a few columns.
enum Figures {
  /// `0`, `0.4`, `12`, `1234`, `12.3k`
  static func rate(_ value: Double) -> String {
    if value <= 0 { return "0" }
    if value < 9.95 { return tenths(value) }
    if value < 10_000 { return "\(Int(value.rounded()))" }
    return value < 1e7 ? tenths(value / 1000) + "k" : tenths(value / 1e6) + "M"
  }

  static func count(_ value: Int64) -> String { value < 10_000_000 ? "\(value)" : tenths(Double(value) / 1e6) + "M" }

  /// `512 B`, `1.5 KiB`, `120 KiB`: at most eight columns.
  static func size(_ bytes: Double) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    var value = max(0, bytes)
    var unit = 0
    while value >= 1023.5, unit < units.count - 1 {
      value /= 1024
      unit += 1
    }
    return "\(unit == 0 || value >= 99.95 ? "\(Int(min(value, 999_999).rounded()))" : tenths(value)) \(units[unit])"
  }

  /// `now`, `12s`, `5m`, `3h`, `2d`
  static func age(_ milliseconds: Int64) -> String {
    let seconds = milliseconds / 1000
    return switch seconds {
    case ..<1: "now"
    case ..<100: "\(seconds)s"
    case ..<6_000: "\(seconds / 60)m"
    case ..<360_000: "\(seconds / 3_600)h"
    default: "\(min(999, seconds / 86_400))d"
    }
  }

  private static func tenths(_ value: Double) -> String {
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }

  /// Milliseconds since 1970 of `2026-11-20T15:23:56.457Z` (RFC 3339, UTC); nil if it is not such a time.
  static func moment(_ text: String?) -> Int64? {
    guard let text, text.utf8.count >= 20, text.hasSuffix("Z") else { return nil }
    let numbers = text.dropLast().split { "-T:.".contains($0) }.map { Int64($0) }
    guard numbers.count >= 6, let year = numbers[0], let month = numbers[1], let day = numbers[2],
      let hour = numbers[3],
      let minute = numbers[4], let second = numbers[5], (1...12).contains(month), (1970...9999).contains(year)
    else { return nil }
    // Days from the civil calendar, in eras of 400 years, counted from 1 March.
    let shifted = month > 2 ? year : year - 1
    let era = shifted / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    let fraction = numbers.count > 6 ? numbers[6] ?? 0 : 0
    return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + fraction
  }

  /// `15:23:56` from a time in RFC 3339.
  static func timeOfDay(_ text: String) -> String { String(text.dropFirst(11).prefix(8)) }
}
