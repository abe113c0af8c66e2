// Finds an upstream for one exchange. The routes of its rule are tried in order. The steps on each: a place, if
// connections to a host are counted; the name; the addresses that it can be reached by; a race of connections; and what
// the winner has to send first (ConnectorSteps, ConnectorAddresses).
//
//  a route ─ place ─ kept connection? ─ name ─ paths ─ race ─ (TLS to the parent ─ parent) ─ (probe) ─ (TLS) ─ upstream
//     │                   └─ (a stream of the connection to the parent) ─────────────┘
//     ↑ the next one, if this one cannot be used or its connection fails; nothing of the request has left by then
//
// If no route can be used because of the network, and one of them says `unreachable = "wait"`, the connector waits for
// the network to change and begins again. Each address is checked against `deny_addresses` and against the proxy's own
// listeners before anything is sent to it. The connection goes to the very address that was checked.

import Bytes
import Policy
import Reachability
import Security
import Session
import Sharing
import Transport
import Upstream

final class Connector {
  /// The current step.
  enum Stage {
    case idle
    /// Waits after others for a place of `connections_per_host`.
    case queued
    /// Waits for a connection that another connector opens and that may carry this request too.
    case following(Destination)
    case naming
    case racing(ConnectionRace)
    /// With an https parent.
    case parentHandshake(Line, OriginHandshake)
    case greeting(Line, ParentHandshake)
    /// Waits for the ticket for the parent.
    case awaitingToken(Line, LookUp)
    /// `line` nil: the probe uses this connector's own connection.
    case probing(Line?, Candidate, TunnelProbe)
    case handshake(Line, OriginHandshake)
    /// Waits until a server says whether it opens tunnels on streams.
    case settling(any MultiplexedConnection)
    /// Waits for the network to change.
    case waiting
  }

  /// Why a route was not taken.
  enum Cause: Equatable {
    /// The route cannot be used on this network.
    case unusable
    /// The route was tried.
    case failed
    /// The route was tried, and its parent is not to be tried again at once.
    case dead
    /// The parent took the connection and has sent nothing about the destination since then.
    case silent(since: Int64)
    /// The failure is the answer, whatever other routes there are.
    case final
  }

  /// Its timer is that of the whole connector.
  let slot: Int
  /// The destination, by the route that is being tried.
  private(set) var destination: Destination
  var conversation: Conversation?
  let policy: Policy
  private(set) lazy var timeouts = policy.timeouts(of: rule)
  let rule: Int?
  /// The security policy that the destination of a tunnel has to satisfy, by each route, before the tunnel opens.
  let verification: OriginSecurity?
  var isVerified = false
  var stage = Stage.idle
  private var timerDue: Int64 = .max
  /// When the step that is under way began, in microseconds of the loop's clock.
  var begunAt: Int64
  /// What it has tried with parents.
  var parents = ParentAttempts()
  let isTunnel: Bool
  /// The protocols that may be used with the destination by the current route, the preferred one first.
  var protocols: [HTTPProtocol]
  /// For a WebSocket: what its rule allows.
  let webSocketProtocols: [HTTPProtocol]?
  let needsFresh: Bool
  /// The mark for the packets of the connection.
  let codePoint: UInt8
  let allowsCellular: Bool
  private let listed: [RouteState]
  private var choice: RouteChoice<UpstreamFailure>
  /// Its permit of `connections_per_host`.
  private var permit: HostPermit
  var openings = SharedOpenings()
  /// How often it has opened a connection for its settings, by the current route.
  var settlings = 0
  /// Whether its wait has been reported.
  private var hasTold = false
  /// The look-up in progress at the resolver.
  var lookUp: Resolver.LookUp? = nil

