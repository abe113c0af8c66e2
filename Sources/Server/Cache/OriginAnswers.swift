// What the cache does with an origin's answer before the exchange sees it: stores it, freshens what is stored,
// invalidates that, or lets the answer pass. And what stands in if the origin does not answer. Tests:
// Tests/EndToEndTests/test_cache_validation.py.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

extension Conversation {
  /// Looks at what the upstream has sent before the exchange does. Returns whether that is dealt with.
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

  /// The answer is only for the client, and nothing of it is stored.
  private func leaveToExchange(_ caching: Caching, _ worker: Worker) {
    caching.awaitsHead = false
    endFlight(caching, .unshared, worker)
  }

  private func takesHead(
    _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer, headBytes: Int, _ limits: HeadLimits,
    _ worker: Worker
  ) -> Bool {
    let status = worker.workspace.response.status
    let now = caching.time(worker)
    let fields = MessageFields(worker.workspace.response.fields, input.bytes)
    caching.awaitsHead = false
    switch caching.request.method {
    case .unsafe, .safe:
      if (200..<400).contains(status) { invalidate(caching, fields, worker) }
      // The exchange may answer a challenge.
      caching.awaitsHead = status == 401
      return false
    case .head:
      freshenByHead(caching, fields, worker)
      return false
    case .get: break
    }
    if case .resumption(let fetch) = errand {
      resume(fetch, fields, caching, line, &input, headBytes: headBytes, limits, worker)
      return true
    }
    if status == 304, caching.question == .validity, let stored = caching.stored {
      return validated(stored, by: fields, caching, line, &input, headBytes: headBytes, worker)
    }
    if status >= 500, let stored = caching.stored, stored.head.standsInForError(of: caching.request, at: now),
      standIn(stored, .stale, "fwd-status=\(status)", caching, worker)
    {
      input.removeAll()
      return true
    }
    // If the resource was changed meanwhile, the answer may be from before or after the change.
    if caching.cache.with({ $0.wasChanged(caching.key, since: caching.requested) }) {
      if caching.question == .rest { return asksForWhole(caching, &input, worker) }
      endFlight(caching, .leaderless, worker)
      return false
    }
    let kept = caching.stored ?? caching.part
    if status >= 500, kept?.head.bridgesFailures(by: caching.request.rule, at: now) ?? false {
      leaveToExchange(caching, worker)
      return false
    }
    if let storing = storing(fields, caching, input.bytes, worker) {
      if isAllThere(storing, caching, input.count - headBytes, worker) {
        storeCopy(of: input.bytes.extracting(headBytes..<input.count), storing.answer, caching, worker)
        return false
      }
      store(storing, caching, line, &input, headBytes: headBytes, limits, worker)
      return true
    }
    // Only the rest was asked for, and the client wants all of it.
    if caching.question == .rest, status == 206 || status == 416 { return asksForWhole(caching, &input, worker) }
    return passesOn(caching, status, worker)
  }

  /// How much of the answer is stored.
  private struct Storing {
    let answer: StoredAnswer
    /// Bytes of the answer that are already stored.
    var known: UInt64 = 0
    /// The beginning of its file is in another file.
    var adopted: (file: UInt64, count: UInt64)? = nil
  }

  /// nil: nothing is stored.
  private func storing(_ fields: MessageFields, _ caching: Caching, _ input: Span<UInt8>, _ worker: Worker) -> Storing?
  {
    // A certificate that passes only because nothing is enforced: once it is, the store would go on serving the answer.
    if upstream?.isDoubtful ?? false { return nil }
    let status = worker.workspace.response.status
    let announced = announcedLength(worker.workspace.response)
    let disk = caching.cache.disk
    let longest = caching.cache.longestContent(spills: disk?.isWriting ?? false)
    if let announced, announced > longest { return nil }
    if status == 206 {
      guard let range = ContentRange(fields), let total = range.total, announced == UInt64(range.bytes.count),
        let storing = part(range, of: total, fields, caching, worker),
        storing.answer.content.announced.map({ $0 <= longest }) ?? false
      else { return nil }
      // An origin may send another part than the requested one.
      let head = storing.answer.head
      let asked = head.presentation(for: caching.request, length: total)
      return storing.answer.holds(asked, for: caching.request) ? storing : nil
    }
    let head = StoredHead(
      status: status, reason: input.extracting(worker.workspace.response.reason).array, fields,
      answering: caching.request, requested: caching.requested, received: caching.time(worker),
      wall: worker.workspace.wallMilliseconds,
      targets: caching.cache.targets)
    if head.refusal(toStoreFor: caching.request) != nil { return nil }
    let file = disk?.newFile()
    return Storing(answer: answer(head, Content(announced: announced, spills: file != nil), file: file, caching))
  }

