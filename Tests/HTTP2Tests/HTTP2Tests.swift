// Messages over a pair of connections in memory: what one side writes as HTTP/1.1 text is what the other side reads, whole
// and byte by byte.

import Bytes
import HTTP1
import Testing

@testable import HTTP2

@Suite struct MessagesOnStreams {
  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let request: String
    let response: String
    var readRequest: String? = nil
    var readResponse: String? = nil

    var testDescription: String { name }
  }

  static let rows: [Row] = [
    Row(
      name: "GET and an answer with a length",
      request: "GET /a?b HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\n\r\n",
      response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello",
      readRequest: "GET /a?b HTTP/1.1\r\nhost: a.example\r\naccept: */*\r\n\r\n",
      readResponse: "HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 5\r\n\r\nhello"),
    Row(
      name: "a body of known length, and none back",
      request: "POST / HTTP/1.1\r\nHost: a.example:8443\r\nContent-Length: 3\r\n\r\nabc",
      response: "HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n",
      readRequest: "POST / HTTP/1.1\r\nhost: a.example:8443\r\ncontent-length: 3\r\n\r\nabc",
      readResponse: "HTTP/1.1 204 No Content\r\nserver: x\r\n\r\n"),
    Row(
      name: "POST without content says so",
      request: "POST / HTTP/1.1\r\nHost: a.example\r\n\r\n",
      response: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
      readRequest: "POST / HTTP/1.1\r\nhost: a.example\r\ncontent-length: 0\r\n\r\n",
      readResponse: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    Row(
      name: "HEAD has the length of what it has not",
      request: "HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n",
      response: "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n",
      readRequest: "HEAD / HTTP/1.1\r\nhost: a.example\r\n\r\n",
      readResponse: "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n"),
    Row(
      name: "304 too",
      request: "GET / HTTP/1.1\r\nHost: a.example\r\nIf-None-Match: \"a\"\r\n\r\n",
      response: "HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\nETag: \"a\"\r\n\r\n",
      readRequest: "GET / HTTP/1.1\r\nhost: a.example\r\nif-none-match: \"a\"\r\n\r\n",
      readResponse: "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\ncontent-length: 500\r\n\r\n"),
    Row(
      name: "informational answers come first",
      request: "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
      response: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
      readRequest: "GET / HTTP/1.1\r\nhost: a.example\r\n\r\n",
      readResponse: "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx"),
    Row(
      name: "fields of the connection stay behind",
      request:
        "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: X-Mine, TE\r\nX-Mine: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\n\r\n",
      response: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n\r\n",
      readRequest: "GET / HTTP/1.1\r\nhost: a.example\r\nte: trailers\r\nconnection: te\r\n\r\n",
      readResponse: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    Row(
      name: "a gRPC answer that is its head alone",
      request: "POST /s/M HTTP/1.1\r\nHost: a.example\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n",
      response: "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\ngrpc-status: 7\r\nContent-Length: 0\r\n\r\n",
      readRequest:
        "POST /s/M HTTP/1.1\r\nhost: a.example\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n",
      readResponse:
        "HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ngrpc-status: 7\r\ncontent-length: 0\r\n\r\n"),
  ]

  @Test(arguments: rows, [Int.max, 1])
  func areRead(_ row: Row, _ step: Int) throws {
    let pair = try #require(Pair())
    let asked = pair.client.open()
    #expect(pair.write(row.request, to: asked, step: step))
    pair.run(step: step)
    let served = try #require(pair.served.first)
    #expect(pair.read(served) == row.readRequest)
    #expect(pair.write(row.response, to: served, step: step))
    pair.run(step: step)
    #expect(pair.read(asked) == row.readResponse)
    #expect(asked.isClosed && served.isClosed && !asked.isBroken && !served.isBroken)
    #expect(pair.client.openStreams == 0 && pair.server.openStreams == 0)
  }

  @Test(arguments: [Int.max, 1])
  func contentOfUnknownLengthHasItsTrailers(_ step: Int) throws {
    let pair = try #require(Pair())
    let asked = pair.client.open()
    let text =
      "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: 1\r\n\r\n"
    #expect(pair.write(text, to: asked, step: step))
    pair.run(step: step)
    let served = try #require(pair.served.first)
    let seen = pair.read(served)
    #expect(seen.hasPrefix("POST / HTTP/1.1\r\nhost: a.example\r\ntransfer-encoding: chunked\r\n\r\n"), "\(seen)")
    #expect(seen.hasSuffix("\r\n0\r\nx-t: 1\r\n\r\n"), "\(seen)")
    #expect(try content(of: seen) == "abcde")
    let answer =
      "HTTP/1.1 200 OK\r\nTrailer: X-U\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-U: 2\r\n\r\n"
    #expect(pair.write(answer, to: served, step: step))
    pair.run(step: step)
    let back = pair.read(asked)
    #expect(back.hasSuffix("0\r\nx-u: 2\r\n\r\n"), "\(back)")
    #expect(try content(of: back) == "x")
  }

  @Test(arguments: [Int.max, 1])
  func trailersOfTheConnectionStayBehind(_ step: Int) throws {
    for (trailers, read) in [("Keep-Alive: 5\r\n", ""), ("Keep-Alive: 5\r\nX-U: 2\r\n", "x-u: 2\r\n")] {
      let pair = try #require(Pair())
      let asked = pair.client.open()
      #expect(pair.write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", to: asked, step: step))
      pair.run(step: step)
      let served = try #require(pair.served.first)
      let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\(trailers)\r\n"
      #expect(pair.write(answer, to: served, step: step))
      pair.run(step: step)
      let back = pair.read(asked)
      #expect(back.hasSuffix("\r\n1\r\nx\r\n0\r\n\(read)\r\n") && asked.isClosed && !asked.isBroken, "\(back)")
    }
  }

  @Test func contentWithTrailersKeepsThemThoughItHasALength() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    pair.server.receiveAll(
      peer.headers(
        1, peer.request + [("content-type", "application/grpc+proto"), ("content-length", "5")], ends: false))
    pair.server.receiveAll(peer.data(1, "hello", ends: false))
    pair.server.receiveAll(peer.headers(1, [("x-sum", "5")], ends: true))
    let stream = try #require(pair.server.takeTouched().first)
    let seen = pair.read(stream)
    #expect(!seen.contains("content-length") && seen.hasSuffix("5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n"), "\(seen)")
  }

  @Test func crumbsAreOneCookieAgain() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    pair.server.receiveAll(
      peer.headers(1, peer.request + [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]))
    let stream = try #require(pair.server.takeTouched().first)
    #expect(pair.read(stream) == "GET / HTTP/1.1\r\nhost: a.example\r\nx: y\r\ncookie: a=1; b=2; c=3\r\n\r\n")
  }

  /// So that the reader of heads refuses them for what they are.
  @Test func tooManyFieldsStayTooMany() throws {
    let pair = try #require(Pair(fields: 10))
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    pair.server.receiveAll(peer.headers(1, peer.request + Array(repeating: ("cookie", "a=1"), count: 39)))
    let stream = try #require(pair.server.takeTouched().first)
    var head = RequestHead()
    let text = Array(pair.read(stream).utf8)
    #expect(text.count < 1000)
    #expect(
      head.read(text.span, limits: HeadLimits(bytes: 1 << 16, fields: 10), isInTunnel: true)
        == .invalid(.tooManyFields))
  }

  @Test func aHeadThatIsTooLargeStaysTooLarge() throws {
    let pair = try #require(Pair(bytes: 1024))
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    pair.server.receiveAll(
      peer.headers(1, peer.request + (0..<35).map { ("x-\($0)", String(repeating: "v", count: 100)) }))
    let stream = try #require(pair.server.takeTouched().first)
    var head = RequestHead()
    let text = Array(pair.read(stream).utf8)
    #expect(text.count < 2048)
    #expect(
      head.read(text.span, limits: HeadLimits(bytes: 1024, fields: 100), isInTunnel: true) == .invalid(.headTooLarge))
  }

  /// The content of a chunked message.
  private func content(of text: String) throws -> String {
    let bytes = Array(text.utf8)
    let head = try #require((0..<bytes.count - 3).first { Array(bytes[$0..<$0 + 4]) == [13, 10, 13, 10] }) + 4
    var decoder = ChunkedDecoder()
    var content: [UInt8] = []
    var at = head
    while case .data(let range) = decoder.next(bytes.span, from: at) {
      content += bytes[range]
      at = range.upperBound
    }
    return String(decoding: content, as: UTF8.self)
  }
}

