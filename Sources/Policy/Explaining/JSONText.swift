// JSON as text, for commands with --json and for responses of the admin API: values in the order given.

/// A JSON value to be written (RFC 8259).
public enum JSONText: Sendable {
  case null
  case boolean(Bool)
  case number(Int)
  case real(Double)
  /// Thousandths, written with three places.
  case thousandths(Int64)
  case string(String)
  case array([JSONText])
  case object([(String, JSONText)])

  /// The text, with no white space except one space after each colon and comma.
  public var text: String {
    var output = ""
    write(to: &output, comma: ", ", colon: ": ")
    return output
  }

  /// The text without any white space.
  public var compactText: String {
    var output = ""
    write(to: &output, comma: ",", colon: ":")
    return output
  }

  public static func strings(_ values: [String]) -> JSONText { .array(values.map { .string($0) }) }

  private func write(to output: inout String, comma: String, colon: String) {
    switch self {
    case .null: output += "null"
    case .boolean(let value): output += value ? "true" : "false"
    case .number(let value): output += String(value)
    case .real(let value): output += String(describing: value)
    case .thousandths(let value):
      let places = String(value.magnitude % 1000)
      output += "\(value < 0 ? "-" : "")\(value.magnitude / 1000)."
      output += String(repeating: "0", count: 3 - places.utf8.count) + places
    case .string(let value): Self.write(value, to: &output)
    case .array(let values):
      output += "["
      for (index, value) in values.enumerated() {
        if index > 0 { output += comma }
        value.write(to: &output, comma: comma, colon: colon)
      }
      output += "]"
    case .object(let members):
      output += "{"
      for (index, member) in members.enumerated() {
        if index > 0 { output += comma }
        Self.write(member.0, to: &output)
        output += colon
        member.1.write(to: &output, comma: comma, colon: colon)
      }
      output += "}"
    }
  }

  private static func write(_ value: String, to output: inout String) {
    output += "\""
    for scalar in value.unicodeScalars {
      switch scalar {
      case "\"": output += "\\\""
      case "\\": output += "\\\\"
      default:
        if scalar.isUnprintable {
          output += scalar.escaped
        } else {
          output.unicodeScalars.append(scalar)
        }
      }
    }
    output += "\""
  }
}

extension Unicode.Scalar {
  /// Whether a terminal would obey the character instead of showing it: C0, DEL, C1, and characters that change the
  /// writing direction or break lines.
  public var isUnprintable: Bool {
    switch value {
    case 0..<0x20, 0x7f..<0xa0: true
    case 0x061c, 0x200b...0x200f, 0x2028...0x202e, 0x2060...0x206f, 0xfeff: true
    default: false
    }
  }

  /// `\n`, `\r`, `\t` or `\uXXXX`: TOML and JSON read all four.
  public var escaped: String {
    switch self {
    case "\n": return "\\n"
    case "\r": return "\\r"
    case "\t": return "\\t"
    default:
      let digits = String(value, radix: 16)
      return "\\u" + String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
    }
  }
}

extension String {
  /// The text, with every character escaped that a terminal would obey.
  public var printable: String {
    if utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) { return self }
    var output = ""
    for scalar in unicodeScalars {
      if scalar.isUnprintable {
        output += scalar.escaped
      } else {
        output.unicodeScalars.append(scalar)
      }
    }
    return output
  }

  /// The text in apostrophes for a diagnostic, shortened if it is too long for a line.
  var quoted: String {
    let longest = 100
    var scalars = unicodeScalars.prefix(longest + 1)
    if scalars.count <= longest { return "'\(self)'" }
    scalars.removeLast()
    return "'\(String(scalars))…'"
  }
}