  private func answer(
    _ head: StoredHead, _ content: Content, part: StoredPart? = nil, file: UInt64?, _ caching: Caching
  ) -> StoredAnswer {
    StoredAnswer(
      key: caching.key, url: caching.url, host: destination?.name ?? "", rule: session.exchange.rule?.name ?? "", head,
      content, part: part, file: file)
  }

  /// Stores a part: joined to a stored part if they meet, or else by itself.
  private func part(
    _ range: ContentRange, of total: UInt64, _ fields: MessageFields, _ caching: Caching, _ worker: Worker
  ) -> Storing? {
    let now = caching.time(worker)
    // It is kept as the whole that it belongs to would be.
    let head = StoredHead(
      status: 200, reason: Array("OK".utf8), fields, answering: caching.request, requested: caching.requested,
      received: now, wall: worker.workspace.wallMilliseconds,
      targets: caching.cache.targets)
    if head.refusal(toStoreFor: caching.request) != nil { return nil }
    let file = caching.cache.disk?.newFile()
    if let old = caching.part, let oldPart = old.part, let (beginning, known) = old.meets(range, fields),
      // Bytes that are only in the old file go into the new one.
      beginning.written == 0 || old.file != nil && file != nil
    {
      let fresh = old.head.freshened(
        by: fields, answering: caching.request, requested: caching.requested, received: now,
        wall: worker.workspace.wallMilliseconds,
        targets: caching.cache.targets)
      let count = range.bytes.upperBound - oldPart.offset
      let content = Content(beginning, announced: count, spills: file != nil)
      let isWhole = count == total
      return Storing(
        answer: answer(fresh, content, part: isWhole ? nil : oldPart, file: file, caching), known: known,
        adopted: beginning.written > 0 ? old.file.map { ($0, beginning.written) } : nil)
    }
    let content = Content(announced: UInt64(range.bytes.count), spills: file != nil)
    return Storing(
      answer: answer(
        head, content, part: StoredPart(offset: range.bytes.lowerBound, total: total), file: file, caching))
  }

  /// The parts do not fit together, or one is gone: asks for all of it.
  private func asksForWhole(_ caching: Caching, _ input: inout ByteBuffer, _ worker: Worker) -> Bool {
    input.removeAll()
    if let stored = caching.stored ?? caching.part { caching.cache.remove(stored) }
    caching.forgetStored()
    caching.awaitsHead = true
    dropUpstream(worker)
    session.exchange.askAgain(caching.head, &worker.workspace, &outputs)
    connect(fresh: false, worker)
    return true
  }

  private func announcedLength(_ head: borrowing ResponseHead) -> UInt64? {
    switch head.framing {
    case .length(let length): length
    case .none: 0
    case .chunked, .untilClose: nil
    }
  }

  /// The answer is not stored. If it is another answer to the same request, the one stored before is no longer valid.
  private func passesOn(_ caching: Caching, _ status: Int, _ worker: Worker) -> Bool {
    let now = worker.now
    let isAnother = status < 500 && status != 206 && status != 304
    if isAnother, let stored = caching.stored ?? caching.part { caching.cache.remove(stored) }
    if status != 304, status != 206 { caching.cache.with { $0.noteUnstorable(caching.key, now: now) } }
    endFlight(caching, .unshared, worker)
    return false
  }

  /// RFC 9111, 4.4: what an unsafe request has changed, and what its answer names at the same origin.
  private func invalidate(_ caching: Caching, _ fields: MessageFields, _ worker: Worker) {
    let now = caching.time(worker)
    for key in caching.key.invalidated(by: fields) {
      caching.cache.removeAll(ofResource: key, now: now)
      // A reload may have replaced the store since the request began.
      if let present = worker.shared.cache, present !== caching.cache { present.removeAll(ofResource: key, now: now) }
    }
  }

