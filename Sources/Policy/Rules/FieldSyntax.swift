// Names and values of header fields, and methods: what RFC 9110 lets them be.

import Bytes

enum FieldSyntax {
  /// Longest value that a rule may write, in bytes: half of the largest usual head.
  static let longestValue = 16 << 10

  /// RFC 9110, 5.6.2.
  static func isToken(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy(isTokenByte) }

  private static func isTokenByte(_ byte: UInt8) -> Bool {
    byte.isASCIILetter || byte.isASCIIDigit || "!#$%&'*+-.^_`|~".utf8.contains(byte)
  }

  /// What a value must not be (RFC 9110, 5.5); nil where it may be written. Never quotes the value.
  static func fault(ofValue value: [UInt8]) -> String? {
    if value.contains(where: { $0 == 0x0d || $0 == 0x0a || $0 == 0 }) {
      return "a header value must not hold CR, LF or NUL"
    }
    if value.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7f }) {
      return "a header value must not hold control characters"
    }
    if let first = value.first, let last = value.last,
      [first, last].contains(where: { $0 == 0x20 || $0 == 0x09 })
    {
      return "a header value must not begin or end with white space"
    }
    if value.count > longestValue { return "a header value may have at most \(longestValue) bytes" }
    return nil
  }

  /// Fields of framing and of the connection: the proxy writes them itself, from what it knows (RFC 9110, 7.6.1; RFC 9112, 6).
  static let owned: Set<String> = [
    "host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer",
    "transfer-encoding",
    "upgrade", "content-length", "via", "expect",
  ]
  /// Those of them without which a message cannot be forwarded as it came.
  static let kept: Set<String> = [
    "content-length", "transfer-encoding", "host", "connection", "te", "upgrade",
  ]

  /// Methods of RFC 9110 and RFC 5789, for the warning about their case.
  static let knownMethods = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]
}

enum Base64 {
  private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

  /// RFC 4648, 4, with padding.
  static func encode(_ bytes: [UInt8]) -> [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity((bytes.count + 2) / 3 * 4)
    var index = 0
    while index < bytes.count {
      let group = (0..<3).reduce(UInt32(0)) { value, offset in
        value << 8 | (index + offset < bytes.count ? UInt32(bytes[index + offset]) : 0)
      }
      for position in 0..<4 {
        let isPadding = index + position > bytes.count
        output.append(isPadding ? 0x3d : alphabet[Int(group >> UInt32(18 - 6 * position) & 63)])
      }
      index += 3
    }
    return output
  }
}
