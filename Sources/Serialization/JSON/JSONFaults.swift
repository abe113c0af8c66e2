// Describes what is wrong with a JSON text: what the grammar requires at the fault, and what is there.
//
// None of this runs for a valid text. How it is tested: JSONScannerTests, with the table of RefusedJSONTexts.

import Bytes

extension JSONScanner {
  @inline(never)
  mutating func refuseValue() -> Event {
    if containers.isInObject { return refuse("a value behind ':'") }
    if !containers.isEmpty { return refuse(followsComma ? "a value behind ','" : "a value or ']' behind '['") }
    if bytes.count >= 3, bytes.extracting(0..<3).array == [0xef, 0xbb, 0xbf] {
      return refuse("a value", seen: "a byte order mark, which JSON does not allow")
    }
    if bytes.isEmpty { return refuse("a value", seen: "an empty body") }
    return refuse("a value", seen: at == bytes.count ? "nothing but white space" : nil)
  }

  @inline(never)
  mutating func refuseKey() -> Event {
    refuse(followsComma ? "a key in quotes behind ','" : "a key in quotes or '}' behind '{'")
  }

  @inline(never)
  mutating func refuseColon() -> Event { refuse("':' behind a key") }

  @inline(never)
  mutating func refuseDelimiter() -> Event {
    refuse(containers.isInObject ? "',' or '}' behind a member" : "',' or ']' behind an element")
  }

  @inline(never)
  mutating func refuseTrailing() -> Event { refuse("the end of the body behind the value") }

  @inline(never)
  mutating func refuseDepth() -> Event {
    refuse("at most \(deepest) arrays and objects inside one another", seen: "one more")
  }

  @inline(never)
  mutating func refuseLiteral(_ literal: StaticString) -> Event {
    for letter in literal.description.utf8 {
      if current != letter { break }
      at += 1
    }
    return refuse("'\(literal)'")
  }

  @inline(never)
  mutating func refuseDigit() -> Event { refuse("a digit behind '\(Unicode.Scalar(bytes[at - 1]))'") }

  @inline(never)
  mutating func refuseLeadingZero() -> Event { refuse("no digit behind a leading zero") }

  @inline(never)
  mutating func refuseString() -> Event { refuse("'\"' at the end of a string") }

  @inline(never)
  mutating func refuseControl() -> Event { refuse("control characters of a string to be escaped") }

  /// The fault of an escape is at its first wrong byte; that of an unpaired low surrogate is at its backslash.
  @inline(never)
  mutating func refuseEscape() -> Event {
    guard let unit = bytes.codeUnit(at: at) else {
      at += 1
      guard current == 0x75 else { return refuse("one of '\"\\/bfnrtu' behind '\\'") }
      repeat { at += 1 } while current.hexadecimalValue != nil
      return refuse("four hexadecimal digits behind '\\u'")
    }
    if UTF16.isTrailSurrogate(unit) { return refuse("the high surrogate of a pair", seen: "a low one alone") }
    at += 6
    return refuse("the low surrogate of a pair behind the high one", seen: current == 0x5c ? "another escape" : nil)
  }

  /// RFC 3629, 4 and 10.
  @inline(never)
  mutating func refuseSequence() -> Event {
    let lead = bytes[at]
    let second = at + 1 < bytes.count ? bytes[at + 1] : 0
    if lead < 0xc0 { return refuse("UTF-8", seen: "a continuation byte without a lead") }
    if lead > 0xf4 { return refuse("UTF-8", seen: "a byte that never occurs in it") }
    if second & 0xc0 == 0x80 {
      switch (lead, second) {
      case (0xc0...0xc1, _), (0xe0, ..<0xa0), (0xf0, ..<0x90): return refuse("UTF-8", seen: "an overlong form")
      case (0xed, 0xa0...): return refuse("UTF-8", seen: "a surrogate, which is no character")
      case (0xf4, 0x90...): return refuse("UTF-8", seen: "a character above U+10FFFF")
      default: break
      }
    }
    repeat { at += 1 } while current & 0xc0 == 0x80
    return refuse("a continuation byte of UTF-8")
  }

  private var followsComma: Bool { bytes[elementStart - 1] == 0x2c }

  private mutating func refuse(_ expected: String, seen: String? = nil) -> Event {
    self.expected = expected
    self.seen = seen ?? (at < bytes.count ? Self.describe(bytes[at]) : "the end of the body")
    return .refused
  }

  private static func describe(_ byte: UInt8) -> String {
    switch byte {
    case 0x20: "a space"
    case 0x21..<0x7f: "'\(Unicode.Scalar(byte))'"
    default: "the byte 0x\(byte.hexadecimal)"
    }
  }

  /// What is wrong with a valid text whose value must be an object or an array; nil: nothing.
  static func rootFault(in text: Span<UInt8>) -> ContentFault? {
    var at = 0
    while at < text.count, [0x20, 0x09, 0x0a, 0x0d].contains(text[at]) { at += 1 }
    guard at < text.count, text[at] != 0x7b, text[at] != 0x5b else { return nil }
    let seen =
      switch text[at] {
      case 0x22: "a string"
      case 0x66, 0x74: "a boolean"
      case 0x6e: "null"
      default: "a number"
      }
    return ContentFault("expected an object or an array, found \(seen)", offset: at, place: text.place(of: at))
  }
}
