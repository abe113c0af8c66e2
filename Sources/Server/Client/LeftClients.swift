// Clients that leave while their request waits: for a place, a name, the network, the names of its user, or the origin.
//
// A client that closes its socket sends a FIN. So does a client that has nothing more to send and still listens. On
// this machine the kernel tells the two apart: the socket of the first no longer has an owner. A request whose client
// is gone is not sent: no one will read the answer, and a client that has given up does not expect its request to be
// carried out after all. One that has been sent is aborted.
//
// The kernel is asked when the FIN is seen, possibly a moment before the socket loses its owner, and again before
// anything is sent. A client on another machine shows nothing more than its FIN. Tests: test_left_clients.py.

import Session
import Transport

extension Conversation {
  func hasLeft(_ worker: Worker) -> Bool { worker.owners.hasLeft(connection, now: worker.now) }

  /// An upstream is ready for the request. If the client has left meanwhile, the request is over, and the upstream is
  /// free for the next one. Only a request that has waited is checked, even if for less than a millisecond. One that
  /// has not waited is sent as if there were no proxy. `hasEarly`: the upstream has already sent bytes, which would be
  /// taken for the response to the next request.
  func leavesQueue(_ upstream: Upstream, hasEarly: Bool = false, _ worker: Worker) -> Bool {
    let hasWaited = worker.workspace.turnMicroseconds > session.exchange.record.begunMicroseconds
    guard hasWaited || isHalfClosed, hasLeft(worker) else { return false }
    if session.exchange.isTunnel || hasEarly {
      worker.upstreams.close(upstream, worker)
    } else {
      worker.upstreams.keep(upstream, worker)
    }
    endLeft(worker)
    return true
  }

  /// Ends the exchange of a client that is gone.
  func endLeft(_ worker: Worker) { perform(session.clientFailed(), worker) }
}
