// Origins and parents with which one connection carries the requests, or the tunnels, of many exchanges.
//
// A connection whose handshake has agreed on such a protocol is in its destination's list, under the same key as every
// kept connection: host, port, judged policy and route. Each exchange gets a stream of it, as an upstream of its own.

import Bytes
import Policy
import Session
import Transport

extension UpstreamPool {
  /// Turns a connection that has agreed on `wire` into one that carries streams. nil if memory is short.
  func multiplex(
    _ line: Upstream, on wire: HTTPProtocol, for conversation: Conversation, _ worker: Worker
  ) -> (any MultiplexedConnection)? {
    guard
      let made = wire.begin(
        line.stream, slot: line.slot, with: .origin(line), interest: line.interest,
        limits: worker.policy.configuration.limits, worker)
    else { return nil }
    made.keeper = Self.keeper(for: conversation, worker.policy, worker)
    line.destination.multiplexed.append(made)
    resumeQueued(for: line.destination, worker)
    return made
  }

  /// A stream of a connection to `destination` that has room for one and whose address the rule allows, if there is
  /// such a connection.
  func takeStream(
    _ destination: Destination, rule: Int?, allowsCellular: Bool, for conversation: Conversation, mayWait: Bool,
    _ policy: Policy, on worker: Worker
  ) -> Upstream? {
    let found = connection(
      to: destination, rule: rule, allowsCellular: allowsCellular,
      needing: conversation.session.exchange.opensWebSocket ? .tunnels : .nothing, for: conversation,
      mayWait: mayWait, policy, worker)
    return found.map { stream(of: $0.connection, $0.line, worker) }
  }

  /// Streams may have become available for those that wait for a place.
  func resumeQueued(for destination: Destination, _ worker: Worker) {
    for case .connector(let waiting) in worker.slots.occupants where waiting.isQueued(for: destination) {
      worker.resume(waiting)
    }
  }

  /// What a connection must have for a stream.
  enum StreamNeed {
    case nothing
    /// For a WebSocket.
    case tunnels
    /// For a WebSocket too, if its settings allow: they have not come yet.
    case settings
  }

  /// A connection for another stream. `mayWait`: if all have as many as the peer allows, one where the stream waits
  /// for another to end. That may take days (event streams, WebSockets), so another connection is opened first if it
  /// may be.
  func connection(
    to destination: Destination, rule: Int?, allowsCellular: Bool, needing need: StreamNeed = .nothing,
    for conversation: Conversation, mayWait: Bool = false, _ policy: Policy, _ worker: Worker
  ) -> (connection: any MultiplexedConnection, line: Upstream)? {
    func found(where isMeant: (any MultiplexedConnection) -> Bool) -> (
      connection: any MultiplexedConnection, line: Upstream
    )? {
      connection(
        to: destination, rule: rule, allowsCellular: allowsCellular, needing: need, for: conversation, policy, worker,
        where: isMeant)
    }
    let free = found { $0.hasFreePlace }
    // The tunnels on a connection to a parent stay too long for anything to wait for.
    let mustWait = destination.multiplexed.count >= Self.mostConnections
    if free != nil || !(mayWait || mustWait) || destination.isParent { return free }
    return found { $0.mayOpen }
  }

  /// How many connections of a loop to one origin may be opened because the others are full: some origins allow one
  /// stream, or none for a while.
  private static let mostConnections = 16

  private func connection(
    to destination: Destination, rule: Int?, allowsCellular: Bool, needing need: StreamNeed,
    for conversation: Conversation, _ policy: Policy, _ worker: Worker,
    where isMeant: (any MultiplexedConnection) -> Bool
  ) -> (connection: any MultiplexedConnection, line: Upstream)? {
    let keeper = Self.keeper(for: conversation, policy, worker)
    for connection in destination.multiplexed.reversed() {
      guard case .origin(let line) = connection.peer, isMeant(connection), !connection.isDoubted else { continue }
      switch need {
      case .nothing: break
      case .tunnels where destination.isParent || !connection.takesTunnels: continue
      case .settings where connection.hasSettings: continue
      case .tunnels, .settings: break
      }
      if connection.keeper != keeper { continue }
      if !allowsCellular, line.path.status == .wwan { continue }
      if isDenied(line, rule: rule, of: policy, worker.network) { continue }
      if !mayServe(line, worker) {
        connection.retire()
        continue
      }
      return (connection, line)
    }
    return nil
  }

  /// If rules distinguish users, connections do too.
  private static func keeper(for conversation: Conversation, _ policy: Policy, _ worker: Worker) -> Keeper {
    Keeper(
      claimant: policy.identity.asksForClient ? conversation.knownIdentity(worker) : nil,
      proxyUser: policy.identity.namesProxyUsers ? conversation.session.exchange.record.sender.proxyUser : nil)
  }

  /// Whether another request may use an existing connection.
  private func mayServe(_ line: Upstream, _ worker: Worker) -> Bool {
    worker.network.stillLeads(line) && isInForce(line, worker.live) && mayRely(on: line, worker)
  }

  func stream(of connection: any MultiplexedConnection, _ line: Upstream, _ worker: Worker) -> Upstream {
    let slot = worker.occupy(.free)
    let stream = ByteStream(connection.openStream(servedBy: slot), by: line.descriptor)
    let upstream = Upstream(slot: slot, stream, of: line, on: connection.wire)
    retain(line.destination)
    worker.reoccupy(slot, .upstream(upstream))
    return upstream
  }

  /// A stream of the connection to a parent, for the tunnel that a connector opens.
  func line(
    of connection: any MultiplexedConnection, _ upstream: Upstream, for connector: Connector, _ worker: Worker
  ) -> Line {
    let slot = worker.occupy(.attempt(connector))
    let line = Line(
      slot: slot, Candidate(address: upstream.address, path: upstream.path),
      ByteStream(connection.openStream(servedBy: slot), by: upstream.descriptor))
    line.report = upstream.report
    return line
  }
}
