// Which client gives something back if another waits that has less than its share: its connection to the proxy, memory
// for held bodies, or a connection to a host.
//
// The waiter is in one loop, and what is given up may be in another. So every loop is told, and first checks whether it
// still has to act. Tests: IdlestClientsTests, test_shares.py.

import Bytes
import Policy
import Session
import Sharing
import Transport
import Upstream

/// A class, because what gives way may come back here.
final class Displacement {
  private var idlest = IdlestClients()
  /// See `heldIsShort`.
  @exclusivity(unchecked) private var ampleHeldBytes: Int

  init(_ limits: Limits) { ampleHeldBytes = Self.ampleHeldBytes(limits) }

  func take(_ limits: Limits) { ampleHeldBytes = Self.ampleHeldBytes(limits) }

  // MARK: Memory for held bodies

  /// How much of bodies may be held before clients are identified. Beyond that, one read, with what it decodes to, may
  /// exceed the rest.
  private static func ampleHeldBytes(_ limits: Limits) -> Int {
    limits.heldBodiesBytes - Worker.readBytes - 2 * limits.bufferedBodyBytes
  }

  /// Whether memory for held bodies is short, so that owners matter.
  func isShort(_ held: ByteBudget) -> Bool { held.count > ampleHeldBytes }

  /// Gives up the body of this client that has gone longest without growing, if memory for bodies is still short
  /// because of the client.
  func displaceHolder(_ identity: Claimant, _ worker: Worker) {
    let shared = worker.shared
    let limits = worker.policy.configuration.limits
    let allowance = Shares<Claimant>.allowance(of: limits.heldBodiesBytes, share: limits.share)
    // What goes into a file is given back in a later turn of this loop.
    var yielding = 0
    for case .client(let conversation) in worker.slots.occupants where conversation.session.exchange.yieldsHeld {
      yielding += conversation.session.exchange.heldBytes
    }
    while shared.heldBytes.count - yielding > limits.heldBodiesBytes,
      shared.heldShares.withLock({ $0.greediest(above: allowance) }) == identity,
      let idlest = Self.idlest(of: worker.slots.occupants, where: { $0.identity == identity && $0.mayGiveUpHeld })
    {
      let before = idlest.session.exchange.heldBytes
      idlest.giveUpHeld(worker)
      if idlest.session.exchange.yieldsHeld { yielding += before }
    }
  }

  // MARK: Connections to a host

  /// Closes this client's idlest tunnel to a host, or if it has none, its exchange, or if it has neither, its
  /// connection that carries the exchanges of many streams, with them.
  func displaceUser(of place: ConnectionQuota.Place, _ identity: Claimant, _ worker: Worker) {
    guard worker.shared.quota.mustYield(place, identity) else { return }
    let occupants = worker.slots.occupants
    let users: (Conversation) -> Bool = { conversation in
      guard let upstream = conversation.upstream else { return false }
      return upstream.holder == identity && upstream.holdsPlace && upstream.destination.place == place
    }
    if let found = Self.idlest(of: occupants, where: { $0.session.exchange.isInTunnel && users($0) })
      ?? Self.idlest(of: occupants, where: users)
    {
      worker.statistics.clientsDisplaced += 1
      return found.displace(worker)
    }
    guard let found = Self.idlestLine(of: occupants, to: place, of: identity) else { return }
    worker.statistics.clientsDisplaced += 1
    for case .client(let conversation) in occupants where found.carries(conversation.upstream) {
      conversation.displace(worker)
    }
    found.abandon()
  }

  /// The connection with streams that this client opened to a host and on which nothing has moved for longest.
  private static func idlestLine(
    of occupants: [Occupant], to place: ConnectionQuota.Place, of identity: Claimant
  ) -> (any MultiplexedConnection)? {
    var found: (any MultiplexedConnection)? = nil
    for case .multiplexed(let connection) in occupants {
      guard case .origin(let line) = connection.peer, line.holder == identity, line.holdsPlace,
        line.destination.place == place
      else { continue }
      if connection.lastProgress < found?.lastProgress ?? .max { found = connection }
    }
    return found
  }

