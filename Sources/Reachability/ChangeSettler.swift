// One change of the network is told by the kernel in a dozen messages: the link, its addresses, its routes. They are
// let settle, so that one change is one event; and a network that never comes to rest is looked at all the same.

/// When a burst of changes has settled. Times are milliseconds of any clock that only goes forward.
public struct ChangeSettler: Equatable, Sendable {
  /// How long nothing may come before a burst is over. The messages of one change follow each other within a
  /// millisecond or two, unless the machine is busy.
  public static let quietMilliseconds: Int64 = 20
  /// The longest that a burst is waited for: half of the 200 ms within which routing has to follow.
  public static let longestMilliseconds: Int64 = 100

  private struct Burst: Equatable, Sendable {
    let first: Int64
    let last: Int64
  }

  private var burst: Burst?

  public init() {}

  /// Something has changed.
  public mutating func noted(now: Int64) { burst = Burst(first: burst?.first ?? now, last: now) }

  /// When to call `take`; nil where nothing waits.
  public var due: Int64? {
    burst.map { min($0.last + Self.quietMilliseconds, $0.first + Self.longestMilliseconds) }
  }

  /// Whether a burst is over at `now`; it is then forgotten.
  public mutating func take(now: Int64) -> Bool {
    guard let due, due <= now else { return false }
    burst = nil
    return true
  }
}
