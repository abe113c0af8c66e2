// The cache's side of an exchange: what a cache learns about the request, and how a response arrives without an
// upstream. The server chooses the response (Server/Cache). Tests: CachedExchangeTests,
// Tests/EndToEndTests/test_cache.py.

import Bytes
import HTTP1
import Policy
import Serialization

/// How a cache took part in an exchange, as logged.
public enum CacheResult: String, Sendable, CaseIterable {
  /// Answered from the store, without contacting the origin.
  case hit
  /// Likewise, with a response that is no longer fresh.
  case stale
  /// Answered from the store, because the destination is unreachable or fails.
  case offline
  /// Answered from the store after the origin confirmed the stored response.
  case revalidated
  /// Answered by the fetch of another request.
  case collapsed
  /// Fetched, and stored.
  case stored
  /// Fetched, and not stored.
  case miss

  /// Whether the head of the response came from the origin for this request.
  var isSaidByOrigin: Bool { self == .stored || self == .miss }
}

extension Exchange {
  /// What the rule stores of its responses; nil: nothing, or this request is not cacheable.
  public var cacheRule: CacheRule? {
    guard let decision = record.decision, let rule = policy.cache(of: decision), isForCache else { return nil }
    return rule
  }

  /// Whether its success invalidates what is stored for its URL, under whichever rule (RFC 9111, 4.4).
  public func mayInvalidate(_ outputs: borrowing Outputs) -> Bool {
    let method = outputs.text.bytes.extracting(record.method)
    for name in Self.safeMethods where method.equals(name.span) { return false }
    return request.traits.isDisjoint(with: [.isTunnel, .wantsUpgrade, .isGRPC])
  }

  /// How many bytes at the end of the target are the parameters that the rule adds.
  public func addedQueryBytes(_ outputs: borrowing Outputs) -> Int {
    guard let decision = record.decision else { return 0 }
    let query = query(
      policy.request(of: decision).serialization, method: outputs.text.bytes.extracting(record.method))
    return query.isEmpty ? 0 : query.count + 1
  }

  private static let safeMethods = ["GET", "HEAD", "OPTIONS", "TRACE"].map { Array($0.utf8) }

  public var cachePolicy: CachePolicy { record.decision.map { policy.request(of: $0).cachePolicy } ?? .useProtocol }

  /// Whether a download that the origin cuts short is continued.
  public var resumesDownloads: Bool { record.decision.map { policy.request(of: $0).resumesDownloads } ?? false }

  /// Whether a cache understands the whole request. It is neither a tunnel nor a gRPC call, its credentials do not
  /// belong to a connection, and nothing in it depends on an earlier response of the origin.
  private var isForCache: Bool {
    request.traits.isDisjoint(with: [.isTunnel, .wantsUpgrade, .isGRPC]) && !upstream.carrier.contains(.isBound)
      && bodies.challenged == nil
  }

  /// Whether the whole request has left, or is about to.
  public var isRequestWhole: Bool { request.progress == .done && isBodyOut }

  /// The URL that the request is sent to. Its head is in `outputs`. The port is the one that is connected to: inside a
  /// tunnel, a Host without a port means the tunnel's.
  public func effectiveURL(_ outputs: borrowing Outputs) -> [UInt8] {
    let head = outputs.toUpstream.bytes
    let scheme: Scheme = usesTLS ? .https : .http
    var host = upstream.written.authority
    if case .success(let parts) = HostAndPort.read(head, host) { host = parts.host }
    let authority = head.extracting(host).array.map(\.asciiLowercased)
    let target = head.extracting(upstream.written.target).array
    return Array("\(scheme.rawValue)://".utf8) + authority
      + Array((upstream.port == scheme.defaultPort ? "" : ":\(upstream.port)").utf8) + (target == [0x2a] ? [] : target)
  }

  /// The URL as the client asked for it, for people: without what the rule adds.
  public func shownURL(_ outputs: borrowing Outputs) -> [UInt8] {
    outputs.text.bytes.extracting(record.target).array + request.query
  }

  /// Whether the rule replaces the program's Authorization.
  public var setsAuthorization: Bool {
    rule?.request.fields.set.contains { $0.name == Self.authorizationName } ?? false
  }

  private static let authorizationName = Array("authorization".utf8)

  /// The value of Cache-Status for the exchange (RFC 9211), without the name of the cache: `hit; ttl=30`.
  public mutating func noteCache(_ result: CacheResult?, status: String) {
    record.cache = result
    response.cacheStatus = status
  }

  /// The response comes from the store: nothing is sent, and what follows is read as an upstream's response.
  /// `isFetched`: it was fetched for this request, or for another one meanwhile, and keeps the pace of its rule towards
  /// the client.
  public mutating func answeredFromStore(
    isFetched: Bool, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    precondition(phase == .connecting || phase == .exchanging, "a stored answer for an exchange that does not wait")
    phase = .exchanging
    upstream.carrier.remove([.isReused, .mayRetry])
    workspace.pool.reclaim(&outputs.toUpstream)
    workspace.pool.reclaim(&outputs.replay)
    upstream.parent = nil
    // What was stored before leaves at once, whatever the pace of its rule.
    if isFetched { endUploadPace() } else { bodies.pacing = nil }
    times.lastProgress = now
  }

  /// The upstream's response is of no use: the request is sent again, without the condition that the cache added.
  public mutating func askAgain(_ head: [UInt8], _ workspace: inout Workspace, _ outputs: inout Outputs) {
    precondition(phase == .exchanging && response.progress == .head, "an answer has begun")
    workspace.pool.reclaim(&outputs.toUpstream)
    workspace.pool.reclaim(&outputs.replay)
    workspace.pool.lend(&outputs.toUpstream, head.count)
    outputs.toUpstream.append(head)
    phase = .connecting
  }

  /// The server has to inspect the next head before the exchange does: it is the final response of an upstream.
  public var awaitsFinalHead: Bool { awaitsResponseHead && !response.traits.contains(.isDropped) }

  /// The outcome must not be served to other clients: the response was refused, or aborted.
  public var refusedItsAnswer: Bool {
    if case .problem = record.outcome { return true }
    return record.outcome == .malformedBody
  }

  func writeCacheStatus(_ workspace: borrowing Workspace, _ out: inout ByteBuffer) {
    if response.cacheStatus.isEmpty { return }
    out.append("Cache-Status: ")
    out.append(workspace.name)
    out.append("; ")
    out.append(response.cacheStatus)
    out.append("\r\n")
  }
}
