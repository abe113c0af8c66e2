// What loops do to the store that they share, each in a turn of its own.

import Bytes
import Cache
import Policy
import Testing

@testable import Server

@Suite struct SharedCacheTests {
  private static let key = CacheKey(url: Array("http://a.example/x".utf8), rule: [], owner: "")

  /// All that happens in a turn of a loop happens at the moment when it began, and another loop may send a GET meanwhile. Its
  /// answer may be of the state before a PUT whose answer is found in that turn: it is not stored.
  @Test func aChangeIsAfterEveryRequestSentBeforeIt() {
    let cache = SharedCache(CacheStorage())
    let requested = cache.time
    cache.removeAll(ofResource: Self.key)
    #expect(cache.with { $0.wasChanged(Self.key, since: requested) })
    // Of what is asked for after it, the answer may be stored.
    let later = cache.time + 1
    #expect(!cache.with { $0.wasChanged(Self.key, since: later) })
  }
}
