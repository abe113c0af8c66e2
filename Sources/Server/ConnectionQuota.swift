// limits.connections_per_host: how many connections to one host and port the whole process may have open, and who waits
// for one.
//
// A place is held by a connection from before its name is looked up until it is closed, kept connections and tunnels
// included. Whoever comes when all are taken waits; a place that is given back goes to the waiter whose client holds least
// there, of equals to the first, by a message to its loop. Where a client that holds less than its share has to wait, the
// greediest gives one up (`Shares`). A kept connection is nobody's. Nothing here is touched while there is no limit.
// Tests: ConnectionQuotaTests, test_connections_per_host.py, test_shares.py.

import Transport

final class ConnectionQuota: Sendable {
  /// A connector that waits: where it lives, and for whom.
  struct Waiter: Equatable, Sendable {
    let worker: Int
    let slot: Int
    let generation: UInt32
    let identity: Claimant
  }

  /// What connections are counted by.
  struct Place: Hashable, Sendable {
    let host: [UInt8]
    let port: UInt16
  }

  enum Entry: Equatable {
    case granted
    /// It waits. `yields`: who has to give up a place for it.
    case queued(yields: Claimant?)
  }

  private struct Host {
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

  private struct State {
    var hosts: [Place: Host] = [:]
    var limit = 0
    var share = 1.0
  }

  private let state = Locked(State())
  /// Tells a waiter that a place is its own now.
  private let grant: @Sendable (Waiter, Place) -> Void

  init(limit: Int, share: Double, grant: @escaping @Sendable (Waiter, Place) -> Void) {
    self.grant = grant
    state.withLock {
      $0.limit = limit
      $0.share = share
    }
  }

  /// A new limit: whoever fits under it goes on.
  func setLimit(_ limit: Int, share: Double) {
    let granted = state.withLock { state in
      state.limit = limit
      state.share = share
      return state.hosts.keys.flatMap { host in
        var granted: [(Waiter, Place)] = []
        while let open = state.hosts[host]?.open, limit == 0 || open < limit,
          let next = state.hosts[host]?.takeNext()
        {
          state.hosts[host]?.open += 1
          granted.append((next, host))
        }
        return granted
      }
    }
    for (waiter, host) in granted { grant(waiter, host) }
  }

  /// Takes a place, or queues for one.
  func enter(_ host: Place, _ waiter: Waiter) -> Entry {
    state.withLock { state in
      var entry = state.hosts[host] ?? Host()
      defer { state.hosts[host] = entry }
      if state.limit == 0 || entry.open < state.limit && entry.waiting.isEmpty {
        entry.open += 1
        entry.shares.take(for: waiter.identity)
        return .granted
      }
      entry.waiting.append(waiter, of: waiter.identity)
      // What waits already of this client has had its place given up, or gets none.
      return .queued(
        yields: entry.shares.whoYields(
          to: waiter.identity, entry.waiting.count(of: waiter.identity), of: state.limit, share: state.share))
    }
  }

  /// Takes a place, were it one too many, for a connection that is open already; false: nothing is counted.
  func claim(_ host: Place) -> Bool {
    state.withLock { state in
      if state.limit == 0 { return false }
      state.hosts[host, default: Host()].open += 1
      return true
    }
  }

  /// Gives a place back: to the first who waits, where there is one. `holder`: whose it was; nil: nobody's.
  func leave(_ host: Place, of holder: Claimant?) {
    let next: Waiter? = state.withLock { state in
      guard var entry = state.hosts[host] else { return nil }
      defer { state.hosts[host] = entry.isUnused ? nil : entry }
      if let holder { entry.shares.giveBack(of: holder) }
      if state.limit == 0 || entry.open <= state.limit, let next = entry.takeNext() { return next }
      entry.open -= 1
      return nil
    }
    if let next { grant(next, host) }
  }

  /// The connection in a place serves nobody any more, and is kept.
  func rest(_ host: Place, of holder: Claimant) { state.withLock { $0.hosts[host]?.shares.giveBack(of: holder) } }

  /// A kept connection serves somebody again.
  func resume(_ host: Place, for holder: Claimant) { state.withLock { $0.hosts[host]?.shares.take(for: holder) } }

  /// A waiter that has left. Where its place was on its way already, the message finds nobody and gives it back.
  func abandon(_ host: Place, _ waiter: Waiter) {
    state.withLock { state in
      guard var entry = state.hosts[host] else { return }
      entry.waiting.remove(of: waiter.identity) { $0 == waiter }
      state.hosts[host] = entry.isUnused ? nil : entry
    }
  }

  func hasWaiters(_ host: Place) -> Bool {
    state.withLock { !($0.hosts[host]?.waiting.isEmpty ?? true) }
  }

  /// Whether this client still holds more than its share of the places while another waits that holds less.
  func mustYield(_ host: Place, _ identity: Claimant) -> Bool {
    state.withLock { state in
      guard let entry = state.hosts[host], let next = entry.next, state.limit > 0 else { return false }
      return entry.shares.whoYields(to: next.identity, of: state.limit, share: state.share) == identity
    }
  }

  /// Takes the next waiter off the queue where it belongs to `worker`, which then has to serve it.
  func takeFirst(_ host: Place, of worker: Int) -> Waiter? {
    state.withLock { state in
      guard let next = state.hosts[host]?.next, next.worker == worker else { return nil }
      return state.hosts[host]?.takeNext()
    }
  }
}
