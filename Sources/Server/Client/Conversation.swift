// One client's connection: does what its session decides, and feeds the session with what happens.
//
//   Conversation.swift            what it consists of, what happens to it, and what is done after every event
//   ConversationActions.swift     what the session asks for: an upstream, a stored answer
//   ConversationBytes.swift       bytes from either end, and to it
//   ConversationEnd.swift         the end of an exchange, and of the connection
//
// Bytes are read into a large block that the loop lends for the turn. What the session does not use yet is kept in a
// block that fits it, so a connection that waits uses little and an idle one uses none. What cannot be sent at once is
// kept too. While any of it is left, the other side is not read.
//
// Interest in reading is dropped lazily: the registration changes only when an event comes that cannot be used.
//
// `@exclusivity(unchecked)` marks two kinds of variables, here, in Worker and in HTTP2Endpoint. The first are values:
// a call that changes one must not come back to it, so that no two accesses overlap. Most cannot, because they do not
// refer to these classes and are passed no closure that does. Those that are handed the worker (who the client is, the
// search for an upstream, the question, the file, the account of held memory) only post messages, ask tables, and
// return what the conversation has to do next. The others are references, which are only loaded and stored. The checks
// at run time cost a fifth of the instructions of a request, and could find nothing.

import Asking
import Bytes
import Policy
import Security
import Session
import Sharing
import Transport

final class Conversation {
  let slot: Int
  /// The connection as it was accepted.
  let connection: Accepted
  /// The client's end: bare, or under TLS inside an intercepted tunnel.
  @exclusivity(unchecked) private(set) var stream: ByteStream
  @exclusivity(unchecked) private var interest: Interest? = .read
  /// Who the client is.
  @exclusivity(unchecked) private(set) var client: KnownClient
  /// The policy that the current exchange began with, ready for use.
  @exclusivity(unchecked) private(set) var live: LivePolicy
  @exclusivity(unchecked) var session: Session
  @exclusivity(unchecked) var inputs = Inputs()
  @exclusivity(unchecked) var outputs = Outputs()
  @exclusivity(unchecked) var clientSide = Side()
  @exclusivity(unchecked) var upstreamSide = Side()
  @exclusivity(unchecked) var clientRoom = ClientRoom()
  @exclusivity(unchecked) var flags = Flags()
  /// What serves the current exchange.
  @exclusivity(unchecked) private(set) var upstream: Upstream?
  @exclusivity(unchecked) var search = UpstreamSearch()
  /// What to do once everything has been sent to the client.
  @exclusivity(unchecked) var ending: Ending?
  /// What the cache does for the current exchange; nil: nothing.
  @exclusivity(unchecked) var caching: Caching?
  /// TLS with the client of a tunnel that is about to be intercepted.
  @exclusivity(unchecked) private var handshake: ClientHandshake?
  /// Its request's place among those that wait for an operator.
  @exclusivity(unchecked) private(set) var question = OperatorQuestion()
  /// The file for a body that is collected whole, if it is more than memory may hold.
  @exclusivity(unchecked) private var bodyFile = BodyFile()
  /// Its part of the memory for held bodies.
  @exclusivity(unchecked) private(set) var held = HeldAccount()

  struct Flags: OptionSet {
    let rawValue: UInt8

    static let closed = Flags(rawValue: 1 << 0)
    /// Close the connection so that the client sees that it did not get the whole response.
    static let aborts = Flags(rawValue: 1 << 1)
    /// The client speaks TLS next; bytes that it has already sent belong to that.
    static let startsClientHandshake = Flags(rawValue: 1 << 2)
    /// The tunnel was being inspected when `settle` last checked.
    static let inspected = Flags(rawValue: 1 << 3)
    /// It has had its part of the turn; the rest waits for the next.
    static let rests = Flags(rawValue: 1 << 4)
    /// The proxy answered its last request itself.
    static let wasRefused = Flags(rawValue: 1 << 5)
  }

  /// `stream`: what carries the bytes, if not the connection itself. `client`: whose it is, as far as that is known.
  init(
    slot: Int, _ connection: Accepted, over stream: ByteStream? = nil, of client: KnownClient = KnownClient(),
    _ worker: Worker
  ) {
    self.slot = slot
    self.connection = connection
    self.client = client
    self.stream = stream ?? ByteStream(connection.descriptor)
    live = worker.live
    session = Session(policy: live.policy, in: worker.rooms, now: worker.now)
    session.origin.address = IPAddress(connection.peer)
  }

