// Tests the texts of numbers, dates and data, within a property list of XML.

import TestSupport
import Testing

@testable import Serialization

@Suite struct PropertyListTextTests {
  private func reason(_ element: String, _ text: String) -> String? {
    let body = Array("<plist><\(element)>\(text)</\(element)></plist>".utf8)
    return PropertyListCheck.check(body.span, charset: nil)?.reason
  }

  /// A text of an element, and the reason against it where there is one.
  struct Row: Sendable, CustomTestStringConvertible {
    let element: String
    let text: String
    let fault: String?

    init(_ element: String, _ text: String, _ fault: String? = nil) {
      self.element = element
      self.text = text
      self.fault = fault
    }

    var testDescription: String { "\(element) '\(text)'" }
  }

  static let integers: [Row] = [
    Row("integer", "0"), Row("integer", "-0"), Row("integer", "+5"), Row("integer", "007"), Row("integer", "-12"),
    Row("integer", "9223372036854775807"), Row("integer", "9223372036854775808"),
    Row("integer", "18446744073709551615"), Row("integer", "-9223372036854775808"),
    Row("integer", "0x0"), Row("integer", "0xdeadBEEF"), Row("integer", "0XFFFFFFFFFFFFFFFF"),
    Row("integer", "-0x8000000000000000"), Row("integer", "0000000000000000000000000000005"),
    Row("integer", "18446744073709551616", "expected an integer of 64 bits, found a larger one"),
    Row("integer", "99999999999999999999999", "expected an integer of 64 bits, found a larger one"),
    Row("integer", "0x10000000000000000", "expected an integer of 64 bits, found a larger one"),
    Row("integer", "-9223372036854775809", "expected an integer of 64 bits, found a smaller one"),
    Row("integer", "-18446744073709551615", "expected an integer of 64 bits, found a smaller one"),
    Row("integer", "", "expected the digits of an integer, found the end"),
    Row("integer", "-", "expected the digits of an integer, found the end"),
    Row("integer", "0x", "expected the digits of an integer, found the end"),
    Row("integer", "--1", "expected an integer, found '-'"),
    Row("integer", "1-", "expected an integer, found '-'"),
    Row("integer", " 1", "expected an integer, found the byte 0x20"),
    Row("integer", "1\n", "expected an integer, found the byte 0x0a"),
    Row("integer", "12abc", "expected an integer, found 'a'"),
    Row("integer", "f", "expected an integer, found 'f'"),
    Row("integer", "0xg", "expected an integer, found 'g'"),
    Row("integer", "1.0", "expected an integer, found '.'"),
    Row("integer", "1e3", "expected an integer, found 'e'"),
    Row("integer", "1_000", "expected an integer, found '_'"),
    Row("integer", "١", "expected an integer, found the byte 0xd9"),
  ]

  static let reals: [Row] = [
    Row("real", "0"), Row("real", "-0.0"), Row("real", "+1.5"), Row("real", "1."), Row("real", "00.5"),
    Row("real", "1e5"), Row("real", "1E+5"), Row("real", "1.25e-300"), Row("real", "1.e1"), Row("real", "1e999"),
    Row("real", "3.141592653589793238462643383279"), Row("real", "nan"), Row("real", "NaN"), Row("real", "inf"),
    Row("real", "-infinity"), Row("real", "+Infinity"),
    Row("real", "", "expected a real number, found the end"),
    Row("real", "-", "expected a real number, found the end"),
    Row("real", ".5", "expected a real number, found '.'"),
    Row("real", ".", "expected a real number, found '.'"),
    Row("real", "1e", "expected a real number, found the end"),
    Row("real", "1e+", "expected a real number, found the end"),
    Row("real", "1.5.2", "expected a real number, found '.'"),
    Row("real", "1,5", "expected a real number, found ','"),
    Row("real", "1.5zebra", "expected a real number, found 'z'"),
    Row("real", "0x1p3", "expected a real number, found 'x'"),
    Row("real", " 1", "expected a real number, found the byte 0x20"),
    Row("real", "1 ", "expected a real number, found the byte 0x20"),
    Row("real", "in", "expected a real number, found 'i'"),
    Row("real", "infinite", "expected a real number, found 'i'"),
    Row("real", "nan(1)", "expected a real number, found 'n'"),
  ]

