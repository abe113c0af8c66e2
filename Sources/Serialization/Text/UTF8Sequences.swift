// Strict UTF-8 (RFC 3629, 4), and a search for special bytes in a text, eight bytes at a time.
//
// Almost every text is mostly plain ASCII. Runs of it are skipped word by word, and only the rest is examined byte by
// byte. How it is tested: UTF8SequencesTests.

extension Span where Element == UInt8 {
  /// The index of the first byte from `from` on that must not be copied literally in a JSON string: a quote, a
  /// backslash, a control character (below 0x20) or a byte above ASCII; `count` if there is none.
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
      // Borrows can only cause false hits above the first true one, so the lowest set bit is exact.
      if hits != 0 { return index &+ hits.trailingZeroBitCount >> 3 }
      index &+= 8
    }
    while index < count, self[index].isPlain { index &+= 1 }
    return index
  }

  /// The index of the first byte from `from` on that is above ASCII; `count` if there is none.
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

  /// The eight bytes at `index`, the first in the lowest position.
  private func word(at index: Int) -> UInt64 {
    // Bounds are checked, and any eight bytes are an integer: this is only unsafe by name.
    unsafe UInt64(littleEndian: bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self))
  }

  /// The length of the sequence that begins at `index` with a byte above ASCII. nil if it is not valid: overlong, a
  /// surrogate, above U+10FFFF, cut short, or an unexpected continuation byte.
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

  /// The allowed second bytes of a sequence of three or four; all others are overlong, a surrogate or above U+10FFFF.
  private func secondBytes(behind lead: UInt8) -> ClosedRange<UInt8> {
    switch lead {
    case 0xe0: 0xa0...0xbf
    case 0xed: 0x80...0x9f
    case 0xf0: 0x90...0xbf
    case 0xf4: 0x80...0x8f
    default: 0x80...0xbf
    }
  }

  /// The index of the first byte that is not part of a UTF-8 sequence; nil if all is UTF-8.
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
  /// ASCII that needs no escape in a JSON string.
  fileprivate var isPlain: Bool { self >= 0x20 && self < 0x80 && self != 0x22 && self != 0x5c }
}