  /// `fresh`: no kept connection may be used.
  init(
    _ destination: Destination, by routes: [RouteState], for conversation: Conversation, rule: Int?, fresh: Bool,
    isTunnel: Bool, verifying verification: OriginSecurity?, _ policy: Policy, on worker: Worker
  ) {
    let request = rule.map { policy.rules[$0].request } ?? policy.defaultRequest
    codePoint = request.serviceType.codePoint
    allowsCellular = request.allowsCellularAccess || !(rule.map { policy.rules[$0].enforce } ?? true)
    listed = routes
    choice = RouteChoice(waits: routes.map(\.route.waitMilliseconds))
    self.verification = verification
    self.destination = destination
    self.conversation = conversation
    self.policy = policy
    self.rule = rule
    self.isTunnel = isTunnel
    protocols = conversation.session.exchange.protocols
    webSocketProtocols = conversation.session.exchange.opensWebSocket ? policy.protocols(of: rule) : nil
    needsFresh = fresh || isTunnel
    begunAt = worker.workspace.turnMicroseconds
    permit = HostPermit(
      for: policy.configuration.limits.connectionsPerHost > 0 ? conversation.knownIdentity(worker) : nil)
    slot = worker.occupy(.free)
    worker.reoccupy(slot, .connector(self))
  }

  var route: RouteState { listed[choice.route] }
  /// Where connections of the current route lead: to a parent that accepts requests, or else to the destination.
  var carrier: Destination { destination.carrier(isTunnel: isTunnel) }
  /// The host that is looked up and connected to.
  var target: Destination { route.parent ?? destination }
  /// Its name in errors.
  var place: String { route.place ?? "\(destination.name) port \(destination.port)" }

  // MARK: Routes

  /// Begins. The outcome may come before this returns.
  func start(_ worker: Worker) {
    var dead: [Int] = []
    for (index, state) in listed.enumerated() where state.parent != nil {
      guard let until = worker.shared.health.deadUntil(state.route, now: worker.now) else { continue }
      dead.append(index)
      if listed.count > 1 { state.outUntil = until }
    }
    follow(choice.begin { dead.contains($0) }, worker)
  }

  private func follow(_ action: RouteChoice<UpstreamFailure>.Action, _ worker: Worker) {
    switch action {
    case .attempt: tryRoute(worker)
    case .wait(let until): waitForChange(until, worker)
    case .fail(let conclusion): conclude(conclusion, worker)
    }
  }

  func tryRoute(_ worker: Worker) {
    guard let conversation else { return }
    isVerified = false
    if destination.via !== route { destination = conversation.turn(to: route, worker) }
    chooseWebSocketProtocols()
    if refusesParent(worker) { return }
    guard permit.isMissing else { return findKept(worker) }
    if let stream = takeStream(worker) { return handOver(stream, worker) }
    if conversation.client.hasLeft { return conversation.endLeft(worker) }
    enter(worker)
  }

  /// The current route cannot be used.
  func routeFailed(_ failure: UpstreamFailure, _ cause: Cause, on worker: Worker) {
    guard conversation != nil else { return }
    leaveRoute(worker)
    settlings = 0
    if route.parent != nil {
      switch cause {
      case .dead: worker.shared.health.failed(route.route, now: worker.now)
      case .silent(let begun): worker.shared.health.wasSilent(route.route, since: begun, now: worker.now)
      case .unusable, .failed, .final: break
      }
    }
    let verdict: RouteChoice<UpstreamFailure>.Cause
    switch cause {
    case .final: verdict = .final
    case .unusable: verdict = failure.problem.kind == .cellularNotAllowed ? .forbidden : .unusable
    case .failed, .dead, .silent: verdict = .tried
    }
    if verdict != .final { noteOut(cause, worker) }
    if verdict == .tried, choice.hasNext { conversation?.tellOfFallBack(route.route.name, failure, on: worker) }
    follow(choice.failed(failure, verdict, now: worker.now), worker)
  }

  /// How long others skip a parent that cannot be used, in milliseconds, unless the network changes earlier.
  private static let outMilliseconds: Int64 = 1000

  private func noteOut(_ cause: Cause, _ worker: Worker) {
    guard listed.count > 1, route.parent != nil, cause != .failed else { return }
    let deadUntil = worker.shared.health.deadUntil(route.route, now: worker.now)
    if case .silent = cause, deadUntil == nil { return }
    route.outUntil = deadUntil ?? (worker.now + Self.outMilliseconds)
  }

