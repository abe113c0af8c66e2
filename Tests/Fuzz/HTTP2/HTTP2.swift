// Fuzzes connections of HTTP/2 in both roles: no input may crash, what a stream says does not depend on how its bytes came, and its
// text is one message, whatever the peer wrote into it.
//
// Run: make fuzz. The first byte of the input chooses the role; the rest follows a preface.

import Bytes
import HTTP1
import HTTP2

/// SwiftPM makes `main` of this name.
@_cdecl("FuzzHTTP2_main")
public func fuzzHTTP2Main(
  _ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
) -> CInt {
  var count = count
  var arguments = arguments
  return runFuzzer(&count, &arguments, fuzzHTTP2)
}

@_extern(c, "LLVMFuzzerRunDriver")
func runFuzzer(
  _ count: UnsafeMutablePointer<CInt>,
  _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?>,
  _ one: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzHTTP2(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let data, count > 1 else { return 0 }
  let bytes = Array(UnsafeBufferPointer(start: data + 1, count: count - 1))
  let isServer = data[0] & 1 == 0
  let whole = run(bytes, isServer: isServer, step: bytes.count)
  let split = run(bytes, isServer: isServer, step: 1 + Int(data[0] >> 1) % 7)
  for (number, text) in whole {
    if isServer { check(text) }
    // A connection that ends within a piece has said no less of its streams.
    guard let other = split[number].map(unchunked) else { continue }
    let text = unchunked(text)
    // The key of WebSocket is another each time.
    if String(decoding: text, as: UTF8.self).contains("sec-websocket-key") { continue }
    if !other.starts(with: text), !text.starts(with: other) {
      fatalError("stream \(number) reads differently in pieces: \(text) and \(other)")
    }
  }
  return 0
}

/// The text without the sizes of chunks, which say how the content came.
private func unchunked(_ text: [UInt8]) -> [UInt8] {
  let coding = Array("transfer-encoding: chunked\r\n\r\n".utf8)
  guard let begin = (0..<max(0, text.count - coding.count + 1)).first(where: { text[$0...].starts(with: coding) })
  else {
    return text
  }
  var at = begin + coding.count
  var content = Array(text[..<at])
  var decoder = ChunkedDecoder()
  while true {
    switch decoder.next(text.span, from: at) {
    case .data(let range):
      content += text[range]
      at = range.upperBound
    case .lastChunk(let consumed): return content + text[consumed...]
    case .needMore, .invalid: return content
    }
  }
}

/// What each stream said.
private func run(_ bytes: [UInt8], isServer: Bool, step: Int) -> [Int32: [UInt8]] {
  let limits = ConnectionLimits(
    head: HeadLimits(bytes: 4096, fields: 32), streams: 10, extendedConnect: true, linger: 2000)
  guard let connection = HTTP2Connection(isServer ? .server : .client, limits, MessageScratch(sha1: { $0 }), now: 0)
  else {
    return [:]
  }
  var texts: [Int32: [UInt8]] = [:]
  var answered: Set<Int32> = []
  var asked: [HTTP2Stream] = []
  let settings: [UInt8] = [0, 0, 0, 4, 0, 0, 0, 0, 0]
  _ = connection.receive(((isServer ? Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) : []) + settings).span, now: 0)
  if !isServer {
    for text in requests {
      let stream = connection.open()
      _ = stream.write(Array(text.utf8).span)
      asked.append(stream)
    }
  }
  var at = 0
  while at < bytes.count {
    let end = min(bytes.count, at + max(1, step))
    let fault = connection.receive(bytes.span.extracting(at..<end), now: Int64(at))
    at = end
    for stream in connection.takeTouched() {
      var text = ByteBuffer()
      text.reserve(1 << 16)
      while stream.read(into: &text) > 0 { text.reserve(1 << 16) }
      for index in 0..<text.count { texts[stream.number, default: []].append(text.bytes[index]) }
      if isServer, !stream.isBroken, answered.insert(stream.number).inserted {
        _ = stream.write(Array(responses[Int(stream.number) / 2 % responses.count].utf8).span)
        if stream.number % 4 == 1 { stream.leave() }
      }
    }
    var output = ByteBuffer()
    connection.takeOutput(&output, now: 0)
    if fault != nil || connection.isOver { break }
  }
  connection.broken()
  _ = connection.takeTouched()
  return texts
}

private let requests = [
  "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n",
  "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
  "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\nhello",
  "OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
]

private let responses = [
  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 204 No Content\r\n\r\n",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
  "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nabc",
]

/// A request's text is one message at most: nothing behind it is read as another.
private func check(_ text: [UInt8]) {
  var head = RequestHead()
  guard
    case .complete(let count) = head.read(
      text.span, limits: HeadLimits(bytes: 1 << 20, fields: 10_000), isInTunnel: true, takesRawPath: true)
  else { return }
  switch head.framing {
  case .none where head.options.upgrade: break
  case .none, .length(0): if text.count > count { fatalError("\(text.count - count) bytes behind a head alone") }
  case .length(let length):
    if UInt64(text.count - count) > length { fatalError("more content than \(length) bytes") }
  case .chunked:
    var decoder = ChunkedDecoder()
    var at = count
    while true {
      switch decoder.next(text.span, from: at) {
      case .data(let range): at = range.upperBound
      case .needMore: return
      case .invalid(let fault): fatalError("chunks that are none: \(fault)")
      case .lastChunk(let consumed):
        var fields = FieldSection()
        if case .complete(let end) = TrailerReader.read(
          text.span, from: consumed, limits: HeadLimits(bytes: 1 << 20, fields: 10_000), into: &fields),
          end < text.count
        {
          fatalError("\(text.count - end) bytes behind the trailers")
        }
        return
      }
    }
  case .untilClose: fatalError("a request without end")
  }
}
