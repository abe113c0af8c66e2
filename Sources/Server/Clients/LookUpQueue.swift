// Look-ups of clients that wait for the thread that does them, in the order in which users get their turn: one look-up
// each, however many a user has waiting. Tests: LookUpQueueTests.

import Synchronization

/// What a loop has asked a thread for: the names of a client, a ticket of Kerberos. It is called off when nobody waits for it any
/// more.
final class LookUp: Sendable {
  private let isCalledOff = Atomic<Bool>(false)

  var isWanted: Bool { !isCalledOff.load(ordering: .relaxed) }

  func callOff() { isCalledOff.store(true, ordering: .relaxed) }
}

struct LookUpQueue<Key: Hashable, Owner: Hashable, Request> {
  /// All that wait for one answer.
  struct Entry {
    let key: Key
    var requests: [Request]
  }

  private var entries: [Key: [Request]] = [:]
  /// Keys by owner, each once.
  private var keys: [Owner: [Key]] = [:]
  /// Owners that have keys, by turn: from `first` on.
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

  /// The last that came of the owner whose turn it is: one that has piled many up has none of them in time anyway.
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
