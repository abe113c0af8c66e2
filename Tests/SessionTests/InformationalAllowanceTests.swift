// 1xx: any number where they are few a second, and not more at once than one head may take.

import Testing

@testable import Session

@Suite struct InformationalAllowanceTests {
  @Test func anyNumberPassesOverTime() {
    var allowance = InformationalAllowance()
    for second in 0..<36_000 as Range<Int64> {
      let isTaken = allowance.take(60, now: second * 1000, burst: 1 << 16)
      #expect(isTaken)
    }
  }

  @Test func aBurstIsBoundedByBytes() {
    var allowance = InformationalAllowance()
    var taken = 0
    while allowance.take(25, now: 5, burst: 1 << 16) { taken += 1 }
    #expect(taken == (1 << 16) / (25 + InformationalAllowance.bytesOfEach))
    let afterAWhile = allowance.take(25, now: 1005, burst: 1 << 16)
    #expect(afterAWhile, "a second later there is room again")
  }

  /// 4096 bytes a second are 32 responses of 128: at ten a second none is ever too much.
  @Test func timeInSmallPiecesCountsAsMuch() {
    var allowance = InformationalAllowance()
    for tenth in 0..<6000 as Range<Int64> {
      let isTaken = allowance.take(0, now: tenth * 100, burst: 256)
      #expect(isTaken)
    }
  }

  @Test func oneThatIsLargerThanAHeadIsTooMuch() {
    var allowance = InformationalAllowance()
    let isTaken = allowance.take(2000, now: 0, burst: 1024)
    #expect(!isTaken)
  }
}
