// The kernel reports one change of the network in a dozen messages: the link, its addresses, its routes. They are
// collected until they settle, so one change is one event. If a network never settles, it is examined anyway.

/// When a burst of changes has settled. Times are milliseconds of any monotonic clock.
public struct ChangeSettler: Equatable, Sendable {
  /// How long it must be quiet for a burst to be over. The messages of one change follow each other within a
  /// millisecond or two, unless the machine is busy.
  public static let quietMilliseconds: Int64 = 20
  /// The longest wait for a burst: half of the 200 ms within which routing must follow.
  public static let longestMilliseconds: Int64 = 100

  private struct Burst: Equatable, Sendable {
    let first: Int64
    let last: Int64
  }

  private var burst: Burst?

  public init() {}

  /// Something has changed.
  public mutating func noted(now: Int64) { burst = Burst(first: burst?.first ?? now, last: now) }

  /// When to call `take`; nil if nothing is waiting.
  public var due: Int64? {
    burst.map { min($0.last + Self.quietMilliseconds, $0.first + Self.longestMilliseconds) }
  }

  /// Whether a burst is over at `now`. If so, it is forgotten.
  public mutating func take(now: Int64) -> Bool {
    guard let due, due <= now else { return false }
    burst = nil
    return true
  }
}
