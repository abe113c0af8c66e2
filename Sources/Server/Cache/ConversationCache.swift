// How an exchange gets to a stored answer: before it connects, when its origin answers, and when that fails.
//
//   connect ─ stored and fresh ─────────────────────────────► StoredStream
//     ├ an equal request is under way ─ wait ─ its answer ──► StoredStream
//     └ ask the origin ─ 304 to our condition ──────────────► StoredStream, freshened
//                      ├ an answer that is stored ─ CacheFetch ► StoredStream, as it comes
//                      ├ it fails, and an old answer stands in ► StoredStream
//                      └ anything else passes as if there were no cache

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

extension Conversation {
  // MARK: Before connecting

  /// Whether the request needs no upstream now: it is answered from the store, refused, or waits for another fetch.
  func isAnsweredByCache(_ worker: Worker) -> Bool {
    if caching == nil { caching = makeCaching(worker) }
    if case .resumption(let fetch) = errand { return !asksForRest(of: fetch, worker) }
    guard let caching else { return refusesWithoutStore(worker) }
    if caching.awaitsHead || caching.leads != nil { return false }
    if !caching.request.isCacheable { return passesStoreBy(caching, worker) }
    let now = caching.time(worker)
    let found = caching.cache.with { $0.find(caching.key, caching.request.fields) }
    if found.isNone, asksDisk(caching, worker) { return true }
    switch found {
    case .nothing: caching.forward = caching.request.policy == .reloadIgnoringCache ? .bypass : .uriMiss
    case .otherVariants: caching.forward = .varyMiss
    case .answer(let answer)
    where !answer.holds(answer.head.presentation(for: caching.request, length: answer.length), for: caching.request):
      caching.forward = .partial
      if caching.request.policy == .reloadIgnoringCache { caching.forward = .bypass } else { caching.part = answer }
    case .answer(let answer):
      switch answer.head.reuse(for: caching.request, at: now) {
      case .fresh: if serve(answer, .hit, worker) { return true }
      case .stale(refreshes: true) where errand.isRefresh:
        caching.stored = answer
        caching.forward = .stale
      case .stale(let refreshes):
        if refreshes { caching.refresh(answer, for: self, worker) }
        if serve(answer, .stale, worker) { return true }
      case .ask(let forward):
        caching.stored = answer
        caching.forward = forward
      }
    }
    if caching.forward == nil { caching.forward = .uriMiss }
    if let refusal = refusalToAsk(caching) {
      noteForward(caching.forward)
      connectFailed(refusal, worker)
      return true
    }
    return follows(caching, foundNone: found.isNone, worker)
  }

  /// Whether the disk has to be asked first for what memory does not have.
  private func asksDisk(_ caching: Caching, _ worker: Worker) -> Bool {
    guard let disk = caching.cache.disk, caching.disk == .unasked, disk.mayHave(caching.key) else { return false }
    caching.disk = .awaited
    destination = destination ?? acquireDestination(worker)
    let (slot, generation) = (slot, worker.generation(slot))
    let mailbox = worker.shared.mailboxes[worker.index]
    disk.restore(caching.key) { mailbox.post(.restored(slot: slot, generation: generation)) }
    return true
  }

  /// What the disk has for the request is now in memory.
  func restored(_ worker: Worker) {
    guard let caching, caching.disk == .awaited, upstream == nil, connector == nil, ending == nil else { return }
    caching.disk = .asked
    connect(fresh: false, worker)
    settle(worker)
  }

