// Users take turns with their look-ups, whatever each has waiting.

import Testing

@testable import Server

@Suite struct LookUpQueueTests {
  private typealias Queue = LookUpQueue<Int, String, String>

  private func drain(_ queue: inout Queue) -> [Int] {
    var keys: [Int] = []
    while let entry = queue.next() { keys.append(entry.key) }
    return keys
  }

  @Test func anEmptyQueueHasNothing() {
    var queue = Queue()
    #expect(queue.isEmpty && queue.next() == nil)
  }

  @Test func thousandsOfOneUserHoldNoOtherUp() {
    var queue = Queue()
    for key in 0..<4000 { queue.add("a", for: key, of: "attacker") }
    for key in 5000..<5003 { queue.add("b", for: key, of: "other \(key)") }
    let order = drain(&queue)
    #expect(order.count == 4003 && Set(order).count == 4003)
    #expect(Set(order.prefix(4)).isSuperset(of: 5000..<5003))
  }

  @Test func oneAnswerIsForAllThatAsk() {
    var queue = Queue()
    for request in ["a", "b", "c"] { queue.add(request, for: 1, of: "x") }
    let entry = queue.next()
    #expect(entry?.requests == ["a", "b", "c"] && queue.isEmpty && queue.next() == nil)
    queue.add("d", for: 1, of: "x")
    #expect(queue.next()?.requests == ["d"])
  }

  @Test func whatComesMeanwhileGetsItsTurn() {
    var queue = Queue()
    var taken = 0
    for key in 0..<1000 {
      queue.add("r", for: key, of: "user \(key % 7)")
      if key % 3 == 0, queue.next() != nil { taken += 1 }
    }
    #expect(taken + drain(&queue).count == 1000 && queue.isEmpty)
  }
}

extension LookUpQueue.Entry: Equatable where Request: Equatable {
  public static func == (one: Self, other: Self) -> Bool { one.key == other.key && one.requests == other.requests }
}
