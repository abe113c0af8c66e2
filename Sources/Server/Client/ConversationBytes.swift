// The bytes of a conversation: read from either end, passed to the session, and sent to the other.
//
// Write first: only what the socket does not accept is kept. While any of it is left, the other end is not read.
//
// Long bodies and bulk tunnels move through pipes (splice(2)) without being copied. A pipe pays from some tens of
// kilobytes on. It is lent while bytes move. As long as it contains any, the side they came from is not read. Paced
// bytes are read and written instead. Then a turn moves no more than the pace allows, and the session sees all of it.
// Stored content is written from where it is kept.

import Bytes
import HTTP1
import Policy
import Session
import Transport

extension Conversation {
  // MARK: From the client

  /// How many requests of one connection begin in one turn. Nearly all clients ask one after another. Four serve those
  /// that pipeline, and cost some tens of microseconds if all of them are refused.
  static let requestsPerTurn = 4
  /// How many pipelined requests of all clients begin in one turn: a millisecond at most.
  static let pipelinedPerTurn = 64
  /// The size of a read where the head of a request is expected. Most heads fit in a tenth of it, and a client that
  /// sends many at once does not make the proxy keep more.
  static let requestHeadBytes = 16 << 10

  /// A pipe pays only if at least this many bytes of content are still to come. Below that, one or two reads into the
  /// loop's block are cheaper than three system calls and a pipe.
  static let leastSplicedBytes: UInt64 = 32 << 10
  /// The first read of a response that is expected to be long: the head, and little of the body.
  static let headBytes = 4 << 10
  /// A tunnel read of this size shows a bulk transfer; a move of less than `trickleBytes` shows its end.
  static let bulkBytes = 64 << 10
  static let trickleBytes = 8 << 10

  var canReadClient: Bool {
    ending == nil && !isInHandshake
      && flags.isDisjoint(with: [.startsClientHandshake, .rests]) && !client.isAwaited
      && !clientSide.state.contains(.ended)
      && session.wantsClientBytes && outputs.toUpstream.isEmpty
      && !clientSide.holdsPiped
  }

  /// Whether another request has arrived, or begun to.
  var hasNextRequest: Bool { !RequestHead.isPassedOver(inputs.fromClient) }

