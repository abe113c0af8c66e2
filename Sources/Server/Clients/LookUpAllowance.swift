// How long is spent on looking for programs: a search reads what processes have open, a hundred microseconds where they are
// few, and milliseconds where one of them has thousands of sockets. A client that opens connections without end is known by
// its user and unit; its program is not worth as much again as all else that is done for it. Tests: LookUpAllowanceTests.

/// A share of the time of the thread that searches and identifies, for all loops. What a search takes is known once it is over,
/// and may exceed what was left; then there is none until that is made up for.
struct LookUpAllowance {
  /// Microseconds of search for each millisecond that passes, a fiftieth of a core, and how much is saved up at most: a
  /// second's worth of searches that take what most do.
  static let perMillisecond: Int64 = 20
  static let most: Int64 = 100_000

  private var left = most
  private var countedAt: Int64 = .min

  /// Whether a search may begin: asked by a loop before it lets a request wait for one, and by the thread before it begins it,
  /// since many loops' requests may have been waiting.
  mutating func allows(now: Int64) -> Bool {
    if countedAt != .min { left = min(Self.most, left + max(0, now - countedAt) * Self.perMillisecond) }
    // The clocks of the loops are of their last turns.
    countedAt = max(countedAt, now)
    return left > 0
  }

  mutating func spend(microseconds: Int64) { left -= microseconds }
}