  var descriptor: Descriptor { stream.descriptor }
  var peer: SocketAddress { connection.peer }
  /// Whether it serves one stream of a connection.
  var isStream: Bool { stream.carried != nil }
  /// No client waits for the answer.
  var hasNoClient: Bool { stream.carried is RefreshClient }
  /// It is a part of another exchange.
  var isForRest: Bool { (stream.carried as? RefreshClient)?.isForRest ?? false }

  // MARK: What happens

  func begin(_ worker: Worker) {
    readClient(worker)
    settle(worker)
  }

  func clientReady(_ readiness: Readiness, _ worker: Worker) {
    if isInHandshake {
      continueClientHandshake(worker)
      return settle(worker)
    }
    if readiness.isWritable, interest?.contains(.write) ?? false { writable(.client, worker) }
    if readiness.isReadable, !flags.contains(.closed) {
      if canReadClient {
        readClient(worker)
      } else {
        clientUnreadable(readiness, worker)
      }
    }
    settle(worker)
  }

  func upstreamReady(_ readiness: Readiness, _ worker: Worker) {
    guard let upstream else { return }
    if readiness.isWritable, upstream.interest?.contains(.write) ?? false { writable(.upstream, worker) }
    if readiness.isReadable, self.upstream != nil {
      if canReadUpstream {
        readUpstream(worker)
      } else {
        upstreamSide.state.insert(.unwatched)
        if readiness.isBroken { upstreamSide.state.insert(.broken) }
      }
    }
    settle(worker)
  }

  /// TLS has already read bytes that the poller does not know of.
  func readMore(_ worker: Worker) {
    if stream.hasMore, canReadClient { readClient(worker) }
    if !flags.contains(.closed), upstream?.stream.hasMore ?? false, canReadUpstream { readUpstream(worker) }
    settle(worker)
  }

  /// Its turn has come again.
  func goOn(_ worker: Worker) {
    flags.remove(.rests)
    settle(worker)
  }

  func timerFired(_ worker: Worker) {
    if worker.now < deadline {
      settle(worker)
      return
    }
    if isInHandshake {
      handshake?.giveUp(worker.shared.log)
      return close(worker)
    }
    if client.isAwaited, worker.now >= client.deadline { return giveUpIdentifying(worker) }
    if ending == nil, caching != nil, !session.exchange.clientIsGone(now: worker.now),
      cacheStandsInForSilence(
        "response-timeout", isForAll: !session.exchange.isOutOfTime(now: worker.now), worker)
    {
      return settle(worker)
    }
    if ending == nil {
      let isFull = clientSide.holdsPiped
      perform(session.timedOut(now: worker.now, upstreamIsFull: isFull, in: &worker.workspace, to: &outputs), worker)
      // A download's pause is over.
      if session.exchange.pacesDownload { flush(to: .client, worker) }
    } else if session.exchange.resumeDownload(now: worker.now) {
      flush(to: .client, worker)
    } else {
      // The rest cannot be sent: the client does not read, or the rule gives it no more time.
      perform(session.deliveryTimedOut(now: worker.now), worker)
      giveUpSending(worker)
    }
    settle(worker)
  }

  /// The network has changed: a connection from an address that this machine no longer has is over.
  func networkChanged(_ worker: Worker) {
    guard let upstream, !(upstream.stream.carried?.isOfThisProcess ?? false), ending == nil,
      worker.network.hasLost(upstream.descriptor)
    else { return }
    upstreamSide.state.insert(.ended)
    let action = session.exchange.upstreamEnded(
      .lost("the address of this machine that it was reached from is gone"), now: worker.now, in: &worker.workspace,
      to: &outputs)
    perform(action, otherIsUpstream: false, worker)
    settle(worker)
  }

  /// The proxy is stopping.
  func drain(_ worker: Worker) {
    if isInHandshake { return close(worker) }
    if question.isAsked, ending == nil {
      // No one would be there to receive an answer.
      perform(session.shutDown(in: &worker.workspace, to: &outputs), worker)
      settle(worker)
    }
    if flags.contains(.closed) { return }
    // Its requests have arrived: they are answered in their turn.
    if flags.contains(.rests) { return }
    // So is a request whose client is being looked up.
    if client.isAwaited { return session.expectLastExchange() }
    // A request that has already arrived gets its answer.
    if session.isIdle, canReadClient { readClient(worker) }
    if flags.contains(.closed) { return }
    if session.isIdle, session.isNew, worker.awaitsFirstRequests {
      session.expectLastExchange()
    } else if ending == nil {
      perform(session.drain(), worker)
    }
    settle(worker)
  }

