// Paths with raw bytes above 0x7F. RFC 3986 does not allow them, and curl sends them for `http://host/查询`.
//
// If no rule says `encode_path = true`, such a head is refused like any other malformed one. Otherwise the path is
// percent-encoded before anything else happens, and the head is read again. Rules match that path, its readings come
// from it, and it is the path that is sent. Only then, when the deciding rule is known, is the request refused unless
// that rule accepts such paths: no rule is chosen by bytes that another reader would not see. Tests: RawPathTests.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// The first `headBytes` of `bytes` are a head whose path contains bytes above 0x7F.
  mutating func beginEncoded(
    _ bytes: Span<UInt8>, headBytes: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    var head = ByteBuffer()
    RawPath.encode(bytes.extracting(0..<headBytes), path: workspace.request.path, to: &head)
    switch workspace.request.read(head.bytes, limits: headLimits, isInTunnel: interior != nil) {
    case .complete(let count):
      return begin(head.bytes, headBytes: count, received: headBytes, isEncoded: true, now: now, &workspace, &outputs)
    // It can only be too long: everything else in it has been read before.
    case .incomplete, .invalid:
      return refuse(
        Problem(.headTooLarge, "The request \(MessageFault.headTooLarge.sentence) once its path is percent-encoded."),
        bytesIn: bytes.count, &workspace, &outputs)
    }
  }

  /// The error for such a path if its rule does not accept it.
  static let rawPath = Problem(
    .malformedRequest,
    "The request has bytes above 0x7F in its path, where they must be percent-encoded; the rule that decides it has no "
      + "encode_path = true.")
}
