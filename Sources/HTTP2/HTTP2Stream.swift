// One stream: a request and its response, each read and written as HTTP/1.1 text.
//
//   peer ── HEADERS, DATA, trailers ──► FieldBlock ──► text from `read`
//   peer ◄── HEADERS, DATA, trailers ── OutgoingMessage ◄── text for `write`
//
// The stream's server sees a connection that carries one exchange. Windows open as text is read. `room` shrinks as
// content waits for the peer's window.
//
// Tests: HTTP2Tests.

import Bytes
import HTTP1

public final class HTTP2Stream {
  /// 0 until its request has been sent.
  public private(set) var number: Int32
  /// The connection drops its reference once the stream or the connection is over: see `HTTP2Connection.broken`.
  let connection: HTTP2Connection
  /// Text from the peer that has not been read, as HTTP/1.1.
  private var incoming = ByteBuffer()
  private var framing = ContentFraming.none
  /// How much of the peer's message has arrived: its final head, or all of it.
  private enum Arrival { case nothing, head, all }
  private var arrival = Arrival.nothing
  private var hasHead: Bool { arrival != .nothing }
  private var isWhole: Bool { arrival == .all }
  /// The peer has announced that it sends nothing more.
  private(set) var isEndedByPeer = false
  /// Content in `incoming` for which the window has not reopened, in bytes.
  private var unread = 0
  private var outgoing: OutgoingMessage
  /// Text of a request that waits for a place below the peer's stream limit.
  private var held = ByteBuffer()
  private var isWaiting = false
  /// The request that waits asks for a tunnel to another host.
  var isTunnelHeld: Bool { held.begins(with: "CONNECT ") }
  /// How the stream ended, if it did not end normally.
  public private(set) var resetCode: ErrorCode? = nil
  /// Why the peer's message has no head, if that is the peer's doing. What happens to a tunnel that it has granted is
  /// of whoever is behind it.
  public enum Abortion: Equatable {
    /// It sent something that is no message (RFC 9113, 8.1.1).
    case malformed
    /// It reset the stream.
    case reset(ErrorCode)
  }
  public private(set) var abortion: Abortion? = nil
  /// It is no longer in any table.
  public private(set) var isClosed = false
  /// When content of ours last moved, in milliseconds of the connection's clock.
  private var movedAt: Int64 = 0
  /// When its request was sent, by the same clock.
  public private(set) var openedAt: Int64 = 0
  /// Its server has left: what waits is sent, and what arrives is dropped.
  private(set) var isLeft = false
  /// It is in the connection's list of touched streams.
  var isTouched = false
  /// Names of fields of the peer's message that must not be indexed on their way.
  private var neverIndexed: [[UInt8]] = []
  /// The same for our message.
  private(set) var unindexed: [[UInt8]] = []
  /// The other stream of the exchange, as long as both are served.
  private var partner: HTTP2Stream? = nil
  /// What serves it.
  public var server: AnyObject? = nil
  /// Whether serving it has begun.
  public var isServed = false

  init(number: Int32, _ connection: HTTP2Connection) {
    self.number = number
    self.connection = connection
    outgoing = OutgoingMessage(isRequest: connection.role == .client)
  }

  // MARK: For whoever serves it

  /// Bytes that are ready for `read`.
  public var readable: Int { incoming.count }
  /// Whether a reader is at the end. Only a tunnel ends this way.
  public var isEnded: Bool { isWhole && framing == .tunnel && incoming.isEmpty }
  /// Whether it was aborted.
  public var isBroken: Bool { resetCode != nil || connection.isGone && !isClosed }
  /// Whether it has been sent, and the peer's message is not complete.
  public var isUnfinished: Bool { number != 0 && !isClosed && !isWhole && framing != .tunnel }
  /// Whether the peer did nothing of the request, so it may be tried again (RFC 9113, 8.7).
  public var wasRefused: Bool { (resetCode == .refusedStream || asksForHTTP11) && !hasHead }
  /// Whether the peer serves this request on HTTP/1.1 alone (RFC 9113, 7).
  public var asksForHTTP11: Bool { resetCode == .http11Required && !hasHead }
  /// How much content `write` should get before its caller waits, in bytes.
  public var room: Int { max(0, connection.waitingContent - outgoing.content.count - held.count) }

