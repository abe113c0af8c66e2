// One event loop: its poller, its timers, its buffers, and everything registered with them.
//
// A worker is built inside its own thread and never leaves it. Others reach it only through its mailbox. Everything
// that has a descriptor or a timer has a slot. The slot's number and its generation are the data of its epoll
// registration: an event for a descriptor that was closed and reused in the meantime has an old generation, and is
// dropped.

import Bytes
import Cache
import HTTP2
import History
import Policy
import Security
import Session
import Sharing
import Synchronization
import Transport
import Upstream

final class Worker {
  /// What an event or a timer of a slot belongs to.
  enum Occupant {
    case free
    case listener(Listener)
    case mailbox
    case client(Conversation)
    case upstream(Upstream)
    case connector(Connector)
    case attempt(Connector)
    case probe(TunnelProbe)
    case http2(HTTP2Endpoint)
    case fetch(CacheFetch)
    /// Accepting paused because no descriptors were left; its timer resumes it.
    case acceptPause
  }

  /// Bytes read from a connection in one turn: one read is enough for a 64 KiB response with its head, and no
  /// connection keeps the others waiting for more than some tens of microseconds.
  static let readBytes = 128 << 10
  /// Connections accepted in one turn, for the same reason.
  static let acceptsPerTurn = 16
  /// Clients served again in one turn after they asked for more than their part of the turn before.
  static let restingPerTurn = 16
  /// How long the loop sleeps if only resting clients are left and the log is too slow for them, in milliseconds.
  static let logPauseMilliseconds: Int32 = 5
  /// How long accepting pauses if no descriptor was left, in milliseconds, unless one is freed earlier.
  static let acceptPauseMilliseconds: Int64 = 100

  /// How long a stop waits for the first request of a client that has just connected, in milliseconds. Its connection
  /// was accepted, and a client that loses a fresh connection does not try again as it does with a kept one (RFC 9112,
  /// 9.3.1).
  static let firstRequestMilliseconds: Int64 = 1000

  let index: Int
  let shared: SharedState
  @exclusivity(unchecked) var workspace: Workspace
  let rooms = ExchangeRooms()
  @exclusivity(unchecked) var timers: TimerWheel
  @exclusivity(unchecked) var now: Int64
  @exclusivity(unchecked) private(set) var live: LivePolicy
  private let poller: Poller
  @exclusivity(unchecked) var occupants: [Occupant] = []
  @exclusivity(unchecked) var generations: [UInt32] = []
  @exclusivity(unchecked) private var freeSlots: [Int] = []
  @exclusivity(unchecked) var destinations: DestinationTable
  @exclusivity(unchecked) var logLines = ByteBuffer()
  /// Exchanges that have ended, for the history.
  @exclusivity(unchecked) var history = HistoryBatch()
  private var listenerSlots: [Int] = []
  private var acceptsPaused = false
  private var pauseSlot = -1
  @exclusivity(unchecked) private var due: [Int] = []
  var clients = 0
  var drainDeadline: Int64? = nil
  /// New requests are refused: the proxy has been drained, and others hold its listeners.
  private(set) var isRefusing = false
  /// How long requests that came earlier may still run.
  private var refusalDeadline: Int64? = nil
  private(set) var handsOver = false
  /// The number of remaining tunnels last reported to the daemon; nil: not reported yet.
  var reportedTunnels: Int? = nil
  private(set) var awaitsFirstRequests = true
  private var firstRequestDeadline: Int64 = .max
  private var finished = false
  @exclusivity(unchecked) var pipes = PipePool()
  var sessions = SessionMemory<OriginKey, TLSSession>()
  var probes = ProbeMemory<ProbeKey, TunnelProbe>()
  @exclusivity(unchecked) var statistics: Statistics
  @exclusivity(unchecked) var recent = RecentDecisions()
  @exclusivity(unchecked) var progress = ProgressSweep()
  var paths: NetworkPaths
  var owners = SocketOwners()
  /// Set while connections that waited for a place are being given one.
  var isAdmitting = false
  /// Clients that left before they were identified, and clients that could not be looked up.
  var departures = RepeatedEvent()
  private var exhaustions = RepeatedEvent()
  var unknowns = RepeatedEvent()
  /// Connectors that wait for the network to change, in order.
  var waiting: [Connector] = []
  let onlyDirect = [RouteState(.direct, security: nil)]
  /// The routes of each rule of the policy in force; empty: direct.
  var ruleRoutes: [[RouteState]] = []
  var routeStates: [Route: RouteState] = [:]
  /// Clients that have bytes to read which no event will announce.
  @exclusivity(unchecked) private var again: [(slot: Int, generation: UInt32)] = []
  /// Clients that have used up their part of a turn and have sent more requests, in order.
  @exclusivity(unchecked) private var resting = RestingClients()
  /// Requests of this turn that came right after another on the same connection.
  @exclusivity(unchecked) var pipelinedInTurn = 0
  /// See `heldIsShort`.
  @exclusivity(unchecked) private(set) var ampleHeldBytes: Int
  /// HTTP/2 connections that something happened to in this turn.
  @exclusivity(unchecked) var unsettled: [HTTP2Endpoint] = []
  /// Those that have more to send in the next turn, alone or with what that brings.
  @exclusivity(unchecked) var heldBack: [HTTP2Endpoint] = []
  /// Memory for a round of them, and for those that were held back in the last turn.
  @exclusivity(unchecked) private var settling: [HTTP2Endpoint] = []
  @exclusivity(unchecked) private var holding: [HTTP2Endpoint] = []
  let messages = MessageScratch(sha1: sha1)
  /// Peers that broke a limit of HTTP/2.
  var http2Faults = RepeatedEvent()
  /// Set while the open exchanges are checked against a new policy.
  var closing: DeniedClosing? = nil
  /// Which connections are closed when a client has to give some back.
  var idlest = IdlestClients()