  private static let form = "expected a date as 2027-06-01T07:30:00Z"
  private static let noDay = "expected a day of the calendar, found another"
  private static let noTime = "expected a time of the day, found another"

  static let dates: [Row] = [
    Row("date", "2027-06-01T07:30:00Z"), Row("date", "0001-01-01T00:00:00Z"), Row("date", "9999-12-31T23:59:59Z"),
    Row("date", "2024-02-29T00:00:00Z"), Row("date", "2000-02-29T00:00:00Z"), Row("date", "2023-04-30T00:00:00Z"),
    Row("date", "2023-02-29T00:00:00Z", noDay), Row("date", "1900-02-29T00:00:00Z", noDay),
    Row("date", "2023-04-31T00:00:00Z", noDay), Row("date", "2023-01-32T00:00:00Z", noDay),
    Row("date", "2023-00-01T00:00:00Z", noDay), Row("date", "2023-13-01T00:00:00Z", noDay),
    Row("date", "2023-01-00T00:00:00Z", noDay),
    Row("date", "2023-01-01T24:00:00Z", noTime), Row("date", "2023-01-01T00:60:00Z", noTime),
    Row("date", "2023-01-01T00:00:60Z", noTime),
    Row("date", "", "\(form), found the end"), Row("date", "yesterday", "\(form), found 'y'"),
    Row("date", "2027-06-01", "\(form), found the end"), Row("date", "2027-06-01T07:30:00", "\(form), found the end"),
    Row("date", "2027-06-01 07:30:00Z", "\(form), found the byte 0x20"),
    Row("date", "2027-06-01T07:30:00z", "\(form), found 'z'"),
    Row("date", "2027-06-01T07:30:00.5Z", "\(form), found '.'"),
    Row("date", "2027-06-01T07:30:00+01:00", "\(form), found '+'"),
    Row("date", "2027-6-01T07:30:00Z", "\(form), found '-'"),
    Row("date", "2027-06-01T07:30:00Z ", "\(form), found the byte 0x20"),
    Row("date", "-027-06-01T07:30:00Z", "\(form), found '-'"),
  ]

  private static let padding = "expected Base64, found padding that does not belong here"
  private static let unpadded = "expected Base64 with its padding, found the end"
  private static let spare = "expected Base64 without spare bits, found some"

  static let datas: [Row] = [
    Row("data", ""), Row("data", " \n\t "), Row("data", "AAAA"), Row("data", "az09AZ+/"), Row("data", "QQ=="),
    Row("data", "QUI="), Row("data", "\n\tQU\n\tFB\n\t"), Row("data", "Q Q = ="), Row("data", "Q&#81;=="),
    Row("data", "<![CDATA[QQ==]]>"), Row("data", "<!-- a -->QQ<!-- b -->=="),
    Row("data", "A", unpadded), Row("data", "AA", unpadded), Row("data", "AAA", unpadded), Row("data", "AA=", unpadded),
    Row("data", "AAAAA", unpadded),
    Row("data", "=", padding), Row("data", "A=", padding), Row("data", "AAAA=", padding), Row("data", "AAA==", padding),
    Row("data", "AA===", padding), Row("data", "QR==", spare), Row("data", "QUJ=", spare),
    Row("data", "AA==A", "expected Base64, found 'A'"), Row("data", "AA=A", "expected Base64, found 'A'"),
    Row("data", "AA-_", "expected Base64, found '-'"), Row("data", "!!!!", "expected Base64, found '!'"),
    Row("data", "QQ\u{a0}==", "expected Base64, found the byte 0xc2"),
  ]

  @Test(arguments: integers + reals + dates + datas)
  func isReadWholeOrNotAtAll(row: Row) {
    #expect(reason(row.element, row.text) == row.fault)
  }

  /// In every element but data, a byte more or other is never passed over.
  @Test func everyByteInANumber() {
    for byte in 0x20..<0x7f as Range<UInt8> where byte != UInt8(ascii: "<") && byte != UInt8(ascii: "&") {
      let character = String(Unicode.Scalar(byte))
      #expect((reason("integer", "1\(character)2") == nil) == byte.isASCIIDigit)
      #expect((reason("real", "1\(character)2") == nil) == (byte.isASCIIDigit || ".eE".contains(character)))
      #expect((reason("date", "2027-06-0\(character)T07:30:00Z") == nil) == (49...57).contains(byte))
    }
  }
}
