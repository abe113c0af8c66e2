// Parents that did not respond. Each is skipped for a while, as long as another route is available. Routes are names
// here. Tests: RouteHealthTests.

public struct RouteHealth: Sendable {
  /// How long a parent is skipped after its first failure, in milliseconds; doubled by each further one. Short, because
  /// a restarted parent is back in a second or two.
  static let firstMilliseconds: Int64 = 1000
  /// The longest time. After it, one request tries the parent again.
  static let longestMilliseconds: Int64 = 60_000

  private struct Mark: Sendable {
    var failures = 0
    var deadUntil: Int64 = 0
  }

  private var marks: [String: Mark] = [:]
  /// When the parent of a route last responded, with any response.
  private var answers: [String: Int64] = [:]

  public init() {}

  /// Until when the parent of `route` is skipped; nil: it is not.
  public func deadUntil(_ route: String, now: Int64) -> Int64? {
    marks[route].flatMap { $0.deadUntil > now ? $0.deadUntil : nil }
  }

  public mutating func failed(_ route: String, now: Int64) {
    var mark = marks[route] ?? Mark()
    // Requests that were under way together count as one failure.
    if mark.deadUntil > now { return }
    let time = min(Self.longestMilliseconds, Self.firstMilliseconds << min(16, Int64(mark.failures)))
    mark.failures += 1
    mark.deadUntil = now + time
    marks[route] = mark
  }

  /// The parent accepted a connection and has not responded about the requested destination since `begun`.
  ///
  /// If it has responded to another request meanwhile, the destination is at fault, not the parent. Otherwise one
  /// client could divert all others from a parent by asking it for destinations that do not respond.
  public mutating func wasSilent(_ route: String, since begun: Int64, now: Int64) {
    if let answered = answers[route], answered >= begun { return }
    failed(route, now: now)
  }

  /// The parent responded, even if only with a refusal.
  public mutating func answered(_ route: String, now: Int64) { answers[route] = max(answers[route] ?? now, now) }

  public mutating func succeeded(_ route: String, now: Int64) {
    marks[route] = nil
    answered(route, now: now)
  }

  /// On another network all may be alive again.
  public mutating func forget() { marks = [:] }
}
