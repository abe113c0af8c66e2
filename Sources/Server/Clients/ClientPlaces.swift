// limits.connections: which clients may connect when all places are taken.
//
// As long as there are places, no client is identified. Once more are taken than one client's share, the kernel is
// asked for the owner of each new connection, and of some earlier ones, so that all are known by the time the last
// place goes. A connection that comes then waits in a queue that all loops share: it is accepted, so that its owner can
// be found, but not read. If its client has less than its share, the client with the most gives up its idlest
// connection, and the first of the queue by fairness gets the place. All others wait for a free place.
//
// Otherwise connections would wait in the kernel's queue, where those of one client block all others.
// Tests: SharesTests, FairQueueTests, IdlestClientsTests, test_shares.py.

import Bytes
import Policy
import Session
import Sharing
import Synchronization
import Transport

/// The owners of the client connections of all loops.
final class ClientPlaces: Sendable {
  struct State: Sendable {
    var shares = Shares<Claimant>()
    var waiting = FairQueue<Claimant, Accepted>()
  }

  private let state = Locked(State())
  /// The number of waiting connections, readable without the lock.
  private let waiting = Atomic<Int>(0)

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

  func enter(_ connection: Accepted, of identity: Claimant, _ limits: Limits, places: Int) -> Wait {
    state.withLock { state in
      let refused = state.waiting.count < places ? nil : state.waiting.takeLastOfLongest()?.element
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
    state.withLock { state in
      let shares = state.shares
      guard let next = state.waiting.next(by: { shares.held(by: $0) }) else { return false }
      return shares.whoYields(to: next.identity, of: limits.connections, share: limits.share) == identity
    }
  }
}

/// The connections of one client in one loop that have moved no byte for longest. Finding one means looking at all, so
/// the next ones are remembered, and used as long as they have moved nothing.
struct IdlestClients {
  struct Candidate: Equatable {
    let slot: Int
    let generation: UInt32
    let quietSince: Int64
  }

  /// How many are remembered.
  static let most = 64

  /// Where the loop continues to identify earlier connections.
  var cursor = 0
  private var identity: Claimant? = nil
  /// The idlest is last.
  private var candidates: [Candidate] = []

  /// The next one that has not changed since; nil: all have to be looked at again.
  mutating func takeNext(of identity: Claimant, where isStill: (Candidate) -> Bool) -> Candidate? {
    guard self.identity == identity else { return nil }
    while let candidate = candidates.popLast() {
      if isStill(candidate) { return candidate }
    }
    return nil
  }

  mutating func remember(_ all: [Candidate], of identity: Claimant) {
    self.identity = identity
    candidates = Array(all.sorted { $0.quietSince < $1.quietSince }.prefix(Self.most).reversed())
  }
}

/// Clients with more requests in hand than fit one turn of the loop, first in, first out.
struct RestingClients {
  private var entries: [(slot: Int, generation: UInt32)] = []
  private var first = 0

  var isEmpty: Bool { first == entries.count }
  var count: Int { entries.count - first }

  mutating func append(_ slot: Int, _ generation: UInt32) { entries.append((slot, generation)) }

  mutating func takeFirst() -> (slot: Int, generation: UInt32) {
    let entry = entries[first]
    first += 1
    if first == entries.count {
      entries.removeAll(keepingCapacity: true)
      first = 0
    } else if first >= 1024, first * 2 > entries.count {
      entries.removeFirst(first)
      first = 0
    }
    return entry
  }
}

extension SharedState {
  /// Counts one more connection, if there is a place for it.
  func reserveConnection(_ limits: Limits) -> Bool {
    let most = min(limits.connections, mostClients)
    if connections.add(1, ordering: .relaxed).newValue <= most { return true }
    connections.subtract(1, ordering: .relaxed)
    return false
  }
}

extension Worker {
  /// How many earlier connections are identified with each new one, once owners matter: with a share of up to four
  /// fifths, all are known when the last place goes.
  static let askedWithEach = 4

  private var limits: Limits { policy.configuration.limits }
  private var mostConnections: Int { min(limits.connections, shared.mostClients) }
  /// The limits, as far as this process has descriptors for them.
  private var limitsInForce: Limits {
    var limits = self.limits
    limits.connections = mostConnections
    return limits
  }

