// What a client of WebSocket shows its server on HTTP/1.1 (RFC 6455, 4.1): sixteen random bytes in Base64. HTTP/2 needs none, so
// that the proxy makes one up, and the server's proof stays with it. Tests: test_http2.py.

import Bytes

struct WebSocketKey {
  private let high: UInt64
  private let low: UInt64

  static func random() -> WebSocketKey {
    var source = SystemRandomNumberGenerator()
    return WebSocketKey(high: source.next(), low: source.next())
  }

  func write(to out: inout ByteBuffer) {
    let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    // 128 bits are 21 digits of six and one of two.
    for digit in 0..<22 {
      let value = digit < 10 ? high >> UInt64(58 - 6 * digit) : digit == 21 ? low << 4 : spread(digit)
      unsafe out.append(alphabet.utf8Start[Int(value & 63)])
    }
    out.append("==")
  }

  /// Digits that reach over the border of the halves, or lie in the lower one.
  private func spread(_ digit: Int) -> UInt64 {
    let end = 6 * digit + 6 - 64
    return end < 6 ? high << UInt64(end) | low >> UInt64(64 - end) : low >> UInt64(64 - end)
  }
}
