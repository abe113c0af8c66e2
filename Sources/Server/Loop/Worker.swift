// One event loop: its poller, its timers, its buffers, and everything registered with them.
//
// A worker is built inside its own thread and never leaves it. Others reach it only through its mailbox. It passes each
// event to whom it is for, and owns a type for each concern that outlasts an event: who has which slot (Slots), whose
// turn comes without an event (Turns, MultiplexedRounds), what it accepts (Listening, Admission, Draining), what it
// knows of clients (ClientOwners), routes (RouteTable) and the network (LoopNetwork), which connections it keeps
// (UpstreamPool), and who gives way (Displacement). Those that need more than their own state are given the worker with
// the event.

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
  /// Bytes read from a connection in one turn: one read is enough for a 64 KiB response with its head, and no
  /// connection keeps the others waiting for more than some tens of microseconds.
  static let readBytes = 128 << 10
  /// Connections accepted in one turn, for the same reason.
  private static let acceptsPerTurn = 16
  /// How long the loop sleeps if only resting clients are left and the log is too slow for them, in milliseconds.
  private static let logPauseMilliseconds: Int32 = 5

  let index: Int
  let shared: SharedState
  @exclusivity(unchecked) var workspace: Workspace
  let rooms = ExchangeRooms()
  @exclusivity(unchecked) var timers: TimerWheel
  @exclusivity(unchecked) private(set) var now: Int64
  @exclusivity(unchecked) private(set) var live: LivePolicy
  @exclusivity(unchecked) private(set) var slots: Slots
  @exclusivity(unchecked) var turns = Turns()
  @exclusivity(unchecked) private var due: [Int] = []
  let multiplexed = MultiplexedRounds()
  let messages = MessageScratch(sha1: sha1)

  // Clients.

  private var listening: Listening
  private var draining = Draining()
  private var handover = TunnelHandover()
  /// Open connections of clients.
  private var clients = 0
  let owners: ClientOwners
  private let admission = Admission()
  let displacement: Displacement

  // The ways to origins.

  let upstreams: UpstreamPool
  let routes: RouteTable
  let network: LoopNetwork
  @exclusivity(unchecked) var pipes = PipePool()

  // What is kept of exchanges.

  @exclusivity(unchecked) var statistics: Statistics
  @exclusivity(unchecked) var logLines = ByteBuffer()
  /// Exchanges that have ended, for the history.
  @exclusivity(unchecked) var history = HistoryBatch()
  @exclusivity(unchecked) var recent = RecentDecisions()
  @exclusivity(unchecked) private var progress = ProgressSweep()
  /// Set while the open exchanges are checked against a new policy.
  private var closing: DeniedClosing? = nil

  var policy: Policy { live.policy }
  /// Whether a rule, or a temporary rule of an operator, needs to know who a client is.
  var asksForClient: Bool { policy.identity.asksForClient || workspace.temporary.asksForClient }
  var namesClients: Bool { policy.identity.namesClients || workspace.temporary.asksForClient }
  /// Whether a request has to be checked against the store at all.
  var storesAnswers: Bool { live.cache != nil || policy.mayRefuseToLoad }
  /// Seconds since 1970.
  var seconds: Int64 { workspace.wallMilliseconds / 1000 }
  /// Whether memory for held bodies is short, so that owners matter.
  var heldIsShort: Bool { displacement.isShort(shared.heldBytes) }
  /// The proxy stops.
  var isDraining: Bool { draining.isDraining }
  /// New requests are refused.
  var isRefusing: Bool { draining.isRefusing }
  /// Clients that have just connected may still send their first request.
  var awaitsFirstRequests: Bool { draining.awaitsFirstRequests }

  init(
    index: Int, poller: Descriptor, listeners: [Listener], live: LivePolicy, shared: SharedState, mark: ViaMark,
    network: NetworkView?
  ) {
    self.index = index
    self.shared = shared
    self.live = live
    var slots = Slots(poller)
    listening = Listening(listeners, in: &slots)
    let mailbox = slots.occupy(.mailbox)
    _ = slots.register(shared.mailboxes[index].descriptor, .read, slot: mailbox)
    self.slots = slots
    displacement = Displacement(live.policy.configuration.limits)
    owners = ClientOwners(shared.clients, log: shared.log)
    routes = RouteTable(live)
    statistics = Statistics(live.policy)
    self.network = LoopNetwork(network)
    now = Clock.monotonic
    timers = TimerWheel(now: now)
    upstreams = UpstreamPool(seed: Process.random)
    workspace = Workspace(
      name: live.policy.configuration.proxy.name, mark: mark,
      references: ReferenceSource(seed: Process.random >> 8, index: index, of: shared.mailboxes.count),
      heldBytes: shared.heldBytes)
    if let network { workspace.setNetwork(network.state.status, network.own) }
    workspace.temporary = shared.desk.rules
  }

  // MARK: The loop

  /// Runs until it is told to drain and has done so.
  func run() {
    while !draining.isOver {
      let isDueAtOnce = turns.isDueAtOnce || !multiplexed.isEmpty || closing != nil
      let count = slots.wait(milliseconds: isDueAtOnce ? 0 : waitMilliseconds())
      workspace.beginTurn(microseconds: Clock.monotonicMicroseconds)
      now = workspace.turnMicroseconds / 1000
      turns.pipelined = 0
      workspace.setWallClock(milliseconds: Clock.wall)
      for index in 0..<count {
        let readiness = slots.readiness(index)
        if let slot = slots.slot(of: readiness) { dispatch(readiness, to: slot) }
      }
      if turns.isDueAtOnce { goOnReading() }
      if turns.hasResting { serveResting() }
      runTimers()
      if closing != nil { continueClosing() }
      if !multiplexed.isEmpty { multiplexed.settle() }
      handOverRecords()
      statistics.noteTurn(microseconds: Clock.monotonicMicroseconds - workspace.turnMicroseconds)
      if draining.refusalIsOver(now: now) { endUnderWay() }
      if draining.isDraining { continueDraining() }
    }
    shared.reports.post(.drained(worker: index, statistics))
  }

  private func waitMilliseconds() -> Int32 {
    var wait = timers.millisecondsUntilNext(now: now)
    if let due = draining.due { wait = min(wait ?? .max, max(0, due - now)) }
    let timer = wait.map { Int32(clamping: $0 + 1) } ?? -1
    if !turns.hasResting { return timer }
    let rest = shared.log.isBehind ? Self.logPauseMilliseconds : 0
    return timer < 0 ? rest : min(timer, rest)
  }

  /// Passes an event on. Streams of a shared connection and stored answers cause some, too.
  func dispatch(_ readiness: Readiness, to slot: Int) {
    switch slots.occupants[slot] {
    case .client(let conversation): conversation.clientReady(readiness, self)
    case .upstream(let upstream): upstreams.ready(readiness, of: upstream, self)
    case .attempt(let connector): connector.attemptReady(slot, self)
    case .probe(let probe): probe.ready(self)
    case .multiplexed(let connection): connection.ready(readiness)
    case .fetch(let fetch): fetch.ready(readiness)
    case .listener(let listener): accept(listener)
    case .mailbox: takeMessages()
    case .free, .connector, .acceptPause: break
    }
  }

  private func goOnReading() {
    for (slot, generation) in turns.takeAgain() where slots.isCurrent(slot, generation) {
      switch slots.occupants[slot] {
      case .client(let conversation): conversation.readMore(self)
      case .multiplexed(let connection): connection.read()
      case .fetch(let fetch): fetch.readMore()
      default: break
      }
    }
  }

  /// Only while the log keeps up: most resting clients are refused, and their requests produce nothing but log lines.
  private func serveResting() {
    if shared.log.isBehind { return }
    for _ in 0..<turns.restingInTurn {
      let (slot, generation) = turns.takeResting()
      slots.client(slot, generation)?.goOn(self)
    }
  }

  private func runTimers() {
    due.removeAll(keepingCapacity: true)
    timers.expire(now: now, into: &due)
    for slot in due {
      switch slots.occupants[slot] {
      case .client(let conversation): conversation.timerFired(self)
      case .upstream(let upstream): upstreams.timerFired(upstream, self)
      case .connector(let connector): connector.timerFired(self)
      case .probe(let probe): probe.timerFired(self)
      case .multiplexed(let connection): connection.timerFired()
      case .fetch(let fetch): fetch.timerFired()
      case .acceptPause: resumeAccepting()
      case .free, .listener, .mailbox, .attempt: break
      }
    }
  }

  /// Hands this turn's lines to the log and its exchanges to the history.
  private func handOverRecords() {
    shared.log.submit(&logLines)
    shared.history.submit(&history)
  }

  // MARK: Messages

  private func takeMessages() {
    for message in shared.mailboxes[index].takeAll() {
      switch message {
      case .policy(let live):
        take(live)
        shared.reports.post(.tookPolicy)
      case .resolved(let slot, let generation, let answer):
        statistics.note(answer)
        slots.connector(slot, generation)?.resolved(answer, self)
      case .identified(let slot, let generation, let lookUp, let client, let program):
        slots.client(slot, generation)?.identified(client, program, by: lookUp, on: self)
      case .token(let slot, let generation, let request, let outcome):
        slots.connector(slot, generation)?.tokenMade(outcome, for: request, self)
      case .spooled(let slot, let generation, let file, let outcome):
        slots.client(slot, generation)?.spooled(file, outcome, on: self)
      case .network(let change): network.take(change, self)
      case .yieldClient(let identity): displacement.displaceIdlest(of: identity, self)
      case .yieldHeldBody(let identity): displacement.displaceHolder(identity, self)
      case .yieldPlace(let place, let identity): displacement.displaceUser(of: place, identity, self)
      case .place(let slot, let generation, let place, let identity):
        if let connector = slots.connector(slot, generation), connector.awaits(place) {
          connector.placeGranted(self)
        } else {
          shared.quota.leave(place, of: identity)
        }
      case .opened(let slot, let generation):
        slots.connector(slot, generation)?.goOnAlone(self)
      case .yieldIdle(let place): upstreams.yieldIdle(place, self)
      case .yieldDescriptors: _ = upstreams.closeIdle(self)
      case .storedContent(let slot, let generation):
        if slots.isCurrent(slot, generation) {
          dispatch(.carried(isReadable: true, isWritable: false, isBroken: false), to: slot)
        }
      case .readersMoved(let slot, let generation):
        if slots.isCurrent(slot, generation), case .fetch(let fetch) = slots.occupants[slot] { fetch.readersMoved() }
      case .restored(let slot, let generation):
        slots.client(slot, generation)?.restored(self)
      case .deserted(let slot, let generation):
        slots.client(slot, generation)?.deserted(self)
      case .flightEnded(let slot, let generation, let flight, let outcome):
        slots.client(slot, generation)?.flightEnded(flight, outcome, on: self)
        // By now the client reads it, or never will.
        outcome.release(
          Content.Reader(worker: index, slot: slot, generation: generation), shared.mailboxes)
      case .ask(.closeDenied, let inquiry):
        // A check in progress starts again, with the newer policy.
        if closing == nil { closing = DeniedClosing(inquiry) } else { closing?.startAgain(for: inquiry) }
      case .ask(let question, let inquiry):
        shared.reports.post(.answered(worker: index, answer(question), inquiry: inquiry))
      case .accepted(let connection): welcome(connection)
      case .temporary(let rules): workspace.temporary = rules
      case .operatorAnswered(let waiter, let verdict, let name):
        slots.client(waiter.slot, waiter.generation)?.operatorAnswered(waiter, verdict, by: name, on: self)
      case .ping: shared.reports.post(.answeredPing(worker: index))
      case .tunnel(let tunnel):
        clients += 1
        tunnel.goOn(self)
      case .drain(let deadline, let handsOver):
        handover.isWanted = handsOver
        startDraining(deadline)
      case .refuse(let deadline):
        draining.refuse(deadline: deadline)
        drainAll()
      case .handOver: handOverTunnels()
      }
    }
  }

  private func answer(_ question: Question) -> Answer {
    switch question {
    case .statistics:
      var copy = statistics.inOwnStorage
      copy.gauges = Statistics.Gauges(slots.occupants)
      return .statistics(copy)
    case .connections: return .connections(OpenConnection.list(slots.occupants, now: now))
    case .decision(let reference): return .decision(recent.find(reference))
    case .decisions(let limit, let areRefused): return .decisions(recent.newest(limit, areRefused: areRefused))
    case .progress:
      progress.runRound(self)
      return .progress
    case .cancel(let selection): return .cancelled(selection.endAll(self))
    case .flush:
      let things = upstreams.flush(self)
      forgetNames()
      return .flushed(things)
    case .closeDenied: preconditionFailure("it takes more than one turn")
    }
  }

  /// From here on, `live` decides requests. What was opened under security policies that it does not have is closed.
  private func take(_ live: LivePolicy) {
    if live.policy.configuration.dns != self.live.policy.configuration.dns { forgetNames() }
    self.live = live
    displacement.take(live.policy.configuration.limits)
    statistics.take(live.policy)
    routes.take(live)
    admission.admitWaiting(self)
    upstreams.take(live, self)
    for case .client(let conversation) in slots.occupants where conversation.question.isAsked {
      conversation.withdrawIfDenied(self)
    }
  }

  /// Every name is looked up again when it is needed.
  func forgetNames() {
    upstreams.forgetNames()
    routes.forgetNames()
  }

  private func continueClosing() {
    guard var closing else { return }
    let isOver = closing.proceed(self)
    self.closing = isOver ? nil : closing
    guard isOver else { return }
    for inquiry in closing.inquiries {
      shared.reports.post(.answered(worker: index, .cancelled(closing.closed), inquiry: inquiry))
    }
  }

  // MARK: Slots

  func occupy(_ occupant: Occupant) -> Int { slots.occupy(occupant) }

  func vacate(_ slot: Int) {
    timers.clear(slot)
    slots.vacate(slot)
  }

  func reoccupy(_ slot: Int, _ occupant: Occupant) { slots.reoccupy(slot, occupant) }

  func generation(_ slot: Int) -> UInt32 { slots.generation(slot) }

  func register(_ descriptor: Descriptor, _ interest: Interest, slot: Int) -> Bool {
    slots.register(descriptor, interest, slot: slot)
  }

  /// Changes the registration from `current` to `wanted`; nil means none.
  func update(_ descriptor: Descriptor, _ current: inout Interest?, wanted: Interest?, slot: Int) {
    slots.update(descriptor, &current, wanted: wanted, slot: slot)
  }

  /// The same for a stream, which another connection may carry.
  func watch(_ stream: ByteStream, _ current: inout Interest?, wanted: Interest?, slot: Int) {
    guard let carried = stream.carried else { return update(stream.descriptor, &current, wanted: wanted, slot: slot) }
    carried.watch(wanted)
    current = wanted
  }

  /// Comes back to it in the next turn, so that others get theirs.
  func readAgain(_ slot: Int) { turns.readAgain(slot, generation(slot)) }

  /// Comes back to a client that has sent more requests than fit one turn.
  func rest(_ slot: Int) { turns.rest(slot, generation(slot)) }

  /// Lets a connector continue in a turn of its own.
  func resume(_ connector: Connector) {
    shared.mailboxes[index].post(.opened(slot: connector.slot, generation: generation(connector.slot)))
  }

  // MARK: Clients

  private func accept(_ listener: Listener) {
    for _ in 0..<Self.acceptsPerTurn {
      switch listener.accept() {
      case .none: return
      case .accepted(let connection):
        guard shared.places.reserve(policy.configuration.limits) else {
          admission.waitForPlace(connection, self)
          continue
        }
        if listener.owner == .other, shared.deal(connection, from: index) { continue }
        welcome(connection)
      case .failed(let error):
        if error.isExhaustion {
          if upstreams.closeIdle(self) { continue }
          if let line = listening.exhausted(error, now: now) { shared.log.event(.warning, line) }
          return listening.pause(slots, &timers, now: now)
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
    let conversation = Conversation(slot: slot, connection, of: KnownClient(identity), self)
    reoccupy(slot, .client(conversation))
    admission.count(conversation, self)
    guard register(connection.descriptor, .read, slot: slot) else {
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
    shared.places.giveBack()
    resumeAccepting()
    admission.admitWaiting(self)
  }

  private func resumeAccepting() { if !isDraining { listening.resume(slots, &timers) } }

  // MARK: Stopping

  private func startDraining(_ deadline: Int64) {
    // Clients that are accepted here are served as if it had not begun, until `drainAll`.
    if !draining.isDraining { for listener in listening.end(&slots) { stopListening(listener) } }
    guard draining.begin(deadline: deadline, now: now) else { return }
    admission.admitAllWaiting(self)
    drainAll()
  }

  private func drainAll() {
    for slot in slots.occupants.indices {
      switch slots.occupants[slot] {
      case .client(let conversation): conversation.drain(self)
      case .upstream(let upstream): upstreams.dropIdle(upstream, self)
      case .multiplexed(let connection): connection.drain()
      case .free, .listener, .mailbox, .connector, .attempt, .probe, .fetch, .acceptPause: continue
      }
    }
  }

  private func stopListening(_ listener: Listener) {
    switch listener.owner {
    case .loop:
      // The connections in the kernel's queue were promised an answer.
      while case .accepted(let connection) = listener.accept() {
        shared.places.take()
        welcome(connection)
      }
      listener.descriptor.close()
    // The queue outlives this process: the opener of the socket starts the next one, which answers.
    case .other: slots.unregister(listener.descriptor)
    }
  }

  private func endUnderWay() {
    for slot in slots.occupants.indices {
      if case .client(let conversation) = slots.occupants[slot] { conversation.shutDown(self) }
    }
    for slot in slots.occupants.indices {
      if case .multiplexed(let connection) = slots.occupants[slot] { connection.abandon() }
    }
    // No turn follows that would settle what was marked here. Left in the list, it and the loop would keep each other.
    if !multiplexed.isEmpty { multiplexed.settle() }
    handOverRecords()
  }

  private func continueDraining() {
    if draining.firstRequestsAreOver(now: now) { drainAll() }
    if draining.isOverdue(now: now) {
      handOverTunnels()
      endUnderWay()
    }
    if let tunnels = handover.news(slots.occupants) { shared.reports.post(.onlyTunnels(worker: index, tunnels)) }
    draining.end(now: now, clients: clients)
  }

  private func handOverTunnels() {
    if let kept = handover.handOver(self) { shared.reports.post(.handedOver(kept)) }
  }
}