  private func conclude(_ conclusion: RouteChoice<UpstreamFailure>.Conclusion, _ worker: Worker) {
    let last = conclusion.telling.failure.problem
    var detail = conclusion.attempts.count > 1 ? describe(conclusion.attempts) : last.detail
    var kind = last.kind
    if let waited = conclusion.waitedMilliseconds {
      detail += " Waited \(waited) ms for another network."
      tellOfWait(.expired, worker)
      if conclusion.telling.cause == .unusable { kind = .notReachable }
    }
    let failure = UpstreamFailure(
      kind, detail, difference: last.difference, receivedStatus: last.receivedStatus)
    fail(failure, by: conclusion.wasTried ? listed[conclusion.telling.route].route : nil, worker)
  }

  private func describe(_ attempts: [RouteChoice<UpstreamFailure>.Attempt]) -> String {
    attempts.map { "\(listed[$0.route].route.name): \($0.failure.problem.detail)" }.joined(separator: " ")
  }

  // MARK: Waiting for the network

  private func waitForChange(_ deadline: Int64, _ worker: Worker) {
    if !hasTold {
      hasTold = true
      tellOfWait(.began, worker)
    }
    stage = .waiting
    setTimer(deadline, worker)
    worker.network.wait(self)
  }

  func tellOfWait(_ state: WaitState, _ worker: Worker) {
    guard let waited = choice.waitedMilliseconds(now: worker.now) else { return }
    let reason =
      switch state {
      case .began, .expired: describe(choice.failures)
      case .resumed: "Route '\(route.route.name)' can be taken."
      case .left: "The client left."
      }
    conversation?.tellOfWait(state, destination.name, reason: reason, milliseconds: waited, on: worker)
  }

  /// The client has ended its side. It may only have nothing more to send; then it gets an answer. But its request must
  /// not be carried out long after it has given up.
  func clientEnded(_ worker: Worker) {
    guard case .waiting = stage else { return }
    tellOfWait(.left, worker)
    let detail = "The client ended its side of the connection while its request waited for the network."
    fail(UpstreamFailure(.notReachable, detail), by: nil, worker)
  }

  /// The network has changed: a connector that waits begins again, and connections from lost addresses are given up.
  func networkChanged(_ worker: Worker) {
    settling(worker) {
      switch stage {
      case .waiting:
        setTimer(.max, worker)
        stage = .idle
        start(worker)
      case .racing(var race):
        let outcome = race.networkChanged(for: self, worker)
        go(on: race, outcome, worker)
      case .parentHandshake(let line, _), .awaitingToken(let line, _), .greeting(let line, _), .handshake(let line, _),
        .probing(let line?, _, _):
        if worker.network.hasLost(line.stream.descriptor) {
          let detail = "\(place): the address it was reached from is gone."
          routeFailed(UpstreamFailure(.connectionFailed, detail), .failed, on: worker)
        }
      case .idle, .queued, .following, .naming, .probing, .settling: break
      }
    }
  }

  // MARK: A place

  private func enter(_ worker: Worker) {
    guard let waiter = permit.waiter(slot: slot, worker),
      case .queued(let yields) = worker.shared.quota.enter(carrier.place, waiter)
    else {
      permit.granted()
      return findKept(worker)
    }
    if let stream = takeStream(mayWait: true, worker) {
      worker.shared.quota.abandon(carrier.place, waiter)
      return handOver(stream, worker)
    }
    stage = .queued
    setTimer(worker.now + timeouts.responseHeaderMilliseconds, worker)
    // Kept connections that are idle give way. Those that are kept later see the waiters.
    for mailbox in worker.shared.mailboxes {
      mailbox.post(.yieldIdle(carrier.place))
      if let yields { mailbox.post(.yieldPlace(carrier.place, yields)) }
    }
  }

  /// Whether a connection that has become free can serve this exchange.
  func canUse(_ upstream: Upstream, _ worker: Worker) -> Bool {
    !needsFresh && protocols.contains(.http11) && !mayNeedHTTP2 && upstream.destination === carrier
      && (upstream.destination.isParent || denial(of: upstream.address, by: upstream.path, worker) == nil)
  }

