// Base64 (RFC 4648, 4), for pins, PEM and credentials. Strict: only the canonical form of a text decodes.
// Tests: Base64Tests.

public enum Base64 {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  private static let padding: UInt8 = 0x3d

  /// The value of each byte as a digit; 64 and above if it is not one.
  private static let values: [UInt8] = {
    var values = [UInt8](repeating: 0xff, count: 256)
    for (value, digit) in alphabet.enumerated() { values[Int(digit)] = UInt8(value) }
    return values
  }()

  /// With padding, on one line.
  public static func encode(_ bytes: [UInt8]) -> [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    for begin in stride(from: 0, to: bytes.count, by: 3) {
      let count = min(3, bytes.count - begin)
      var group: UInt32 = 0
      for index in 0..<3 { group = group << 8 | (index < count ? UInt32(bytes[begin + index]) : 0) }
      for digit in 0..<4 {
        text.append(digit > count ? padding : alphabet[Int(group >> UInt32(18 - 6 * digit) & 0x3f)])
      }
    }
    return text
  }

  /// The same as a text.
  public static func text(_ bytes: [UInt8]) -> String { String(decoding: encode(bytes), as: UTF8.self) }

  /// The same with or without padding, as programs send credentials.
  public static func decode(unpadded text: [UInt8]) -> [UInt8]? {
    decode(text + Array(repeating: padding, count: (4 - text.count % 4) % 4))
  }

  /// nil if a byte is not a digit, the length is not a multiple of four, padding is not at the end, or the unused bits
  /// are not zero.
  public static func decode(_ text: [UInt8]) -> [UInt8]? {
    guard text.count % 4 == 0 else { return nil }
    let padded = text.reversed().prefix(2).prefix { $0 == padding }.count
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count / 4 * 3)
    var group: UInt32 = 0
    let values = values
    for index in 0..<text.count - padded {
      let value = values[Int(text[index])]
      guard value < 64 else { return nil }
      group = group << 6 | UInt32(value)
      guard index % 4 == 3 else { continue }
      bytes.append(UInt8(truncatingIfNeeded: group >> 16))
      bytes.append(UInt8(truncatingIfNeeded: group >> 8))
      bytes.append(UInt8(truncatingIfNeeded: group))
      group = 0
    }
    switch padded {
    case 1:
      guard group & 0x3 == 0 else { return nil }
      bytes.append(UInt8(truncatingIfNeeded: group >> 10))
      bytes.append(UInt8(truncatingIfNeeded: group >> 2))
    case 2:
      guard group & 0xf == 0 else { return nil }
      bytes.append(UInt8(truncatingIfNeeded: group >> 4))
    default: break
    }
    return bytes
  }
}
