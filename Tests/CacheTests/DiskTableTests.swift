// Which files there are, by key, by URL and by use.

import Testing

@testable import Cache

@Suite struct DiskTableTests {
  private static func key(_ url: String, _ owner: String = "") -> CacheKey {
    CacheKey(url: Array(url.utf8), rule: [], owner: owner)
  }

  @Test func filesAreFoundByKeyAndByURL() {
    var table = DiskTable(limit: 1 << 20, purgeTo: 0.5)
    table.insert(1, Self.key("a", "one"), content: 10)
    table.insert(2, Self.key("a", "two"), content: 10)
    table.insert(3, Self.key("b"), content: 10)
    #expect(table.files(of: Self.key("a", "one")) == [1])
    #expect(table.files(ofResource: Self.key("a")) == [1, 2])
    table.remove(1)
    #expect(table.files(of: Self.key("a", "one")).isEmpty && table.files(ofResource: Self.key("a")) == [2])
    #expect(table.count == 2 && !table.contains(1) && table.contains(3))
  }

  @Test func whatWasUsedLongestAgoGoesFirst() {
    var table = DiskTable(limit: 10 * 2048, purgeTo: 0.5)
    for file in 1...10 { table.insert(UInt64(file), Self.key("\(file)"), content: 1024) }
    #expect(table.purge().isEmpty)
    table.touch(1)
    table.insert(11, Self.key("11"), content: 1024)
    #expect(table.purge() == [2, 3, 4, 5, 6, 7])
    #expect(table.bytes == 5 * 2048 && table.evictions == 6 && table.contains(1))
  }
}
