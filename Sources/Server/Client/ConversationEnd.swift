// How an exchange of a conversation ends, or the conversation itself: by its own peers, by the proxy, or because
// another process goes on with it.

import Bytes
import Policy
import Session
import Transport

extension Conversation {
  /// The exchange is over: leaves the upstream, and the client once it has everything.
  func finish(_ action: Action, leaves: Bool, _ worker: Worker) {
    guard case .end(var ending) = action else { return perform(action, worker) }
    // Bytes after a CONNECT that was not granted were meant for the tunnel, and are not read as a request.
    if session.exchange.isTunnel, ending.client == .keep, leaves || !inputs.fromClient.isEmpty || !stream.isSilent {
      ending = Ending(client: .linger, keepsUpstream: false)
    }
    search.takeConnector()?.abandon(worker)
    leaveQuestion(worker)
    endCaching(worker)
    if let upstream {
      let isClean =
        ending.keepsUpstream && !leaves && inputs.fromUpstream.isEmpty && outputs.toUpstream.isEmpty
        && !upstreamSide.state.contains(.ended) && !upstreamSide.state.contains(.broken)
      if isClean {
        worker.upstreams.keep(upstream, idle: session.exchange.ruling.timeouts.upstreamIdleMilliseconds, worker)
      } else {
        // If the client broke off the tunnel, the upstream must not take what it received for the whole.
        let isCut =
          session.exchange.isInTunnel && session.exchange.record.outcome == .clientLeft
          && !clientSide.state.contains(.ended)
        worker.upstreams.close(upstream, aborts: isCut, worker)
      }
    }
    leaveUpstream(worker)
    search.release(worker)
    session.exchange.releaseHeld(in: &worker.workspace)
    discountHeld(worker)
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    worker.workspace.pool.reclaim(&outputs.replay)
    clientSide.givePipeBack(&worker.pipes)
    session.exchange.dropUpload()
    if ending.client == .abort {
      session.exchange.clientMissed(outputs.toClient.count, .clientLeft)
      outputs.toClient.removeAll()
      upstreamSide.givePipeBack(&worker.pipes)
    }
    self.ending = ending
    flush(to: .client, worker)
    if self.ending != nil, session.exchange.hasBodyOnItsWay { accountHeld(worker) }
  }

  /// Everything has been sent.
  func complete(_ ending: Ending, _ worker: Worker) {
    self.ending = nil
    discountHeld(worker)
    session.exchange.log(text: outputs.text, client: peer, isForRest: isForRest, worker)
    if session.exchange.record.answeredItself { flags.insert(.wasRefused) } else { flags.remove(.wasRefused) }
    worker.workspace.pool.reclaim(&outputs.text)
    giveBackPipes(worker)
    closeBodyFile(worker)
    let keeps =
      ending.client == .intercept
      || ending.client == .keep && !isStream
        && (hasNextRequest || !worker.isDraining && !clientSide.state.contains(.ended))
    session.exchangeEnded(now: worker.now, keeps: keeps)
    clientSide.state.remove([.sawInput, .closesWrite])
    upstreamSide.state.remove(.closesWrite)
    clientSide.isHalfClosed = false
    clientRoom.isAwaited = false
    switch ending.client {
    case .keep:
      if !keeps { close(worker) }
    case .close where canCloseAtOnce, .cut where canCloseAtOnce, .close where isStream, .cut where isStream,
      .linger where isStream:
      close(worker)
    case .close, .cut, .linger:
      // Closing with unread bytes would send a reset, and a reset destroys what the client has not read yet.
      worker.workspace.pool.reclaim(&inputs.fromClient)
      stream.shutdownWrite()
      if clientSide.state.contains(.ended) { close(worker) }
    case .abort:
      flags.insert(.aborts)
      close(worker)
    case .intercept: flags.insert(.startsClientHandshake)
    }
  }

  /// No bytes of the client are unread.
  private var canCloseAtOnce: Bool {
    clientSide.state.contains(.ended) || inputs.fromClient.isEmpty && stream.isSilent
  }

  private func giveBackPipes(_ worker: Worker) {
    clientSide.givePipeBack(&worker.pipes)
    upstreamSide.givePipeBack(&worker.pipes)
  }

  /// The rest of a response cannot be delivered.
  func giveUpSending(_ worker: Worker, _ outcome: Outcome = .clientLeft) {
    guard let ending else { return }
    session.exchange.clientMissed(outputs.toClient.count, outcome)
    outputs.toClient.removeAll()
    upstreamSide.givePipeBack(&worker.pipes)
    complete(Ending(client: .abort, keepsUpstream: ending.keepsUpstream), worker)
  }

  func close(_ worker: Worker) {
    if flags.contains(.closed) { return }
    flags.insert(.closed)
    leaveQuestion(worker)
    endCaching(worker)
    search.takeConnector()?.abandon(worker)
    dropUpstream(worker)
    search.release(worker)
    giveBackPipes(worker)
    closeBodyFile(worker)
    session.exchange.releaseHeld(in: &worker.workspace)
    worker.workspace.pool.reclaim(&inputs.fromClient)
    worker.workspace.pool.reclaim(&outputs.toClient)
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    worker.workspace.pool.reclaim(&outputs.replay)
    worker.workspace.pool.reclaim(&outputs.text)
    if flags.contains(.aborts) { stream.abort() } else { stream.close() }
    release(worker)
    if isStream { worker.vacate(slot) } else { worker.clientClosed(slot) }
  }

