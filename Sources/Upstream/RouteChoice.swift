// Chooses the route of an exchange among those of its rule. They are tried in order; routes whose parent is known to be
// dead come last. If none is left and none could even be tried because of the network, the exchange may wait for the
// network to change. Routes are numbers here; the driver describes what went wrong with one. Tests: RouteChoiceTests.
//
//     begin ─► .attempt(0) ─ failed(.tried) ─► .attempt(1) ─ failed(.unusable) ─► .fail
//                    └ all .unusable, and one may wait ─► .wait(until) ─ begin (network changed) ─► .attempt(0) …
//                                                                      └ timePassed ─► .fail

/// The state of one choice. `Failure`: why a route failed.
public struct RouteChoice<Failure: Sendable>: Sendable {
  /// What kept a route from being used.
  public enum Cause: Equatable, Sendable {
    /// It cannot be used on this network.
    case unusable
    /// It is usable, but over a link that the rule does not allow.
    case forbidden
    /// It was tried.
    case tried
    /// This is the result, whatever other routes there are.
    case final
  }

  public enum Action: Sendable {
    /// Try this route; call `failed` if it does not work.
    case attempt(Int)
    /// Do nothing before the network changes, or this moment, in milliseconds of the loop's clock.
    case wait(until: Int64)
    case fail(Conclusion)
  }

  public struct Attempt: Sendable {
    public let route: Int
    public let failure: Failure
    public let cause: Cause
  }

  /// The overall result of all routes.
  public struct Conclusion: Sendable {
    /// For each route that was considered, in order; only one if it decided alone.
    public let attempts: [Attempt]
    /// The most informative attempt: the last that was tried, otherwise one that is forbidden, otherwise the last.
    public let telling: Attempt
    /// How long it waited for another network, in milliseconds; nil: it did not.
    public let waitedMilliseconds: Int64?
    /// Whether it was tried at all, or decided.
    public var wasTried: Bool { telling.cause == .tried || telling.cause == .final }
  }

  /// How long each route may wait for the network, in milliseconds; nil: not at all.
  private let waits: [Int64?]
  private var order: [Int] = []
  private var position = 0
  private var attempts: [Attempt] = []
  private var waiting: (since: Int64, until: Int64)? = nil

  /// `waits`: for each route, how long an exchange may wait for it when it cannot be used; nil: not at all.
  public init(waits: [Int64?]) {
    precondition(!waits.isEmpty, "there is always a route")
    self.waits = waits
  }

  /// The route that is being tried.
  public var route: Int { order[position] }
  /// How many there are.
  public var count: Int { waits.count }
  /// Whether another route is left after this one.
  public var hasNext: Bool { position + 1 < order.count }
  /// Whether this is not the first route on the first try, so kept connections have not been searched for this route.
  public var isLater: Bool { position > 0 || waiting != nil }
  public var hasWaited: Bool { waiting != nil }
  public func waitedMilliseconds(now: Int64) -> Int64? { waiting.map { now - $0.since } }
  /// What has failed so far.
  public var failures: [Attempt] { attempts }

  /// Begins, or begins again because the network has changed. `isDead`: whether the parent of a route is known to be
  /// dead.
  public mutating func begin(isDead: (Int) -> Bool) -> Action {
    let all = Array(waits.indices)
    order = all.filter { !isDead($0) } + all.filter(isDead)
    position = 0
    attempts = []
    return .attempt(route)
  }

  /// The route that was being tried has failed.
  public mutating func failed(_ failure: Failure, _ cause: Cause, now: Int64) -> Action {
    let attempt = Attempt(route: route, failure: failure, cause: cause)
    if cause == .final {
      return .fail(Conclusion(attempts: [attempt], telling: attempt, waitedMilliseconds: nil))
    }
    attempts.append(attempt)
    position += 1
    return position < order.count ? .attempt(route) : conclude(now: now)
  }

  /// The time of a wait may be over.
  public mutating func timePassed(now: Int64) -> Action { conclude(now: now) }

  /// No route is left. Waiting helps only if none was even tried.
  private mutating func conclude(now: Int64) -> Action {
    let tried = attempts.last { $0.cause == .tried }
    if tried == nil, let longest = waits.compactMap(\.self).max() {
      let until = waiting?.until ?? now + longest
      if now < until {
        waiting = (waiting?.since ?? now, until)
        return .wait(until: until)
      }
    }
    guard let telling = tried ?? attempts.first(where: { $0.cause == .forbidden }) ?? attempts.last else {
      preconditionFailure("no route was looked at")
    }
    return .fail(Conclusion(attempts: attempts, telling: telling, waitedMilliseconds: waitedMilliseconds(now: now)))
  }
}