  // MARK: Who the client is

  /// The session is about to read another head: the policy in force decides it.
  func takePolicy(_ worker: Worker) {
    if live === worker.live { return }
    live = worker.live
    client.forgetNames()
  }

  /// Whether the client is known as far as the policy and the log need it.
  func knowsClient(_ worker: Worker) -> Bool {
    if client.isIdentified || !worker.namesClients { return true }
    switch client.identify(connection, slot: slot, &session.origin, on: worker) {
    case .known: return true
    case .awaited: return false
    case .gone:
      leaveUnserved(worker)
      return false
    }
  }

  func identified(_ client: LocalClient, _ program: String?, by lookUp: LookUp, on worker: Worker) {
    guard self.client.awaits(lookUp) else { return }
    endLookUp()
    if worker.asksForClient, hasLeft(worker) { return leaveUnserved(worker) }
    session.origin.program = program ?? session.origin.program
    self.client.take(client, &session.origin, on: worker)
    settle(worker)
  }

  private func endLookUp() {
    client.endLookUp()
    // The end of its sending direction is reported again once the session can handle it.
    clientSide.isHalfClosed = false
  }

  /// The client cannot be identified: if a rule asks, the request is refused.
  private func giveUpIdentifying(_ worker: Worker) {
    endLookUp()
    if let problem = client.giveUp(&session.origin, worker) { refuse(problem, inputs.fromClient, on: worker) }
    settle(worker)
  }

  /// No one is left to read an answer.
  func leaveUnserved(_ worker: Worker) {
    worker.owners.tellOfDeparture(peer, now: worker.now)
    close(worker)
  }

  /// Whether the client is gone. See ClientOwners.swift.
  func hasLeft(_ worker: Worker) -> Bool { worker.owners.hasLeft(connection, now: worker.now) }

  /// Whose connection it is; nil until that has to be known.
  var identity: Claimant? { client.claimant }

  func knownIdentity(_ worker: Worker) -> Claimant { client.claimant(of: connection, worker) }

  func countIdentity(_ worker: Worker) {
    if isStream || flags.contains(.closed) { return }
    client.count(connection, worker)
  }

  // MARK: TLS of an intercepted client

  /// It speaks TLS, and its requests come later.
  var isInHandshake: Bool { handshake?.isUnderWay ?? false }

  /// CONNECT to a host that is intercepted: grants it if there is a leaf for the host.
  func intercept(_ worker: Worker) {
    let action: Action
    do throws(UpstreamFailure) {
      handshake = try ClientHandshake(live, peer: peer, worker)
      action = session.exchange.interiorOpened(in: &worker.workspace, to: &outputs)
    } catch {
      action = session.exchange.upstreamFailed(error, in: &worker.workspace, to: &outputs)
    }
    perform(action, worker)
  }

  private func beginClientHandshake(_ worker: Worker) {
    flags.remove(.startsClientHandshake)
    guard let handshake, let interior = session.interior,
      let tls = handshake.begin(for: interior.host, on: descriptor, prefix: inputs.fromClient.bytes, now: worker.now)
    else { return close(worker) }
    worker.workspace.pool.reclaim(&inputs.fromClient)
    stream.tls = tls
    continueClientHandshake(worker)
  }

  private func continueClientHandshake(_ worker: Worker) {
    guard let tls = stream.tls, let handshake else { return }
    switch handshake.goOn(tls, worker.shared.log) {
    case .goesOn: break
    case .failed: close(worker)
    case .done(let wire) where wire.isMultiplexed:
      self.handshake = nil
      multiplex(wire, worker)
    case .done:
      self.handshake = nil
      session.handshakeDone(now: worker.now)
      // The first request often comes with the end of the handshake.
      readClient(worker)
      guard worker.isDraining, !flags.contains(.closed) else { return }
      // A request that has arrived, and waits for its turn or for the names of its client, is answered.
      if !flags.contains(.rests), !client.isAwaited {
        perform(session.drain(), worker)
      } else {
        session.expectLastExchange()
      }
    }
  }