  private func makeCaching(_ worker: Worker) -> Caching? {
    guard let cache = live.cache else { return nil }
    let rule = session.exchange.cacheRule
    let owner = rule.flatMap { self.owner($0.share, worker) }
    // A rule that stores nothing may change what another one has stored.
    if owner == nil, session.exchange.cachePolicy == .returnCacheDontLoad || !session.exchange.mayInvalidate(outputs) {
      return nil
    }
    let url = session.exchange.effectiveURL(outputs)
    let shown = session.exchange.shownURL(outputs)
    if max(url.count, shown.count) > CacheKey.longestURL { return nil }
    let limits = session.exchange.policy.configuration.limits
    let head = outputs.toUpstream.bytes.array
    let progress = worker.workspace.request.read(
      head.span,
      limits: HeadLimits(bytes: head.count + 1, fields: limits.headers + Self.fieldsOfProxy), isInTunnel: true)
    guard case .complete(let count) = progress else { return nil }
    let method = worker.workspace.request.knownMethod
    // A request with content is not answered from the store.
    if method == .get || method == .head, !session.exchange.isRequestWhole || count < head.count { return nil }
    let fields = MessageFields(worker.workspace.request.fields, head.span)
    let request = CacheRequest(
      method, fields,
      isAuthorized: fields.contains("authorization") && !session.exchange.setsAuthorization, rule: rule ?? CacheRule(),
      policy: session.exchange.cachePolicy)
    return Caching(
      cache, request,
      CacheKey(
        url: url, added: session.exchange.addedQueryBytes(outputs), rule: cacheIdentity(fields), owner: owner ?? ""),
      url: shown, head: Array(head.prefix(count)), isForeign: owner == nil)
  }

  /// What tells the rule's answers from those of others: what it adds, and what clients say where it would have added
  /// something else.
  private func cacheIdentity(_ fields: MessageFields) -> [UInt8] {
    guard let rule = session.exchange.rule else { return [] }
    var identity = rule.cacheIdentity
    // An answer is as good as the authority behind its origin's certificate.
    if let security = originSecurity { identity += security.anchors.digest }
    for line in rule.request.fields.defaults {
      guard let value = fields.combined(line.name.span), value != line.value else { continue }
      identity += [1] + line.name + [1] + value
    }
    return identity
  }

  /// The most fields that the proxy itself adds to a head.
  private static let fieldsOfProxy = 64

  /// Whose answers they are; nil: unknown, so nothing is stored or used.
  private func owner(_ share: CacheRule.Share, _ worker: Worker) -> String? {
    if share == .machine { return "" }
    guard let client = session.origin.client, !client.isUserInDoubt else { return nil }
    if share == .user { return "user \(client.userID)" }
    // Users may have units of the same name.
    guard let unit = client.unit, !client.isUnitInDoubt else { return nil }
    return "unit \(unit) of \(client.userID)"
  }

  /// Without a store, a request that only the store may answer is refused.
  private func refusesWithoutStore(_ worker: Worker) -> Bool {
    guard session.exchange.cachePolicy == .returnCacheDontLoad else { return false }
    noteForward(.bypass)
    connectFailed(
      UpstreamFailure(
        .notStored, "The rule asks no origin (cache_policy = \"return-cache-dont-load\"), and nothing is stored."),
      worker)
    return true
  }

  /// No stored answer can serve this request. What it changes at the origin is checked when that has answered.
  private func passesStoreBy(_ caching: Caching, _ worker: Worker) -> Bool {
    caching.forward = caching.request.method == .unsafe || caching.request.method == .safe ? .method : .request
    if !caching.isForeign { noteForward(caching.forward) }
    if caching.request.policy == .returnCacheDontLoad {
      let isUnsafe = caching.request.method == .unsafe
      connectFailed(
        UpstreamFailure(
          .notStored,
          "The rule asks no origin (cache_policy = \"return-cache-dont-load\"), and "
            + (isUnsafe ? "the request would change something there." : "the request is not answered from the store.")),
        worker)
      return true
    }
    // Whatever else the request says: it asks for no other answer than a stored one.
    if caching.request.method == .get || caching.request.method == .head, let refusal = refusalToAsk(caching) {
      connectFailed(refusal, worker)
      return true
    }
    caching.awaitsHead = caching.request.method == .unsafe
    return false
  }

  /// Nothing of the store is used.
  private func noteForward(_ forward: Forward?) {
    session.exchange.noteCache(.miss, status: "fwd=\((forward ?? .uriMiss).rawValue)")
  }

  /// Why the origin must not be asked; nil: it may be.
  private func refusalToAsk(_ caching: Caching) -> UpstreamFailure? {
    if caching.request.policy == .returnCacheDontLoad {
      return UpstreamFailure(
        .notStored,
        "Nothing is stored for the request, and the rule asks no origin (cache_policy = \"return-cache-dont-load\").")
    }
    if caching.request.directives.onlyIfCached {
      return UpstreamFailure(
        .notStored,
        "Nothing that may be used is stored for the request, and it asks for no other answer (only-if-cached).")
    }
    return nil
  }