  /// Moves text into the tail of `buffer` and returns how many bytes.
  public func read(into buffer: inout ByteBuffer, atMost most: Int = .max) -> Int {
    let count = min(buffer.tailRoom, most, incoming.count)
    if count == 0 { return 0 }
    buffer.append(incoming.bytes.extracting(first: count))
    incoming.consume(count)
    let taken = incoming.isEmpty ? unread : min(unread, count)
    if taken > 0 {
      unread -= taken
      connection.consumed(taken, of: self)
    }
    if incoming.isEmpty { connection.scratch.blocks.reclaim(&incoming) }
    return count
  }

  /// Accepts all of `text`. false: the stream is aborted, or closed before its message was whole.
  public func write(_ text: Span<UInt8>) -> Bool {
    if isBroken { return false }
    guard !isClosed else { return outgoing.isWhole && text.isEmpty }
    if number == 0, isWaiting || !connection.hasPlace(for: self) {
      if !isWaiting { connection.wait(self) }
      isWaiting = true
      held.append(text)
      return true
    }
    if outgoing.take(text, connection, stream: self) { return true }
    connection.reset(self, .internalError)
    return false
  }

  /// The least content that is worth making its frames at once, in bytes.
  private static let leastLoan = 4 << 10

  /// The same for a caller with the connection's output at hand: content goes into frames there from where it is, as
  /// far as windows are open, instead of waiting here as a copy.
  public func write(_ text: Span<UInt8>, into output: inout ByteBuffer, now: Int64) -> Bool {
    guard text.count >= Self.leastLoan, output.count < ConnectionLimits.output, !isBroken, !isClosed, number != 0,
      outgoing.isContent(text.count)
    else { return write(text) }
    unsafe text.withUnsafeBufferPointer { bytes in
      unsafe outgoing.lend(bytes, connection, stream: self)
      connection.takeOutput(&output, now: now)
      outgoing.endLoan(connection)
    }
    return true
  }

  /// Its server sends nothing more in a tunnel.
  public func endTunnel() { if outgoing.endTunnel(), number != 0 { connection.resume(self) } }

  /// The two serve one exchange: what one peer keeps out of the tables of its connection stays out of the other's (RFC
  /// 7541, 7.1.3).
  public func pair(with other: HTTP2Stream) {
    unpair()
    other.unpair()
    partner = other
    other.partner = self
    other.unindexed = neverIndexed
  }

  private func unpair() {
    partner?.partner = nil
    partner = nil
  }

  /// Its server is done. What waits is still sent. An incomplete message is aborted.
  public func leave() {
    if isLeft { return }
    isLeft = true
    unpair()
    movedAt = connection.now
    discardIncoming()
    if isClosed { return }
    endTunnel()
    if number == 0 || !outgoing.isWhole { return reset(connection.role == .client ? .cancel : .internalError) }
    if isWhole { return }
    // The rest of a message is useless once the other one is complete (RFC 9113, 8.1).
    if connection.role == .client, framing != .tunnel { reset(.cancel) } else { connection.endOnceSent(self) }
  }

  /// Aborts it.
  public func reset(_ code: ErrorCode) {
    isLeft = true
    unpair()
    discardIncoming()
    if isClosed { return }
    connection.reset(self, code)
  }

  private func discardIncoming() {
    incoming.removeAll()
    connection.scratch.blocks.reclaim(&incoming)
    if unread > 0 { connection.consumed(unread, of: self) }
    unread = 0
  }

  // MARK: For the connection

  func opened(_ number: Int32) {
    self.number = number
    openedAt = connection.now
  }

  /// The request has a place now.
  func admit() {
    isWaiting = false
    var text = ByteBuffer()
    swap(&text, &held)
    if !outgoing.take(text.bytes, connection, stream: self) { connection.reset(self, .internalError) }
  }