  var policy: Policy { live.policy }
  /// Whether a rule, or a temporary rule of an operator, needs to know who a client is.
  var asksForClient: Bool { policy.identity.asksForClient || workspace.temporary.asksForClient }
  var namesClients: Bool { policy.identity.namesClients || workspace.temporary.asksForClient }
  /// Whether a request has to be checked against the store at all.
  var storesAnswers: Bool { live.cache != nil || policy.mayRefuseToLoad }
  /// Seconds since 1970.
  var seconds: Int64 { workspace.wallMilliseconds / 1000 }

  init(
    index: Int, poller: Descriptor, listeners: [Listener], live: LivePolicy, shared: SharedState, mark: ViaMark,
    network: NetworkView?
  ) {
    self.index = index
    self.poller = Poller(poller)
    self.shared = shared
    self.live = live
    ampleHeldBytes = Self.ampleHeldBytes(live.policy.configuration.limits)
    statistics = Statistics(live.policy)
    var socket: NetlinkSocket? = nil
    if network != nil, case .success(let opened) = NetlinkSocket.open(.route) { socket = opened }
    paths = NetworkPaths(socket, network)
    now = Clock.monotonic
    timers = TimerWheel(now: now)
    destinations = DestinationTable(seed: Process.random)
    workspace = Workspace(
      name: live.policy.configuration.proxy.name, mark: mark,
      references: ReferenceSource(seed: Process.random >> 8, index: index, of: shared.mailboxes.count),
      heldBytes: shared.heldBytes)
    if let network {
      workspace.link = network.state.status
      workspace.own = network.own
    }
    workspace.temporary = shared.desk.rules
    takeRoutes(live)
    for listener in listeners {
      let slot = occupy(.listener(listener))
      listenerSlots.append(slot)
      register(listener.descriptor, listener.interest, slot)
    }
    register(shared.mailboxes[index].descriptor, .read, occupy(.mailbox))
    pauseSlot = occupy(.acceptPause)
  }

  // MARK: The loop

