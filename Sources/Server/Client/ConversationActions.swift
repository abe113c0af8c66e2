// What a session asks of its conversation, most of all something that serves the exchange: a kept connection, a new one
// that a connector opens, or a stored answer.
//
// `Caching` decides what the cache does, before a request leaves, when its answer begins and when none comes. Here it
// is done. Tests: Tests/EndToEndTests/test_cache.py.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

extension Conversation {
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
      caching?.sharing.waitAgain(worker)
      connect(fresh: !wasStream, sameWay: !wasRefused, worker)
    case .intercept: intercept(worker)
    case .judge:
      guard let presented = session.exchange.presentedCertificates, let destination = search.destination else { return }
      let refusal = session.exchange.judge(
        presented, of: destination, by: session.exchange.tunnelSecurity(live), worker)
      perform(session.exchange.tunnelJudged(refusal, in: &worker.workspace, to: &outputs), worker)
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

  // MARK: Connections

  /// `fresh`: no kept connection may be used. `sameWay`: by the route that was taken before.
  private func connect(fresh: Bool, sameWay: Bool = false, _ worker: Worker) {
    if goesOnForOthers(worker) { return }
    if session.exchange.awaitsOperator { return askOperator(worker) }
    if worker.storesAnswers, isAnsweredByCache(worker) { return }
    let rule = session.exchange.record.ruled.decision?.rule
    let routes = worker.routes.list(of: rule, live)
    let destination = search.destination(of: session.exchange, live, worker)
    if !fresh, !session.exchange.isTunnel {
      let carrier = destination.carrier(isTunnel: false)
      if let kept = worker.upstreams.takeKept(
        carrier, rule: rule, allowsCellular: session.exchange.ruling.allowsCellularAccess,
        by: session.exchange.protocols,
        for: self, queues: true, session.exchange.policy, on: worker)
      {
        attach(kept, reused: true, worker)
        return
      }
    }
    let connector = Connector(
      destination, by: sameWay ? destination.via.map { [$0] } ?? routes : routes, for: self, rule: rule, fresh: fresh,
      isTunnel: session.exchange.isTunnel,
      verifying: session.exchange.verifiesTunnel ? session.exchange.tunnelSecurity(live) : nil,
      session.exchange.policy, on: worker)
    search.begin(connector)
    connector.start(worker)
  }

  /// `early`: bytes that the destination has already sent.
  func connected(_ upstream: Upstream, early: inout ByteBuffer, _ worker: Worker) {
    search.end()
    if leavesQueue(upstream, hasEarly: !early.isEmpty, worker) { return }
    swap(&inputs.fromUpstream, &early)
    attach(upstream, reused: false, worker)
  }

  /// A connection that another exchange has just finished with.
  func handedOver(_ upstream: Upstream, _ worker: Worker) {
    search.end()
    if leavesQueue(upstream, worker) { return }
    attach(upstream, reused: true, worker)
  }

  /// An upstream is ready for the request. If the client has left meanwhile, the request is over, and the upstream is
  /// free for the next one. Only a request that has waited is checked, even if for less than a millisecond. One that
  /// has not waited is sent as if there were no proxy. `hasEarly`: the upstream has already sent bytes, which would be
  /// taken for the response to the next request.
  private func leavesQueue(_ upstream: Upstream, hasEarly: Bool = false, _ worker: Worker) -> Bool {
    let hasWaited = worker.workspace.turnMicroseconds > session.exchange.record.times.begunMicroseconds
    guard hasWaited || clientSide.isHalfClosed, hasLeft(worker) else { return false }
    if session.exchange.isTunnel || hasEarly {
      worker.upstreams.close(upstream, worker)
    } else {
      worker.upstreams.keep(upstream, worker)
    }
    endLeft(worker)
    return true
  }

  func connectFailed(_ failure: UpstreamFailure, _ worker: Worker) {
    search.end()
    if let stored = caching?.standIn(for: failure.problem.kind, worker),
      standIn(stored, .offline, detail: "detail=\(failure.problem.kind.token)", on: worker)
    {
      return
    }
    session.exchange.tellOfCertificate(failure, worker)
    perform(session.exchange.upstreamFailed(failure, in: &worker.workspace, to: &outputs), worker)
  }