  /// A field section is complete. false: the message is malformed.
  func received(_ block: inout FieldBlock, ends: Bool) -> Bool {
    if isLeft { return true }
    if !block.neverIndexed.isEmpty {
      for name in block.neverIndexed where !neverIndexed.contains(name) { neverIndexed.append(name) }
      partner?.unindexed = neverIndexed
    }
    if hasHead {
      if framing == .chunked { block.writeTrailers(connection.limits.head, to: &incoming) }
      framing = framing == .chunked ? .none : framing
      return true
    }
    let limits = connection.limits.head
    // Informational heads that nobody has read yet: no more of them than fit a head.
    if block.isInformational, incoming.count > limits.bytes { return false }
    connection.scratch.blocks.lend(&incoming, BufferPool.smallestBlock)
    if connection.role == .server {
      guard let framing = block.writeRequest(ends: ends, limits, to: &incoming) else { return false }
      arrival = .head
      self.framing = framing
      outgoing.method = framing == .tunnel ? .connect : block.isHead ? .head : .other
    } else if let proof = outgoing.webSocketProof, block.isGranted {
      block.writeSwitch(proof, limits, to: &incoming)
      framing = .tunnel
      arrival = .head
    } else if outgoing.method == .connect, block.isGranted {
      block.writeGrant(limits, to: &incoming)
      framing = .tunnel
      arrival = .head
    } else {
      framing = block.writeResponse(ends: ends, isToHead: outgoing.method == .head, limits, to: &incoming)
      if !block.isInformational { arrival = .head }
    }
    return true
  }

  /// The most that the framing of a chunk takes, in bytes: eight digits of its size, and two line ends.
  private static let chunkBytes = 12

  func received(_ content: Span<UInt8>) {
    if isLeft || framing == .none { return connection.consumed(content.count, of: self) }
    unread += content.count
    connection.scratch.blocks.lend(&incoming, content.count + Self.chunkBytes)
    if framing == .chunked { incoming.append(chunkSize: content.count) }
    incoming.append(content)
    if framing == .chunked { incoming.append("\r\n") }
  }

  /// The peer's message is complete.
  func receivedEnd() {
    arrival = .all
    isEndedByPeer = true
    if framing == .chunked, !isLeft { incoming.append("0\r\n\r\n") }
    if framing != .tunnel { framing = .none }
  }

  /// The stream is over.
  func closed(_ code: ErrorCode) {
    isClosed = true
    outgoing.drop(connection)
    if code != .noError || !isWhole || !outgoing.isSent { resetCode = resetCode ?? code }
  }

  func wasReset(_ code: ErrorCode) { resetCode = resetCode ?? code }

  /// It is reset because of what the peer sent.
  func wasMalformed(_ code: ErrorCode) {
    if resetCode == nil, !hasHead { abortion = .malformed }
    wasReset(code)
  }

  func wasResetByPeer(_ code: ErrorCode) {
    if resetCode == nil, !hasHead { abortion = .reset(code) }
    wasReset(code)
    isEndedByPeer = true
  }

  var isTunnel: Bool { framing == .tunnel }
  /// Our message has been sent.
  var isAnswered: Bool { outgoing.isSent }
  /// The head of the final response has been sent.
  var hasBegunToAnswer: Bool { outgoing.hasHead }
  /// Its server has left, and the peer does not read what remains.
  func isStuck(since: Int64) -> Bool { isLeft && !isClosed && !outgoing.isSent && movedAt <= since }

  /// The content of the next frame. See `cng_events.more`.
  func offer(_ room: Int) -> OutgoingMessage.Given { outgoing.offer(room) }

  /// Appends what was offered to `output`.
  func send(_ count: Int, to output: inout ByteBuffer) {
    let waited = outgoing.content.count
    outgoing.send(count, to: &output, connection)
    movedAt = connection.now
    if count >= ConnectionLimits.leastContent || !outgoing.hasContent { connection.explain(count) }
    // A server that waits for room gets an event when half of the room is free. How much room there is changes with the
    // streams that are open.
    let left = outgoing.content.count
    let half = ConnectionLimits.waitingContent / 2
    let halfOfFew = ConnectionLimits.waitingContentOfFew / 2
    if waited >= half && left < half || waited >= halfOfFew && left < halfOfFew { connection.touch(self) }
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
