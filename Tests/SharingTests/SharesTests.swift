// Who has to give something back of a pool that is shared out, who is next, and who counts as one client.

import Bytes
import Testing

@testable import Sharing

@Suite struct SharesTests {
  private func shares(_ held: [String: Int]) -> Shares<String> {
    var shares = Shares<String>()
    for (name, count) in held { shares.take(count, for: name) }
    return shares
  }

  @Test(
    arguments: [
      ("one client that has all gives way", ["a": 100], "b", 1, 100, 0.25, "a"),
      ("down to its share", ["a": 26, "b": 24], "b", 1, 100, 0.25, "a"),
      ("and no further", ["a": 25, "b": 24, "c": 25], "d", 1, 100, 0.25, nil),
      ("who has its share takes nothing", ["a": 75, "b": 25], "b", 1, 100, 0.25, nil),
      ("nor who would have more with what it wants", ["a": 80, "b": 20], "b", 6, 100, 0.25, nil),
      ("it may want up to its share", ["a": 80, "b": 20], "b", 5, 100, 0.25, "a"),
      ("nobody gives way to itself", ["a": 100], "a", 1, 100, 0.25, nil),
      ("of two the greedier", ["a": 40, "b": 60], "c", 1, 100, 0.25, "b"),
      ("a small limit leaves each one", ["a": 2], "b", 1, 2, 0.25, "a"),
      ("and only one", ["a": 1, "b": 1], "c", 1, 2, 0.25, nil),
      ("a share of one is first come, first served", ["a": 100], "b", 1, 100, 1, nil),
      ("more than the limit, as after a reload", ["a": 100], "b", 1, 8, 0.25, "a"),
      ("nobody holds anything", [:], "b", 1, 8, 0.25, nil),
    ] as [(String, [String: Int], String, Int, Int, Double, String?)])
  func whoGivesWay(
    _ name: String, _ held: [String: Int], _ newcomer: String, _ count: Int, _ limit: Int, _ share: Double,
    _ yields: String?
  ) {
    #expect(shares(held).whoYields(to: newcomer, count, of: limit, share: share) == yields)
  }

  @Test func whatIsGivenBackIsNotHeld() {
    var shares = shares(["a": 3, "b": 1])
    #expect(shares.total == 4)
    shares.giveBack(2, of: "a")
    shares.giveBack(of: "b")
    #expect((shares.held(by: "a"), shares.held(by: "b"), shares.total) == (1, 0, 1))
    #expect(shares.greediest(above: 0) == "a" && shares.greediest(above: 1) == nil)
    shares.take(0, for: "c")
    #expect(shares.total == 1 && shares.held(by: "c") == 0)
  }

  @Test func aClientIsItsUserOrItsAddress() throws {
    func address(_ text: String) throws -> Claimant { Claimant(try #require(IPAddress(text))) }
    #expect(try address("192.0.2.1") == address("::ffff:192.0.2.1"), "a mapped address is the one that it maps")
    #expect(try address("192.0.2.1") != address("192.0.2.2"))
    #expect(try address("2001:db8::1") == address("2001:db8::ffff:1"), "a host has a /64")
    #expect(try address("2001:db8::1") != address("2001:db8:0:1::1"))
    #expect(Claimant.user(0) != Claimant.user(1))
  }
}

@Suite struct FairQueueTests {
  private func queue(_ arrivals: String) -> FairQueue<Character, String> {
    var queue = FairQueue<Character, String>()
    for arrival in arrivals.split(separator: " ") { queue.append(String(arrival), of: arrival.first ?? " ") }
    return queue
  }

  private func order(_ queue: FairQueue<Character, String>, held: [Character: Int] = [:]) -> String {
    var queue = queue
    var held = held
    var taken: [String] = []
    while let peeked = queue.next(by: { held[$0] ?? 0 }) {
      guard let next = queue.takeNext(by: { held[$0] ?? 0 }) else { break }
      #expect(next.element == peeked.element)
      held[next.identity, default: 0] += 1
      taken.append(next.element)
    }
    #expect(queue.isEmpty && queue.count == 0)
    return taken.joined(separator: " ")
  }

  @Test func ofOneClientTheFirstIsFirst() { #expect(order(queue("a1 a2 a3")) == "a1 a2 a3") }

  @Test func clientsTakeTurns() { #expect(order(queue("a1 a2 a3 b1 c1 b2")) == "a1 b1 c1 a2 b2 a3") }

  @Test func whoHoldsLeastIsNext() {
    #expect(order(queue("a1 a2 b1 c1"), held: ["a": 5, "b": 2, "c": 7]) == "b1 a1 a2 c1")
  }

  @Test func aFullQueueLosesTheLastOfWhoeverHasMostInIt() {
    var queue = queue("a1 a2 b1 a3 b2")
    #expect(queue.takeLastOfLongest()?.element == "a3")
    #expect(order(queue) == "a1 b1 a2 b2")
    var empty = FairQueue<Character, String>()
    #expect(empty.takeLastOfLongest() == nil)
  }

  @Test func whoLeavesIsSkipped() {
    var queue = queue("a1 a2 b1 a3 b2")
    #expect(queue.remove(of: "a") { $0 == "a2" })
    #expect(!queue.remove(of: "a") { $0 == "a2" })
    #expect(!queue.remove(of: "x") { _ in true })
    #expect(queue.count == 4 && queue.count(of: "a") == 2)
    #expect(order(queue) == "a1 b1 a3 b2")
    queue.removeAll { $0.hasSuffix("1") }
    #expect(order(queue) == "a3 b2")
  }

  @Test func aLongLineStaysInOrder() {
    var queue = FairQueue<Int, Int>()
    var taken: [Int] = []
    for number in 0..<1000 {
      queue.append(number, of: 0)
      if number % 3 != 0, let next = queue.takeNext(by: { _ in 0 }) { taken.append(next.element) }
    }
    while let next = queue.takeNext(by: { _ in 0 }) { taken.append(next.element) }
    #expect(taken == Array(0..<1000))
  }
}
