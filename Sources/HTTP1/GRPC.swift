// The media type of gRPC (PROTOCOL-HTTP2.md): `application/grpc`, optionally with `+` and the format of the messages.
// gRPC-Web is a different type, for HTTP/1.1.

import Bytes

public enum GRPC {
  public static func isType(_ value: Span<UInt8>) -> Bool {
    guard value.count >= 16, value.equals(0..<16, ignoringCase: "application/grpc") else { return false }
    return value.count == 16 || value[16] == 0x2b || value[16] == 0x3b || value[16] == 0x20
  }

  /// Whether a Content-Type among the whole lines of a head says so. The head may be malformed elsewhere, or cut short.
  public static func isAsked(inHead bytes: Span<UInt8>) -> Bool {
    var from = 0
    while let end = bytes.firstIndex(of: 0x0a, from: from) {
      let line = from..<end
      from = end + 1
      // What comes after the head is no part of it.
      if line.isEmpty || line.count == 1 && bytes[line.lowerBound] == 0x0d { return false }
      guard let colon = bytes.extracting(line).firstIndex(of: 0x3a).map({ line.lowerBound + $0 }),
        bytes.equals(line.lowerBound..<colon, ignoringCase: "content-type")
      else { continue }
      var value = colon + 1
      while value < end, bytes[value].isBlank { value += 1 }
      var last = end
      while last > value, bytes[last - 1] == 0x0d { last -= 1 }
      return isType(bytes.extracting(value..<last))
    }
    return false
  }
}
