// Identifies a client before its requests are decided: once for a connection or, if the answer is incomplete, again for
// each request, because unknown parts are not remembered. If no rule asks and only the log wants the names, no request
// is refused for them, and none waits long.

import Policy
import Session
import Transport

extension Conversation {
  /// Whether the client is known as far as the policy and the log need it. If its names have to be looked up, it waits.
  /// If it is gone and a rule asks who it was, its connection is closed.
  func knowsClient(_ worker: Worker) -> Bool {
    if identification.contains(.identified) || !worker.namesClients { return true }
    if identification.contains(.awaited) { return false }
    if identification.contains(.identifiedForNext) {
      identification.remove(.identifiedForNext)
      return true
    }
    switch worker.owners.owner(of: connection, now: worker.now) {
    case .owner(let key, let inode): return knowsNames(of: key, inode, worker)
    case .nobody:
      session.origin.client = nil
      identification.insert(.identified)
    case .unknown(let reason):
      session.origin.client = .unknown
      if worker.asksForClient {
        worker.owners.tellOfUnknown(peer, reason, now: worker.now)
      } else {
        identification.insert(.identified)
      }
    case .gone where worker.asksForClient:
      leaveUnserved(worker)
      return false
    case .gone:
      // It has sent its request, and does not wait for the answer.
      session.origin.client = .unknown
      identification.insert(.identified)
    }
    return true
  }

  /// Whether the names of a client are known already. If not, they are looked up, and its program with them if there is
  /// time.
  private func knowsNames(of key: LocalClients.Key, _ inode: UInt32, _ worker: Worker) -> Bool {
    if identity == nil { identity = .user(worker.shared.clients.principal(of: key.userID)) }
    let wantsProgram =
      worker.policy.identity.namesPrograms && !identification.contains(.programSought)
      && (worker.policy.identity.asksForProgram || worker.shared.clients.mayLookForPrograms(now: worker.now))
    if !wantsProgram, let client = worker.shared.clients.find(key, now: worker.now) {
      take(client, worker)
      identification.remove(.identifiedForNext)
      return true
    }
    identification.insert(.awaited)
    if wantsProgram { identification.insert(.programSought) }
    let lookUp = LookUp()
    self.lookUp = lookUp
    let patience =
      worker.asksForClient ? LocalClients.deadlineMilliseconds : LocalClients.logDeadlineMilliseconds
    namesDeadline = worker.now + patience
    session.origin.client = LocalClient(userID: key.userID, user: nil, cgroup: nil)
    let mailbox = worker.shared.mailboxes[worker.index]
    let slot = self.slot
    let generation = worker.generation(slot)
    let request = LocalClients.Request(
      lookUp: lookUp, inode: wantsProgram ? inode : nil, needsProgram: worker.policy.identity.asksForProgram
    ) { client, program in
      mailbox.post(.identified(slot: slot, generation: generation, lookUp, client, program: program))
    }
    worker.shared.clients.lookUp(key, request)
    return false
  }

  func identified(_ client: LocalClient, _ program: String?, by lookUp: LookUp, _ worker: Worker) {
    // A look-up that was called off may have just ended.
    guard self.lookUp === lookUp else { return }
    endLookUp()
    if worker.asksForClient, hasLeft(worker) { return leaveUnserved(worker) }
    session.origin.program = program ?? session.origin.program
    take(client, worker)
    settle(worker)
  }

  /// If a rule asks for something that is in doubt, it is looked up again for the next request. The log uses what is
  /// known.
  private func take(_ client: LocalClient, _ worker: Worker) {
    session.origin.client = client
    identification.insert(client.outcome == .known || !worker.asksForClient ? .identified : .identifiedForNext)
  }

  /// The look-up has ended, or the request no longer waits for it.
  func endLookUp() {
    lookUp?.callOff()
    lookUp = nil
    namesDeadline = .max
    // The end of its sending direction is reported again once the session can handle it.
    identification.remove(.awaited)
    isHalfClosed = false
  }

  /// The client cannot be identified: if a rule asks, the request is refused.
  func giveUpIdentifying(_ worker: Worker) {
    endLookUp()
    guard worker.asksForClient else {
      // The log has its number.
      identification.insert(.identified)
      return settle(worker)
    }
    session.origin.client = .unknown
    let detail =
      "Rules of the policy ask which user, unit or program sends the request, and the look-up did not end within "
      + "\(LocalClients.deadlineMilliseconds) ms. Try again."
    refuse(Problem(.clientNotIdentified, detail), clientInput, worker)
    settle(worker)
  }

  /// Handles an event of a client whose names are being looked up. If the client is gone, the look-up ends.
  func clientMovedMeanwhile(_ readiness: Readiness, _ worker: Worker) {
    clientSide.state.insert(.unwatched)
    guard readiness.peerClosed else { return }
    isHalfClosed = true
    if readiness.isBroken { return leaveUnserved(worker) }
    if worker.asksForClient, case .gone = worker.owners.owner(of: connection, now: worker.now) {
      leaveUnserved(worker)
    }
  }

  /// Otherwise a client that closes right after a request would get past the rules that deny it. No one is left to read
  /// an answer.
  private func leaveUnserved(_ worker: Worker) {
    worker.owners.tellOfDeparture(peer, now: worker.now)
    close(worker)
  }
}
