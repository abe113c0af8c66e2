// The bytes of an image, read from front to back or at an offset, never beyond an end.
//
// Every number becomes an Int. A 64-bit value that does not fit becomes Int.max, which is after the end of any body.
// Sums and products of sizes stop at Int.max for the same reason. A part of an image (a chunk, a box, an icon) gets its
// own reader that ends where the part ends. All offsets are offsets in the body.
//
// Tests: the tests of the formats, at guarded pages.

import Bytes

/// Reads integers in the byte order of a format.
struct ImageReader: ~Escapable {
  enum ByteOrder { case bigEndian, littleEndian }

  let bytes: Span<UInt8>
  /// The most pixels that an image, a frame, a page or a tile may have.
  let maximumPixels: Int
  var order = ByteOrder.bigEndian
  /// The position of the next byte; at most `end`.
  private(set) var at: Int
  /// The position after the last byte that may be read.
  let end: Int

  @_lifetime(copy bytes)
  init(_ bytes: Span<UInt8>, maximumPixels: Int) {
    self.bytes = bytes
    self.maximumPixels = maximumPixels
    at = 0
    end = bytes.count
  }

  @_lifetime(copy whole)
  private init(_ range: Range<Int>, of whole: borrowing ImageReader) {
    bytes = whole.bytes
    maximumPixels = whole.maximumPixels
    order = whole.order
    at = range.lowerBound
    end = range.upperBound
  }

  var remaining: Int { end - at }
  var isAtEnd: Bool { at == end }
  var next: UInt8? { at < end ? bytes[at] : nil }

  // MARK: Integers

  mutating func uint8(_ noun: StaticString) throws(ContentFault) -> Int { try integer(1, noun) }
  mutating func uint16(_ noun: StaticString) throws(ContentFault) -> Int { try integer(2, noun) }
  mutating func uint24(_ noun: StaticString) throws(ContentFault) -> Int { try integer(3, noun) }
  mutating func uint32(_ noun: StaticString) throws(ContentFault) -> Int { try integer(4, noun) }

  /// An unsigned integer of 0 to 8 bytes; one above Int.max is Int.max.
  mutating func integer(_ count: Int, _ noun: StaticString) throws(ContentFault) -> Int {
    let begin = at
    try skip(count, noun)
    var value: UInt64 = 0
    for index in 0..<count {
      let place = order == .bigEndian ? begin + index : begin + count - 1 - index
      value = value << 8 | UInt64(bytes[place])
    }
    return Int(clamping: value)
  }

  /// A signed integer of 4 bytes.
  mutating func int32(_ noun: StaticString) throws(ContentFault) -> Int {
    Int(Int32(truncatingIfNeeded: try uint32(noun)))
  }

  /// The four characters of the name of a chunk or a box, in their order.
  mutating func fourCharacterCode(_ noun: StaticString) throws(ContentFault) -> FourCharacterCode {
    let begin = at
    try skip(4, noun)
    var value: UInt32 = 0
    for index in begin..<at { value = value << 8 | UInt32(bytes[index]) }
    return FourCharacterCode(rawValue: value)
  }

  // MARK: Places

  mutating func skip(_ count: Int, _ noun: StaticString) throws(ContentFault) {
    guard count <= remaining else {
      throw fault("expected \(Self.bytes(count)) of \(noun), found \(remaining)")
    }
    at += count
  }

  /// Skips the next `count` bytes and returns their range.
  mutating func range(_ count: Int, _ noun: StaticString) throws(ContentFault) -> Range<Int> {
    let begin = at
    try skip(count, noun)
    return begin..<at
  }

  /// The range of the `count` bytes at `offset`, as given by the bytes at `pointer`.
  func range(
    at offset: Int, _ count: Int, _ noun: StaticString, pointer: Int
  ) throws(ContentFault) -> Range<Int> {
    guard offset <= end, count <= end - offset else {
      throw ContentFault(
        "expected \(noun) within \(end) bytes, found \(count) bytes at offset \(offset)", offset: pointer)
    }
    return offset..<offset + count
  }

  /// A reader for a part of the body.
  @_lifetime(copy self)
  func part(_ range: Range<Int>) -> ImageReader {
    precondition(range.upperBound <= bytes.count, "a part that is larger than the whole")
    return ImageReader(range, of: self)
  }

  /// Continues at `offset`, as given by the bytes at `pointer`.
  mutating func seek(to offset: Int, _ noun: StaticString, pointer: Int) throws(ContentFault) {
    guard offset <= end else {
      throw ContentFault("expected \(noun) within \(end) bytes, found offset \(offset)", offset: pointer)
    }
    at = offset
  }

  /// Continues at the next `byte`; a fault with the reason `otherwise` if there is none.
  mutating func skipToByte(_ byte: UInt8, otherwise reason: String) throws(ContentFault) {
    let readable = bytes.extracting(0..<end)
    guard let index = readable.firstIndex(of: byte, from: at) else { throw ContentFault(reason, offset: end) }
    at = index
  }

  // MARK: Faults

  private static func bytes(_ count: Int) -> String { .counted(count, "byte") }

  /// A fault at the next byte.
  func fault(_ reason: String) -> ContentFault { ContentFault(reason, offset: at) }

  func requireEnd(of noun: StaticString) throws(ContentFault) {
    guard isAtEnd else { throw fault("expected the end of \(noun), found \(Self.bytes(remaining)) more") }
  }

  /// Requires that width and height, read from `offset`, are above 0 and their product is within the limit.
  func requireDimensions(_ width: Int, _ height: Int, at offset: Int) throws(ContentFault) {
    guard width > 0, height > 0 else {
      throw ContentFault("expected a width and a height above 0, found \(width) x \(height)", offset: offset)
    }
    let (pixels, overflow) = width.multipliedReportingOverflow(by: height)
    guard !overflow, pixels <= maximumPixels else {
      throw ContentFault("\(width) x \(height) pixels, above the limit of \(maximumPixels)", offset: offset)
    }
  }
}

/// The name of a chunk or a box.
struct FourCharacterCode {
  let rawValue: UInt32

  /// In quotation marks if it is printable ASCII, otherwise in hexadecimal.
  var shown: String {
    var text = ""
    for shift in [24, 16, 8, 0] as [UInt32] {
      let byte = UInt8(truncatingIfNeeded: rawValue >> shift)
      guard 0x20..<0x7f ~= byte else { return "0x" + String(rawValue, radix: 16) }
      text.unicodeScalars.append(Unicode.Scalar(byte))
    }
    return "'\(text)'"
  }
}

/// Arithmetic for sizes from hostile numbers. It neither traps nor wraps.
extension Int {
  func saturatingPlus(_ other: Int) -> Int {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? .max : sum
  }

  func saturatingTimes(_ other: Int) -> Int {
    let (product, overflow) = multipliedReportingOverflow(by: other)
    return overflow ? .max : product
  }

  /// How many units of `size` are needed for this many; both are above 0.
  func dividedRoundingUp(by size: Int) -> Int { (self - 1) / size + 1 }
}
