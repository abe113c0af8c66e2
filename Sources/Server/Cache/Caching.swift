// What the cache does for the current exchange: its request as the cache sees it, what is stored for it, and the fetch
// that it leads or waits for. It decides; the conversation does what it says.
//
//   connect ─ stored and fresh ─────────────────────────────► StoredStream
//     ├ an equal request is under way ─ wait ─ its answer ──► StoredStream
//     └ ask the origin ─ 304 to our condition ──────────────► StoredStream, freshened
//                      ├ an answer that is stored ─ CacheFetch ► StoredStream, as it comes
//                      ├ it fails, and an old answer stands in ► StoredStream
//                      └ anything else passes as if there were no cache
//
// Before connecting: CacheLookUp.swift. When the origin answers: OriginAnswers.swift.

import Bytes
import Cache
import HTTP1
import Policy
import Session

final class Caching {
  /// Whether the disk was asked for what memory does not have.
  enum Disk { case unasked, awaited, asked }

  /// What the request that is sent asks the origin for.
  enum Question {
    /// What the client asks for.
    case whole
    /// Whether `stored` is still valid.
    case validity
    /// What is missing after `part`; the client asked for all of it.
    case rest
  }

  let cache: SharedCache
  let request: CacheRequest
  let key: CacheKey
  /// As the program asked for it.
  let url: [UInt8]
  /// The head as it leaves if the cache adds no condition.
  let head: [UInt8]
  /// The rule stores nothing: the request may only invalidate what others have stored.
  let isForeign: Bool
  /// Why the origin is asked; nil: it is not asked.
  var forward: Forward? = nil
  /// The answer that is stored for the request. It has to be validated first, or stands in if the origin fails.
  var stored: StoredAnswer? = nil
  var disk = Disk.unasked
  /// A stored part that does not contain all that the request asks for: the new answer may continue it.
  var part: StoredAnswer? = nil
  var question = Question.whole
  /// The next final head of the upstream goes to the cache.
  var awaitsHead = false
  /// When the request left, in milliseconds since 1970.
  private(set) var requested: Int64 = 0
  /// The answers that the new one replaces.
  var replaces: ReplacedAnswers? = nil
  var sharing: SharedFetch

  init(
    _ cache: SharedCache, _ request: CacheRequest, key: CacheKey, url: [UInt8], head: [UInt8],
    isForeign: Bool
  ) {
    self.cache = cache
    self.request = request
    self.key = key
    self.url = url
    self.head = head
    self.isForeign = isForeign
    sharing = SharedFetch(key, of: cache)
  }

  /// The time that ages are computed with.
  func time(_ worker: Worker) -> Int64 {
    cache.time(wall: worker.workspace.wallMilliseconds, monotonic: worker.now)
  }

  /// The request has a connection, and leaves.
  func sent(_ worker: Worker) {
    requested = time(worker)
    sharing.sent()
  }

  /// The stored answer is of no use.
  func forgetStored() {
    stored = nil
    part = nil
    question = .whole
  }

  /// The stored answer or part is of no use: removes it, and asks for all of it.
  func askForWhole() {
    if let stored = stored ?? part { cache.remove(stored) }
    forgetStored()
    awaitsHead = true
  }

  /// The stored answer was purged meanwhile, with its content.
  func askAgain() {
    forgetStored()
    awaitsHead = true
  }

  /// The answer is only for the client, and nothing of it is stored.
  func leaveToExchange(_ worker: Worker) {
    awaitsHead = false
    sharing.end(.unshared, worker)
  }

  // MARK: Failures

  /// The stored answer that stands in for an upstream that cannot be reached.
  func standIn(for kind: Problem.Kind, _ worker: Worker) -> StoredAnswer? {
    guard let stored else { return nil }
    let now = time(worker)
    let stands =
      kind.isOfReachedOrigin
      ? stored.head.standsInForError(of: request, at: now)
      : kind.isAboutReachability && stored.head.standsInOffline(for: request, at: now)
    return stands ? stored : nil
  }

  /// The same for an upstream that was reached, but breaks off, is silent for too long or says something malformed
  /// before its answer begins.
  func standInForSilence(_ worker: Worker) -> StoredAnswer? {
    guard awaitsHead, let stored, stored.head.standsInForError(of: request, at: time(worker)) else { return nil }
    return stored
  }

  /// `stored` stands in. Called before it is served: a short answer ends the exchange at once.
  func standsIn(_ stored: StoredAnswer, _ result: CacheResult, on worker: Worker) {
    awaitsHead = false
    sharing.end(.answer(stored, result), worker)
  }

  // MARK: The end

  /// The exchange has ended, in whatever way. `refused`: a rule refuses its answer, which came from `stream` if it was
  /// stored before; such an answer is not kept.
  func end(refused: Bool, from stream: StoredStream?, _ result: CacheResult?) {
    if refused {
      if let replaces {
        replaces.refuse()
      } else if let stream {
        cache.remove(stream.answer)
      }
    } else {
      replaces?.accept()
    }
    if let result { cache.count(result) }
  }

  // MARK: What it reports

  /// RFC 9211, 2.
  func status(of answer: StoredAnswer, _ result: CacheResult, detail: String, _ worker: Worker) -> String {
    let now = time(worker)
    // The age of an answer from before a restart with another clock is unknown.
    let left =
      answer.head.age(at: now) == nil ? "" : "; ttl=\(answer.head.timeToLive(at: now, by: request.rule))"
    let forward = forward?.rawValue ?? "uri-miss"
    switch result {
    case .hit: return "hit\(left)"
    case .stale where detail.isEmpty: return "hit\(left)"
    case .stale: return "fwd=\(forward); \(detail)\(left)"
    case .offline: return "hit\(left); \(detail)"
    case .revalidated: return "fwd=\(forward); \(detail.isEmpty ? "collapsed" : detail)\(left)"
    case .collapsed: return "fwd=\(forward); collapsed\(left)"
    case .stored: return "fwd=\(forward); stored\(left)"
    case .miss: return "fwd=\(forward)"
    }
  }

  // MARK: Heads

  /// The head with the conditions of `stored` in place of the client's own, and without a range. So the whole comes,
  /// and the client's conditions and range are applied to that. nil: `stored` has no validator.
  func validatingHead() -> [UInt8]? {
    guard let conditions = stored?.head.conditions, !conditions.isEmpty else { return nil }
    return head(with: conditions)
  }

  /// The head that asks for what is missing after `part`; nil: the request does not ask for the whole, or what is there
  /// cannot be continued.
  func headForRest() -> [UInt8]? {
    guard let part, !request.isForPart, let beginning = part.beginning() else { return nil }
    return head(with: part.head.conditions(forBytesFrom: beginning.count))
  }

  /// The head with other conditions and another range than the client's.
  func head(with conditions: [UInt8]) -> [UInt8] {
    var kept: [UInt8] = []
    for line in head.split(separator: 0x0a, omittingEmptySubsequences: true) where line != [0x0d] {
      let name = line.prefix { $0 != 0x3a }.map(\.asciiLowercased)
      if Self.replaced.contains(name) { continue }
      kept += line
      kept.append(0x0a)
    }
    return kept + conditions + [0x0d, 0x0a]
  }

  private static let replaced = Set(
    ["if-none-match", "if-modified-since", "if-range", "range"].map { Array($0.utf8) })
}