  /// Counts a connection for its client, once enough are open for owners to matter.
  func countClient(_ conversation: Conversation) {
    let allowance = Shares<Claimant>.allowance(of: mostConnections, share: limits.share)
    guard shared.connections.load(ordering: .relaxed) > allowance else { return }
    conversation.countIdentity(self)
    for _ in 0..<Self.askedWithEach {
      idlest.cursor = idlest.cursor + 1 < occupants.count ? idlest.cursor + 1 : 0
      switch occupants[idlest.cursor] {
      case .client(let other): other.countIdentity(self)
      case .http2(let endpoint): if case .client(let client) = endpoint.peer { client.countIdentity(self) }
      default: break
      }
    }
  }

  /// Handles a connection that there is no place for.
  func waitForPlace(_ connection: Accepted) {
    // A client that is already gone waits for nothing, and takes no place.
    guard let identity = identity(of: connection) else { return connection.descriptor.close() }
    let wait = shared.places.enter(connection, of: identity, limitsInForce, places: shared.mostWaiting)
    if let refused = wait.refused {
      statistics.clientsRefused += 1
      refused.descriptor.resetOnClose()
      refused.descriptor.close()
    }
    // A place may have come free meanwhile.
    admitWaiting()
    guard let greediest = wait.yields, shared.places.hasWaiting else { return }
    if displaceIdlest(of: greediest) { return }
    for (index, mailbox) in shared.mailboxes.enumerated() where index != self.index {
      mailbox.post(.yieldClient(greediest))
    }
  }

  /// Gives free places to those that wait.
  func admitWaiting() {
    // A connection that ends at once calls this again: the loop below goes on with the place that it freed.
    if isAdmitting { return }
    isAdmitting = true
    defer { isAdmitting = false }
    while shared.places.hasWaiting, shared.reserveConnection(limits) {
      guard let next = shared.places.takeNext() else {
        shared.connections.subtract(1, ordering: .relaxed)
        return
      }
      if owners.hasLeft(next.element, now: now) {
        next.element.descriptor.close()
        shared.connections.subtract(1, ordering: .relaxed)
        continue
      }
      welcome(next.element, of: next.identity)
    }
  }

  /// The proxy stops: clients that were accepted get an answer, even beyond the limit.
  func admitAllWaiting() {
    while let next = shared.places.takeNext() {
      shared.connections.add(1, ordering: .relaxed)
      welcome(next.element, of: next.identity)
    }
  }

  /// Closes the idlest connection of a client, if it still has to give one up. false: this loop has none of it.
  @discardableResult
  func displaceIdlest(of identity: Claimant) -> Bool {
    guard shared.places.mustYield(identity, limitsInForce) else { return true }
    guard let slot = idlestClient(of: identity) else { return false }
    statistics.clientsDisplaced += 1
    switch occupants[slot] {
    case .client(let conversation): conversation.displace(self)
    case .http2(let endpoint): endpoint.abandon()
    default: break
    }
    return true
  }

  /// When a byte of a client's connection last moved; nil if the slot has none of this client.
  private func quietSince(_ slot: Int, of identity: Claimant) -> Int64? {
    switch occupants[slot] {
    case .client(let conversation) where conversation.identity == identity && !conversation.isStream:
      return conversation.session.quietSince
    case .http2(let endpoint):
      if case .client(let client) = endpoint.peer, client.identity == identity { return endpoint.lastProgress }
      return nil
    default: return nil
    }
  }

  /// The slot of the client's idlest connection.
  private func idlestClient(of identity: Claimant) -> Int? {
    if let known = takeIdlest(of: identity) { return known }
    var all: [IdlestClients.Candidate] = []
    for slot in occupants.indices {
      guard let quiet = quietSince(slot, of: identity) else { continue }
      all.append(IdlestClients.Candidate(slot: slot, generation: generations[slot], quietSince: quiet))
    }
    idlest.remember(all, of: identity)
    return takeIdlest(of: identity)
  }

  private func takeIdlest(of identity: Claimant) -> Int? {
    let found = idlest.takeNext(of: identity) { candidate in
      generations[candidate.slot] == candidate.generation
        && quietSince(candidate.slot, of: identity) == candidate.quietSince
    }
    return found?.slot
  }
}

extension Worker {
  /// The client that a connection counts for; nil if it is gone. A subordinate user counts as its owner, who may have
  /// tens of thousands of them.
  func identity(of connection: Accepted) -> Claimant? {
    switch owners.owner(of: connection, now: now) {
    case .owner(let key, _): .user(shared.clients.principal(of: key.userID))
    case .nobody, .unknown: Claimant(IPAddress(connection.peer))
    case .gone: nil
    }
  }
}