  /// Whether it is for a gRPC call, and another connection may agree on HTTP/2.
  private var mayNeedHTTP2: Bool {
    conversation?.session.exchange.isGRPC ?? false && offer(to: carrier).includeMultiplexed
  }

  /// The entry that forbids connecting to the address; nil: none.
  func denial(of address: SocketAddress, by path: NetworkPath, _ worker: Worker) -> AddressMatch? {
    policy.denyingBlock(IPAddress(address), rule: rule) { worker.network.isOwn($0, by: path) }
  }

  /// The connection that has become free is for this exchange. A message that it may use it follows.
  func reserve(_ upstream: Upstream) { permit.reserve(upstream) }

  private func mayRely(_ worker: Worker) -> Bool { carrier.security?.mayRely(at: worker.seconds) ?? true }

  /// Its turn has come: it gets a place, or a connection with its place.
  func placeGranted(_ worker: Worker) {
    settling(worker) {
      stage = .idle
      setTimer(.max, worker)
      guard let upstream = permit.takeReserved() else {
        permit.granted()
        return findKept(worker)
      }
      if upstream.isClosed || !mayRely(worker) {
        // Its permit stays.
        worker.upstreams.close(upstream, leavesPlace: false, worker)
        permit.granted()
        return lookUp(worker)
      }
      guard conversation != nil else { return worker.upstreams.keep(upstream, worker) }
      handOver(upstream, worker)
    }
  }

  /// A kept connection saves all later steps. The conversation has already looked by the first route.
  func findKept(_ worker: Worker) {
    guard !needsFresh, choice.isLater || openings.hasFollowed(carrier) || !carrier.multiplexed.isEmpty,
      let conversation,
      let kept = worker.upstreams.takeKept(
        carrier, rule: rule, allowsCellular: allowsCellular, by: protocols,
        for: conversation, mayWait: openings.hasFollowed(carrier), policy, on: worker)
    else { return open(worker) }
    handOver(kept, worker)
  }

  /// Opens a connection, or waits for one that is being opened.
  private func open(_ worker: Worker) {
    guard !needsFresh, offer(to: carrier).includeMultiplexed else { return reach(worker) }
    if webSocketProtocols != nil, let conversation,
      let found = worker.upstreams.connection(
        to: carrier, rule: rule, allowsCellular: allowsCellular, needing: .settings, for: conversation, policy, worker)
    {
      return settle(on: found.connection, worker)
    }
    if mayOpen(carrier, worker) { reach(worker) }
  }

  /// Connects to the host that is connected to, or takes a stream of a connection to the parent.
  func reach(_ worker: Worker) {
    guard let parent = route.parent, parent !== carrier, offer(to: parent).includeMultiplexed else {
      return lookUp(worker)
    }
    if let line = lineOfParent(worker) { return greet(line, worker) }
    if mayOpen(parent, worker) { lookUp(worker) }
  }

  /// `mayWait`: see `UpstreamPool.connection`.
  func takeStream(mayWait: Bool = false, _ worker: Worker) -> Upstream? {
    guard !needsFresh, protocols.includeMultiplexed, !carrier.multiplexed.isEmpty, let conversation else { return nil }
    return worker.upstreams.takeStream(
      carrier, rule: rule, allowsCellular: allowsCellular, for: conversation, mayWait: mayWait, policy, on: worker)
  }

  /// Whether it waits for a place of this destination.
  func isQueued(for destination: Destination) -> Bool {
    if case .queued = stage { carrier === destination } else { false }
  }

  func handOver(_ upstream: Upstream, _ worker: Worker) {
    guard let conversation else { return }
    if choice.hasWaited { tellOfWait(.resumed, worker) }
    cancel(worker)
    conversation.handedOver(upstream, worker)
  }

  // MARK: Events