@Suite struct MalformedMessages {
  static let good = RawPeer().request

  static let rows: [(name: String, fields: [(String, String)])] = [
    ("an upper-case name", good + [("X-A", "1")]),
    ("a line feed in a value", good + [("x", "a\nb: c")]),
    ("a carriage return in a value", good + [("x", "a\rb")]),
    ("a NUL in a value", good + [("x", "a\0b")]),
    ("a colon in a name", good + [("a:b", "1")]),
    ("a space in a name", good + [("a b", "1")]),
    ("a field of the connection", good + [("connection", "close")]),
    ("a transfer coding", good + [("transfer-encoding", "chunked")]),
    ("an upgrade", good + [("upgrade", "websocket")]),
    ("te that is not trailers", good + [("te", "gzip")]),
    ("a pseudo-header field behind others", [("x", "1")] + good),
    ("a pseudo-header field twice", good + [(":path", "/b")]),
    ("a pseudo-header field that is none", good + [(":version", "1")]),
    ("one of responses", good + [(":status", "200")]),
    ("no method", Array(good.dropFirst())),
    ("no path", good.filter { $0.0 != ":path" }),
    ("no scheme", good.filter { $0.0 != ":scheme" }),
    ("an empty path", good.map { $0.0 == ":path" ? (":path", "") : $0 }),
    ("a space in the path", good.map { $0.0 == ":path" ? (":path", "/a HTTP/1.1\r\nX: y") : $0 }),
    ("a space in the method", good.map { $0.0 == ":method" ? (":method", "GET /x") : $0 }),
    ("a line end in the authority", good.map { $0.0 == ":authority" ? (":authority", "a.example\r\nX: y") : $0 }),
    ("another Host", good + [("host", "b.example")]),
    ("two Hosts", good + [("host", "a.example"), ("host", "a.example")]),
    ("two lengths", good + [("content-length", "1"), ("content-length", "1")]),
    ("CONNECT", [(":method", "CONNECT"), (":authority", "b.example:25")]),
    (
      "a tunnel for h2c",
      [
        (":method", "CONNECT"), (":protocol", "h2c"), (":scheme", "https"), (":path", "/a"),
        (":authority", "a.example"),
      ]
    ),
  ]

