// Moments as people write them, and back.

import Testing

@testable import History

@Suite struct HistoryMomentTests {
  static let now: Int64 = 1_795_573_906_123

  @Test(arguments: [
    ("7d", now - 7 * 86_400_000), ("90m", now - 5_400_000), ("0s", now), ("1970-01-01", 0),
    ("2026-11-25", 1_795_564_800_000),
    ("2026-11-25T02:31", 1_795_573_860_000), ("2026-11-25 02:31:46", 1_795_573_906_000),
    ("2026-11-25T02:31:46Z", 1_795_573_906_000), ("2024-02-29", 1_709_164_800_000),
  ])
  func momentsAreRead(_ text: String, _ wall: Int64) { #expect(HistoryMoment.parse(text, now: Self.now) == wall) }

  @Test(arguments: [
    "", "7", "7 d", "yesterday", "2026-11", "2026-13-01", "2026-02-29", "2026-11-00", "2026-11-31", "2026-1-01",
    "2026-11-25T", "2026-11-25T02", "2026-11-25T24:00", "2026-11-25T02:60", "2026-11-25T02:31:46+01:00",
    "2026-11-25T2:31", "2026-11-25x02:31", "1969-12-31", "２026-11-25",
  ])
  func whatIsNoneIsNone(_ text: String) { #expect(HistoryMoment.parse(text, now: Self.now) == nil) }

  @Test func momentsAreWritten() {
    #expect(HistoryMoment.text(Self.now) == "2026-11-25 02:31:46")
    #expect(HistoryMoment.day(of: 0) == "1970-01-01")
    #expect(HistoryMoment.day(of: 1_709_164_800_000) == "2024-02-29")
  }
}
