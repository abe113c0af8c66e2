// gRPC: calls over HTTP/2 whose outcome is in the trailers. The proxy needs to know two things. A call cannot be sent
// over HTTP/1.1, which gRPC does not use, and the proxy's own responses must be readable for gRPC programs.
// (PROTOCOL-HTTP2.md of gRPC; statuses: gRPC's core concepts.) Tests: GRPCTests.

import Bytes
import HTTP1
import Policy

extension Exchange {
  mutating func noteGRPC(_ bytes: Span<UInt8>, _ fields: FieldSection) {
    if let type = fields.only(.contentType), GRPC.isType(bytes.extracting(type)) { noteGRPC() }
  }

  /// The same for a head that is refused, of which `bytes` are all or the beginning. Its fields may not have been read.
  mutating func noteRefusedGRPC(_ bytes: Span<UInt8>) { if GRPC.isAsked(inHead: bytes) { noteGRPC() } }

  /// CONNECT is no call, and a client would take the 200 of a trailers-only response for a tunnel.
  private mutating func noteGRPC() {
    if asked.contains(.isTunnel) { return }
    asked.insert(.isGRPC)
    answerForm = .grpc
  }

  func needsHTTP2(_ outputs: borrowing Outputs) -> Problem {
    Problem(
      .protocolNotOffered,
      "\(destination(outputs)) speaks HTTP/1.1 here, and a gRPC call needs HTTP/2 all the way to its server.",
      difference: Difference(expected: HTTPProtocol.http2.rawValue, seen: HTTPProtocol.http11.rawValue))
  }
}

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
