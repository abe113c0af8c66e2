// The store of the daemon: one index under a lock, shared by all loops, and its counters. A look-up or an insertion
// takes the lock for about a microsecond. A walk through the store takes it for a few answers at a time.
//
// Module Cache decides what is stored, when it is used and what is fetched for several clients. Here answers are moved.
// A conversation reads a stored one as if it were an upstream (StoredStream). A fetch that is to be stored reads the
// upstream itself, so neither the first client nor any other holds it up (CacheFetch). Caching.swift describes how
// an exchange gets to either. Tests: Tests/EndToEndTests/test_cache.py.

import Bytes
import Cache
import Policy
import Session
import Synchronization
import Transport

final class SharedCache: Sendable {
  let storage: CacheStorage
  /// Names of the fields addressed to this cache, in lower case.
  let targets: [[UInt8]]
  private let index: Locked<CacheIndex>
  private let counts = CacheResult.allCases.map { _ in Counter() }
  /// Bytes of content served from the store.
  let servedBytes = Atomic<UInt64>(0)

  private final class Counter: Sendable {
    let value = Atomic<UInt64>(0)
  }

  /// nil: everything is in memory.
  let disk: DiskStore?

  /// `tell` logs a sentence.
  init(
    _ storage: CacheStorage, mailboxes: [Mailbox<WorkerMessage>] = [],
    tell: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.storage = storage
    targets = storage.targets.map { Array($0.utf8) }
    let index = Locked(CacheIndex(limit: storage.memoryBytes, purgeTo: storage.purgeTo))
    self.index = index
    let holder = DiskHolder()
    disk = storage.directory.map { directory in
      DiskStore(
        storage, directory: directory, tell: tell,
        wake: { readers, event in
          for reader in readers {
            switch event {
            case .content:
              mailboxes[reader.worker].post(.storedContent(slot: reader.slot, generation: reader.generation))
            case .fetch: mailboxes[reader.worker].post(.readersMoved(slot: reader.slot, generation: reader.generation))
            }
          }
        },
        insert: { answer, file in
          // A removal takes the answer out of the disk's table first, and then out of the index. So here it is no
          // longer in the table, or will be removed from the index.
          index.withLock { index in (holder.disk?.holds(file) ?? true) && index.restore(answer) }
        },
        changed: { answers in
          index.withLock { index in
            if !index.knowsChanges { return [] }
            return answers.filter { index.wasChanged($0.key, since: $0.requested) }.map(\.file)
          }
        })
    }
    holder.disk = disk
  }

  /// The disk store is created together with what asks it, and does not outlive this store for its sake.
  private final class DiskHolder: Sendable {
    private struct Held: Sendable {
      weak var disk: DiskStore?
    }

    private let held = Locked(Held())
    var disk: DiskStore? {
      get { held.withLock { $0.disk } }
      set { held.withLock { $0.disk = newValue } }
    }
  }

  // MARK: Time

  /// How far the clock of the store is ahead of the monotonic one, in milliseconds.
  private let ahead = Atomic<Int64>(.min)

  /// The time that ages are computed with, in milliseconds since 1970: the machine's, except that it never goes back.
  /// If the machine's clock is set back, this one advances as time passes, so nothing stays fresh for longer than it
  /// may.
  func time(wall: Int64, monotonic: Int64) -> Int64 {
    let offset = wall - monotonic
    var known = ahead.load(ordering: .relaxed)
    while offset > known {
      let (isExchanged, original) = ahead.compareExchange(expected: known, desired: offset, ordering: .relaxed)
      known = isExchanged ? offset : original
    }
    return monotonic + known
  }

  var time: Int64 { time(wall: Clock.wall, monotonic: Clock.monotonic) }

  // MARK: Changes

  /// The answers that it replaces are set aside until it is complete and has not been refused.
  func insert(_ answer: StoredAnswer) -> ReplacedAnswers {
    ReplacedAnswers(with { $0.insert(answer) }, by: answer, self)
  }

  func replace(_ answer: StoredAnswer, by fresh: StoredAnswer) {
    with { $0.replace(answer, by: fresh) }
    disk?.freshen(fresh)
  }

  /// Restores an answer that was replaced, unless it has been changed or purged meanwhile.
  fileprivate func putBack(_ answer: StoredAnswer) {
    with { index in
      guard answer.content.isWhole, !index.wasChanged(answer.key, since: answer.head.requested),
        answer.file.map({ disk?.holds($0) ?? false }) ?? true
      else { return }
      _ = index.restore(answer)
    }
  }

  /// From here on, no one gets it.
  func remove(_ answer: StoredAnswer) {
    disk?.discard(answer)
    with { $0.remove(answer) }
  }

  /// The resource has changed. When, the clock says and not the turn of a loop: that may have begun before a request of
  /// another loop, which then asked for the earlier state and would seem to have asked after the change.
  func removeAll(ofResource key: CacheKey) {
    disk?.discardAll(ofResource: key)
    let now = time
    with { $0.removeAll(ofResource: key, now: now) }
    // What has been written since the first look did not know of the change.
    disk?.discardAll(ofResource: key)
  }

  func with<Result>(_ body: (inout CacheIndex) -> Result) -> Result { index.withLock(body) }