  /// RFC 9113, 8.1.1: each is a stream error, and nothing of it is a request.
  @Test(arguments: rows.indices)
  func areReset(_ index: Int) throws {
    let row = Self.rows[index]
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    pair.server.receiveAll(peer.headers(1, row.fields))
    for stream in pair.server.takeTouched() {
      #expect(stream.isBroken || isRefusedAsText(pair.read(stream)), "\(row.name)")
    }
    // The connection serves on.
    pair.server.receiveAll(peer.headers(3, Self.good))
    let next = try #require(pair.server.takeTouched().last)
    #expect(pair.read(next).hasPrefix("GET / HTTP/1.1\r\n"), "\(row.name)")
  }

  /// What the library lets through, the reader of heads refuses.
  private func isRefusedAsText(_ text: String) -> Bool {
    var head = RequestHead()
    let bytes = Array(text.utf8)
    if case .invalid = head.read(bytes.span, limits: HeadLimits(bytes: 1 << 16, fields: 100), isInTunnel: true) {
      return true
    }
    return false
  }

  /// RFC 9113, 5.1 and 5.1.1.
  @Test func streamsThatAreOverStayOver() throws {
    let rows: [(frames: (RawPeer) -> [[UInt8]], code: ErrorCode)] = [
      ({ [$0.headers(5, Self.good), $0.headers(3, Self.good)] }, .protocolError),
      ({ [$0.headers(1, Self.good), $0.headers(1, Self.good)] }, .streamClosed),
      ({ [$0.headers(1, Self.good), $0.data(1, "x", ends: true)] }, .streamClosed),
      (
        { [$0.headers(1, Self.good, ends: false), $0.frame(3, 0, 1, [0, 0, 0, 8]), $0.data(1, "x", ends: true)] },
        .streamClosed
      ),
    ]
    for row in rows {
      let pair = try #require(Pair())
      let peer = RawPeer()
      pair.server.receiveAll(peer.preface)
      var fault: ConnectionFault? = nil
      for frame in row.frames(peer) {
        fault = pair.server.receiveAll(frame)
        for stream in pair.server.takeTouched() where !stream.isBroken {
          _ = pair.read(stream)
          _ = pair.write("HTTP/1.1 204 No Content\r\n\r\n", to: stream)
        }
        pair.drain()
      }
      #expect(fault?.code == row.code)
    }
  }

