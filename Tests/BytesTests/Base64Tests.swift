// Base64: the examples of RFC 4648, 10, every length, and what is refused.

import Testing
import TestSupport

import Bytes

@Suite struct Base64Tests {
  @Test(arguments: [
    ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
    ("foobar", "Zm9vYmFy"),
  ])
  func theExamplesOfTheRFC(text: String, coded: String) {
    #expect(Base64.text(Array(text.utf8)) == coded)
    #expect(Base64.decode(Array(coded.utf8)) == Array(text.utf8))
  }

  @Test func whatIsEncodedIsDecoded() {
    var generator = SeededGenerator(seed: 3)
    for count in 0..<200 {
      let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
      #expect(Base64.decode(Array(Base64.text(bytes).utf8)) == bytes)
    }
  }

  @Test func everyByteThatIsNoDigitIsRefused() {
    let digits = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    for byte in UInt8.min...UInt8.max {
      #expect((Base64.decode([0x41, byte, 0x41, 0x41]) != nil) == digits.contains(byte))
    }
  }

  @Test(arguments: ["A", "AA", "AAA", "AAAAA", "A===", "====", "=AAA", "AA=A", "AA==AAAA", "AB==", "AAB=", "AAA=="])
  func refused(text: String) {
    #expect(Base64.decode(Array(text.utf8)) == nil)
  }
}
