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
}