  /// Runs until it is told to drain and has done so.
  func run() {
    while !finished {
      let count = poller.wait(
        milliseconds: again.isEmpty && unsettled.isEmpty && heldBack.isEmpty && closing == nil
          ? waitMilliseconds() : 0)
      workspace.turnMicroseconds = Clock.monotonicMicroseconds
      now = workspace.turnMicroseconds / 1000
      pipelinedInTurn = 0
      workspace.setWallClock(milliseconds: Clock.wall)
      for index in 0..<count { dispatch(poller.readiness(index)) }
      if !again.isEmpty { goOnReading() }
      if !resting.isEmpty { serveResting() }
      runTimers()
      if closing != nil { continueClosing() }
      if !unsettled.isEmpty || !heldBack.isEmpty { settleHTTP2() }
      handOverRecords()
      statistics.noteTurn(microseconds: Clock.monotonicMicroseconds - workspace.turnMicroseconds)
      if let refusalDeadline, now >= refusalDeadline { endUnderWay() }
      if let drainDeadline { continueDraining(drainDeadline) }
    }
    shared.reports.post(.drained(worker: index, statistics))
  }

  private func waitMilliseconds() -> Int32 {
    var wait = timers.millisecondsUntilNext(now: now)
    if let drainDeadline { wait = min(wait ?? .max, max(0, min(drainDeadline, firstRequestDeadline) - now)) }
    if let refusalDeadline { wait = min(wait ?? .max, max(0, refusalDeadline - now)) }
    let timer = wait.map { Int32(clamping: $0 + 1) } ?? -1
    if resting.isEmpty { return timer }
    let rest = shared.log.isBehind ? Self.logPauseMilliseconds : 0
    return timer < 0 ? rest : min(timer, rest)
  }

  private func dispatch(_ readiness: Readiness) {
    let slot = Int(readiness.data & 0xffff_ffff)
    guard generations[slot] == UInt32(readiness.data >> 32) else { return }
    dispatch(readiness, to: slot)
  }

  func dispatch(_ readiness: Readiness, to slot: Int) {
    switch occupants[slot] {
    case .client(let conversation): conversation.clientReady(readiness, self)
    case .upstream(let upstream): upstreamReady(upstream, readiness)
    case .attempt(let connector): connector.attemptReady(slot, self)
    case .probe(let probe): probe.ready(self)
    case .http2(let endpoint): endpoint.ready(readiness)
    case .fetch(let fetch): fetch.ready(readiness)
    case .listener(let listener): accept(listener)
    case .mailbox: takeMessages()
    case .free, .connector, .acceptPause: break
    }
  }

  /// Comes back to a client in the next turn, so that others get theirs.
  func readAgain(_ slot: Int) { again.append((slot, generations[slot])) }

  private func goOnReading() {
    var turn: [(slot: Int, generation: UInt32)] = []
    swap(&turn, &again)
    for (slot, generation) in turn where generations[slot] == generation {
      switch occupants[slot] {
      case .client(let conversation): conversation.readMore(self)
      case .http2(let endpoint): endpoint.read()
      case .fetch(let fetch): fetch.readMore()
      default: break
      }
    }
  }

  /// How many times within a turn one connection's effects on another are passed on: a request and its answer take two.
  private static let settlingRounds = 4

  /// Runs after the rest of the turn: sends what was written to streams, and reports what happened to them.
  private func settleHTTP2() {
    swap(&holding, &heldBack)
    for _ in 0..<Self.settlingRounds where !unsettled.isEmpty || !holding.isEmpty {
      swap(&settling, &unsettled)
      for endpoint in settling { endpoint.settle() }
      settling.removeAll(keepingCapacity: true)
      // What was held back goes with what this turn brought, and that may have come by the streams of the first round.
      unsettled += holding
      holding.removeAll(keepingCapacity: true)
    }
  }

  /// Comes back to a client that has sent more requests than fit one turn.
  func rest(_ slot: Int) { resting.append(slot, generations[slot]) }

  /// Only while the log keeps up: most resting clients are refused, and their requests produce nothing but log lines.
  private func serveResting() {
    if shared.log.isBehind { return }
    for _ in 0..<min(resting.count, Self.restingPerTurn) {
      let (slot, generation) = resting.takeFirst()
      if generations[slot] == generation, case .client(let conversation) = occupants[slot] {
        conversation.goOn(self)
      }
    }
  }

