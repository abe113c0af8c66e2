// The upstream connections of one loop: who uses them, which are kept, and the order in which waiters get theirs. The
// connections that carry the streams of many exchanges are in MultiplexedOrigins. Tests: test_connections_per_host.py,
// test_limits.py.

import Bytes
import Policy
import Reachability
import Session
import Transport
import Upstream

/// A class, because a connection that is closed or kept may bring others back here.
final class UpstreamPool {
  @exclusivity(unchecked) private var destinations: DestinationTable
  private var sessions = SessionMemory<OriginKey, TLSSession>()
  /// The verdicts of probes, and the probes under way.
  var probes = ProbeMemory<ProbeKey, TunnelProbe>()

  init(seed: UInt64) { destinations = DestinationTable(seed: seed) }

  // MARK: Destinations

  /// Finds or makes the destination, and counts one more use.
  func acquire(_ host: CanonicalHost, port: UInt16, _ security: OriginSecurity?, by route: RouteState) -> Destination {
    destinations.acquire(host, port: port, security, via: route)
  }

  /// Counts another use of a destination in use.
  func retain(_ destination: Destination) { destinations.retain(destination) }
  func release(_ destination: Destination, now: Int64) { destinations.release(destination, now: now) }
  func forgetNames() { destinations.forEach { $0.validUntil = 0 } }

  // MARK: TLS sessions

  /// A session to resume; nil: there is none.
  func takeSession(for key: OriginKey, now: Int64) -> TLSSession? { sessions.take(for: key, now: now) }
  /// A handshake with it has failed.
  func forgetSessions(of key: OriginKey) { sessions.forget(key) }

