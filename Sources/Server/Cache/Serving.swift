// A stored answer takes the place of an upstream. Tests: Tests/EndToEndTests/test_cache.py.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Transport

extension Conversation {
  func serveOrAskAgain(
    _ answer: StoredAnswer, _ result: CacheResult, _ detail: String, _ caching: Caching, _ worker: Worker
  ) {
    if serve(answer, result, detail: detail, worker) { return }
    // It was purged meanwhile, with its content.
    caching.forgetStored()
    caching.awaitsHead = true
    session.exchange.askAgain(caching.head, &worker.workspace, &outputs)
    connect(fresh: false, worker)
  }

  /// Reads `answer` in place of an upstream; false: its content is gone. `reads`: whether to read at once.
  func serve(
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
      by: destination.via ?? worker.routes.direct, over: .unknown)
    worker.upstreams.retain(destination)
    worker.reoccupy(slot, .upstream(upstream))
    upstream.owner = self
    self.upstream = upstream
    upstreamSide.state.remove([.ended, .unwatched, .broken, .sawInput])
    awaitsRoom = false
    if result != .stored { caching.cache.disk?.touch(answer) }
    session.exchange.noteCache(result, status: status(of: answer, result, detail, caching, worker))
    // What others have fetched meanwhile is as new as what it fetches itself.
    session.exchange.answeredFromStore(
      isFetched: result == .stored || result == .collapsed, now: worker.now, &worker.workspace, &outputs)
    if result == .collapsed { session.exchange.beginPace(on: worker.workspace.link, now: worker.now) }
    if reads { readUpstream(worker) }
    return true
  }

  /// RFC 9211, 2.
  func status(
    of answer: StoredAnswer, _ result: CacheResult, _ detail: String, _ caching: Caching, _ worker: Worker
  ) -> String {
    let now = caching.time(worker)
    // The age of an answer from before a restart with another clock is unknown.
    let left =
      answer.head.age(at: now) == nil ? "" : "; ttl=\(answer.head.timeToLive(at: now, by: caching.request.rule))"
    let forward = caching.forward?.rawValue ?? "uri-miss"
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
}