  private func runTimers() {
    due.removeAll(keepingCapacity: true)
    timers.expire(now: now, into: &due)
    for slot in due {
      switch occupants[slot] {
      case .client(let conversation): conversation.timerFired(self)
      case .upstream(let upstream): idleTimerFired(upstream)
      case .connector(let connector): connector.timerFired(self)
      case .probe(let probe): probe.timerFired(self)
      case .http2(let endpoint): endpoint.timerFired()
      case .fetch(let fetch): fetch.timerFired()
      case .acceptPause: resumeAccepting()
      case .free, .listener, .mailbox, .attempt: break
      }
    }
  }

  private func takeMessages() {
    for message in shared.mailboxes[index].takeAll() {
      switch message {
      case .policy(let live):
        take(live)
        shared.reports.post(.tookPolicy)
      case .resolved(let slot, let generation, let answer):
        statistics.note(answer)
        guard generations[slot] == generation, case .connector(let connector) = occupants[slot] else { continue }
        connector.resolved(answer, self)
      case .identified(let slot, let generation, let lookUp, let client, let program):
        if generations[slot] == generation, case .client(let conversation) = occupants[slot] {
          conversation.identified(client, program, by: lookUp, self)
        }
      case .token(let slot, let generation, let request, let outcome):
        guard generations[slot] == generation, case .connector(let connector) = occupants[slot] else { continue }
        connector.tokenMade(outcome, for: request, self)
      case .spooled(let slot, let generation, let file, let outcome):
        if generations[slot] == generation, case .client(let conversation) = occupants[slot] {
          conversation.spooled(file, outcome, self)
        }
      case .network(let change): take(change)
      case .yieldClient(let identity): displaceIdlest(of: identity)
      case .yieldHeldBody(let identity): displaceHolder(identity)
      case .yieldPlace(let place, let identity): displaceUser(of: place, identity)
      case .place(let slot, let generation, let place, let identity):
        if generations[slot] == generation, case .connector(let connector) = occupants[slot], connector.awaits(place) {
          connector.placeGranted(self)
        } else {
          shared.quota.leave(place, of: identity)
        }
      case .opened(let slot, let generation):
        if generations[slot] == generation, case .connector(let connector) = occupants[slot] {
          connector.goOnAlone(self)
        }
      case .yieldIdle(let place): yieldIdle(place)
      case .yieldDescriptors: _ = closeIdleUpstreams()
      case .storedContent(let slot, let generation):
        if generations[slot] == generation {
          dispatch(.carried(isReadable: true, isWritable: false, isBroken: false), to: slot)
        }
      case .readersMoved(let slot, let generation):
        if generations[slot] == generation, case .fetch(let fetch) = occupants[slot] { fetch.readersMoved() }
      case .restored(let slot, let generation):
        if generations[slot] == generation, case .client(let conversation) = occupants[slot] {
          conversation.restored(self)
        }
      case .deserted(let slot, let generation):
        if generations[slot] == generation, case .client(let conversation) = occupants[slot] {
          conversation.deserted(self)
        }
      case .flightEnded(let slot, let generation, let flight, let outcome):
        if generations[slot] == generation, case .client(let conversation) = occupants[slot] {
          conversation.flightEnded(flight, outcome, self)
        }
        // By now the client reads it, or never will.
        release(Content.Reader(worker: index, slot: slot, generation: generation), from: outcome)
      case .ask(.closeDenied, let inquiry):
        // A check in progress starts again, with the newer policy.
        closing = DeniedClosing(inquiries: (closing?.inquiries ?? []) + [inquiry], closed: closing?.closed ?? 0)
      case .ask(let question, let inquiry):
        shared.reports.post(.answered(worker: index, answer(question), inquiry: inquiry))
      case .accepted(let connection): welcome(connection)
      case .temporary(let rules): workspace.temporary = rules
      case .operatorAnswered(let waiter, let verdict, let name):
        if generations[waiter.slot] == waiter.generation, case .client(let conversation) = occupants[waiter.slot] {
          conversation.operatorAnswered(waiter, verdict, by: name, self)
        }
      case .ping: shared.reports.post(.answeredPing(worker: index))
      case .tunnel(let tunnel): adopt(tunnel)
      case .drain(let deadline, let handsOver):
        self.handsOver = handsOver
        startDraining(deadline)
      case .refuse(let deadline):
        isRefusing = true
        refusalDeadline = deadline
        drainAll()
      case .handOver: handOver()
      }
    }
  }

