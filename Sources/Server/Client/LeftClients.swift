// Clients that leave while their request waits: for a place, a name, the network, the names of its user, or the origin.
//
// A client that closes its socket sends a FIN. So does a client that has nothing more to send and still listens. On
// this machine the kernel tells the two apart: the socket of the first no longer has an owner. A request whose client
// is gone is not sent: no one will read the answer, and a client that has given up does not expect its request to be
// carried out after all. One that has been sent is aborted.
//
// The kernel is asked when the FIN is seen, possibly a moment before the socket loses its owner, and again before
// anything is sent. A client on another machine shows nothing more than its FIN. Tests: test_left_clients.py.

import Policy
import Session
import Sharing
import Transport

extension SocketOwners {
  /// Whether the client at the other end is gone.
  mutating func hasLeft(_ connection: Accepted, now: Int64) -> Bool {
    guard connection.descriptor.peerHasClosed else { return false }
    if case .gone = owner(of: connection, now: now) { return true }
    return false
  }
}

extension Conversation {
  func hasLeft(_ worker: Worker) -> Bool { worker.owners.hasLeft(connection, now: worker.now) }

  /// An upstream is ready for the request. If the client has left meanwhile, the request is over, and the upstream is
  /// free for the next one. Only a request that has waited is checked, even if for less than a millisecond. One that
  /// has not waited is sent as if there were no proxy. `hasEarly`: the upstream has already sent bytes, which would be
  /// taken for the response to the next request.
  func leavesQueue(_ upstream: Upstream, hasEarly: Bool = false, _ worker: Worker) -> Bool {
    let hasWaited = worker.workspace.turnMicroseconds > session.exchange.record.begunMicroseconds
    guard hasWaited || isHalfClosed, hasLeft(worker) else { return false }
    if session.exchange.isTunnel || hasEarly { worker.close(upstream) } else { worker.keep(upstream) }
    endLeft(worker)
    return true
  }

  /// Ends the exchange of a client that is gone.
  func endLeft(_ worker: Worker) { perform(session.clientFailed(), worker) }

  // MARK: Its names

  /// Whether the client is known as far as the policy and the log need it.
  func knowsClient(_ worker: Worker) -> Bool {
    if client.isIdentified || !worker.namesClients { return true }
    switch client.identify(connection, slot: slot, &session.origin, worker) {
    case .known: return true
    case .awaited: return false
    case .gone:
      leaveUnserved(worker)
      return false
    }
  }

  func identified(_ client: LocalClient, _ program: String?, by lookUp: LookUp, _ worker: Worker) {
    guard self.client.awaits(lookUp) else { return }
    endLookUp()
    if worker.asksForClient, hasLeft(worker) { return leaveUnserved(worker) }
    session.origin.program = program ?? session.origin.program
    self.client.take(client, &session.origin, worker)
    settle(worker)
  }

  func endLookUp() {
    client.endLookUp()
    // The end of its sending direction is reported again once the session can handle it.
    isHalfClosed = false
  }

  /// The client cannot be identified: if a rule asks, the request is refused.
  func giveUpIdentifying(_ worker: Worker) {
    endLookUp()
    if let problem = client.giveUp(&session.origin, worker) { refuse(problem, clientInput, worker) }
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

  /// No one is left to read an answer.
  private func leaveUnserved(_ worker: Worker) {
    if let others = worker.departures.happened(now: worker.now) {
      let more = others == 0 ? "" : "; \(others) more since the last such line"
      worker.shared.log.event(
        .info,
        "the client at \(AdminResources.text(peer)) left before it was known who it is, and is not served\(more)")
    }
    close(worker)
  }

  // MARK: Its share

  /// Whose connection it is; nil until that has to be known.
  var identity: Claimant? { client.claimant }

  func knownIdentity(_ worker: Worker) -> Claimant { client.claimant(of: connection, worker) }

  func countIdentity(_ worker: Worker) {
    if isStream || flags.contains(.closed) { return }
    client.count(connection, worker)
  }

  /// Gives up its place: another client waits that has less.
  func displace(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if isInHandshake { return close(worker) }
    if ending == nil { perform(session.displaced(), worker) }
    giveUpSending(worker, .displaced)
    if !flags.contains(.closed) { close(worker) }
  }
}
