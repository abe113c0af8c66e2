// What reading and writing messages needs for a moment. Tests: HTTP2Tests.

import Bytes
import HTTP1

/// Scratch for the message that is being read or written. All connections of a loop share it.
public final class MessageScratch {
  /// What is read from the text that the proxy writes.
  var request = RequestHead()
  var response = ResponseHead()
  var trailers = FieldSection()
  var fields = FieldList()
  /// Memory for what waits in streams.
  var blocks = BufferPool()
  /// For the proof in a WebSocket handshake (RFC 6455, 4.2.2).
  let sha1: ([UInt8]) -> [UInt8]

  public init(sha1: @escaping ([UInt8]) -> [UInt8]) { self.sha1 = sha1 }
}
