// The state of the cache for the current exchange: its request as the cache sees it, what is stored for it, and the
// fetch that it leads or waits for.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

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
  var requested: Int64 = 0
  /// The answers that the new one replaces.
  var replaces: ReplacedAnswers? = nil
  /// The flight that it leads: others may wait for its outcome.
  var leads: Flight? = nil
  /// The flight of another exchange that it waits for.
  var follows: Flight? = nil
  /// It waited for an answer that does not fit its request.
  private(set) var hasFollowed = false

  init(_ cache: SharedCache, _ request: CacheRequest, _ key: CacheKey, url: [UInt8], head: [UInt8], isForeign: Bool) {
    self.cache = cache
    self.request = request
    self.key = key
    self.url = url
    self.head = head
    self.isForeign = isForeign
  }

  /// Whether it may share a fetch with equal requests.
  var mayCollapse: Bool {
    request.method == .get && request.policy == .useProtocol && request.rule.collapse != .never && !hasFollowed
      && !request.directives.noCache && !request.isForPart && !request.isConditional && !request.isAuthorized
  }

  /// What it waited for is not for its request: it waits for no other.
  func followsNoMore() { hasFollowed = true }

  /// The time that ages are computed with.
  func time(_ worker: Worker) -> Int64 {
    cache.time(wall: worker.workspace.wallMilliseconds, monotonic: worker.now)
  }

  /// The stored answer is of no use.
  func forgetStored() {
    stored = nil
    part = nil
    question = .whole
  }

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

/// The outcome of a fetch that others waited for.
enum FlightOutcome: Sendable {
  /// It is stored, or another answer stands in for it.
  case answer(StoredAnswer, CacheResult)
  /// Only the first client gets the answer.
  case unshared
  /// The exchange that led it is gone: another one takes over.
  case leaderless
  case failed(UpstreamFailure)

  /// Gives up the place that a waiter had at the content.
  func release(_ reader: Content.Reader, _ mailboxes: [Mailbox<WorkerMessage>]) {
    guard case .answer(let answer, _) = self else { return }
    let left = answer.content.leave(reader)
    if left.isLast || left.wakesFetch { answer.wakeFetch(mailboxes) }
  }
}

extension StoredAnswer {
  /// A reader has left, or has caught up: the fetch in one of the loops is told, if it is under way.
  func wakeFetch(_ mailboxes: [Mailbox<WorkerMessage>]) {
    guard let fetch = content.fetch else { return }
    mailboxes[fetch.worker].post(.readersMoved(slot: fetch.slot, generation: fetch.generation))
  }
}
