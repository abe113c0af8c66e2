// A field for one cache (RFC 9213): a dictionary of structured fields (RFC 9651) whose keys are the directives. A field
// that is not a dictionary, or is empty, is ignored as a whole, as the RFC requires. Tests: TargetedFieldTests.

import Bytes

enum TargetedField {
  /// nil if the field must be ignored.
  static func read(_ list: [UInt8]) -> CacheDirectives? {
    var reader = Reader(list)
    var members: [(key: [UInt8], value: Value)] = []
    reader.skip(blanksOnly: true)
    while !reader.isAtEnd {
      guard let key = reader.key() else { return nil }
      guard let value = reader.member() else { return nil }
      members.removeAll { $0.key == key }
      members.append((key, value))
      reader.skip()
      if reader.isAtEnd { break }
      guard reader.take(0x2c) else { return nil }
      reader.skip()
      if reader.isAtEnd { return nil }
    }
    if members.isEmpty { return nil }
    var directives = CacheDirectives()
    for (key, value) in members { note(String(decoding: key, as: UTF8.self), value, directives: &directives) }
    return directives
  }

  enum Value: Equatable {
    case boolean(Bool)
    case integer(Int64)
    /// A type that no directive has.
    case other
  }

  private static func note(_ key: String, _ value: Value, directives: inout CacheDirectives) {
    // A value of the wrong type counts as unreadable.
    var seconds: Int64 {
      if case .integer(let number) = value, number >= 0 { min(number, CacheDirectives.longest) } else { 0 }
    }
    // `no-store=?0` is not set. With any other value it is.
    let isSet = value != .boolean(false)
    // A directive that allows something must be exactly right.
    let isAllowed = value == .boolean(true)
    switch key {
    case "max-age": directives.maxAge = seconds
    case "s-maxage": directives.sharedMaxAge = seconds
    case "stale-while-revalidate": directives.staleWhileRevalidate = seconds
    case "stale-if-error": directives.staleIfError = seconds
    case "no-store": directives.noStore = isSet
    case "no-cache": directives.noCache = isSet
    case "private": directives.isPrivate = isSet
    case "public": directives.isPublic = isAllowed
    case "must-revalidate": if isSet { directives.revalidation = .byAll }
    case "proxy-revalidate": if isSet { directives.revalidation = max(directives.revalidation, .byProxies) }
    case "must-understand": directives.mustUnderstand = isAllowed
    default: break
    }
  }

  /// RFC 9651, 4.2, for the types that a directive may have. Other types are skipped.
  private struct Reader {
    private let bytes: [UInt8]
    private var at = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { at == bytes.count }
    private var next: UInt8? { at < bytes.count ? bytes[at] : nil }

    mutating func skip(blanksOnly: Bool = false) {
      while let byte = next, byte == 0x20 || byte == 0x09 && !blanksOnly { at += 1 }
    }

    mutating func take(_ byte: UInt8) -> Bool {
      guard next == byte else { return false }
      at += 1
      return true
    }

    mutating func key() -> [UInt8]? {
      guard let first = next, first.isLowercaseLetter || first == 0x2a else { return nil }
      let begin = at
      while let byte = next, byte.isLowercaseLetter || byte.isASCIIDigit || "_-.*".utf8.contains(byte) { at += 1 }
      return Array(bytes[begin..<at])
    }

    /// The value of a member. Its parameters mean nothing and are skipped.
    mutating func member() -> Value? {
      var value = Value.boolean(true)
      if take(0x3d) {
        guard let item = next == 0x28 ? innerList() : item() else { return nil }
        value = item
      }
      return parameters() ? value : nil
    }

    private mutating func parameters() -> Bool {
      while take(0x3b) {
        skip(blanksOnly: true)
        guard key() != nil else { return false }
        if take(0x3d), item() == nil { return false }
      }
      return true
    }

    private mutating func innerList() -> Value? {
      at += 1
      while true {
        skip(blanksOnly: true)
        if take(0x29) { return .other }
        guard item() != nil, parameters(), next == 0x20 || next == 0x29 else { return nil }
      }
    }

    private mutating func item() -> Value? {
      guard let first = next else { return nil }
      switch first {
      case 0x3f:
        at += 1
        if take(0x31) { return .boolean(true) }
        return take(0x30) ? .boolean(false) : nil
      case 0x22: return string()
      case 0x3a: return delimited(by: 0x3a)
      case 0x2d, 0x30...0x39, 0x40:
        if first == 0x40 { at += 1 }
        let number = number()
        if first != 0x40 { return number }
        guard case .integer = number else { return nil }
        return .other
      case 0x2a: return token()
      default: return first.isASCIILetter ? token() : nil
      }
    }

    private mutating func token() -> Value {
      while let byte = next, byte.isTokenCharacter || byte == 0x3a || byte == 0x2f { at += 1 }
      return .other
    }

    private mutating func string() -> Value? {
      at += 1
      while let byte = next {
        at += 1
        if byte == 0x22 { return .other }
        if byte == 0x5c {
          guard take(0x22) || take(0x5c) else { return nil }
        } else if byte < 0x20 || byte > 0x7e {
          return nil
        }
      }
      return nil
    }

    private mutating func delimited(by end: UInt8) -> Value? {
      at += 1
      while let byte = next {
        at += 1
        if byte == end { return .other }
        guard byte.isASCIILetter || byte.isASCIIDigit || "+/=".utf8.contains(byte) else { return nil }
      }
      return nil
    }

    private mutating func number() -> Value? {
      let isNegative = take(0x2d)
      var digits = 0
      var number: Int64 = 0
      while let byte = next, byte.isASCIIDigit {
        digits += 1
        if digits > 15 { return nil }
        number = number * 10 + Int64(byte & 0xf)
        at += 1
      }
      if digits == 0 { return nil }
      guard take(0x2e) else { return .integer(isNegative ? -number : number) }
      var fraction = 0
      while let byte = next, byte.isASCIIDigit {
        fraction += 1
        at += 1
      }
      return (1...3).contains(fraction) && digits <= 12 ? .other : nil
    }
  }
}

extension UInt8 {
  fileprivate var isLowercaseLetter: Bool { (0x61...0x7a).contains(self) }
}
