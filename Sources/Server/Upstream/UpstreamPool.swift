// The upstream connections of one loop: who uses them, which are kept, and the order in which waiters get theirs.

import Bytes
import Policy
import Reachability
import Transport
import Upstream

extension Worker {
  func acquireDestination(port: UInt16, _ security: OriginSecurity?, by route: RouteState) -> Destination {
    destinations.acquire(workspace.decisions.host, port: port, security, via: route)
  }

  func releaseDestination(_ destination: Destination) { destinations.release(destination, now: now) }

  /// Makes an upstream from a connection that leads to `destination`.
  func adopt(_ line: Line, _ destination: Destination, by route: RouteState) -> Upstream {
    let upstream = Upstream(
      slot: line.slot, stream: line.stream, address: line.address, destination: destination, by: route,
      over: line.candidate.path)
    upstream.interest = line.interest
    upstream.checkedAt = paths.generation
    destinations.retain(destination)
    occupants[line.slot] = .upstream(upstream)
    return upstream
  }

  /// `aborts`: the peer must not take what it got for the whole.
  func close(_ upstream: Upstream, leavesPlace: Bool = true, aborts: Bool = false) {
    // Its descriptor and its slot may belong to another one by then.
    if upstream.isClosed { return }
    upstream.owner = nil
    saveSessions(of: upstream)
    if aborts { upstream.stream.abort() } else { upstream.stream.close() }
    upstream.isClosed = true
    vacate(upstream.slot)
    // The place of a reserved connection already belongs to the waiter.
    if leavesPlace, upstream.holdsPlace, !upstream.isReserved {
      shared.quota.leave(upstream.destination.place, of: upstream.holder)
    }
    destinations.release(upstream.destination, now: now)
  }

  /// Keeps a connection for the next request to its destination; a request that waits for a place gets it first.
  /// `idle`: the longest time to keep it, by the rule of the exchange that it served last; nil: that rule sets none.
  func keep(_ upstream: Upstream, idle milliseconds: Int64? = nil) {
    let destination = upstream.destination
    if upstream.isStream {
      // A stored answer says nothing of the route.
      if let carrier = upstream.stream.carried as? HTTP2Carrier {
        upstream.route.noteAnswer(self)
        carrier.noteIdle(milliseconds)
      }
      return close(upstream)
    }
    guard destination.idle.count < policy.configuration.limits.idlePerHost, drainDeadline == nil,
      destination.security.map(live.contains) ?? true, upstream.route.isInForce
    else { return close(upstream) }
    upstream.owner = nil
    upstream.isReserved = false
    if let holder = upstream.holder {
      upstream.holder = nil
      shared.quota.rest(destination.place, of: holder)
    }
    upstream.route.noteAnswer(self)
    saveSessions(of: upstream)
    if upstream.holdsPlace, let waiter = shared.quota.takeFirst(destination.place, of: index) {
      handOver(upstream, to: waiter)
      return
    }
    if upstream.holdsPlace, shared.quota.hasWaiters(destination.place) { return close(upstream) }
    watch(upstream.stream, &upstream.interest, .read, upstream.slot)
    // Most are never used again, and many may come at once: a new one rests from the beginning.
    if upstream.keptUntil == 0 { upstream.stream.tls?.rest() }
    upstream.keptUntil = now + (milliseconds ?? policy.configuration.timeouts.upstreamIdleMilliseconds)
    let rest = upstream.stream.tls == nil ? .max : now + Self.buffersMilliseconds
    timers.set(upstream.slot, min(rest, upstream.keptUntil))
    destination.idle.append(upstream)
  }

  /// The waiter continues in a turn of its own, with this connection if it can use it, otherwise with its place.
  private func handOver(_ upstream: Upstream, to waiter: ConnectionQuota.Waiter) {
    guard generations[waiter.slot] == waiter.generation, case .connector(let connector) = occupants[waiter.slot],
      connector.canUse(upstream, self), upstream.stream.isSilent
    else {
      close(upstream, leavesPlace: false)
      let place = upstream.destination.place
      return shared.mailboxes[index].post(
        .place(slot: waiter.slot, generation: waiter.generation, place, of: waiter.identity))
    }
    watch(upstream.stream, &upstream.interest, .read, upstream.slot)
    upstream.isReserved = true
    connector.reserved = upstream
    shared.mailboxes[index].post(
      .place(
        slot: waiter.slot, generation: waiter.generation, upstream.destination.place, of: waiter.identity))
  }

  /// Whether a request has to wait its turn after others, even if there may be a kept connection.
  func mustQueue(for destination: Destination, _ policy: Policy) -> Bool {
    policy.configuration.limits.connectionsPerHost > 0 && shared.quota.hasWaiters(destination.place)
  }

