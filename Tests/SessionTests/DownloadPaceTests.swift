// The pace of downloads, with the time handed in: what may leave when, and that nothing is lost or won over time.

import Testing

@testable import Session

@Suite struct DownloadPaceTests {
  /// Sends all that may leave whenever it may, each time `late` ms after it might have, and answers how many bytes have left by
  /// `end`.
  private static func sent(_ rate: Int64, until end: Int64, late: Int64 = 0, most: Int = .max) -> Int64 {
    var pace = DownloadPace(bytesPerSecond: rate, now: 1000)
    var now: Int64 = 1000
    var sent: Int64 = 0
    while now <= 1000 + end {
      let count = min(pace.allowance(of: .max, now: now), most)
      if count > 0 {
        sent += Int64(count)
        pace.spent(count, now: now)
      }
      guard let next = pace.resumesAt else {
        now += 1
        continue
      }
      let early = pace.resume(now: next - 1)
      #expect(!early && next > now)
      now = next + late
      let due = pace.resume(now: now)
      #expect(due)
    }
    return sent
  }

  /// What leaves at once and what one pause is worth, beside what the time is worth.
  private static func slack(_ rate: Int64) -> Int64 { 2 * max(rate / 20, 1024) + 1 }

  @Test(arguments: [1 << 10, 1500, 10_007, 64 << 10, 1 << 20, 999_999_937, 1 << 30] as [Int64])
  func aRateIsKeptOverAnHour(rate: Int64) {
    let whole = rate * 3600
    for late in [0, 8, 40] as [Int64] {
      let sent = Self.sent(rate, until: 3_600_000, late: late)
      #expect(sent >= whole - Self.slack(rate) - late * rate / 1000 && sent <= whole + Self.slack(rate), "\(late)")
    }
  }

  @Test func smallPiecesAddUpToTheRate() {
    for most in [1, 7, 1460] {
      let sent = Self.sent(10_007, until: 60_000, most: most)
      // A piece a millisecond is less than the rate, or as many as the rate allows.
      let whole = min(Int64(most) * 60_000, 10_007 * 60)
      #expect(abs(sent - whole) <= Self.slack(10_007) + Int64(most), "\(most)")
    }
  }

  @Test func whoSendsNothingMaySendNoMoreThanFourStepsAfterwards() {
    for rate in [1 << 10, 100_000, 1 << 30] as [Int64] {
      var pace = DownloadPace(bytesPerSecond: rate, now: 0)
      let step = max(rate / 20, 1024)
      #expect(abs(Int64(pace.allowance(of: .max, now: 0)) - step) <= 1)
      let later = pace.allowance(of: .max, now: 1_000_000)
      #expect(abs(Int64(later) - 4 * step) <= 1)
      pace.spent(later, now: 1_000_000)
      #expect(pace.allowance(of: .max, now: 1_000_000) == 0)
    }
  }

  @Test func whatLeavesBeyondTheAllowanceIsPaidForWithTime() throws {
    var pace = DownloadPace(bytesPerSecond: 1000, now: 0)
    // 1,024 bytes leave at once, 10,000 take ten seconds, and the next pause 1,024 more.
    pace.spent(11_024, now: 0)
    let end = try #require(pace.resumesAt)
    #expect(end == 11_024)
    #expect(pace.allowance(of: .max, now: 5000) == 0)
  }

  @Test func aLittleIsSentWithoutAPause() {
    var pace = DownloadPace(bytesPerSecond: 1 << 20, now: 0)
    pace.spent(300, now: 0)
    #expect(pace.resumesAt == nil && pace.allowance(of: 10, now: 0) == 10)
  }
}
