// How many programs are looked for: a search reads what a process has open, about a hundred microseconds of its thread and
// of the client's time. A client that opens thousands of connections a second is known by its user and unit; its program is
// not worth as much again as all else that is done for it. Tests: LookUpAllowanceTests.

/// A share of the look-ups of one loop, in milliseconds of its clock.
struct LookUpAllowance {
  /// Look-ups a second, and how many may come at once: some two hundredths of a core.
  static let perSecond: Int64 = 200
  static let burst: Int64 = 100

  private var left = burst * 1000
  private var countedAt: Int64 = .min

  /// Whether there is one, which is then taken.
  mutating func take(now: Int64) -> Bool {
    if countedAt != .min { left = min(Self.burst * 1000, left + max(0, now - countedAt) * Self.perSecond) }
    countedAt = now
    guard left >= 1000 else { return false }
    left -= 1000
    return true
  }
}
