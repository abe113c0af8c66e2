// JSON texts by the letter of RFC 8259, for what the proxy writes.

public indirect enum StrictJSON: Equatable, Sendable {
  case object([String: StrictJSON])
  case array([StrictJSON])
  case string(String)
  /// As it is written.
  case number(String)
  case bool(Bool)
  case null

  /// Reads a whole text; nil where it is malformed, holds a name twice, or something stands behind it.
  public static func parse(_ bytes: [UInt8]) -> StrictJSON? {
    var reader = Reader(bytes: bytes)
    guard let value = reader.value(), reader.skipBlanks(), reader.at == bytes.count else { return nil }
    return value
  }

  public subscript(name: String) -> StrictJSON? {
    if case .object(let members) = self { return members[name] }
    return nil
  }

  private struct Reader {
    let bytes: [UInt8]
    var at = 0

    mutating func skipBlanks() -> Bool {
      while at < bytes.count, [0x20, 0x09, 0x0a, 0x0d].contains(bytes[at]) { at += 1 }
      return true
    }

    mutating func take(_ text: StaticString) -> Bool {
      let wanted = Array(text.description.utf8)
      guard bytes[at...].starts(with: wanted) else { return false }
      at += wanted.count
      return true
    }

    mutating func value() -> StrictJSON? {
      _ = skipBlanks()
      guard at < bytes.count else { return nil }
      switch bytes[at] {
      case 0x7b: return object()
      case 0x5b: return array()
      case 0x22: return string().map { .string($0) }
      case 0x74: return take("true") ? .bool(true) : nil
      case 0x66: return take("false") ? .bool(false) : nil
      case 0x6e: return take("null") ? .null : nil
      default: return number()
      }
    }

    private mutating func object() -> StrictJSON? {
      at += 1
      var members: [String: StrictJSON] = [:]
      _ = skipBlanks()
      if take("}") { return .object([:]) }
      while true {
        _ = skipBlanks()
        guard at < bytes.count, bytes[at] == 0x22, let name = string(), members[name] == nil, skipBlanks(),
          take(":"), let value = value()
        else { return nil }
        members[name] = value
        _ = skipBlanks()
        if take("}") { return .object(members) }
        guard take(",") else { return nil }
      }
    }

    private mutating func array() -> StrictJSON? {
      at += 1
      var elements: [StrictJSON] = []
      _ = skipBlanks()
      if take("]") { return .array([]) }
      while true {
        guard let value = value() else { return nil }
        elements.append(value)
        _ = skipBlanks()
        if take("]") { return .array(elements) }
        guard take(",") else { return nil }
      }
    }

    private mutating func string() -> String? {
      at += 1
      var text: [UInt8] = []
      while at < bytes.count {
        let byte = bytes[at]
        at += 1
        switch byte {
        case 0x22: return String(validating: text, as: UTF8.self)
        case 0..<0x20: return nil
        case 0x5c:
          guard let escaped = escape() else { return nil }
          text += escaped
        default: text.append(byte)
        }
      }
      return nil
    }

    private mutating func escape() -> [UInt8]? {
      guard at < bytes.count else { return nil }
      let byte = bytes[at]
      at += 1
      switch byte {
      case 0x22, 0x5c, 0x2f: return [byte]
      case 0x62: return [8]
      case 0x66: return [12]
      case 0x6e: return [10]
      case 0x72: return [13]
      case 0x74: return [9]
      case 0x75:
        guard at + 4 <= bytes.count,
          let number = UInt32(String(decoding: bytes[at..<at + 4], as: UTF8.self), radix: 16),
          let scalar = Unicode.Scalar(number)
        else { return nil }
        at += 4
        return Array(String(Character(scalar)).utf8)
      default: return nil
      }
    }

    private mutating func number() -> StrictJSON? {
      let begin = at
      if at < bytes.count, bytes[at] == 0x2d { at += 1 }
      let digits = at
      while at < bytes.count, (0x30...0x39).contains(bytes[at]) { at += 1 }
      // Integers are all that is written here; no leading zero.
      guard at > digits, bytes[digits] != 0x30 || at == digits + 1 else { return nil }
      return .number(String(decoding: bytes[begin..<at], as: UTF8.self))
    }
  }
}
