// The upstream connections of one loop: who has them, which are kept, and in what order those that wait for one get theirs.

import Bytes
import Policy
import Transport

extension Worker {
  func acquireDestination(port: UInt16, _ security: OriginSecurity?) -> Destination {
    destinations.acquire(workspace.decisions.host, port: port, security)
  }

  func releaseDestination(_ destination: Destination) { destinations.release(destination, now: now) }

  /// Makes an upstream of a stream whose descriptor is connected and registered under `slot`.
  func adopt(_ stream: ByteStream, slot: Int, address: SocketAddress, _ destination: Destination) -> Upstream {
    let upstream = Upstream(slot: slot, stream: stream, address: address, destination: destination)
    destinations.retain(destination)
    occupants[slot] = .upstream(upstream)
    return upstream
  }

  func close(_ upstream: Upstream, leavesPlace: Bool = true) {
    upstream.owner = nil
    saveSessions(of: upstream)
    upstream.stream.close()
    upstream.isClosed = true
    vacate(upstream.slot)
    // The place of a reserved connection is the waiter's already.
    if leavesPlace, upstream.holdsPlace, !upstream.isReserved { shared.quota.leave(upstream.destination.place) }
    destinations.release(upstream.destination, now: now)
  }

  /// Keeps a connection for the next request to its destination; one that waits for a place gets it first.
  func keep(_ upstream: Upstream) {
    let destination = upstream.destination
    guard destination.idle.count < policy.configuration.limits.idlePerHost, drainDeadline == nil,
      destination.security.map(live.contains) ?? true
    else { return close(upstream) }
    upstream.owner = nil
    upstream.isReserved = false
    saveSessions(of: upstream)
    if upstream.holdsPlace, let waiter = shared.quota.takeFirst(destination.place, of: index) {
      handOver(upstream, to: waiter)
      return
    }
    if upstream.holdsPlace, shared.quota.hasWaiters(destination.place) { return close(upstream) }
    update(upstream.descriptor, &upstream.interest, .read, upstream.slot)
    timers.set(upstream.slot, now + policy.configuration.timeouts.upstreamIdleMilliseconds)
    destination.idle.append(upstream)
  }

  /// The waiter goes on in a turn of its own, with this connection where it can use it, else with its place.
  private func handOver(_ upstream: Upstream, to waiter: ConnectionQuota.Waiter) {
    guard generations[waiter.slot] == waiter.generation, case .connector(let connector) = occupants[waiter.slot],
      connector.canUse(upstream), upstream.stream.isSilent
    else {
      close(upstream, leavesPlace: false)
      let place = upstream.destination.place
      return shared.mailboxes[index].post(.place(slot: waiter.slot, generation: waiter.generation, place))
    }
    update(upstream.descriptor, &upstream.interest, .read, upstream.slot)
    upstream.isReserved = true
    connector.reserved = upstream
    shared.mailboxes[index].post(
      .place(slot: waiter.slot, generation: waiter.generation, upstream.destination.place))
  }

  /// Whether a request has to wait for its turn behind others, although there may be a kept connection.
  func mustQueue(for destination: Destination, _ policy: Policy) -> Bool {
    policy.configuration.limits.connectionsPerHost > 0 && shared.quota.hasWaiters(destination.place)
  }

  private func saveSessions(of upstream: Upstream) {
    // What was let pass is judged anew each time; what belongs to a policy that is gone serves nobody.
    guard let tls = upstream.stream.tls, upstream.report == nil,
      upstream.destination.security.map(live.contains) ?? false
    else { return }
    for session in tls.takeSessions() { sessions.insert(session, for: upstream.destination) }
  }

  /// Takes the connection that was kept last, if the rule allows its address and it is alive and silent: whatever it has
  /// said behind its last response would be taken for the answer to the next request.
  func takeIdle(_ destination: Destination, rule: Int?, _ policy: Policy) -> Upstream? {
    while let upstream = destination.idle.popLast() {
      if policy.denyingBlock(IPAddress(upstream.address), rule: rule) != nil || !upstream.stream.isSilent
        || !(destination.security?.mayRely(at: seconds) ?? true)
        || upstream.stream.tls.map({ now - $0.verifiedAt >= TLSSessionCache.longestMilliseconds }) ?? false
      {
        close(upstream)
        continue
      }
      timers.set(upstream.slot, .max)
      return upstream
    }
    return nil
  }

  /// Closes every kept connection, for descriptors are needed. Answers whether there was one.
  func closeIdleUpstreams() -> Bool {
    var found = false
    for case .upstream(let upstream) in occupants where upstream.owner == nil {
      dropIdle(upstream)
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