  @Test func contentThatIsNotAsLongAsItSaysIsReset() throws {
    for (length, content) in [("3", "abcd"), ("5", "abcd")] {
      let pair = try #require(Pair())
      let peer = RawPeer()
      pair.server.receiveAll(peer.preface)
      pair.server.receiveAll(peer.headers(1, peer.request + [("content-length", length)], ends: false))
      pair.server.receiveAll(peer.data(1, content, ends: true))
      let stream = try #require(pair.server.takeTouched().first)
      pair.drain()
      #expect(stream.isBroken)
    }
  }
}

@Suite struct HostilePeers {
  private func flooded(_ frames: (RawPeer, Int32) -> [UInt8], count: Int) throws -> ConnectionFault? {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    for index in 0..<count {
      if let fault = pair.server.receiveAll(frames(peer, Int32(2 * index + 1))) { return fault }
      pair.drain()
      // Some faults end the connection at once.
      if pair.server.isOver { return ConnectionFault(code: .protocolError, detail: "") }
    }
    return nil
  }

  @Test func framesThatMoveNothingEndTheConnection() throws {
    for frames: (RawPeer, Int32) -> [UInt8] in [
      { peer, _ in peer.frame(6, 0, 0, Array(repeating: 0, count: 8)) },
      { peer, _ in peer.frame(4, 0, 0, []) },
      { peer, _ in peer.frame(2, 0, 1, [0, 0, 0, 0, 0]) },
      { peer, _ in peer.frame(8, 0, 0, [0, 0, 0, 1]) },
    ] {
      #expect(try flooded(frames, count: 5000)?.code == .enhanceYourCalm)
      #expect(try flooded(frames, count: 500) == nil)
    }
  }

