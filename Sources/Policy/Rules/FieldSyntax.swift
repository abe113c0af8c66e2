// Names and values of header fields, and methods, as RFC 9110 allows them.

import Bytes

enum FieldSyntax {
  /// Longest value that a rule may write, in bytes: half of the largest usual head.
  static let longestValue = 16 << 10

  /// RFC 9110, 5.6.2.
  static func isToken(_ text: String) -> Bool { !text.isEmpty && text.utf8.allSatisfy(isTokenByte) }

  private static func isTokenByte(_ byte: UInt8) -> Bool {
    byte.isASCIILetter || byte.isASCIIDigit || "!#$%&'*+-.^_`|~".utf8.contains(byte)
  }

  /// Why a value is not allowed (RFC 9110, 5.5); nil if it may be written. Never quotes the value.
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

  /// Fields of framing and of the connection: the proxy writes them itself (RFC 9110, 7.6.1; RFC 9112, 6).
  static let owned: Set<String> = [
    "host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "trailer",
    "transfer-encoding",
    "upgrade", "content-length", "via", "expect",
  ]
  /// Those of them without which a message cannot be forwarded unchanged.
  static let kept: Set<String> = [
    "content-length", "transfer-encoding", "host", "connection", "te", "upgrade",
  ]

  /// Methods of RFC 9110 and RFC 5789, for the warning about their case.
  static let knownMethods = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]
}
