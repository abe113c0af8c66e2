// Clients that leave while their request waits: for a place, for a name, for the network, for the names of its user.
//
// A client that closes its socket sends a FIN, and so does one that only has nothing more to say and still listens. On this
// machine the kernel tells the two apart: the socket of the first has no owner any more. A request whose client is gone is
// not sent: nobody will read the answer, and who gave it up does not expect that it is done after all.
//
// It is asked when the FIN is seen, which may be a moment before the socket loses its owner, and again before anything is
// sent. Of a client on another machine nothing more is known than its FIN. Tests: test_left_clients.py.

import Session
import Transport

extension SocketOwners {
  /// Whether nobody is left at the other end.
  mutating func hasLeft(_ connection: Accepted, now: Int64) -> Bool {
    guard connection.descriptor.peerHasClosed else { return false }
    if case .gone = owner(of: connection, now: now) { return true }
    return false
  }
}

extension Conversation {
  func hasLeft(_ worker: Worker) -> Bool { worker.owners.hasLeft(connection, now: worker.now) }

  /// There is an upstream for the request. Where its client has left meanwhile, the request is over, and the upstream is for
  /// the next one. Only a request that has waited is looked at, be it for less than a millisecond: one that has not is sent
  /// as if no proxy were there.
  /// `hasEarly`: the upstream has said something already, which would be taken for an answer to the next.
  func leavesQueue(_ upstream: Upstream, hasEarly: Bool = false, _ worker: Worker) -> Bool {
    let hasWaited = worker.workspace.turnMicroseconds > session.exchange.record.begunMicroseconds
    guard hasWaited || isHalfClosed, hasLeft(worker) else { return false }
    if session.exchange.isTunnel || hasEarly { worker.close(upstream) } else { worker.keep(upstream) }
    endLeft(worker)
    return true
  }

  /// Ends the exchange of a client that is gone.
  func endLeft(_ worker: Worker) { perform(session.clientFailed(), worker) }
}