  /// Changes to another route to the same host and port.
  func turn(to route: RouteState, _ worker: Worker) -> Destination { search.turn(to: route, worker) }

  /// `isSent`: another exchange has sent the request on it.
  private func attach(_ upstream: Upstream, reused: Bool, isSent: Bool = false, _ worker: Worker) {
    take(upstream)
    if upstream.holdsPlace, upstream.holder == nil {
      let identity = knownIdentity(worker)
      upstream.holder = identity
      worker.shared.quota.resume(upstream.destination.place, for: identity)
    }
    if reused { worker.statistics.upstreamsReused += 1 } else { worker.statistics.upstreamsOpened += 1 }
    mark(upstream, reused: reused)
    if let mine = stream.carried, upstream.stream.tls == nil, let other = upstream.stream.carried {
      mine.pair(with: other)
    }
    // What was found out about the destination itself says more than a parent's certificate.
    if let report = upstream.report, !report.isOfParent || session.exchange.record.found.report == nil {
      session.exchange.noteReport(report.kind, report.finding, isForgiven: report.isForgiven)
    }
    if !isSent { caching?.sent(worker) }
    let action = session.exchange.upstreamOpened(
      reused: reused, address: IPAddress(upstream.address), port: upstream.address.port, by: upstream.way,
      assurance: session.exchange.assurance(of: upstream, live), now: worker.now,
      in: &worker.workspace, to: &outputs)
    upstream.shown()
    perform(action, worker)
  }

  /// Marks a kept connection as this request asks; a new one was opened with the mark.
  private func mark(_ upstream: Upstream, reused: Bool) {
    let codePoint = session.exchange.ruling.serviceType.codePoint
    if reused, upstream.codePoint != codePoint, upstream.stream.carried == nil {
      upstream.descriptor.mark(codePoint: codePoint, isIPv4: upstream.address.isIPv4)
    }
    upstream.codePoint = codePoint
  }

  /// Drops a connection that is of no more use.
  func dropUpstream(_ worker: Worker) {
    if let upstream { worker.upstreams.close(upstream, worker) }
    leaveUpstream(worker)
  }

  // MARK: What the connector has found out

  func noteNameTime(_ microseconds: Int64) { session.exchange.noteNameTime(microseconds) }
  func noteConnectTime(_ microseconds: Int64) { session.exchange.noteConnectTime(microseconds) }
  func noteParent(_ address: SocketAddress, route: String) {
    session.exchange.noteParent(IPAddress(address), port: address.port, route: route)
  }
  func noteTLSTime(_ microseconds: Int64) { session.exchange.noteTLSTime(microseconds) }

  func report(_ kind: Problem.Kind, _ finding: Finding, isForgiven: Bool, on worker: Worker) {
    session.exchange.report(kind, finding, isForgiven: isForgiven, on: worker)
  }

  func tellOfFallBack(_ route: String, _ failure: UpstreamFailure, on worker: Worker) {
    session.exchange.tellOfFallBack(route, failure, on: worker)
  }

  func tellOfWait(_ state: WaitState, _ host: String, reason: String, milliseconds: Int64, on worker: Worker) {
    session.exchange.tellOfWait(state, host, reason: reason, milliseconds: milliseconds, on: worker)
  }

  // MARK: Stored answers

  /// Whether the request needs no upstream now: it is answered from the store, refused, or waits for another fetch.
  private func isAnsweredByCache(_ worker: Worker) -> Bool {
    if caching == nil {
      caching = Caching(for: session.exchange, sending: outputs, by: session.origin.client, live, worker)
    }
    guard let caching else { return isRefusedWithoutStore(worker) }
    let reader = Content.Reader(worker, slot: slot)
    var step =
      if case .resumption(let fetch) = errand {
        caching.askForRest(of: fetch)
      } else {
        caching.lookUp(isRefresh: errand.isRefresh, as: reader, worker)
      }
    while true {
      switch step {
      case .ask(let head, let forward):
        if let head {
          worker.workspace.pool.reclaim(&outputs.toUpstream)
          worker.workspace.pool.lend(&outputs.toUpstream, head.count)
          outputs.toUpstream.append(head)
        }
        note(forward)
        return false
      case .refuse(let failure, let forward):
        note(forward)
        connectFailed(failure, worker)
        return true
      case .wait:
        _ = search.destination(of: session.exchange, live, worker)
        return true
      case .serve(let answer, let result, let refreshes):
        if refreshes { caching.refresh(answer, for: self, worker) }
        if serve(answer, result, on: worker) { return true }
        step = caching.missed(foundNone: false)
      case .share(let foundNone):
        step = caching.join(as: reader, for: knownIdentity(worker), foundNone: foundNone, now: worker.now)
      case .lookUpAgain: step = caching.lookUp(isRefresh: errand.isRefresh, as: reader, worker)
      }
    }
  }

