// What loops and the thread of the disk do to the store that they share, at once.

import Bytes
import Cache
import Glibc
import Policy
import Testing
import Transport

@testable import Server

@Suite final class SharedCacheTests {
  private let path = "/tmp/sallyport-store-\(Transport.Process.random)"

  deinit {
    for files in ["objects/*/*", "*"] {
      for file in (try? Files.expand("\(path)/\(files)").get()) ?? [] { unlink(file) }
    }
    for directory in (try? Files.expand("\(path)/objects/*").get()) ?? [] { rmdir(directory) }
    for directory in ["\(path)/objects", path] { rmdir(directory) }
  }

  private static let key = CacheKey(url: Array("http://a.example/x".utf8), rule: [], owner: "")

  private static func answer(file: UInt64?) -> StoredAnswer {
    let head = StoredHead(
      status: 200, reason: Array("OK".utf8), MessageFields(),
      answering: CacheRequest(.get, MessageFields(), isAuthorized: false), requested: 1000, received: 1000)
    let content = Content(announced: nil, spills: file != nil)
    _ = content.append(Array("content".utf8).span)
    _ = content.finish()
    return StoredAnswer(
      key: key, url: Array("http://a.example/x".utf8), host: "a.example", rule: "r", head, content, file: file)
  }

  /// All that happens in a turn of a loop happens at the moment when it began, and another loop may send a GET
  /// meanwhile. Its answer may be of the state before a PUT whose answer is found in that turn: it is not stored.
  @Test func aChangeIsAfterEveryRequestSentBeforeIt() {
    let cache = SharedCache(CacheStorage())
    let requested = cache.time
    cache.removeAll(ofResource: Self.key)
    #expect(cache.with { $0.wasChanged(Self.key, since: requested) })
    // Of what is asked for after it, the answer may be stored.
    let later = cache.time + 1
    #expect(!cache.with { $0.wasChanged(Self.key, since: later) })
  }

  /// How many answers a store has in its table and in its rows, once it has done what it was told.
  private static func counts(_ store: DiskStore) -> [Int] {
    let rows = Locked(-1)
    // What is removed meanwhile is removed by a later job.
    for _ in 0..<2 {
      store.operate(milliseconds: 10_000) { files in
        var count = 0
        try? files?.forEachRow(targets: [], narrowed: []) { _ in count += 1 }
        rows.withLock { $0 = count }
      }
    }
    return [store.facts.answers, rows.withLock { $0 }]
  }

  /// An answer is written; at the moment of the look whether its URL has changed, `happens` does.
  private func written(_ happens: @escaping @Sendable (DiskStore?) -> Bool) throws -> [Int] {
    let holder = Locked<DiskStore?>(nil)
    let store = DiskStore(
      CacheStorage(), directory: path, tell: { _ in }, wake: { _, _ in }, insert: { _, _ in true },
      changed: { asked in
        // While it opens the directory, there is no store yet.
        happens(holder.withLock { $0 }) ? asked.map(\.file) : []
      })
    holder.withLock { $0 = store }
    let file = try #require(store.newFile())
    store.write(Self.answer(file: file))
    let found = Self.counts(store)
    let released = Completion()
    store.stop { released.signal() }
    released.wait(milliseconds: 10_000)
    holder.withLock { $0 = nil }
    return found
  }

  @Test func aChangeIsSeenByTheWriterOrSeesWhatItWrites() throws {
    #expect(try written { _ in true } == [0, 0], "changed before the look")
    let found = try written { store in
      store?.discardAll(ofResource: Self.key)
      return false
    }
    #expect(found == [0, 0], "changed just after it")
    #expect(try written { _ in false } == [1, 1])
    // The next owner of the directory finds it; where its URL has changed meanwhile, it removes it.
    #expect(try written { _ in false } == [2, 2])
    #expect(try written { _ in true } == [0, 0])
  }
}
