// Durations, counted in buckets as Prometheus has them. Tests: StatisticsTests.

/// How many durations were at most so long. Bounds and sum are milliseconds. Its counts are in place, so that a loop that
/// has given a copy away does not find them shared, and copies them, at the next request.
struct Histogram: Sendable {
  /// From what a local answer takes to what a time-out does; Prometheus adds the bucket of all.
  static let boundsMilliseconds: InlineArray<14, Int64> = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000,
  ]

  /// Of each bound what fell between the one before it and it; the last is what was longer than all.
  private(set) var counts = InlineArray<15, UInt64>(repeating: 0)
  private(set) var sumMilliseconds: UInt64 = 0

  var count: UInt64 {
    var sum: UInt64 = 0
    for index in counts.indices { sum += counts[index] }
    return sum
  }

  mutating func note(_ milliseconds: Int64) {
    var index = 0
    while index < Self.boundsMilliseconds.count, milliseconds > Self.boundsMilliseconds[index] { index += 1 }
    counts[index] += 1
    sumMilliseconds += UInt64(max(0, milliseconds))
  }

  mutating func add(_ other: Histogram) {
    for index in counts.indices { counts[index] += other.counts[index] }
    sumMilliseconds += other.sumMilliseconds
  }
}
