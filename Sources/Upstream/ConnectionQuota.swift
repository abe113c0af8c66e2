// limits.connections_per_host: how many connections to one host and port the whole process may have open, and who waits
// for one.
//
// A place is held by a connection from before its name is looked up until it is closed, kept connections and tunnels
// included. Whoever comes when all are taken waits; a place that is given back goes to the waiter whose client holds least
// there, of equals to the first. Where a client that holds less than its share has to wait, the
// greediest gives one up (`Shares`). A kept connection is nobody's. What a call grants it returns: the driver tells the
// loop of each waiter (`SharedQuota`). Tests: ConnectionQuotaTests, test_connections_per_host.py, test_shares.py.

import Sharing

public struct ConnectionQuota: Sendable {
  /// A connector that waits: where it lives, and for whom.
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

  /// What connections are counted by.
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
    /// It waits. `yields`: who has to give up a place for it.
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

  /// A place that has become a waiter's own.
  public struct Grant: Equatable, Sendable {
    public let waiter: Waiter
    public let place: Place
  }

  private var hosts: [Place: Host] = [:]
  private var limit: Int
  private var share: Double

  /// `limit`: connections to one place; 0: any number. `share`: the part of them that one client may hold while others wait.
  public init(limit: Int, share: Double) {
    self.limit = limit
    self.share = share
  }

  /// A new limit: whoever fits under it goes on.
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
    // What waits already of this client has had its place given up, or gets none.
    return .queued(
      yields: host.shares.whoYields(
        to: waiter.identity, host.waiting.count(of: waiter.identity), of: limit, share: share))
  }

  /// Takes a place, were it one too many, for a connection that is open already; false: nothing is counted.
  public mutating func claim(_ place: Place) -> Bool {
    if limit == 0 { return false }
    hosts[place, default: Host()].open += 1
    return true
  }

  /// Gives a place back: to the first who waits, where there is one. `holder`: whose it was; nil: nobody's.
  public mutating func leave(_ place: Place, of holder: Claimant?) -> Grant? {
    guard var host = hosts[place] else { return nil }
    defer { hosts[place] = host.isUnused ? nil : host }
    if let holder { host.shares.giveBack(of: holder) }
    if limit == 0 || host.open <= limit, let next = host.takeNext() { return Grant(waiter: next, place: place) }
    host.open -= 1
    return nil
  }

  /// The connection in a place serves nobody any more, and is kept.
  public mutating func rest(_ place: Place, of holder: Claimant) { hosts[place]?.shares.giveBack(of: holder) }

  /// A kept connection serves somebody again.
  public mutating func resume(_ place: Place, for holder: Claimant) { hosts[place]?.shares.take(for: holder) }

  /// A waiter that has left. Where its place was on its way already, the message finds nobody and gives it back.
  public mutating func abandon(_ place: Place, _ waiter: Waiter) {
    guard var host = hosts[place] else { return }
    host.waiting.remove(of: waiter.identity) { $0 == waiter }
    hosts[place] = host.isUnused ? nil : host
  }

  public func hasWaiters(_ place: Place) -> Bool { !(hosts[place]?.waiting.isEmpty ?? true) }

  /// Whether this client still holds more than its share of the places while another waits that holds less.
  public func mustYield(_ place: Place, _ identity: Claimant) -> Bool {
    guard let host = hosts[place], let next = host.next, limit > 0 else { return false }
    return host.shares.whoYields(to: next.identity, of: limit, share: share) == identity
  }

  /// Takes the next waiter off the queue where it belongs to `worker`, which then has to serve it.
  public mutating func takeFirst(_ place: Place, of worker: Int) -> Waiter? {
    guard let next = hosts[place]?.next, next.worker == worker else { return nil }
    return hosts[place]?.takeNext()
  }
}
