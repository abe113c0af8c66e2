// Paths with bytes above 0x7F as they are, which RFC 3986 does not allow and curl sends for `http://host/查询`.
//
// Where no rule says `encode_path = true` such a head is refused like any other that is malformed. Where one does, the path
// is percent-encoded before anything else is done, and the head is read again: rules match it, and readings of it are made,
// as of any path that came so, and it is what leaves. Only then, when it is known which rule decides, is the request refused
// unless that rule takes such paths: none is chosen by bytes that another reader would see. Tests: RawPathTests.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// `headBytes` of `bytes` are a head whose path holds bytes above 0x7F.
  mutating func beginEncoded(
    _ bytes: Span<UInt8>, headBytes: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    var head = ByteBuffer()
    RawPath.encode(bytes.extracting(0..<headBytes), path: workspace.request.path, to: &head)
    switch workspace.request.read(head.bytes, limits: headLimits, isInTunnel: interior != nil) {
    case .complete(let count):
      return begin(head.bytes, headBytes: count, received: headBytes, isEncoded: true, now: now, &workspace, &outputs)
    // Only longer than it may be: there is nothing else in it that was not read before.
    case .incomplete, .invalid:
      return refuse(
        Problem(.headTooLarge, "The request \(MessageFault.headTooLarge.sentence) once its path is percent-encoded."),
        bytesIn: bytes.count, &workspace, &outputs)
    }
  }

  /// What a request with such a path is told where its rule does not take it.
  static let rawPath = Problem(
    .malformedRequest,
    "The request has bytes above 0x7F in its path, where they must be percent-encoded; the rule that decides it has no "
      + "encode_path = true.")
}
