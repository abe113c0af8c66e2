// What the cache does with an origin's answer before the exchange sees it: stores it, freshens what is stored,
// invalidates that, or lets the answer pass. Tests: Tests/EndToEndTests/test_cache_validation.py.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

/// The head of an answer. Its framing is in `Workspace.response`.
struct OriginAnswer {
  let status: Int
  let fields: MessageFields
  /// Bytes of the head in the input.
  let headBytes: Int
  /// The name of the host that gives it.
  let host: String
  /// The name of the rule that stores it.
  let rule: String
  /// A certificate passes only because nothing is enforced. Once it is, the store would go on serving the answer.
  let isDoubtful: Bool
}

extension ResponseHead {
  /// How long the content is, if the head says it.
  var announcedLength: UInt64? {
    switch framing {
    case .length(let length): length
    case .none: 0
    case .chunked, .untilClose: nil
    }
  }
}

extension Caching {
  /// What the conversation does next with an answer.
  enum AnswerStep {
    /// The exchange sees it. `status`: it has been stored, and this is reported of it.
    case pass(status: String?)
    /// Serves this older answer in its place. If that is gone, asks once more, without it.
    case standIn(StoredAnswer, detail: String)
    /// The stored answer is still valid: serves it, freshened. `isForAll`: also to those that wait for the fetch.
    case serve(StoredAnswer, isForAll: Bool)
    /// It does not fit what is stored: asks for all of it.
    case askForWhole
    /// Stores it, and reads it from the store.
    case store(Storing)
  }

  /// How much of the answer is stored.
  struct Storing {
    let answer: StoredAnswer
    /// Bytes of the answer that are already stored.
    var known: UInt64 = 0
    /// The beginning of its file is in another file.
    var adopted: (file: UInt64, count: UInt64)? = nil
  }

  /// `input`: what has come so far, from the head on. `hasStandIn`: an older answer may stand in for it.
  func take(_ answer: OriginAnswer, _ input: Span<UInt8>, hasStandIn: Bool = true, on worker: Worker) -> AnswerStep {
    let now = time(worker)
    let status = answer.status
    awaitsHead = false
    switch request.method {
    case .unsafe, .safe:
      if (200..<400).contains(status) { invalidate(answer.fields, worker) }
      // The exchange may answer a challenge.
      awaitsHead = status == 401
      return .pass(status: nil)
    case .head:
      freshenByHead(answer, worker)
      return .pass(status: nil)
    case .get: break
    }
    if status == 304, question == .validity, let stored {
      // Otherwise it is unclear what the 304 is about: the stored answer is removed, and the whole is asked for.
      guard stored.head.isValidated(by: answer.fields) else { return .askForWhole }
      let (fresh, isForAll) = freshen(stored, by: answer, worker)
      return .serve(fresh, isForAll: isForAll)
    }
    if hasStandIn, status >= 500, let stored, stored.head.standsInForError(of: request, at: now) {
      return .standIn(stored, detail: "fwd-status=\(status)")
    }
    // If the resource was changed meanwhile, the answer may be from before or after the change.
    if cache.with({ $0.wasChanged(key, since: requested) }) {
      if question == .rest { return .askForWhole }
      sharing.end(.leaderless, worker)
      return .pass(status: nil)
    }
    let kept = stored ?? part
    if status >= 500, kept?.head.bridgesFailures(by: request.rule, at: now) ?? false {
      leaveToExchange(worker)
      return .pass(status: nil)
    }
    if let storing = storing(answer, input, on: worker) {
      let content = input.extracting(answer.headBytes..<input.count)
      if !isAllThere(storing, content.count, on: worker) { return .store(storing) }
      return .pass(status: storeCopy(of: content, storing.answer, worker))
    }
    // Only the rest was asked for, and the client wants all of it.
    if question == .rest, status == 206 || status == 416 { return .askForWhole }
    passOn(status, now: worker.now)
    sharing.end(.unshared, worker)
    return .pass(status: nil)
  }

  // MARK: Storing

  /// nil: nothing is stored.
  private func storing(_ answer: OriginAnswer, _ input: Span<UInt8>, on worker: Worker) -> Storing? {
    if answer.isDoubtful { return nil }
    let announced = worker.workspace.response.announcedLength
    let longest = cache.longestContent(spills: cache.disk?.isWriting ?? false)
    if let announced, announced > longest { return nil }
    if answer.status == 206 {
      guard let range = ContentRange(answer.fields), let total = range.total,
        announced == UInt64(range.bytes.count), let storing = part(range, of: total, answer, on: worker),
        storing.answer.content.announced.map({ $0 <= longest }) ?? false
      else { return nil }
      // An origin may send another part than the requested one.
      let head = storing.answer.head
      let asked = Presentation(of: head, for: request, length: total)
      return storing.answer.holds(asked, for: request) ? storing : nil
    }
    let reason = input.extracting(worker.workspace.response.reason).array
    guard let head = head(status: answer.status, reason: reason, answer, worker) else { return nil }
    let file = cache.disk?.newFile()
    return Storing(
      answer: stored(head, Content(announced: announced, spills: file != nil), file: file, by: answer))
  }

  /// nil: such an answer must not be stored.
  private func head(status: Int, reason: [UInt8], _ answer: OriginAnswer, _ worker: Worker) -> StoredHead? {
    let head = StoredHead(
      status: status, reason: reason, answer.fields, answering: request, requested: requested, received: time(worker),
      wall: worker.workspace.wallMilliseconds, targets: cache.targets)
    return head.refusal(toStoreFor: request) == nil ? head : nil
  }

