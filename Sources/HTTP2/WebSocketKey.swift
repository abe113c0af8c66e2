// What a WebSocket client shows its server on HTTP/1.1 (RFC 6455, 4.1): sixteen random bytes in Base64. HTTP/2 has no
// such key, so the proxy makes one up and checks the server's proof of it (Session/Response/WebSocketProof.swift).
// Tests: test_http2.py.

import Bytes

enum WebSocketKey {
  static func random() -> [UInt8] {
    var source = SystemRandomNumberGenerator()
    return Base64.encode((0..<16).map { _ in source.next() })
  }

  static let field: StaticString = "sec-websocket-key"

  /// What a server shows a client to prove that it has read `key` (4.2.2).
  static func proof(of key: [UInt8], _ sha1: ([UInt8]) -> [UInt8]) -> [UInt8] {
    Base64.encode(sha1(key + Array("258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8)))
  }
}
