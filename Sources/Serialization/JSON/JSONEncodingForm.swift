// The encoding of a JSON text: UTF-8 with or without a byte order mark, UTF-16 or UTF-32, as NSJSONSerialization
// accepts them. RFC 8259 only allows UTF-8 without a mark. But servers write the others, and RFC 8259, 8.1 allows a
// reader to accept a mark. Tests: JSONEncodingFormTests.

import Bytes

/// Determines the encoding by the first bytes of a text: its mark, or the positions of zero bytes, because a JSON text
/// begins with ASCII.
enum JSONEncodingForm: Equatable, Sendable {
  case utf8
  case utf8Marked
  case utf16(isBigEndian: Bool, isMarked: Bool)
  case utf32(isBigEndian: Bool, isMarked: Bool)

  init(of body: Span<UInt8>) {
    self = .utf8
    guard body.count >= 2 else { return }
    // Almost every text begins like this.
    if body[0] &- 1 < 0x7f, body[1] != 0 { return }
    if body.count >= 4 {
      switch (body[0], body[1], body[2], body[3]) {
      case (0, 0, 0xfe, 0xff): self = .utf32(isBigEndian: true, isMarked: true)
      case (0xff, 0xfe, 0, 0): self = .utf32(isBigEndian: false, isMarked: true)
      case (0, 0, 0, 1...): self = .utf32(isBigEndian: true, isMarked: false)
      case (1..., 0, 0, 0): self = .utf32(isBigEndian: false, isMarked: false)
      default: break
      }
      if self != .utf8 { return }
    }
    switch (body[0], body[1]) {
    case (0xef, 0xbb) where body.count >= 3 && body[2] == 0xbf: self = .utf8Marked
    case (0xfe, 0xff): self = .utf16(isBigEndian: true, isMarked: true)
    case (0xff, 0xfe): self = .utf16(isBigEndian: false, isMarked: true)
    case (0, 1...): self = .utf16(isBigEndian: true, isMarked: false)
    case (1..., 0): self = .utf16(isBigEndian: false, isMarked: false)
    default: break
    }
  }

  private var mark: Unicode.Scalar? {
    switch self {
    case .utf8, .utf16(_, isMarked: false), .utf32(_, isMarked: false): nil
    default: "\u{feff}"
    }
  }

  // MARK: From

  /// Appends the text in UTF-8, without its mark. Returns the first fault if it is not valid in the encoding.
  func decode(_ body: Span<UInt8>, into out: inout ByteBuffer) -> ContentFault? {
    switch self {
    case .utf8: out.append(body)
    case .utf8Marked: out.append(body.extracting(3..<body.count))
    case .utf16(let isBigEndian, let isMarked):
      return decode16(body, from: isMarked ? 2 : 0, isBigEndian: isBigEndian, into: &out)
    case .utf32(let isBigEndian, let isMarked):
      return decode32(body, from: isMarked ? 4 : 0, isBigEndian: isBigEndian, into: &out)
    }
    return nil
  }

  private func decode16(
    _ body: Span<UInt8>, from: Int, isBigEndian: Bool, into out: inout ByteBuffer
  ) -> ContentFault? {
    func unit(_ at: Int) -> UInt16 {
      let (first, second) = (UInt16(body[at]), UInt16(body[at + 1]))
      return isBigEndian ? first << 8 | second : second << 8 | first
    }
    var at = from
    while at + 1 < body.count {
      let first = unit(at)
      if let scalar = Unicode.Scalar(first) {
        out.append(scalar)
        at += 2
        continue
      }
      guard UTF16.isLeadSurrogate(first), at + 3 < body.count, UTF16.isTrailSurrogate(unit(at + 2)),
        let scalar = Unicode.Scalar(0x10000 + (UInt32(first) & 0x3ff) << 10 | UInt32(unit(at + 2)) & 0x3ff)
      else { return ContentFault("expected UTF-16, found a surrogate without its other half", offset: at) }
      out.append(scalar)
      at += 4
    }
    return at == body.count ? nil : ContentFault("expected UTF-16, found half a character at the end", offset: at)
  }

  private func decode32(
    _ body: Span<UInt8>, from: Int, isBigEndian: Bool, into out: inout ByteBuffer
  ) -> ContentFault? {
    var at = from
    while at + 3 < body.count {
      var value: UInt32 = 0
      for index in 0..<4 { value = value << 8 | UInt32(body[isBigEndian ? at + index : at + 3 - index]) }
      guard let scalar = Unicode.Scalar(value) else {
        return ContentFault("expected UTF-32, found a value that is no character", offset: at)
      }
      out.append(scalar)
      at += 4
    }
    return at == body.count ? nil : ContentFault("expected UTF-32, found a part of a character at the end", offset: at)
  }

  // MARK: To

  /// Appends a UTF-8 text in this encoding, with the original mark.
  func encode(_ text: Span<UInt8>, into out: inout ByteBuffer) {
    switch self {
    case .utf8, .utf8Marked:
      if let mark { out.append(mark) }
      out.append(text)
    case .utf16(let isBigEndian, _):
      if let mark { Self.append16(mark, isBigEndian: isBigEndian, to: &out) }
      for scalar in text.string.unicodeScalars { Self.append16(scalar, isBigEndian: isBigEndian, to: &out) }
    case .utf32(let isBigEndian, _):
      if let mark { Self.append32(mark, isBigEndian: isBigEndian, to: &out) }
      for scalar in text.string.unicodeScalars { Self.append32(scalar, isBigEndian: isBigEndian, to: &out) }
    }
  }

  private static func append16(_ scalar: Unicode.Scalar, isBigEndian: Bool, to out: inout ByteBuffer) {
    for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
      let (high, low) = (UInt8(unit >> 8), UInt8(unit & 0xff))
      out.append(isBigEndian ? high : low)
      out.append(isBigEndian ? low : high)
    }
  }

  private static func append32(_ scalar: Unicode.Scalar, isBigEndian: Bool, to out: inout ByteBuffer) {
    for index in 0..<4 as Range<UInt32> {
      let shift = 8 * (isBigEndian ? 3 - index : index)
      out.append(UInt8(truncatingIfNeeded: scalar.value >> shift))
    }
  }
}

extension ByteBuffer {
  /// Appends a character in UTF-8.
  fileprivate mutating func append(_ scalar: Unicode.Scalar) {
    if scalar.isASCII { return append(UInt8(truncatingIfNeeded: scalar.value)) }
    for byte in scalar.utf8 { append(byte) }
  }
}
