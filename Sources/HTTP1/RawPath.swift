// Percent-encodes the bytes above 0x7F in a path. RFC 3986 does not allow them, and curl sends them for
// `http://host/查询`.
//
// If no rule says `encode_path = true`, such a head is refused like any other malformed one. Otherwise the path is
// encoded before anything else happens, and the head is read again. Rules match that path, its readings come from it,
// and it is the path that is sent. Only then, when the deciding rule is known, is the request refused unless that rule
// accepts such paths: no rule is chosen by bytes that another reader would not see. Tests: RawPathTests.

import Bytes

/// Encodes paths that must not be sent as they were received.
public enum RawPath {
  /// Writes a head with each byte above 0x7F in its path as `%` and two digits.
  public static func encode(_ head: Span<UInt8>, path: Range<Int>, to out: inout ByteBuffer) {
    out.append(head.extracting(0..<path.lowerBound))
    for index in path {
      let byte = head[index]
      if byte < 0x80 {
        out.append(byte)
      } else {
        out.append(UInt8(ascii: "%"))
        out.append(upperCaseDigit(byte >> 4))
        out.append(upperCaseDigit(byte & 0xf))
      }
    }
    out.append(head.extracting(path.upperBound..<head.count))
  }

  /// The hexadecimal digit of a value below 16.
  private static func upperCaseDigit(_ value: UInt8) -> UInt8 { value < 10 ? value + 0x30 : value + 0x37 }
}
