// What the client sends: read, and passed to the session.

import Bytes
import HTTP1
import Session
import Transport

extension Conversation {
  var canReadClient: Bool {
    ending == nil && clientHandshake == nil
      && flags.isDisjoint(with: [.startsClientHandshake, .rests]) && !identification.contains(.awaited)
      && !clientSide.state.contains(.ended)
      && session.wantsClientBytes && outputs.toUpstream.isEmpty
      && !clientSide.holdsPiped
  }

  /// Whether another request has arrived, or begun to.
  var hasNextRequest: Bool { !RequestHead.isPassedOver(clientInput) }

  func readClient(_ worker: Worker) {
    if splice(from: .client, worker) { return }
    // Bytes after a head are other requests, and have to be kept meanwhile.
    var room = session.awaitsHead ? Self.requestHeadBytes : Worker.readBytes
    if session.exchange.spools { room = min(room, Exchange.spooledReadBytes) }
    if let allowed = session.exchange.uploadAllowance { room = min(room, max(allowed, Self.leastReadBytes)) }
    var input = takeInput(&clientInput, room, worker)
    switch stream.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { clientSide.state.insert(.isBulk) }
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

  func streamEnded(of end: End, _ worker: Worker) {
    end == .client ? clientStreamEnded(worker) : upstreamStreamEnded(broken: false, worker)
  }

  func streamFailed(of end: End, _ worker: Worker) {
    end == .client ? perform(session.clientFailed(), worker) : upstreamStreamEnded(broken: true, worker)
  }

  func clientStreamEnded(_ worker: Worker) {
    if flags.contains(.closed) { return }
    clientSide.state.insert(.ended)
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

  /// Refuses the request at the start of `input`, the last of this connection.
  func refuse(_ problem: Problem, _ input: borrowing ByteBuffer, _ worker: Worker) {
    session.expectLastExchange()
    let action = session.refuseUnread(
      input.bytes, problem, now: worker.now, policy: live.policy, &worker.workspace, &outputs)
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
        if live !== worker.live {
          live = worker.live
          // Users may have other names now, and subordinate users other owners.
          identification.remove([.identified, .identifiedForNext, .programSought])
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
      if isShort || session.exchange.client.heldOverdraft > 0 { prepareToHold(worker) }
      let isUndecided = session.exchange.record.decision == nil
      let step = session.clientReceived(
        input.bytes, now: worker.now, policy: live.policy, &worker.workspace, &outputs)
      input.consume(step.consumed)
      if session.exchange.holdsBody || accountedHeld > 0 { accountHeld(worker) }
      if isUndecided, session.exchange.record.decision != nil { tellBeginning(worker) }
      switch step.action {
      case .read:
        clientSide.state.insert(.sawInput)
        goesOn = false
      case .hold:
        goesOn = false
      case .forward(let count):
        forward(from: .client, &input, count, worker)
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

  /// How many requests of one connection begin in one turn. Nearly all clients ask one after another. Four serve those
  /// that pipeline, and cost some tens of microseconds if all of them are refused.
  static let requestsPerTurn = 4
  /// How many pipelined requests of all clients begin in one turn: a millisecond at most.
  static let pipelinedPerTurn = 64
  /// The size of a read where the head of a request is expected. Most heads fit in a tenth of it, and a client that
  /// sends many at once does not make the proxy keep more.
  static let requestHeadBytes = 16 << 10

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
    if identification.contains(.awaited) { return clientMovedMeanwhile(readiness, worker) }
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
    if readiness.peerClosed, session.exchange.awaitsOnlyUpstream, ending == nil, !isHalfClosed {
      isHalfClosed = true
      // The origin need not work for a client that is gone. One that still listens gets its answer.
      if hasLeft(worker) { return perform(session.clientFailed(), worker) }
      perform(session.clientEnded(now: worker.now, &worker.workspace, &outputs), worker)
      connector?.clientEnded(worker)
    }
    if readiness.peerClosed, waiter != nil, ending == nil, !isHalfClosed {
      // Any further bytes stay in its socket. The kernel says whether it is still there to receive the answer.
      isHalfClosed = true
      if hasLeft(worker) { return perform(session.clientFailed(), worker) }
    }
    clientSide.state.insert(.unwatched)
  }
}
