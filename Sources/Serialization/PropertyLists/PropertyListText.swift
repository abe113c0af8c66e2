// The texts of numbers, dates and data in an XML property list. Each must be valid as a whole, without space around it.
// Tests: PropertyListTextTests.

import Bytes

enum PropertyListText {
  /// White space of XML (production 3).
  static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 }

  /// A sign and decimal digits, or 0x and hexadecimal digits; from -2^63 to 2^64 - 1.
  static func faultOfInteger(_ text: Span<UInt8>) -> String? {
    var at = signEnd(text)
    let isNegative = at == 1 && text[0] == UInt8(ascii: "-")
    let isHexadecimal = at + 1 < text.count && text[at] == UInt8(ascii: "0") && text[at + 1] | 0x20 == UInt8(ascii: "x")
    if isHexadecimal { at += 2 }
    guard at < text.count else { return "expected the digits of an integer, found the end" }
    let base: UInt64 = isHexadecimal ? 16 : 10
    var magnitude: UInt64 = 0
    while at < text.count {
      guard let digit = text[at].hexadecimalValue, digit < base else { return unexpected(text, at, in: "an integer") }
      let (shifted, isTooLarge) = magnitude.multipliedReportingOverflow(by: base)
      let (sum, isTooLargeNow) = shifted.addingReportingOverflow(UInt64(digit))
      if isTooLarge || isTooLargeNow { return "expected an integer of 64 bits, found a larger one" }
      magnitude = sum
      at += 1
    }
    if isNegative, magnitude > 1 << 63 { return "expected an integer of 64 bits, found a smaller one" }
    return nil
  }

  /// A sign, digits, a fraction, an exponent; or what programs write for infinity and NaN.
  static func faultOfReal(_ text: Span<UInt8>) -> String? {
    var at = signEnd(text)
    for word in ["nan", "inf", "infinity"] as [StaticString]
    where text.equals(at..<text.count, ignoringCase: word) { return nil }
    guard let whole = digitsEnd(text, from: at) else { return unexpected(text, at, in: "a real number") }
    at = whole
    if at < text.count, text[at] == UInt8(ascii: ".") { at = digitsEnd(text, from: at + 1) ?? at + 1 }
    if at < text.count, text[at] | 0x20 == UInt8(ascii: "e") {
      at += 1
      if at < text.count, isSign(text[at]) { at += 1 }
      guard let exponent = digitsEnd(text, from: at) else { return unexpected(text, at, in: "a real number") }
      at = exponent
    }
    return at == text.count ? nil : unexpected(text, at, in: "a real number")
  }

  private static let dateForm = Array("dddd-dd-ddTdd:dd:ddZ".utf8)

  /// `2027-06-01T07:30:00Z`
  static func faultOfDate(_ text: Span<UInt8>) -> String? {
    for (index, expected) in dateForm.enumerated() {
      guard index < text.count, expected == UInt8(ascii: "d") ? text[index].isASCIIDigit : text[index] == expected
      else { return unexpected(text, index, in: "a date as 2027-06-01T07:30:00Z") }
    }
    guard text.count == dateForm.count else {
      return unexpected(text, dateForm.count, in: "a date as 2027-06-01T07:30:00Z")
    }
    let (year, month) = (100 * number(text, 0) + number(text, 2), number(text, 5))
    guard (1...12).contains(month), (1...days(year: year, month: month)).contains(number(text, 8)) else {
      return "expected a day of the calendar, found another"
    }
    guard number(text, 11) < 24, number(text, 14) < 60, number(text, 17) < 60 else {
      return "expected a time of the day, found another"
    }
    return nil
  }

  // MARK: Pieces

  private static func isSign(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-") }

  private static func signEnd(_ text: Span<UInt8>) -> Int { text.count > 0 && isSign(text[0]) ? 1 : 0 }

  /// The position after the digits at `start`; nil if there are none.
  private static func digitsEnd(_ text: Span<UInt8>, from start: Int) -> Int? {
    var end = start
    while end < text.count, text[end].isASCIIDigit { end += 1 }
    return end > start ? end : nil
  }

  /// The two digits at `start`.
  private static func number(_ text: Span<UInt8>, _ start: Int) -> Int {
    Int(text[start] & 0xf) * 10 + Int(text[start + 1] & 0xf)
  }

  private static func days(year: Int, month: Int) -> Int {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  private static func unexpected(_ text: Span<UInt8>, _ at: Int, in what: StaticString) -> String {
    "expected \(what), found \(FaultWords.found(text, at: at))"
  }
}

/// Base64 (RFC 4648, 4) that arrives in pieces, with white space anywhere.
struct Base64Text {
  private var digits = 0
  private var padding = 0
  /// The last digit: padding discards some of its bits.
  private var lastDigit: UInt8 = 0

  /// What is wrong with the byte at `index`, or nil.
  mutating func take(_ text: Span<UInt8>, at index: Int) -> String? {
    let byte = text[index]
    if PropertyListText.isSpace(byte) { return nil }
    if byte == UInt8(ascii: "=") {
      padding += 1
      guard padding <= 2, digits % 4 + padding <= 4, digits % 4 >= 2 else {
        return "expected Base64, found padding that does not belong here"
      }
      return nil
    }
    guard padding == 0, let value = Self.value(byte) else {
      return "expected Base64, found \(FaultWords.found(text, at: index))"
    }
    digits += 1
    lastDigit = value
    return nil
  }

  var faultAtEnd: String? {
    let rest = digits % 4
    guard (rest + padding) % 4 == 0 else { return "expected Base64 with its padding, found the end" }
    let spareBits: UInt8 = rest == 2 ? 0xf : rest == 3 ? 0x3 : 0
    return lastDigit & spareBits == 0 ? nil : "expected Base64 without spare bits, found some"
  }

  private static func value(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
    case UInt8(ascii: "+"): 62
    case UInt8(ascii: "/"): 63
    default: nil
    }
  }
}
