// How many programs are looked for.

import Testing

@testable import Server

@Suite struct LookUpAllowanceTests {
  private static func taken(_ allowance: inout LookUpAllowance, of count: Int, at now: Int64) -> Int {
    var taken = 0
    for _ in 0..<count where allowance.take(now: now) { taken += 1 }
    return taken
  }

  @Test func aBurstAndThenSoManyASecond() {
    var allowance = LookUpAllowance()
    #expect(Self.taken(&allowance, of: 1000, at: 5) == Int(LookUpAllowance.burst))
    #expect(Self.taken(&allowance, of: 1, at: 9) == 0, "a look-up takes five milliseconds to come back")
    #expect(Self.taken(&allowance, of: 2, at: 10) == 1)
    var second = 0
    for now in Int64(11)...1010 { second += Self.taken(&allowance, of: 1, at: now) }
    #expect(second == Int(LookUpAllowance.perSecond))
  }

  @Test func restSavesUpABurstAndNoMore() {
    var allowance = LookUpAllowance()
    #expect(Self.taken(&allowance, of: 1000, at: 0) == Int(LookUpAllowance.burst))
    #expect(Self.taken(&allowance, of: 1000, at: 3_600_000) == Int(LookUpAllowance.burst))
  }

  @Test func aClockThatStandsStillGivesNothing() {
    var allowance = LookUpAllowance()
    _ = Self.taken(&allowance, of: 1000, at: 7)
    #expect(Self.taken(&allowance, of: 1, at: 7) + Self.taken(&allowance, of: 1, at: 6) == 0)
  }
}
