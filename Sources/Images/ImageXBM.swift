// XBM, a bitmap as C source: `#define NAME_width N`, `#define NAME_height N`, an array of values and its closing brace.
//
// Strict: as many values as the dimensions require, in hexadecimal; a semicolon after the brace, and after that only
// white space and comments.
// Lenient: comments, which GIMP writes; other definitions (hot spots); a comma after the last value, which ImageMagick
// writes; any array type based on `char`, or on `short` as in X10.
//
// Tests: ImageXBMTests.

import Bytes

/// An XBM, and how far it has been read.
struct XBitmap: ~Escapable {
  private static let byteBits = 8
  /// X10 (`static short`).
  private static let wordBits = 16
  /// The most digits of a number: no dimension within any limit has more.
  private static let mostDigits = 9

  private let text: Span<UInt8>
  private var at = 0
  private var width: Int?
  private var height: Int?

  /// Whether the first word of the body is `#define`.
  static func isRecognized(_ body: Span<UInt8>) -> Bool {
    var bitmap = XBitmap(body)
    bitmap.skipBlanks()
    return bitmap.holds("#define")
  }

  static func check(_ reader: inout ImageReader) throws(ContentFault) {
    var bitmap = XBitmap(reader.bytes)
    do throws(ContentFault) {
      try bitmap.read(reader)
    } catch {
      throw ContentFault(error.reason, offset: error.offset, place: reader.bytes.place(of: error.offset))
    }
  }

  @_lifetime(copy text)
  private init(_ text: Span<UInt8>) { self.text = text }

  private mutating func read(_ reader: borrowing ImageReader) throws(ContentFault) {
    skipBlanks()
    while next == UInt8(ascii: "#") {
      try readDefinition()
      skipBlanks()
    }
    guard let width, let height else { throw fault("expected definitions of a width and a height") }
    try reader.requireDimensions(width, height, at: at)
    let bits = try readDeclaration()
    try readValues(width.dividedRoundingUp(by: bits) * height, digits: bits / 4)
    try expect("}")
    skipBlanks()
    try expect(";")
    skipBlanks()
    guard at == text.count else { throw fault("expected the end of the image") }
  }

  // MARK: Parts

  /// `#define`, a name and a number, on a line of their own.
  private mutating func readDefinition() throws(ContentFault) {
    try expect("#define")
    try expectSpaces()
    let name = readWord()
    try expectSpaces()
    let isNegative = next == UInt8(ascii: "-")
    if isNegative { at += 1 }
    let number = try readNumber()
    guard next.map(\.isWhiteSpace) ?? true else { throw fault("expected the end of a definition") }
    if ends(name, with: "width") {
      guard width == nil, !isNegative else { throw fault("expected one width above 0") }
      width = number
    } else if ends(name, with: "height") {
      guard height == nil, !isNegative else { throw fault("expected one height above 0") }
      height = number
    }
  }

  /// `static unsigned char NAME_bits[] = {`; returns the bits of a value.
  private mutating func readDeclaration() throws(ContentFault) -> Int {
    var bits: Int?
    var name = at..<at
    while let byte = next, byte != UInt8(ascii: "[") {
      name = readWord()
      guard !name.isEmpty else { throw fault("expected the name of an array") }
      if text.equals(name, "char") { bits = Self.byteBits }
      if text.equals(name, "short") { bits = Self.wordBits }
      skipBlanks()
    }
    guard let bits, ends(name, with: "bits") else { throw fault("expected an array of bits") }
    try expect("[")
    skipBlanks()
    if let byte = next, byte.isASCIIDigit { _ = try readNumber() }
    for token in ["]", "=", "{"] as [StaticString] {
      skipBlanks()
      try expect(token)
    }
    return bits
  }

  private mutating func readValues(_ count: Int, digits: Int) throws(ContentFault) {
    for index in 0..<count {
      skipBlanks()
      guard holds("0x") || holds("0X") else {
        throw fault("expected \(count) values in hexadecimal, and behind \(index)")
      }
      at += 2
      let start = at
      while let byte = next, byte.hexadecimalValue != nil { at += 1 }
      guard 1...digits ~= at - start else { throw fault("expected a value of 1 to \(digits) digits") }
      skipBlanks()
      if index + 1 < count || next == UInt8(ascii: ",") { try expect(",") }
    }
    skipBlanks()
  }

  // MARK: Tokens

  private var next: UInt8? { at < text.count ? text[at] : nil }

  private func holds(_ token: StaticString) -> Bool {
    let count = token.utf8CodeUnitCount
    return text.count - at >= count && text.equals(at..<at + count, token)
  }

  private mutating func expect(_ token: StaticString) throws(ContentFault) {
    guard holds(token) else { throw fault("expected '\(token)'") }
    at += token.utf8CodeUnitCount
  }

  /// Skips white space and comments. A comment without an end is not skipped.
  private mutating func skipBlanks() {
    while true {
      while let byte = next, byte.isWhiteSpace { at += 1 }
      guard holds("/*"), let end = endOfComment() else { return }
      at = end
    }
  }

  private func endOfComment() -> Int? {
    var index = at + 2
    while let star = text.firstIndex(of: UInt8(ascii: "*"), from: index), star + 1 < text.count {
      if text[star + 1] == UInt8(ascii: "/") { return star + 2 }
      index = star + 1
    }
    return nil
  }

  /// Spaces and tabs, at least one.
  private mutating func expectSpaces() throws(ContentFault) {
    guard next == 0x20 || next == 0x09 else { throw fault("expected a space") }
    while next == 0x20 || next == 0x09 { at += 1 }
  }

  /// Everything that is not white space and has no meaning in C outside a name: names are made from file names.
  private mutating func readWord() -> Range<Int> {
    let start = at
    while let byte = next, byte > 0x20, byte < 0x7f, !Self.endsWord(byte) { at += 1 }
    return start..<at
  }

  private static func endsWord(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "{"), UInt8(ascii: "}"), UInt8(ascii: "="),
      UInt8(ascii: ";"), UInt8(ascii: ","), UInt8(ascii: "#"), UInt8(ascii: "/"):
      true
    default: false
    }
  }

  private mutating func readNumber() throws(ContentFault) -> Int {
    let start = at
    var number = 0
    while let byte = next, byte.isASCIIDigit, at - start < Self.mostDigits {
      number = number * 10 + Int(byte - UInt8(ascii: "0"))
      at += 1
    }
    guard at > start, next.map(\.isASCIIDigit) != true else {
      throw fault("expected a number of 1 to \(Self.mostDigits) digits")
    }
    return number
  }

  /// Whether the part of a name after its last underscore is `suffix`.
  private func ends(_ name: Range<Int>, with suffix: StaticString) -> Bool {
    let count = suffix.utf8CodeUnitCount
    guard name.count >= count, text.equals(name.upperBound - count..<name.upperBound, suffix) else { return false }
    return name.count == count || text[name.upperBound - count - 1] == UInt8(ascii: "_")
  }

  /// A fault at the next byte, which is shown.
  private func fault(_ expectation: String) -> ContentFault {
    let found =
      switch next {
      case nil: "the end"
      case let byte? where 0x21..<0x7f ~= byte: "'\(Unicode.Scalar(byte))'"
      case let byte?: "0x" + String(byte, radix: 16)
      }
    return ContentFault("\(expectation), found \(found)", offset: at)
  }
}

extension UInt8 {
  /// As in C: space, tab, line feed, vertical tab, form feed, carriage return.
  fileprivate var isWhiteSpace: Bool { self == 0x20 || 0x09...0x0d ~= self }
}
