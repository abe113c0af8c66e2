// What an exchange has to do with stored answers: what a cache is told of its request, and how an answer comes that no upstream
// was asked for. Which answer that is, the server decides (Server/Cache). Tests: CachedExchangeTests, Tests/EndToEndTests/test_cache.py.

import Bytes
import HTTP1
import Policy

/// How a cache took part in an exchange, as the log has it.
public enum CacheResult: String, Sendable, CaseIterable {
  /// Answered from the store; nobody was asked.
  case hit
  /// The same with an answer that is no longer fresh.
  case stale
  /// Answered from the store, because the destination cannot be reached or fails.
  case offline
  /// Answered from the store, once the origin had said that it holds.
  case revalidated
  /// Answered by the fetch of another request.
  case collapsed
  /// Fetched, and stored.
  case stored
  /// Fetched, and not stored.
  case miss

  /// Whether the head of the answer came from the origin for this request.
  var isSaidByOrigin: Bool { self == .stored || self == .miss }
}

extension Exchange {
  /// What the rule has stored of its answers; nil: nothing, or this request is not for a cache.
  public var cacheRule: CacheRule? {
    guard let decision = record.decision, let rule = policy.cache(of: decision), isForCache else { return nil }
    return rule
  }

  public var cachePolicy: CachePolicy { record.decision.map { policy.request(of: $0).cachePolicy } ?? .useProtocol }

  /// Whether a download that breaks off at the origin is gone on with.
  public var resumesDownloads: Bool { record.decision.map { policy.request(of: $0).resumesDownloads } ?? false }

  /// Whether a cache understands all of the request: it is no tunnel and no call, its credentials are its own and not those of a
  /// connection, and nothing of it depends on what the origin answers first.
  private var isForCache: Bool {
    asked.isDisjoint(with: [.isTunnel, .wantsUpgrade, .isGRPC]) && !carrier.contains(.isBound) && challenged == nil
  }

  /// Whether the request has left, or is about to leave, whole.
  public var isRequestWhole: Bool { request == .done && isBodyOut }

  /// The URL that the request leaves for. Its head stands in `outputs`.
  public func effectiveURL(_ outputs: borrowing Outputs) -> [UInt8] {
    let head = outputs.toUpstream.bytes
    let authority = head.extracting(written.authority).array.map(\.asciiLowercased)
    let target = head.extracting(written.target).array
    return Array((usesTLS ? "https://" : "http://").utf8) + authority + (target == [0x2a] ? [] : target)
  }

  /// The URL as the client asked for it, for people: without what the rule adds.
  public func shownURL(_ outputs: borrowing Outputs) -> [UInt8] {
    outputs.text.bytes.extracting(record.target).array + askedQuery
  }

  /// Whether the rule writes Authorization in place of what the program sends.
  public var setsAuthorization: Bool {
    rule?.request.fields.set.contains { $0.name == Self.authorizationName } ?? false
  }

  private static let authorizationName = Array("authorization".utf8)

  /// What Cache-Status says of the exchange (RFC 9211), without the name of the cache: `hit; ttl=30`.
  public mutating func noteCache(_ result: CacheResult?, status: String) {
    record.cache = result
    cacheStatus = status
  }

  /// The answer comes of the store: nothing leaves, and what follows is read as an upstream's.
  public mutating func answeredFromStore(now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs) {
    precondition(phase == .connecting || phase == .exchanging, "a stored answer for an exchange that does not wait")
    phase = .exchanging
    carrier.remove([.isReused, .mayRetry])
    workspace.pool.reclaim(&outputs.toUpstream)
    workspace.pool.reclaim(&outputs.replay)
    parent = nil
    // It leaves at once, whatever the pace of its rule.
    pacing = nil
    lastProgress = now
  }

  /// What the upstream answered is of no use: the request is asked again, as it was before the cache put a condition to it.
  public mutating func askAgain(_ head: [UInt8], _ workspace: inout Workspace, _ outputs: inout Outputs) {
    precondition(phase == .exchanging && response == .head, "an answer has begun")
    workspace.pool.reclaim(&outputs.toUpstream)
    workspace.pool.reclaim(&outputs.replay)
    workspace.pool.lend(&outputs.toUpstream, head.count)
    outputs.toUpstream.append(head)
    phase = .connecting
  }

  /// A head that is to be looked at before the exchange sees it: the final response of an upstream.
  public var awaitsFinalHead: Bool { awaitsResponseHead && !delivery.contains(.isDropped) }

  /// What the exchange came to is no answer that others may get: it was refused, or broken off.
  public var refusedItsAnswer: Bool {
    if case .problem = record.outcome { return true }
    return record.outcome == .malformedBody
  }

  func writeCacheStatus(_ workspace: borrowing Workspace, _ out: inout ByteBuffer) {
    if cacheStatus.isEmpty { return }
    out.append("Cache-Status: ")
    out.append(workspace.name)
    out.append("; ")
    out.append(cacheStatus)
    out.append("\r\n")
  }
}
