// A race of connections to the addresses of one host (RFC 8305, "Happy Eyeballs"), without the connections: it decides
// when to try which address. The next attempt begins when the previous one has failed, or has had no response for a
// while. The first that succeeds wins. Addresses are numbers here, in the order in which they are to be tried.
// Tests: AddressRaceTests.
//
//     begin ─► .attempt(0) ─ begun ─► .rest(until) ─ timePassed ─► .attempt(1) ─ …
//                 └ failed ─► .attempt(1) at once      └ failed, none left and none under way ─► .lost
//                                                      └ the time of the whole is over ─► .timedOut

/// The state of one race. The driver performs what each call returns, and reports the result.
public struct AddressRace: Sendable {
  public enum Action: Equatable, Sendable {
    /// Begin a connection to this address, then call `begun` or `failed`, unless it is open at once.
    case attempt(Int)
    /// Do nothing before this moment unless an attempt ends, in milliseconds of the loop's clock.
    case rest(until: Int64)
    /// No address is left that could succeed.
    case lost
    /// No address succeeded in time. The driver must close the attempts under way.
    case timedOut
  }

  /// RFC 8305, 5: the next address is tried when the previous one has had no response for this long, in milliseconds.
  public static let attemptDelayMilliseconds: Int64 = 250

  private let count: Int
  private let deadline: Int64
  private var next = 0
  /// How many attempts have begun and not ended.
  private var underWay = 0
  /// When the next attempt begins, if none ends before.
  private var nextAt: Int64

  /// `count`: of addresses. `milliseconds`: for the whole race.
  public init(of count: Int, now: Int64, within milliseconds: Int64) {
    self.count = count
    deadline = now + milliseconds
    nextAt = now
  }

  public mutating func begin(now: Int64) -> Action { proceed(now: now) }

  /// The requested attempt is under way.
  public mutating func begun(now: Int64) -> Action {
    underWay += 1
    nextAt = now + Self.attemptDelayMilliseconds
    return proceed(now: now)
  }

  /// The requested attempt could not begin. This implies nothing about the others.
  public mutating func couldNotBegin(now: Int64) -> Action {
    nextAt = now
    return proceed(now: now)
  }

  /// An attempt under way has ended without a connection.
  public mutating func failed(now: Int64) -> Action {
    precondition(underWay > 0, "an attempt failed that had not begun")
    underWay -= 1
    nextAt = now
    return proceed(now: now)
  }

  /// Attempts were abandoned for a local reason. The others continue, and the next one waits for its time unless none
  /// is left.
  public mutating func lost(_ attempts: Int, now: Int64) -> Action {
    precondition(underWay >= attempts, "more attempts are lost than had begun")
    underWay -= attempts
    if underWay == 0 { nextAt = now }
    return proceed(now: now)
  }

  public mutating func timePassed(now: Int64) -> Action { proceed(now: now) }

  private mutating func proceed(now: Int64) -> Action {
    if now >= deadline { return .timedOut }
    if next < count, now >= nextAt {
      defer { next += 1 }
      return .attempt(next)
    }
    if underWay == 0, next >= count { return .lost }
    return .rest(until: next < count ? min(deadline, nextAt) : deadline)
  }
}
