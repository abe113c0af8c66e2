// limits.connections: which clients may connect when all places are taken.
//
// As long as there are places, no client is identified. Once more are taken than one client's share, the kernel is
// asked for the owner of each new connection, and of some earlier ones, so that all are known by the time the last
// place goes. A connection that comes then waits in a queue that all loops share: it is accepted, so that its owner can
// be found, but not read. If its client has less than its share, the client with the most gives up its idlest
// connection, and the first of the queue by fairness gets the place. All others wait for a free place.
//
// Otherwise connections would wait in the kernel's queue, where those of one client block all others.
// Tests: SharesTests, FairQueueTests, test_shares.py.

import Bytes
import Policy
import Session
import Sharing
import Synchronization
import Transport

/// The places of all loops, and the owners of the client connections that have them.
final class ClientPlaces: Sendable {
  struct State: Sendable {
    var shares = Shares<Claimant>()
    var waiting = FairQueue<Claimant, Accepted>()
  }

  /// The most connections that wait for a place at once: eight times what the kernel's queue usually holds for one
  /// listener (net.core.somaxconn was 128 for a long time), at some 100 bytes each. They use at most half of the
  /// descriptors that are kept from clients.
  private static let mostWaiting = 1024

  /// The fraction of the descriptors that is kept from clients, and the fewest.
  private static let reservedFraction = 10
  private static let leastReserved = 24

  private let state = Locked(State())
  /// Open client connections.
  private let open = Atomic<Int>(0)
  /// The number of waiting connections, readable without the lock.
  private let waiting = Atomic<Int>(0)
  /// The most clients that may be open at once, whatever the limits say, so that descriptors are left for upstreams.
  private let most: Int
  /// The most that wait, as far as there are descriptors.
  private let mostWaiting: Int

  init(descriptors: Int) {
    let reserved = max(Self.leastReserved, descriptors / Self.reservedFraction)
    // Each may need another one for its upstream. Were all of them clients', idle ones would keep everybody out, and
    // operators too.
    most = max(1, (descriptors - reserved) / 2)
    mostWaiting = min(Self.mostWaiting, reserved / 2)
  }

  /// The limits, as far as this process has descriptors for them.
  func inForce(_ limits: Limits) -> Limits {
    var limits = limits
    limits.connections = min(limits.connections, most)
    return limits
  }

  // MARK: Open connections

  /// Counts one more connection, if there is a place for it.
  func reserve(_ limits: Limits) -> Bool {
    if open.add(1, ordering: .relaxed).newValue <= min(limits.connections, most) { return true }
    giveBack()
    return false
  }

  /// Counts one that was promised an answer, even beyond the limit.
  func take() { open.add(1, ordering: .relaxed) }
  func giveBack() { open.subtract(1, ordering: .relaxed) }

  /// Whether so many are open that it matters whose they are.
  func ownersMatter(_ limits: Limits) -> Bool {
    let allowance = Shares<Claimant>.allowance(of: min(limits.connections, most), share: limits.share)
    return open.load(ordering: .relaxed) > allowance
  }

  // MARK: Their owners

  var hasWaiting: Bool { waiting.load(ordering: .relaxed) > 0 }

  func count(_ identity: Claimant) { state.withLock { $0.shares.take(for: identity) } }
  func discount(_ identity: Claimant) { state.withLock { $0.shares.giveBack(of: identity) } }

  /// What happens with a connection that finds no place.
  struct Wait {
    /// The client that has to give up a place for it.
    let yields: Claimant?
    /// The queue was full: this connection left it, perhaps the new one.
    let refused: Accepted?
  }

  func enter(_ connection: Accepted, of identity: Claimant, _ limits: Limits) -> Wait {
    let limits = inForce(limits)
    return state.withLock { state in
      let refused = state.waiting.count < mostWaiting ? nil : state.waiting.takeLastOfLongest()?.element
      state.waiting.append(connection, of: identity)
      waiting.store(state.waiting.count, ordering: .relaxed)
      // For each connection of this client that already waits, a place was given up, or none will be.
      let yields = state.shares.whoYields(
        to: identity, state.waiting.count(of: identity), of: limits.connections, share: limits.share)
      return Wait(yields: yields, refused: refused)
    }
  }

  /// The next in the queue.
  func takeNext() -> (element: Accepted, identity: Claimant)? {
    state.withLock { state in
      let shares = state.shares
      let next = state.waiting.takeNext { shares.held(by: $0) }
      waiting.store(state.waiting.count, ordering: .relaxed)
      return next
    }
  }

  /// Whether this client still has more than its share while another waits that has less.
  func mustYield(_ identity: Claimant, _ limits: Limits) -> Bool {
    let limits = inForce(limits)
    return state.withLock { state in
      let shares = state.shares
      guard let next = state.waiting.next(by: { shares.held(by: $0) }) else { return false }
      return shares.whoYields(to: next.identity, of: limits.connections, share: limits.share) == identity
    }
  }
}
