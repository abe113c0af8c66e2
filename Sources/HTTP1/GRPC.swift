// The media type of gRPC (PROTOCOL-HTTP2.md): `application/grpc`, optionally with `+` and the format of the messages.
// gRPC-Web is a different type, for HTTP/1.1.

import Bytes

public enum GRPC {
  public static func isType(_ value: Span<UInt8>) -> Bool {
    guard value.count >= 16, value.equals(0..<16, ignoringCase: "application/grpc") else { return false }
    return value.count == 16 || value[16] == 0x2b || value[16] == 0x3b || value[16] == 0x20
  }
}
