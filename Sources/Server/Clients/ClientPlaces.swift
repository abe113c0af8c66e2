// limits.connections: who may connect when all places are taken.
//
// As long as there are places, nobody is asked who it is. Once more are taken than one client's share, the kernel is asked
// for the owner of each new connection, and of some of those that came before, so that all are known by the time the last
// place goes. A connection that comes then waits in a queue that all loops share: it is accepted, so that it is known whose
// it is, but not read. If its client holds less than its share, the greediest gives up the connection that has moved no
// byte for longest, and the first of the queue by fairness takes the place. Anyone else waits for a place to come free.
//
// In the kernel's own queue, where connections would wait otherwise, those of one client stand in the way of all others.
// Tests: SharesTests, FairQueueTests, IdlestClientsTests, test_shares.py.

import Bytes
import Policy
import Session
import Sharing
import Synchronization
import Transport

/// Whose the client connections of all loops are.
final class ClientPlaces: Sendable {
  struct State: Sendable {
    var shares = Shares<Claimant>()
    var waiting = FairQueue<Claimant, Accepted>()
  }

  private let state = Locked(State())
  /// Connections that wait, to be asked without the lock.
  private let waiting = Atomic<Int>(0)

  var hasWaiting: Bool { waiting.load(ordering: .relaxed) > 0 }

  func count(_ identity: Claimant) { state.withLock { $0.shares.take(for: identity) } }
  func discount(_ identity: Claimant) { state.withLock { $0.shares.giveBack(of: identity) } }

  /// What becomes of a connection that finds no place.
  struct Wait {
    /// Who has to give a place up for it.
    let yields: Claimant?
    /// The queue was full: this one left it, perhaps the one that came.
    let refused: Accepted?
  }

  func enter(_ connection: Accepted, of identity: Claimant, _ limits: Limits, places: Int) -> Wait {
    state.withLock { state in
      let refused = state.waiting.count < places ? nil : state.waiting.takeLastOfLongest()?.element
      state.waiting.append(connection, of: identity)
      waiting.store(state.waiting.count, ordering: .relaxed)
      // What of this client waits already has had its place given up, or will not get one.
      let yields = state.shares.whoYields(
        to: identity, state.waiting.count(of: identity), of: limits.connections, share: limits.share)
      return Wait(yields: yields, refused: refused)
    }
  }

  /// Who is next.
  func takeNext() -> (element: Accepted, identity: Claimant)? {
    state.withLock { state in
      let shares = state.shares
      let next = state.waiting.takeNext { shares.held(by: $0) }
      waiting.store(state.waiting.count, ordering: .relaxed)
      return next
    }
  }

  /// Whether this client still holds more than its share while another waits that holds less.
  func mustYield(_ identity: Claimant, _ limits: Limits) -> Bool {
    state.withLock { state in
      let shares = state.shares
      guard let next = state.waiting.next(by: { shares.held(by: $0) }) else { return false }
      return shares.whoYields(to: next.identity, of: limits.connections, share: limits.share) == identity
    }
  }
}

/// The connections that have moved no byte for longest, of one client and one loop. Looking for one means looking at all;
/// so the next ones are remembered, and count as long as nothing of theirs has moved.
struct IdlestClients {
  struct Candidate: Equatable {
    let slot: Int
    let generation: UInt32
    let quietSince: Int64
  }

  /// So many are remembered.
  static let most = 64

  /// Where the loop goes on to ask for those that came before.
  var cursor = 0
  private var identity: Claimant? = nil
  /// The idlest at the end.
  private var candidates: [Candidate] = []

  /// The next that still is as it was when it was looked at; nil: all have to be looked at again.
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

/// Clients that have more requests in hand than one turn of the loop is for, first in, first out.
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
  /// Counts one more connection, where there is a place for it.
  func reserveConnection(_ limits: Limits) -> Bool {
    let most = min(limits.connections, mostClients)
    if connections.add(1, ordering: .relaxed).newValue <= most { return true }
    connections.subtract(1, ordering: .relaxed)
    return false
  }
}

extension Worker {
  /// Connections of before that are asked for with each new one, once it matters whose they are: with a share of up to
  /// four fifths all are known when the last place goes.
  static let askedWithEach = 4

  private var limits: Limits { policy.configuration.limits }
  private var mostConnections: Int { min(limits.connections, shared.mostClients) }
  /// The limits as far as the descriptors of this process reach.
  private var limitsInForce: Limits {
    var limits = self.limits
    limits.connections = mostConnections
    return limits
  }

  /// Counts a connection for its client, where enough are open that it matters.
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

  /// A connection for which there is no place.
  func waitForPlace(_ connection: Accepted) {
    // Who is gone already waits for nothing, and takes nobody's place.
    guard let identity = identity(of: connection) else { return connection.descriptor.close() }
    let wait = shared.places.enter(connection, of: identity, limitsInForce, places: shared.mostWaiting)
    if let refused = wait.refused {
      statistics.clientsRefused += 1
      refused.descriptor.resetOnClose()
      refused.descriptor.close()
    }
    // One may have come free meanwhile.
    admitWaiting()
    guard let greediest = wait.yields, shared.places.hasWaiting else { return }
    if displaceIdlest(of: greediest) { return }
    for (index, mailbox) in shared.mailboxes.enumerated() where index != self.index {
      mailbox.post(.yieldClient(greediest))
    }
  }

  /// Gives free places to those that wait.
  func admitWaiting() {
    // One that is over at once comes back here: the loop below goes on with what it has given back.
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

  /// The proxy stops: who was accepted is answered, were it one too many.
  func admitAllWaiting() {
    while let next = shared.places.takeNext() {
      shared.connections.add(1, ordering: .relaxed)
      welcome(next.element, of: next.identity)
    }
  }

  /// Closes the connection of a client that has moved no byte for longest, if it still has to give one up. false: this loop
  /// has none of it.
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

  /// When a byte of a client's connection moved last; nil where the slot holds none of this client.
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

  /// Its slot.
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

extension Conversation {
  /// Whose connection this is. The kernel is asked once.
  func knownIdentity(_ worker: Worker) -> Claimant {
    if let identity { return identity }
    let found = worker.identity(of: connection)
    if found == nil { identification.insert(.left) }
    let identity = found ?? Claimant(IPAddress(peer))
    self.identity = identity
    return identity
  }

  func countIdentity(_ worker: Worker) {
    if isStream || flags.contains(.closed) || identification.contains(.counted) { return }
    worker.shared.places.count(knownIdentity(worker))
    identification.insert(.counted)
  }

  /// Gives up its place: another client waits that holds less.
  func displace(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if clientHandshake != nil { return close(worker) }
    if ending == nil { perform(session.displaced(), worker) }
    giveUpSending(worker)
    if !flags.contains(.closed) { close(worker) }
  }
}

extension Worker {
  /// Who a connection counts for; nil where the client is gone. A subordinate user counts as its owner, who may have tens
  /// of thousands of them.
  func identity(of connection: Accepted) -> Claimant? {
    switch owners.owner(of: connection, now: now) {
    case .owner(let key, _): .user(shared.clients.principal(of: key.userID))
    case .nobody, .unknown: Claimant(IPAddress(connection.peer))
    case .gone: nil
    }
  }
}
