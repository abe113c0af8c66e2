// Which client gives something back if another waits that has less than its share: memory for held bodies, or
// connections to a host. (For client connections, see ClientPlaces.swift.)
//
// The waiter is in one loop, and what is given up may be in another. So every loop is told, and first checks whether it
// still has to act. Tests: test_shares.py.

import Bytes
import Policy
import Session
import Sharing
import Transport
import Upstream

extension Worker {
  /// How much of bodies may be held before clients are identified. Beyond that, one read, with what it decodes to, may
  /// exceed the rest.
  static func ampleHeldBytes(_ limits: Limits) -> Int {
    limits.heldBodiesBytes - readBytes - 2 * limits.bufferedBodyBytes
  }

  /// Whether memory for held bodies is short, so that owners matter.
  var heldIsShort: Bool { shared.heldBytes.count > ampleHeldBytes }

  /// Gives up the body of this client that has gone longest without growing, if memory for bodies is still short
  /// because of the client.
  func displaceHolder(_ identity: Claimant) {
    let limits = policy.configuration.limits
    let allowance = Shares<Claimant>.allowance(of: limits.heldBodiesBytes, share: limits.share)
    // What goes into a file is given back in a later turn of this loop.
    var yielding = 0
    for case .client(let conversation) in occupants where conversation.session.exchange.yieldsHeld {
      yielding += conversation.session.exchange.heldBytes
    }
    while shared.heldBytes.count - yielding > limits.heldBodiesBytes,
      shared.heldShares.withLock({ $0.greediest(above: allowance) }) == identity,
      let idlest = idlest(where: { $0.identity == identity && $0.mayGiveUpHeld })
    {
      let before = idlest.session.exchange.heldBytes
      idlest.giveUpHeld(self)
      if idlest.session.exchange.yieldsHeld { yielding += before }
    }
  }

  /// Closes this client's idlest tunnel to a host, or if it has none, its exchange, or if it has neither, its
  /// connection that carries the exchanges of many streams, with them.
  func displaceUser(of place: ConnectionQuota.Place, _ identity: Claimant) {
    guard shared.quota.mustYield(place, identity) else { return }
    let users: (Conversation) -> Bool = { conversation in
      guard let upstream = conversation.upstream else { return false }
      return upstream.holder == identity && upstream.holdsPlace && upstream.destination.place == place
    }
    if let found = idlest(where: { $0.session.exchange.isInTunnel && users($0) }) ?? idlest(where: users) {
      statistics.clientsDisplaced += 1
      return found.displace(self)
    }
    guard let found = idlestLine(to: place, of: identity) else { return }
    statistics.clientsDisplaced += 1
    for case .client(let conversation) in occupants where found.carries(conversation.upstream) {
      conversation.displace(self)
    }
    found.abandon()
  }

  /// The connection of HTTP/2 that this client opened to a host and on which nothing has moved for longest.
  private func idlestLine(to place: ConnectionQuota.Place, of identity: Claimant) -> HTTP2Endpoint? {
    var found: HTTP2Endpoint? = nil
    for case .http2(let endpoint) in occupants {
      guard case .origin(let line) = endpoint.peer, line.holder == identity, line.holdsPlace,
        line.destination.place == place
      else { continue }
      if endpoint.lastProgress < found?.lastProgress ?? .max { found = endpoint }
    }
    return found
  }

  private func idlest(where isMeant: (Conversation) -> Bool) -> Conversation? {
    var found: Conversation? = nil
    for case .client(let conversation) in occupants where isMeant(conversation) {
      if conversation.session.quietSince < found?.session.quietSince ?? .max { found = conversation }
    }
    return found
  }
}

/// How much of the memory for held bodies counts for the client of one conversation.
struct HeldAccount {
  private(set) var bytes = 0

  /// By how much the next bytes may exceed the memory that is left. Even if everything is taken, the client gets what is
  /// left of its share if others have more than theirs. They give it back in the next turn.
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