  private static func idlest(of occupants: [Occupant], where isMeant: (Conversation) -> Bool) -> Conversation? {
    var found: Conversation? = nil
    for case .client(let conversation) in occupants where isMeant(conversation) {
      if conversation.session.quietSince < found?.session.quietSince ?? .max { found = conversation }
    }
    return found
  }

  // MARK: Connections of clients

  /// Closes the idlest connection of a client, if it still has to give one up. false: this loop has none of it.
  @discardableResult
  func displaceIdlest(of identity: Claimant, _ worker: Worker) -> Bool {
    guard worker.shared.places.mustYield(identity, worker.policy.configuration.limits) else { return true }
    guard let slot = idlestClient(of: identity, worker.slots) else { return false }
    worker.statistics.clientsDisplaced += 1
    switch worker.slots.occupants[slot] {
    case .client(let conversation): conversation.displace(worker)
    case .multiplexed(let connection): connection.abandon()
    default: break
    }
    return true
  }

  /// The slot of the client's idlest connection.
  private func idlestClient(of identity: Claimant, _ slots: borrowing Slots) -> Int? {
    if let known = takeIdlest(of: identity, slots) { return known }
    var all: [IdlestClients.Candidate] = []
    for slot in slots.occupants.indices {
      guard let quiet = Self.quietSince(slots.occupants[slot], of: identity) else { continue }
      all.append(IdlestClients.Candidate(slot: slot, generation: slots.generation(slot), quietSince: quiet))
    }
    idlest.remember(all, of: identity)
    return takeIdlest(of: identity, slots)
  }

  private func takeIdlest(of identity: Claimant, _ slots: borrowing Slots) -> Int? {
    let found = idlest.takeNext(of: identity) { candidate in
      slots.isCurrent(candidate.slot, candidate.generation)
        && Self.quietSince(slots.occupants[candidate.slot], of: identity) == candidate.quietSince
    }
    return found?.slot
  }

  /// When a byte of a client's connection last moved; nil if it is none of this client.
  private static func quietSince(_ occupant: Occupant, of identity: Claimant) -> Int64? {
    switch occupant {
    case .client(let conversation) where conversation.identity == identity && !conversation.isStream:
      return conversation.session.quietSince
    case .multiplexed(let connection):
      if case .client(let client) = connection.peer, client.identity == identity { return connection.lastProgress }
      return nil
    default: return nil
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

/// How much of the memory for held bodies counts for the client of one conversation.
struct HeldAccount {
  private(set) var bytes = 0

  /// By how much the next bytes may exceed the memory that is left. Even if everything is taken, the client gets what
  /// is left of its share if others have more than theirs. They give it back in the next turn.
  static func overdraft(of identity: Claimant, _ worker: Worker) -> Int {
    let limits = worker.policy.configuration.limits
    return worker.shared.heldShares.withLock { shares in
      guard shares.whoYields(to: identity, of: limits.heldBodiesBytes, share: limits.share) != nil else { return 0 }
      let allowance = Shares<Claimant>.allowance(of: limits.heldBodiesBytes, share: limits.share)
      return allowance - shares.held(by: identity)
    }
  }

  /// Counts what is held for the client now, and informs the client that has to give some back.
  mutating func count(_ held: Int, of identity: Claimant, _ worker: Worker) {
    let limits = worker.policy.configuration.limits
    let isShort = worker.shared.heldBytes.count > limits.heldBodiesBytes
    let before = bytes
    bytes = held
    let greediest: Claimant? = worker.shared.heldShares.withLock { shares in
      if held > before {
        shares.take(held - before, for: identity)
      } else {
        shares.giveBack(before - held, of: identity)
      }
      if !isShort { return nil }
      return shares.greediest(
        above: Shares<Claimant>.allowance(of: limits.heldBodiesBytes, share: limits.share))
    }
    guard let greediest, greediest != identity else { return }
    for mailbox in worker.shared.mailboxes { mailbox.post(.yieldHeldBody(greediest)) }
  }

  /// Nothing is held any more.
  mutating func giveBack(of identity: Claimant?, _ worker: Worker) {
    guard bytes > 0, let identity else { return }
    worker.shared.heldShares.withLock { $0.giveBack(bytes, of: identity) }
    bytes = 0
  }
}