  /// From here on, `live` decides requests. What was opened under security policies that it does not have is closed.
  private func take(_ live: LivePolicy) {
    if live.policy.configuration.dns != self.live.policy.configuration.dns { forgetNames() }
    self.live = live
    ampleHeldBytes = Self.ampleHeldBytes(live.policy.configuration.limits)
    statistics.take(live.policy)
    takeRoutes(live)
    admitWaiting()
    sessions.removeAll { !live.contains($0.security) }
    probes.removeAll { !live.contains($0.origin.security) }
    for case .upstream(let upstream) in occupants where upstream.owner == nil {
      if !(upstream.destination.security.map(live.contains) ?? true) || !upstream.route.isInForce { dropIdle(upstream) }
    }
    for case .http2(let endpoint) in occupants {
      guard case .origin(let line) = endpoint.peer else { continue }
      if !(line.destination.security.map(live.contains) ?? true) || !line.route.isInForce { endpoint.retire() }
    }
    for case .client(let conversation) in occupants where conversation.question.isAsked {
      conversation.withdrawIfDenied(self)
    }
  }

  private func yieldIdle(_ place: ConnectionQuota.Place) {
    for case .upstream(let upstream) in occupants
    where upstream.owner == nil && upstream.holdsPlace && upstream.destination.place == place {
      dropIdle(upstream)
    }
    for case .http2(let endpoint) in occupants where endpoint.isIdle(at: place) { endpoint.abandon() }
  }

  // MARK: Slots

  func occupy(_ occupant: Occupant) -> Int {
    if let slot = freeSlots.popLast() {
      occupants[slot] = occupant
      return slot
    }
    occupants.append(occupant)
    generations.append(1)
    return occupants.count - 1
  }

  func vacate(_ slot: Int) {
    timers.clear(slot)
    occupants[slot] = .free
    generations[slot] &+= 1
    freeSlots.append(slot)
  }

  func reoccupy(_ slot: Int, _ occupant: Occupant) { occupants[slot] = occupant }

  func generation(_ slot: Int) -> UInt32 { generations[slot] }

  @discardableResult
  func register(_ descriptor: Descriptor, _ interest: Interest, _ slot: Int) -> Bool {
    poller.add(descriptor, interest, data: token(slot))
  }

  /// The same for a stream, which another connection may carry.
  func watch(_ stream: ByteStream, _ current: inout Interest?, _ wanted: Interest?, _ slot: Int) {
    guard let carried = stream.carried else { return update(stream.descriptor, &current, wanted, slot) }
    carried.watch(wanted)
    current = wanted
  }

  /// Changes the registration from `current` to `wanted`; nil means none.
  func update(_ descriptor: Descriptor, _ current: inout Interest?, _ wanted: Interest?, _ slot: Int) {
    if current == wanted { return }
    switch (current, wanted) {
    case (nil, let wanted?):
      // Without memory for it, nothing is registered, and the timers end whatever waits for it.
      guard register(descriptor, wanted, slot) else { return }
    case (_, nil): poller.remove(descriptor)
    case (_, let wanted?): poller.modify(descriptor, wanted, data: token(slot))
    }
    current = wanted
  }

  private func token(_ slot: Int) -> UInt64 { UInt64(generations[slot]) << 32 | UInt64(slot) }

  // MARK: Clients

  private func accept(_ listener: Listener) {
    for _ in 0..<Self.acceptsPerTurn {
      switch listener.accept() {
      case .none: return
      case .accepted(let connection):
        guard shared.reserveConnection(policy.configuration.limits) else {
          waitForPlace(connection)
          continue
        }
        if listener.owner == .other, shared.deal(connection, from: index) { continue }
        welcome(connection)
      case .failed(let error):
        if error.isExhaustion {
          if closeIdleUpstreams() { continue }
          if let unsaid = exhaustions.happened(now: now) {
            let more = unsaid > 0 ? " (\(String.counted(unsaid, "time")) since the last line)" : ""
            shared.log.event(.warning, "accept: \(error); new connections wait until one is closed\(more)")
          }
          pauseAccepting(retryAfter: Self.acceptPauseMilliseconds)
          return
        }
      // Any other error concerns only that one connection, which is gone (accept(2), "Error handling").
      }
    }
  }

