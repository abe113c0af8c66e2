// One HTTP/2 connection, without I/O: bytes come in through `receive` and go out through `takeOutput`. `touched` lists
// the streams that something happened to.
//
// libnghttp2 handles frames, HPACK, windows and the states of streams (RFC 9113, 4 to 7). This file decides what a
// message is, how much a peer may ask for and how a stream ends.
//
// Tests: HTTP2Tests.

import Bytes
import CNGHTTP2
import HTTP1

@safe
public final class HTTP2Connection {
  public enum Role: Sendable { case server, client }

  public let role: Role
  public let limits: ConnectionLimits
  private(set) var session: OpaquePointer?
  private var streams: [Int32: HTTP2Stream] = [:]
  /// The one that was looked up last. Most events in a row are about the same stream.
  private var latest: HTTP2Stream? = nil
  /// The field section being received.
  private var block = FieldBlock()
  private var blockStream: HTTP2Stream? = nil
  /// Streams that something happened to since the last `takeTouched`.
  private var touched: [HTTP2Stream] = []
  private var ending = EndingStreams()
  /// The streams that a client opened last.
  private var recent = RecentStreams()
  /// Where `takeOutput` gathers frames.
  private var sink = ByteBuffer()
  /// How much it is likely to hold, in bytes: as much as when it was last filled, and no less than half of before.
  private var outputBytes = BufferPool.smallestBlock
  /// The last frame with content was not the last of its message.
  public private(set) var isWithinContent = false
  let scratch: MessageScratch
  private(set) var now: Int64
  private var resets: Allowance
  private var idleFrames: Allowance
  private var fault: ConnectionFault? = nil
  /// See `takeFault`.
  private var libraryFault: ConnectionFault? = nil
  private enum Life { case open, ending, gone }
  private var life = Life.open
  /// The peer has announced that it accepts no more streams, or we have.
  public var isEnding: Bool { life != .open }
  /// See `broken`.
  var isGone: Bool { life == .gone }
  /// The peer has sent its settings.
  public private(set) var hasSettings = false
  /// A frame from the peer has arrived.
  public private(set) var hasBegun = false
  private var scanner: FrameScanner
  /// A field section has begun and is not complete.
  public var isWithinFields: Bool { awaitsContinuation || isInHeaders && scanner.isWithinFrame }
  private var awaitsContinuation = false
  private var isInHeaders = false

  /// nil if memory is short. `now` is in milliseconds of the caller's clock, here and below.
  public init?(_ role: Role, _ limits: ConnectionLimits, scratch: MessageScratch, now: Int64) {
    self.role = role
    self.scratch = scratch
    self.limits = limits
    self.now = now
    scanner = FrameScanner(preface: role == .server ? FrameScanner.prefaceBytes : 0)
    resets = Allowance((burst: Int64(limits.resets), perSecond: max(1, Int64(limits.resets) / 10)), now: now)
    idleFrames = Allowance(ConnectionLimits.idleFrames, now: now)
    var settings = cng_settings()
    settings.is_server = role == .server
    settings.streams = UInt32(clamping: limits.streams)
    settings.stream_window = role == .server ? ConnectionLimits.clientWindow : ConnectionLimits.originWindow
    settings.connection_window =
      role == .server ? ConnectionLimits.clientConnectionWindow : ConnectionLimits.originConnectionWindow
    settings.header_list = UInt32(clamping: limits.head.bytes)
    settings.extended_connect = limits.extendedConnect
    settings.outbound_acknowledgements = ConnectionLimits.acknowledgements
    // Resets are counted here, and only those before an answer. The library's limit is far above ours.
    settings.reset_burst = UInt64(limits.resets) * 100
    settings.reset_rate = UInt64(limits.resets) * 10
    var events = Self.events
    guard let made = unsafe cng_create(&settings, &events, Unmanaged.passUnretained(self).toOpaque()) else {
      return nil
    }
    unsafe session = made
  }

