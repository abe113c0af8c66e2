// The routes of the policy as one loop knows them, and which parents the process has found dead.

import Bytes
import Policy
import Security
import Session
import Transport

/// A route of one loop.
final class RouteState {
  let route: Route
  /// What an https parent is held to.
  let security: OriginSecurity?
  /// The parent as a destination; nil: straight.
  let parent: Destination?
  /// Until when other routes are better tried first. A connector has found out, and whoever takes kept connections need not.
  var outUntil: Int64 = 0
  /// When this loop last said that the parent had answered.
  private var saidAnswerAt = -RouteState.answerMilliseconds
  /// Whether the policy in force has it.
  fileprivate(set) var isInForce: Bool
  /// What the head of a request has more for an http parent: credentials, and that the connection may be kept.
  let parentLines: [UInt8]
  /// What a Digest challenge of the parent is answered with; nil: none is.
  let digest: DigestAttempts?

  init(_ route: Route, security: OriginSecurity?) {
    self.route = route
    self.security = security
    isInForce = route == .direct
    let unasked = route.parent?.password.flatMap { $0.scheme == .basic ? $0 : nil }
    parentLines = (unasked.map(ParentRequest.authorizationLine) ?? []) + Self.keepAliveLine
    digest = route.parent.flatMap { parent in
      parent.password?.digest.map {
        DigestAttempts(
          $0,
          for: NonceMemory.Place(
            keeper: route.name, isParent: true, isSecure: parent.kind == .https, host: Array(parent.host.bytes),
            port: parent.port))
      }
    }
    parent = route.parent.map { Destination($0.host, port: $0.port, security) }
  }

  /// Said in so many words, for only a parent that answers with the same is taken at it: tinyproxy 1.11 passes what follows
  /// an answer without content on to the origin of the request before.
  private static let keepAliveLine = Array("Connection: keep-alive\r\n".utf8)

  /// Whether it takes requests in absolute-form, so that one connection serves many origins.
  var takesAbsoluteForm: Bool { route.parent.map { $0.kind != .socks5 } ?? false }

  /// How often a loop says that a parent answers, in milliseconds: a small part of any time that is waited for an answer.
  private static let answerMilliseconds: Int64 = 100

  /// A request that it took has been answered.
  func noteAnswer(_ worker: Worker) {
    guard parent != nil, worker.now - saidAnswerAt >= Self.answerMilliseconds else { return }
    saidAnswerAt = worker.now
    worker.shared.health.answered(route, now: worker.now)
  }

  /// How errors name what is connected to; nil where it is the destination itself.
  var place: String? { route.parent.map { "the parent \($0.authority) of route '\(route.name)'" } }
}

/// Parents that did not answer, of all loops: each is passed over for a while, as long as another route can be taken.
final class RouteHealth: Sendable {
  /// How long after the first failure, in milliseconds; doubled at each further one. Short, for a parent that is restarted
  /// is back in a second or two.
  static let firstMilliseconds: Int64 = 1000
  /// The longest, after which a parent is tried by one request again.
  static let longestMilliseconds: Int64 = 60_000

  private struct Mark {
    var failures = 0
    var deadUntil: Int64 = 0
  }

  private let marks = Locked<[String: Mark]>([:])
  /// When the parent of a route answered last, whatever it answered.
  private let answers = Locked<[String: Int64]>([:])

  /// Until when the parent of `route` is passed over; nil: it is not.
  func deadUntil(_ route: Route, now: Int64) -> Int64? {
    marks.withLock { $0[route.name].flatMap { $0.deadUntil > now ? $0.deadUntil : nil } }
  }

  func failed(_ route: Route, now: Int64) {
    marks.withLock { marks in
      var mark = marks[route.name] ?? Mark()
      // Requests that were under way together are one failure.
      if mark.deadUntil > now { return }
      let time = min(Self.longestMilliseconds, Self.firstMilliseconds << min(16, Int64(mark.failures)))
      mark.failures += 1
      mark.deadUntil = now + time
      marks[route.name] = mark
    }
  }

  /// The parent took a connection and said nothing of the destination that it was asked for since `begun`.
  ///
  /// Where it has answered another meanwhile, that says something of the destination and nothing of the parent: else one
  /// client could send all the others round a parent by asking it for what does not answer.
  func wasSilent(_ route: Route, since begun: Int64, now: Int64) {
    if answers.withLock({ $0[route.name] }).map({ $0 >= begun }) ?? false { return }
    failed(route, now: now)
  }

  /// The parent answered, if only that it will not.
  func answered(_ route: Route, now: Int64) { answers.withLock { $0[route.name] = max($0[route.name] ?? now, now) } }

  func succeeded(_ route: Route, now: Int64) {
    marks.withLock { $0[route.name] = nil }
    answered(route, now: now)
  }

  /// On another network everything may be alive again.
  func forget() { marks.withLock { $0 = [:] } }
}

extension Worker {
  /// The ways that a rule lists; for one that lists none, and for no rule, straight.
  func routes(of rule: Int?, _ live: LivePolicy) -> [RouteState] {
    guard let rule, !live.policy.rules[rule].routes.isEmpty else { return onlyDirect }
    if live === self.live { return ruleRoutes[rule] }
    return live.policy.rules[rule].routes.map { state(of: $0, live) }
  }

  /// The routes of a policy that is taken over. One that says what it said keeps what is known of it, and its connections.
  func takeRoutes(_ live: LivePolicy) {
    for state in routeStates.values { state.isInForce = false }
    ruleRoutes = live.policy.rules.map { $0.routes.map { state(of: $0, live) } }
    for state in ruleRoutes.joined() { state.isInForce = true }
    routeStates = routeStates.filter { $0.value.isInForce }
  }

  /// The first route that nobody has found out of use just now; where all are, the first.
  func firstOpen(_ routes: [RouteState]) -> RouteState {
    for state in routes where state.outUntil <= now { return state }
    return routes[0]
  }

  private func state(of route: Route, _ live: LivePolicy) -> RouteState {
    if route == .direct { return onlyDirect[0] }
    let security = route.parent?.kind == .https ? live.security(route.security, enforces: true) : nil
    if let known = routeStates[route], known.security === security { return known }
    let made = RouteState(route, security: security)
    routeStates[route] = made
    return made
  }
}
