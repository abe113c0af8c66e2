// A race of connections to the addresses of one host (RFC 8305, "Happy Eyeballs"), without the connections: which address is
// tried when. The next attempt begins when the one before it has failed, or has not been answered for a while; the first that
// is answered wins. Addresses are numbers here, in the order in which they are to be tried. Tests: AddressRaceTests.
//
//     begin ─► .attempt(0) ─ begun ─► .rest(until) ─ timePassed ─► .attempt(1) ─ …
//                 └ failed ─► .attempt(1) at once      └ failed, none left and none under way ─► .lost
//                                                      └ the time of the whole is over ─► .timedOut

/// The state of one race. The driver carries out what each call returns, and reports what came of it.
public struct AddressRace: Sendable {
  public enum Action: Equatable, Sendable {
    /// Begin a connection to this address; `begun` or `failed` is the answer, unless it is there at once.
    case attempt(Int)
    /// Nothing is to be done before this moment unless an attempt ends, in milliseconds of the loop's clock.
    case rest(until: Int64)
    /// No address is left that could answer.
    case lost
    /// No address has answered in time. Attempts under way are the driver's to close.
    case timedOut
  }

  /// RFC 8305, 5: the next address is tried when the one before it has not answered for this long, in milliseconds.
  public static let attemptDelayMilliseconds: Int64 = 250

  private let count: Int
  private let deadline: Int64
  private var next = 0
  /// How many attempts have begun and not ended.
  private var underWay = 0
  /// When the next attempt begins if none ends before.
  private var nextAt: Int64

  /// `count`: of addresses. `milliseconds`: of the whole race.
  public init(of count: Int, now: Int64, within milliseconds: Int64) {
    self.count = count
    deadline = now + milliseconds
    nextAt = now
  }

  public mutating func begin(now: Int64) -> Action { proceed(now: now) }

  /// The attempt that was asked for is under way.
  public mutating func begun(now: Int64) -> Action {
    underWay += 1
    nextAt = now + Self.attemptDelayMilliseconds
    return proceed(now: now)
  }

  /// The attempt that was asked for could not begin, which says nothing of the others.
  public mutating func couldNotBegin(now: Int64) -> Action {
    nextAt = now
    return proceed(now: now)
  }

  /// An attempt that was under way has ended without a connection.
  public mutating func failed(now: Int64) -> Action {
    precondition(underWay > 0, "an attempt failed that had not begun")
    underWay -= 1
    nextAt = now
    return proceed(now: now)
  }

  /// Attempts were given up for a reason of this machine. The others go on, and the next has its time, unless none is left.
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
