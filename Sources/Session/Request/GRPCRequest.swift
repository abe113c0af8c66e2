// gRPC: calls over HTTP/2 whose outcome is in the trailers. The proxy needs to know two things. A call cannot be sent
// over HTTP/1.1, which gRPC does not use, and the proxy's own responses must be readable for gRPC programs.
// (PROTOCOL-HTTP2.md of gRPC; statuses: gRPC's core concepts.) Tests: GRPCTests.

import Bytes
import HTTP1
import Policy

extension Problem {
  /// The status for gRPC programs.
  var grpcStatus: UInt64 {
    let timedOut = kind == .originFailed && status == 504
    return (timedOut ? .deadlineExceeded : kind.row.grpcStatus).rawValue
  }
}

extension ByteBuffer {
  /// Appends a grpc-message: UTF-8, percent-encoded except for printable ASCII without `%`.
  mutating func append(grpcMessage text: String) {
    for byte in text.utf8 {
      if byte >= 0x20, byte < 0x7f, byte != 0x25 {
        append(byte)
      } else {
        append(byte.percentEncoded)
      }
    }
  }
}
