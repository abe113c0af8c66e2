// Durations, counted in buckets as Prometheus expects them. Tests: StatisticsTests.

/// How many durations were no longer than each bound. Bounds and sum are microseconds. The counts are stored in place:
/// a loop that has given a copy away does not share them with it, so the next request does not copy them.
struct Histogram: Sendable {
  /// Upper bounds of the buckets; Prometheus adds the bucket without a bound.
  struct Bounds: Sendable {
    fileprivate(set) var microseconds: InlineArray<18, Int64>

    /// Requests and turns of a loop: from an answer on this machine to a time-out.
    static let exchanges = Bounds(microseconds: [
      100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
      5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ])

    /// Tunnels: from a request that failed inside one, through an idle connection of a browser, to a session of a day.
    static let tunnels = Bounds(microseconds: [
      1_000, 5_000, 25_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000, 15_000_000, 60_000_000, 300_000_000,
      900_000_000, 1_800_000_000, 3_600_000_000, 7_200_000_000, 14_400_000_000, 43_200_000_000, 86_400_000_000,
    ])
  }

  let bounds: Bounds
  /// For each bound, the durations between the previous bound and it; the last counts those above all bounds.
  private(set) var counts = InlineArray<19, UInt64>(repeating: 0)
  private(set) var sumMicroseconds: UInt64 = 0

  init(_ bounds: Bounds) { self.bounds = bounds }

  var count: UInt64 {
    var sum: UInt64 = 0
    for index in counts.indices { sum += counts[index] }
    return sum
  }

  mutating func note(microseconds: Int64) {
    var index = 0
    while index < bounds.microseconds.count, microseconds > bounds.microseconds[index] { index += 1 }
    counts[index] += 1
    sumMicroseconds += UInt64(max(0, microseconds))
  }

  /// Adds the counts of another loop. Both have the same bounds.
  mutating func add(_ other: Histogram) {
    for index in counts.indices { counts[index] += other.counts[index] }
    sumMicroseconds += other.sumMicroseconds
  }
}
