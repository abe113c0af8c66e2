// One end of a TLS connection that speaks HTTP/2. It reads and writes the socket, and reports to the servers of its
// streams what happened.
//
//   socket ── TLS ── HTTP2Connection ── HTTP2Stream ── HTTP2Carrier ── ByteStream of a conversation or an upstream
//
// To its server a stream is what a socket is: it is read, written and watched, and events come through the loop. So
// every exchange on HTTP/2 is an ordinary exchange, and the two wires meet in one place.
//
// What is written to streams is gathered and sent once a turn. What happened to streams is reported once a turn, as far
// as it is watched for.

import Bytes
import HTTP1
import HTTP2
import Policy
import Session
import Transport
import Upstream

final class HTTP2Endpoint: MultiplexedConnection {
  private enum Life {
    case open
    /// No new exchange may begin on it.
    case retired
    case closed
  }

  private enum Sending {
    case free
    /// What `output` holds waits for the next turn, not for the socket.
    case heldBack
    /// The socket has not accepted all that was written last.
    case blocked
    /// A write has failed. What the peer sent before is still read to its end.
    case failed
  }

  private enum Use {
    /// Streams were open at the last `settle`.
    case busy
    case idle
    /// It has freed what only messages need.
    case rested
  }

  /// How much one turn reads from one connection, in bytes.
  private static let readBytes = 32 << 10

  /// How long a connection without streams keeps its buffers, in milliseconds. A connection in use does not free and
  /// allocate them at each request.
  private static let restMilliseconds: Int64 = 1000

  let slot: Int
  /// With TLS.
  let stream: ByteStream
  let connection: HTTP2Connection
  let peer: MultiplexedPeer
  var keeper = Keeper()
  /// It lives as long as the process.
  let worker: Worker
  @exclusivity(unchecked) var interest: Interest?
  @exclusivity(unchecked) private var output = ByteBuffer()
  @exclusivity(unchecked) private var sending = Sending.free
  /// Memory for a list of touched streams.
  @exclusivity(unchecked) private var spareList: [HTTP2Stream] = []
  /// It is in `worker.multiplexed`.
  @exclusivity(unchecked) private var isMarked = false
  @exclusivity(unchecked) private var life = Life.open
  @exclusivity(unchecked) private(set) var lastProgress: Int64
  /// When the peer last sent something.
  @exclusivity(unchecked) private var heardAt: Int64
  /// Since when an origin is asked for a sign of life; nil: nothing is wrong.
  @exclusivity(unchecked) private var doubtedSince: Int64? = nil
  /// A read has reached the end of the stream or a fault.
  @exclusivity(unchecked) private var hasEnded = false
  @exclusivity(unchecked) private var use = Use.idle
  /// When streams were last checked for progress.
  @exclusivity(unchecked) private var lookedAt: Int64 = 0
  /// Since when a field section has been incomplete.
  @exclusivity(unchecked) private var fieldsSince: Int64? = nil
  /// Since when no stream has been open.
  @exclusivity(unchecked) private var idleSince: Int64

  private init(
    slot: Int, _ stream: ByteStream, _ connection: HTTP2Connection, peer: MultiplexedPeer, interest: Interest?,
    on worker: Worker
  ) {
    self.slot = slot
    self.stream = stream
    self.connection = connection
    self.peer = peer
    self.interest = interest
    self.worker = worker
    lastProgress = worker.now
    heardAt = worker.now
    idleSince = worker.now
  }

  /// See `HTTPProtocol.begin`.
  static func begin(
    _ stream: ByteStream, slot: Int, with peer: MultiplexedPeer, interest: Interest?, limits: Limits,
    takesTunnels: Bool, _ worker: Worker
  ) -> HTTP2Endpoint? {
    let role: HTTP2Connection.Role = if case .client = peer { .server } else { .client }
    let limits = ConnectionLimits(limits, extendedConnect: takesTunnels)
    guard let connection = HTTP2Connection(role, limits, scratch: worker.messages, now: worker.now) else { return nil }
    let made = HTTP2Endpoint(slot: slot, stream, connection, peer: peer, interest: interest, on: worker)
    made.mark()
    return made
  }

  // MARK: What happens

