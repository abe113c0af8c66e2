// Clients that leave while their request waits: for a place, a name, the network, the names of its user, or the origin.
//
// A client that closes its socket sends a FIN. So does a client that has nothing more to send and still listens. On
// this machine the kernel tells the two apart: the socket of the first no longer has an owner. A request whose client
// is gone is not sent: no one will read the answer, and a client that has given up does not expect its request to be
// carried out after all. One that has been sent is aborted.
//
// The kernel is asked when the FIN is seen, possibly a moment before the socket loses its owner, and again before
// anything is sent. A client on another machine shows nothing more than its FIN. Tests: test_left_clients.py.

import Transport

extension SocketOwners {
  /// Whether the client at the other end is gone.
  mutating func hasLeft(_ connection: Accepted, now: Int64) -> Bool {
    guard connection.descriptor.peerHasClosed else { return false }
    if case .gone = owner(of: connection, now: now) { return true }
    return false
  }
}
