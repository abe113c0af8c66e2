// Content that goes into frames from where its writer has it, against content that waits in its stream as a copy.

import Bytes
import HTTP1
import TestSupport
import Testing

@testable import HTTP2

struct LentContentTests {
  /// A response of this framing in pieces of any size, most of them lent, with windows that close on the way.
  @Test(arguments: ["Content-Length: 400000\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close\r\n"], 0..<6)
  func whatIsLentArrives(_ framing: String, _ seed: Int) throws {
    let pair = try #require(Pair())
    var random = SeededGenerator(seed: UInt64(seed))
    let (asked, served) = try exchange(pair, framing)
    let isChunked = framing.contains("chunked")
    let content = (0..<400_000).map { _ in UInt8.random(in: 97...122, using: &random) }
    var received = ""
    var at = 0
    while at < content.count {
      while served.room == 0 {
        pair.run()
        received += pair.read(asked)
      }
      let count = min(content.count - at, Int.random(in: 1...40_000, using: &random))
      if isChunked { try write("\(String(count, radix: 16))\r\n", to: served, pair) }
      try write(String(decoding: content[at..<at + count], as: UTF8.self), to: served, pair)
      if isChunked { try write("\r\n", to: served, pair) }
      at += count
    }
    if isChunked { try write("0\r\n\r\n", to: served, pair) }
    served.leave()
    for _ in 0..<100 {
      pair.run()
      received += pair.read(asked)
    }
    #expect(asked.isClosed && !asked.isBroken && pair.server.openStreams == 0)
    #expect(contentOf(received) == String(decoding: content, as: UTF8.self))
  }

  @Test func whatWindowsTakeLeavesAtOnce() throws {
    let pair = try #require(Pair())
    let (asked, served) = try exchange(pair, "Content-Length: 40000\r\n")
    let room = served.room
    var output = ByteBuffer()
    #expect(served.write(Array(repeating: 0x78, count: 20_000).span, into: &output, now: 0))
    let sent = output.count
    #expect(sent > 20_000 && served.room == room, "nothing waits")
    _ = pair.client.receive(output.bytes, now: 0)
    #expect(contentOf(pair.read(asked)).utf8.count == 20_000)
    var last = ByteBuffer()
    #expect(served.write(Array(repeating: 0x78, count: 20_000).span, into: &last, now: 0))
    _ = pair.client.receive(last.bytes, now: 0)
    #expect(asked.isClosed && !asked.isBroken, "its last frame ends the message")
  }

  @Test func whatWindowsDoNotTakeWaits() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    let served = try pair.answering(peer, window: 1000, length: 20_000)
    pair.drain()
    let room = served.room
    var output = ByteBuffer()
    #expect(served.write(Array(repeating: 0x78, count: 20_000).span, into: &output, now: 0))
    let sent = output.count
    #expect(sent == 1000 + FrameScanner.headBytes && served.room == room - 19_000)
    // All the rest at once.
    pair.server.receiveAll(peer.frame(8, 0, 1, [0, 0, 0x7f, 0xff]))
    var rest = ByteBuffer()
    pair.server.takeOutput(&rest, now: 0)
    let left = rest.count
    #expect(left == 19_000 + 2 * FrameScanner.headBytes && served.room == room)
  }

  @Test func aStreamThatIsResetTakesNothingMore() throws {
    let pair = try #require(Pair())
    let (asked, served) = try exchange(pair, "Content-Length: 1000000\r\n")
    asked.reset(.cancel)
    pair.run()
    var output = ByteBuffer()
    #expect(!served.write(Array(repeating: 0x78, count: 20_000).span, into: &output, now: 0))
    let sent = output.count
    #expect(sent == 0)
  }

  /// A request that has been asked and read, and the head of its response, which has been received.
  private func exchange(_ pair: Pair, _ framing: String) throws -> (HTTP2Stream, HTTP2Stream) {
    let asked = pair.client.open()
    #expect(pair.write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", to: asked))
    pair.run()
    let served = try #require(pair.served.first)
    _ = pair.read(served)
    #expect(pair.write("HTTP/1.1 200 OK\r\n\(framing)\r\n", to: served))
    pair.run()
    return (asked, served)
  }

  private func write(_ text: String, to served: HTTP2Stream, _ pair: Pair) throws {
    var output = ByteBuffer()
    try #require(served.write(Array(text.utf8).span, into: &output, now: 0))
    if !output.isEmpty { _ = pair.client.receive(output.bytes, now: 0) }
  }

  /// The content of a response as the client reads it, of any framing.
  private func contentOf(_ text: String) -> String {
    let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2 else { return "no head: \(text.prefix(100))" }
    guard parts[0].lowercased().contains("chunked") else { return String(parts[1]) }
    // Its content has no digit and no line end.
    let lines = parts[1].split(separator: "\r\n")
    return lines.enumerated().filter { $0.offset % 2 == 1 }.map { String($0.element) }.joined()
  }
}