  /// RFC 9111, 4.3.5.
  private func freshenByHead(_ caching: Caching, _ fields: MessageFields, _ worker: Worker) {
    guard let stored = caching.stored, worker.workspace.response.status == 200 else { return }
    let length = fields.combined("content-length").map { UInt64(String(decoding: $0, as: UTF8.self)) }
    let isSame = stored.head.isValidated(by: fields) && (length == nil || length == stored.length)
    if isSame { _ = freshen(stored, by: fields, caching, worker) } else { caching.cache.remove(stored) }
  }

  /// The stored answer with the new fields from the origin. It replaces what is stored, unless it forbids that.
  private func freshen(
    _ stored: StoredAnswer, by fields: MessageFields, _ caching: Caching, _ worker: Worker
  ) -> (answer: StoredAnswer, isForAll: Bool) {
    let fresh = stored.freshened(
      stored.head.freshened(
        by: fields, answering: caching.request, requested: caching.requested,
        received: caching.time(worker), wall: worker.workspace.wallMilliseconds, targets: caching.cache.targets))
    let forbids =
      upstream?.isDoubtful ?? false || fresh.head.refusal(toStoreFor: caching.request, isStored: true) != nil
    if forbids { caching.cache.remove(stored) } else { caching.cache.replace(stored, by: fresh) }
    return (fresh, !forbids)
  }

  /// A 304 to the cache's own condition.
  private func validated(
    _ stored: StoredAnswer, by fields: MessageFields, _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer,
    headBytes: Int, _ worker: Worker
  ) -> Bool {
    let mayKeep = worker.workspace.response.isPersistent && input.count == headBytes
    input.removeAll()
    // It is unclear what the 304 is about: the stored answer is removed, and the whole is asked for.
    guard stored.head.isValidated(by: fields) else { return asksForWhole(caching, &input, worker) }
    let (fresh, isForAll) = freshen(stored, by: fields, caching, worker)
    detach(line, keeps: mayKeep, worker)
    // What the 304 adds and forbids to store is for one client, like such an answer.
    endFlight(caching, isForAll ? .answer(fresh, .revalidated) : .unshared, worker)
    serveOrAskAgain(fresh, .revalidated, "fwd-status=304", caching, worker)
    return true
  }

  /// The upstream has done its part.
  private func detach(_ line: Upstream, keeps: Bool, _ worker: Worker) {
    upstream = nil
    worker.workspace.pool.reclaim(&upstreamInput)
    line.owner = nil
    if keeps, outputs.toUpstream.isEmpty {
      worker.upstreams.keep(line, idle: session.exchange.timeouts.upstreamIdleMilliseconds, worker)
    } else {
      worker.upstreams.close(line, worker)
    }
  }

  /// Begins to store the answer, and to read it from the store.
  private func store(
    _ storing: Storing, _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer, headBytes: Int,
    _ limits: HeadLimits, _ worker: Worker
  ) {
    let answer = storing.answer
    if let (file, count) = storing.adopted { caching.cache.disk?.adopt(answer, from: file, count: count) }
    let terms = terms(skipping: storing.known, limits, worker)
    let replaced = insert(answer, caching, worker)
    input.consume(headBytes)
    let fetch = CacheFetch(answer, replacing: replaced, of: caching.cache, worker)
    if session.exchange.resumesDownloads { fetch.repetition = Repetition(of: caching, by: self) }
    upstream = nil
    worker.workspace.pool.reclaim(&upstreamInput)
    // The first reader is counted before the fetch looks for readers.
    let isServed = serve(answer, .stored, worker, reads: false)
    endFlight(caching, .answer(answer, .stored), worker)
    fetch.begin(line, terms, with: &input)
    if isServed { readUpstream(worker) }
  }

  private func insert(_ answer: StoredAnswer, _ caching: Caching, _ worker: Worker) -> ReplacedAnswers {
    let replaced = caching.cache.insert(answer)
    caching.replaces = replaced
    // Neither this one nor a 304 about it will serve two requests.
    if answer.head.conditions.isEmpty,
      case .ask = answer.head.reuse(for: caching.request, at: caching.time(worker))
    {
      caching.cache.with { $0.noteUnstorable(caching.key, now: worker.now) }
    }
    return replaced
  }

