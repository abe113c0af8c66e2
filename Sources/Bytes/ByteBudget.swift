// Memory that many hold a share of, in several threads: a count under a limit.
// Tests: ByteBudgetTests.

import Synchronization

/// A count of bytes that are taken and given back. It says no where the limit would be passed, and never waits.
public final class ByteBudget: Sendable {
  private let taken = Atomic<Int>(0)

  public init() {}

  /// Bytes that are taken now.
  public var count: Int { taken.load(ordering: .relaxed) }

  /// Takes `count` more, unless that would be more than `limit` in all.
  public func take(_ count: Int, limit: Int) -> Bool {
    let before = taken.wrappingAdd(count, ordering: .relaxed).oldValue
    if count <= limit, before <= limit - count { return true }
    giveBack(count)
    return false
  }

  public func giveBack(_ count: Int) { taken.wrappingSubtract(count, ordering: .relaxed) }
}
