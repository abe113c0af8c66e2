// Searches and compares bytes in a span, eight at a time where that pays.

extension Span where Element == UInt8 {
  /// The index of the first byte from `from` on that is a control character (below 0x20, or DEL); `count` if there is
  /// none.
  @inlinable
  public func firstControl(from: Int) -> Int {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let highs: UInt64 = 0x8080_8080_8080_8080
    var index = from
    while index &+ 8 <= count {
      let word = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
      let belowSpace = (word &- ones &* 0x20) & ~word & highs
      let delete = word ^ (ones &* 0x7f)
      let isDelete = (delete &- ones) & ~delete & highs
      // Borrows can only cause false hits above the first true one, so the lowest set bit is exact.
      let hits = belowSpace | isDelete
      if hits != 0 { return index &+ hits.trailingZeroBitCount >> 3 }
      index &+= 8
    }
    while index < count {
      let byte = self[index]
      if byte < 0x20 || byte == 0x7f { return index }
      index &+= 1
    }
    return index
  }

  /// The index of the first byte from `from` on that must be escaped in a JSON string (RFC 8259, 7), or that is DEL or
  /// above, which some programs do not show; `count` if there is none.
  public func firstJSONEscape(from: Int) -> Int { firstUnusual(from: from, below: 0x20) }

  /// Whether a reader of a line sees it completely and as one word: no blank, no quotation mark or backslash, only
  /// printable ASCII.
  public var isPlainWord: Bool { !isEmpty && firstUnusual(from: 0, below: 0x21) == count }

  /// The index of the first byte that is below `least`, is DEL or above, or is a quotation mark or a backslash.
  @inline(__always)
  private func firstUnusual(from: Int, below least: UInt8) -> Int {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let highs: UInt64 = 0x8080_8080_8080_8080
    var index = from
    while index &+ 8 <= count {
      let word = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
      let quote = word ^ (ones &* 0x22)
      let backslash = word ^ (ones &* 0x5c)
      let delete = word ^ (ones &* 0x7f)
      let unusual =
        (word &- ones &* UInt64(least)) | (quote &- ones) | (backslash &- ones) | (delete &- ones) | word
      if unusual & highs != 0 { break }
      index &+= 8
    }
    while index < count {
      let byte = self[index]
      if byte < least || byte >= 0x7f || byte == 0x22 || byte == 0x5c { return index }
      index &+= 1
    }
    return index
  }

  /// The index of the first `byte` from `from` on.
  @inlinable
  public func firstIndex(of byte: UInt8, from: Int = 0) -> Int? {
    var index = from
    while index < count {
      if self[index] == byte { return index }
      index &+= 1
    }
    return nil
  }

  /// Whether the bytes of `range` are those of `lowercase`, ignoring the case of ASCII letters.
  @inlinable
  public func equals(_ range: Range<Int>, ignoringCase lowercase: StaticString) -> Bool {
    guard range.count == lowercase.utf8CodeUnitCount else { return false }
    var index = 0
    while index < range.count {
      if unsafe self[range.lowerBound &+ index].asciiLowercased != lowercase.utf8Start[index] { return false }
      index &+= 1
    }
    return true
  }

  /// Whether the bytes of `range` are those of `lowercase`, ignoring the case of ASCII letters.
  @inlinable
  public func equals(_ range: Range<Int>, ignoringCase lowercase: Span<UInt8>) -> Bool {
    guard range.count == lowercase.count else { return false }
    var index = 0
    while index < range.count {
      if self[range.lowerBound &+ index].asciiLowercased != lowercase[index] { return false }
      index &+= 1
    }
    return true
  }

  /// Whether the bytes of `range` are exactly those of `text`.
  @inlinable
  public func equals(_ range: Range<Int>, _ text: StaticString) -> Bool {
    guard range.count == text.utf8CodeUnitCount else { return false }
    var index = 0
    while index < range.count {
      if unsafe self[range.lowerBound &+ index] != text.utf8Start[index] { return false }
      index &+= 1
    }
    return true
  }

  /// Whether both have the same bytes.
  @inlinable
  public func equals(_ other: Span<UInt8>) -> Bool {
    guard count == other.count else { return false }
    var index = 0
    while index < count {
      if self[index] != other[index] { return false }
      index &+= 1
    }
    return true
  }

  /// A copy of the bytes.
  public var array: [UInt8] {
    var array: [UInt8] = []
    array.reserveCapacity(count)
    for index in 0..<count { array.append(self[index]) }
    return array
  }

  /// The bytes as text; invalid UTF-8 is replaced.
  public var string: String { String(decoding: array, as: UTF8.self) }
}

extension UInt8 {
  @inlinable public var asciiLowercased: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }
  @inlinable public var isASCIIDigit: Bool { self &- 0x30 < 10 }
  @inlinable public var isASCIILetter: Bool { (self | 0x20) &- 0x61 < 26 }

  /// The value of a hexadecimal digit, or nil.
  @inlinable
  public var hexadecimalValue: UInt8? {
    if isASCIIDigit { return self &- 0x30 }
    let letter = (self | 0x20) &- 0x61
    return letter < 6 ? letter &+ 10 : nil
  }
}
