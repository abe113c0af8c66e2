// Lists, names and characters of HTTP fields (RFC 9110, 5.6). Tests: FieldsTests, MediaTypeTests.

/// Walks through the elements of a comma-separated list (RFC 9110, 5.6.1); empty ones are skipped.
public struct ListElements: Sendable {
  private var at: Int
  private let end: Int

  public init(_ value: Range<Int>) {
    at = value.lowerBound
    end = value.upperBound
  }

  public mutating func next(_ bytes: Span<UInt8>) -> Range<Int>? {
    while at < end {
      let comma = bytes.extracting(at..<end).firstIndex(of: 0x2c).map { at + $0 } ?? end
      let element = bytes.trimmingBlanks(at..<comma)
      at = comma + 1
      if !element.isEmpty { return element }
    }
    return nil
  }
}

extension Span where Element == UInt8 {
  /// The range without the spaces and tabs at its ends.
  @inlinable
  public func trimmingBlanks(_ range: Range<Int>) -> Range<Int> {
    var first = range.lowerBound
    var end = range.upperBound
    while first < end, self[first].isBlank { first &+= 1 }
    while first < end, self[end &- 1].isBlank { end &-= 1 }
    return first..<end
  }

  /// The index of the first byte from `from` on that is no space or tab; `count` if all are.
  @inlinable
  public func blanksEnd(from: Int) -> Int {
    var index = from
    while index < count, self[index].isBlank { index &+= 1 }
    return index
  }

  /// Whether two ranges have the same bytes, ignoring the case of ASCII letters.
  @inlinable
  public func equalsIgnoringCase(_ left: Range<Int>, _ right: Range<Int>) -> Bool {
    guard left.count == right.count else { return false }
    for offset in 0..<left.count
    where self[left.lowerBound &+ offset].asciiLowercased != self[right.lowerBound &+ offset].asciiLowercased {
      return false
    }
    return true
  }
}

extension UInt8 {
  /// SP or HTAB.
  @inlinable public var isBlank: Bool { self == 0x20 || self == 0x09 }

  /// HTAB, SP, VCHAR or obs-text of RFC 9110, 5.5.
  @inlinable public var isFieldText: Bool { self >= 0x20 && self != 0x7f || self == 0x09 }

  /// tchar of RFC 9110, 5.6.2, as two masks of 64 bits.
  @inlinable public var isTokenCharacter: Bool {
    // ! # $ % & ' * + - . 0-9  |  A-Z ^ _ ` a-z | ~
    let low: UInt64 = 0x03ff_6cfa_0000_0000
    let high: UInt64 = 0x57ff_ffff_c7ff_fffe
    if self >= 0x80 { return false }
    return (self < 0x40 ? low >> UInt64(self) : high >> UInt64(self & 0x3f)) & 1 == 1
  }
}