  @Test func emptyDataEndsTheConnection() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    pair.server.receiveAll(peer.headers(1, peer.request, ends: false))
    var fault: ConnectionFault? = nil
    for _ in 0..<5000 where fault == nil { fault = pair.server.receiveAll(peer.data(1, "", ends: false)) }
    #expect(fault?.code == .enhanceYourCalm)
  }

  /// CVE-2023-44487.
  @Test func streamsThatAreOpenedAndResetEndTheConnection() throws {
    let fault = try flooded(
      { peer, stream in peer.headers(stream, peer.request) + peer.frame(3, 0, stream, [0, 0, 0, 8]) }, count: 5000)
    #expect(fault?.code == .enhanceYourCalm)
  }

  /// CVE-2025-8671.
  @Test(arguments: 0..<4)
  func streamsThatTheProxyIsMadeToResetEndTheConnection(_ index: Int) throws {
    let frames: (RawPeer, Int32) -> [UInt8] = { peer, stream in
      switch index {
      // A window above 2^31 - 1, more content than was announced, a malformed field, and a Host of another server.
      case 0: peer.headers(stream, peer.request, ends: false) + peer.frame(8, 0, stream, [127, 255, 255, 255])
      case 1:
        peer.headers(stream, peer.request + [("content-length", "1")], ends: false)
          + peer.data(stream, "ab", ends: false)
      case 2: peer.headers(stream, peer.request + [("A", "b")])
      default: peer.headers(stream, peer.request + [("host", "b.example")])
      }
    }
    // 200 of them are allowed at once: each counts once.
    #expect(try flooded(frames, count: 200) == nil)
    let fault = try flooded(frames, count: 202)
    #expect(fault?.code == .enhanceYourCalm && fault?.detail.hasPrefix("the peer made the proxy reset") ?? false)
  }

  /// RFC 9113, 6.9.1. Nothing of what is beyond the window is kept.
  @Test func contentBeyondTheWindowEndsItsStream() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    pair.server.receiveAll(peer.headers(1, peer.request, ends: false))
    let stream = try #require(pair.server.takeTouched().first)
    let frame = peer.data(1, String(repeating: "x", count: 16_384), ends: false)
    for _ in 0..<Int(ConnectionLimits.clientWindow) / 16_384 { #expect(pair.server.receiveAll(frame) == nil) }
    pair.drain()
    #expect(pair.server.takeFault() == nil)
    let kept = stream.readable
    pair.server.receiveAll(frame)
    pair.drain()
    #expect(stream.resetCode?.rawValue == 3 && stream.readable == kept)
  }

  /// Each byte of content costs a frame of its own in each direction.
  @Test func windowsOfAFewBytesEndTheConnection() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    let stream = try pair.answering(peer, window: 1, length: 1_000_000)
    while stream.room > 0 { #expect(pair.write(String(repeating: "x", count: 1000), to: stream)) }
    var fault: ConnectionFault? = nil
    var opened = 0
    while fault == nil, opened < 5000 {
      pair.drain()
      fault = pair.server.receiveAll(peer.frame(8, 0, 1, [0, 0, 0, 1]))
      opened += 1
    }
    #expect(fault?.code == .enhanceYourCalm && opened > 900)
  }

  /// What is short by itself may be as short as it likes.
  @Test func contentInSmallPiecesIsExplained() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    let stream = try pair.answering(peer, window: 65_535, length: 5000)
    for _ in 0..<5000 {
      #expect(pair.write("x", to: stream))
      pair.drain()
      for number: Int32 in [0, 1] { #expect(pair.server.receiveAll(peer.frame(8, 0, number, [0, 0, 0, 1])) == nil) }
    }
  }

  @Test func aHeadWithoutEndEndsTheConnection() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    var fault = pair.server.receiveAll(peer.frame(1, 0, 1, peer.block(peer.request)))
    for _ in 0..<100 where fault == nil {
      fault = pair.server.receiveAll(peer.frame(9, 0, 1, peer.block([("x", "y")])))
    }
    #expect(fault?.code == .enhanceYourCalm)
  }

  /// What writes no line of its own counts too: else fields after it would be missing from a head that is accepted.
  @Test(arguments: [("te", "trailers"), ("cookie", "a=b"), ("a", "b")])
  func everyFieldCounts(_ name: String, _ value: String) throws {
    for (count, isTaken) in [(98, true), (99, true), (100, false), (101, false), (300, false)] {
      let pair = try #require(Pair())
      let peer = RawPeer()
      pair.server.receiveAll(peer.preface)
      let fields = Array(repeating: (name, value), count: count) + [("authorization", "Bearer x")]
      pair.server.receiveAll(peer.headers(1, peer.request + fields))
      let text = pair.read(try #require(pair.server.takeTouched().first))
      var head = RequestHead()
      let progress = head.read(
        Array(text.utf8).span, limits: HeadLimits(bytes: 1 << 16, fields: 100 + 2), isInTunnel: true)
      if isTaken {
        #expect(progress == .complete(count: text.utf8.count) && text.contains("authorization: Bearer x"), "\(count)")
      } else {
        let strict = head.read(
          Array(text.utf8).span, limits: HeadLimits(bytes: 1 << 16, fields: 100), isInTunnel: true)
        #expect(strict == .invalid(.tooManyFields), "\(count)")
      }
    }
  }

  /// Two bytes of HPACK can be 64 KiB of text.
  @Test func informationalHeadsThatNobodyReadsHaveABound() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    let stream = pair.client.open()
    let asked = stream.write(Array("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".utf8).span)
    #expect(asked)
    pair.client.receiveAll(peer.frame(4, 0, 0, []))
    let value = String(repeating: "v", count: 3000)
    let status: [UInt8] = [0x00, 7] + Array(":status".utf8) + [3] + Array("103".utf8)
    let literal: [UInt8] = [0x40, 4] + Array("link".utf8) + peer.length(value.utf8.count) + Array(value.utf8)
    pair.client.receiveAll(peer.frame(1, 4, 1, status + literal))
    for _ in 0..<5_000 where !stream.isBroken {
      pair.client.receiveAll(peer.frame(1, 4, 1, status + Array(repeating: 0xbe, count: 20)))
      var output = ByteBuffer()
      pair.client.takeOutput(&output, now: 0)
    }
    #expect(stream.isBroken && stream.readable < 256 << 10)
  }

  @Test func whatTheLibraryFindsIsTold() throws {
    for (frame, reason) in [
      ({ (peer: RawPeer) in peer.frame(0, 0, 0, [1]) }, "DATA"),
      ({ $0.frame(8, 0, 0, [0, 0, 0, 0]) }, "WINDOW_UPDATE"),
      ({ $0.frame(4, 0, 1, []) }, "SETTINGS"),
    ] {
      let pair = try #require(Pair())
      let peer = RawPeer()
      pair.server.receiveAll(peer.preface)
      pair.drain()
      #expect(pair.server.takeFault() == nil)
      #expect(pair.server.receiveAll(frame(peer)) == nil)
      pair.drain()
      let fault = try #require(pair.server.takeFault())
      #expect(fault.code == .protocolError && fault.detail.contains(reason), "\(fault.detail)")
      #expect(pair.server.takeFault() == nil && pair.server.isOver)
    }
  }

  @Test func whatTheProxyEndsItselfIsNoFault() throws {
    let pair = try #require(Pair())
    pair.server.receiveAll(RawPeer().preface)
    pair.server.end(.enhanceYourCalm)
    pair.drain()
    #expect(pair.server.takeFault() == nil && pair.server.isOver)
  }

  /// One byte a field, by a reference to the table: the text stays within the limits.
  /// One byte of HPACK can be thousands of text. However little of it is kept, all of it has to be decoded.
  @Test(
    arguments: [
      (1, 400, nil), (1, 401, .enhanceYourCalm), (3000, 87, nil), (3000, 12_000, .enhanceYourCalm),
    ] as [(Int, Int, ErrorCode?)])
  func aBombOfReferencesEndsItsConnection(_ length: Int, _ count: Int, _ code: ErrorCode?) throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    let value = String(repeating: "v", count: length)
    // With incremental indexing, then references to it.
    let literal: [UInt8] = [0x40, 6] + Array("cookie".utf8) + peer.length(value.utf8.count) + Array(value.utf8)
    let block = peer.block(peer.request) + literal + Array(repeating: 0xbe, count: count - 1)
    let fault = pair.server.receiveAll(peer.frame(1, 5, 1, block))
    #expect(fault?.code == code)
    if code != nil { return #expect(pair.server.takeTouched().isEmpty) }
    let stream = try #require(pair.server.takeTouched().first)
    #expect(stream.readable < 128 << 10)
  }

  /// The connection of an origin or of a parent is shared: its other streams go on, and the reader of the head refuses
  /// it for its size.
  @Test(arguments: ["cookie", "x"]) func aBombOfAnOriginEndsItsStreamAlone(_ name: String) throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.client.receiveAll(peer.frame(4, 0, 0, []))
    let streams = [pair.client.open(), pair.client.open()]
    for stream in streams {
      let asked = stream.write(Array("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".utf8).span)
      #expect(asked)
      var output = ByteBuffer()
      pair.client.takeOutput(&output, now: 0)
    }
    let value = String(repeating: "v", count: 3000)
    let literal: [UInt8] = [0x40, UInt8(name.utf8.count)] + Array(name.utf8) + peer.length(3000) + Array(value.utf8)
    let block = peer.block([(":status", "200")]) + literal + Array(repeating: 0xbe, count: 12_000)
    #expect(pair.client.receiveAll(peer.frame(1, 5, 1, block)) == nil)
    var text = ByteBuffer()
    text.reserve(1 << 20)
    while streams[0].read(into: &text) > 0 {}
    var head = ResponseHead()
    let progress = head.read(text.bytes, limits: HeadLimits(bytes: 1 << 16, fields: 100), toHead: false)
    #expect(progress == .invalid(.headTooLarge) || progress == .invalid(.tooManyFields), "\(progress)")
    #expect(text.count < 128 << 10)
    var output = ByteBuffer()
    pair.client.takeOutput(&output, now: 0)
    #expect(streams[0].isBroken && !streams[0].wasRefused)
    #expect(pair.client.receiveAll(peer.headers(3, [(":status", "204")])) == nil)
    text.removeAll()
    text.reserve(1 << 16)
    while streams[1].read(into: &text) > 0 {}
    #expect(text.bytes.string.hasPrefix("HTTP/1.1 204 "))
  }

  @Test func aPeerThatDoesNotReadHoldsNoMoreThanIsAllowed() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    let stream = try pair.answering(peer, window: 0, length: 1_000_000)
    while stream.room > 0 { #expect(pair.write(String(repeating: "x", count: 1000), to: stream)) }
    pair.drain()
    #expect(stream.room == 0 && !stream.isClosed)
    // The window opens: the rest may follow.
    for number: Int32 in [0, 1] { pair.server.receiveAll(peer.frame(8, 0, number, [0, 1, 255, 255])) }
    pair.drain()
    #expect(stream.room > 0)
    #expect(pair.server.takeTouched().contains { $0 === stream }, "whoever waits for room is told")
  }

  /// However wide its windows are: what was taken from the streams is soon as much again in them.
  @Test func aPeerWithWideWindowsGetsNoMoreAtOnceThanIsWritten() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    pair.server.receiveAll(peer.preface)
    // 16 MiB for each stream and for all of them.
    pair.server.receiveAll(peer.frame(4, 0, 0, [0, 4, 1, 0, 0, 0]))
    pair.server.receiveAll(peer.frame(8, 0, 0, [1, 0, 0, 0]))
    let numbers = (0..<20).map { Int32(2 * $0 + 1) }
    for number in numbers { pair.server.receiveAll(peer.headers(number, peer.request)) }
    var sent = 0
    for stream in pair.server.takeTouched() {
      _ = pair.read(stream)
      #expect(pair.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", to: stream))
      while stream.room > 0 {
        #expect(pair.write(String(repeating: "x", count: 1000), to: stream))
        sent += 1000
      }
    }
    #expect(sent > 10 * ConnectionLimits.output)
    var all = 0
    while true {
      var output = ByteBuffer()
      pair.server.takeOutput(&output, now: 0)
      if output.isEmpty { break }
      #expect(output.count < ConnectionLimits.output + (32 << 10))
      all += output.count
    }
    #expect(all > sent, "each byte leaves, in a frame")
  }

  @Test func aFrameThatWaitsForRoomGoesWithItsConnection() throws {
    let pair = try #require(Pair())
    let peer = RawPeer()
    let stream = try pair.answering(peer, window: 1 << 24, length: 1_000_000)
    pair.server.receiveAll(peer.frame(8, 0, 0, [1, 0, 0, 0]))
    while stream.room > 0 { #expect(pair.write(String(repeating: "x", count: 1000), to: stream)) }
    var output = ByteBuffer()
    pair.server.takeOutput(&output, now: 0)
    #expect(output.count >= ConnectionLimits.output)
    pair.server.broken()
    var rest = ByteBuffer()
    pair.server.takeOutput(&rest, now: 0)
    #expect(rest.count < 100, "no content of a stream that is gone")
  }

  @Test func whatIsLeftIsBrokenOff() throws {
    let pair = try #require(Pair())
    let asked = pair.client.open()
    #expect(pair.write("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", to: asked))
    pair.run()
    let served = try #require(pair.served.first)
    #expect(pair.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", to: served))
    pair.run()
    served.leave()
    pair.run()
    #expect(asked.isBroken && asked.resetCode == .internalError)
  }

  /// The answer first, then time to stop, then what says that the rest is not needed (RFC 9113, 8.1).
  @Test func aRequestThatIsAnsweredMayGoOnForAWhile() throws {
    let pair = try #require(Pair())
    let (asked, served) = try pair.answeredEarly()
    #expect(pair.read(asked).hasSuffix("\r\n\r\nx") && !asked.isBroken)
    #expect(pair.server.lingersUntil == Pair.linger)
    #expect(pair.write("def", to: asked))
    pair.now = Pair.linger - 1
    #expect(!pair.server.endAnswered(now: pair.now))
    pair.run()
    #expect(!served.isClosed && served.readable == 0)
    pair.now += 1
    #expect(pair.server.endAnswered(now: pair.now))
    pair.run()
    #expect(asked.resetCode == .noError && served.isClosed && pair.server.lingersUntil == nil)
  }

  @Test func aRequestThatEndsAfterItsAnswerIsNotReset() throws {
    let pair = try #require(Pair())
    let (asked, served) = try pair.answeredEarly()
    #expect(pair.write("defghij", to: asked))
    pair.run()
    #expect(served.isClosed && asked.resetCode == nil && pair.server.lingersUntil == nil)
    #expect(!pair.server.endAnswered(now: .max))
  }

  @Test func onlySoManyAnsweredRequestsGoOn() throws {
    let pair = try #require(Pair())
    let asked = try (0...ConnectionLimits.mostLingering).map { _ in try pair.answeredEarly().asked }
    #expect(asked.map { $0.resetCode == .noError } == asked.indices.map { $0 == 0 })
  }
}