  /// The longest content that is stored, in bytes. `spills`: it goes to a file.
  func longestContent(spills: Bool) -> UInt64 {
    UInt64(min(storage.objectBytes, spills ? storage.diskBytes / 2 : storage.memoryBytes / 2))
  }

  func count(_ result: CacheResult) {
    counts[Self.position(result)].value.add(1, ordering: .relaxed)
  }

  func count(of result: CacheResult) -> UInt64 { counts[Self.position(result)].value.load(ordering: .relaxed) }

  private static func position(_ result: CacheResult) -> Int { CacheResult.allCases.firstIndex(of: result) ?? 0 }

  // MARK: For operators

  /// Answers in one step of a walk.
  private static let walkStep = 64
  /// How long an operator waits for the disk, in milliseconds: a hundred thousand rows take some hundred.
  private static let diskMilliseconds: Int32 = 5000

  /// The answers that are meant, each once, if they are still there when their turn comes.
  func list(_ selection: CacheSelection, at now: Int64) -> [ListedAnswer] {
    let listed = Locked<[ListedAnswer]>([])
    let files = Locked<Set<UInt64>>([])
    walk { answer in
      guard selection.mayInclude(answer) else { return }
      let one = ListedAnswer(answer)
      if !selection.includes(one, at: now) { return }
      listed.withLock { $0.append(one) }
      if let file = answer.file { files.withLock { _ = $0.insert(file) } }
    }
    disk?.operate(milliseconds: Self.diskMilliseconds) { [targets] stored in
      try? stored?.forEachRow(targets: targets, narrowed: selection.columns) { row in
        if files.withLock({ $0.contains(row.file) }) { return }
        let one = ListedAnswer(row)
        if selection.includes(one, at: now) { listed.withLock { $0.append(one) } }
      }
    }
    return listed.withLock { $0 }
  }

  /// Removes the answers that are meant. Returns how many.
  func purge(_ selection: CacheSelection, at now: Int64) -> Int {
    // Requests from before the purge bring answers from before it.
    with { $0.forgetWhatWasAskedFor(before: now) }
    // The disk first: an answer rebuilt from its files meanwhile is found in memory.
    let files = Locked<Set<UInt64>>([])
    if let disk {
      let isDone = disk.operate(milliseconds: Self.diskMilliseconds) { stored in
        guard let stored else { return }
        let purged = disk.purge(stored, narrowed: selection.columns) { selection.includes(ListedAnswer($0), at: now) }
        files.withLock { $0 = purged }
      }
      if !isDone { with { $0.forgetFiles(before: now) } }
    }
    let removed = Locked(files.withLock { $0.count })
    walk { answer in
      guard selection.mayInclude(answer), selection.includes(ListedAnswer(answer), at: now) else { return }
      self.disk?.discard(answer)
      with { $0.remove(answer) }
      if answer.file.map({ file in files.withLock { $0.contains(file) } }) ?? false { return }
      removed.withLock { $0 += 1 }
    }
    return removed.withLock { $0 }
  }

  /// Memory is short: removes a part of its answers, the least recently used first, some at a time. Returns how many.
  func purgeUnderPressure() -> Int {
    let before = with { index in
      defer { index.startPurging() }
      return index.evictions
    }
    while with({ $0.goOnPurging() }) {}
    return Int(with { $0.evictions } - before)
  }

  /// Some slots at a time, and under the lock they are only collected: a lock goes to whichever thread asks first, and
  /// a loop would otherwise find it free only once in many steps.
  private func walk(_ body: (StoredAnswer) -> Void) {
    var at = 0
    while true {
      let (answers, slots) = with { ($0.answers(in: at..<at + Self.walkStep), $0.slots) }
      for answer in answers { body(answer) }
      at += Self.walkStep
      if at >= slots { return }
    }
  }
}

/// Answers that another one has replaced, until it is certain that this one stays. One loop owns it.
final class ReplacedAnswers {
  private var answers: [StoredAnswer]
  private let successor: StoredAnswer
  private let cache: SharedCache
  /// The fetch of the new answer and the exchange that asked for it both have to accept it.
  private var voices = 2

  init(_ answers: [StoredAnswer], by successor: StoredAnswer, _ cache: SharedCache) {
    self.answers = answers
    self.successor = successor
    self.cache = cache
  }

  var areAny: Bool { !answers.isEmpty }

  /// One of the two accepts the new answer.
  func accept() {
    voices -= 1
    if voices > 0 { return }
    for answer in answers { cache.disk?.discard(answer) }
    answers = []
  }

  /// Removes the new answer and restores the earlier ones.
  func refuse() {
    cache.remove(successor)
    for answer in answers { cache.putBack(answer) }
    answers = []
  }
}

/// A stored answer as operators see it.
struct ListedAnswer: Sendable {
  let url: [UInt8]
  let host: String
  let rule: String
  let head: StoredHead
  let bytes: UInt64
  let isComplete: Bool
  let part: StoredPart?

  init(_ answer: StoredAnswer) {
    part = answer.part
    url = answer.url
    host = answer.host
    rule = answer.rule
    head = answer.head
    bytes = answer.content.count
    isComplete = answer.content.isComplete
  }

  init(_ row: DiskFiles.Listed) {
    part = row.part
    url = row.url
    host = row.host
    rule = row.rule
    head = row.head
    bytes = row.bytes
    isComplete = true
  }
}