  private func isRefusedWithoutStore(_ worker: Worker) -> Bool {
    if case .resumption = errand {
      connectFailed(Caching.policyChanged, worker)
      return true
    }
    guard let refusal = Caching.refusalWithoutStore(of: session.exchange) else { return false }
    note(.bypass)
    connectFailed(refusal, worker)
    return true
  }

  /// Nothing of the store is used.
  private func note(_ forward: Forward?) {
    if let forward { session.exchange.noteCache(.miss, status: "fwd=\(forward.rawValue)") }
  }

  /// What the disk has for the request is now in memory.
  func restored(_ worker: Worker) {
    guard let caching, caching.disk == .awaited, isWithoutUpstream else { return }
    caching.disk = .asked
    connect(fresh: false, worker)
    settle(worker)
  }

  /// A fetch that it waits for, or that an earlier exchange of the connection waited for, has ended.
  func flightEnded(_ flight: Flight, _ outcome: FlightOutcome, on worker: Worker) {
    guard let caching, caching.sharing.isFollowing(flight), isWithoutUpstream else { return }
    let shared = caching.landed(outcome, worker)
    if case .failed(let failure) = outcome {
      connectFailed(failure, worker)
      return settle(worker)
    }
    if let (answer, result) = shared {
      if serve(answer, result, on: worker) { return settle(worker) }
      caching.sharing.goAlone()
    }
    connect(fresh: false, worker)
    settle(worker)
  }

  private var isWithoutUpstream: Bool { upstream == nil && search.connector == nil && ending == nil }

  /// Reads `answer` in place of an upstream; false: its content is gone. `reads`: whether to read at once.
  private func serve(
    _ answer: StoredAnswer, _ result: CacheResult, detail: String = "", on worker: Worker, reads: Bool = true
  ) -> Bool {
    guard let caching else { return false }
    let destination = search.destination(of: session.exchange, live, worker)
    let slot = worker.occupy(.free)
    guard let stored = StoredStream(answer, for: caching.request, of: caching.cache, slot: slot, worker) else {
      worker.vacate(slot)
      return false
    }
    if result != .stored { caching.cache.disk?.touch(answer) }
    session.exchange.noteCache(result, status: caching.status(of: answer, result, detail: detail, worker))
    // What others have fetched meanwhile is as new as what it fetches itself.
    self.answer(from: stored, to: destination, slot: slot, isFetched: result == .stored || result == .collapsed, worker)
    if result == .collapsed { session.exchange.beginPace(on: worker.workspace.link, now: worker.now) }
    if reads { readUpstream(worker) }
    return true
  }

  /// Takes what `source` spells as HTTP/1.1 for the response, in place of an upstream's: any source of responses comes
  /// in here. `slot`: its own, where it announces that it can be read. See `Exchange.answeredWithoutUpstream`.
  private func answer(
    from source: any CarriedStream, to destination: Destination, slot: Int, isFetched: Bool, _ worker: Worker
  ) {
    dropUpstream(worker)
    let upstream = Upstream(
      slot: slot, stream: ByteStream(source, by: descriptor), address: peer, destination: destination,
      by: destination.via ?? worker.routes.direct, over: .unknown)
    worker.upstreams.retain(destination)
    worker.reoccupy(slot, .upstream(upstream))
    take(upstream)
    session.exchange.answeredWithoutUpstream(
      isFetched: isFetched, now: worker.now, in: &worker.workspace, to: &outputs)
  }

  private func standIn(_ stored: StoredAnswer, _ result: CacheResult, detail: String, on worker: Worker) -> Bool {
    caching?.standsIn(stored, result, on: worker)
    return serve(stored, result, detail: detail, on: worker)
  }

