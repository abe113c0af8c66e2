// One client's connection: does what its session decides, and feeds the session with what happens.
//
// Bytes are read into a large block that the loop lends for the turn. What the session does not use yet is kept in a
// block that fits it, so a connection that waits uses little and an idle one uses none. What cannot be sent at once is
// kept too. While any of it is left, the other side is not read.
//
// Interest in reading is dropped lazily: the registration changes only when an event comes that cannot be used.
//
// `@exclusivity(unchecked)` marks two kinds of variables, here, in Worker and in HTTP2Endpoint. The first are values
// that do not refer to these classes and are passed no closure that does: a call that changes such a value cannot come
// back to it, so no two accesses overlap. The others are references, which are only loaded and stored. The checks at
// run time cost a fifth of the instructions of a request, and could find nothing.

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
  @exclusivity(unchecked) var stream: ByteStream
  /// The policy that the current exchange began with, ready for use.
  @exclusivity(unchecked) var live: LivePolicy
  @exclusivity(unchecked) var session: Session
  @exclusivity(unchecked) var outputs = Outputs()
  /// Bytes that were read from either end and not used yet.
  @exclusivity(unchecked) var clientInput = ByteBuffer()
  @exclusivity(unchecked) var upstreamInput = ByteBuffer()
  @exclusivity(unchecked) var clientSide = Side()
  @exclusivity(unchecked) var upstreamSide = Side()
  @exclusivity(unchecked) var flags = Flags()
  var identification = Identification()
  /// The client announced its end of stream while the proxy was not reading from it.
  var isHalfClosed = false
  /// The client's socket is full: nothing is read for it until it accepts bytes again.
  @exclusivity(unchecked) var awaitsRoom = false
  @exclusivity(unchecked) var interest: Interest? = .read
  @exclusivity(unchecked) var upstream: Upstream?
  @exclusivity(unchecked) var connector: Connector?
  var destination: Destination?
  /// What to do once everything has been sent to the client.
  @exclusivity(unchecked) var ending: Ending?
  /// The certificate for the host of a tunnel that is about to be intercepted.
  var leaf: Leaf?
  var clientHandshake: ClientHandshake?
  /// What the cache does for the current exchange; nil: nothing.
  var caching: Caching?
  /// Its place among the requests that wait for an operator; nil: it does not wait.
  var waiter: QuestionWaiter?
  /// The purpose of a conversation that has no client of its own.
  var errand: Errand?
  /// The file for a body that is collected whole, if it is more than memory may hold.
  @exclusivity(unchecked) var spool: SpoolFile?
  /// The look-up of who the client is, in progress until the deadline at most.
  var lookUp: LookUp?
  var namesDeadline = Int64.max
  /// Whose connection it is; nil until that has to be known.
  var identity: Claimant?
  /// Its part of the memory for held bodies, in bytes.
  @exclusivity(unchecked) var accountedHeld = 0
  /// Roughly how many bytes the client's socket accepts at once, counted down from the kernel's last report.
  @exclusivity(unchecked) var clientRoom = freshRoom

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

  /// What is known about the client that owns the connection.
  struct Identification: OptionSet {
    let rawValue: UInt8

    /// The owner of the client's socket is known.
    static let identified = Identification(rawValue: 1 << 0)
    /// Only some facts about the client are known, and they hold only for its next request.
    static let identifiedForNext = Identification(rawValue: 1 << 1)
    /// The names of the client are being looked up; meanwhile nothing is read from it.
    static let awaited = Identification(rawValue: 1 << 2)
    /// It counts for its client in `limits.connections`.
    static let counted = Identification(rawValue: 1 << 3)
    /// The kernel was asked who the client is, but the client was already gone.
    static let left = Identification(rawValue: 1 << 4)
    /// Its program was searched for: once per connection and policy, because a second search would find no more.
    static let programSought = Identification(rawValue: 1 << 5)
  }

  /// Least room for a read into a buffer that already holds bytes.
  static let leastReadBytes = 1024

  /// `stream`: what carries the bytes, if not the connection itself.
  init(slot: Int, _ connection: Accepted, over stream: ByteStream? = nil, _ worker: Worker) {
    self.slot = slot
    self.connection = connection
    self.stream = stream ?? ByteStream(connection.descriptor)
    live = worker.live
    session = Session(policy: live.policy, in: worker.rooms, now: worker.now)
    session.origin.address = IPAddress(connection.peer)
  }

  var descriptor: Descriptor { stream.descriptor }
  var peer: SocketAddress { connection.peer }

  // MARK: What happens

  func begin(_ worker: Worker) {
    readClient(worker)
    settle(worker)
  }

  func clientReady(_ readiness: Readiness, _ worker: Worker) {
    if clientHandshake != nil {
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
    if clientHandshake != nil { return giveUpClientHandshake(worker) }
    if identification.contains(.awaited), worker.now >= namesDeadline { return giveUpIdentifying(worker) }
    if ending == nil, caching != nil, !session.exchange.clientIsGone(now: worker.now),
      cacheStandsInForSilence(
        "response-timeout", isForAll: !session.exchange.isOutOfTime(now: worker.now), worker)
    {
      return settle(worker)
    }
    if ending == nil {
      let isFull = clientSide.holdsPiped
      perform(session.timedOut(now: worker.now, upstreamIsFull: isFull, &worker.workspace, &outputs), worker)
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

  /// `early`: bytes that the destination has already sent.
  func connected(_ upstream: Upstream, early: inout ByteBuffer, _ worker: Worker) {
    connector = nil
    if leavesQueue(upstream, hasEarly: !early.isEmpty, worker) { return }
    swap(&upstreamInput, &early)
    attach(upstream, reused: false, worker)
  }

  /// A connection that another exchange has just finished with.
  func handedOver(_ upstream: Upstream, _ worker: Worker) {
    connector = nil
    if leavesQueue(upstream, worker) { return }
    attach(upstream, reused: true, worker)
  }

  func connectFailed(_ failure: UpstreamFailure, _ worker: Worker) {
    connector = nil
    if cacheStandsIn(for: failure.problem.kind, worker) { return }
    if failure.problem.kind.errorType.description == "tls_certificate_error" {
      worker.shared.log.event(.warning, "\(tag) \(failure.problem.kind.token): \(failure.problem.detail)")
      if failure.problem.kind == .pinMismatch { tellOfPins(failure.problem.detail, worker) }
    }
    perform(session.exchange.upstreamFailed(failure, &worker.workspace, &outputs), worker)
  }

  /// The proxy is stopping.
  func drain(_ worker: Worker) {
    if clientHandshake != nil { return close(worker) }
    stopAsking(worker)
    if flags.contains(.closed) { return }
    // Its requests have arrived: they are answered in their turn.
    if flags.contains(.rests) { return }
    // So is a request whose client is being looked up.
    if identification.contains(.awaited) { return session.expectLastExchange() }
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

  // MARK: Actions

  func perform(_ action: Action, otherIsUpstream: Bool = true, _ worker: Worker) {
    switch action {
    case .read, .hold: break
    case .forward: preconditionFailure("bytes can only be forwarded where they were read")
    case .connect: connect(fresh: false, worker)
    case .reconnect:
      // After a stream, the same connection may open another, so a kept connection may be used. The second try takes
      // the same route, because bytes of the request have left by it, unless the peer reported that it did nothing.
      let wasStream = upstream?.isStream ?? false
      let wasRefused = upstream?.stream.carried?.wasRefused ?? false
      dropUpstream(worker)
      waitAgain(worker)
      connect(fresh: !wasStream, sameWay: !wasRefused, worker)
    case .intercept: intercept(worker)
    case .judge: judgeTunnel(worker)
    case .tunnel:
      // It may be days until the log line of a tunnel is written.
      worker.workspace.pool.compact(&outputs.text)
      flush(to: .client, worker)
    case .closeOtherWrite:
      self[otherIsUpstream ? .upstream : .client].state.insert(.closesWrite)
      if otherIsUpstream {
        if outputs.toUpstream.isEmpty { sent(to: .upstream, worker) }
      } else {
        flush(to: .client, worker)
      }
    case .end: finish(action, leaves: false, worker)
    case .close: close(worker)
    }
  }

  /// The destination of the request, by the first of its routes.
  func acquireDestination(_ worker: Worker) -> Destination {
    let routes = worker.routes.list(of: session.exchange.record.decision?.rule, live)
    return worker.upstreams.acquire(
      worker.workspace.decisions.host, port: session.exchange.upstream.port, originSecurity,
      by: worker.routes.firstOpen(routes, now: worker.now))
  }

  /// `fresh`: no kept connection may be used. `sameWay`: by the route that was taken before.
  func connect(fresh: Bool, sameWay: Bool = false, _ worker: Worker) {
    if case .inheritance(let caching, let line) = errand { return goOnForOthers(caching, line, worker) }
    if session.exchange.awaitsOperator { return askOperator(worker) }
    if worker.storesAnswers, isAnsweredByCache(worker) { return }
    let rule = session.exchange.record.decision?.rule
    let routes = worker.routes.list(of: rule, live)
    let destination = self.destination ?? acquireDestination(worker)
    self.destination = destination
    if !fresh, !session.exchange.isTunnel {
      let carrier = destination.carrier(isTunnel: false)
      if let kept = worker.upstreams.takeKept(
        carrier, rule: rule, allowsCellular: session.exchange.allowsCellularAccess, by: session.exchange.protocols,
        for: self, queues: true, session.exchange.policy, worker)
      {
        attach(kept, reused: true, worker)
        return
      }
    }
    let connector = Connector(
      destination, by: sameWay ? destination.via.map { [$0] } ?? routes : routes, for: self, rule: rule, fresh: fresh,
      isTunnel: session.exchange.isTunnel,
      verifying: session.exchange.verifiesTunnel ? tunnelSecurity : nil, session.exchange.policy, worker)
    self.connector = connector
    connector.start(worker)
  }

  /// Changes to another route to the same host and port.
  func turn(to route: RouteState, _ worker: Worker) -> Destination {
    guard let old = destination else { preconditionFailure("a connector without a destination") }
    let turned = worker.upstreams.acquire(
      CanonicalHost(canonical: old.host, address: old.literal), port: old.port, old.security, by: route)
    worker.upstreams.release(old, now: worker.now)
    destination = turned
    return turned
  }

  /// The network has changed: a connection from an address that this machine no longer has is over.
  func networkChanged(_ worker: Worker) {
    guard let upstream, !(upstream.stream.carried is StoredStream), ending == nil,
      worker.network.hasLost(upstream.descriptor)
    else { return }
    upstreamSide.state.insert(.ended)
    let action = session.exchange.upstreamEnded(
      .lost("the address of this machine that it was reached from is gone"), now: worker.now, &worker.workspace,
      &outputs)
    perform(action, otherIsUpstream: false, worker)
    settle(worker)
  }

  /// The security policy for the destination; nil without TLS.
  var originSecurity: OriginSecurity? {
    session.exchange.usesTLS ? live.security(session.exchange.security, enforces: session.exchange.enforces) : nil
  }

  func attach(_ upstream: Upstream, reused: Bool, _ worker: Worker) {
    upstream.owner = self
    self.upstream = upstream
    if upstream.holdsPlace, upstream.holder == nil {
      let identity = knownIdentity(worker)
      upstream.holder = identity
      worker.shared.quota.resume(upstream.destination.place, for: identity)
    }
    if reused { worker.statistics.upstreamsReused += 1 } else { worker.statistics.upstreamsOpened += 1 }
    mark(upstream, reused: reused)
    if let mine = stream.carried as? HTTP2Carrier, upstream.stream.tls == nil,
      let other = upstream.stream.carried as? HTTP2Carrier
    {
      mine.pair(with: other)
    }
    // What was found out about the destination itself says more than a parent's certificate.
    if let report = upstream.report, !report.isOfParent || session.exchange.record.report == nil {
      session.exchange.noteReport(report.kind, report.finding, isForgiven: report.isForgiven)
    }
    upstreamSide.state.remove([.ended, .unwatched, .broken, .sawInput])
    awaitsRoom = false
    if let caching {
      caching.requested = caching.time(worker)
      if let flight = caching.leads { caching.cache.with { $0.sent(flight, caching.key) } }
    }
    let action = session.exchange.upstreamOpened(
      reused: reused, address: IPAddress(upstream.address), port: upstream.address.port, by: upstream.way,
      assurance: assurance(of: upstream), now: worker.now,
      &worker.workspace, &outputs)
    upstream.shown()
    perform(action, worker)
  }

  /// Marks a kept connection as this request asks; a new one was opened with the mark.
  private func mark(_ upstream: Upstream, reused: Bool) {
    let codePoint = session.exchange.serviceType.codePoint
    if reused, upstream.codePoint != codePoint, upstream.stream.carried == nil {
      upstream.descriptor.mark(codePoint: codePoint, isIPv4: upstream.address.isIPv4)
    }
    upstream.codePoint = codePoint
  }

  /// Drops a connection that is of no more use.
  func dropUpstream(_ worker: Worker) {
    if let upstream { worker.upstreams.close(upstream, worker) }
    upstream = nil
    worker.workspace.pool.reclaim(&upstreamInput)
  }

  /// The exchange is over: leaves the upstream, and the client once it has everything.
  func finish(_ action: Action, leaves: Bool, _ worker: Worker) {
    guard case .end(var ending) = action else { return perform(action, worker) }
    // Bytes after a CONNECT that was not granted were meant for the tunnel, and are not read as a request.
    if session.exchange.isTunnel, ending.client == .keep, leaves || !clientInput.isEmpty || !stream.isSilent {
      ending = Ending(client: .linger, keepsUpstream: false)
    }
    connector?.abandon(worker)
    connector = nil
    leaveQuestion(worker)
    endCaching(worker)
    if let upstream {
      let isClean =
        ending.keepsUpstream && !leaves && upstreamInput.isEmpty && outputs.toUpstream.isEmpty
        && !upstreamSide.state.contains(.ended) && !upstreamSide.state.contains(.broken)
      if isClean {
        worker.upstreams.keep(upstream, idle: session.exchange.timeouts.upstreamIdleMilliseconds, worker)
      } else {
        // If the client broke off the tunnel, the upstream must not take what it received for the whole.
        let isCut =
          session.exchange.isInTunnel && session.exchange.record.outcome == .clientLeft
          && !clientSide.state.contains(.ended)
        worker.upstreams.close(upstream, aborts: isCut, worker)
      }
      self.upstream = nil
    }
    if let destination { worker.upstreams.release(destination, now: worker.now) }
    destination = nil
    session.exchange.releaseHeld(&worker.workspace)
    discountHeld(worker)
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    worker.workspace.pool.reclaim(&outputs.replay)
    worker.workspace.pool.reclaim(&upstreamInput)
    clientSide.givePipeBack(&worker.pipes)
    session.exchange.dropUpload()
    if ending.client == .abort {
      session.exchange.clientMissed(outputs.toClient.count, .clientLeft)
      outputs.toClient.removeAll()
      upstreamSide.givePipeBack(&worker.pipes)
    }
    self.ending = ending
    flush(to: .client, worker)
    if self.ending != nil, session.exchange.hasBodyOnItsWay { accountHeld(worker) }
  }

  /// Everything has been sent.
  func complete(_ ending: Ending, _ worker: Worker) {
    self.ending = nil
    discountHeld(worker)
    log(worker)
    if session.exchange.answeredItself { flags.insert(.wasRefused) } else { flags.remove(.wasRefused) }
    worker.workspace.pool.reclaim(&outputs.text)
    giveBackPipes(worker)
    // File I/O under way may end during the next exchange, which may use a file of its own.
    if spool != nil { closeSpool(worker) }
    let keeps =
      ending.client == .intercept
      || ending.client == .keep && !isStream
        && (hasNextRequest || !worker.isDraining && !clientSide.state.contains(.ended))
    session.exchangeEnded(now: worker.now, keeps: keeps)
    clientSide.state.remove([.sawInput, .closesWrite])
    upstreamSide.state.remove(.closesWrite)
    isHalfClosed = false
    awaitsRoom = false
    switch ending.client {
    case .keep:
      if !keeps { close(worker) }
    case .close where canCloseAtOnce, .cut where canCloseAtOnce, .close where isStream, .cut where isStream,
      .linger where isStream:
      close(worker)
    case .close, .cut, .linger:
      // Closing with unread bytes would send a reset, and a reset destroys what the client has not read yet.
      worker.workspace.pool.reclaim(&clientInput)
      stream.shutdownWrite()
      if clientSide.state.contains(.ended) { close(worker) }
    case .abort:
      flags.insert(.aborts)
      close(worker)
    case .intercept: flags.insert(.startsClientHandshake)
    }
  }

  /// No bytes of the client are unread.
  private var canCloseAtOnce: Bool {
    clientSide.state.contains(.ended) || clientInput.isEmpty && stream.isSilent
  }

  private func giveBackPipes(_ worker: Worker) {
    clientSide.givePipeBack(&worker.pipes)
    upstreamSide.givePipeBack(&worker.pipes)
  }

  /// The rest of a response cannot be delivered.
  func giveUpSending(_ worker: Worker, _ outcome: Outcome = .clientLeft) {
    guard let ending else { return }
    session.exchange.clientMissed(outputs.toClient.count, outcome)
    outputs.toClient.removeAll()
    upstreamSide.givePipeBack(&worker.pipes)
    complete(Ending(client: .abort, keepsUpstream: ending.keepsUpstream), worker)
  }

  func close(_ worker: Worker) {
    if flags.contains(.closed) { return }
    flags.insert(.closed)
    endLookUp()
    leaveQuestion(worker)
    endCaching(worker)
    connector?.abandon(worker)
    connector = nil
    dropUpstream(worker)
    if let destination { worker.upstreams.release(destination, now: worker.now) }
    destination = nil
    giveBackPipes(worker)
    closeSpool(worker)
    session.exchange.releaseHeld(&worker.workspace)
    worker.workspace.pool.reclaim(&clientInput)
    worker.workspace.pool.reclaim(&outputs.toClient)
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    worker.workspace.pool.reclaim(&outputs.replay)
    worker.workspace.pool.reclaim(&outputs.text)
    if flags.contains(.aborts) { stream.abort() } else { stream.close() }
    if identification.contains(.counted), let identity { worker.shared.places.discount(identity) }
    discountHeld(worker)
    if isStream { worker.vacate(slot) } else { worker.clientClosed(slot) }
  }

  // MARK: After every event

  var deadline: Int64 {
    clientHandshake?.deadline ?? (identification.contains(.awaited) ? namesDeadline : session.deadline)
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
      if flags.contains(.closed) || clientHandshake != nil { break }
      if !clientInput.isEmpty, !clientSide.state.contains(.sawInput), !identification.contains(.awaited),
        !flags.contains(.rests), ending == nil, session.wantsClientBytes, outputs.toUpstream.isEmpty
      {
        var input = ByteBuffer()
        swap(&input, &clientInput)
        pumpClient(&input, worker)
        keepInput(&input, &clientInput, worker)
      } else if !upstreamInput.isEmpty, !upstreamSide.state.contains(.sawInput), canReadUpstream {
        var input = ByteBuffer()
        swap(&input, &upstreamInput)
        pumpUpstream(&input, worker)
        keepInput(&input, &upstreamInput, worker)
      } else {
        break
      }
    }
    if flags.contains(.closed) { return }
    if spool != nil || session.exchange.spools { moveSpool(worker) }
    if upstreamSide.state.contains(.closesWrite), outputs.toUpstream.isEmpty, clientInput.isEmpty {
      sent(to: .upstream, worker)
    }
    watchClient(worker)
    watchUpstream(worker)
    if stream.hasMore && canReadClient || upstream?.stream.hasMore ?? false && canReadUpstream {
      worker.readAgain(slot)
    }
    worker.timers.set(slot, deadline)
  }
}