  /// How long a kept connection keeps its TLS buffers, in milliseconds. A busy one has no pause this long between
  /// requests, and need not free and allocate them at each.
  private static let buffersMilliseconds: Int64 = 1000

  /// The timer of a kept connection: first it rests, in the end it is closed.
  func idleTimerFired(_ upstream: Upstream) {
    guard upstream.owner == nil, now < upstream.keptUntil else { return dropIdle(upstream) }
    upstream.stream.tls?.rest()
    timers.set(upstream.slot, upstream.keptUntil)
  }

  private func saveSessions(of upstream: Upstream) {
    // A certificate that passed although it would be refused is judged again each time. Sessions of a policy that is
    // gone are of no use.
    if upstream.report != nil { return }
    if let tls = upstream.tls, let key = upstream.destination.key, live.contains(key.security) {
      for session in tls.takeSessions() { sessions.insert(session, for: key) }
    }
    if let tls = upstream.parentTLS, let key = upstream.route.parent?.key, upstream.route.isInForce {
      for session in tls.takeSessions() { sessions.insert(session, for: key) }
    }
  }

  /// A stream of an open connection, or a kept connection. `queues`: no kept one if others wait for a place. A stream
  /// needs none. `mayWait`: see `endpoint`.
  func takeKept(
    _ destination: Destination, rule: Int?, allowsCellular: Bool, by protocols: [HTTPProtocol],
    for conversation: Conversation, queues: Bool = false, mayWait: Bool = false, _ policy: Policy
  ) -> Upstream? {
    if protocols.contains(.http2) || conversation.session.exchange.opensWebSocket, !destination.endpoints.isEmpty,
      let stream = takeStream(
        destination, rule: rule, allowsCellular: allowsCellular, for: conversation, mayWait: mayWait, policy)
    {
      return stream
    }
    if !protocols.contains(.http11) || queues && mustQueue(for: destination, policy) { return nil }
    // The origin may speak HTTP/2 all the same, for which a new connection asks.
    if conversation.session.exchange.isGRPC, protocols.contains(.http2), destination.security != nil,
      !destination.speaksHTTP11Alone
    {
      return nil
    }
    return takeIdle(destination, rule: rule, allowsCellular: allowsCellular, policy)
  }

  /// Takes the connection that was kept last, if the rule allows its address and it is alive and silent. Anything that
  /// it sent after its last response would be taken for the response to the next request.
  func takeIdle(_ destination: Destination, rule: Int?, allowsCellular: Bool, _ policy: Policy) -> Upstream? {
    while let upstream = destination.idle.last {
      // Others may use it.
      if !allowsCellular, upstream.path.status == .wwan { return nil }
      destination.idle.removeLast()
      let isDenied =
        !destination.isParent
        && policy.denyingBlock(IPAddress(upstream.address), rule: rule) { paths.isOwn($0, by: upstream.path) } != nil
      if isDenied || !stillLeads(upstream) || !upstream.stream.isSilent
        || !(destination.security?.mayRely(at: seconds) ?? true)
        || !(upstream.route.security?.mayRely(at: seconds) ?? true)
        || isTooOld(upstream.stream)
      {
        close(upstream)
        continue
      }
      timers.set(upstream.slot, .max)
      return upstream
    }
    return nil
  }

  /// Whether a verdict on the chain of the connection, or of what carries it, is no longer relied on.
  func isTooOld(_ stream: ByteStream) -> Bool { isTooOld(stream.tls) || isTooOld(stream.carried?.carrierTLS) }

  private func isTooOld(_ tls: TLSStream?) -> Bool {
    guard let tls else { return false }
    return now - tls.verifiedAt >= longestReliance || isTooOld(tls.carrier)
  }

  /// Closes every kept connection, because descriptors are needed. Returns whether there was one.
  func closeIdleUpstreams() -> Bool {
    var found = false
    for case .upstream(let upstream) in occupants where upstream.owner == nil {
      dropIdle(upstream)
      found = true
    }
    for case .http2(let endpoint) in occupants {
      guard case .origin = endpoint.peer, endpoint.isUnused else { continue }
      endpoint.abandon()
      found = true
    }
    return found
  }

  var isDraining: Bool { drainDeadline != nil }

  func upstreamReady(_ upstream: Upstream, _ readiness: Readiness) {
    if let owner = upstream.owner {
      owner.upstreamReady(readiness, self)
    } else if upstream.stream.tls != nil, upstream.stream.isSilent {
      // Servers send tickets whenever they like.
      saveSessions(of: upstream)
    } else {
      // It closed, or sent something that no request asked for: either way it is not used again.
      dropIdle(upstream)
    }
  }

  func dropIdle(_ upstream: Upstream) {
    guard upstream.owner == nil else { return }
    upstream.destination.idle.removeAll { $0 === upstream }
    close(upstream)
  }
}
