// The part of one request in a fetch that equal requests share: the first of them leads it, the others follow and get
// its answer. Which requests are equal is decided by `CacheIndex`, under the lock of the store.

import Cache
import Policy
import Session
import Transport

/// The outcome of a fetch that others waited for.
enum FlightOutcome: Sendable {
  /// It is stored, or another answer stands in for it.
  case answer(StoredAnswer, CacheResult)
  /// Only the first client gets the answer.
  case unshared
  /// The exchange that led it is gone: another one takes over.
  case leaderless
  case failed(UpstreamFailure)
}

struct SharedFetch {
  let key: CacheKey
  let cache: SharedCache
  /// The flight that the request leads: others may wait for its outcome.
  private(set) var leads: Flight? = nil
  /// The flight of another exchange that the request waits for.
  private var follows: Flight? = nil
  /// It waited for an answer that does not fit it, and follows no other.
  private(set) var hasFollowed = false

  init(_ key: CacheKey, of cache: SharedCache) {
    self.key = key
    self.cache = cache
  }

  func isFollowing(_ flight: Flight) -> Bool { follows === flight }

  /// Joins an equal request in progress. If there is none, others may join this one. `foundNone`: it is not stored.
  mutating func join(
    _ flight: Flight, as reader: Content.Reader, foundNone: Bool, always: Bool, now: Int64
  ) -> CacheIndex.Joining {
    let joining = cache.with { $0.join(key, flight, as: reader, foundNone: foundNone, always: always, now: now) }
    switch joining {
    case .follows(let other): follows = other
    case .leads: leads = flight
    case .found: break
    }
    return joining
  }

  /// The flight that it followed is over.
  mutating func landed() { follows = nil }

  /// It shares no other fetch.
  mutating func goAlone() { hasFollowed = true }

  /// Its request has a connection now.
  func sent() {
    guard let leads else { return }
    cache.with { $0.sent(leads, key) }
  }

  /// Its connection was of no use: it may have to wait for another one, in the queue of its client.
  func waitAgain(_ worker: Worker) {
    guard let leads else { return }
    for follower in cache.with({ $0.waitsAgain(leads, key) }) {
      worker.shared.mailboxes[follower.worker].post(
        .flightEnded(slot: follower.slot, generation: follower.generation, leads, .leaderless))
    }
  }

  /// Informs those that wait for the fetch that it leads.
  mutating func end(_ outcome: FlightOutcome, _ worker: Worker) {
    guard let flight = leads else { return }
    leads = nil
    let followers = cache.with { $0.end(flight, key) }
    if case .answer(let answer, _) = outcome { answer.content.expect(followers) }
    for follower in followers {
      worker.shared.mailboxes[follower.worker].post(
        .flightEnded(slot: follower.slot, generation: follower.generation, flight, outcome))
    }
  }

  /// Its exchange is over: it waits for none. The fetch may have been waiting for it alone.
  func leave(as reader: Content.Reader, _ worker: Worker) {
    guard let follows, let heir = cache.with({ $0.leave(follows, key, reader: reader) }) else { return }
    worker.shared.mailboxes[heir.worker].post(.deserted(slot: heir.slot, generation: heir.generation))
  }

  /// Whether others wait for the fetch that it leads.
  var hasFollowers: Bool {
    guard let leads else { return false }
    return cache.with { $0.followers(of: leads, key) } > 0
  }

  /// An exchange without a client goes on with it.
  func inherit(by reader: Content.Reader) {
    guard let leads else { return }
    cache.with { $0.inherit(leads, key, by: reader) }
  }
}

extension Content.Reader {
  init(_ worker: Worker, slot: Int) {
    self.init(worker: worker.index, slot: slot, generation: worker.generation(slot))
  }
}

extension FlightOutcome {
  /// Gives up the place that a waiter had at the content.
  func release(_ reader: Content.Reader, _ mailboxes: [Mailbox<WorkerMessage>]) {
    guard case .answer(let answer, _) = self else { return }
    let left = answer.content.leave(reader)
    if left.isLast || left.wakesFetch { answer.wakeFetch(mailboxes) }
  }
}

extension StoredAnswer {
  /// A reader has left, or has caught up: the fetch in one of the loops is told, if it is under way.
  func wakeFetch(_ mailboxes: [Mailbox<WorkerMessage>]) {
    guard let fetch = content.fetch else { return }
    mailboxes[fetch.worker].post(.readersMoved(slot: fetch.slot, generation: fetch.generation))
  }
}
