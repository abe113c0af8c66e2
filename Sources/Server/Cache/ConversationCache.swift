// How an exchange comes to a stored answer: before it connects, when its origin answers, and when that fails.
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

  /// Whether the request goes to no upstream now: it is answered from the store, refused, or waits for another fetch.
  func isAnsweredByCache(_ worker: Worker) -> Bool {
    if caching == nil { caching = makeCaching(worker) }
    guard let caching else { return refusesWithoutStore(worker) }
    if caching.awaitsHead || caching.leads != nil { return false }
    if !caching.request.isCacheable { return passesStoreBy(caching, worker) }
    let now = worker.workspace.wallMilliseconds
    let found = caching.cache.with { $0.find(caching.key, caching.request.fields) }
    if found.isNone, asksDisk(caching, worker) { return true }
    switch found {
    case .nothing: caching.forward = caching.request.policy == .reloadIgnoringCache ? .bypass : .uriMiss
    case .otherVariants: caching.forward = .varyMiss
    case .answer(let answer):
      switch answer.head.reuse(for: caching.request, at: now) {
      case .fresh: if serve(answer, .hit, worker) { return true }
      case .stale(refreshes: true) where isRefresh:
        caching.stored = answer
        caching.forward = .stale
      case .stale(let refreshes):
        if refreshes { worker.refresh(answer, for: self) }
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
    return follows(caching, worker)
  }

  /// Whether the disk is asked first for what memory does not have.
  private func asksDisk(_ caching: Caching, _ worker: Worker) -> Bool {
    guard let disk = caching.cache.disk, !caching.hasAskedDisk, disk.mayHave(caching.key) else { return false }
    caching.hasAskedDisk = true
    caching.awaitsDisk = true
    destination = destination ?? acquireDestination(worker)
    let (slot, generation) = (slot, worker.generation(slot))
    let mailbox = worker.shared.mailboxes[worker.index]
    disk.restore(caching.key) { mailbox.post(.restored(slot: slot, generation: generation)) }
    return true
  }

  /// What the disk has is in memory.
  func restored(_ worker: Worker) {
    guard let caching, caching.awaitsDisk, upstream == nil, connector == nil, ending == nil else { return }
    caching.awaitsDisk = false
    connect(fresh: false, worker)
    settle(worker)
  }

  private func makeCaching(_ worker: Worker) -> Caching? {
    guard let rule = session.exchange.cacheRule, let cache = live.cache, let owner = owner(rule.share, worker) else {
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
    // One with content is not answered out of the store.
    if method == .get || method == .head, !session.exchange.isRequestWhole || count < head.count { return nil }
    let fields = MessageFields(worker.workspace.request.fields, head.span)
    let request = CacheRequest(
      method, fields,
      isAuthorized: fields.contains("authorization") && !session.exchange.setsAuthorization, rule: rule,
      policy: session.exchange.cachePolicy)
    return Caching(
      cache, request, CacheKey(url: url, rule: session.exchange.rule?.cacheIdentity ?? [], owner: owner), url: shown,
      head: Array(head.prefix(count)))
  }

  /// Fields that the proxy itself adds to a head, at most.
  private static let fieldsOfProxy = 64

  /// Whose the answers are; nil: that is not known, and nothing is stored or used.
  private func owner(_ share: CacheRule.Share, _ worker: Worker) -> String? {
    if share == .machine { return "" }
    guard let client = session.origin.client, !client.isUserInDoubt else { return nil }
    if share == .user { return "user \(client.userID)" }
    // Users may have units of the same name.
    guard let unit = client.unit, !client.isUnitInDoubt else { return nil }
    return "unit \(unit) of \(client.userID)"
  }

  /// Where nothing can be stored, what must come out of the store does not come at all.
  private func refusesWithoutStore(_ worker: Worker) -> Bool {
    guard session.exchange.cachePolicy == .returnCacheDontLoad, !session.exchange.isTunnel else { return false }
    noteForward(.bypass)
    connectFailed(
      UpstreamFailure(
        .notStored, "The rule asks no origin (cache_policy = \"return-cache-dont-load\"), and nothing is stored."),
      worker)
    return true
  }

  /// A request that no stored answer is for. What it changes at the origin is looked at when that has answered.
  private func passesStoreBy(_ caching: Caching, _ worker: Worker) -> Bool {
    caching.forward = caching.request.method == .unsafe || caching.request.method == .safe ? .method : .request
    noteForward(caching.forward)
    if caching.request.policy == .returnCacheDontLoad {
      let isUnsafe = caching.request.method == .unsafe
      connectFailed(
        UpstreamFailure(
          isUnsafe ? .denied : .notStored,
          "The rule asks no origin (cache_policy = \"return-cache-dont-load\"), and "
            + (isUnsafe ? "the request would change something there." : "the request is not answered from the store.")),
        worker)
      return true
    }
    caching.awaitsHead = caching.request.method == .unsafe
    return false
  }

  /// Nothing of the store is used.
  private func noteForward(_ forward: Forward?) {
    session.exchange.noteCache(.miss, status: "fwd=\((forward ?? .uriMiss).rawValue)")
  }

  /// Why the origin must not be asked; nil: it may.
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

  /// Joins an equal request that is under way; else it is the one that others join.
  private func follows(_ caching: Caching, _ worker: Worker) -> Bool {
    let now = worker.now
    if caching.mayCollapse {
      let me = Content.Reader(worker: worker.index, slot: slot, generation: worker.generation(slot))
      let always = caching.request.rule.collapse == .always
      let joined = caching.cache.with {
        $0.follow(caching.key, caching.request.fields, as: me, always: always, now: now)
      }
      if let joined {
        caching.follows = joined
        destination = destination ?? acquireDestination(worker)
        return true
      }
      let flight = Flight(caching.request.fields)
      caching.cache.with { $0.begin(flight, caching.key) }
      caching.leads = flight
    }
    ask(caching, worker)
    return false
  }

  /// The origin is asked, with a condition where something is stored that has a validator.
  private func ask(_ caching: Caching, _ worker: Worker) {
    caching.awaitsHead = caching.request.method == .get || caching.stored != nil
    if caching.request.method == .get, caching.request.policy != .reloadIgnoringCache,
      let head = caching.validatingHead()
    {
      caching.isValidating = true
      worker.workspace.pool.reclaim(&outputs.toUpstream)
      worker.workspace.pool.lend(&outputs.toUpstream, head.count)
      outputs.toUpstream.append(head)
    }
    noteForward(caching.forward)
  }

  /// What came of the fetch that it waited for.
  func flightEnded(_ outcome: FlightOutcome, _ worker: Worker) {
    guard let caching, caching.follows != nil, upstream == nil, connector == nil, ending == nil else { return }
    caching.follows = nil
    switch outcome {
    case .answer(let answer, let result):
      if answer.head.answers(caching.request.fields), mayShare(answer, result),
        serve(answer, result == .stored ? .collapsed : result, worker)
      {
        return settle(worker)
      }
      // What it varies with is known now: those that agree on that share the next fetch.
      if !answer.head.answers(caching.request.fields) { break }
      caching.hasFollowed = true
    case .unshared: caching.hasFollowed = true
    case .leaderless: break
    case .failed(let failure):
      connectFailed(failure, worker)
      return settle(worker)
    }
    connect(fresh: false, worker)
    settle(worker)
  }

  /// An answer that must be validated before each use was fetched for one request, and another came before its answer: only where
  /// it asks for no validation is it for both.
  private func mayShare(_ answer: StoredAnswer, _ result: CacheResult) -> Bool {
    result != .stored || !answer.head.directives.noCache
  }

  /// Tells those who wait for the fetch that this exchange leads.
  private func endFlight(_ caching: Caching, _ outcome: FlightOutcome, _ worker: Worker) {
    guard let flight = caching.leads else { return }
    caching.leads = nil
    let followers = caching.cache.with { $0.end(flight, caching.key) }
    if case .answer(let answer, _) = outcome { answer.content.expect(followers) }
    for follower in followers {
      worker.shared.mailboxes[follower.worker].post(
        .flightEnded(slot: follower.slot, generation: follower.generation, outcome))
    }
  }

  /// The exchange is over, in whatever way.
  func endCaching(_ worker: Worker) {
    if let inherited {
      // The policy in force has another mind of it.
      self.inherited = nil
      worker.close(inherited.line)
      endFlight(inherited.caching, .leaderless, worker)
    }
    guard let caching else { return }
    self.caching = nil
    if let flight = caching.follows {
      let me = Content.Reader(worker: worker.index, slot: slot, generation: worker.generation(slot))
      if let heir = caching.cache.with({ $0.leave(flight, caching.key, me) }) {
        worker.shared.mailboxes[heir.worker].post(.deserted(slot: heir.slot, generation: heir.generation))
      }
    }
    // What a rule refuses is not kept.
    if session.exchange.refusedItsAnswer, let stream = upstream?.stream.carried as? StoredStream {
      if let replaces = caching.replaces { replaces.refuse() } else { caching.cache.remove(stream.answer) }
    } else {
      caching.replaces?.accept()
    }
    if let result = session.exchange.record.cache { caching.cache.count(result) }
    guard let flight = caching.leads else { return }
    if session.exchange.record.outcome == .clientLeft, caching.awaitsHead, let line = upstream, upstreamInput.isEmpty,
      outputs.toUpstream.isEmpty, caching.cache.with({ $0.followers(of: flight, caching.key) }) > 0
    {
      upstream = nil
      worker.inherit(caching, line, from: self)
      return
    }
    if case .problem(let kind) = session.exchange.record.outcome, let detail = session.exchange.record.finding?.detail {
      endFlight(caching, .failed(UpstreamFailure(kind, detail)), worker)
    } else {
      endFlight(caching, .leaderless, worker)
    }
  }

  /// The request has left already, and others wait for what comes of it.
  func goOnForOthers(_ worker: Worker) {
    guard let (caching, line) = inherited else { return }
    inherited = nil
    self.caching = caching
    let requested = caching.requested
    destination = acquireDestination(worker)
    attach(line, reused: false, worker)
    caching.requested = requested
    worker.workspace.pool.reclaim(&outputs.toUpstream)
  }

  /// Nobody waits any more for the fetch that it leads for others.
  func deserted(_ worker: Worker) {
    guard hasNoClient, !isRefresh, caching?.leads != nil, ending == nil else { return }
    perform(session.clientFailed(), worker)
    if !flags.contains(.closed) { settle(worker) }
  }

  // MARK: Answers of the origin

  /// Looks at what the upstream has said, before the exchange does. Whether that is dealt with.
  func cacheTakes(_ input: inout ByteBuffer, _ worker: Worker) -> Bool {
    guard let caching, caching.awaitsHead, session.exchange.awaitsFinalHead, let line = upstream else { return false }
    let configured = session.exchange.policy.configuration.limits
    let limits = HeadLimits(bytes: configured.headerBytes, fields: configured.headers)
    let progress = worker.workspace.response.read(input.bytes, limits: limits, toHead: caching.request.method == .head)
    switch progress {
    case .incomplete: return false
    case .invalid:
      if cacheStandsInForSilence("malformed-response", worker) {
        input.removeAll()
        return true
      }
      leaveToExchange(caching, worker)
      return false
    case .complete(let count):
      if worker.workspace.response.isInformational { return false }
      return takesHead(caching, line, &input, headBytes: count, limits, worker)
    }
  }

  /// The answer is the client's alone, and nothing of it is stored.
  private func leaveToExchange(_ caching: Caching, _ worker: Worker) {
    caching.awaitsHead = false
    endFlight(caching, .unshared, worker)
  }

  private func takesHead(
    _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer, headBytes: Int, _ limits: HeadLimits,
    _ worker: Worker
  ) -> Bool {
    let status = worker.workspace.response.status
    let now = worker.workspace.wallMilliseconds
    let fields = MessageFields(worker.workspace.response.fields, input.bytes)
    caching.awaitsHead = false
    switch caching.request.method {
    case .unsafe, .safe:
      if (200..<400).contains(status) { invalidate(caching, fields, now: now) }
      return false
    case .head:
      freshenByHead(caching, fields, worker)
      return false
    case .get: break
    }
    if status == 304, caching.isValidating, let stored = caching.stored {
      return validated(stored, by: fields, caching, line, &input, headBytes: headBytes, worker)
    }
    if status >= 500, let stored = caching.stored, stored.head.standsInForError(of: caching.request, at: now),
      standIn(stored, .stale, "fwd-status=\(status)", caching, worker)
    {
      input.removeAll()
      return true
    }
    let head = StoredHead(
      status: status, reason: input.bytes.extracting(worker.workspace.response.reason).array, fields,
      answering: caching.request, requested: caching.requested, received: now, targets: caching.cache.targets)
    let longest = caching.cache.longestContent(spills: caching.cache.disk?.isWriting ?? false)
    if let announced = announcedLength(worker.workspace.response), announced > longest {
      return passesOn(caching, status, worker)
    }
    if head.refusal(toStoreFor: caching.request) != nil { return passesOn(caching, status, worker) }
    // Of what was changed meanwhile nobody knows which of both it is.
    if caching.cache.with({ $0.wasChanged(caching.key, since: caching.requested) }) {
      endFlight(caching, .leaderless, worker)
      return false
    }
    store(head, caching, line, &input, headBytes: headBytes, limits, worker)
    return true
  }

  private func announcedLength(_ head: borrowing ResponseHead) -> UInt64? {
    switch head.framing {
    case .length(let length): length
    case .none: 0
    case .chunked, .untilClose: nil
    }
  }

  /// What came is not stored, and what was stored before it does not hold any more where it is another answer to the same request.
  private func passesOn(_ caching: Caching, _ status: Int, _ worker: Worker) -> Bool {
    let now = worker.now
    let isAnother = status < 500 && status != 206 && status != 304
    if isAnother, let stored = caching.stored { caching.cache.remove(stored) }
    if status != 304, status != 206 { caching.cache.with { $0.noteUnstorable(caching.key, now: now) } }
    endFlight(caching, .unshared, worker)
    return false
  }

  /// RFC 9111, 4.4: what an unsafe request has changed, and what its answer names at the same origin.
  private func invalidate(_ caching: Caching, _ fields: MessageFields, now: Int64) {
    let keys = caching.key.invalidated(by: fields)
    for key in keys { caching.cache.removeAll(ofURL: key, now: now) }
  }

  /// RFC 9111, 4.3.5.
  private func freshenByHead(_ caching: Caching, _ fields: MessageFields, _ worker: Worker) {
    guard let stored = caching.stored, worker.workspace.response.status == 200 else { return }
    let length = fields.combined("content-length").map { UInt64(String(decoding: $0, as: UTF8.self)) }
    let isSame = stored.head.isValidated(by: fields) && (length == nil || length == stored.content.length)
    if isSame { _ = freshen(stored, by: fields, caching, worker) } else { caching.cache.remove(stored) }
  }

  /// The stored answer with what the origin says of it now. It takes the place of what is stored, unless it forbids that.
  private func freshen(
    _ stored: StoredAnswer, by fields: MessageFields, _ caching: Caching, _ worker: Worker
  ) -> StoredAnswer {
    let fresh = stored.freshened(
      stored.head.freshened(
        by: fields, answering: caching.request, requested: caching.requested,
        received: worker.workspace.wallMilliseconds, targets: caching.cache.targets))
    let forbids = fresh.head.refusal(toStoreFor: caching.request, isStored: true) != nil
    if forbids { caching.cache.remove(stored) } else { caching.cache.replace(stored, by: fresh) }
    return fresh
  }

  /// A 304 to the cache's own condition.
  private func validated(
    _ stored: StoredAnswer, by fields: MessageFields, _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer,
    headBytes: Int, _ worker: Worker
  ) -> Bool {
    let mayKeep = worker.workspace.response.isPersistent && input.count == headBytes
    input.removeAll()
    guard stored.head.isValidated(by: fields) else {
      // About what it is nobody knows: what was stored goes, and the whole is asked for.
      caching.cache.remove(stored)
      caching.stored = nil
      caching.isValidating = false
      caching.awaitsHead = true
      dropUpstream(worker)
      session.exchange.askAgain(caching.head, &worker.workspace, &outputs)
      connect(fresh: false, worker)
      return true
    }
    let fresh = freshen(stored, by: fields, caching, worker)
    detach(line, keeps: mayKeep, worker)
    endFlight(caching, .answer(fresh, .revalidated), worker)
    serveOrAskAgain(fresh, .revalidated, "fwd-status=304", caching, worker)
    return true
  }

  /// The upstream has done its part.
  private func detach(_ line: Upstream, keeps: Bool, _ worker: Worker) {
    upstream = nil
    worker.workspace.pool.reclaim(&upstreamInput)
    line.owner = nil
    if keeps, outputs.toUpstream.isEmpty {
      worker.keep(line, idle: session.exchange.timeouts.upstreamIdleMilliseconds)
    } else {
      worker.close(line)
    }
  }

  /// Begins to store what comes, and to read it from there.
  private func store(
    _ head: StoredHead, _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer, headBytes: Int,
    _ limits: HeadLimits, _ worker: Worker
  ) {
    let framing = worker.workspace.response.framing
    let file = caching.cache.disk?.newFile()
    let answer = StoredAnswer(
      key: caching.key, url: caching.url, host: destination?.name ?? "", rule: session.exchange.rule?.name ?? "", head,
      Content(announced: announcedLength(worker.workspace.response), spills: file != nil), file: file)
    let terms = CacheFetch.Terms(
      framing: framing, mayKeep: worker.workspace.response.isPersistent,
      idleMilliseconds: session.exchange.timeouts.upstreamIdleMilliseconds,
      stallMilliseconds: session.exchange.timeouts.bodyStallMilliseconds, limits: limits)
    let replaced = caching.cache.insert(answer)
    caching.replaces = replaced
    input.consume(headBytes)
    let fetch = CacheFetch(line, answer, replacing: replaced, of: caching.cache, terms, worker)
    upstream = nil
    worker.workspace.pool.reclaim(&upstreamInput)
    // The first to read is counted before the fetch looks for readers.
    let isServed = serve(answer, .stored, worker, reads: false)
    endFlight(caching, .answer(answer, .stored), worker)
    fetch.begin(with: &input)
    if isServed { readUpstream(worker) }
  }

  // MARK: Failures

  /// What is stored stands in for an upstream that cannot be had. Whether it does.
  func cacheStandsIn(for kind: Problem.Kind, _ worker: Worker) -> Bool {
    guard let caching, let stored = caching.stored, kind.isAboutReachability else { return false }
    let now = worker.workspace.wallMilliseconds
    guard stored.head.standsInOffline(for: caching.request, at: now) else { return false }
    return standIn(stored, .offline, "detail=\(kind.token)", caching, worker)
  }

  /// The same where one that was had breaks off, or does not answer in time, before its answer has begun.
  func cacheStandsInForSilence(_ detail: String, _ worker: Worker) -> Bool {
    guard let caching, caching.awaitsHead, session.exchange.awaitsFinalHead, let stored = caching.stored else {
      return false
    }
    let now = worker.workspace.wallMilliseconds
    guard stored.head.standsInOffline(for: caching.request, at: now) else { return false }
    return standIn(stored, .offline, "detail=\(detail)", caching, worker)
  }

  private func standIn(
    _ stored: StoredAnswer, _ result: CacheResult, _ detail: String, _ caching: Caching, _ worker: Worker
  ) -> Bool {
    caching.awaitsHead = false
    guard serve(stored, result, detail: detail, worker) else { return false }
    endFlight(caching, .answer(stored, result), worker)
    return true
  }

  // MARK: Serving

  private func serveOrAskAgain(
    _ answer: StoredAnswer, _ result: CacheResult, _ detail: String, _ caching: Caching, _ worker: Worker
  ) {
    if serve(answer, result, detail: detail, worker) { return }
    // Purged meanwhile, with its content.
    caching.stored = nil
    caching.isValidating = false
    caching.awaitsHead = true
    session.exchange.askAgain(caching.head, &worker.workspace, &outputs)
    connect(fresh: false, worker)
  }

  /// Reads `answer` in place of an upstream; false: its content is gone. `reads`: at once.
  private func serve(
    _ answer: StoredAnswer, _ result: CacheResult, detail: String = "", _ worker: Worker, reads: Bool = true
  ) -> Bool {
    guard let caching else { return false }
    let destination = self.destination ?? acquireDestination(worker)
    self.destination = destination
    let slot = worker.occupy(.free)
    guard let stream = StoredStream(answer, for: caching.request, of: caching.cache, slot: slot, worker) else {
      worker.vacate(slot)
      return false
    }
    dropUpstream(worker)
    let upstream = Upstream(
      slot: slot, stream: ByteStream(stream, by: descriptor), address: peer, destination: destination,
      by: destination.via ?? worker.onlyDirect[0], over: .unknown)
    worker.destinations.retain(destination)
    worker.reoccupy(slot, .upstream(upstream))
    upstream.owner = self
    self.upstream = upstream
    upstreamSide.state.remove([.ended, .unwatched, .broken, .sawInput])
    awaitsRoom = false
    if result != .stored { caching.cache.disk?.touch(answer) }
    session.exchange.noteCache(result, status: status(of: answer, result, detail, caching, worker))
    session.exchange.answeredFromStore(now: worker.now, &worker.workspace, &outputs)
    if reads { readUpstream(worker) }
    return true
  }

  /// RFC 9211, 2.
  private func status(
    of answer: StoredAnswer, _ result: CacheResult, _ detail: String, _ caching: Caching, _ worker: Worker
  ) -> String {
    let left = answer.head.timeToLive(at: worker.workspace.wallMilliseconds)
    let forward = caching.forward?.rawValue ?? "uri-miss"
    switch result {
    case .hit: return "hit; ttl=\(left)"
    case .stale where detail.isEmpty: return "hit; ttl=\(left)"
    case .stale: return "fwd=\(forward); \(detail); ttl=\(left)"
    case .offline: return "hit; ttl=\(left); \(detail)"
    case .revalidated: return "fwd=\(forward); \(detail.isEmpty ? "collapsed" : detail); ttl=\(left)"
    case .collapsed: return "fwd=\(forward); collapsed; ttl=\(left)"
    case .stored: return "fwd=\(forward); stored; ttl=\(left)"
    case .miss: return "fwd=\(forward)"
    }
  }
}