  /// The client has chosen a protocol with streams inside its tunnel. Its connection no longer belongs to this
  /// conversation.
  private func multiplex(_ wire: HTTPProtocol, _ worker: Worker) {
    guard
      let connection = wire.begin(
        stream, slot: slot, with: .client(MultiplexedClient(self)), interest: interest,
        limits: live.policy.configuration.limits, takesTunnels: session.interior?.mayUpgrade ?? false, worker)
    else { return close(worker) }
    flags.insert(.closed)
    // The first requests often arrive with the end of the handshake.
    connection.read()
    if worker.isDraining { connection.retire() }
  }

  // MARK: A question to an operator

  /// Asks the question, or joins requests that ask the same.
  func askOperator(_ worker: Worker) {
    // A fetch that no client waits for is not worth a question.
    if hasNoClient {
      return deny("Rule \(session.exchange.ruleName ?? "-") asks an operator, and no client waits.", worker)
    }
    if worker.isDraining { return perform(session.shutDown(in: &worker.workspace, to: &outputs), worker) }
    // The host is in the workspace for this turn only.
    _ = search.destination(of: session.exchange, live, worker)
    switch question.ask(session.exchange, of: knownIdentity(worker), slot: slot, worker) {
    case .asked: session.exchange.operatorAsked(now: worker.now)
    case .answered(let rule):
      perform(
        session.exchange.operatorAnswered(
          rule.verdict, by: rule.by, now: worker.now, in: &worker.workspace, to: &outputs),
        worker)
    case .full(let sentence): deny(sentence, worker)
    }
  }

  private func deny(_ sentence: String, _ worker: Worker) {
    perform(session.exchange.operatorMissing(sentence, in: &worker.workspace, to: &outputs), worker)
  }

  /// The exchange has ended, or the connection.
  func leaveQuestion(_ worker: Worker) { question.leave(worker.shared.desk) }

  func operatorAnswered(_ waiter: QuestionWaiter, _ verdict: TemporaryRule.Verdict, by name: String, on worker: Worker)
  {
    guard ending == nil, session.exchange.awaitsOperator, question.isAnswered(waiter) else { return }
    if hasLeft(worker) {
      endLeft(worker)
    } else if verdict == .allow, let denial = denialNow(worker) {
      // Nothing has been sent yet, and what has been denied meanwhile is not sent.
      perform(session.policyChanged(denial, in: &worker.workspace, to: &outputs), worker)
    } else {
      perform(
        session.exchange.operatorAnswered(verdict, by: name, now: worker.now, in: &worker.workspace, to: &outputs),
        worker)
    }
    settle(worker)
  }

  // MARK: Held bodies

  /// A step of the body's file is done.
  func spooled(_ file: SpoolFile, _ outcome: Spooler.Outcome, on worker: Worker) {
    guard bodyFile.isCurrent(file), session.exchange.spools, ending == nil else { return }
    switch outcome {
    case .written:
      session.exchange.spoolWritten(now: worker.now)
      accountHeld(worker)
    case .read(let bytes):
      session.exchange.spoolRead(bytes, now: worker.now, in: &worker.workspace, to: &outputs)
      flush(to: .upstream, worker)
    case .failed(let reason):
      let place = "\(worker.shared.spooler.directory): \(reason)"
      worker.shared.log.event(.warning, "\(session.exchange.tag) a body could not be kept in a file in \(place)")
      perform(session.exchange.spoolFailed("in \(place)", in: &worker.workspace, to: &outputs), worker)
    }
    settle(worker)
  }

  /// File I/O under way may end during the next exchange, which may use a file of its own.
  func closeBodyFile(_ worker: Worker) { if bodyFile.isOpen { bodyFile.close(worker) } }

  /// Called before bytes that may belong to a held body.
  func prepareToHold(_ worker: Worker) {
    session.exchange.client.heldOverdraft =
      worker.heldIsShort ? HeldAccount.overdraft(of: knownIdentity(worker), worker) : 0
  }

  /// Called afterwards.
  func accountHeld(_ worker: Worker) {
    let now = session.exchange.heldBytes
    if now != held.bytes { held.count(now, of: knownIdentity(worker), worker) }
  }

  func discountHeld(_ worker: Worker) { held.giveBack(of: identity, worker) }

  // MARK: The upstream

  /// `upstream` serves the exchange from here on.
  func take(_ upstream: Upstream) {
    upstream.owner = self
    self.upstream = upstream
    upstreamSide.state.remove([.ended, .unwatched, .broken, .sawInput])
    clientRoom.isAwaited = false
  }

