// Base64 (RFC 4648, 4), as pins and PEM carry it. Strict: a text that decodes has one form only. Tests: Base64Tests.

enum Base64 {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
  private static let padding: UInt8 = 0x3d

  /// The value of each byte as a digit; 64 and above: it is none.
  private static let values: [UInt8] = {
    var values = [UInt8](repeating: 0xff, count: 256)
    for (value, digit) in alphabet.enumerated() { values[Int(digit)] = UInt8(value) }
    return values
  }()

  /// With padding, in one line.
  static func encode(_ bytes: [UInt8]) -> String {
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
    return String(decoding: text, as: UTF8.self)
  }

  /// nil where a byte is no digit, the length is no multiple of four, padding stands elsewhere than at the end, or drops
  /// bits that are set.
  static func decode(_ text: [UInt8]) -> [UInt8]? {
    guard text.count % 4 == 0 else { return nil }
    let padded = text.reversed().prefix(2).prefix { $0 == padding }.count
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count / 4 * 3)
    var group: UInt32 = 0
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
