// One stream: a request and its response, each read and written in the spelling of HTTP/1.1.
//
//   peer ── HEADERS, DATA, trailers ──► FieldBlock ──► text that `read` gives
//   peer ◄── HEADERS, DATA, trailers ── OutgoingMessage ◄── text that `write` takes
//
// Whoever serves the stream sees a connection that carries one exchange. Windows open as text is read; `write` takes no
// more once as much content waits as the peer's window leaves unsent.
//
// Tests: HTTP2Tests.

import Bytes
import HTTP1

public final class HTTP2Stream {
  /// 0 until its request has left.
  public private(set) var number: Int32
  /// Parted from when the stream is over, or the connection is: see `HTTP2Connection.broken`.
  let connection: HTTP2Connection
  /// What the peer says, as HTTP/1.1, and has not been read.
  private var incoming = ByteBuffer()
  private var framing = ContentFraming.none
  /// The final head of the peer has come.
  private var hasHead = false
  /// The peer's message is whole.
  private var isWhole = false
  /// The peer has said that it says nothing more.
  private(set) var isEndedByPeer = false
  /// Content of `incoming` for which the window is still closed, in bytes.
  private var unread = 0
  private var outgoing: OutgoingMessage
  /// Of a request for which the peer's limit has no place yet.
  private var held = ByteBuffer()
  private var isWaiting = false
  /// How the stream ended, where it did not end in order.
  public private(set) var resetCode: ErrorCode? = nil
  /// It is in no table any more.
  public private(set) var isClosed = false
  /// When content of ours moved last, in milliseconds of the connection's clock.
  private var movedAt: Int64 = 0
  /// Nobody serves it any more: what waits is sent, and what comes is dropped.
  private var isLeft = false
  /// It stands in the list of those that something happened to.
  var isTouched = false
  /// Whoever serves it.
  public var server: AnyObject? = nil
  /// Whether somebody has begun to serve it.
  public var isServed = false

  init(number: Int32, _ connection: HTTP2Connection) {
    self.number = number
    self.connection = connection
    outgoing = OutgoingMessage(isRequest: connection.role == .client)
  }

  // MARK: For whoever serves it

  /// Bytes that `read` has to give.
  public var readable: Int { incoming.count }
  /// Whether a reader finds the end: only a tunnel ends so.
  public var isEnded: Bool { isWhole && framing == .tunnel && incoming.isEmpty }
  /// Whether it was broken off.
  public var isBroken: Bool { resetCode != nil || connection.isGone && !isClosed }
  /// Whether nothing of it was done, so that it may be tried again (RFC 9113, 8.7).
  public var wasRefused: Bool { resetCode == .refusedStream && !hasHead }
  /// How much of content `write` takes before it rests, in bytes.
  public var room: Int { max(0, ConnectionLimits.waitingContent - outgoing.content.count - held.count) }

  /// Moves text into the tail of `buffer`: how many bytes.
  public func read(into buffer: inout ByteBuffer) -> Int {
    let count = min(buffer.tailRoom, incoming.count)
    if count == 0 { return 0 }
    buffer.append(incoming.bytes.extracting(first: count))
    incoming.consume(count)
    let taken = incoming.isEmpty ? unread : min(unread, count)
    if taken > 0 {
      unread -= taken
      connection.consumed(taken, of: self)
    }
    if incoming.isEmpty, incoming.capacity > Self.keptBytes { incoming = ByteBuffer() }
    return count
  }

  /// Memory for text that a stream keeps between reads, in bytes.
  private static let keptBytes = 4 << 10

  /// Takes all of `text`; false: it is broken off, and takes nothing any more.
  public func write(_ text: Span<UInt8>) -> Bool {
    if isBroken { return false }
    guard !isClosed else { return outgoing.isWhole }
    if number == 0, isWaiting || !connection.hasPlace(for: self) {
      if !isWaiting { connection.wait(self) }
      isWaiting = true
      held.append(text)
      return true
    }
    if outgoing.take(text, connection, self) { return true }
    connection.reset(self, .internalError)
    return false
  }

  /// Whoever serves it says nothing more in a tunnel.
  public func endTunnel() { if outgoing.endTunnel(), number != 0 { connection.resume(self) } }