  deinit { if let session = unsafe session { unsafe cng_destroy(session) } }

  /// What is written to streams next is written at this time.
  public func timeIs(_ now: Int64) { self.now = now }

  /// Asks the peer for a sign of life (RFC 9113, 6.7). Whatever comes next is one.
  public func ping() { if let session = unsafe session { unsafe cng_ping(session) } }

  /// Streams that are open, and those whose request has not been sent.
  public var openStreams: Int { streams.count + pending.count }
  public var isOver: Bool { unsafe session.map { unsafe cng_is_over($0) } ?? true }
  /// Whether another stream may be opened to the peer. One above the peer's limit waits here for its place.
  public var mayOpen: Bool {
    guard role == .client, !isEnding, waiting.count < ConnectionLimits.waitingStreams, let session = unsafe session
    else { return false }
    return unsafe cng_may_open(session)
  }
  var waitingContent: Int {
    openStreams > ConnectionLimits.fewStreams ? ConnectionLimits.waitingContent : ConnectionLimits.waitingContentOfFew
  }
  /// Whether the request of another stream would be sent at once, as far as the peer has announced its limit.
  public var hasFreePlace: Bool {
    guard mayOpen, let session = unsafe session else { return false }
    return openStreams < Int(unsafe cng_peer_streams(session))
  }
  /// Whether the peer accepts tunnels on streams (RFC 8441), as far as it has announced.
  public var takesTunnels: Bool { unsafe session.map { unsafe cng_peer_connects($0) } ?? false }
  /// Streams whose request has not been sent.
  private var pending: [HTTP2Stream] = []
  /// Those of `pending` that have a request to send but no place below the peer's limit. The library does not see them,
  /// so a cancelled one is gone at once, and one that the peer will no longer serve can go elsewhere.
  private var waiting: [HTTP2Stream] = []

  // MARK: Bytes

  /// Reads what has arrived. nil: the connection continues.
  public func receive(_ bytes: Span<UInt8>, now: Int64) -> ConnectionFault? {
    guard let session = unsafe session else { return nil }
    self.now = now
    var at = 0
    while at < bytes.count {
      let next = scanner.next(bytes, from: at)
      let piece = bytes.extracting(at..<(next?.end ?? bytes.count))
      at += piece.count
      // The library reads the earlier frames first, because this one may conflict with them.
      let status = unsafe piece.withUnsafeBufferPointer { unsafe cng_receive(session, $0.baseAddress, $0.count) }
      if let fault = fault(of: status) { return end(fault) }
      if let next, let fault = frameBegins(next.head) { return end(fault) }
    }
    return nil
  }

  private func fault(of status: Int32) -> ConnectionFault? {
    if let fault { return fault }
    if status >= 0 { return nil }
    if status == CNG_FLOODED { return .flooded }
    if status == CNG_CONTINUED_TOO_OFTEN {
      return ConnectionFault(code: .enhanceYourCalm, detail: "the peer sent a head in too many frames")
    }
    let reason = unsafe String(cString: cng_error(status))
    return ConnectionFault(code: .protocolError, detail: "the peer broke the protocol: \(reason)")
  }

  /// A fault that the library has found by itself, and ends the connection for with the output; nil: none since the
  /// last call.
  public func takeFault() -> ConnectionFault? {
    defer { libraryFault = nil }
    return libraryFault
  }

  private func end(_ fault: ConnectionFault) -> ConnectionFault {
    self.fault = fault
    beginToEnd()
    if let session = unsafe session { unsafe cng_end(session, fault.code.rawValue) }
    return fault
  }

