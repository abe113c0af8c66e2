// Memory that is shared by many users in several threads: a count with a limit. Tests: ByteBudgetTests.

import Synchronization

/// A count of bytes that are taken and given back. It refuses to exceed the limit, and never waits.
public final class ByteBudget: Sendable {
  private let taken = Atomic<Int>(0)

  public init() {}

  /// Bytes that are taken now.
  public var count: Int { taken.load(ordering: .relaxed) }

  /// Takes `count` more bytes, unless the total would exceed `limit`.
  public func take(_ count: Int, limit: Int) -> Bool {
    let before = taken.wrappingAdd(count, ordering: .relaxed).oldValue
    if count <= limit, before <= limit - count { return true }
    giveBack(count)
    return false
  }

  public func giveBack(_ count: Int) { taken.wrappingSubtract(count, ordering: .relaxed) }
}
