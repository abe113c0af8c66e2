// The upstream connections of one loop: who has them, which are kept, and in what order those that wait for one get theirs.

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

  /// Makes an upstream of a connection that leads to `destination`.
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

  func close(_ upstream: Upstream, leavesPlace: Bool = true) {
    // Its descriptor and its slot are another's by then.
    if upstream.isClosed { return }
    upstream.owner = nil
    saveSessions(of: upstream)
    upstream.stream.close()
    upstream.isClosed = true
    vacate(upstream.slot)
    // The place of a reserved connection is the waiter's already.
    if leavesPlace, upstream.holdsPlace, !upstream.isReserved {
      shared.quota.leave(upstream.destination.place, of: upstream.holder)
    }
    destinations.release(upstream.destination, now: now)
  }

  /// Keeps a connection for the next request to its destination; one that waits for a place gets it first. `idle`: for how
  /// long at most, by the rule of the exchange that it served last; nil: of none.
  func keep(_ upstream: Upstream, idle milliseconds: Int64? = nil) {
    let destination = upstream.destination
    if upstream.stream.carried != nil {
      upstream.route.noteAnswer(self)
      (upstream.stream.carried as? HTTP2Carrier)?.noteIdle(milliseconds)
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

  /// The waiter goes on in a turn of its own, with this connection where it can use it, else with its place.
  private func handOver(_ upstream: Upstream, to waiter: ConnectionQuota.Waiter) {
    guard generations[waiter.slot] == waiter.generation, case .connector(let connector) = occupants[waiter.slot],
      connector.canUse(upstream, self), upstream.stream.isSilent
    else {
      close(upstream, leavesPlace: false)
      let place = upstream.destination.place
      return shared.mailboxes[index].post(
        .place(slot: waiter.slot, generation: waiter.generation, place, of: waiter.identity))
    }
    update(upstream.descriptor, &upstream.interest, .read, upstream.slot)
    upstream.isReserved = true
    connector.reserved = upstream
    shared.mailboxes[index].post(
      .place(
        slot: waiter.slot, generation: waiter.generation, upstream.destination.place, of: waiter.identity))
  }

  /// Whether a request has to wait for its turn behind others, although there may be a kept connection.
  func mustQueue(for destination: Destination, _ policy: Policy) -> Bool {
    policy.configuration.limits.connectionsPerHost > 0 && shared.quota.hasWaiters(destination.place)
  }

  /// How long a kept connection keeps its TLS buffers, in milliseconds: one that is in use has no pause as long as this
  /// between requests, and is spared a freeing and an allocation at each.
  private static let buffersMilliseconds: Int64 = 1000

  /// The timer of a kept connection: it rests, and in the end it goes.
  func idleTimerFired(_ upstream: Upstream) {
    guard upstream.owner == nil, now < upstream.keptUntil else { return dropIdle(upstream) }
    upstream.stream.tls?.rest()
    timers.set(upstream.slot, upstream.keptUntil)
  }

  private func saveSessions(of upstream: Upstream) {
    // What was let pass is judged anew each time; what belongs to a policy that is gone serves nobody.
    if let tls = upstream.tls, upstream.report == nil, let key = upstream.destination.key, live.contains(key.security) {
      for session in tls.takeSessions() { sessions.insert(session, for: key) }
    }
    if let tls = upstream.parentTLS, let key = upstream.route.parent?.key, upstream.route.isInForce {
      for session in tls.takeSessions() { sessions.insert(session, for: key) }
    }
  }

  /// A stream of a connection that is there, or a connection that is kept; `queues`: none of these where others wait for a place. A
  /// stream takes none.
  func takeKept(
    _ destination: Destination, rule: Int?, allowsCellular: Bool, by protocols: [HTTPProtocol],
    for conversation: Conversation, queues: Bool = false, _ policy: Policy
  ) -> Upstream? {
    if protocols.contains(.http2), !destination.endpoints.isEmpty,
      let stream = takeStream(
        destination, rule: rule, allowsCellular: allowsCellular, for: conversation, policy)
    {
      return stream
    }
    if !protocols.contains(.http11) || queues && mustQueue(for: destination, policy) { return nil }
    return takeIdle(destination, rule: rule, allowsCellular: allowsCellular, policy)
  }

  /// Takes the connection that was kept last, if the rule allows its address and it is alive and silent: whatever it has
  /// said behind its last response would be taken for the answer to the next request.
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
        || isTooOld(upstream.stream.tls)
      {
        close(upstream)
        continue
      }
      timers.set(upstream.slot, .max)
      return upstream
    }
    return nil
  }

  /// Whether a verdict on the chain behind the connection, or behind what carries it, is no longer relied on.
  func isTooOld(_ tls: TLSStream?) -> Bool {
    guard let tls else { return false }
    return now - tls.verifiedAt >= longestReliance || isTooOld(tls.carrier)
  }

  /// Closes every kept connection, for descriptors are needed. Answers whether there was one.
  func closeIdleUpstreams() -> Bool {
    var found = false
    for case .upstream(let upstream) in occupants where upstream.owner == nil {
      dropIdle(upstream)
      found = true
    }
    for case .http2(let endpoint) in occupants {
      guard case .origin = endpoint.peer, endpoint.connection.openStreams == 0 else { continue }
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
      // Tickets come when the server likes.
      saveSessions(of: upstream)
    } else {
      // It closed, or said something that nobody asked for: either way it is not used again.
      dropIdle(upstream)
    }
  }

  func dropIdle(_ upstream: Upstream) {
    guard upstream.owner == nil else { return }
    upstream.destination.idle.removeAll { $0 === upstream }
    close(upstream)
  }
}
