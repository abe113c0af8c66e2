// limits.connections_per_host: how many connections to one host and port the whole process may have open, and who waits
// for one.
//
// A place is held by a connection from before its name is looked up until it is closed, kept connections and tunnels
// included. Whoever comes when all are taken waits in order; a place that is given back goes to the first who waits, by a
// message to its loop. Nothing here is touched while there is no limit.

import Transport

final class ConnectionQuota: Sendable {
  /// A connector that waits: where it lives.
  struct Waiter: Equatable, Sendable {
    let worker: Int
    let slot: Int
    let generation: UInt32
  }

  /// What connections are counted by.
  struct Place: Hashable, Sendable {
    let host: [UInt8]
    let port: UInt16
  }

  private struct Host {
    var open = 0
    var waiting: [Waiter] = []
  }

  private struct State {
    var hosts: [Place: Host] = [:]
    var limit = 0
  }

  private let state = Locked(State())
  /// Tells a waiter that a place is its own now.
  private let grant: @Sendable (Waiter, Place) -> Void

  init(limit: Int, grant: @escaping @Sendable (Waiter, Place) -> Void) {
    self.grant = grant
    state.withLock { $0.limit = limit }
  }

  /// A new limit: whoever fits under it goes on.
  func setLimit(_ limit: Int) {
    let granted = state.withLock { state in
      state.limit = limit
      return state.hosts.keys.flatMap { host in
        var granted: [(Waiter, Place)] = []
        while let entry = state.hosts[host], let first = entry.waiting.first, limit == 0 || entry.open < limit {
          state.hosts[host]?.waiting.removeFirst()
          state.hosts[host]?.open += 1
          granted.append((first, host))
        }
        return granted
      }
    }
    for (waiter, host) in granted { grant(waiter, host) }
  }

  /// Takes a place, or queues for one. `first`: before all others, for it was granted one that came to nothing.
  func enter(_ host: Place, _ waiter: Waiter, first: Bool = false) -> Bool {
    state.withLock { state in
      var entry = state.hosts[host] ?? Host()
      defer { state.hosts[host] = entry }
      if state.limit == 0 || entry.open < state.limit && (entry.waiting.isEmpty || first) {
        entry.open += 1
        return true
      }
      if first { entry.waiting.insert(waiter, at: 0) } else { entry.waiting.append(waiter) }
      return false
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

  /// Gives a place back: to the first who waits, where there is one.
  func leave(_ host: Place) {
    let next: Waiter? = state.withLock { state in
      guard var entry = state.hosts[host] else { return nil }
      defer { state.hosts[host] = entry.open == 0 && entry.waiting.isEmpty ? nil : entry }
      if !entry.waiting.isEmpty, state.limit == 0 || entry.open <= state.limit { return entry.waiting.removeFirst() }
      entry.open -= 1
      return nil
    }
    if let next { grant(next, host) }
  }

  /// A waiter that has left. Where its place was on its way already, the message finds nobody and gives it back.
  func abandon(_ host: Place, _ waiter: Waiter) {
    state.withLock { state in
      guard var entry = state.hosts[host] else { return }
      entry.waiting.removeAll { $0 == waiter }
      state.hosts[host] = entry.open == 0 && entry.waiting.isEmpty ? nil : entry
    }
  }

  func hasWaiters(_ host: Place) -> Bool {
    state.withLock { !($0.hosts[host]?.waiting.isEmpty ?? true) }
  }

  /// Takes the first waiter off the queue where it belongs to `worker`, which then has to serve it.
  func takeFirst(_ host: Place, of worker: Int) -> Waiter? {
    state.withLock { state in
      guard let first = state.hosts[host]?.waiting.first, first.worker == worker else { return nil }
      state.hosts[host]?.waiting.removeFirst()
      return first
    }
  }
}
