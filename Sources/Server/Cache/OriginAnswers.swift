// What the cache makes of what an origin answers, before the exchange sees it: it is stored, freshens what is stored, makes that
// invalid, or passes. And what stands in where it does not answer. Tests: Tests/EndToEndTests/test_cache_validation.py.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

extension Conversation {
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
    let now = caching.time(worker)
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
    if case .resumption(let fetch) = errand {
      resume(fetch, fields, caching, line, &input, headBytes: headBytes, limits, worker)
      return true
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
    // Of what was changed meanwhile nobody knows which of both it is.
    if caching.cache.with({ $0.wasChanged(caching.key, since: caching.requested) }) {
      if caching.asksForRest { return asksForWhole(caching, &input, worker) }
      endFlight(caching, .leaderless, worker)
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
    // What is missing was asked for, and the client wants all of it.
    if caching.asksForRest, status == 206 || status == 416 { return asksForWhole(caching, &input, worker) }
    return passesOn(caching, status, worker)
  }

  /// What is stored of what comes.
  private struct Storing {
    let answer: StoredAnswer
    /// Bytes that come and are there already.
    var known: UInt64 = 0
    /// What its file begins with stands in another.
    var adopted: (file: UInt64, count: UInt64)? = nil
  }

  /// nil: nothing is stored.
  private func storing(_ fields: MessageFields, _ caching: Caching, _ input: Span<UInt8>, _ worker: Worker) -> Storing?
  {
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
      // An origin may give another part than the one that was asked for.
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

  /// A part: behind one that is stored, where they meet, or as it is.
  private func part(
    _ range: ContentRange, of total: UInt64, _ fields: MessageFields, _ caching: Caching, _ worker: Worker
  ) -> Storing? {
    let now = caching.time(worker)
    // It is kept as the whole is that it is of.
    let head = StoredHead(
      status: 200, reason: Array("OK".utf8), fields, answering: caching.request, requested: caching.requested,
      received: now, wall: worker.workspace.wallMilliseconds,
      targets: caching.cache.targets)
    if head.refusal(toStoreFor: caching.request) != nil { return nil }
    let file = caching.cache.disk?.newFile()
    if let old = caching.part, let oldPart = old.part, let (beginning, known) = old.meets(range, fields),
      // What is in the old file alone goes into the new one.
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

  /// What was to be put together does not fit, or is gone: all of it is asked for.
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

  /// What came is not stored, and what was stored before it does not hold any more where it is another answer to the same request.
  private func passesOn(_ caching: Caching, _ status: Int, _ worker: Worker) -> Bool {
    let now = worker.now
    let isAnother = status < 500 && status != 206 && status != 304
    if isAnother, let stored = caching.stored ?? caching.part { caching.cache.remove(stored) }
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
    let isSame = stored.head.isValidated(by: fields) && (length == nil || length == stored.length)
    if isSame { _ = freshen(stored, by: fields, caching, worker) } else { caching.cache.remove(stored) }
  }

  /// The stored answer with what the origin says of it now. It takes the place of what is stored, unless it forbids that.
  private func freshen(
    _ stored: StoredAnswer, by fields: MessageFields, _ caching: Caching, _ worker: Worker
  ) -> StoredAnswer {
    let fresh = stored.freshened(
      stored.head.freshened(
        by: fields, answering: caching.request, requested: caching.requested,
        received: caching.time(worker), wall: worker.workspace.wallMilliseconds, targets: caching.cache.targets))
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
    // About what it is nobody knows: what was stored goes, and the whole is asked for.
    guard stored.head.isValidated(by: fields) else { return asksForWhole(caching, &input, worker) }
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
    _ storing: Storing, _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer, headBytes: Int,
    _ limits: HeadLimits, _ worker: Worker
  ) {
    let answer = storing.answer
    if let (file, count) = storing.adopted { caching.cache.disk?.adopt(answer, from: file, count: count) }
    let terms = terms(skipping: storing.known, limits, worker)
    let replaced = caching.cache.insert(answer)
    caching.replaces = replaced
    input.consume(headBytes)
    let fetch = CacheFetch(answer, replacing: replaced, of: caching.cache, worker)
    if session.exchange.resumesDownloads { fetch.repetition = Repetition(of: caching, by: self) }
    upstream = nil
    worker.workspace.pool.reclaim(&upstreamInput)
    // The first to read is counted before the fetch looks for readers.
    let isServed = serve(answer, .stored, worker, reads: false)
    endFlight(caching, .answer(answer, .stored), worker)
    fetch.begin(line, terms, with: &input)
    if isServed { readUpstream(worker) }
  }

  /// Whether the whole answer has come at once, and the client gets it as the origin sent it.
  private func isAllThere(_ storing: Storing, _ caching: Caching, _ count: Int, _ worker: Worker) -> Bool {
    guard worker.workspace.response.status != 206, case .length(let length) = worker.workspace.response.framing,
      length == UInt64(count)
    else { return false }
    return storing.answer.head.presentation(for: caching.request, length: length) == .whole
  }

  /// Stores what passes. There is nothing left to fetch, and so nobody who could be held up: the client gets the answer as if there
  /// were no store, for which a reader of its own and a second head would be more work than all the rest.
  private func storeCopy(of content: Span<UInt8>, _ answer: StoredAnswer, _ caching: Caching, _ worker: Worker) {
    _ = answer.content.append(content)
    _ = answer.content.finish()
    let replaced = caching.cache.insert(answer)
    caching.replaces = replaced
    replaced.accept()
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

  /// An answer to the question for the rest of a fetch that has broken off.
  private func resume(
    _ fetch: CacheFetch, _ fields: MessageFields, _ caching: Caching, _ line: Upstream, _ input: inout ByteBuffer,
    headBytes: Int, _ limits: HeadLimits, _ worker: Worker
  ) {
    errand = nil
    let status = worker.workspace.response.status
    let range = status == 206 ? ContentRange(fields) : nil
    if let range, announcedLength(worker.workspace.response) == UInt64(range.bytes.count), fetch.isContinued(by: range),
      fetch.answer.head.isSameRepresentation(as: fields)
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

  /// What is stored stands in for an upstream that cannot be had. Whether it does.
  func cacheStandsIn(for kind: Problem.Kind, _ worker: Worker) -> Bool {
    guard let caching, let stored = caching.stored, kind.isAboutReachability else { return false }
    let now = caching.time(worker)
    guard stored.head.standsInOffline(for: caching.request, at: now) else { return false }
    return standIn(stored, .offline, "detail=\(kind.token)", caching, worker)
  }

  /// The same where one that was had breaks off, or does not answer in time, before its answer has begun.
  func cacheStandsInForSilence(_ detail: String, _ worker: Worker) -> Bool {
    guard let caching, caching.awaitsHead, session.exchange.awaitsFinalHead, let stored = caching.stored else {
      return false
    }
    let now = caching.time(worker)
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
}
