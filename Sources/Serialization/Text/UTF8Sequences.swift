// UTF-8 by the letter of RFC 3629, 4, and the search for what stands out in a text, eight bytes at a time.
//
// Nearly every text is mostly plain ASCII: runs of it are passed over by the word, and only what is left is looked at
// byte by byte. How it is tested: UTF8SequencesTests.

extension Span where Element == UInt8 {
  /// Index of the first byte at or behind `from` that does not stand for itself in a JSON string: a quote, a
  /// backslash, a control character (below 0x20) or a byte above ASCII; `count` where there is none.
  func firstNotPlain(from: Int) -> Int {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let highs: UInt64 = 0x8080_8080_8080_8080
    var index = from
    while index &+ 8 <= count {
      let word = word(at: index)
      let control = word &- ones &* 0x20
      let quote = (word ^ ones &* 0x22) &- ones
      let backslash = (word ^ ones &* 0x5c) &- ones
      let hits = (control | quote | backslash | word) & highs
      // Borrows can only raise false alarms above the first true one, so the lowest set bit is exact.
      if hits != 0 { return index &+ hits.trailingZeroBitCount >> 3 }
      index &+= 8
    }
    while index < count, self[index].isPlain { index &+= 1 }
    return index
  }

  /// Index of the first byte at or behind `from` that is above ASCII; `count` where there is none.
  func firstNotASCII(from: Int) -> Int {
    var index = from
    while index &+ 8 <= count {
      let word = word(at: index)
      let hits = word & 0x8080_8080_8080_8080
      if hits != 0 { return index &+ hits.trailingZeroBitCount >> 3 }
      index &+= 8
    }
    while index < count, self[index] < 0x80 { index &+= 1 }
    return index
  }

  /// The eight bytes at `index`, the first of them lowest.
  private func word(at index: Int) -> UInt64 {
    // Bounds are checked, and any eight bytes are an integer: unsafe by name only.
    unsafe UInt64(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self))
  }

  /// Bytes of the sequence that begins at `index` with a byte above ASCII; nil where there is no whole one: overlong, a
  /// surrogate, above U+10FFFF, cut short, or a continuation that continues nothing.
  func sequenceLength(at index: Int) -> Int? {
    let lead = self[index]
    if lead < 0xe0 {
      return lead >= 0xc2 && isContinuation(at: index &+ 1) ? 2 : nil
    }
    guard lead < 0xf5, index &+ 1 < count, secondBytes(behind: lead).contains(self[index &+ 1]),
      isContinuation(at: index &+ 2)
    else { return nil }
    if lead < 0xf0 { return 3 }
    return isContinuation(at: index &+ 3) ? 4 : nil
  }

  private func isContinuation(at index: Int) -> Bool { index < count && self[index] & 0xc0 == 0x80 }

  /// What may follow a byte that leads three or four: all else is overlong, a surrogate or above U+10FFFF.
  private func secondBytes(behind lead: UInt8) -> ClosedRange<UInt8> {
    switch lead {
    case 0xe0: 0xa0...0xbf
    case 0xed: 0x80...0x9f
    case 0xf0: 0x90...0xbf
    case 0xf4: 0x80...0x8f
    default: 0x80...0xbf
    }
  }

  /// Index of the first byte that belongs to no UTF-8 sequence; nil where all is UTF-8.
  func firstNotUTF8() -> Int? {
    var index = firstNotASCII(from: 0)
    while index < count {
      guard let length = sequenceLength(at: index) else { return index }
      index &+= length
      if index < count, self[index] < 0x80 { index = firstNotASCII(from: index) }
    }
    return nil
  }
}

extension UInt8 {
  /// Stands for itself in a JSON string and is ASCII.
  var isPlain: Bool { self >= 0x20 && self < 0x80 && self != 0x22 && self != 0x5c }
}