  /// Whether the whole answer has come at once, and the client gets it as the origin sent it.
  private func isAllThere(_ storing: Storing, _ caching: Caching, _ count: Int, _ worker: Worker) -> Bool {
    guard worker.workspace.response.status != 206, case .length(let length) = worker.workspace.response.framing,
      length == UInt64(count)
    else { return false }
    return storing.answer.head.presentation(for: caching.request, length: length) == .whole
  }

  /// Stores what passes. Nothing is left to fetch, so no one can be held up, and the client gets the answer as if there
  /// were no store. A reader of its own and a second head would be more work than all the rest.
  private func storeCopy(of content: Span<UInt8>, _ answer: StoredAnswer, _ caching: Caching, _ worker: Worker) {
    _ = answer.content.append(content)
    _ = answer.content.finish()
    insert(answer, caching, worker).accept()
    if answer.file != nil { caching.cache.disk?.write(answer) }
    session.exchange.noteCache(.stored, status: status(of: answer, .stored, "", caching, worker))
    endFlight(caching, .answer(answer, .stored), worker)
  }

  private func terms(skipping known: UInt64, _ limits: HeadLimits, _ worker: Worker) -> CacheFetch.Terms {
    CacheFetch.Terms(
      framing: worker.workspace.response.framing, known: known, mayKeep: worker.workspace.response.isPersistent,
      idleMilliseconds: session.exchange.timeouts.upstreamIdleMilliseconds,
      stallMilliseconds: session.exchange.timeouts.bodyStallMilliseconds, limits: limits)
  }

  /// The answer to a request for the rest of a fetch that broke off.
  private func resume(
    _ fetch: CacheFetch, _ fields: MessageFields, _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer,
    headBytes: Int, _ limits: HeadLimits, _ worker: Worker
  ) {
    errand = nil
    let status = worker.workspace.response.status
    let range = status == 206 ? ContentRange(fields) : nil
    if let range, announcedLength(worker.workspace.response) == UInt64(range.bytes.count), fetch.isContinued(by: range),
      fetch.answer.head.isSameRepresentation(as: fields), !line.isDoubtful
    {
      let terms = terms(skipping: 0, limits, worker)
      input.consume(headBytes)
      upstream = nil
      worker.workspace.pool.reclaim(&upstreamInput)
      fetch.goOn(line, terms, with: &input)
    } else {
      input.removeAll()
      fetch.couldNotGoOn(mayTryAgain: status >= 500)
    }
    perform(session.clientFailed(), worker)
  }

  // MARK: Failures

  /// A stored answer stands in for an upstream that cannot be reached. Returns whether there is one.
  func cacheStandsIn(for kind: Problem.Kind, _ worker: Worker) -> Bool {
    guard let caching, let stored = caching.stored else { return false }
    let now = caching.time(worker)
    let stands =
      kind.isOfReachedOrigin
      ? stored.head.standsInForError(of: caching.request, at: now)
      : kind.isAboutReachability && stored.head.standsInOffline(for: caching.request, at: now)
    return stands && standIn(stored, .offline, "detail=\(kind.token)", caching, worker)
  }

  /// The same for an upstream that was reached, but breaks off, is silent for too long or says something malformed
  /// before its answer begins. `isForAll`: those that wait for the fetch get it too, otherwise they ask for themselves.
  func cacheStandsInForSilence(_ detail: String, isForAll: Bool = true, _ worker: Worker) -> Bool {
    guard let caching, caching.awaitsHead, session.exchange.awaitsFinalHead, let stored = caching.stored else {
      return false
    }
    let now = caching.time(worker)
    guard stored.head.standsInForError(of: caching.request, at: now) else { return false }
    if !isForAll { endFlight(caching, .leaderless, worker) }
    return standIn(stored, .offline, "detail=\(detail)", caching, worker)
  }

  private func standIn(
    _ stored: StoredAnswer, _ result: CacheResult, _ detail: String, _ caching: Caching, _ worker: Worker
  ) -> Bool {
    caching.awaitsHead = false
    // Before it is served: a short answer ends the exchange at once.
    endFlight(caching, .answer(stored, result), worker)
    return serve(stored, result, detail: detail, worker)
  }
}