  /// Whoever serves it is done: what waits still leaves. A message that is not whole is broken off.
  public func leave() {
    if isLeft { return }
    isLeft = true
    movedAt = connection.now
    discardIncoming()
    if isClosed { return }
    endTunnel()
    if number == 0 || !outgoing.isWhole { return reset(connection.role == .client ? .cancel : .internalError) }
    if isWhole { return }
    // What is left of a request is of no use once it is answered (RFC 9113, 8.1).
    if connection.role == .client { reset(.cancel) } else { connection.endOnceSent(self) }
  }

  /// Breaks it off.
  public func reset(_ code: ErrorCode) {
    isLeft = true
    discardIncoming()
    if isClosed { return }
    connection.reset(self, code)
  }

  private func discardIncoming() {
    incoming = ByteBuffer()
    if unread > 0 { connection.consumed(unread, of: self) }
    unread = 0
  }

  // MARK: For the connection

  func opened(_ number: Int32) { self.number = number }

  /// There is a place for the request now.
  func admit() {
    isWaiting = false
    var text = ByteBuffer()
    swap(&text, &held)
    if !outgoing.take(text.bytes, connection, self) { connection.reset(self, .internalError) }
  }

  /// A field section is whole. false: the message is malformed.
  func received(_ block: inout FieldBlock, ends: Bool) -> Bool {
    if isLeft { return true }
    if hasHead {
      if framing == .chunked { block.writeTrailers(to: &incoming) }
      framing = framing == .chunked ? .none : framing
      return true
    }
    let limits = connection.limits.head
    if connection.role == .server {
      guard let framing = block.writeRequest(ends: ends, limits, to: &incoming) else { return false }
      hasHead = true
      self.framing = framing
      outgoing.isToHead = block.isHead
      outgoing.isToConnect = framing == .tunnel
    } else if let proof = outgoing.webSocketProof, block.isGranted {
      block.writeSwitch(proof, limits, to: &incoming)
      framing = .tunnel
      hasHead = true
    } else {
      framing = block.writeResponse(ends: ends, isToHead: outgoing.isHead, limits, to: &incoming)
      hasHead = !block.isInformational
    }
    return true
  }

  func received(_ content: Span<UInt8>) {
    if isLeft || framing == .none { return connection.consumed(content.count, of: self) }
    unread += content.count
    if framing == .chunked { incoming.append(chunkSize: content.count) }
    incoming.append(content)
    if framing == .chunked { incoming.append("\r\n") }
  }

  /// The peer's message is whole.
  func receivedEnd() {
    isWhole = true
    isEndedByPeer = true
    if framing == .chunked, !isLeft { incoming.append("0\r\n\r\n") }
    if framing != .tunnel { framing = .none }
  }

  /// The stream is over.
  func closed(_ code: ErrorCode) {
    isClosed = true
    if code != .noError || !isWhole || !outgoing.isSent { resetCode = resetCode ?? code }
  }

  func wasReset(_ code: ErrorCode) { resetCode = resetCode ?? code }

  func wasResetByPeer(_ code: ErrorCode) {
    wasReset(code)
    isEndedByPeer = true
  }

  /// Our message is out.
  var isAnswered: Bool { outgoing.isSent }
  /// Nobody serves it any more, and the peer does not take what is left.
  func isStuck(since: Int64) -> Bool { isLeft && !isClosed && !outgoing.isSent && movedAt <= since }

  /// Gives content to a frame. See `cng_events.more`.
  func give(_ room: Int, _ body: (Span<UInt8>) -> Void) -> OutgoingMessage.Given {
    let waited = outgoing.content.count
    let given = outgoing.give(room, body)
    // Whoever waits for room is told once, when half of it is there.
    let half = ConnectionLimits.waitingContent / 2
    if outgoing.content.count < waited {
      movedAt = connection.now
      connection.explain()
    }
    if waited >= half, outgoing.content.count < half { connection.touch(self) }
    return given
  }

  func writeTrailers() { outgoing.submitTrailers(connection, self) }
}

extension ByteBuffer {
  /// The size line of a chunk (RFC 9112, 7.1).
  mutating func append(chunkSize count: Int) {
    append(hexadecimal: UInt64(count))
    append("\r\n")
  }
}