  /// The caller has already counted the connection. `identity`: whose it is, if that had to be known already.
  func welcome(_ connection: Accepted, of identity: Claimant? = nil) {
    statistics.clientsAccepted += 1
    clients += 1
    let slot = occupy(.free)
    let conversation = Conversation(slot: slot, connection, of: ClientIdentity(identity), self)
    occupants[slot] = .client(conversation)
    countClient(conversation)
    guard register(connection.descriptor, .read, slot) else {
      conversation.close(self)
      return
    }
    // A client that connects has usually sent something already: one look saves a turn.
    conversation.begin(self)
  }

  /// A client's connection is gone.
  func clientClosed(_ slot: Int) {
    vacate(slot)
    clients -= 1
    shared.connections.subtract(1, ordering: .relaxed)
    if acceptsPaused { resumeAccepting() }
    admitWaiting()
  }

  private func pauseAccepting(retryAfter milliseconds: Int64) {
    if acceptsPaused { return }
    acceptsPaused = true
    for slot in listenerSlots {
      if case .listener(let listener) = occupants[slot] { poller.remove(listener.descriptor) }
    }
    timers.set(pauseSlot, now + milliseconds)
  }

  private func resumeAccepting() {
    guard acceptsPaused, drainDeadline == nil else { return }
    acceptsPaused = false
    timers.clear(pauseSlot)
    for slot in listenerSlots {
      if case .listener(let listener) = occupants[slot] { register(listener.descriptor, listener.interest, slot) }
    }
  }

  // MARK: Stopping

  private func startDraining(_ deadline: Int64) {
    if drainDeadline != nil {
      drainDeadline = min(deadline, drainDeadline ?? deadline)
      return
    }
    for slot in listenerSlots {
      guard case .listener(let listener) = occupants[slot] else { continue }
      stopListening(listener)
      vacate(slot)
    }
    listenerSlots = []
    drainDeadline = deadline
    firstRequestDeadline = now + Self.firstRequestMilliseconds
    admitAllWaiting()
    drainAll()
  }

  private func drainAll() {
    for slot in occupants.indices {
      switch occupants[slot] {
      case .client(let conversation): conversation.drain(self)
      case .upstream(let upstream): dropIdle(upstream)
      case .http2(let endpoint): endpoint.drain()
      case .free, .listener, .mailbox, .connector, .attempt, .probe, .fetch, .acceptPause: continue
      }
    }
  }

  private func stopListening(_ listener: Listener) {
    switch listener.owner {
    case .loop:
      // The connections in the kernel's queue were promised an answer.
      while case .accepted(let connection) = listener.accept() {
        shared.connections.add(1, ordering: .relaxed)
        welcome(connection)
      }
      listener.descriptor.close()
    // The queue outlives this process: the opener of the socket starts the next one, which answers.
    case .other: poller.remove(listener.descriptor)
    }
  }

  private func endUnderWay() {
    refusalDeadline = nil
    for slot in occupants.indices {
      if case .client(let conversation) = occupants[slot] { conversation.shutDown(self) }
    }
    for slot in occupants.indices {
      if case .http2(let endpoint) = occupants[slot] { endpoint.abandon() }
    }
    handOverRecords()
  }

  /// Hands this turn's lines to the log and its exchanges to the history.
  private func handOverRecords() {
    shared.log.submit(&logLines)
    shared.history.submit(&history)
  }

  private func continueDraining(_ deadline: Int64) {
    if now >= firstRequestDeadline {
      firstRequestDeadline = .max
      awaitsFirstRequests = false
      drainAll()
    }
    if now >= deadline {
      handOver()
      endUnderWay()
    }
    reportTunnels()
    if clients == 0 || now >= deadline { finished = true }
  }
}