  /// Appends frames to `output`, about as much as is written at once. Returns whether there may be more. `dropOutput`
  /// takes the memory back.
  @discardableResult
  public func takeOutput(_ output: inout ByteBuffer, now: Int64) -> Bool {
    guard let session = unsafe session else { return false }
    self.now = now
    scratch.blocks.lend(&output, outputBytes)
    swap(&sink, &output)
    defer {
      if !sink.isEmpty { outputBytes = max(sink.count, outputBytes / 2) }
      swap(&sink, &output)
    }
    while sink.count < ConnectionLimits.output {
      let before = sink.count
      var bytes: UnsafePointer<UInt8>? = nil
      let count = unsafe cng_next_output(session, &bytes)
      // Frames with content are already there.
      if count > 0, let from = unsafe bytes {
        unsafe sink.append(from, count: count)
      } else if sink.count == before, !endAnswered(now: now), !admitWaiting() {
        return false
      }
    }
    return true
  }

  /// Empties what `takeOutput` has filled.
  public func dropOutput(_ output: inout ByteBuffer) {
    output.removeAll()
    scratch.blocks.reclaim(&output)
  }

  /// Whether the peer's limit leaves a place for this stream's request, and no other has waited longer. One request may
  /// go before that limit is known. A second could come to wait in the library, where nothing reaches it.
  func hasPlace(for stream: HTTP2Stream) -> Bool {
    guard hasBegun || streams.isEmpty, let session = unsafe session else { return false }
    return (waiting.isEmpty || waiting[0] === stream) && streams.count < Int(unsafe cng_peer_streams(session))
  }

  /// The stream has a request to send and waits for its place.
  func wait(_ stream: HTTP2Stream) { waiting.append(stream) }

  /// Sends the first waiting request if there is a place for it, and returns whether there was.
  private func admitWaiting() -> Bool {
    guard let first = waiting.first else { return false }
    guard hasPlace(for: first) else { return refuseTunnels() }
    waiting.removeFirst()
    first.admit()
    touch(first)
    return true
  }

  /// The places of tunnels may be taken for days: those that still wait for one go elsewhere.
  private func refuseTunnels() -> Bool {
    for stream in waiting where hasBegun && stream.isTunnelHeld {
      stream.closed(.refusedStream)
      touch(stream)
    }
    waiting.removeAll { $0.isClosed }
    pending.removeAll { $0.isClosed }
    return false
  }

  /// No request that has not been sent will be served here. Each may be sent elsewhere.
  private func refusePending() {
    for stream in pending {
      stream.closed(.refusedStream)
      touch(stream)
    }
    pending = []
    waiting = []
  }

  private func beginToEnd() { if life == .open { life = .ending } }

  private func peerLeaves() {
    beginToEnd()
    refusePending()
  }

  /// When the next stream is due for `endAnswered`; nil: none is.
  public var lingersUntil: Int64? { ending.until }

  /// Resets the streams that are answered and whose time is over. Returns whether there was one.
  public func endAnswered(now: Int64) -> Bool {
    let due = ending.takeDue(now: now, linger: limits.linger)
    for stream in due { reset(stream, role == .client ? .cancel : .noError) }
    return !due.isEmpty
  }

  /// Returns the streams that something happened to since the last call, for their servers.
  public func takeTouched() -> [HTTP2Stream] {
    var taken: [HTTP2Stream] = []
    takeTouched(into: &taken)
    return taken
  }

  /// The same, into an empty list whose memory is used for the next ones.
  public func takeTouched(into taken: inout [HTTP2Stream]) {
    swap(&taken, &touched)
    for stream in taken { stream.isTouched = false }
  }

  public var hasTouched: Bool { !touched.isEmpty }

  /// The connection is idle: frees what only messages need.
  public func rest() { block.rest() }

  /// Announces to the peer that no more of its streams are accepted. Those in progress continue.
  public func announceEnd() {
    if isEnding { return }
    beginToEnd()
    if let session = unsafe session { unsafe cng_announce_end(session) }
  }

  /// Ends the connection and everything in progress.
  public func end(_ code: ErrorCode) {
    beginToEnd()
    if let session = unsafe session { unsafe cng_end(session, code.rawValue) }
  }

