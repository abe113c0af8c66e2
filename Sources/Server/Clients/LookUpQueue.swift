// Client look-ups that wait for their thread, in the order of their users' turns: one look-up each, however many a user
// has waiting. Tests: LookUpQueueTests.

import Synchronization

/// A loop's request to a thread: for the names of a client, or for a Kerberos ticket. It is called off when no one
/// waits for it any more.
final class LookUp: Sendable {
  private let isCalledOff = Atomic<Bool>(false)

  var isWanted: Bool { !isCalledOff.load(ordering: .relaxed) }

  func callOff() { isCalledOff.store(true, ordering: .relaxed) }
}

struct LookUpQueue<Key: Hashable, Owner: Hashable, Request> {
  /// All requests that wait for one answer.
  struct Entry {
    let key: Key
    var requests: [Request]
  }

  private var entries: [Key: [Request]] = [:]
  /// Keys by owner, each once.
  private var keys: [Owner: [Key]] = [:]
  /// Owners that have keys, in the order of their turns, starting at `first`.
  private var turns: [Owner] = []
  private var first = 0

  var isEmpty: Bool { entries.isEmpty }

  mutating func add(_ request: Request, for key: Key, of owner: Owner) {
    if entries[key]?.append(request) != nil { return }
    entries[key] = [request]
    if keys[owner]?.append(key) != nil { return }
    keys[owner] = [key]
    turns.append(owner)
  }

  /// The newest of the owner whose turn it is: an owner with a long backlog gets none in time anyway.
  mutating func next() -> Entry? {
    guard first < turns.count else { return nil }
    let owner = turns[first]
    first += 1
    if first > 64, first * 2 > turns.count {
      turns.removeFirst(first)
      first = 0
    }
    guard let key = keys[owner]?.popLast(), let requests = entries.removeValue(forKey: key) else {
      preconditionFailure("an owner without look-ups has a turn")
    }
    if keys[owner]?.isEmpty ?? true { keys[owner] = nil } else { turns.append(owner) }
    return Entry(key: key, requests: requests)
  }
}