  func ready(_ readiness: Readiness) {
    if readiness.isWritable, interest?.contains(.write) ?? false { flush() }
    if readiness.isReadable, !isClosed { read() }
    mark()
  }

  /// Reads what has arrived, as long as the peer reads what it is sent.
  func read() {
    if isClosed || hasEnded || isFull { return }
    var input = worker.workspace.pool.take(Self.readBytes)
    switch stream.read(into: &input) {
    case .moved:
      lastProgress = worker.now
      heardAt = worker.now
      defer { noteSigns() }
      if let fault = connection.receive(input.bytes, now: worker.now) { tell(fault) }
    case .wouldBlock where sending != .failed: break
    case .wouldBlock, .ended, .failed:
      hasEnded = true
      connection.broken()
    }
    worker.workspace.pool.reclaim(&input)
    mark()
  }

  /// Makes the loop call `settle` before it sleeps.
  func mark() {
    if isMarked { return }
    isMarked = true
    worker.multiplexed.mark(self)
  }

  func settle() {
    // Also if the connection is gone: what a stream received before can still be read.
    if connection.hasTouched { serveTouched() }
    isMarked = false
    if isClosed { return }
    flush()
    if let fault = connection.takeFault() { tell(fault) }
    if isClosed { return }
    if connection.hasTouched { mark() }
    if hasEnded || connection.isOver && output.isEmpty { return close() }
    fieldsSince = connection.isWithinFields ? fieldsSince ?? worker.now : nil
    if !isUnused {
      if use != .busy { lookedAt = worker.now }
      use = .busy
      idleSince = worker.now
    } else {
      if use == .busy { use = .idle }
      if case .origin(let line) = peer, line.holdsPlace, worker.shared.quota.hasWaiters(line.destination.place) {
        return abandon()
      }
      if isRetired || connection.isEnding, output.isEmpty { return close() }
    }
    watch()
    if stream.hasMore { worker.readAgain(slot) }
  }

  private func serveTouched() {
    var round: [HTTP2Stream] = []
    swap(&round, &spareList)
    connection.takeTouched(into: &round)
    for stream in round { serve(stream) }
    round.removeAll(keepingCapacity: true)
    swap(&round, &spareList)
  }

  private func serve(_ stream: HTTP2Stream) {
    if let carrier = stream.server {
      unsafeDowncast(carrier, to: HTTP2Carrier.self).tell(worker)
    } else if case .client(let client) = peer, !stream.isServed {
      stream.isServed = true
      // A stream that was reset before this point asks for nothing.
      if stream.isBroken || isClosed { stream.reset(.cancel) } else { begin(stream, of: client) }
    }
  }

  private func begin(_ stream: HTTP2Stream, of client: MultiplexedClient) {
    client.serve(wire, by: self.stream.descriptor, on: worker) { HTTP2Carrier(stream, of: self, servedBy: $0) }
  }

  private func tell(_ fault: ConnectionFault) {
    worker.statistics.http2Faults += 1
    guard let others = worker.multiplexed.faultHappened(now: worker.now) else { return }
    let more = others == 0 ? "" : "; \(others) more since the last such line"
    worker.shared.log.event(.warning, "the HTTP/2 connection \(place) ends: \(fault.detail)\(more)")
  }

  private var place: String {
    switch peer {
    case .client(let client): "of a client at \(AdminResources.text(client.accepted.peer))"
    case .origin(let upstream): "with \(upstream.destination.name) port \(upstream.destination.port)"
    }
  }

  // MARK: Output

  /// Writes text of a stream. What can be framed at once is sent with the rest of the turn.
  func write(_ text: Span<UInt8>, to stream: HTTP2Stream) -> Bool {
    sending == .failed ? stream.write(text) : stream.write(text, into: &output, now: worker.now)
  }

  /// Less than this, in bytes, is not sent in a record of its own if more content is expected: content that came in
  /// whole records exceeds them by the heads of its frames, nine bytes each, and a record costs a system call.
  private static let leastRecord = 512

