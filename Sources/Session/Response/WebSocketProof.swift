// A WebSocket that a client opens on a stream of HTTP/2 (RFC 8441) goes on as Upgrade on HTTP/1.1. There the proxy is
// the client: it has made the key up, and must not open the tunnel to a server that does not prove to have read it (RFC
// 6455, 4.1). A client of HTTP/1.1 brings its own key, and checks the proof itself. Tests: test_http2.py.

import Bytes
import HTTP1
import Policy
import Security

struct WebSocketProof {
  /// The key that was made up for the request; empty: the client has one of its own, or asks for no WebSocket.
  private var key: [UInt8] = []

  init() {}

  /// Of a request on a stream of HTTP/2.
  init(_ bytes: Span<UInt8>, _ fields: FieldSection) {
    for index in fields.lines.indices
    where bytes.equals(fields.lines[index].name, ignoringCase: WebSocketKey.field) {
      key = bytes.extracting(fields.lines[index].value).array
    }
  }

  /// Why a 101 opens no tunnel; nil: it does.
  func fault(_ bytes: Span<UInt8>, _ fields: FieldSection, by respondent: String) -> Problem? {
    if key.isEmpty { return nil }
    let expected = WebSocketKey.proof(of: key, sha1)
    let proofs = fields.lines.indices.filter { index in
      bytes.equals(fields.lines[index].name, ignoringCase: WebSocketKey.proofField)
    }
    if proofs.count == 1, bytes.extracting(fields.lines[proofs[0]].value).equals(expected.span) { return nil }
    let seen =
      proofs.count == 1 ? bytes.extracting(fields.lines[proofs[0]].value).string : "\(proofs.count) such fields"
    return Problem(
      .malformedResponse,
      "\(respondent) switched to WebSocket without the Sec-WebSocket-Accept that proves that it has read the key.",
      difference: Difference(expected: expected.span.string, seen: seen))
  }
}
