// Who a client is, before its requests are decided: asked once for a connection, and where the answer is not the whole
// one, again for each request, as nothing of what is unknown is remembered.

import Policy
import Session
import Transport

extension Conversation {
  /// Whether the client is known as far as the policy asks; where its names have to be looked up, it waits, and where
  /// it is gone, so is the connection.
  func knowsClient(_ worker: Worker) -> Bool {
    if flags.contains(.identified) || !worker.policy.asksForClient { return true }
    if flags.contains(.awaitsNames) { return false }
    if flags.contains(.identifiedForNext) {
      flags.remove(.identifiedForNext)
      return true
    }
    let key: LocalClients.Key
    switch worker.owners.owner(of: connection, now: worker.now) {
    case .owner(let found):
      key = found
      if identity == nil { identity = .user(worker.shared.clients.principal(of: found.userID)) }
    case .nobody:
      session.client = nil
      flags.insert(.identified)
      return true
    case .unknown(let reason):
      worker.tellOfUnknown(peer, reason)
      session.client = .unknown
      return true
    case .gone:
      leaveUnserved(worker)
      return false
    }
    if let client = worker.shared.clients.find(key, now: worker.now) {
      take(client)
      flags.remove(.identifiedForNext)
      return true
    }
    flags.insert(.awaitsNames)
    let lookUp = LookUp()
    self.lookUp = lookUp
    namesDeadline = worker.now + LocalClients.deadlineMilliseconds
    let mailbox = worker.shared.mailboxes[worker.index]
    let slot = self.slot
    let generation = worker.generation(slot)
    worker.shared.clients.lookUp(
      key,
      LocalClients.Request(lookUp: lookUp) { mailbox.post(.identified(slot: slot, generation: generation, lookUp, $0)) }
    )
    return false
  }

  func identified(_ client: LocalClient, by lookUp: LookUp, _ worker: Worker) {
    // A look-up that was called off may have been over just then.
    guard self.lookUp === lookUp else { return }
    endLookUp()
    if hasLeft(worker) { return leaveUnserved(worker) }
    take(client)
    settle(worker)
  }

  private func take(_ client: LocalClient) {
    session.client = client
    flags.insert(client.outcome == .known ? .identified : .identifiedForNext)
  }

  /// The look-up is over, or nobody waits for it any more.
  func endLookUp() {
    lookUp?.callOff()
    lookUp = nil
    namesDeadline = .max
    // That it has closed its sending direction is told again once the session can hear of it.
    flags.remove([.awaitsNames, .clientHalfClosed])
  }

  /// Nobody says who the client is: the request is refused.
  func giveUpIdentifying(_ worker: Worker) {
    endLookUp()
    session.client = .unknown
    let action = session.clientNotIdentified(
      clientInput.bytes, after: LocalClients.deadlineMilliseconds, now: worker.now, policy: live.policy,
      &worker.workspace, &outputs)
    perform(action, worker)
    settle(worker)
  }

  /// Something has happened to a client whose names are looked up. One that is gone is looked up no longer.
  func clientMovedMeanwhile(_ readiness: Readiness, _ worker: Worker) {
    flags.insert(.clientUnwatched)
    guard readiness.peerClosed else { return }
    flags.insert(.clientHalfClosed)
    if readiness.isBroken { return leaveUnserved(worker) }
    if case .gone = worker.owners.owner(of: connection, now: worker.now) { leaveUnserved(worker) }
  }

  /// Else whoever closes behind a request would pass the rules that deny it. Nobody is left to read an answer.
  private func leaveUnserved(_ worker: Worker) {
    if let others = worker.departures.happened(now: worker.now) {
      let more = others == 0 ? "" : "; \(others) more since the last such line"
      worker.shared.log.event(
        .info, "the client at \(text(of: peer)) left before it was known who it is, and is not served\(more)")
    }
    close(worker)
  }
}

extension Worker {
  /// The line of each request says that its client is unknown; this one says why, now and then.
  func tellOfUnknown(_ peer: SocketAddress, _ reason: String) {
    guard let others = unknowns.happened(now: now) else { return }
    let more = others == 0 ? "" : "; \(others) more since the last such line"
    shared.log.event(
      .warning,
      "cannot look up who the client at \(AdminResources.text(peer)) is: \(reason); rules with users or units refuse it\(more)"
    )
  }
}
