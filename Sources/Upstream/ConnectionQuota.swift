// limits.connections_per_host: how many connections to one host and port the whole process may have open, and who waits
// for one.
//
// A connection occupies a place from before its name is looked up until it is closed; this includes kept connections
// and tunnels. When all places are taken, connectors wait. A place that is given back goes to the waiter whose client
// has the fewest places there; among equals, to the first. If a client that has less than its share must wait, the
// client with the most gives one up (`Shares`). A kept connection counts for no client. Each call returns its grants:
// the driver notifies the loop of each waiter (`SharedQuota`). Tests: ConnectionQuotaTests,
// test_connections_per_host.py, test_shares.py.

import Sharing

public struct ConnectionQuota: Sendable {
  /// A waiting connector: where it lives, and for which client.
  public struct Waiter: Equatable, Sendable {
    public let worker: Int
    public let slot: Int
    public let generation: UInt32
    public let identity: Claimant

    public init(worker: Int, slot: Int, generation: UInt32, identity: Claimant) {
      self.worker = worker
      self.slot = slot
      self.generation = generation
      self.identity = identity
    }
  }

  /// The key by which connections are counted.
  public struct Place: Hashable, Sendable {
    public let host: [UInt8]
    public let port: UInt16

    public init(host: [UInt8], port: UInt16) {
      self.host = host
      self.port = port
    }
  }

  public enum Entry: Equatable, Sendable {
    case granted
    /// It waits. `yields`: the client that has to give up a place for it.
    case queued(yields: Claimant?)
  }

  private struct Host: Sendable {
    var open = 0
    var shares = Shares<Claimant>()
    var waiting = FairQueue<Claimant, Waiter>()

    var isUnused: Bool { open == 0 && waiting.isEmpty }

    mutating func takeNext() -> Waiter? {
      let shares = self.shares
      guard let next = waiting.takeNext(by: { shares.held(by: $0) }) else { return nil }
      self.shares.take(for: next.identity)
      return next.element
    }

    var next: Waiter? { waiting.next { shares.held(by: $0) }?.element }
  }

  /// A place that now belongs to a waiter.
  public struct Grant: Equatable, Sendable {
    public let waiter: Waiter
    public let place: Place
  }

  private var hosts: [Place: Host] = [:]
  private var limit: Int
  private var share: Double

  /// `limit`: connections to one place; 0: unlimited. `share`: the part of them that one client may have while others
  /// wait.
  public init(limit: Int, share: Double) {
    self.limit = limit
    self.share = share
  }

  /// Sets a new limit and grants places to the waiters that fit under it.
  public mutating func setLimit(_ limit: Int, share: Double) -> [Grant] {
    self.limit = limit
    self.share = share
    var granted: [Grant] = []
    for place in Array(hosts.keys) {
      while let open = hosts[place]?.open, limit == 0 || open < limit, let next = hosts[place]?.takeNext() {
        hosts[place]?.open += 1
        granted.append(Grant(waiter: next, place: place))
      }
    }
    return granted
  }

  /// Takes a place, or queues for one.
  public mutating func enter(_ place: Place, _ waiter: Waiter) -> Entry {
    var host = hosts[place] ?? Host()
    defer { hosts[place] = host }
    if limit == 0 || host.open < limit && host.waiting.isEmpty {
      host.open += 1
      host.shares.take(for: waiter.identity)
      return .granted
    }
    host.waiting.append(waiter, of: waiter.identity)
    // Waiters of this client have already had a place given up for them, or get none.
    return .queued(
      yields: host.shares.whoYields(
        to: waiter.identity, host.waiting.count(of: waiter.identity), of: limit, share: share))
  }

  /// Takes a place for a connection that is already open, even beyond the limit; false: nothing is counted.
  public mutating func claim(_ place: Place) -> Bool {
    if limit == 0 { return false }
    hosts[place, default: Host()].open += 1
    return true
  }

  /// Gives a place back; the next waiter gets it if there is one. `holder`: the client that had it; nil: none.
  public mutating func leave(_ place: Place, of holder: Claimant?) -> Grant? {
    guard var host = hosts[place] else { return nil }
    defer { hosts[place] = host.isUnused ? nil : host }
    if let holder { host.shares.giveBack(of: holder) }
    if limit == 0 || host.open <= limit, let next = host.takeNext() { return Grant(waiter: next, place: place) }
    host.open -= 1
    return nil
  }

  /// The connection in a place serves no client any more, and is kept.
  public mutating func rest(_ place: Place, of holder: Claimant) { hosts[place]?.shares.giveBack(of: holder) }

  /// A kept connection serves a client again.
  public mutating func resume(_ place: Place, for holder: Claimant) { hosts[place]?.shares.take(for: holder) }

  /// A waiter has left. If a place was already on its way to it, the message finds no waiter and the place is given
  /// back.
  public mutating func abandon(_ place: Place, _ waiter: Waiter) {
    guard var host = hosts[place] else { return }
    host.waiting.remove(of: waiter.identity) { $0 == waiter }
    hosts[place] = host.isUnused ? nil : host
  }

  public func hasWaiters(_ place: Place) -> Bool { !(hosts[place]?.waiting.isEmpty ?? true) }

  /// Whether this client still has more than its share of the places while another waits that has less.
  public func mustYield(_ place: Place, _ identity: Claimant) -> Bool {
    guard let host = hosts[place], let next = host.next, limit > 0 else { return false }
    return host.shares.whoYields(to: next.identity, of: limit, share: share) == identity
  }

  /// Takes the next waiter off the queue if it belongs to `worker`, which then has to serve it.
  public mutating func takeFirst(_ place: Place, of worker: Int) -> Waiter? {
    guard let next = hosts[place]?.next, next.worker == worker else { return nil }
    return hosts[place]?.takeNext()
  }
}
