// The handshake of WebSocket on HTTP/1.1 (RFC 6455, 4): a client shows a key, and the server proves that it has read
// it. HTTP/2 does without (RFC 8441), so the proxy takes either part where the two meet. Tests: test_http2.py.

import Bytes

public enum WebSocketKey {
  /// The request field with the key, and the response field with the proof.
  public static let field: StaticString = "sec-websocket-key"
  public static let proofField: StaticString = "sec-websocket-accept"

  /// 4.1: sixteen random bytes in Base64.
  public static func random() -> [UInt8] {
    var source = SystemRandomNumberGenerator()
    return Base64.encode((0..<16).map { _ in source.next() })
  }

  /// 4.2.2: what a server answers to `key`.
  public static func proof(of key: [UInt8], _ sha1: ([UInt8]) -> [UInt8]) -> [UInt8] {
    Base64.encode(sha1(key + Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8)))
  }
}
