// The store of the daemon: one index behind a lock, shared by all loops, and what is counted of it. The lock is held for a look-up
// or an insertion, which takes about a microsecond; whoever walks the store does so a few answers at a time.
//
// What is stored, when it is used and what is fetched for several is decided in module Cache. Here answers are carried: a stored
// one is read by its conversation as if it were an upstream (StoredStream), and a fetch that is to be stored reads the upstream
// itself, so that neither the client that asked first nor any other holds it up (CacheFetch). How an exchange comes to either is
// in ConversationCache. Tests: Tests/EndToEndTests/test_cache.py.

import Bytes
import Cache
import Policy
import Session
import Synchronization
import Transport

final class SharedCache: Sendable {
  let storage: CacheStorage
  /// Names of the fields that speak to this cache, in lower case.
  let targets: [[UInt8]]
  private let index: Locked<CacheIndex>
  private let counts = CacheResult.allCases.map { _ in Counter() }
  /// Bytes of content that came out of the store.
  let servedBytes = Atomic<UInt64>(0)

  private final class Counter: Sendable {
    let value = Atomic<UInt64>(0)
  }

  /// nil: all is in memory.
  let disk: DiskStore?

  /// `tell`: a sentence for the log.
  init(
    _ storage: CacheStorage, mailboxes: [Mailbox<WorkerMessage>] = [],
    tell: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.storage = storage
    targets = storage.targets.map { Array($0.utf8) }
    let index = Locked(CacheIndex(limit: storage.memoryBytes, purgeTo: storage.purgeTo))
    self.index = index
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
        insert: { answer in _ = index.withLock { $0.restore(answer) } })
    }
  }

  // MARK: Changes

  func insert(_ answer: StoredAnswer) {
    let replaced = with { $0.insert(answer) }
    for old in replaced { disk?.discard(old) }
  }

  func replace(_ answer: StoredAnswer, by fresh: StoredAnswer) {
    with { $0.replace(answer, by: fresh) }
    disk?.freshen(fresh)
  }

  /// Nobody gets it any more.
  func remove(_ answer: StoredAnswer) {
    with { $0.remove(answer) }
    disk?.discard(answer)
  }

  func removeAll(_ key: CacheKey) {
    _ = with { $0.removeAll(key) }
    disk?.discardAll(key)
  }

  func with<Result>(_ body: (inout CacheIndex) -> Result) -> Result { index.withLock(body) }

  /// Longest content that is stored, in bytes. `spills`: it goes to a file.
  func longestContent(spills: Bool) -> UInt64 {
    UInt64(min(storage.objectBytes, spills ? storage.diskBytes / 2 : storage.memoryBytes / 2))
  }

  func count(_ result: CacheResult) {
    counts[Self.position(result)].value.add(1, ordering: .relaxed)
  }

  func count(of result: CacheResult) -> UInt64 { counts[Self.position(result)].value.load(ordering: .relaxed) }

  private static func position(_ result: CacheResult) -> Int { CacheResult.allCases.firstIndex(of: result) ?? 0 }

  // MARK: For operators

  /// Answers that one step of a walk looks at.
  private static let walkStep = 256

  /// Every answer that is stored, as far as it is there when its turn comes.
  func forEach(_ body: (StoredAnswer) -> Void) {
    var at = 0
    while true {
      let (answers, slots) = with { ($0.answers(in: at..<at + Self.walkStep), $0.slots) }
      for answer in answers { body(answer) }
      at += Self.walkStep
      if at >= slots { return }
    }
  }

  /// Removes the answers that are meant. How many.
  func purge(where isMeant: (StoredAnswer) -> Bool) -> Int {
    var removed = 0
    var at = 0
    while true {
      let (count, slots) = with { ($0.remove(in: at..<at + Self.walkStep, where: isMeant), $0.slots) }
      removed += count
      at += Self.walkStep
      if at >= slots { return removed }
    }
  }
}
