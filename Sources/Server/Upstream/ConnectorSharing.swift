// Connections that a connector shares with others: it opens one for all, waits for the one that another connector
// opens, or takes a stream of the one to its parent. Tests: SharedOpeningTests, test_http2.py, test_http2_parents.py.

import Bytes
import Session
import Transport
import Upstream

extension Connector {
  /// Whether it opens a connection that others may share; otherwise it waits for one.
  func mayOpen(_ shared: Destination, _ worker: Worker) -> Bool {
    if openings.begin(shared, self) { return true }
    stage = .following(shared)
    setTimer(worker.now + timeouts.connectMilliseconds + timeouts.tlsHandshakeMilliseconds, worker)
    return false
  }

  /// The connection that it waited for is open or has failed, or it has waited long enough.
  func goOn(afterFollowing shared: Destination, _ worker: Worker) {
    stage = .idle
    openings.noteFollowed(shared)
    setTimer(.max, worker)
    if shared === carrier { findKept(worker) } else { reach(worker) }
  }

  /// The protocols that are offered to a server, the preferred one first; none without TLS. A parent that opens tunnels
  /// may be spoken to by another one than the destination.
  func offer(to peer: Destination) -> [HTTPProtocol] {
    if peer.security == nil { return [] }
    var offer = peer === carrier ? protocols : HTTPProtocol.allCases
    // In the order of the route.
    if let parent = route.route.parent, peer.isParent { offer = parent.protocols.filter(offer.contains) }
    return peer.speaksHTTP11Alone ? offer.withoutMultiplexed : offer
  }

  /// A stream of a connection to the parent, for a tunnel; nil: there is no connection with room for one. `address`: of
  /// the parent; nil: any.
  func lineOfParent(at address: SocketAddress? = nil, _ worker: Worker) -> Line? {
    guard let parent = route.parent, !parent.multiplexed.isEmpty, let conversation,
      let found = worker.upstreams.connection(
        to: parent, rule: rule, allowsCellular: allowsCellular, for: conversation, policy, worker),
      address == nil || found.line.address == address
    else { return nil }
    return worker.upstreams.line(of: found.connection, found.line, for: self, worker)
  }

  // MARK: WebSockets

  /// A WebSocket goes by a stream where the server opens tunnels on streams, and otherwise by a connection of HTTP/1.1.
  /// Which it is, only a connection of HTTP/2 can tell.
  func chooseWebSocketProtocols() {
    guard let allowed = webSocketProtocols else { return }
    let mayAsk =
      !needsFresh && carrier.security != nil && !carrier.isParent && !carrier.opensNoTunnels
      && settlings < Self.mostSettlings
    protocols = mayAsk ? allowed : allowed.withoutMultiplexed
  }

  /// How many connections it opens for their settings: another one if the first was about to end.
  private static let mostSettlings = 2

  /// Waits for the settings of a connection that was made for this or for another request.
  func settle(on connection: any MultiplexedConnection, _ worker: Worker) {
    stage = .settling(connection)
    connection.joinSettlers()
    endOpenings(worker)
    setTimer(worker.now + timeouts.tlsHandshakeMilliseconds, worker)
    if connection.hasSettings { worker.resume(self) }
  }

  func isSettling(on connection: any MultiplexedConnection) -> Bool {
    if case .settling(let awaited) = stage { awaited === connection } else { false }
  }

  /// The settings are known, or the connection is gone.
  private func settled(_ connection: any MultiplexedConnection, _ worker: Worker) {
    stage = .idle
    connection.leaveSettlers()
    setTimer(.max, worker)
    if let stream = takeStream(worker) { return handOver(stream, worker) }
    // One that is gone may have been given up here, to make room or by a reload.
    if connection.hasSettings || settlings < Self.mostSettlings { return tryRoute(worker) }
    let detail =
      "\(destination.name) port \(destination.port) closed the connection before its \(connection.wire.name) settings."
    routeFailed(UpstreamFailure(.connectionClosed, detail), .failed, on: worker)
  }

  /// The connection that it waited for is open, or has failed.
  func goOnAlone(_ worker: Worker) {
    if case .settling(let connection) = stage {
      // What was meant for an earlier stage may come late.
      guard connection.hasSettings || connection.isClosed else { return }
      return settling(worker) { settled(connection, worker) }
    }
    if case .queued = stage {
      // A stream needs no place.
      return settling(worker) { if let stream = takeStream(mayWait: true, worker) { handOver(stream, worker) } }
    }
    guard case .following(let shared) = stage else { return }
    shared.opening.leave(self)
    settling(worker) { goOn(afterFollowing: shared, worker) }
  }

  /// The connections that were being opened are open, or have failed: the waiters continue.
  func endOpenings(_ worker: Worker) {
    for follower in openings.endAll() { worker.resume(follower) }
  }

  /// The connection to the parent is open. By way of it, the one to the destination is not yet.
  func endOpening(of parent: Destination, _ worker: Worker) {
    for follower in openings.end(parent) { worker.resume(follower) }
  }
}
