// When a burst of changes is over, at given times.

import Testing

@testable import Reachability

@Suite struct ChangeSettlerTests {
  @Test func nothingIsDueBeforeAnythingHappened() {
    let settler = Settler()
    #expect(settler.due == nil)
    #expect(!settler.take(now: 1_000_000))
  }

  @Test func aSingleChangeIsTakenWhenItHasBeenQuiet() {
    let settler = Settler()
    settler.noted(now: 1000)
    #expect(settler.due == 1020)
    #expect(!settler.take(now: 1019))
    #expect(settler.due == 1020)
    #expect(settler.take(now: 1020))
    #expect(settler.due == nil)
    #expect(!settler.take(now: 2000))
    #expect(settler.value == ChangeSettler())
  }

  @Test func aBurstIsTakenOnce() {
    let settler = Settler()
    for now: Int64 in [1000, 1001, 1005, 1019] { settler.noted(now: now) }
    #expect(settler.due == 1039)
    #expect(!settler.take(now: 1038))
    #expect(settler.take(now: 1039))
    #expect(!settler.take(now: 1039))
  }

  @Test func aStormIsTakenInTheMiddle() {
    let settler = Settler()
    var taken: [Int64] = []
    for now: Int64 in 0..<1000 {
      if settler.take(now: now) { taken.append(now) }
      settler.noted(now: now)
    }
    #expect(taken == Array(stride(from: 100, to: 1000, by: 100)))
    #expect(settler.due == 1000)
  }

  @Test func oneThatIsTakenLateIsTakenOnce() {
    let settler = Settler()
    settler.noted(now: 1000)
    settler.noted(now: 5000)
    #expect(settler.due == 1100)
    #expect(settler.take(now: 5000))
    #expect(settler.due == nil)
  }

  @Test func aNewBurstBeginsAnew() {
    let settler = Settler()
    settler.noted(now: 0)
    #expect(settler.take(now: 20))
    settler.noted(now: 90)
    settler.noted(now: 105)
    #expect(settler.due == 125)
  }
}

/// A settler in a place of its own, for `#expect` takes nothing that changes a variable.
private final class Settler {
  private(set) var value = ChangeSettler()

  var due: Int64? { value.due }
  func noted(now: Int64) { value.noted(now: now) }
  func take(now: Int64) -> Bool { value.take(now: now) }
}