  func attemptReady(_ attemptSlot: Int, _ worker: Worker) {
    settling(worker) {
      switch stage {
      case .racing(var race):
        guard let outcome = race.ready(attemptSlot, for: self, worker) else { return }
        go(on: race, outcome, worker)
      case .parentHandshake(let line, let tls): proceedWithParent(line, tls, on: worker)
      case .greeting(let line, let talk): hear(line, talk, on: worker)
      case .handshake(let line, let tls): proceed(line, tls, on: worker)
      // Bytes that the server sends before the tunnel is granted wait.
      case .probing(let line?, _, _), .awaitingToken(let line, _):
        worker.watch(line.stream, &line.interest, wanted: nil, slot: line.slot)
      case .idle, .queued, .following, .naming, .probing, .settling, .waiting: break
      }
    }
  }

  func go(on race: ConnectionRace, _ outcome: ConnectionRace.Outcome, _ worker: Worker) {
    stage = .racing(race)
    switch outcome {
    case .won(let line): won(line, race, on: worker)
    case .lost: raceLost(race, worker)
    case .rest(let until): setTimer(until, worker)
    case .timedOut:
      let detail = "\(place) did not answer within \(timeouts.connectMilliseconds) ms."
      routeFailed(UpstreamFailure(.connectionTimeout, detail), .dead, on: worker)
    }
  }

  private func raceLost(_ race: ConnectionRace, _ worker: Worker) {
    stage = .idle
    guard let error = race.lastError else {
      return routeFailed(
        UpstreamFailure(.connectionFailed, "\(place) has no address to connect to."), .dead, on: worker)
    }
    if error.isExhaustion {
      // No other route helps, and the destination is not at fault.
      return routeFailed(UpstreamFailure(.descriptorsSpent, "For \(place): \(error)."), .final, on: worker)
    }
    let (kind, detail): (Problem.Kind, String) =
      error.isRefusal
      ? (.connectionRefused, "\(place) refused the connection.")
      : error.isTimeout
        ? (.connectionTimeout, "\(place) did not answer.")
        : (error.isUnreachable ? .notReachable : .connectionFailed, "\(place): \(error).")
    routeFailed(UpstreamFailure(kind, detail), error.isUnreachable ? .unusable : .dead, on: worker)
  }

  func timerFired(_ worker: Worker) {
    // This timer belonged to the previous occupant of the slot; it was taken from the wheel in the same turn.
    if worker.now < timerDue { return }
    settling(worker) { passTime(worker) }
  }

  private func passTime(_ worker: Worker) {
    let timeouts = self.timeouts
    switch stage {
    case .racing(var race):
      let outcome = race.timePassed(for: self, worker)
      go(on: race, outcome, worker)
    case .queued:
      let limit = policy.configuration.limits.connectionsPerHost
      let detail =
        "\(carrier.name) has \(limit) connections, as many as connections_per_host allows, "
        + "and none came free in \(timeouts.responseHeaderMilliseconds) ms."
      routeFailed(UpstreamFailure(.hostBusy, detail), .final, on: worker)
    case .parentHandshake, .handshake:
      let isParent = if case .parentHandshake = stage { true } else { false }
      let what = isParent ? place : "\(destination.name) port \(destination.port)"
      let detail = "\(what) did not finish the TLS handshake within \(timeouts.tlsHandshakeMilliseconds) ms."
      routeFailed(UpstreamFailure(.tlsTimeout, detail), isParent ? .dead : .failed, on: worker)
    case .greeting:
      let detail = "\(place) said nothing of \(destination.name) within \(timeouts.connectMilliseconds) ms."
      routeFailed(UpstreamFailure(.connectionTimeout, detail), .silent(since: parents.askedAt), on: worker)
    case .awaitingToken:
      let detail = "\(place): no Kerberos ticket for it within \(timeouts.connectMilliseconds) ms."
      routeFailed(UpstreamFailure(.parentAuthentication, detail), .failed, on: worker)
    case .waiting:
      worker.network.leave(self)
      stage = .idle
      follow(choice.timePassed(now: worker.now), worker)
    case .following(let shared):
      shared.opening.leave(self)
      goOn(afterFollowing: shared, worker)
    case .settling(let connection):
      let detail =
        "\(destination.name) port \(destination.port) did not send its \(connection.wire.name) settings within "
        + "\(timeouts.tlsHandshakeMilliseconds) ms."
      routeFailed(UpstreamFailure(.tlsTimeout, detail), .failed, on: worker)
    case .idle, .naming, .probing: break
    }
  }

