// Escapes in JSON strings (RFC 8259, 7): the characters that they stand for, and the comparison of keys that contain
// them.
//
// How it is tested: JSONScannerTests, JSONMergingTests.

import Bytes

/// A character written as an escape.
struct JSONEscape: Equatable {
  let scalar: Unicode.Scalar
  /// The index after the escape, or after both if a pair of surrogates stands for one character.
  let end: Int
}

extension Span where Element == UInt8 {
  /// Reads the escape whose backslash is at `index`; nil if it is not valid, or half of a pair.
  func readJSONEscape(at index: Int) -> JSONEscape? {
    guard index &+ 1 < count else { return nil }
    let letter = self[index &+ 1]
    if letter == 0x75 { return readNumericEscape(at: index) }
    guard let byte = Self.character(escapedAs: letter) else { return nil }
    return JSONEscape(scalar: Unicode.Scalar(byte), end: index &+ 2)
  }

  private static func character(escapedAs letter: UInt8) -> UInt8? {
    switch letter {
    case 0x22, 0x2f, 0x5c: letter
    case 0x62: 0x08
    case 0x66: 0x0c
    case 0x6e: 0x0a
    case 0x72: 0x0d
    case 0x74: 0x09
    default: nil
    }
  }

  private func readNumericEscape(at index: Int) -> JSONEscape? {
    guard let unit = codeUnit(at: index) else { return nil }
    if let scalar = Unicode.Scalar(unit) { return JSONEscape(scalar: scalar, end: index &+ 6) }
    guard UTF16.isLeadSurrogate(unit), let trail = codeUnit(at: index &+ 6), UTF16.isTrailSurrogate(trail) else {
      return nil
    }
    let value = 0x10000 &+ (UInt32(unit) & 0x3ff) << 10 | UInt32(trail) & 0x3ff
    return Unicode.Scalar(value).map { JSONEscape(scalar: $0, end: index &+ 12) }
  }

  /// The code unit of the `\uXXXX` at `index`.
  func codeUnit(at index: Int) -> UInt16? {
    guard index &+ 6 <= count, self[index] == 0x5c, self[index &+ 1] == 0x75 else { return nil }
    var unit: UInt16 = 0
    for offset in 2..<6 {
      guard let digit = self[index &+ offset].hexadecimalValue else { return nil }
      unit = unit << 4 | UInt16(digit)
    }
    return unit
  }

  /// Whether the valid string at `range`, including its quotes, represents the characters of `text`.
  func isJSONString(_ range: Range<Int>, of text: Span<UInt8>) -> Bool {
    let end = range.upperBound &- 1
    var at = range.lowerBound &+ 1
    var matched = 0
    while at < end {
      guard matched < text.count else { return false }
      if self[at] != 0x5c {
        guard self[at] == text[matched] else { return false }
        at &+= 1
        matched &+= 1
        continue
      }
      guard let escape = readJSONEscape(at: at) else { return false }
      for byte in escape.scalar.utf8 {
        guard matched < text.count, byte == text[matched] else { return false }
        matched &+= 1
      }
      at = escape.end
    }
    return matched == text.count
  }
}
