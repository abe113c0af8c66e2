// Ends of a conversation that the proxy causes, not one of its peers.

import Session
import Transport

extension Conversation {
  /// The time that a stop allows is over.
  func shutDown(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if ending == nil {
      perform(session.shutDown(&worker.workspace, &outputs), worker)
      // Sends as much as the socket accepts at once: there is no later.
      settle(worker)
    }
    giveUpSending(worker, .shutDown)
  }

  /// An operator wants the current exchange to end. false: there is none.
  func cancel(_ worker: Worker) -> Bool {
    guard !flags.contains(.closed), ending == nil, session.isInExchange else { return false }
    perform(session.cancelled(&worker.workspace, &outputs), worker)
    if !flags.contains(.closed) { settle(worker) }
    return true
  }

  /// Whether too little is known of the request to decide it again: it does not go on.
  var cannotBeDecided: Bool {
    ending == nil && !hasNoClient && session.isInExchange && session.exchange.isTextCut
  }

  /// What denies its exchange or its tunnel by the policy in force: see `Session.denial`.
  func denialNow(_ worker: Worker) -> String? {
    guard !flags.contains(.closed), ending == nil, !hasNoClient else { return nil }
    return session.denial(text: outputs.text, worker)
  }

  /// `denial`: see `denialNow`.
  func endDenied(by denial: String, _ worker: Worker) {
    perform(session.policyChanged(denial, &worker.workspace, &outputs), worker)
    if !flags.contains(.closed) { settle(worker) }
  }

  // MARK: Hand-over

  var canBeHandedOver: Bool {
    session.exchange.isPlainTunnel && ending == nil && !isInHandshake && !flags.contains(.closed)
      && stream.isBare && upstream?.stream.isBare ?? false && destination != nil
  }

  /// Makes all that has been read from one side and not yet sent to the other wait in the outputs, in the order of
  /// arrival: first what waits to be sent, then what is in a pipe or was not looked at.
  func gatherWaiting(_ worker: Worker) {
    let fromUpstream = upstreamSide.emptyPipe(into: &outputs.toClient)
    if fromUpstream > 0 { session.exchange.upstreamForwarded(fromUpstream, now: worker.now) }
    if !upstreamInput.isEmpty {
      outputs.toClient.append(contentsOf: upstreamInput)
      session.exchange.upstreamForwarded(upstreamInput.count, now: worker.now)
      worker.workspace.pool.reclaim(&upstreamInput)
    }
    let fromClient = clientSide.emptyPipe(into: &outputs.toUpstream)
    if fromClient > 0 { session.exchange.clientForwarded(fromClient, now: worker.now) }
    if !clientInput.isEmpty {
      if !session.exchange.dropsRequest { outputs.toUpstream.append(contentsOf: clientInput) }
      session.exchange.clientForwarded(clientInput.count, now: worker.now)
      worker.workspace.pool.reclaim(&clientInput)
    }
  }

  /// systemd has the tunnel: here it ends without a word to either side.
  func leave(_ worker: Worker) {
    // Closed here, the sockets stay open there, and the poller would go on reporting events for them.
    worker.update(descriptor, &interest, nil, slot)
    if let upstream { worker.watch(upstream.stream, &upstream.interest, nil, upstream.slot) }
    close(worker)
  }

  /// Goes on with a tunnel of the previous daemon.
  func resume(_ tunnel: StoredTunnel, _ worker: Worker) {
    let state = tunnel.state
    session = Session(
      resuming: state, policy: live.policy, in: worker.rooms, now: worker.now, &worker.workspace, &outputs)
    if state.ends.contains(.clientEnded) { clientSide.state.insert(.ended) }
    if state.ends.contains(.upstreamEnded) { upstreamSide.state.insert(.ended) }
    if state.ends.contains(.closesClientWrite) { clientSide.state.insert(.closesWrite) }
    if state.ends.contains(.closesUpstreamWrite) { upstreamSide.state.insert(.closesWrite) }
    let upstream = tunnel.takeBack(worker)
    upstream.owner = self
    self.upstream = upstream
    destination = upstream.destination
    session.exchange.beginPace(on: upstream.way.link, owing: outputs.toUpstream.count, now: worker.now)
    guard worker.register(descriptor, .read, slot), worker.register(upstream.descriptor, .read, upstream.slot) else {
      return shutDown(worker)
    }
    flush(to: .client, worker)
    if !flags.contains(.closed), self.upstream != nil {
      if outputs.toUpstream.isEmpty { sent(to: .upstream, worker) } else { flush(to: .upstream, worker) }
    }
    settle(worker)
  }
}
