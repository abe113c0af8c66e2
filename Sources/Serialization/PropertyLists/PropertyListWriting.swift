// Writes parameters as an XML property list, in the layout of NSPropertyListSerialization.
// Tests: PropertyListWritingTests.

import Bytes

public enum PropertyListWriting {
  /// The most nested arrays and dictionaries below a parameter, so that the result can be read again. Three levels are
  /// added: `plist` and the root dictionary around them, and a value inside the innermost.
  static let deepestNesting = PropertyListCheck.deepestNesting - 3

  /// Appends a property list of the dictionary `parameters`, keys in their order. Check `fault(in:)` first.
  public static func write(_ parameters: [ParameterEntry], to out: inout ByteBuffer) {
    out.append("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n")
    out.append("<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" ")
    out.append("\"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n")
    writeValue(.dictionary(parameters), tabs: 0, in: .utf8, to: &out)
    out.append("\n</plist>\n")
  }

  /// What an XML property list cannot represent in `parameters`, as a clause that names the key, or nil: characters
  /// that XML 1.0 does not allow, bytes that are not UTF-8, reals that are not finite, nesting that is too deep.
  public static func fault(in parameters: [ParameterEntry]) -> String? { fault(in: .dictionary(parameters), depth: 0) }

  /// How characters beyond ASCII are written.
  enum Text {
    case utf8
    /// As references, which work in any encoding.
    case references
  }

  /// A key and its value, each followed by a line feed.
  static func writeMember(_ entry: ParameterEntry, tabs: Int, in text: Text, to out: inout ByteBuffer) {
    writeTabs(tabs, to: &out)
    writeElement("key", entry.key, in: text, to: &out)
    out.append(lineFeed)
    writeTabs(tabs, to: &out)
    writeValue(entry.value, tabs: tabs, in: text, to: &out)
    out.append(lineFeed)
  }

  /// The element of a value, without white space around it. `tabs` are put before each line after the first.
  static func writeValue(_ value: ParameterValue, tabs: Int, in text: Text, to out: inout ByteBuffer) {
    switch value {
    case .string(let string): writeElement("string", string, in: text, to: &out)
    case .integer(let integer): writeElement("integer", Array(String(integer).utf8), in: text, to: &out)
    case .real(let real): writeElement("real", digits(of: real), in: text, to: &out)
    case .boolean(let boolean): out.append(boolean ? "<true/>" : "<false/>")
    case .array([]): out.append("<array/>")
    case .array(let elements):
      out.append("<array>\n")
      for element in elements {
        writeTabs(tabs + 1, to: &out)
        writeValue(element, tabs: tabs + 1, in: text, to: &out)
        out.append(lineFeed)
      }
      writeTabs(tabs, to: &out)
      out.append("</array>")
    case .dictionary([]): out.append("<dict/>")
    case .dictionary(let entries):
      out.append("<dict>\n")
      for entry in entries { writeMember(entry, tabs: tabs + 1, in: text, to: &out) }
      writeTabs(tabs, to: &out)
      out.append("</dict>")
    }
  }

  // MARK: Pieces

  private static let lineFeed: UInt8 = 0x0a

  private static func writeTabs(_ count: Int, to out: inout ByteBuffer) {
    for _ in 0..<count { out.append(0x09) }
  }

  private static func writeElement(_ name: StaticString, _ content: [UInt8], in text: Text, to out: inout ByteBuffer) {
    out.append("<")
    out.append(name)
    out.append(">")
    switch text {
    case .utf8: for byte in content { writeCharacter(byte, to: &out) }
    case .references:
      for scalar in String(decoding: content, as: UTF8.self).unicodeScalars {
        if scalar.isASCII { writeCharacter(UInt8(scalar.value), to: &out) } else { writeReference(scalar, to: &out) }
      }
    }
    out.append("</")
    out.append(name)
    out.append(">")
  }

  private static func writeCharacter(_ byte: UInt8, to out: inout ByteBuffer) {
    switch byte {
    case UInt8(ascii: "&"): out.append("&amp;")
    case UInt8(ascii: "<"): out.append("&lt;")
    case UInt8(ascii: ">"): out.append("&gt;")
    // A reader treats a bare CR as a line end, and makes it a line feed (XML 1.0, 2.11).
    case 0x0d: out.append("&#13;")
    default: out.append(byte)
    }
  }

  private static func writeReference(_ scalar: Unicode.Scalar, to out: inout ByteBuffer) {
    out.append("&#")
    out.append(decimal: UInt64(scalar.value))
    out.append(";")
  }

  /// The shortest decimal that reads back as `real`; for a whole number only its digits.
  private static func digits(of real: Double) -> [UInt8] {
    let digits = Array(String(real).utf8)
    return digits.ends(with: ".0") ? digits.dropLast(2) : digits
  }

  // MARK: What cannot be written

  private static func fault(in value: ParameterValue, depth: Int) -> String? {
    switch value {
    case .string(let text): return faultOfText(text)
    case .real(let real): return real.isFinite ? nil : "expected a real number that is finite, found \(real)"
    case .integer, .boolean: return nil
    case .array(let elements):
      if depth > deepestNesting { return tooDeep }
      for element in elements {
        if let fault = fault(in: element, depth: depth + 1) { return fault }
      }
      return nil
    case .dictionary(let entries):
      if depth > deepestNesting { return tooDeep }
      for entry in entries {
        if let fault = faultOfText(entry.key) ?? fault(in: entry.value, depth: depth + 1) {
          return depth == 0 ? "'\(FaultWords.quoted(entry.key.span))': \(fault)" : fault
        }
      }
      return nil
    }
  }

  private static let tooDeep =
    "expected at most \(deepestNesting) arrays and dictionaries inside one another, found more"

  /// Production 2 of XML 1.0.
  private static func faultOfText(_ text: [UInt8]) -> String? {
    guard let scalars = try? UTF8Span(validating: text.span) else { return "expected UTF-8, found other bytes" }
    var iterator = scalars.makeUnicodeScalarIterator()
    while let scalar = iterator.next() {
      switch scalar.value {
      case 0x09, 0x0a, 0x0d, 0x20...0xfffd, 0x10000...: continue
      default: return "expected characters that XML can carry, found U+\(hexadecimal(scalar))"
      }
    }
    return nil
  }

  private static func hexadecimal(_ scalar: Unicode.Scalar) -> String {
    let digits = String(scalar.value, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, 4 - digits.utf8.count)) + digits
  }
}

extension [UInt8] {
  fileprivate func ends(with suffix: StaticString) -> Bool {
    count >= suffix.utf8CodeUnitCount && span.equals(count - suffix.utf8CodeUnitCount..<count, suffix)
  }
}