  func readClient(_ worker: Worker) {
    if splice(from: .client, worker) { return }
    // Bytes after a head are other requests, and have to be kept meanwhile.
    var room = session.awaitsHead ? Self.requestHeadBytes : Worker.readBytes
    if session.exchange.spools { room = min(room, Exchange.spooledReadBytes) }
    if let allowed = session.exchange.uploadAllowance { room = min(room, max(allowed, Inputs.leastReadBytes)) }
    var input = inputs.take(from: .client, room, &worker.workspace.pool)
    switch stream.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { clientSide.state.insert(.isBulk) }
      pumpClient(&input, worker)
      keep(&input, from: .client, worker)
    case .wouldBlock:
      keep(&input, from: .client, worker)
    case .ended:
      keep(&input, from: .client, worker)
      clientStreamEnded(worker)
    case .failed:
      keep(&input, from: .client, worker)
      perform(session.clientFailed(), worker)
    }
  }

  func clientStreamEnded(_ worker: Worker) {
    if flags.contains(.closed) { return }
    clientSide.state.insert(.ended)
    if !inputs.fromClient.isEmpty, session.exchange.clientSaidAll() {
      pumpKept(from: .client, worker)
      if flags.contains(.closed) || ending != nil || !session.exchange.isInTunnel { return }
    }
    let action = session.clientEnded(now: worker.now, in: &worker.workspace, to: &outputs)
    perform(action, otherIsUpstream: true, worker)
    search.connector?.clientEnded(worker)
  }

  /// Refuses the request at the start of `input`, the last of this connection.
  func refuse(_ problem: Problem, _ input: borrowing ByteBuffer, on worker: Worker) {
    session.expectLastExchange()
    let action = session.refuseUnread(
      input.bytes, problem, now: worker.now, policy: live.policy, in: &worker.workspace, to: &outputs)
    perform(action, worker)
  }

  /// Passes input to the session until it can use no more of it.
  func pumpClient(_ input: inout ByteBuffer, _ worker: Worker) {
    clientSide.state.remove(.sawInput)
    var goesOn = true
    var begun = 0
    let isShort = worker.heldIsShort
    while goesOn, flags.isDisjoint(with: [.closed, .startsClientHandshake]), ending == nil {
      if session.isIdle {
        takePolicy(worker)
        if !input.isEmpty, worker.isRefusing {
          refuse(
            Problem(.shuttingDown, "The proxy is drained, and takes no requests until it is started again."), input,
            on: worker)
          input.consume(input.count)
          return
        }
        if !input.isEmpty, mustRest(afterBeginning: begun, worker) || !knowsClient(worker) { return }
        begun += 1
      }
      if isShort || session.exchange.client.heldOverdraft > 0 { prepareToHold(worker) }
      let isUndecided = session.exchange.record.ruled.decision == nil
      let step = session.clientReceived(
        input.bytes, now: worker.now, policy: live.policy, in: &worker.workspace, to: &outputs)
      input.consume(step.consumed)
      if session.exchange.holdsBody || held.bytes > 0 { accountHeld(worker) }
      if isUndecided, session.exchange.record.ruled.decision != nil {
        session.exchange.tellBeginning(text: outputs.text, client: peer, worker)
      }
      switch step.action {
      case .read:
        clientSide.state.insert(.sawInput)
        goesOn = false
      case .hold:
        goesOn = false
      case .forward(let count):
        forward(from: .client, &input, count, on: worker)
        goesOn = !input.isEmpty && outputs.toUpstream.isEmpty
      case .end:
        finish(step.action, leaves: session.exchange.isTunnel && !input.isEmpty, worker)
        goesOn = !input.isEmpty && session.wantsClientBytes && outputs.toUpstream.isEmpty
      case .connect, .reconnect, .intercept, .judge, .tunnel, .closeOtherWrite, .close:
        perform(step.action, worker)
        goesOn = !input.isEmpty && session.wantsClientBytes && outputs.toUpstream.isEmpty
      }
    }
    flush(to: .upstream, worker)
    // The client waits for a 100 Continue (RFC 9110, 10.1.1).
    if session.exchange.isCollecting, !outputs.toClient.isEmpty { flush(to: .client, worker) }
  }

  /// Whether the next request has to wait: for those of other clients, or for the log if this client is only refused.
  private func mustRest(afterBeginning begun: Int, _ worker: Worker) -> Bool {
    if begun == 0, !(flags.contains(.wasRefused) && worker.shared.log.isBehind) { return false }
    worker.turns.pipelined += begun == 0 ? 0 : 1
    let isDue =
      begun < Self.requestsPerTurn && worker.turns.pipelined <= Self.pipelinedPerTurn
      && !(flags.contains(.wasRefused) && worker.shared.log.isBehind)
    if isDue { return false }
    flags.insert(.rests)
    worker.rest(slot)
    return true
  }

  /// Handles an event of a client whose bytes cannot be used now.
  func clientUnreadable(_ readiness: Readiness, _ worker: Worker) {
    if client.isAwaited { return clientMovedWhileAwaited(readiness, worker) }
    // In a tunnel whose other direction has ended, both ends may have closed in order.
    let isCut =
      session.exchange.isPaused
      || session.exchange.isInTunnel && session.exchange.uploadRests && !upstreamSide.state.contains(.ended)
    // Who resets a stream wants no more of its request either. In a tunnel, what came before still counts.
    if readiness.isBroken, ending == nil, isCut || isStream && !session.exchange.isInTunnel {
      // There is no waiting for what it may still have sent: most of what was to come never will.
      perform(session.clientFailed(), worker)
      return
    }
    if readiness.isBroken, ending == nil, session.exchange.isInTunnel || !session.exchange.awaitsOnlyUpstream,
      !session.exchange.isConnecting
    {
      // Both directions are closed, by a reset or in order. What came before can still be read.
      clientSide.state.insert([.unwatched, .broken])
      return
    }
    if readiness.isBroken {
      if ending == nil { perform(session.clientFailed(), worker) }
      giveUpSending(worker)
      return
    }
    if readiness.peerClosed, session.exchange.awaitsOnlyUpstream, ending == nil, !clientSide.isHalfClosed {
      clientSide.isHalfClosed = true
      // The origin need not work for a client that is gone. One that still listens gets its answer.
      if hasLeft(worker) { return perform(session.clientFailed(), worker) }
      perform(session.clientEnded(now: worker.now, in: &worker.workspace, to: &outputs), worker)
      search.connector?.clientEnded(worker)
    }
    if readiness.peerClosed, question.isAsked, ending == nil, !clientSide.isHalfClosed {
      // Any further bytes stay in its socket. The kernel says whether it is still there to receive the answer.
      clientSide.isHalfClosed = true
      if hasLeft(worker) { return perform(session.clientFailed(), worker) }
    }
    clientSide.state.insert(.unwatched)
  }

  /// The same while its names are being looked up. If the client is gone, the look-up ends.
  private func clientMovedWhileAwaited(_ readiness: Readiness, _ worker: Worker) {
    clientSide.state.insert(.unwatched)
    guard readiness.peerClosed else { return }
    clientSide.isHalfClosed = true
    if readiness.isBroken { return leaveUnserved(worker) }
    if worker.asksForClient, case .gone = worker.owners.owner(of: connection, now: worker.now) {
      leaveUnserved(worker)
    }
  }

  // MARK: From the upstream

  var canReadUpstream: Bool {
    ending == nil && !upstreamSide.state.contains(.ended) && !clientRoom.isAwaited && upstream != nil
      && outputs.toClient.isEmpty
      && !upstreamSide.holdsPiped && !session.exchange.downloadRests
  }

  /// `takesBytes`: the client's socket has just become writable.
  func readUpstream(takesBytes: Bool = false, _ worker: Worker) {
    if splice(from: .upstream, worker) || giveStored(worker) { return }
    guard let upstream else { return }
    // After the head of a long body the rest is better not copied, so little more than the head is read.
    let isAtHead = session.exchange.awaitsResponseHead
    let isBeforeSplicing = isAtHead && upstream.sendsLongBodies && upstream.stream.isBare && stream.isBare
    var room = isBeforeSplicing ? Self.headBytes : clientRoom.readBytes(by: stream)
    // Others may wait for the head that the cache is to see.
    let isForCache = caching?.awaitsHead ?? false
    if !isBeforeSplicing, !takesBytes, !isForCache, clientRoom.isShort, !session.exchange.holdsBody,
      !clientSide.state.contains(.broken)
    {
      clientRoom.isAwaited = true
      return
    }
    // A body that is held leaves at its pace later.
    if let allowed = session.exchange.downloadAllowance(now: worker.now), !session.exchange.holdsBody {
      room = min(room, max(allowed, Inputs.leastReadBytes))
    }
    if let tls = upstream.stream.tls {
      let most = !isAtHead || upstream.sendsLongBodies ? TLSContext.readAheadBytes : TLSContext.recordBytes
      // Bytes of a body that is held wait anyway.
      let ahead = session.exchange.holdsBody ? most : clientRoom.aheadBytes(most, isStream: isStream)
      if ahead > 0, !session.exchange.holdsBody { room = min(room, ClientRoom.besideAheadBytes) }
      tls.readAhead(ahead)
    }
    var input = inputs.take(from: .upstream, room, &worker.workspace.pool)
    switch upstream.stream.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { upstreamSide.state.insert(.isBulk) }
      pumpUpstream(&input, worker)
      keep(&input, from: .upstream, worker)
      if isAtHead {
        upstream.sendsLongBodies = UInt64(count) &+ session.exchange.unchangedResponseBytes >= Self.leastSplicedBytes
        if upstream.sendsLongBodies, self.upstream === upstream, canReadUpstream { _ = splice(from: .upstream, worker) }
      }
    case .wouldBlock:
      keep(&input, from: .upstream, worker)
    case .ended:
      keep(&input, from: .upstream, worker)
      upstreamStreamEnded(broken: false, worker)
    case .failed:
      keep(&input, from: .upstream, worker)
      upstreamStreamEnded(broken: true, worker)
    }
  }

  func upstreamStreamEnded(broken: Bool, _ worker: Worker) {
    let end = endOfUpstream(broken: broken)
    let silence = end == .malformed ? "malformed-response" : "connection-closed"
    if caching != nil, !session.exchange.goesAgain(after: end, outputs), cacheStandsInForSilence(silence, worker) {
      return
    }
    upstreamSide.state.insert(.ended)
    let action = session.exchange.upstreamEnded(end, now: worker.now, in: &worker.workspace, to: &outputs)
    perform(action, otherIsUpstream: false, worker)
  }

  private func endOfUpstream(broken: Bool) -> UpstreamEnd {
    if let stream = upstream?.stream.carried {
      if stream.wasRefused { return .refused(wasSent: !stream.wasUnsent) }
      switch stream.abortion {
      case .malformed: return .malformed
      case .reset(let code): return .reset(code: code)
      case nil: break
      }
    }
    guard broken else { return .closed }
    return upstream?.stream.tls?.alert.map { .alert($0) } ?? .broken
  }

  func pumpUpstream(_ input: inout ByteBuffer, _ worker: Worker) {
    upstreamSide.state.remove(.sawInput)
    var goesOn = true
    let isShort = worker.heldIsShort
    while goesOn, upstream != nil, ending == nil {
      if caching?.awaitsHead ?? false, cacheTakes(&input, worker) { return }
      if isShort || session.exchange.client.heldOverdraft > 0 { prepareToHold(worker) }
      let step = session.exchange.upstreamReceived(input.bytes, now: worker.now, in: &worker.workspace, to: &outputs)
      input.consume(step.consumed)
      if session.exchange.holdsBody || held.bytes > 0 { accountHeld(worker) }
      switch step.action {
      case .read:
        goesOn = step.consumed > 0 && !input.isEmpty
        if !goesOn { upstreamSide.state.insert(.sawInput) }
      case .hold:
        goesOn = false
      case .forward(let count):
        forward(from: .upstream, &input, count, on: worker)
        if let action = session.exchange.endIfComplete() {
          finish(action, leaves: !input.isEmpty, worker)
          goesOn = false
        } else {
          goesOn = !input.isEmpty && outputs.toClient.isEmpty
        }
      case .end:
        finish(step.action, leaves: !input.isEmpty, worker)
        goesOn = false
      case .connect, .reconnect, .intercept, .judge, .tunnel, .closeOtherWrite, .close:
        perform(step.action, worker)
        goesOn = !input.isEmpty && outputs.toClient.isEmpty
      }
    }
    // No exchange will ask for what is left of a response that is over.
    if upstream == nil { input.removeAll() }
    if ending == nil { flush(to: .client, worker) }
  }

  // MARK: From either end

  // Values are read and written whole: a coroutine that lends them would be allocated for each access.
  subscript(end: End) -> Side {
    get { end == .client ? clientSide : upstreamSide }
    set {
      switch end {
      case .client: clientSide = newValue
      case .upstream: upstreamSide = newValue
      }
    }
  }

  /// nil without an upstream.
  func stream(of end: End) -> ByteStream? { end == .client ? stream : upstream?.stream }

  /// Passes on what waited.
  func pumpKept(from end: End, _ worker: Worker) {
    var input = inputs.takeAll(from: end)
    switch end {
    case .client: pumpClient(&input, worker)
    case .upstream: pumpUpstream(&input, worker)
    }
    keep(&input, from: end, worker)
  }

  private func keep(_ input: inout ByteBuffer, from end: End, _ worker: Worker) {
    if flags.contains(.closed) { return worker.workspace.pool.reclaim(&input) }
    inputs.keep(&input, from: end, &worker.workspace.pool)
  }

  func streamEnded(of end: End, _ worker: Worker) {
    end == .client ? clientStreamEnded(worker) : upstreamStreamEnded(broken: false, worker)
  }

  func streamFailed(of end: End, _ worker: Worker) {
    end == .client ? perform(session.clientFailed(), worker) : upstreamStreamEnded(broken: true, worker)
  }

  /// Moves a long body, or the bulk of a tunnel, from one end to the other through a pipe. false: the caller copies it.
  func splice(from end: End, _ worker: Worker) -> Bool {
    guard let upstream, upstream.stream.isBare, stream.isBare, waiting(for: end.other) == 0,
      inputs.isEmpty(of: end)
    else { return false }
    let remaining = end == .client ? session.exchange.unchangedRequestBytes : session.exchange.unchangedResponseBytes
    if session.exchange.isInTunnel {
      guard self[end].state.contains(.isBulk), !mustBeSeen(from: end) else { return false }
    } else if remaining < Self.leastSplicedBytes, self[end].pipe == nil || remaining == 0 {
      return false
    }
    guard let pipe = self[end].takePipe(&worker.pipes) else { return false }
    let wanted = session.exchange.isInTunnel ? pipe.capacity : Int(min(remaining, UInt64(pipe.capacity)))
    switch (end == .client ? descriptor : upstream.descriptor).splice(to: pipe.writeEnd, count: wanted, more: false) {
    case .moved(let count):
      if session.exchange.isInTunnel, count < Self.trickleBytes { self[end].state.remove(.isBulk) }
      self[end].piped = count
      drainPipe(from: end, worker)
    case .wouldBlock: break
    case .ended: streamEnded(of: end, worker)
    case .failed: streamFailed(of: end, worker)
    }
    return true
  }

  /// Whether the exchange has to see the bytes of a tunnel.
  private func mustBeSeen(from end: End) -> Bool {
    switch end {
    case .client: session.exchange.isInspecting || session.exchange.pacesUpload
    case .upstream: session.exchange.looksAtUpstreamBytes || session.exchange.pacesDownload
    }
  }

  func drainPipe(from end: End, _ worker: Worker) {
    guard let pipe = self[end].pipe, self[end].holdsPiped, let other = stream(of: end.other)?.descriptor else { return }
    switch pipe.readEnd.splice(to: other, count: self[end].piped, more: false) {
    case .moved(let count):
      self[end].piped -= count
      if end == .upstream { clientRoom.took(count) }
      noteMoved(from: end, count, worker)
    case .wouldBlock: return
    case .ended, .failed:
      // The upstream never gets the bytes in the pipe. They count as dropped.
      if end == .client {
        noteMoved(from: end, clientSide.piped, worker)
        clientSide.givePipeBack(&worker.pipes)
      }
      return sendingFailed(to: end.other, worker)
    }
    if self[end].holdsPiped { return }
    // An idle tunnel keeps no pipe.
    if session.exchange.isInTunnel, !self[end].state.contains(.isBulk) { self[end].givePipeBack(&worker.pipes) }
    if end == .upstream, let action = session.exchange.endIfComplete() {
      finish(action, leaves: false, worker)
    } else {
      sent(to: end.other, worker)
    }
  }

  /// Chunks of stored content sent in one turn: no client keeps the others of its loop waiting for more than some
  /// hundred microseconds.
  private static let chunksPerTurn = 4

  /// Writes stored content to the client without copying it. false: it has to be copied, or none is ready now.
  func giveStored(_ worker: Worker) -> Bool {
    guard session.exchange.unchangedResponseBytes >= Self.leastSplicedBytes, stream.carried == nil,
      let stored = upstream?.stream.carried as? StoredStream, waiting(for: .client) == 0, inputs.fromUpstream.isEmpty
    else { return false }
    for turn in 0..<Self.chunksPerTurn {
      guard let (chunk, range) = stored.nextContent() else { return turn > 0 }
      switch stream.write(ByteBuffer(), then: chunk.span.extracting(range)) {
      case .moved(let count):
        stored.took(count)
        clientRoom.took(count)
        noteMoved(from: .upstream, count, worker)
        if let action = session.exchange.endIfComplete() {
          finish(action, leaves: false, worker)
          return true
        }
        if count == range.count { continue }
        clientRoom.isAwaited = true
      case .wouldBlock: clientRoom.isAwaited = true
      case .ended, .failed: sendingFailed(to: .client, worker)
      }
      return true
    }
    return true
  }

  // MARK: To either end

  /// How many bytes wait to be sent to one end, apart from those in a pipe.
  func waiting(for end: End) -> Int { end == .client ? outputs.toClient.count : outputs.toUpstream.count }

  /// Sends the next `count` bytes of the input of one end to the other, after what already waits.
  func forward(from end: End, _ input: inout ByteBuffer, _ count: Int, on worker: Worker) {
    guard let stream = stream(of: end.other) else { preconditionFailure("bytes for an upstream that is not there") }
    let outcome: Transfer
    switch end {
    case .client:
      session.exchange.keepForReplay(
        input.bytes.extracting(0..<count), &outputs.replay, pool: &worker.workspace.pool)
      outcome = Self.send(
        input.bytes.extracting(0..<count), behind: &outputs.toUpstream, by: stream, &worker.workspace.pool)
    case .upstream where session.exchange.pacesDownload:
      // `flush` sends paced bytes, as many as may leave.
      worker.workspace.pool.lend(&outputs.toClient, count)
      outputs.toClient.append(input.bytes.extracting(0..<count))
      outcome = .wouldBlock
    case .upstream:
      outcome = Self.send(
        input.bytes.extracting(0..<count), behind: &outputs.toClient, by: stream, &worker.workspace.pool)
      if case .moved(let moved) = outcome { clientRoom.wrote(moved) }
    }
    switch outcome {
    case .moved, .wouldBlock: noteForwarded(from: end, &input, count, on: worker)
    case .ended, .failed:
      // Consumed first: what can be sent again is in the replay, the rest is dropped.
      if end == .client { noteForwarded(from: end, &input, count, on: worker) }
      sendingFailed(to: end.other, worker)
    }
  }

  /// Sends what waits in `output`, and `bytes` after it. What the socket does not accept waits there.
  private static func send(
    _ bytes: Span<UInt8>, behind output: inout ByteBuffer, by stream: ByteStream, _ pool: inout BufferPool
  ) -> Transfer {
    let waiting = output.count
    let outcome = stream.write(output, then: bytes)
    var sent = 0
    switch outcome {
    case .moved(let moved):
      output.consume(min(waiting, moved))
      sent = max(0, moved - waiting)
    case .wouldBlock: break
    case .ended, .failed: return outcome
    }
    if sent < bytes.count {
      pool.lend(&output, bytes.count - sent)
      output.append(bytes.extracting(sent..<bytes.count))
    } else {
      pool.reclaim(&output)
    }
    return outcome
  }

  private func noteForwarded(from end: End, _ input: inout ByteBuffer, _ count: Int, on worker: Worker) {
    input.consume(count)
    noteMoved(from: end, count, worker)
  }

  func noteMoved(from end: End, _ count: Int, _ worker: Worker) {
    switch end {
    case .client: session.exchange.clientForwarded(count, now: worker.now)
    case .upstream: session.exchange.upstreamForwarded(count, now: worker.now)
    }
  }

  /// One end accepts no more bytes.
  func sendingFailed(to end: End, _ worker: Worker) {
    switch end {
    case .client: perform(session.clientFailed(), worker)
    case .upstream where upstream?.stream.carried.map { $0.wasRefused || $0.abortion != nil } ?? false:
      upstreamStreamEnded(broken: true, worker)
    case .upstream: perform(session.exchange.upstreamWriteFailed(in: &worker.workspace, to: &outputs), worker)
    }
  }

  /// Sends what waits for one end. For the client, this also ends an exchange that has nothing more to send.
  func flush(to end: End, _ worker: Worker) {
    if flags.contains(.closed) || end == .upstream && (upstream == nil || outputs.toUpstream.isEmpty) { return }
    if waiting(for: end) > 0 {
      switch end == .client ? sendToClient(worker) : upstream?.stream.write(outputs.toUpstream) ?? .ended {
      case .moved(let count) where end == .client:
        outputs.toClient.consume(count)
        clientRoom.wrote(count)
        session.exchange.clientTook(count, now: worker.now)
        session.exchange.progressed(now: worker.now)
      case .moved(let count):
        outputs.toUpstream.consume(count)
        session.exchange.progressed(now: worker.now)
      case .wouldBlock: return
      case .ended, .failed:
        if end == .upstream || ending == nil { sendingFailed(to: end, worker) }
        if end == .client { giveUpSending(worker) }
        return
      }
    }
    if waiting(for: end) == 0 { sent(to: end, worker) }
  }

  /// As far as the pace of the client allows.
  private func sendToClient(_ worker: Worker) -> Transfer {
    guard let allowed = session.exchange.downloadAllowance(now: worker.now), allowed < outputs.toClient.count else {
      return stream.write(outputs.toClient)
    }
    if allowed == 0 { return .wouldBlock }
    let nothing = ByteBuffer()
    var waiting = ByteBuffer()
    swap(&waiting, &outputs.toClient)
    defer { swap(&waiting, &outputs.toClient) }
    return stream.write(nothing, then: waiting.bytes.extracting(first: allowed))
  }

  /// No bytes wait for one end any more, except in a pipe.
  func sent(to end: End, _ worker: Worker) {
    switch end {
    case .client: worker.workspace.pool.reclaim(&outputs.toClient)
    case .upstream: worker.workspace.pool.reclaim(&outputs.toUpstream)
    }
    if session.exchange.hasBodyOnItsWay {
      session.exchange.sentAll(toClient: end == .client)
      accountHeld(worker)
    }
    if self[end.other].holdsPiped { return }
    // During a pause, bytes of the client may still wait for its end.
    if self[end].state.contains(.closesWrite), end == .client || !session.exchange.uploadRests {
      self[end].state.remove(.closesWrite)
      stream(of: end)?.shutdownWrite()
    }
    if end == .client, let ending { complete(ending, worker) }
  }

  func writable(_ end: End, _ worker: Worker) {
    flush(to: end, worker)
    if waiting(for: end) == 0, self[end.other].holdsPiped { drainPipe(from: end.other, worker) }
    if end == .client, clientRoom.isAwaited, outputs.toClient.isEmpty {
      clientRoom.isAwaited = false
      if canReadUpstream { readUpstream(takesBytes: true, worker) }
    }
  }
}
