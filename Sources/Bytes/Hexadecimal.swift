// Bytes as hexadecimal digits, and percent-encoding, which is made of them. Tests: HexadecimalTests.

extension UInt8 {
  /// Two digits in lower case: `0a`.
  public var hexadecimal: String { (self < 16 ? "0" : "") + String(self, radix: 16) }

  /// `%` and two digits in upper case (RFC 3986, 2.1): `%0A`.
  public var percentEncoded: [UInt8] { [0x25, Self.upperCaseDigit(self >> 4), Self.upperCaseDigit(self & 0xf)] }

  private static func upperCaseDigit(_ value: UInt8) -> UInt8 { value < 10 ? value &+ 0x30 : value &+ 0x37 }
}

extension Sequence<UInt8> {
  /// Two digits a byte, in lower case.
  public var hexadecimal: String { map(\.hexadecimal).joined() }
}