  func setTimer(_ due: Int64, _ worker: Worker) {
    timerDue = due
    worker.timers.set(slot, due)
  }

  /// Runs as an event of its own: afterwards the conversation checks what to do next.
  func settling(_ worker: Worker, _ body: () -> Void) {
    let conversation = self.conversation
    body()
    conversation?.settle(worker)
  }

  // MARK: Ends

  /// The connection is open.
  func deliver(_ line: Line, after tls: OriginHandshake? = nil, _ worker: Worker) {
    guard let conversation else { return }
    stage = .idle
    let upstream = worker.upstreams.adopt(line, carrier, by: route, on: worker)
    // A server that was not offered h2 has shown nothing about it.
    if let tls, offer(to: carrier).includeMultiplexed {
      carrier.opening.agreed(isShared: tls.stream.negotiatedProtocol?.isMultiplexed ?? false)
    }
    worker.watch(upstream.stream, &upstream.interest, wanted: .read, slot: upstream.slot)
    permit.pass(to: upstream)
    upstream.noteReport(of: tls, over: line)
    if let token = line.token, upstream.destination.isParent { upstream.show(token) }
    upstream.codePoint = codePoint
    if route.parent != nil { worker.shared.health.succeeded(route.route, now: worker.now) }
    if choice.hasWaited { tellOfWait(.resumed, worker) }
    if let agreed = tls?.stream.negotiatedProtocol, agreed.isMultiplexed {
      // The connection comes before its waiters continue.
      guard let connection = worker.upstreams.multiplex(upstream, on: agreed, for: conversation, worker) else {
        worker.upstreams.close(upstream, worker)
        return fail(UpstreamFailure(.tlsFailed, "\(place): no memory for \(agreed.name)."), by: nil, worker)
      }
      if webSocketProtocols != nil {
        settlings += 1
        return settle(on: connection, worker)
      }
      cancel(worker)
      var nothing = ByteBuffer()
      return conversation.connected(worker.upstreams.stream(of: connection, upstream, worker), early: &nothing, worker)
    }
    cancel(worker)
    conversation.connected(upstream, early: &line.early, worker)
  }

  private func fail(_ failure: UpstreamFailure, by route: Route?, _ worker: Worker) {
    guard let conversation else { return }
    // If a parent failed, its route is what an operator looks for.
    if let route, route.parent != nil { conversation.session.exchange.noteRefused(route: route.name) }
    cancel(worker)
    conversation.connectFailed(failure, worker)
  }

  /// Gives up the current step without reporting anything.
  func cancel(_ worker: Worker) {
    leaveRoute(worker)
    guard conversation != nil else { return }
    conversation = nil
    worker.vacate(slot)
  }

  /// The exchange is gone.
  func abandon(_ worker: Worker) {
    if case .waiting = stage { tellOfWait(.left, worker) }
    cancel(worker)
  }

  private func leaveRoute(_ worker: Worker) {
    switch stage {
    case .racing(var race): race.abandon(worker)
    case .parentHandshake(let line, _), .greeting(let line, _), .handshake(let line, _): line.close(worker)
    case .awaitingToken(let line, let request):
      request.callOff()
      line.close(worker)
    case .probing(let line, _, let probe):
      probe.abandon(self, worker)
      line?.close(worker)
    case .following(let shared): shared.opening.leave(self)
    case .queued:
      if let waiter = permit.waiter(slot: slot, worker) { worker.shared.quota.abandon(carrier.place, waiter) }
    case .naming: if let lookUp { worker.shared.resolver.cancel(lookUp) }
    case .waiting: worker.network.leave(self)
    case .settling(let connection): connection.leaveSettlers()
    case .idle: break
    }
    endOpenings(worker)
    stage = .idle
    lookUp = nil
    if conversation != nil { setTimer(.max, worker) }
    permit.giveBack(carrier.place, worker)
  }

  /// Whether it still waits for a place that was granted.
  func awaits(_ place: ConnectionQuota.Place) -> Bool {
    if case .queued = stage { carrier.place == place } else { false }
  }
}
