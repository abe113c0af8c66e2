// How faults show what was seen: a few printable characters at most, because a body may contain secrets.

import Bytes

/// Words for bytes in the reasons of faults.
enum Seen {
  /// The most bytes that are quoted: enough to find the place, too few to reveal a password.
  static let maximumQuotedBytes = 24

  /// `'x'`, or `byte 0x0a` if it is not printable ASCII.
  static func byte(_ byte: UInt8) -> String {
    isPrintable(byte) ? "'\(Character(Unicode.Scalar(byte)))'" : "byte 0x\(byte.hexadecimal)"
  }

  /// The byte at `index`, or `end` if there is none.
  static func byte(_ bytes: Span<UInt8>, at index: Int, orEnd end: String) -> String {
    index < bytes.count ? byte(bytes[index]) : end
  }

  /// The first bytes in quotes, with `\xNN` for what is not printable ASCII and `…` for what is left out.
  static func text(_ bytes: Span<UInt8>) -> String {
    var text = "'"
    for index in 0..<min(bytes.count, maximumQuotedBytes) {
      let byte = bytes[index]
      text += isPrintable(byte) ? String(Character(Unicode.Scalar(byte))) : "\\x" + byte.hexadecimal
    }
    return text + (bytes.count > maximumQuotedBytes ? "…'" : "'")
  }

  private static func isPrintable(_ byte: UInt8) -> Bool { byte >= 0x20 && byte < 0x7f }
}