  /// Sends as much as the socket accepts, in whole records as long as there is more. What little is left then waits for
  /// the content of the next turn, but no longer.
  private func flush() {
    var hasMore = true
    var hasSent = false
    if sending == .heldBack { sending = .free }
    while !isClosed {
      if hasMore, output.count < TLSStream.recordBytes {
        hasMore = connection.takeOutput(&output, now: worker.now)
      }
      if output.isEmpty || sending == .failed { return connection.dropOutput(&output) }
      let rest = output.count % TLSStream.recordBytes
      let isBehind = hasSent || rest < output.count
      let maySplit = hasMore || isBehind && rest < Self.leastRecord && expectsContent
      // OpenSSL refuses to be given less than what was not accepted before.
      let kept = maySplit && sending != .blocked ? rest : 0
      if kept == output.count { return holdBack() }
      sending = .blocked
      switch stream.write(ByteBuffer(), then: output.bytes.extracting(droppingLast: kept)) {
      case .moved(let count):
        output.consume(count)
        lastProgress = worker.now
        if output.count > kept { return }
        sending = .free
        hasSent = true
      case .wouldBlock: return
      case .ended, .failed:
        sending = .failed
        connection.dropOutput(&output)
        return worker.readAgain(slot)
      }
    }
  }

  /// The peer does not read, and so much waits for it that nothing more is read from it.
  private var isFull: Bool { sending == .blocked && output.count >= ConnectionLimits.output }

  private var expectsContent: Bool { connection.isWithinContent && !connection.isEnding }

  private func holdBack() {
    sending = .heldBack
    if isMarked { return }
    isMarked = true
    worker.multiplexed.holdBack(self)
  }

  private func watch() {
    // A peer that has only closed its side would cause events for ever.
    var wanted: Interest = isFull ? [] : .read
    if !output.isEmpty, sending != .heldBack { wanted.insert(.write) }
    worker.watch(stream, &interest, wanted: wanted, slot: slot)
    worker.timers.set(slot, deadline)
  }

  // MARK: Time

  /// In milliseconds. `answer`: to PING.
  private typealias Timeouts = (idle: Int64, beginning: Int64, stall: Int64, answer: Int64)

  private var timeouts: Timeouts {
    let timeouts = worker.policy.configuration.timeouts
    let stall = timeouts.bodyStallMilliseconds
    switch peer {
    case .client:
      return (timeouts.clientIdleMilliseconds, timeouts.clientHeaderMilliseconds, stall, .max)
    case .origin(let upstream):
      let idle = upstream.idleMilliseconds ?? timeouts.upstreamIdleMilliseconds
      // To answer takes no longer than to accept another connection.
      return (idle, timeouts.responseHeaderMilliseconds, stall, timeouts.connectMilliseconds)
    }
  }

  private var deadline: Int64 {
    let timeouts = self.timeouts
    let lingering = connection.lingersUntil ?? .max
    return min(deadline(timeouts), lingering, doubtedSince.map { $0 + timeouts.answer } ?? .max)
  }

  private func deadline(_ timeouts: Timeouts) -> Int64 {
    if let fieldsSince { return fieldsSince + timeouts.beginning }
    if !isUnused { return lookedAt + timeouts.stall }
    if use != .rested { return idleSince + Self.restMilliseconds }
    return idleSince + (connection.hasBegun ? timeouts.idle : min(timeouts.idle, timeouts.beginning))
  }

  func timerFired() {
    if connection.endAnswered(now: worker.now) { mark() }
    if worker.now < deadline { return worker.timers.set(slot, deadline) }
    if let doubtedSince, worker.now - doubtedSince >= timeouts.answer {
      worker.shared.log.event(
        .warning, "the HTTP/2 connection \(place) ends: no answer to PING within \(timeouts.answer) ms")
      return abandon()
    }
    if isUnused, use != .rested {
      use = .rested
      connection.rest()
      spareList = []
      stream.tls?.rest()
      return worker.timers.set(slot, deadline)
    }
    if fieldsSince != nil {
      tell(ConnectionFault(code: .enhanceYourCalm, detail: "a head did not come whole within \(timeouts.beginning) ms"))
      connection.end(.enhanceYourCalm)
      flush()
      return close()
    }
    if isUnused { return abandon() }
    // The peer reads nothing of what it is sent.
    if !output.isEmpty, worker.now - lastProgress >= timeouts.stall { return abandon() }
    // Exchanges have time-outs of their own. What is left here are streams whose server has left and whose data the
    // peer does not read.
    lookedAt = worker.now
    connection.resetUnserved(.cancel, since: worker.now - timeouts.stall)
    mark()
  }

