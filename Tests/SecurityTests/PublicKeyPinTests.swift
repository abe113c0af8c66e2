// Pins as text: the forms of OkHttp, curl and OpenSSL, and nothing that only looks like them.

import Security
import Testing

@Suite struct PublicKeyPinTests {
  private static let zeros = [UInt8](repeating: 0, count: 32)
  /// Its base64 begins with a slash, as curl's second one does.
  private static let ones = [UInt8](repeating: 0xff, count: 32)
  private static let counting = (0..<32).map { UInt8($0) }

  private static let pins: [(String, [UInt8])] = [
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", zeros),
    ("sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", zeros),
    ("sha256///////////////////////////////////////////8=", ones),
    ("sha256////////////////////////////////////////////8=", ones),
    ("sha256/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", counting),
    ("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", counting),
    ("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F", counting),
    (
      "00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13:14:15:16:17:18:19:1a:1b:1c:1d:1e:1f", counting
    ),
  ]

  @Test(arguments: pins)
  func textIsAPin(text: String, bytes: [UInt8]) {
    #expect(PublicKeyPin.parse(text)?.bytes == bytes)
  }

  @Test(arguments: [
    ("", "nothing"),
    ("sha256/", "no digest"),
    ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "base64 without a prefix"),
    ("sha1/AAAAAAAAAAAAAAAAAAAAAAAAAAA=", "another digest"),
    ("SHA256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a prefix in upper case"),
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "no padding"),
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", "too much padding"),
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=", "a bit set that padding drops"),
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==", "31 bytes"),
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "33 bytes"),
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA A=", "a blank in it"),
    ("sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-_=", "the alphabet of URLs"),
    (" sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "a blank before it"),
    ("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e", "31 bytes in hexadecimal"),
    ("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1g", "a digit that is none"),
    ("00:01:02:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13:14:15:16:17:18:19:1a:1b:1c:1d:1e-1f", "a dash"),
    (
      "00:0102:03:04:05:06:07:08:09:0a:0b:0c:0d:0e:0f:10:11:12:13:14:15:16:17:18:19:1a:1b:1c:1d:1e:1f:",
      "colons elsewhere"
    ),
  ])
  func textIsNone(text: String, why: String) {
    #expect(PublicKeyPin.parse(text) == nil, "\(why)")
  }

  @Test func descriptionIsThatOfOkHttp() {
    #expect(PublicKeyPin(bytes: Self.counting).description == "sha256/AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
    #expect(PublicKeyPin.parse(PublicKeyPin(bytes: Self.ones).description)?.bytes == Self.ones)
  }
}