  /// A stored answer stands in for an upstream that was reached, but does not answer as it should. Returns whether
  /// there is one. `isForAll`: those that wait for the fetch get it too, otherwise they ask for themselves.
  func cacheStandsInForSilence(_ detail: String, isForAll: Bool = true, _ worker: Worker) -> Bool {
    guard let caching, session.exchange.awaitsFinalHead, let stored = caching.standInForSilence(worker) else {
      return false
    }
    if !isForAll { caching.sharing.end(.leaderless, worker) }
    return standIn(stored, .offline, detail: "detail=\(detail)", on: worker)
  }

  // MARK: Answers of the origin

  /// Looks at what the upstream has sent before the exchange does. Returns whether that is dealt with.
  func cacheTakes(_ input: inout ByteBuffer, _ worker: Worker) -> Bool {
    guard let caching, caching.awaitsHead, session.exchange.awaitsFinalHead, let line = upstream else { return false }
    let configured = session.exchange.policy.configuration.limits
    let limits = HeadLimits(bytes: configured.headerBytes, fields: configured.headers)
    switch worker.workspace.response.read(input.bytes, limits: limits, toHead: caching.request.method == .head) {
    case .incomplete: return false
    case .invalid:
      if cacheStandsInForSilence("malformed-response", worker) {
        input.removeAll()
        return true
      }
      caching.leaveToExchange(worker)
      return false
    case .complete(let headBytes):
      if worker.workspace.response.isInformational { return false }
      let answer = OriginAnswer(
        status: worker.workspace.response.status, fields: MessageFields(worker.workspace.response.fields, input.bytes),
        headBytes: headBytes, host: search.destination?.name ?? "",
        rule: session.exchange.ruling.rule?.name ?? "", isDoubtful: line.isDoubtful)
      let terms = CacheFetch.Terms(worker.workspace.response, session.exchange.ruling.timeouts, limits: limits)
      if case .resumption(let fetch) = errand {
        caching.awaitsHead = false
        goOn(with: fetch, answer, from: line, terms, input: &input, on: worker)
        return true
      }
      return takes(answer, for: caching, from: line, terms, input: &input, on: worker)
    }
  }

  /// Does what the cache says about an answer.
  private func takes(
    _ answer: OriginAnswer, for caching: Caching, from line: Upstream, _ terms: CacheFetch.Terms,
    input: inout ByteBuffer, on worker: Worker
  ) -> Bool {
    var hasStandIn = true
    while true {
      switch caching.take(answer, input.bytes, hasStandIn: hasStandIn, on: worker) {
      case .pass(let status):
        if let status { session.exchange.noteCache(.stored, status: status) }
        return false
      case .standIn(let stored, let detail):
        hasStandIn = standIn(stored, .stale, detail: detail, on: worker)
        if !hasStandIn { continue }
        input.removeAll()
      case .serve(let fresh, let isForAll):
        let keeps = terms.mayKeep && input.count == answer.headBytes
        input.removeAll()
        detach(line, keeps: keeps, worker)
        // What the 304 adds and forbids to store is for one client, like such an answer.
        caching.sharing.end(isForAll ? .answer(fresh, .revalidated) : .unshared, worker)
        if serve(fresh, .revalidated, detail: "fwd-status=304", on: worker) { return true }
        caching.askAgain()
        askAgain(caching, worker)
      case .askForWhole:
        input.removeAll()
        caching.askForWhole()
        dropUpstream(worker)
        askAgain(caching, worker)
      case .store(let storing):
        let fetch = caching.beginFetch(storing, worker)
        input.consume(answer.headBytes)
        if session.exchange.ruling.resumesDownloads { fetch.repetition = Repetition(of: caching, by: self) }
        leaveUpstream(worker)
        // The first reader is counted before the fetch looks for readers.
        let isServed = serve(storing.answer, .stored, on: worker, reads: false)
        caching.sharing.end(.answer(storing.answer, .stored), worker)
        fetch.begin(line, terms.skipping(storing.known), with: &input)
        if isServed {
          readUpstream(worker)
        } else {
          // The URL was changed meanwhile, and the part that it continues is gone. Unless others wait, so is the fetch.
          fetch.readersMoved()
          caching.askAgain()
          askAgain(caching, worker)
        }
      }
      return true
    }
  }

