// What a cache has to do with the exchange under way: its request as a cache has to know it, what is stored for it, and the fetch
// that it leads or waits for.

import Bytes
import Cache
import HTTP1
import Policy
import Session

final class Caching {
  let cache: SharedCache
  let request: CacheRequest
  let key: CacheKey
  /// As the program asked for it.
  let url: [UInt8]
  /// The head as it leaves where the cache puts no condition to it.
  let head: [UInt8]
  /// Why the origin is asked; nil: it is not.
  var forward: Forward? = nil
  /// What is stored for the request, and has to be validated first, or stands in where the origin fails.
  var stored: StoredAnswer? = nil
  /// The disk has been asked, and whether its answer is still awaited.
  var hasAskedDisk = false
  var awaitsDisk = false
  /// A part is stored that does not hold all that the request asks for: what comes may go on from it.
  var part: StoredAnswer? = nil
  /// The request that leaves asks whether `stored` still holds.
  var isValidating = false
  /// The request that leaves asks for what is missing behind `part`, and the client for all of it.
  var asksForRest = false
  /// The next final head of the upstream is looked at.
  var awaitsHead = false
  /// When the request left, in milliseconds since 1970.
  var requested: Int64 = 0
  /// What the answer that it stores takes the place of.
  var replaces: ReplacedAnswers? = nil
  /// Others may wait for what comes of it.
  var leads: Flight? = nil
  /// It waits for what comes of another.
  var follows: Flight? = nil
  /// It has waited for an answer that is not for it.
  var hasFollowed = false

  init(_ cache: SharedCache, _ request: CacheRequest, _ key: CacheKey, url: [UInt8], head: [UInt8]) {
    self.cache = cache
    self.request = request
    self.key = key
    self.url = url
    self.head = head
  }

  /// Whether it may share a fetch with equal requests.
  var mayCollapse: Bool {
    request.method == .get && request.policy == .useProtocol && request.rule.collapse != .never && !hasFollowed
      && !request.directives.noCache && !request.isForPart && !request.isConditional && !request.isAuthorized
  }

  /// The time that ages are counted by.
  func time(_ worker: Worker) -> Int64 {
    cache.time(wall: worker.workspace.wallMilliseconds, monotonic: worker.now)
  }

  /// What was stored is of no use.
  func forgetStored() {
    stored = nil
    part = nil
    isValidating = false
    asksForRest = false
  }

  /// The head with the conditions of `stored` in place of the client's own, and without a range: what comes is whole, and the
  /// client's conditions and range are held against that. nil: it has nothing to validate by.
  func validatingHead() -> [UInt8]? {
    guard let conditions = stored?.head.conditions, !conditions.isEmpty else { return nil }
    return head(with: conditions)
  }

  /// The head that asks for what is missing behind `part`; nil: the request does not ask for the whole, or what is there cannot
  /// be gone on with.
  func headForRest() -> [UInt8]? {
    guard let part, !request.isForPart, let beginning = part.beginning() else { return nil }
    return head(with: part.head.conditions(forBytesFrom: beginning.count))
  }

  /// The head with other conditions, and another range, than the client's.
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

/// What comes of a fetch that others waited for.
enum FlightOutcome: Sendable {
  /// It is stored, or stands in for what could not be had.
  case answer(StoredAnswer, CacheResult)
  /// Nobody else gets what came.
  case unshared
  /// Whoever led it is gone: another does.
  case leaderless
  case failed(UpstreamFailure)
}

extension Worker {
  /// Gives up the place that one who waited had at the content that it waited for.
  func release(_ reader: Content.Reader, from outcome: FlightOutcome) {
    guard case .answer(let answer, _) = outcome else { return }
    let left = answer.content.leave(reader)
    if left.isLast || left.wakesFetch { shared.tellFetch(of: answer) }
  }
}

extension SharedState {
  /// A reader of what is being fetched has left, or has caught up.
  func tellFetch(of answer: StoredAnswer) {
    guard let fetch = answer.content.fetch else { return }
    mailboxes[fetch.worker].post(.readersMoved(slot: fetch.slot, generation: fetch.generation))
  }
}
