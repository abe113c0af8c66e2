// A budget says no at its limit, takes nothing then, and has everything back in the end.

import Testing

@testable import Bytes

@Suite struct ByteBudgetTests {
  @Test func theLimitIsTheLastThatIsThere() {
    let budget = ByteBudget()
    #expect(budget.take(6, limit: 10))
    #expect(!budget.take(5, limit: 10))
    #expect(budget.count == 6)
    #expect(budget.take(4, limit: 10))
    #expect(!budget.take(1, limit: 10))
    budget.giveBack(10)
    #expect(budget.count == 0)
  }

  @Test func aLimitThatWasLoweredIsHeldAgainstWhatIsTaken() {
    let budget = ByteBudget()
    #expect(budget.take(8, limit: 10))
    #expect(!budget.take(1, limit: 4))
    #expect(!budget.take(11, limit: 10))
    budget.giveBack(8)
    #expect(budget.take(4, limit: 4))
  }

  @Test func nothingIsLostBetweenThreads() async {
    let budget = ByteBudget()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<4 {
        group.addTask {
          for _ in 0..<10_000 where budget.take(3, limit: 7) { budget.giveBack(3) }
        }
      }
    }
    #expect(budget.count == 0)
  }
}