  /// The connection is gone: every stream is aborted. `takeTouched` reports them to their servers. After that nothing
  /// here refers to a stream.
  public func broken() {
    if isGone { return }
    beginToEnd()
    for stream in streams.values {
      stream.closed(.internalError)
      touch(stream)
    }
    life = .gone
    refusePending()
    streams = [:]
    latest = nil
    ending.removeAll()
    blockStream = nil
  }

  // MARK: Streams

  /// A stream to the peer. Its request is written to it next.
  public func open() -> HTTP2Stream {
    let stream = HTTP2Stream(number: 0, self)
    pending.append(stream)
    return stream
  }

  /// Makes the next `takeTouched` return the stream.
  public func touch(_ stream: HTTP2Stream) {
    if stream.isTouched { return }
    stream.isTouched = true
    touched.append(stream)
  }

  func endOnceSent(_ stream: HTTP2Stream) { ending.add(stream) }

  /// Resets the streams whose servers have left and whose answers the peer does not read. `since`: nothing of theirs
  /// has moved after that.
  public func resetUnserved(_ code: ErrorCode, since: Int64) {
    for stream in streams.values where stream.isStuck(since: since) { reset(stream, code) }
  }

  func resume(_ stream: HTTP2Stream) { if let session = unsafe session { unsafe cng_resume(session, stream.number) } }

  func reset(_ stream: HTTP2Stream, _ code: ErrorCode) {
    stream.wasReset(code)
    if stream.number == 0 {
      pending.removeAll { $0 === stream }
      waiting.removeAll { $0 === stream }
      stream.closed(code)
    } else if let session = unsafe session {
      // An empty frame that ends the peer's message may be under way.
      idleFrames.giveBack()
      _ = unsafe cng_reset(session, stream.number, code.rawValue)
    }
  }

  /// Content has been read: the peer may send as much again.
  func consumed(_ count: Int, of stream: HTTP2Stream) {
    guard count > 0, let session = unsafe session else { return }
    if role == .client {
      if !stream.isClosed { unsafe cng_consume_stream(session, stream.number, count) }
    } else {
      unsafe cng_consume(session, stream.number, count)
    }
  }

  /// The library has given the stream its number.
  func opened(_ stream: HTTP2Stream, as number: Int32) {
    pending.removeAll { $0 === stream }
    stream.opened(number)
    streams[number] = stream
  }

  private func stream(_ number: Int32) -> HTTP2Stream? {
    if latest?.number != number { latest = streams[number] }
    return latest
  }

  // MARK: What the library calls

  /// A frame begins. Nothing of its payload has been read.
  private func frameBegins(_ head: FrameHead) -> ConnectionFault? {
    hasBegun = true
    let type = FrameType(rawValue: head.type)
    isInHeaders = type == .headers || type == .continuation
    if isInHeaders { awaitsContinuation = !head.flags.contains(.endHeaders) }
    switch type {
    case .continuation, .reset: return nil
    case .headers: return faultOfOver(head.stream)
    case .data:
      if let fault = faultOfOver(head.stream) { return fault }
      // What was under way when its stream was reset is content, too, and of an end there is one.
      if head.length >= ConnectionLimits.leastContent, !head.flags.contains(.padded) { return nil }
      if head.flags.contains(.endStream), stream(head.stream) != nil { return nil }
      // A frame with content gives it back.
      return idleFrames.take(now: now) ? nil : .flooded
    default: return idleFrames.take(now: now) ? nil : .flooded
    }
  }

  /// The library ignores frames that carry a message for a stream that can no longer have one.
  private func faultOfOver(_ number: Int32) -> ConnectionFault? {
    role == .server && stream(number) == nil ? recent.fault(of: number) : nil
  }

  /// Content has moved in a frame, in either direction. It explains that frame, and frames of WINDOW_UPDATE: one for
  /// the stream and one for the connection after each read of the peer.
  func explain(_ bytes: Int) { idleFrames.giveBack(1 + 2 * max(1, bytes / ConnectionLimits.updateBytes)) }

