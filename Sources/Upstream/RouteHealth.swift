// Parents that did not answer: each is passed over for a while, as long as another route can be taken. Routes are names here.
// Tests: RouteHealthTests.

public struct RouteHealth: Sendable {
  /// How long after the first failure, in milliseconds; doubled at each further one. Short, for a parent that is restarted
  /// is back in a second or two.
  static let firstMilliseconds: Int64 = 1000
  /// The longest, after which a parent is tried by one request again.
  static let longestMilliseconds: Int64 = 60_000

  private struct Mark: Sendable {
    var failures = 0
    var deadUntil: Int64 = 0
  }

  private var marks: [String: Mark] = [:]
  /// When the parent of a route answered last, whatever it answered.
  private var answers: [String: Int64] = [:]

  public init() {}

  /// Until when the parent of `route` is passed over; nil: it is not.
  public func deadUntil(_ route: String, now: Int64) -> Int64? {
    marks[route].flatMap { $0.deadUntil > now ? $0.deadUntil : nil }
  }

  public mutating func failed(_ route: String, now: Int64) {
    var mark = marks[route] ?? Mark()
    // Requests that were under way together are one failure.
    if mark.deadUntil > now { return }
    let time = min(Self.longestMilliseconds, Self.firstMilliseconds << min(16, Int64(mark.failures)))
    mark.failures += 1
    mark.deadUntil = now + time
    marks[route] = mark
  }

  /// The parent took a connection and said nothing of the destination that it was asked for since `begun`.
  ///
  /// Where it has answered another meanwhile, that says something of the destination and nothing of the parent: else one
  /// client could send all the others round a parent by asking it for what does not answer.
  public mutating func wasSilent(_ route: String, since begun: Int64, now: Int64) {
    if let answered = answers[route], answered >= begun { return }
    failed(route, now: now)
  }

  /// The parent answered, if only that it will not.
  public mutating func answered(_ route: String, now: Int64) { answers[route] = max(answers[route] ?? now, now) }

  public mutating func succeeded(_ route: String, now: Int64) {
    marks[route] = nil
    answered(route, now: now)
  }

  /// On another network everything may be alive again.
  public mutating func forget() { marks = [:] }
}
