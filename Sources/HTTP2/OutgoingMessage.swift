// A message that is sent on a stream: its HTTP/1.1 text comes in, fields and content go out.

import Bytes
import CNGHTTP2
import HTTP1

@safe
struct OutgoingMessage: ~Copyable {
  private enum Place {
    case head
    case length(remaining: UInt64)
    case chunked(ChunkedDecoder)
    case trailers
    case tunnel
    case whole
  }

  enum Given {
    case deferred
    case some(Int)
    case last(Int)
    case lastBeforeTrailers(Int)
  }

  /// What matters of a method.
  enum Method {
    case other, head
    /// Of a request: for a tunnel to another host. Of an answer: with a protocol (RFC 8441).
    case connect
  }

  private let isRequest: Bool
  private var place = Place.head
  /// Text that cannot be read before more of it arrives.
  private var partial = ByteBuffer()
  /// Content that has not been sent.
  private(set) var content = ByteBuffer()
  /// Content that is sent from where its writer has it. Only between `lend` and `endLoan`, when `content` is empty.
  private var loan: UnsafeBufferPointer<UInt8>? = nil
  /// The trailer section as written, to its last line end; empty if none of it is sent.
  private var trailers = ByteBuffer()
  /// The method of the request that it is, or that it answers.
  var method = Method.other
  /// For a request that opens a WebSocket: what the client expects from a server that has read its key.
  private(set) var webSocketProof: [UInt8]? = nil
  /// A frame asked for content when there was none.
  private var isAwaited = false
  /// The last of the message is in a frame.
  private(set) var isSent = false

  init(isRequest: Bool) { self.isRequest = isRequest }

  /// Content waits to be sent.
  var hasContent: Bool { unsafe !content.isEmpty || !(loan?.isEmpty ?? true) }
  var isWhole: Bool { if case .whole = place { true } else { false } }
  /// The head of the request, or of the final response, has been taken.
  var hasHead: Bool { if case .head = place { false } else { true } }

  // MARK: Text in

  /// false: the text is not a message, or the library rejects it.
  mutating func take(_ text: Span<UInt8>, _ connection: HTTP2Connection, stream: HTTP2Stream) -> Bool {
    if partial.isEmpty { return takeAll(text, connection, stream: stream) }
    var joined = ByteBuffer()
    swap(&joined, &partial)
    joined.append(text)
    return takeAll(joined.bytes, connection, stream: stream)
  }

  private mutating func takeAll(
    _ text: Span<UInt8>, _ connection: HTTP2Connection, stream: HTTP2Stream
  ) -> Bool {
    var at = 0
    while at < text.count {
      switch place {
      case .head:
        let rest = text.extracting(at..<text.count)
        switch isRequest
          ? takeRequest(rest, connection, stream: stream) : takeResponse(rest, connection, stream: stream)
        {
        case .complete(let count): at += count
        case .incomplete:
          partial.append(rest)
          return true
        case .invalid: return false
        }
      case .length(let remaining):
        let count = Int(min(remaining, UInt64(text.count - at)))
        append(text.extracting(at..<at + count), connection)
        at += count
        place = remaining == UInt64(count) ? .whole : .length(remaining: remaining - UInt64(count))
      case .chunked(var decoder):
        switch decoder.next(text, from: at) {
        case .data(let range):
          append(text.extracting(range), connection)
          at = range.upperBound
          place = .chunked(decoder)
        case .needMore(let consumed):
          place = .chunked(decoder)
          partial.append(text.extracting(consumed..<text.count))
          at = text.count
        case .lastChunk(let consumed):
          place = .trailers
          at = consumed
        case .invalid: return false
        }
      case .trailers:
        switch connection.readTrailers(text, from: at) {
        case .complete(let count):
          if connection.scratch.trailers.lines.contains(where: { !$0.isDropped }) {
            trailers.append(text.extracting(at..<count))
          }
          at = count
          place = .whole
        case .incomplete:
          partial.append(text.extracting(at..<text.count))
          at = text.count
        case .invalid: return false
        }
      case .tunnel:
        append(text.extracting(at..<text.count), connection)
        at = text.count
      case .whole: return false
      }
    }
    if isAwaited, !content.isEmpty || isWhole {
      isAwaited = false
      connection.resume(stream)
    }
    return true
  }

  private mutating func append(_ bytes: Span<UInt8>, _ connection: HTTP2Connection) {
    connection.scratch.blocks.lend(&content, bytes.count)
    content.append(bytes)
  }

  private mutating func takeRequest(
    _ text: Span<UInt8>, _ connection: HTTP2Connection, stream: HTTP2Stream
  ) -> HeadProgress {
    // A proxy is asked for a tunnel, an origin never.
    let isConnect = text.count >= 8 && text.equals(0..<8, "CONNECT ")
    let progress = connection.scratch.request.read(text, limits: connection.ownLimits(text), isInTunnel: !isConnect)
    guard case .complete = progress else { return progress }
    if isConnect {
      method = .connect
      place = .tunnel
      return connection.sendRequest(text, stream, hasContent: true) ? progress : .invalid(.badTarget)
    }
    if connection.scratch.request.knownMethod == .head { method = .head }
    if connection.scratch.request.options.upgrade {
      return takeUpgrade(text, progress, connection: connection, stream: stream)
    }
    place = Self.place(of: connection.scratch.request.framing)
    guard connection.sendRequest(text, stream, hasContent: !isWhole) else { return .invalid(.badTarget) }
    isSent = isWhole
    return progress
  }