  /// Gives up its place: another client waits that has less.
  func displace(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if isInHandshake { return close(worker) }
    if ending == nil { perform(session.displaced(), worker) }
    giveUpSending(worker, .displaced)
    if !flags.contains(.closed) { close(worker) }
  }

  var mayGiveUpHeld: Bool { session.exchange.heldBytes > 0 && !session.exchange.yieldsHeld }

  /// Another client waits for memory that has less of it.
  func giveUpHeld(_ worker: Worker) {
    // All of it is in the output already.
    if ending != nil { return displace(worker) }
    perform(session.exchange.giveUpHeld(in: &worker.workspace, to: &outputs), worker)
    accountHeld(worker)
    settle(worker)
  }

  /// Ends the exchange of a client that is gone.
  func endLeft(_ worker: Worker) { perform(session.clientFailed(), worker) }

  // MARK: By the operator

  /// The time that a stop allows is over.
  func shutDown(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if ending == nil {
      perform(session.shutDown(in: &worker.workspace, to: &outputs), worker)
      // Sends as much as the socket accepts at once: there is no later.
      settle(worker)
    }
    giveUpSending(worker, .shutDown)
  }

  /// An operator wants the current exchange to end. false: there is none.
  func cancel(_ worker: Worker) -> Bool {
    guard !flags.contains(.closed), ending == nil, session.isInExchange else { return false }
    perform(session.cancelled(in: &worker.workspace, to: &outputs), worker)
    if !flags.contains(.closed) { settle(worker) }
    return true
  }

  /// Whether too little is known of the request to decide it again: it does not go on.
  var cannotBeDecided: Bool {
    ending == nil && !hasNoClient && session.isInExchange && session.exchange.record.text.isCut
  }

  /// What denies its exchange or its tunnel by the policy in force: see `Session.denial`.
  func denialNow(_ worker: Worker) -> String? {
    guard !flags.contains(.closed), ending == nil, !hasNoClient else { return nil }
    return session.denial(text: outputs.text, worker)
  }

  /// `denial`: see `denialNow`.
  func endDenied(by denial: String, _ worker: Worker) {
    perform(session.policyChanged(denial, in: &worker.workspace, to: &outputs), worker)
    if !flags.contains(.closed) { settle(worker) }
  }

  /// The policy has changed: nobody is asked any more about what it denies now. What cannot be decided again, because
  /// its path was too long to be kept, goes on under the policy that it began with.
  func withdrawIfDenied(_ worker: Worker) {
    guard ending == nil, session.exchange.awaitsOperator, !cannotBeDecided, let denial = denialNow(worker) else {
      return
    }
    endDenied(by: denial, worker)
  }

  // MARK: Hand-over

  var canBeHandedOver: Bool {
    session.exchange.isPlainTunnel && ending == nil && !isInHandshake && !flags.contains(.closed)
      && stream.isBare && upstream?.stream.isBare ?? false && search.destination != nil
  }

  /// Makes all that has been read from one side and not yet sent to the other wait in the outputs, in the order of
  /// arrival: first what waits to be sent, then what is in a pipe or was not looked at.
  func gatherWaiting(_ worker: Worker) {
    let fromUpstream = upstreamSide.emptyPipe(into: &outputs.toClient)
    if fromUpstream > 0 { session.exchange.upstreamForwarded(fromUpstream, now: worker.now) }
    if !inputs.fromUpstream.isEmpty {
      outputs.toClient.append(contentsOf: inputs.fromUpstream)
      session.exchange.upstreamForwarded(inputs.fromUpstream.count, now: worker.now)
      worker.workspace.pool.reclaim(&inputs.fromUpstream)
    }
    let fromClient = clientSide.emptyPipe(into: &outputs.toUpstream)
    if fromClient > 0 { session.exchange.clientForwarded(fromClient, now: worker.now) }
    if !inputs.fromClient.isEmpty {
      if !session.exchange.dropsRequest { outputs.toUpstream.append(contentsOf: inputs.fromClient) }
      session.exchange.clientForwarded(inputs.fromClient.count, now: worker.now)
      worker.workspace.pool.reclaim(&inputs.fromClient)
    }
  }

  /// systemd has the tunnel: here it ends without a word to either side.
  func leave(_ worker: Worker) {
    // Closed here, the sockets stay open there, and the poller would go on reporting events for them.
    unwatch(worker)
    close(worker)
  }

  /// Goes on with a tunnel of the previous daemon.
  func resume(_ tunnel: StoredTunnel, _ worker: Worker) {
    let state = tunnel.state
    session = Session(
      resuming: state, policy: live.policy, in: worker.rooms, now: worker.now, in: &worker.workspace, to: &outputs)
    let upstream = tunnel.takeBack(worker)
    take(upstream)
    search.goOn(to: upstream.destination)
    if state.ends.contains(.clientEnded) { clientSide.state.insert(.ended) }
    if state.ends.contains(.upstreamEnded) { upstreamSide.state.insert(.ended) }
    if state.ends.contains(.closesClientWrite) { clientSide.state.insert(.closesWrite) }
    if state.ends.contains(.closesUpstreamWrite) { upstreamSide.state.insert(.closesWrite) }
    session.exchange.beginPace(on: upstream.way.link, owing: outputs.toUpstream.count, now: worker.now)
    guard worker.register(descriptor, .read, slot: slot),
      worker.register(upstream.descriptor, .read, slot: upstream.slot)
    else {
      return shutDown(worker)
    }
    flush(to: .client, worker)
    if !flags.contains(.closed), self.upstream != nil {
      if outputs.toUpstream.isEmpty { sent(to: .upstream, worker) } else { flush(to: .upstream, worker) }
    }
    settle(worker)
  }
}
