// Digits of bytes, and percent-encoding.

import Testing

@testable import Bytes

@Suite struct HexadecimalTests {
  @Test(arguments: [
    (0x00, "00", "%00"), (0x09, "09", "%09"), (0x0a, "0a", "%0A"), (0x9f, "9f", "%9F"), (0xff, "ff", "%FF"),
  ])
  func aByteHasTwoDigits(byte: Int, digits: String, encoded: String) {
    #expect(UInt8(byte).hexadecimal == digits)
    #expect(UInt8(byte).percentEncoded == Array(encoded.utf8))
  }

  @Test func everyByteReadsBack() {
    for byte in 0...255 as ClosedRange<UInt8> {
      #expect(UInt8(byte.hexadecimal, radix: 16) == byte)
      #expect(UInt8(String(decoding: byte.percentEncoded.dropFirst(), as: UTF8.self), radix: 16) == byte)
    }
    #expect([UInt8](0...255).hexadecimal.utf8.count == 512)
    #expect([UInt8]().hexadecimal == "")
  }
}