  private func stored(
    _ head: StoredHead, _ content: Content, part: StoredPart? = nil, file: UInt64?, by origin: OriginAnswer
  ) -> StoredAnswer {
    StoredAnswer(
      key: key, url: url, host: origin.host, rule: origin.rule, head, content, part: part, file: file)
  }

  /// Stores a part: joined to a stored part if they meet, or else by itself.
  private func part(
    _ range: ContentRange, of total: UInt64, _ answer: OriginAnswer, on worker: Worker
  ) -> Storing? {
    // It is kept as the whole that it belongs to would be.
    guard let head = head(status: 200, reason: Array("OK".utf8), answer, worker) else { return nil }
    let file = cache.disk?.newFile()
    if let old = part, let oldPart = old.part, let (beginning, known) = old.meets(range, answer.fields),
      // Bytes that are only in the old file go into the new one.
      beginning.written == 0 || old.file != nil && file != nil
    {
      let count = range.bytes.upperBound - oldPart.offset
      let content = Content(beginning, announced: count, spills: file != nil)
      return Storing(
        answer: stored(
          freshened(old.head, by: answer.fields, worker), content, part: count == total ? nil : oldPart, file: file,
          by: answer),
        known: known, adopted: beginning.written > 0 ? old.file.map { ($0, beginning.written) } : nil)
    }
    let content = Content(announced: UInt64(range.bytes.count), spills: file != nil)
    return Storing(
      answer: stored(
        head, content, part: StoredPart(offset: range.bytes.lowerBound, total: total), file: file, by: answer))
  }

  /// Begins to store an answer: what fetches the rest of it.
  func beginFetch(_ storing: Storing, _ worker: Worker) -> CacheFetch {
    let answer = storing.answer
    if let (file, count) = storing.adopted { cache.disk?.adopt(answer, from: file, count: count) }
    return CacheFetch(answer, replacing: insert(answer, worker), of: cache, worker)
  }

  private func insert(_ answer: StoredAnswer, _ worker: Worker) -> ReplacedAnswers {
    let replaced = cache.insert(answer)
    replaces = replaced
    // Neither this one nor a 304 about it will serve two requests.
    if answer.head.conditions.isEmpty, case .ask = answer.head.reuse(for: request, at: time(worker)) {
      cache.with { $0.noteUnstorable(key, now: worker.now) }
    }
    return replaced
  }

  /// Whether the whole answer has come at once, and the client gets it as the origin sent it.
  private func isAllThere(_ storing: Storing, _ count: Int, on worker: Worker) -> Bool {
    guard worker.workspace.response.status != 206, case .length(let length) = worker.workspace.response.framing,
      length == UInt64(count)
    else { return false }
    return Presentation(of: storing.answer.head, for: request, length: length) == .whole
  }

  /// Stores what passes, and returns what is reported of it. Nothing is left to fetch, so no one can be held up, and
  /// the client gets the answer as if there were no store. A reader of its own and a second head would be more work
  /// than all the rest.
  private func storeCopy(of content: Span<UInt8>, _ answer: StoredAnswer, _ worker: Worker) -> String {
    _ = answer.content.append(content)
    _ = answer.content.finish()
    insert(answer, worker).accept()
    if answer.file != nil { cache.disk?.write(answer) }
    let status = status(of: answer, .stored, detail: "", worker)
    sharing.end(.answer(answer, .stored), worker)
    return status
  }

  // MARK: What it changes

  /// The answer is not stored. If it is another answer to the same request, the one stored before is no longer valid.
  private func passOn(_ status: Int, now: Int64) {
    let isAnother = status < 500 && status != 206 && status != 304
    if isAnother, let stored = stored ?? part { cache.remove(stored) }
    if status != 304, status != 206 { cache.with { $0.noteUnstorable(key, now: now) } }
  }

  /// RFC 9111, 4.4: what an unsafe request has changed, and what its answer names at the same origin.
  private func invalidate(_ fields: MessageFields, _ worker: Worker) {
    for key in key.invalidated(by: fields) {
      cache.removeAll(ofResource: key)
      // A reload may have replaced the store since the request began.
      if let present = worker.shared.cache, present !== cache { present.removeAll(ofResource: key) }
    }
  }

  /// RFC 9111, 4.3.5.
  private func freshenByHead(_ answer: OriginAnswer, _ worker: Worker) {
    guard let stored, answer.status == 200 else { return }
    let length = answer.fields.combined("content-length").map { UInt64(String(decoding: $0, as: UTF8.self)) }
    let isSame = stored.head.isValidated(by: answer.fields) && (length == nil || length == stored.length)
    if isSame { _ = freshen(stored, by: answer, worker) } else { cache.remove(stored) }
  }

  /// The stored answer with the new fields from the origin. It replaces what is stored, unless it forbids that.
  private func freshen(
    _ stored: StoredAnswer, by answer: OriginAnswer, _ worker: Worker
  ) -> (answer: StoredAnswer, isForAll: Bool) {
    let fresh = stored.freshened(freshened(stored.head, by: answer.fields, worker))
    let forbids = answer.isDoubtful || fresh.head.refusal(toStoreFor: request, isStored: true) != nil
    if forbids { cache.remove(stored) } else { cache.replace(stored, by: fresh) }
    return (fresh, !forbids)
  }

  private func freshened(_ head: StoredHead, by fields: MessageFields, _ worker: Worker) -> StoredHead {
    head.freshened(
      by: fields, answering: request, requested: requested, received: time(worker),
      wall: worker.workspace.wallMilliseconds, targets: cache.targets)
  }
}
