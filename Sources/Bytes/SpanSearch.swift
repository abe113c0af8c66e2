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

  /// The index of the first byte from `from` on that is not a tchar (RFC 9110, 5.6.2); `count` if all are. Letters,
  /// digits and hyphens, of which names consist, are recognised eight at a time.
  public func tokenEnd(from: Int) -> Int {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let highs: UInt64 = 0x8080_8080_8080_8080
    var index = from
    while true {
      while index &+ 8 <= count {
        let word = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self).littleEndian
        // Each sum carries into the highest bit of its own byte, and no further.
        let seven = word & ~highs
        let folded = seven | ones &* 0x20
        let letter = (folded &+ ones &* (0x80 - 0x61)) & ~(folded &+ ones &* (0x7f - 0x7a))
        let digit = (seven &+ ones &* (0x80 - 0x30)) & ~(seven &+ ones &* (0x7f - 0x39))
        let hyphen = ~((seven ^ ones &* 0x2d) &+ ones &* 0x7f)
        let others = (~(letter | digit | hyphen) | word) & highs
        if others != 0 {
          index &+= others.trailingZeroBitCount >> 3
          break
        }
        index &+= 8
      }
      if index >= count || !self[index].isTokenCharacter { return index }
      index &+= 1
    }
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
    let text = unsafe extracting(range).bytes
    let other = unsafe UnsafeRawPointer(lowercase.utf8Start)
    var index = 0
    while range.count >= 8 {
      let word = unsafe text.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
      if unsafe word.asciiLowercased != other.loadUnaligned(fromByteOffset: index, as: UInt64.self) { return false }
      if index == range.count &- 8 { return true }
      // The last word may overlap the one before.
      index = min(index &+ 8, range.count &- 8)
    }
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

  /// Whether `text` is at `index`.
  @inlinable
  public func holds(_ text: Span<UInt8>, at index: Int) -> Bool {
    guard count - index >= text.count else { return false }
    return extracting(index..<index + text.count).equals(text)
  }

  /// Whether `text` is at `index`.
  @inlinable
  public func holds(_ text: StaticString, at index: Int) -> Bool {
    guard count - index >= text.utf8CodeUnitCount else { return false }
    return equals(index..<index + text.utf8CodeUnitCount, text)
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

  /// Whether there is an ASCII letter in upper case.
  public var hasUppercase: Bool {
    var index = 0
    while index &+ 8 <= count {
      let word = unsafe bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
      if word.asciiLowercased != word { return true }
      index &+= 8
    }
    while index < count {
      if self[index].asciiLowercased != self[index] { return true }
      index &+= 1
    }
    return false
  }

  /// A copy of the bytes.
  public var array: [UInt8] {
    var array: [UInt8] = []
    array.reserveCapacity(count)
    for index in 0..<count { array.append(self[index]) }
    return array
  }

  /// ASCII as text; each other byte is replaced.
  public var asciiString: String {
    String(decoding: array.map { $0 < 0x80 ? UInt16($0) : 0xfffd }, as: UTF16.self)
  }

  /// The bytes as text; invalid UTF-8 is replaced.
  public var string: String { String(decoding: array, as: UTF8.self) }
}

extension UInt64 {
  /// Eight bytes, with ASCII letters in lower case.
  @inlinable
  public var asciiLowercased: UInt64 {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let highs: UInt64 = 0x8080_8080_8080_8080
    let seven = self & ~highs
    let upper = (seven &+ ones &* (0x80 - 0x41)) & ~(seven &+ ones &* (0x7f - 0x5a)) & ~self & highs
    return self | upper >> 2
  }
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
