// TLS over a stream of another connection: OpenSSL reads and writes the stream as it would a socket.
// Tests: test_http2_parents.py.

import Bytes
import COpenSSL

@safe
final class StreamBridge {
  private let stream: any CarriedStream

  init(_ stream: any CarriedStream) { self.stream = stream }

  /// Puts `ssl` on the stream. It refers to the bridge from then on, without keeping it. false: memory is short.
  func carry(_ ssl: OpaquePointer) -> Bool {
    unsafe cossl_set_stream(
      ssl, Unmanaged.passUnretained(self).toOpaque(),
      { owner, into, room in
        guard let owner = unsafe owner, let into = unsafe into else { return ptrdiff_t(COSSL_BROKEN) }
        let bridge = unsafe Unmanaged<StreamBridge>.fromOpaque(owner).takeUnretainedValue()
        return unsafe bridge.read(UnsafeMutableBufferPointer(start: into, count: room))
      },
      { owner, from, count in
        guard let owner = unsafe owner else { return ptrdiff_t(COSSL_BROKEN) }
        let bridge = unsafe Unmanaged<StreamBridge>.fromOpaque(owner).takeUnretainedValue()
        return unsafe bridge.write(Span(_unsafeElements: UnsafeBufferPointer(start: from, count: count)))
      })
  }

  @unsafe
  private func read(_ room: UnsafeMutableBufferPointer<UInt8>) -> Int {
    var buffer = ByteBuffer()
    buffer.reserve(min(room.count, TLSContext.readAheadBytes))
    switch stream.read(into: &buffer, atMost: room.count) {
    case .moved(let count):
      unsafe UnsafeMutableRawBufferPointer(room).copyMemory(from: buffer.unsafeReadable)
      return count
    case .wouldBlock: return Int(COSSL_LATER)
    case .ended: return 0
    case .failed: return Int(COSSL_BROKEN)
    }
  }

  private func write(_ bytes: Span<UInt8>) -> Int {
    switch stream.write(ByteBuffer(), then: bytes) {
    case .moved(let count): count
    case .wouldBlock: Int(COSSL_LATER)
    case .ended, .failed: Int(COSSL_BROKEN)
    }
  }
}