  private func saveSessions(of upstream: Upstream, _ live: LivePolicy) {
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

  // MARK: Connections in use

  /// Makes an upstream from a connection that leads to `destination`.
  func adopt(_ line: Line, _ destination: Destination, by route: RouteState, on worker: Worker) -> Upstream {
    let upstream = Upstream(
      slot: line.slot, stream: line.stream, address: line.address, destination: destination, by: route,
      over: line.candidate.path, checkedAt: worker.network.generation)
    upstream.interest = line.interest
    destinations.retain(destination)
    worker.reoccupy(line.slot, .upstream(upstream))
    return upstream
  }

  /// `aborts`: the peer must not take what it got for the whole.
  func close(_ upstream: Upstream, leavesPlace: Bool = true, aborts: Bool = false, _ worker: Worker) {
    // Its descriptor and its slot may belong to another one by then.
    if upstream.isClosed { return }
    upstream.owner = nil
    saveSessions(of: upstream, worker.live)
    upstream.close(aborts: aborts)
    worker.vacate(upstream.slot)
    // The place of a reserved connection already belongs to the waiter.
    if leavesPlace, upstream.holdsPlace, !upstream.isReserved {
      worker.shared.quota.leave(upstream.destination.place, of: upstream.holder)
    }
    destinations.release(upstream.destination, now: worker.now)
  }

  /// Keeps a connection for the next request to its destination; a request that waits for a place gets it first.
  /// `idle`: the longest time to keep it, by the rule of the exchange that it served last; nil: that rule sets none.
  func keep(_ upstream: Upstream, idle milliseconds: Int64? = nil, _ worker: Worker) {
    let destination = upstream.destination
    let shared = worker.shared
    if upstream.isStream {
      // A stored answer says nothing of the route.
      if let carrier = upstream.stream.carried, !carrier.isOfThisProcess {
        upstream.route.noteAnswer(shared.health, now: worker.now)
        carrier.noteIdle(milliseconds)
      }
      return close(upstream, worker)
    }
    guard destination.idle.count < worker.policy.configuration.limits.idlePerHost, !worker.isDraining,
      destination.security.map(worker.live.contains) ?? true, upstream.route.isInForce
    else { return close(upstream, worker) }
    upstream.owner = nil
    upstream.isReserved = false
    if let holder = upstream.holder {
      upstream.holder = nil
      shared.quota.rest(destination.place, of: holder)
    }
    upstream.route.noteAnswer(shared.health, now: worker.now)
    saveSessions(of: upstream, worker.live)
    if upstream.holdsPlace, let waiter = shared.quota.takeFirst(destination.place, of: worker.index) {
      handOver(upstream, to: waiter, worker)
      return
    }
    if upstream.holdsPlace, shared.quota.hasWaiters(destination.place) { return close(upstream, worker) }
    worker.watch(upstream.stream, &upstream.interest, wanted: .read, slot: upstream.slot)
    // Most are never used again, and many may come at once: a new one rests from the beginning.
    if upstream.keptUntil == 0 { upstream.stream.tls?.rest() }
    upstream.keptUntil =
      worker.now + (milliseconds ?? worker.policy.configuration.timeouts.upstreamIdleMilliseconds)
    let rest = upstream.stream.tls == nil ? .max : worker.now + Self.buffersMilliseconds
    worker.timers.set(upstream.slot, min(rest, upstream.keptUntil))
    destination.idle.append(upstream)
  }

  /// The waiter continues in a turn of its own, with this connection if it can use it, otherwise with its place.
  private func handOver(_ upstream: Upstream, to waiter: ConnectionQuota.Waiter, _ worker: Worker) {
    let place = upstream.destination.place
    if let connector = worker.slots.connector(waiter.slot, waiter.generation), connector.canUse(upstream, worker),
      upstream.stream.isSilent
    {
      worker.watch(upstream.stream, &upstream.interest, wanted: .read, slot: upstream.slot)
      upstream.isReserved = true
      connector.reserve(upstream)
    } else {
      close(upstream, leavesPlace: false, worker)
    }
    worker.shared.mailboxes[worker.index].post(
      .place(slot: waiter.slot, generation: waiter.generation, place, of: waiter.identity))
  }

  // MARK: Kept connections

  /// How long a kept connection keeps its TLS buffers, in milliseconds. A busy one has no pause this long between
  /// requests, and need not free and allocate them at each.
  private static let buffersMilliseconds: Int64 = 1000

  /// The timer of a kept connection: first it rests, in the end it is closed.
  func timerFired(_ upstream: Upstream, _ worker: Worker) {
    guard upstream.owner == nil, worker.now < upstream.keptUntil else { return dropIdle(upstream, worker) }
    upstream.stream.tls?.rest()
    worker.timers.set(upstream.slot, upstream.keptUntil)
  }

  func ready(_ readiness: Readiness, of upstream: Upstream, _ worker: Worker) {
    if let owner = upstream.owner {
      owner.upstreamReady(readiness, worker)
    } else if upstream.stream.tls != nil, upstream.stream.isSilent {
      // Servers send tickets whenever they like.
      saveSessions(of: upstream, worker.live)
    } else {
      // It closed, or sent something that no request asked for: either way it is not used again.
      dropIdle(upstream, worker)
    }
  }

  /// A stream of an open connection, or a kept connection. `queues`: no kept one if others wait for a place. A stream
  /// needs none. `mayWait`: see `connection`.
  func takeKept(
    _ destination: Destination, rule: Int?, allowsCellular: Bool, by protocols: [HTTPProtocol],
    for conversation: Conversation, queues: Bool = false, mayWait: Bool = false, _ policy: Policy, on worker: Worker
  ) -> Upstream? {
    if protocols.includeMultiplexed || conversation.session.exchange.opensWebSocket, !destination.multiplexed.isEmpty,
      let stream = takeStream(
        destination, rule: rule, allowsCellular: allowsCellular, for: conversation, mayWait: mayWait, policy, on: worker
      )
    {
      return stream
    }
    if !protocols.contains(.http11) || queues && mustQueue(for: destination, policy, worker.shared.quota) { return nil }
    // The origin may speak HTTP/2 all the same, for which a new connection asks.
    if conversation.session.exchange.isGRPC, protocols.includeMultiplexed, destination.security != nil,
      !destination.speaksHTTP11Alone
    {
      return nil
    }
    return takeIdle(destination, rule: rule, of: policy, allowsCellular: allowsCellular, worker)
  }

  /// Whether a request has to wait its turn after others, even if there may be a kept connection.
  private func mustQueue(for destination: Destination, _ policy: Policy, _ quota: SharedQuota) -> Bool {
    policy.configuration.limits.connectionsPerHost > 0 && quota.hasWaiters(destination.place)
  }

  /// Takes the connection that was kept last, if the rule allows its address and it is alive and silent. Anything that
  /// it sent after its last response would be taken for the response to the next request.
  private func takeIdle(
    _ destination: Destination, rule: Int?, of policy: Policy, allowsCellular: Bool, _ worker: Worker
  ) -> Upstream? {
    while let upstream = destination.idle.last {
      // Others may use it.
      if !allowsCellular, upstream.path.status == .wwan { return nil }
      destination.idle.removeLast()
      if isDenied(upstream, rule: rule, of: policy, worker.network) || !worker.network.stillLeads(upstream)
        || !upstream.stream.isSilent || !mayRely(on: upstream, worker)
      {
        close(upstream, worker)
        continue
      }
      worker.timers.set(upstream.slot, .max)
      return upstream
    }
    return nil
  }

  /// Whether the rule denies the address that the connection leads to. A parent's is no affair of the rule.
  func isDenied(_ upstream: Upstream, rule: Int?, of policy: Policy, _ network: LoopNetwork) -> Bool {
    if upstream.destination.isParent { return false }
    return policy.denyingBlock(IPAddress(upstream.address), rule: rule) { network.isOwn($0, by: upstream.path) } != nil
  }

  /// Whether the verdicts on the chains of the connection, and of what carries it, are still relied on.
  func mayRely(on upstream: Upstream, _ worker: Worker) -> Bool {
    upstream.destination.security?.mayRely(at: worker.seconds) ?? true
      && upstream.route.security?.mayRely(at: worker.seconds) ?? true
      && !Self.isTooOld(upstream.stream.tls, now: worker.now)
      && !Self.isTooOld(upstream.stream.carried?.carrierTLS, now: worker.now)
  }

  private static func isTooOld(_ tls: TLSStream?, now: Int64) -> Bool {
    guard let tls else { return false }
    return now - tls.verifiedAt >= longestReliance || isTooOld(tls.carrier, now: now)
  }

  // MARK: Giving up kept connections

  func dropIdle(_ upstream: Upstream, _ worker: Worker) {
    guard upstream.owner == nil else { return }
    upstream.destination.idle.removeAll { $0 === upstream }
    close(upstream, worker)
  }

  /// Closes every kept connection, because descriptors are needed. Returns whether there was one.
  func closeIdle(_ worker: Worker) -> Bool {
    var found = false
    for case .upstream(let upstream) in worker.slots.occupants where upstream.owner == nil {
      dropIdle(upstream, worker)
      found = true
    }
    for case .multiplexed(let connection) in worker.slots.occupants {
      guard case .origin = connection.peer, connection.isUnused else { continue }
      connection.abandon()
      found = true
    }
    return found
  }

  /// Connectors wait for a place: idle connections there give up theirs.
  func yieldIdle(_ place: ConnectionQuota.Place, _ worker: Worker) {
    for case .upstream(let upstream) in worker.slots.occupants
    where upstream.owner == nil && upstream.holdsPlace && upstream.destination.place == place {
      dropIdle(upstream, worker)
    }
    for case .multiplexed(let connection) in worker.slots.occupants where connection.isIdle(at: place) {
      connection.abandon()
    }
  }

  /// Closes what was opened under security policies or by routes that the policy in force does not have.
  func take(_ live: LivePolicy, _ worker: Worker) {
    sessions.removeAll { !live.contains($0.security) }
    probes.removeAll { !live.contains($0.origin.security) }
    for case .upstream(let upstream) in worker.slots.occupants where upstream.owner == nil {
      if !isInForce(upstream, live) { dropIdle(upstream, worker) }
    }
    for case .multiplexed(let connection) in worker.slots.occupants {
      if case .origin(let line) = connection.peer, !isInForce(line, live) { connection.retire() }
    }
  }

  func isInForce(_ upstream: Upstream, _ live: LivePolicy) -> Bool {
    upstream.destination.security.map(live.contains) ?? true && upstream.route.isInForce
  }

  /// The next request opens a connection with a full handshake.
  func flush(_ worker: Worker) -> FlushedThings {
    var things = FlushedThings()
    for slot in worker.slots.occupants.indices {
      switch worker.slots.occupants[slot] {
      case .upstream(let upstream) where upstream.owner == nil:
        dropIdle(upstream, worker)
        things.connections += 1
      case .multiplexed(let connection):
        guard case .origin = connection.peer else { continue }
        if connection.isUnused { things.connections += 1 }
        connection.retire()
      default: continue
      }
    }
    things.sessions = sessions.count
    sessions.removeAll { _ in true }
    probes.removeAll { _ in true }
    return things
  }
}
