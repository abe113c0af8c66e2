// The routes of the policy in one loop, and the parents that the process has found dead.

import Bytes
import Policy
import Security
import Session
import Transport
import Upstream

/// A route of one loop.
final class RouteState {
  let route: Route
  /// What an https parent has to satisfy.
  let security: OriginSecurity?
  /// The parent as a destination; nil: direct.
  let parent: Destination?
  /// Until when other routes are better tried first. A connector has found out, so a request that looks for a kept
  /// connection need not.
  var outUntil: Int64 = 0
  /// When this loop last reported that the parent had answered.
  private var saidAnswerAt = -RouteState.answerMilliseconds
  /// Whether the policy in force contains it.
  fileprivate(set) var isInForce: Bool
  /// Additional lines in the head of a request to an http parent: credentials, and that the connection may be kept.
  let parentLines: [UInt8]
  /// The attempts at a Digest challenge of the parent; nil: a challenge is not answered.
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

  /// Sent explicitly: the connection is kept only if the parent answers with the same. tinyproxy 1.11 passes what
  /// follows an answer without content on to the origin of the request before.
  private static let keepAliveLine = Array("Connection: keep-alive\r\n".utf8)

  /// Whether it accepts requests in absolute-form, so that one connection serves many origins.
  var takesAbsoluteForm: Bool { route.parent.map { $0.kind != .socks5 } ?? false }

  /// How often a loop reports that a parent answers, in milliseconds: a small part of any time-out for an answer.
  private static let answerMilliseconds: Int64 = 100

  /// The parent has answered a request.
  func noteAnswer(_ health: SharedHealth, now: Int64) {
    guard parent != nil, now - saidAnswerAt >= Self.answerMilliseconds else { return }
    saidAnswerAt = now
    health.answered(route, now: now)
  }

  /// The name of the connection's target in errors; nil if it is the destination itself.
  var place: String? { route.parent.map { "the parent \($0.authority) of route '\(route.name)'" } }
}

/// Which parents are dead; shared by all loops.
final class SharedHealth: Sendable {
  private let health = Locked(RouteHealth())

  // These forward to the health of routes.

  func deadUntil(_ route: Route, now: Int64) -> Int64? { health.withLock { $0.deadUntil(route.name, now: now) } }
  func failed(_ route: Route, now: Int64) { health.withLock { $0.failed(route.name, now: now) } }
  func wasSilent(_ route: Route, since begun: Int64, now: Int64) {
    health.withLock { $0.wasSilent(route.name, since: begun, now: now) }
  }
  func answered(_ route: Route, now: Int64) { health.withLock { $0.answered(route.name, now: now) } }
  func succeeded(_ route: Route, now: Int64) { health.withLock { $0.succeeded(route.name, now: now) } }
  func forget() { health.withLock { $0.forget() } }
}

/// The routes of the policy in force, and what the loop has found out about them.
final class RouteTable {
  private let onlyDirect = [RouteState(.direct, security: nil)]
  /// The policy whose rules `ofRules` are.
  private var live: LivePolicy
  /// The routes of each rule; empty: direct.
  private var ofRules: [[RouteState]] = []
  private var states: [Route: RouteState] = [:]

  init(_ live: LivePolicy) {
    self.live = live
    take(live)
  }

  /// The way without a parent.
  var direct: RouteState { onlyDirect[0] }

  /// The routes that a rule lists; direct if it lists none, or if there is no rule. `live`: the policy of the exchange.
  func list(of rule: Int?, _ live: LivePolicy) -> [RouteState] {
    guard let rule, !live.policy.rules[rule].routes.isEmpty else { return onlyDirect }
    if live === self.live { return ofRules[rule] }
    return live.policy.rules[rule].routes.map { state(of: $0, live) }
  }

  /// The first route that has not been found out of use just now; if all have, the first.
  func firstOpen(_ routes: [RouteState], now: Int64) -> RouteState {
    for state in routes where state.outUntil <= now { return state }
    return routes[0]
  }

  /// Adopts the routes of a policy. An unchanged route keeps its state and its connections.
  func take(_ live: LivePolicy) {
    self.live = live
    for state in states.values { state.isInForce = false }
    ofRules = live.policy.rules.map { $0.routes.map { state(of: $0, live) } }
    for state in ofRules.joined() { state.isInForce = true }
    states = states.filter { $0.value.isInForce }
  }

  /// The network has changed: each may be tried again.
  func reopen() { for state in states.values { state.outUntil = 0 } }

  func forgetNames() { for state in states.values { state.parent?.validUntil = 0 } }

  private func state(of route: Route, _ live: LivePolicy) -> RouteState {
    if route == .direct { return direct }
    let security = route.parent?.kind == .https ? live.security(route.security, enforces: true) : nil
    if let known = states[route], known.security === security { return known }
    let made = RouteState(route, security: security)
    states[route] = made
    return made
  }
}
