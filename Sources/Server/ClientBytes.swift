// From the client to the session, and on to the upstream: reading, pumping, sending.
//
// Write first: only what the socket does not take is kept, and while any of it is, the client is not read.

import Bytes
import HTTP1
import Session
import Transport

extension Conversation {
  var canReadClient: Bool {
    ending == nil && clientHandshake == nil
      && flags.isDisjoint(with: [.clientEnded, .startsClientHandshake, .awaitsNames, .rests])
      && session.wantsClientBytes && outputs.toUpstream.isEmpty
      && !(streams?.holdsRequest ?? false)
  }

  /// Whether another request has come already, or has begun to.
  var hasNextRequest: Bool { !RequestHead.isPassedOver(clientInput) }

  func readClient(_ worker: Worker) {
    if spliceRequest(worker) { return }
    // What waits behind a head is other requests, which are kept meanwhile.
    var room = session.awaitsHead ? Self.requestHeadBytes : Worker.readBytes
    if session.exchange.spools { room = min(room, Exchange.spooledReadBytes) }
    if let allowed = session.exchange.uploadAllowance { room = min(room, max(allowed, Self.leastReadBytes)) }
    var input = takeInput(&clientInput, room, worker)
    switch stream.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { flags.insert(.requestIsBulk) }
      pumpClient(&input, worker)
      keepInput(&input, &clientInput, worker)
    case .wouldBlock:
      keepInput(&input, &clientInput, worker)
    case .ended:
      keepInput(&input, &clientInput, worker)
      clientStreamEnded(worker)
    case .failed:
      keepInput(&input, &clientInput, worker)
      perform(session.clientFailed(), worker)
    }
  }

  func clientStreamEnded(_ worker: Worker) {
    if flags.contains(.closed) { return }
    flags.insert(.clientEnded)
    if !clientInput.isEmpty, session.exchange.clientSaidAll() {
      var input = ByteBuffer()
      swap(&input, &clientInput)
      pumpClient(&input, worker)
      keepInput(&input, &clientInput, worker)
      if flags.contains(.closed) || ending != nil || !session.exchange.isInTunnel { return }
    }
    let action = session.clientEnded(now: worker.now, &worker.workspace, &outputs)
    perform(action, otherIsUpstream: true, worker)
    connector?.clientEnded(worker)
  }

  /// Refuses the request that begins with `input`, the last of this connection.
  func refuse(_ problem: Problem, _ input: borrowing ByteBuffer, _ worker: Worker) {
    session.expectLastExchange()
    let action = session.refuseUnread(
      input.bytes, problem, now: worker.now, policy: live.policy, &worker.workspace, &outputs)
    perform(action, worker)
  }

  /// Shows the session what there is until it can use no more of it.
  func pumpClient(_ input: inout ByteBuffer, _ worker: Worker) {
    flags.remove(.sawClientInput)
    var goesOn = true
    var begun = 0
    let isShort = worker.heldIsShort
    while goesOn, flags.isDisjoint(with: [.closed, .startsClientHandshake]), ending == nil {
      if session.isIdle {
        if live !== worker.live {
          live = worker.live
          // Users may have other names, and subordinate users other owners.
          flags.remove([.identified, .identifiedForNext])
        }
        if !input.isEmpty, worker.isRefusing {
          refuse(
            Problem(.shuttingDown, "The proxy is drained, and takes no requests until it is started again."), input,
            worker)
          input.consume(input.count)
          return
        }
        if !input.isEmpty, mustRest(afterBeginning: begun, worker) || !knowsClient(worker) { return }
        begun += 1
      }
      if isShort || session.exchange.heldOverdraft > 0 { prepareToHold(worker) }
      let isUndecided = session.exchange.record.decision == nil
      let step = session.clientReceived(
        input.bytes, now: worker.now, policy: live.policy, &worker.workspace, &outputs)
      input.consume(step.consumed)
      if session.exchange.holdsBody || accountedHeld > 0 { accountHeld(worker) }
      if isUndecided, session.exchange.record.decision != nil { tellBeginning(worker) }
      switch step.action {
      case .read:
        flags.insert(.sawClientInput)
        goesOn = false
      case .hold:
        goesOn = false
      case .forward(let count):
        forwardToUpstream(&input, count, worker)
        goesOn = !input.isEmpty && outputs.toUpstream.isEmpty
      case .end:
        finish(step.action, leaves: session.exchange.isTunnel && !input.isEmpty, worker)
        goesOn = !input.isEmpty && session.wantsClientBytes && outputs.toUpstream.isEmpty
      case .connect, .reconnect, .intercept, .judge, .tunnel, .closeOtherWrite, .close:
        perform(step.action, worker)
        goesOn = !input.isEmpty && session.wantsClientBytes && outputs.toUpstream.isEmpty
      }
    }
    flushUpstream(worker)
    // A client that waits to be bidden to go on (RFC 9110, 10.1.1).
    if session.exchange.isCollecting, !outputs.toClient.isEmpty { flushClient(worker) }
  }

  /// Requests of one connection that one turn of the loop begins. One after another is how nearly all clients ask; four
  /// serve those that pipeline, and take some tens of microseconds of those who ask for nothing but refusals.
  static let requestsPerTurn = 4
  /// Requests behind others of the same connection that one turn begins, of all clients: a millisecond at most.
  static let pipelinedPerTurn = 64
  /// What is read where the head of a request is expected: most fit in a tenth of it, and a client that sends many at once
  /// makes the proxy keep no more.
  static let requestHeadBytes = 16 << 10

  /// Whether the next request has to wait: for those of other clients, or, where this one is only refused, for the log.
  private func mustRest(afterBeginning begun: Int, _ worker: Worker) -> Bool {
    if begun == 0, !(flags.contains(.wasRefused) && worker.shared.log.isBehind) { return false }
    worker.pipelinedInTurn += begun == 0 ? 0 : 1
    let isDue =
      begun < Self.requestsPerTurn && worker.pipelinedInTurn <= Self.pipelinedPerTurn
      && !(flags.contains(.wasRefused) && worker.shared.log.isBehind)
    if isDue { return false }
    flags.insert(.rests)
    worker.rest(slot)
    return true
  }

  /// The next `count` bytes of the input go to the upstream, behind what waits already.
  func forwardToUpstream(_ input: inout ByteBuffer, _ count: Int, _ worker: Worker) {
    guard let upstream else { preconditionFailure("bytes for an upstream that is not there") }
    let head = outputs.toUpstream.count
    var sent = 0
    if session.exchange.keepsReplay { outputs.replay.append(input.bytes.extracting(0..<count)) }
    switch upstream.stream.write(outputs.toUpstream, then: input.bytes.extracting(0..<count)) {
    case .moved(let moved):
      outputs.toUpstream.consume(min(head, moved))
      sent = max(0, moved - head)
    case .wouldBlock: break
    case .ended, .failed:
      // Consumed first: what can be sent again stands in the replay, the rest is dropped.
      input.consume(count)
      session.exchange.clientForwarded(count, now: worker.now)
      perform(session.exchange.upstreamWriteFailed(&worker.workspace, &outputs), worker)
      return
    }
    if sent < count {
      worker.workspace.pool.lend(&outputs.toUpstream, count - sent)
      outputs.toUpstream.append(input.bytes.extracting(sent..<count))
    } else {
      worker.workspace.pool.reclaim(&outputs.toUpstream)
    }
    input.consume(count)
    session.exchange.clientForwarded(count, now: worker.now)
  }

  func flushUpstream(_ worker: Worker) {
    guard let upstream, !outputs.toUpstream.isEmpty else { return }
    switch upstream.stream.write(outputs.toUpstream) {
    case .moved(let count):
      outputs.toUpstream.consume(count)
      session.exchange.progressed(now: worker.now)
    case .wouldBlock: return
    case .ended, .failed:
      perform(session.exchange.upstreamWriteFailed(&worker.workspace, &outputs), worker)
      return
    }
    if outputs.toUpstream.isEmpty { upstreamSent(worker) }
  }

  func upstreamSent(_ worker: Worker) {
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    // During a pause bytes of the client may still wait for its end.
    if flags.contains(.closesUpstreamWrite), !(streams?.holdsRequest ?? false), !session.exchange.uploadRests {
      flags.remove(.closesUpstreamWrite)
      upstream?.stream.shutdownWrite()
    }
  }

  func upstreamWritable(_ worker: Worker) {
    flushUpstream(worker)
    if outputs.toUpstream.isEmpty, streams?.holdsRequest ?? false { drainRequestPipe(worker) }
  }

  /// An event of a client whose bytes cannot be used now.
  func clientUnreadable(_ readiness: Readiness, _ worker: Worker) {
    if flags.contains(.awaitsNames) { return clientMovedMeanwhile(readiness, worker) }
    // In a tunnel whose other direction has ended both ends may have closed in order.
    let isCut = session.exchange.isPaused || session.exchange.isInTunnel && session.exchange.uploadRests && !flags.contains(.upstreamEnded)
    if readiness.isBroken, ending == nil, isCut {
      // It is not waited for what it may still have said: most of what was to come never will.
      perform(session.clientFailed(), worker)
      return
    }
    if readiness.isBroken, ending == nil, session.exchange.isInTunnel || !session.exchange.awaitsOnlyUpstream, !session.exchange.isConnecting {
      // Both ends are closed, by a reset or in order: what has come before is still there to be read.
      flags.insert([.clientUnwatched, .clientBroken])
      return
    }
    if readiness.isBroken {
      if ending == nil { perform(session.clientFailed(), worker) }
      giveUpSending(worker)
      return
    }
    if readiness.peerClosed, session.exchange.awaitsOnlyUpstream, ending == nil, !flags.contains(.clientHalfClosed) {
      flags.insert(.clientHalfClosed)
      if session.exchange.isConnecting, hasLeft(worker) { return perform(session.clientFailed(), worker) }
      perform(session.clientEnded(now: worker.now, &worker.workspace, &outputs), worker)
      connector?.clientEnded(worker)
    }
    flags.insert(.clientUnwatched)
  }
}
