// Bytes as rows of tables write them, and as failures show them.

/// The bytes of `text`, one for each scalar: `"\u{ff}"` is the byte 0xff. Only scalars below U+0100 may stand in it.
public func octets(_ text: String) -> [UInt8] {
  text.unicodeScalars.map { scalar in
    guard let byte = UInt8(exactly: scalar.value) else { fatalError("no byte: U+\(scalar.value)") }
    return byte
  }
}

/// Bytes as one line of printable ASCII, with `\r`, `\n` and `\xNN` for the rest; of long runs the two ends.
public func shown(_ bytes: [UInt8], atMost limit: Int = 400) -> String {
  if bytes.count > limit {
    let part = limit / 2
    let left = bytes.count - 2 * part
    return shown(Array(bytes.prefix(part))) + " … \(left) bytes … " + shown(Array(bytes.suffix(part)))
  }
  var text = ""
  for byte in bytes {
    switch byte {
    case 0x0d: text += "\\r"
    case 0x0a: text += "\\n"
    case 0x5c: text += "\\\\"
    case 0x20..<0x7f: text.unicodeScalars.append(Unicode.Scalar(byte))
    default: text += "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
    }
  }
  return text
}

/// Cuts `bytes` into pieces.
public enum Split: Sendable, CustomStringConvertible {
  case whole
  case bytewise
  /// Pieces of random length, up to `longest` bytes.
  case random(seed: UInt64, longest: Int)

  /// Whole, byte by byte, and cut at random with pieces that are short, or may be long.
  public static let usual: [Split] =
    [.whole, .bytewise] + (1...12).map { .random(seed: $0, longest: $0 % 2 == 0 ? 7 : 90) }

  public func pieces(_ bytes: [UInt8]) -> [[UInt8]] {
    switch self {
    case .whole: return bytes.isEmpty ? [] : [bytes]
    case .bytewise: return bytes.map { [$0] }
    case .random(let seed, let longest):
      var generator = SeededGenerator(seed: seed ^ UInt64(bytes.count))
      var pieces: [[UInt8]] = []
      var at = 0
      while at < bytes.count {
        let end = min(bytes.count, at + Int.random(in: 1...longest, using: &generator))
        pieces.append(Array(bytes[at..<end]))
        at = end
      }
      return pieces
    }
  }

  public var description: String {
    switch self {
    case .whole: "whole"
    case .bytewise: "byte by byte"
    case .random(let seed, let longest): "cut at random, seed \(seed), at most \(longest) bytes"
    }
  }
}