  // MARK: Fetches that are shared

  /// Joins an equal request in progress. If there is none, others may join this one.
  private func follows(_ caching: Caching, foundNone: Bool, _ worker: Worker) -> Bool {
    let now = worker.now
    if caching.mayCollapse {
      let me = Content.Reader(worker: worker.index, slot: slot, generation: worker.generation(slot))
      let flight = Flight(caching.request.fields, for: knownIdentity(worker))
      let always = caching.request.rule.collapse == .always
      let joining = caching.cache.with {
        $0.join(caching.key, flight, as: me, foundNone: foundNone, always: always, now: now)
      }
      switch joining {
      case .follows(let other):
        caching.follows = other
        destination = destination ?? acquireDestination(worker)
        return true
      case .found:
        caching.forward = nil
        return isAnsweredByCache(worker)
      case .leads: caching.leads = flight
      }
    }
    ask(caching, worker)
    return false
  }

  /// Asks the origin, with a condition if the stored answer has a validator.
  private func ask(_ caching: Caching, _ worker: Worker) {
    caching.awaitsHead = caching.request.method == .get || caching.stored != nil
    if caching.request.method == .get, caching.request.policy != .reloadIgnoringCache {
      if let head = caching.validatingHead() {
        caching.question = .validity
        ask(head, worker)
      } else if let head = caching.headForRest() {
        caching.question = .rest
        ask(head, worker)
      }
    }
    noteForward(caching.forward)
  }

  /// The head that is sent in place of the client's.
  private func ask(_ head: [UInt8], _ worker: Worker) {
    worker.workspace.pool.reclaim(&outputs.toUpstream)
    worker.workspace.pool.lend(&outputs.toUpstream, head.count)
    outputs.toUpstream.append(head)
  }

  /// Asks the origin for the missing rest of a fetch that broke off. false: the policy no longer allows that.
  private func asksForRest(of fetch: CacheFetch, _ worker: Worker) -> Bool {
    guard let caching, caching.key == fetch.answer.key, !fetch.isOver else {
      connectFailed(UpstreamFailure(.notStored, "The policy has changed since the download began."), worker)
      return false
    }
    if caching.awaitsHead { return true }
    caching.awaitsHead = true
    caching.forward = .partial
    ask(caching.head(with: fetch.conditions), worker)
    noteForward(caching.forward)
    return true
  }

  /// A fetch that it waits for, or that an earlier exchange of the connection waited for, has ended.
  func flightEnded(_ flight: Flight, _ outcome: FlightOutcome, _ worker: Worker) {
    guard let caching, caching.follows === flight, upstream == nil, connector == nil, ending == nil else { return }
    caching.follows = nil
    switch outcome {
    case .answer(let answer, let result):
      // What the answer varies by is known now: requests that agree on that share the next fetch.
      if !answer.head.answers(caching.request.fields) { break }
      let isShared = mayShare(answer, result, caching, worker)
      if isShared, serve(answer, result == .stored ? .collapsed : result, worker) { return settle(worker) }
      caching.followsNoMore()
    case .unshared: caching.followsNoMore()
    case .leaderless: break
    case .failed(let failure):
      connectFailed(failure, worker)
      return settle(worker)
    }
    connect(fresh: false, worker)
    settle(worker)
  }

  /// Whether this request may have the answer that another one has fetched: only if it could be used, had it been in
  /// the store (RFC 9111, 4). One that is stale when it arrives was fetched for one request.
  private func mayShare(_ answer: StoredAnswer, _ result: CacheResult, _ caching: Caching, _ worker: Worker) -> Bool {
    switch result {
    case .stale: return answer.head.standsInForError(of: caching.request, at: caching.time(worker))
    case .offline: return answer.head.standsInOffline(for: caching.request, at: caching.time(worker))
    case .hit, .revalidated, .collapsed, .miss: return true
    case .stored: break
    }
    if case .ask = answer.head.reuse(for: caching.request, at: caching.time(worker)) { return false }
    return true
  }