  private func askAgain(_ caching: Caching, _ worker: Worker) {
    session.exchange.askAgain(caching.head, in: &worker.workspace, to: &outputs)
    connect(fresh: false, worker)
  }

  /// The upstream has done its part.
  private func detach(_ line: Upstream, keeps: Bool, _ worker: Worker) {
    leaveUpstream(worker)
    line.owner = nil
    if keeps, outputs.toUpstream.isEmpty {
      worker.upstreams.keep(line, idle: session.exchange.ruling.timeouts.upstreamIdleMilliseconds, worker)
    } else {
      worker.upstreams.close(line, worker)
    }
  }

  /// The answer to a request for the rest of a fetch that broke off.
  private func goOn(
    with fetch: CacheFetch, _ answer: OriginAnswer, from line: Upstream, _ terms: CacheFetch.Terms,
    input: inout ByteBuffer, on worker: Worker
  ) {
    _ = takeErrand()
    if fetch.isContinued(by: answer, length: worker.workspace.response.announcedLength) {
      input.consume(answer.headBytes)
      leaveUpstream(worker)
      fetch.goOn(line, terms, with: &input)
    } else {
      input.removeAll()
      fetch.couldNotGoOn(mayTryAgain: answer.status >= 500)
    }
    perform(session.clientFailed(), worker)
  }

  // MARK: Errands, and the end

  /// What it does without a client of its own.
  private var errand: Errand? { (stream.carried as? RefreshClient)?.errand }

  private func takeErrand() -> Errand? { (stream.carried as? RefreshClient)?.takeErrand() }

  /// Whether the request has already been sent, and others wait for the outcome.
  private func goesOnForOthers(_ worker: Worker) -> Bool {
    guard case .inheritance(let caching, let line) = errand else { return false }
    _ = takeErrand()
    self.caching = caching
    _ = search.destination(of: session.exchange, live, worker)
    attach(line, reused: false, isSent: true, worker)
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    return true
  }

  /// Its work for a fetch is no longer needed.
  func endErrand(_ worker: Worker) {
    guard errand != nil, !flags.contains(.closed), ending == nil else { return }
    _ = takeErrand()
    perform(session.clientFailed(), worker)
    if !flags.contains(.closed) { settle(worker) }
  }

  /// No client waits any more for the fetch that it leads for others.
  func deserted(_ worker: Worker) {
    guard hasNoClient, !errand.isRefresh, caching?.sharing.leads != nil, ending == nil else { return }
    perform(session.clientFailed(), worker)
    if !flags.contains(.closed) { settle(worker) }
  }

  /// The exchange has ended, in whatever way.
  func endCaching(_ worker: Worker) {
    switch takeErrand() {
    case .inheritance(let caching, let line):
      // The policy in force no longer allows it.
      worker.upstreams.close(line, worker)
      caching.sharing.end(.leaderless, worker)
    case .resumption(let fetch): fetch.couldNotGoOn(mayTryAgain: true)
    case .refresh(let key): live.cache?.with { $0.endRefresh(key) }
    case nil: break
    }
    guard let caching else { return }
    self.caching = nil
    caching.sharing.leave(as: Content.Reader(worker, slot: slot), worker)
    caching.end(
      refused: session.exchange.record.refusedItsAnswer, from: upstream?.stream.carried as? StoredStream,
      session.exchange.record.answer.cache)
    guard caching.sharing.leads != nil else { return }
    if session.exchange.record.outcome == .clientLeft, caching.awaitsHead, let line = upstream,
      inputs.fromUpstream.isEmpty, outputs.toUpstream.isEmpty, caching.sharing.hasFollowers
    {
      leaveUpstream(worker)
      caching.bequeath(line, from: self, worker)
      return
    }
    // What ended the first request alone, an operator, the policy or its own limits, says nothing about the others.
    if case .problem(let kind) = session.exchange.record.outcome, kind.isAboutDestination,
      let detail = session.exchange.record.found.finding?.detail
    {
      caching.sharing.end(.failed(UpstreamFailure(kind, detail)), worker)
    } else {
      caching.sharing.end(.leaderless, worker)
    }
  }
}
