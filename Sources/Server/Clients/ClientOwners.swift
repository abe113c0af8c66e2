// Who the clients of a loop are, as the kernel says, and what the log hears of those that it does not name.
//
// Clients that leave while their request waits: for a place, a name, the network, the names of its user, or the origin.
//
// A client that closes its socket sends a FIN. So does a client that has nothing more to send and still listens. On
// this machine the kernel tells the two apart: the socket of the first no longer has an owner. A request whose client
// is gone is not sent: no one will read the answer, and a client that has given up does not expect its request to be
// carried out after all. One that has been sent is aborted.
//
// The kernel is asked when the FIN is seen, possibly a moment before the socket loses its owner, and again before
// anything is sent. A client on another machine shows nothing more than its FIN. Tests: test_left_clients.py.

import Bytes
import Policy
import Sharing
import Transport

final class ClientOwners {
  private let clients: LocalClients
  private let log: LogWriter
  private var sockets = SocketOwners()
  /// Clients that left before they were identified, and clients that could not be looked up.
  private var departures = RepeatedEvent()
  private var unknowns = RepeatedEvent()

  init(_ clients: LocalClients, log: LogWriter) {
    self.clients = clients
    self.log = log
  }

  /// The owner of the other end of an accepted connection.
  func owner(of connection: Accepted, now: Int64) -> SocketOwners.Answer { sockets.owner(of: connection, now: now) }

  /// Whether the client at the other end is gone.
  func hasLeft(_ connection: Accepted, now: Int64) -> Bool {
    guard connection.descriptor.peerHasClosed else { return false }
    if case .gone = owner(of: connection, now: now) { return true }
    return false
  }

  /// The client that a connection counts for; nil if it is gone. A subordinate user counts as its owner, who may have
  /// tens of thousands of them.
  func identity(of connection: Accepted, now: Int64) -> Claimant? {
    switch owner(of: connection, now: now) {
    case .owner(let key, _): .user(clients.principal(of: key.userID))
    case .nobody, .unknown: Claimant(IPAddress(connection.peer))
    case .gone: nil
    }
  }

  /// The line of each request says that its client is unknown. This one, now and then, says why.
  func tellOfUnknown(_ peer: SocketAddress, _ reason: String, now: Int64) {
    guard let others = unknowns.happened(now: now) else { return }
    log.event(
      .warning,
      "cannot look up who the client at \(AdminResources.text(peer)) is: \(reason); rules that ask who the client is refuse it\(Self.more(others))"
    )
  }

  /// A client has left before it could be asked about.
  func tellOfDeparture(_ peer: SocketAddress, now: Int64) {
    guard let others = departures.happened(now: now) else { return }
    log.event(
      .info,
      "the client at \(AdminResources.text(peer)) left before it was known who it is, and is not served\(Self.more(others))"
    )
  }

  private static func more(_ others: Int) -> String {
    others == 0 ? "" : "; \(others) more since the last such line"
  }
}
