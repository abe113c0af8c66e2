// How much time may be spent on searching for programs. A search reads the open files of processes: a hundred
// microseconds if they are few, milliseconds if one of them has thousands of sockets. A client that opens connections
// without end is identified by its user and unit; finding its program would cost as much again as everything else done
// for it. Tests: LookUpAllowanceTests.

/// A share of the time of the thread that searches and identifies, for all loops. The cost of a search is known only at
/// its end and may exceed the rest; then there is no other search until that is made up for.
struct LookUpAllowance {
  /// Microseconds of search for each millisecond that passes, a fiftieth of a core, and the most that is saved up:
  /// enough for a second's worth of usual searches.
  static let perMillisecond: Int64 = 20
  static let most: Int64 = 100_000

  private var left = most
  private var countedAt: Int64 = .min

  /// Whether a search may begin. A loop asks before a request waits for one, and the thread asks before it begins,
  /// because requests of many loops may have been waiting.
  mutating func allows(now: Int64) -> Bool {
    if countedAt != .min { left = min(Self.most, left + max(0, now - countedAt) * Self.perMillisecond) }
    // The clocks of the loops show the time of their last turn.
    countedAt = max(countedAt, now)
    return left > 0
  }

  mutating func spend(microseconds: Int64) { left -= microseconds }
}
