// Comparison of entity tags (RFC 9110, 8.8.3.2), and lists of them.

import Bytes
import Testing

@testable import Cache

@Suite struct EntityTagTests {
  @Test(arguments: [
    ("\"1\"", "\"1\"", true, true), ("W/\"1\"", "\"1\"", false, true), ("W/\"1\"", "W/\"1\"", false, true),
    ("\"1\"", "\"2\"", false, false), ("W/\"1\"", "W/\"2\"", false, false), ("abc", "abc", false, true),
  ])
  func comparison(_ row: (left: String, right: String, strong: Bool, weak: Bool)) throws {
    let left = try #require(EntityTag(Array(row.left.utf8)))
    let right = try #require(EntityTag(Array(row.right.utf8)))
    #expect(left.matchesStrongly(right) == row.strong)
    #expect(left.matchesWeakly(right) == row.weak)
  }

  @Test func commasStandWithinTags() {
    let list = EntityTag.list(Array("\"a,b\" , W/\"c\",, \"d\"".utf8))
    #expect(list.map { String(decoding: $0.text, as: UTF8.self) } == ["\"a,b\"", "W/\"c\"", "\"d\""])
  }
}
