// Which connections a loop serves: it accepts as long as there are places, and gives places that come free to those
// that wait for one (ClientPlaces). Tests: test_shares.py.

import Policy
import Sharing
import Transport

/// A class, because a connection that ends at once comes back here.
final class Admission {
  /// How many earlier connections are identified with each new one, once owners matter: with a share of up to four
  /// fifths, all are known when the last place goes.
  private static let askedWithEach = 4

  /// Where the loop continues to identify earlier connections.
  private var cursor = 0
  /// Set while connections that waited for a place are being given one.
  private var isAdmitting = false

  /// Counts a connection for its client, once enough are open for owners to matter.
  func count(_ conversation: Conversation, _ worker: Worker) {
    guard worker.shared.places.ownersMatter(worker.policy.configuration.limits) else { return }
    conversation.countIdentity(worker)
    for _ in 0..<Self.askedWithEach {
      cursor = cursor + 1 < worker.slots.occupants.count ? cursor + 1 : 0
      switch worker.slots.occupants[cursor] {
      case .client(let other): other.countIdentity(worker)
      case .multiplexed(let connection): if case .client(let client) = connection.peer { client.countIdentity(worker) }
      default: break
      }
    }
  }

  /// Handles a connection that there is no place for.
  func waitForPlace(_ connection: Accepted, _ worker: Worker) {
    // A client that is already gone waits for nothing, and takes no place.
    guard let identity = worker.owners.identity(of: connection, now: worker.now) else {
      return connection.descriptor.close()
    }
    let places = worker.shared.places
    let wait = places.enter(connection, of: identity, worker.policy.configuration.limits)
    if let refused = wait.refused {
      worker.statistics.clientsRefused += 1
      refused.descriptor.resetOnClose()
      refused.descriptor.close()
    }
    // A place may have come free meanwhile.
    admitWaiting(worker)
    guard let greediest = wait.yields, places.hasWaiting else { return }
    if worker.displacement.displaceIdlest(of: greediest, worker) { return }
    for (index, mailbox) in worker.shared.mailboxes.enumerated() where index != worker.index {
      mailbox.post(.yieldClient(greediest))
    }
  }

  /// Gives free places to those that wait.
  func admitWaiting(_ worker: Worker) {
    // A connection that ends at once calls this again: the loop below goes on with the place that it freed.
    if isAdmitting { return }
    isAdmitting = true
    defer { isAdmitting = false }
    let places = worker.shared.places
    while places.hasWaiting, places.reserve(worker.policy.configuration.limits) {
      guard let next = places.takeNext() else { return places.giveBack() }
      if worker.owners.hasLeft(next.element, now: worker.now) {
        next.element.descriptor.close()
        places.giveBack()
        continue
      }
      worker.welcome(next.element, of: next.identity)
    }
  }

  /// The proxy stops: clients that were accepted get an answer, even beyond the limit.
  func admitAllWaiting(_ worker: Worker) {
    while let next = worker.shared.places.takeNext() {
      worker.shared.places.take()
      worker.welcome(next.element, of: next.identity)
    }
  }
}
