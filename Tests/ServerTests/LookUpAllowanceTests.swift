// How long is spent on looking for programs.

import Testing

@testable import Server

@Suite struct LookUpAllowanceTests {
  private static func searches(_ allowance: inout LookUpAllowance, of microseconds: Int64, at now: Int64) -> Int {
    var count = 0
    while allowance.allows(now: now), count < 10_000 {
      allowance.spend(microseconds: microseconds)
      count += 1
    }
    return count
  }

  @Test func aBurstAndThenAFiftiethOfTheTime() {
    var allowance = LookUpAllowance()
    #expect(Self.searches(&allowance, of: 100, at: 5) == 1000)
    #expect(Self.searches(&allowance, of: 100, at: 9) == 0 + 1, "eighty microseconds are left, and one search begins")
    #expect(Self.searches(&allowance, of: 100, at: 10) == 0, "and is made up for")
    var second = 0
    for now in Int64(11)...1010 { second += Self.searches(&allowance, of: 100, at: now) }
    #expect(second == 200)
  }

  @Test func searchesThatTakeLongAreFew() {
    var allowance = LookUpAllowance()
    #expect(Self.searches(&allowance, of: 10_000, at: 0) == 10)
    var minute = 0
    for now in Int64(1)...60_000 { minute += Self.searches(&allowance, of: 10_000, at: now) }
    #expect(minute == 120)
  }

  @Test func restSavesUpABurstAndNoMore() {
    var allowance = LookUpAllowance()
    _ = Self.searches(&allowance, of: 100, at: 0)
    #expect(Self.searches(&allowance, of: 100, at: 3_600_000) == 1000)
  }

  @Test func aClockThatStandsStillGivesNothing() {
    var allowance = LookUpAllowance()
    _ = Self.searches(&allowance, of: 100, at: 7)
    #expect(Self.searches(&allowance, of: 100, at: 7) == 0)
    #expect(Self.searches(&allowance, of: 100, at: 6) == 0)
    #expect(Self.searches(&allowance, of: 100, at: 7) == 0, "nor does one that lags behind another")
  }
}