  /// Leaves it as it is, for others.
  func leaveUpstream(_ worker: Worker) {
    upstream = nil
    worker.workspace.pool.reclaim(&inputs.fromUpstream)
  }

  // MARK: After every event

  private var deadline: Int64 {
    if let handshake, handshake.isUnderWay { return handshake.deadline }
    return client.isAwaited ? client.deadline : session.deadline
  }

  /// Continues with bytes that waited, then sets what the poller and the timers watch.
  func settle(_ worker: Worker) {
    if session.exchange.isInspecting {
      flags.insert(.inspected)
    } else if flags.contains(.inspected) {
      // Bytes of either side that were held back may go now.
      flags.remove(.inspected)
      clientSide.state.remove(.sawInput)
      upstreamSide.state.remove(.sawInput)
    }
    while true {
      // The hello may have come with the CONNECT, and both have waited until the client was known.
      if flags.contains(.startsClientHandshake) { beginClientHandshake(worker) }
      if flags.contains(.closed) || isInHandshake { break }
      if !inputs.fromClient.isEmpty, !clientSide.state.contains(.sawInput), !client.isAwaited,
        !flags.contains(.rests), ending == nil, session.wantsClientBytes, outputs.toUpstream.isEmpty
      {
        pumpKept(from: .client, worker)
      } else if !inputs.fromUpstream.isEmpty, !upstreamSide.state.contains(.sawInput), canReadUpstream {
        pumpKept(from: .upstream, worker)
      } else {
        break
      }
    }
    if flags.contains(.closed) { return }
    if bodyFile.isOpen || session.exchange.spools {
      let sends = outputs.toUpstream.isEmpty && upstream != nil && ending == nil
      bodyFile.move(&session.exchange, sends: sends, slot: slot, worker)
    }
    if upstreamSide.state.contains(.closesWrite), outputs.toUpstream.isEmpty, inputs.fromClient.isEmpty {
      sent(to: .upstream, worker)
    }
    watchClient(worker)
    watchUpstream(worker)
    if stream.hasMore && canReadClient || upstream?.stream.hasMore ?? false && canReadUpstream {
      worker.readAgain(slot)
    }
    worker.timers.set(slot, deadline)
  }

  private func watchClient(_ worker: Worker) {
    if let handshake, handshake.isUnderWay {
      return worker.update(descriptor, &interest, wanted: handshake.wants, slot: slot)
    }
    if canReadClient { clientSide.state.remove([.unwatched, .broken]) }
    if clientSide.state.contains(.broken) {
      // The poller will never announce that it accepts bytes. A write shows that it does not.
      clientRoom.isAwaited = false
      return worker.watch(stream, &interest, wanted: nil, slot: slot)
    }
    var wanted: Interest = []
    if clientSide.state.contains(.ended) {
      wanted = []
    } else if !clientSide.state.contains(.unwatched) {
      wanted = .read
    } else if session.exchange.awaitsOnlyUpstream || session.exchange.awaitsOperator || client.isAwaited,
      !clientSide.isHalfClosed
    {
      wanted = .peerClosed
    }
    let hasMore = !outputs.toClient.isEmpty || clientRoom.isAwaited || upstreamSide.holdsPiped
    if hasMore, !session.exchange.downloadRests { wanted.insert(.write) }
    worker.watch(stream, &interest, wanted: wanted, slot: slot)
  }

  private func watchUpstream(_ worker: Worker) {
    guard let upstream else { return }
    if canReadUpstream { upstreamSide.state.remove([.unwatched, .broken]) }
    var wanted: Interest? = []
    if upstreamSide.state.contains(.broken) {
      wanted = nil
    } else if !upstreamSide.state.contains(.ended), !upstreamSide.state.contains(.unwatched) {
      wanted = .read
    }
    if !outputs.toUpstream.isEmpty || clientSide.holdsPiped { wanted?.insert(.write) }
    worker.watch(upstream.stream, &upstream.interest, wanted: wanted, slot: upstream.slot)
  }

  /// Nothing is watched any more.
  func unwatch(_ worker: Worker) {
    worker.update(descriptor, &interest, wanted: nil, slot: slot)
    if let upstream { worker.watch(upstream.stream, &upstream.interest, wanted: nil, slot: upstream.slot) }
  }

  /// The connection is gone: gives back what only it has.
  func release(_ worker: Worker) {
    client.endLookUp()
    client.discount(worker)
    discountHeld(worker)
  }
}
