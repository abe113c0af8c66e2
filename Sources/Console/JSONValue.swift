// The JSON (RFC 8259) of the admin API as values. The daemon is trusted to be honest, but not to be brief: depth is
// limited here, bytes by AnswerReader. Tests: JSONValueTests.

public enum JSONValue: Equatable, Sendable {
  case null
  case boolean(Bool)
  case number(Double)
  case string(String)
  case array([JSONValue])
  /// In the order of the text.
  case object([Member])

  public struct Member: Equatable, Sendable {
    public let name: String
    public let value: JSONValue
  }

  /// The most nested arrays and objects: the API needs six.
  static let mostDepth = 32

  /// nil: the text is not JSON, or is nested too deeply.
  public init?(_ bytes: [UInt8]) {
    var reader = Reader(bytes: bytes)
    guard let value = reader.value(depth: 0), reader.isAtEnd else { return nil }
    self = value
  }

  /// The member of an object; null if there is none.
  public subscript(_ name: String) -> JSONValue {
    guard case .object(let members) = self else { return .null }
    return members.first { $0.name == name }?.value ?? .null
  }

  public var text: String? { if case .string(let text) = self { text } else { nil } }
  public var number: Double? { if case .number(let number) = self { number } else { nil } }
  public var truth: Bool { self == .boolean(true) }
  public var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
  public var members: [Member] { if case .object(let members) = self { members } else { [] } }

  /// A whole number; nil if it is not one, or does not fit.
  public var whole: Int64? { number.flatMap { Int64(exactly: $0) } }
  /// The whole part of a number; 0 if there is none, or it does not fit.
  var wholePart: Int64 { number.flatMap { Int64(exactly: $0.rounded(.towardZero)) } ?? 0 }

  /// In the form for a person: a string without quotation marks, and an empty text for null.
  var plain: String {
    switch self {
    case .null: ""
    case .boolean(let truth): truth ? "yes" : "no"
    case .number(let number): whole.map { "\($0)" } ?? "\(number)"
    case .string(let text): text
    case .array(let elements): elements.map(\.plain).joined(separator: ", ")
    case .object(let members): members.map { "\($0.value.plain) \($0.name)" }.joined(separator: ", ")
    }
  }
}

private struct Reader {
  let bytes: [UInt8]
  private var at = 0

  init(bytes: [UInt8]) { self.bytes = bytes }

  private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

  var isAtEnd: Bool {
    mutating get {
      skipSpace()
      return at == bytes.count
    }
  }

  private mutating func skipSpace() {
    while let byte = next, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { at += 1 }
  }

  private mutating func takes(_ byte: UInt8) -> Bool {
    skipSpace()
    guard next == byte else { return false }
    at += 1
    return true
  }

  private mutating func takes(_ word: StaticString) -> Bool {
    let count = word.utf8CodeUnitCount
    guard bytes.count - at >= count, bytes[at..<at + count].elementsEqual(word.description.utf8) else { return false }
    at += count
    return true
  }

  mutating func value(depth: Int) -> JSONValue? {
    skipSpace()
    guard depth < JSONValue.mostDepth, let byte = next else { return nil }
    switch byte {
    case UInt8(ascii: "{"): return object(depth)
    case UInt8(ascii: "["): return array(depth)
    case UInt8(ascii: "\""): return string().map { .string($0) }
    case UInt8(ascii: "t"): return takes("true") ? .boolean(true) : nil
    case UInt8(ascii: "f"): return takes("false") ? .boolean(false) : nil
    case UInt8(ascii: "n"): return takes("null") ? .null : nil
    default: return number()
    }
  }

  private mutating func object(_ depth: Int) -> JSONValue? {
    at += 1
    var members: [JSONValue.Member] = []
    if takes(UInt8(ascii: "}")) { return .object(members) }
    repeat {
      skipSpace()
      guard next == UInt8(ascii: "\""), let name = string(), takes(UInt8(ascii: ":")),
        let value = value(depth: depth + 1)
      else { return nil }
      members.append(JSONValue.Member(name: name, value: value))
    } while takes(UInt8(ascii: ","))
    return takes(UInt8(ascii: "}")) ? .object(members) : nil
  }

  private mutating func array(_ depth: Int) -> JSONValue? {
    at += 1
    var elements: [JSONValue] = []
    if takes(UInt8(ascii: "]")) { return .array(elements) }
    repeat {
      guard let value = value(depth: depth + 1) else { return nil }
      elements.append(value)
    } while takes(UInt8(ascii: ","))
    return takes(UInt8(ascii: "]")) ? .array(elements) : nil
  }

  private mutating func number() -> JSONValue? {
    let begin = at
    while let byte = next,
      (0x30...0x39).contains(byte) || byte == 0x2d || byte == 0x2b || byte == 0x2e || byte | 0x20 == 0x65
    {
      at += 1
    }
    return Double(String(decoding: bytes[begin..<at], as: UTF8.self)).map { .number($0) }
  }

  private mutating func string() -> String? {
    at += 1
    let begin = at
    while let byte = next, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") { at += 1 }
    guard let byte = next else { return nil }
    if byte == UInt8(ascii: "\"") {
      at += 1
      return String(decoding: bytes[begin..<at - 1], as: UTF8.self)
    }
    return escapedString(from: begin)
  }

  /// A string with an escape at `at`.
  private mutating func escapedString(from begin: Int) -> String? {
    var units = Array(bytes[begin..<at])
    while let byte = next {
      at += 1
      if byte == UInt8(ascii: "\"") { return String(decoding: units, as: UTF8.self) }
      guard byte == UInt8(ascii: "\\") else {
        units.append(byte)
        continue
      }
      guard let scalar = escape() else { return nil }
      units.append(contentsOf: String(scalar).utf8)
    }
    return nil
  }

  private mutating func escape() -> Unicode.Scalar? {
    guard let byte = next else { return nil }
    at += 1
    switch byte {
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{c}"
    case UInt8(ascii: "u"):
      guard let unit = hexadecimal() else { return nil }
      guard (0xd800..<0xdc00).contains(unit), takes("\\u") else { return Unicode.Scalar(unit) ?? "\u{fffd}" }
      guard let low = hexadecimal() else { return nil }
      // Half of a pair represents no character.
      guard (0xdc00..<0xe000).contains(low) else { return "\u{fffd}" }
      return Unicode.Scalar(0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00))
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
    default: return nil
    }
  }

  private mutating func hexadecimal() -> UInt32? {
    guard bytes.count - at >= 4 else { return nil }
    let digits = bytes[at..<at + 4]
    guard digits.allSatisfy({ $0 != UInt8(ascii: "+") }) else { return nil }
    at += 4
    return UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
  }
}