  private func fieldsBegin(_ number: Int32, isFirst: Bool) -> Bool {
    block.removeAll()
    if role == .server, isFirst {
      let stream = HTTP2Stream(number: number, self)
      streams[number] = stream
      latest = stream
      blockStream = stream
      recent.opened(number)
    } else {
      blockStream = stream(number)
    }
    return true
  }

  /// A malformed field is reported at the end of the section, as a fault of the message.
  private func field(_ name: Span<UInt8>, _ value: Span<UInt8>) -> Int {
    if !block.add(name, value, limits: limits.head) { block.isMalformed = true }
    if !block.isExcessive(limits.head) { return CNG_FIELD_TAKEN }
    if role == .client {
      // Others use the connection. The reader refuses for its size what there is of the head.
      if let stream = blockStream {
        if block.isMalformed || !stream.received(&block, ends: true) { stream.wasMalformed(.protocolError) }
        touch(stream)
      }
      blockStream = nil
      return CNG_FIELD_LEFT
    }
    fault = ConnectionFault(
      code: .enhanceYourCalm,
      detail: "the peer sent a head of more than \(ConnectionLimits.excess) times the size that is allowed")
    return CNG_FIELD_ENDS_CONNECTION
  }

  private func fieldsEnd(_ number: Int32, ends: Bool) -> Bool {
    guard let stream = blockStream, stream.number == number else { return true }
    blockStream = nil
    if !block.isMalformed, stream.received(&block, ends: ends) {
      touch(stream)
      return true
    }
    refused(number)
    stream.wasMalformed(.protocolError)
    reset(stream, .protocolError)
    return fault == nil
  }

  private func content(_ number: Int32, _ bytes: Span<UInt8>) -> Bool {
    guard let session = unsafe session else { return true }
    // An origin's connection is shared: what it sends to one client must not stop another.
    if role == .client { unsafe cng_consume_connection(session, bytes.count) }
    guard let stream = stream(number) else {
      if role == .server { unsafe cng_consume_connection(session, bytes.count) }
      return true
    }
    explain(1)
    stream.received(bytes)
    touch(stream)
    return true
  }

  private func ended(_ number: Int32) -> Bool {
    guard let stream = stream(number) else { return true }
    stream.receivedEnd()
    touch(stream)
    return true
  }

  private func wasReset(_ number: Int32, _ code: UInt32) -> Bool {
    guard let stream = stream(number) else { return true }
    stream.wasResetByPeer(ErrorCode(rawValue: code))
    touch(stream)
    if role == .server, !stream.hasBegunToAnswer { countReset("reset more than") }
    return fault == nil
  }

  /// The stream is reset because of something that the peer did.
  private func refused(_ number: Int32) {
    if blockStream?.number == number { blockStream = nil }
    if role == .server { countReset("made the proxy reset more than") }
  }

  /// It is closed next.
  private func libraryRefuses(_ number: Int32, _ code: UInt32) {
    let code = ErrorCode(rawValue: code)
    if code == .refusedStream { stream(number)?.wasReset(code) } else { stream(number)?.wasMalformed(code) }
    refused(number)
  }

  private func countReset(_ what: String) {
    if resets.take(now: now) { return }
    fault = ConnectionFault(
      code: .enhanceYourCalm,
      detail: "the peer \(what) \(limits.resets) streams in ten seconds before they were answered")
  }

  private func closed(_ number: Int32, _ code: UInt32) {
    guard let stream = streams.removeValue(forKey: number) else { return }
    if latest === stream { latest = nil }
    if blockStream === stream { blockStream = nil }
    // The library has reset it because of what the peer sent, and has not reported that.
    let isOurs = stream.resetCode == nil && code != ErrorCode.noError.rawValue
    if role == .server, isOurs, code != ErrorCode.refusedStream.rawValue, !stream.isAnswered { refused(number) }
    if isOurs, code != ErrorCode.refusedStream.rawValue { stream.wasMalformed(ErrorCode(rawValue: code)) }
    if stream.isEndedByPeer { recent.endedByPeer(number) }
    stream.closed(ErrorCode(rawValue: code))
    if !stream.isLeft { touch(stream) }
  }

