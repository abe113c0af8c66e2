// Two ends in memory, and a peer that writes frames by hand.

import Bytes
import HTTP1
import Testing

@testable import HTTP2

final class Pair {
  let client: HTTP2Connection
  let server: HTTP2Connection
  private(set) var served: [HTTP2Stream] = []
  /// In milliseconds.
  var now: Int64 = 0
  static let linger: Int64 = 1000

  /// `streams`: what the server lets be open at once.
  init?(bytes: Int = 1 << 16, fields: Int = 100, streams: Int = 100) {
    let limits = ConnectionLimits(
      head: HeadLimits(bytes: bytes, fields: fields), streams: streams, linger: Self.linger)
    let scratch = MessageScratch(sha1: { $0 })
    guard let client = HTTP2Connection(.client, limits, scratch: scratch, now: 0),
      let server = HTTP2Connection(.server, limits, scratch: scratch, now: 0)
    else { return nil }
    self.client = client
    self.server = server
  }

  /// Connection and streams know one another until it is over.
  deinit {
    for connection in [client, server] {
      connection.broken()
      _ = connection.takeTouched()
    }
  }

  /// Moves bytes until neither side has any more.
  func run(step: Int = .max) {
    while move(from: client, to: server, step) || move(from: server, to: client, step) {}
    for stream in server.takeTouched() where !served.contains(where: { $0 === stream }) { served.append(stream) }
  }

  private func move(from: HTTP2Connection, to: HTTP2Connection, _ step: Int) -> Bool {
    var output = ByteBuffer()
    from.takeOutput(&output, now: now)
    if output.isEmpty { return false }
    var at = 0
    while at < output.count {
      let end = min(output.count, at + min(step, output.count))
      _ = to.receive(output.bytes.extracting(at..<end), now: now)
      at = end
    }
    return true
  }

  /// A request whose content is under way while its answer is sent, and whose server leaves.
  func answeredEarly() throws -> (asked: HTTP2Stream, served: HTTP2Stream) {
    let asked = client.open()
    #expect(write("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nabc", to: asked))
    run()
    let served = try #require(served.last)
    #expect(write("HTTP/1.1 403 No\r\nContent-Length: 1\r\n\r\nx", to: served))
    served.leave()
    run()
    return (asked, served)
  }

  /// What the server says goes nowhere.
  func drain() {
    while true {
      var output = ByteBuffer()
      server.takeOutput(&output, now: 0)
      if output.isEmpty { return }
    }
  }

  /// A stream on which a peer with so large a window for each has asked for something, with the head of the response.
  func answering(_ peer: RawPeer, window: UInt32, length: Int) throws -> HTTP2Stream {
    server.receiveAll(peer.preface)
    let size = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: window >> $0) }
    server.receiveAll(peer.frame(4, 0, 0, [0, 4] + size))
    server.receiveAll(peer.headers(1, peer.request))
    let stream = try #require(server.takeTouched().first)
    _ = read(stream)
    #expect(write("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n", to: stream))
    return stream
  }

  func write(_ text: String, to stream: HTTP2Stream, step: Int = .max) -> Bool {
    let bytes = Array(text.utf8)
    var at = 0
    while at < bytes.count {
      let end = at + min(step, bytes.count - at)
      if !stream.write(bytes.span.extracting(at..<end)) { return false }
      at = end
    }
    return true
  }

  func read(_ stream: HTTP2Stream) -> String {
    var text = ByteBuffer()
    text.reserve(1 << 20)
    while stream.read(into: &text) > 0 {}
    return text.bytes.string
  }
}

extension HTTP2Connection {
  @discardableResult
  func receiveAll(_ bytes: [UInt8]) -> ConnectionFault? { receive(bytes.span, now: 0) }
}

struct RawPeer {
  let request = [(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/")]

  var preface: [UInt8] { Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + frame(4, 0, 0, []) }

  func frame(_ type: UInt8, _ flags: UInt8, _ stream: Int32, _ payload: [UInt8]) -> [UInt8] {
    let count = UInt32(payload.count)
    let number = UInt32(stream)
    var bytes = [16, 8, 0].map { UInt8(truncatingIfNeeded: count >> UInt32($0)) }
    bytes += [type, flags]
    bytes += [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> UInt32($0)) }
    return bytes + payload
  }

  /// Literals without indexing (RFC 7541, 6.2.2).
  func block(_ fields: [(String, String)]) -> [UInt8] {
    var bytes: [UInt8] = []
    for (name, value) in fields {
      bytes.append(0)
      for text in [name, value] { bytes += length(text.utf8.count) + Array(text.utf8) }
    }
    return bytes
  }

  /// RFC 7541, 5.1, with a prefix of seven bits.
  func length(_ count: Int) -> [UInt8] {
    if count < 127 { return [UInt8(count)] }
    var rest = count - 127
    var bytes: [UInt8] = [127]
    while rest >= 128 {
      bytes.append(UInt8(rest & 127 | 128))
      rest >>= 7
    }
    return bytes + [UInt8(rest)]
  }

  func headers(_ stream: Int32, _ fields: [(String, String)], ends: Bool = true) -> [UInt8] {
    frame(1, ends ? 5 : 4, stream, block(fields))
  }

  func data(_ stream: Int32, _ content: String, ends: Bool) -> [UInt8] {
    frame(0, ends ? 1 : 0, stream, Array(content.utf8))
  }
}