  // MARK: Settings

  /// How many connectors wait for the peer's settings.
  @exclusivity(unchecked) private var settlers = 0
  var isUnused: Bool { connection.openStreams == 0 && settlers == 0 }
  /// The peer's settings have been looked at.
  @exclusivity(unchecked) private var isSettled = false

  func joinSettlers() { settlers += 1 }

  func leaveSettlers() {
    settlers -= 1
    if !isClosed { mark() }
  }

  /// Something has come. Whoever waited for a sign of life, or for what the peer accepts, continues.
  private func noteSigns() {
    guard case .origin(let upstream) = peer, isDoubted || !isSettled else { return }
    let wasDoubted = isDoubted
    doubtedSince = nil
    let settles = connection.hasSettings && !isSettled
    if settles {
      isSettled = true
      upstream.destination.opensNoTunnels = !connection.takesTunnels
      resumeSettling()
    }
    if settles || wasDoubted { worker.upstreams.resumeQueued(for: upstream.destination, worker) }
  }

  private func resumeSettling() {
    for case .connector(let waiting) in worker.slots.occupants where waiting.isSettling(on: self) {
      worker.resume(waiting)
    }
  }

  // MARK: Liveness

  var isDoubted: Bool { doubtedSince != nil }

  /// Silence of this length, in milliseconds, makes a connection doubtful if a response is given up meanwhile. Shorter
  /// ones are those of origins that work.
  private static let quietMilliseconds: Int64 = 1000

  /// A response was given up before its end, and was asked for at `asked`. If nothing at all has come since then, the
  /// connection may lead nowhere: a router forgets connections without a word. Requests that followed would each wait
  /// for their time-out.
  func doubt(since asked: Int64) {
    guard !isClient, !isClosed, doubtedSince == nil, !isFull,
      worker.now - max(heardAt, asked) >= Self.quietMilliseconds
    else { return }
    doubtedSince = worker.now
    connection.ping()
    mark()
  }

  // MARK: Ends

  var isClosed: Bool { life == .closed }
  /// No new exchange may begin on it.
  var isRetired: Bool { life != .open }

  func retire() {
    if isRetired { return }
    life = .retired
    if case .origin(let upstream) = peer { upstream.destination.multiplexed.removeAll { $0 === self } }
    connection.announceEnd()
    mark()
  }

  /// The peer has asked for HTTP/1.1. No more is asked of it on HTTP/2.
  func speaksHTTP11Alone() {
    guard case .origin(let upstream) = peer else { return }
    upstream.destination.speaksHTTP11Alone = true
    retire()
  }

  func abandon() {
    connection.end(.noError)
    flush()
    close()
  }

  func close() {
    if isClosed { return }
    life = .closed
    connection.broken()
    serveTouched()
    connection.dropOutput(&output)
    switch peer {
    case .client(let client):
      stream.close()
      client.closed(worker)
      worker.clientClosed(slot)
    case .origin(let upstream):
      upstream.destination.multiplexed.removeAll { $0 === self }
      worker.upstreams.close(upstream, worker)
      if !isSettled { resumeSettling() }
    }
  }
}

extension HTTP2Endpoint {
  var wire: HTTPProtocol { .http2 }
  var openStreams: Int { connection.openStreams }
  var hasFreePlace: Bool { connection.hasFreePlace }
  var mayOpen: Bool { connection.mayOpen }
  var hasSettings: Bool { connection.hasSettings }
  var takesTunnels: Bool { connection.takesTunnels }

  func openStream(servedBy slot: Int) -> any CarriedStream {
    HTTP2Carrier(connection.open(), of: self, servedBy: slot)
  }

  func carries(_ upstream: Upstream?) -> Bool {
    (upstream?.stream.carried as? HTTP2Carrier)?.isCarried(by: self) ?? false
  }

  func touch(_ stream: HTTP2Stream) {
    connection.touch(stream)
    mark()
  }
}

extension ConnectionLimits {
  init(_ limits: Limits, extendedConnect: Bool) {
    self.init(
      head: HeadLimits(bytes: limits.headerBytes, fields: limits.headers), streams: limits.streams,
      resets: limits.streamResets, extendedConnect: extendedConnect, linger: Session.lingerMilliseconds)
  }
}