  /// RFC 8441: Upgrade to WebSocket on HTTP/1.1 is CONNECT with a protocol here. No other protocol comes this way.
  private mutating func takeUpgrade(
    _ text: Span<UInt8>, _ progress: HeadProgress, connection: HTTP2Connection, stream: HTTP2Stream
  ) -> HeadProgress {
    let fields = connection.scratch.request.fields
    let key = fields.lines.indices.first { text.equals(fields.lines[$0].name, ignoringCase: WebSocketKey.field) }
    guard let upgrade = fields.first(.upgrade), text.equals(upgrade, ignoringCase: "websocket"), let key else {
      return .invalid(.badTarget)
    }
    webSocketProof = WebSocketKey.proof(
      of: text.extracting(fields.lines[key].value).array, connection.scratch.sha1)
    place = .tunnel
    return connection.sendRequest(text, stream, tunnel: "websocket", hasContent: true)
      ? progress : .invalid(.badTarget)
  }

  private mutating func takeResponse(
    _ text: Span<UInt8>, _ connection: HTTP2Connection, stream: HTTP2Stream
  ) -> HeadProgress {
    let progress = connection.scratch.response.read(text, limits: connection.ownLimits(text), toHead: method == .head)
    guard case .complete = progress else { return progress }
    if method == .connect { return takeTunnelAnswer(text, progress, connection: connection, stream: stream) }
    if connection.scratch.response.isInformational {
      return connection.sendInformational(text, stream) ? progress : .invalid(.badStatusLine)
    }
    place = Self.place(of: connection.scratch.response.framing)
    guard connection.sendResponse(text, stream, hasContent: !isWhole) else { return .invalid(.badStatusLine) }
    isSent = isWhole
    return progress
  }

  /// 101 becomes a 2xx (RFC 8441, 5). A 2xx of HTTP/1.1 must not, because its server has not switched protocols.
  private mutating func takeTunnelAnswer(
    _ text: Span<UInt8>, _ progress: HeadProgress, connection: HTTP2Connection, stream: HTTP2Stream
  ) -> HeadProgress {
    let status = connection.scratch.response.status
    if status == 101 {
      place = .tunnel
      return connection.sendResponse(text, stream, status: "200", hasContent: true)
        ? progress : .invalid(.badStatusLine)
    }
    if connection.scratch.response.isInformational { return progress }
    method = .other
    place = Self.place(of: connection.scratch.response.framing)
    let isGranted = (200..<300).contains(status)
    guard connection.sendResponse(text, stream, status: isGranted ? "502" : nil, hasContent: !isWhole) else {
      return .invalid(.badStatusLine)
    }
    isSent = isWhole
    return progress
  }

  private static func place(of framing: BodyFraming) -> Place {
    switch framing {
    case .none, .length(0): .whole
    case .length(let length): .length(remaining: length)
    case .chunked: .chunked(ChunkedDecoder())
    // It ends with the stream, when the writer ends it.
    case .untilClose: .tunnel
    }
  }

  // MARK: Content that is not copied

  /// Whether `count` bytes of text are content and nothing else, and nothing before them waits.
  func isContent(_ count: Int) -> Bool {
    guard content.isEmpty, partial.isEmpty else { return false }
    return switch place {
    case .length(let remaining): remaining >= UInt64(count)
    case .tunnel: true
    default: false
    }
  }

  /// The next frames carry these bytes, for which `isContent` holds. They must stay where they are until `endLoan`.
  @unsafe
  mutating func lend(_ bytes: UnsafeBufferPointer<UInt8>, _ connection: HTTP2Connection, stream: HTTP2Stream) {
    if case .length(let remaining) = place {
      let left = remaining - UInt64(bytes.count)
      place = left == 0 ? .whole : .length(remaining: left)
    }
    unsafe loan = bytes
    if !isAwaited { return }
    isAwaited = false
    connection.resume(stream)
  }

  /// What no frame has taken waits here from now on.
  mutating func endLoan(_ connection: HTTP2Connection) {
    guard let rest = unsafe loan else { return }
    unsafe loan = nil
    if !rest.isEmpty { append(unsafe Span(_unsafeElements: rest), connection) }
  }

  /// Ends the content of a tunnel. Returns whether it was still open.
  mutating func endTunnel() -> Bool {
    guard case .tunnel = place else { return false }
    place = .whole
    isAwaited = false
    return true
  }

  // MARK: Frames out

  /// What the next frame carries: at most `room` bytes, which `send` moves at once.
  mutating func offer(_ room: Int) -> Given {
    let waiting = unsafe content.count + (loan?.count ?? 0)
    let count = min(room, waiting)
    if count == waiting, isWhole {
      isSent = true
      return trailers.isEmpty ? .last(count) : .lastBeforeTrailers(count)
    }
    if count == 0 {
      isAwaited = true
      return .deferred
    }
    return .some(count)
  }

  mutating func send(_ count: Int, to output: inout ByteBuffer, _ connection: HTTP2Connection) {
    if let bytes = unsafe loan {
      output.append(unsafe Span(_unsafeElements: bytes.extracting(..<count)))
      return unsafe loan = bytes.extracting(count...)
    }
    output.append(content.bytes.extracting(first: count))
    content.consume(count)
    if content.isEmpty { connection.scratch.blocks.reclaim(&content) }
  }

  /// The stream is over: nothing more is sent.
  mutating func drop(_ connection: HTTP2Connection) {
    unsafe loan = nil
    content.removeAll()
    connection.scratch.blocks.reclaim(&content)
  }

  mutating func submitTrailers(_ connection: HTTP2Connection, _ stream: HTTP2Stream) {
    if !connection.sendTrailers(trailers.bytes, stream) { connection.reset(stream, .internalError) }
    trailers = ByteBuffer()
  }
}