  /// Its connection was of no use: it may have to wait for another one, in the queue of its client.
  func waitAgain(_ worker: Worker) {
    guard let caching, let flight = caching.leads else { return }
    for follower in caching.cache.with({ $0.waitsAgain(flight, caching.key) }) {
      worker.shared.mailboxes[follower.worker].post(
        .flightEnded(slot: follower.slot, generation: follower.generation, flight, .leaderless))
    }
  }

  /// Informs those that wait for the fetch that this exchange leads.
  func endFlight(_ caching: Caching, _ outcome: FlightOutcome, _ worker: Worker) {
    guard let flight = caching.leads else { return }
    caching.leads = nil
    let followers = caching.cache.with { $0.end(flight, caching.key) }
    if case .answer(let answer, _) = outcome { answer.content.expect(followers) }
    for follower in followers {
      worker.shared.mailboxes[follower.worker].post(
        .flightEnded(slot: follower.slot, generation: follower.generation, flight, outcome))
    }
  }

  /// The exchange has ended, in whatever way.
  func endCaching(_ worker: Worker) {
    let errand = errand
    self.errand = nil
    switch errand {
    case .inheritance(let caching, let line):
      // The policy in force no longer allows it.
      worker.upstreams.close(line, worker)
      endFlight(caching, .leaderless, worker)
    case .resumption(let fetch): fetch.couldNotGoOn(mayTryAgain: true)
    case .refresh(let key): live.cache?.with { $0.endRefresh(key) }
    case nil: break
    }
    guard let caching else { return }
    self.caching = nil
    if let flight = caching.follows {
      let me = Content.Reader(worker: worker.index, slot: slot, generation: worker.generation(slot))
      if let heir = caching.cache.with({ $0.leave(flight, caching.key, me) }) {
        worker.shared.mailboxes[heir.worker].post(.deserted(slot: heir.slot, generation: heir.generation))
      }
    }
    // An answer that a rule refuses is not kept.
    if session.exchange.refusedItsAnswer {
      if let replaces = caching.replaces {
        replaces.refuse()
      } else if let stream = upstream?.stream.carried as? StoredStream {
        caching.cache.remove(stream.answer)
      }
    } else {
      caching.replaces?.accept()
    }
    if let result = session.exchange.record.cache { caching.cache.count(result) }
    guard let flight = caching.leads else { return }
    if session.exchange.record.outcome == .clientLeft, caching.awaitsHead, let line = upstream, upstreamInput.isEmpty,
      outputs.toUpstream.isEmpty, caching.cache.with({ $0.followers(of: flight, caching.key) }) > 0
    {
      upstream = nil
      caching.bequeath(line, from: self, worker)
      return
    }
    // What ended the first request alone, an operator, the policy or its own limits, says nothing about the others.
    if case .problem(let kind) = session.exchange.record.outcome, kind.isAboutDestination,
      let detail = session.exchange.record.finding?.detail
    {
      endFlight(caching, .failed(UpstreamFailure(kind, detail)), worker)
    } else {
      endFlight(caching, .leaderless, worker)
    }
  }

  /// The request has already been sent, and others wait for the outcome.
  func goOnForOthers(_ caching: Caching, _ line: Upstream, _ worker: Worker) {
    errand = nil
    self.caching = caching
    let requested = caching.requested
    destination = acquireDestination(worker)
    attach(line, reused: false, worker)
    caching.requested = requested
    worker.workspace.pool.reclaim(&outputs.toUpstream)
  }

  /// Its work for a fetch is no longer needed.
  func endErrand(_ worker: Worker) {
    guard errand != nil, !flags.contains(.closed), ending == nil else { return }
    errand = nil
    perform(session.clientFailed(), worker)
    if !flags.contains(.closed) { settle(worker) }
  }

  /// No client waits any more for the fetch that it leads for others.
  func deserted(_ worker: Worker) {
    guard hasNoClient, !errand.isRefresh, caching?.leads != nil, ending == nil else { return }
    perform(session.clientFailed(), worker)
    if !flags.contains(.closed) { settle(worker) }
  }
}
