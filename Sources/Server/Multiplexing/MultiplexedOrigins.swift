// Origins and parents that speak HTTP/2: one connection carries the requests, or the tunnels, of many exchanges.
//
// A connection whose handshake has agreed on HTTP/2 is in its destination's list, under the same key as every kept
// connection: host, port, judged policy and route. Each exchange gets a stream of it, as an upstream of its own.

import Bytes
import HTTP1
import HTTP2
import Policy
import Session
import Transport

extension UpstreamPool {
  /// Makes an endpoint of a connection that has agreed on HTTP/2. It carries streams. nil if memory is short.
  func multiplex(_ line: Upstream, for conversation: Conversation, _ worker: Worker) -> HTTP2Endpoint? {
    let policy = worker.policy
    let limits = policy.configuration.limits
    guard let connection = HTTP2Connection(.client, ConnectionLimits(limits), worker.messages, now: worker.now) else {
      return nil
    }
    let endpoint = HTTP2Endpoint(
      slot: line.slot, line.stream, connection, .origin(line), interest: line.interest, worker)
    endpoint.keeper = Self.keeper(for: conversation, policy, worker)
    worker.reoccupy(line.slot, .http2(endpoint))
    line.destination.endpoints.append(endpoint)
    resumeQueued(for: line.destination, worker)
    endpoint.mark()
    return endpoint
  }

  /// A stream of a connection to `destination` that has room for one and whose address the rule allows, if there is
  /// such a connection.
  func takeStream(
    _ destination: Destination, rule: Int?, allowsCellular: Bool, for conversation: Conversation, mayWait: Bool,
    _ policy: Policy, _ worker: Worker
  ) -> Upstream? {
    let found = endpoint(
      to: destination, rule: rule, allowsCellular: allowsCellular,
      needing: conversation.session.exchange.opensWebSocket ? .tunnels : .nothing, for: conversation,
      mayWait: mayWait, policy, worker)
    return found.map { stream(of: $0.endpoint, $0.line, worker) }
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
  func endpoint(
    to destination: Destination, rule: Int?, allowsCellular: Bool, needing need: StreamNeed = .nothing,
    for conversation: Conversation, mayWait: Bool = false, _ policy: Policy, _ worker: Worker
  ) -> (endpoint: HTTP2Endpoint, line: Upstream)? {
    func found(where isMeant: (HTTP2Endpoint) -> Bool) -> (endpoint: HTTP2Endpoint, line: Upstream)? {
      endpoint(
        to: destination, rule: rule, allowsCellular: allowsCellular, needing: need, for: conversation, policy, worker,
        where: isMeant)
    }
    let free = found { $0.connection.hasFreePlace }
    // The tunnels on a connection to a parent stay too long for anything to wait for.
    let mustWait = destination.endpoints.count >= Self.mostConnections
    if free != nil || !(mayWait || mustWait) || destination.isParent { return free }
    return found { $0.connection.mayOpen }
  }

  /// How many connections of a loop to one origin may be opened because the others are full: some origins allow one
  /// stream, or none for a while.
  private static let mostConnections = 16

  private func endpoint(
    to destination: Destination, rule: Int?, allowsCellular: Bool, needing need: StreamNeed,
    for conversation: Conversation, _ policy: Policy, _ worker: Worker, where isMeant: (HTTP2Endpoint) -> Bool
  ) -> (endpoint: HTTP2Endpoint, line: Upstream)? {
    let keeper = Self.keeper(for: conversation, policy, worker)
    for endpoint in destination.endpoints.reversed() {
      guard case .origin(let line) = endpoint.peer, isMeant(endpoint), !endpoint.isDoubted else { continue }
      switch need {
      case .nothing: break
      case .tunnels where destination.isParent || !endpoint.connection.takesTunnels: continue
      case .settings where endpoint.connection.hasSettings: continue
      case .tunnels, .settings: break
      }
      if endpoint.keeper != keeper { continue }
      if !allowsCellular, line.path.status == .wwan { continue }
      if isDenied(line, rule: rule, of: policy, worker.network) { continue }
      if !mayServe(line, worker) {
        endpoint.retire()
        continue
      }
      return (endpoint, line)
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

  func stream(of endpoint: HTTP2Endpoint, _ line: Upstream, _ worker: Worker) -> Upstream {
    let slot = worker.occupy(.free)
    let carrier = HTTP2Carrier(endpoint.connection.open(), of: endpoint, servedBy: slot)
    let upstream = Upstream(slot: slot, ByteStream(carrier, by: line.descriptor), of: line)
    retain(line.destination)
    worker.reoccupy(slot, .upstream(upstream))
    return upstream
  }

  /// A stream of the connection to a parent, for the tunnel that a connector opens.
  func line(of endpoint: HTTP2Endpoint, _ upstream: Upstream, for connector: Connector, _ worker: Worker) -> Line {
    let slot = worker.occupy(.attempt(connector))
    let carrier = HTTP2Carrier(endpoint.connection.open(), of: endpoint, servedBy: slot)
    let line = Line(
      slot: slot, Candidate(address: upstream.address, path: upstream.path),
      ByteStream(carrier, by: upstream.descriptor))
    line.report = upstream.report
    return line
  }
}

extension ConnectionLimits {
  init(_ limits: Limits, extendedConnect: Bool = false) {
    self.init(
      head: HeadLimits(bytes: limits.headerBytes, fields: limits.headers), streams: limits.streams,
      resets: limits.streamResets, extendedConnect: extendedConnect, linger: Session.lingerMilliseconds)
  }
}