  /// The library ends the connection. What it says is of its own making.
  private func libraryEnds(_ code: UInt32, _ reason: Span<UInt8>) {
    beginToEnd()
    libraryFault = ConnectionFault(
      code: ErrorCode(rawValue: code),
      detail: "the peer broke the protocol: \(reason.isEmpty ? "error \(code)" : reason.asciiString)")
  }

  private func more(_ number: Int32, _ room: Int, end: inout Int32) -> Int {
    guard let stream = stream(number) else { return -2 }
    switch stream.offer(room) {
    case .deferred: return Int(CNG_CONTENT_DEFERRED)
    case .some(let count):
      isWithinContent = true
      return count
    case .last(let count):
      end = Int32(CNG_ENDS)
      isWithinContent = false
      return count
    case .lastBeforeTrailers(let count):
      end = Int32(CNG_ENDS_WITH_TRAILERS)
      isWithinContent = false
      stream.writeTrailers()
      return count
    }
  }

  private func data(_ number: Int32, _ head: Span<UInt8>, count: Int) -> Int {
    guard let stream = stream(number) else { return CNG_DATA_GONE }
    if sink.count >= ConnectionLimits.output { return CNG_DATA_LATER }
    sink.append(head)
    stream.send(count, to: &sink)
    return CNG_DATA_SENT
  }

  @unsafe
  private static func of(_ owner: UnsafeMutableRawPointer?) -> HTTP2Connection {
    guard let owner = unsafe owner else { fatalError("a callback without its connection") }
    return unsafe Unmanaged<HTTP2Connection>.fromOpaque(owner).takeUnretainedValue()
  }

  @unsafe
  private static func span<Result>(
    _ bytes: UnsafePointer<UInt8>?, _ count: Int, body: (Span<UInt8>) -> Result
  ) -> Result {
    body(unsafe Span(_unsafeElements: UnsafeBufferPointer(start: bytes, count: count)))
  }

  private static let events = unsafe cng_events(
    fields_begin: { owner, stream, isFirst in unsafe of(owner).fieldsBegin(stream, isFirst: isFirst) },
    never_indexed: { owner, name, count in
      let connection = unsafe of(owner)
      unsafe span(name, count) { connection.block.neverIndexes($0) }
    },
    field: { owner, name, nameLength, value, valueLength in
      let connection = unsafe of(owner)
      return Int32(
        unsafe span(name, nameLength) { name in
          unsafe span(value, valueLength) { value in connection.field(name, value) }
        })
    },
    fields_end: { owner, stream, ends in unsafe of(owner).fieldsEnd(stream, ends: ends) },
    content: { owner, stream, bytes, count in
      let connection = unsafe of(owner)
      return unsafe span(bytes, count) { connection.content(stream, $0) }
    },
    ended: { owner, stream in unsafe of(owner).ended(stream) },
    reset: { owner, stream, code in unsafe of(owner).wasReset(stream, code) },
    refused: { owner, stream, code in unsafe of(owner).libraryRefuses(stream, code) },
    closed: { owner, stream, code in unsafe of(owner).closed(stream, code) },
    goaway: { owner, _, _ in unsafe of(owner).peerLeaves() },
    settled: { owner in unsafe of(owner).hasSettings = true },
    ends: { owner, code, reason, count in
      let connection = unsafe of(owner)
      unsafe span(reason, count) { connection.libraryEnds(code, $0) }
    },
    more: { owner, stream, room, end in
      guard let end = unsafe end else { return -2 }
      return unsafe of(owner).more(stream, room, end: &end.pointee)
    },
    data: { owner, stream, head, count in
      let connection = unsafe of(owner)
      return Int32(unsafe span(head, FrameScanner.headBytes) { connection.data(stream, $0, count: count) })
    })
}
