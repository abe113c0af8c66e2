// Whether a stored answer can be used for a request (RFC 9111, 4; RFC 5861), or what must be done first.
// Tests: ReuseTests.

import Bytes
import Policy

/// What to do with an answer that is stored for a request.
public enum Reuse: Sendable, Equatable {
  /// Use it as it is.
  case fresh
  /// It is stale, but use it. If `refreshes`, ask the origin in the meantime (RFC 5861, 3).
  case stale(refreshes: Bool)
  /// Ask the origin first.
  case ask(Forward)
}

/// Why a request goes to the origin (RFC 9211, 2.2).
public enum Forward: String, Sendable {
  /// The rule does not allow use of the store.
  case bypass
  case method
  case uriMiss = "uri-miss"
  case varyMiss = "vary-miss"
  /// The request's own directives.
  case request
  case stale
  case partial
}

extension StoredHead {
  /// `now` is in milliseconds since 1970. Call this only for a request that the answer matches.
  public func reuse(for request: CacheRequest, at now: Int64) -> Reuse {
    switch request.policy {
    case .reloadIgnoringCache: return .ask(.bypass)
    case .reloadRevalidating: return .ask(.request)
    case .returnCacheElseLoad, .returnCacheDontLoad:
      return timeToLive(at: now, by: request.rule) > 0 ? .fresh : .stale(refreshes: false)
    case .useProtocol: break
    }
    guard !directives.noCache, let age = age(at: now) else { return .ask(.stale) }
    let left = timeToLive(at: now, by: request.rule)
    // RFC 9211, 2.2: if the answer is stale, that is the reason, whatever the request says.
    let forward = left > 0 ? Forward.request : .stale
    if request.directives.noCache { return .ask(forward) }
    if let most = request.directives.maxAge, age > most || most == 0 { return .ask(forward) }
    if let least = request.directives.minFresh, left < least { return .ask(forward) }
    if left > 0 { return .fresh }
    if isNeverServedStale { return .ask(.stale) }
    if let most = request.directives.maxStale, -left <= most { return .stale(refreshes: false) }
    // RFC 9111, 5.2.1.1: max-age without max-stale means that nothing stale is wanted.
    if request.directives.maxAge != nil { return .ask(.stale) }
    if let most = directives.staleWhileRevalidate, -left <= most { return .stale(refreshes: true) }
    return .ask(.stale)
  }

  /// RFC 9111, 4.2.4: the origin forbids the use of a stale answer. s-maxage implies this too (5.2.2.10).
  public var isNeverServedStale: Bool {
    directives.revalidation != .none || directives.noCache || directives.sharedMaxAge != nil
  }

  /// Whether the answer may be used when the origin fails (RFC 5861, 4): it closes the connection, does not answer in
  /// time, or answers with 5xx or with something malformed. A request's max-age is a preference (RFC 9111, 5.2.1.1) and
  /// does not prevent that; no-cache does.
  public func standsInForError(of request: CacheRequest, at now: Int64) -> Bool {
    if !request.mayUseUnconfirmed || isNeverServedStale || age(at: now) == nil { return false }
    let left = timeToLive(at: now, by: request.rule)
    if left > 0 { return true }
    if isError { return false }
    let allowed = [directives.staleIfError, request.directives.staleIfError, request.rule.staleIfError].compactMap {
      $0
    }.max()
    return allowed.map { -left <= $0 } ?? false
  }

  /// An error of the origin's. When the origin fails again, it is no better than the new one.
  private var isError: Bool { status >= 500 }

  /// Whether the answer may still be used when the origin fails, for whichever request: an error must not take its
  /// place.
  public func bridgesFailures(by rule: CacheRule, at now: Int64) -> Bool {
    guard !isError, let age = age(at: now) else { return false }
    let left = timeToLive(at: now, by: rule)
    if left > 0 { return true }
    if isNeverServedStale { return false }
    if age <= rule.offline { return true }
    return [directives.staleIfError, rule.staleIfError].contains { $0.map { -left <= $0 } ?? false }
  }

  /// Whether the answer may be used when the destination cannot be reached.
  public func standsInOffline(for request: CacheRequest, at now: Int64) -> Bool {
    if !request.mayUseUnconfirmed || directives.noCache { return false }
    if timeToLive(at: now, by: request.rule) > 0 { return true }
    if isNeverServedStale || isError { return false }
    if let age = age(at: now), age <= request.rule.offline { return true }
    return standsInForError(of: request, at: now)
  }

  /// The lines that ask the origin whether the answer is still valid (RFC 9111, 4.3.1), each with its line end. Empty
  /// if the answer has no validator.
  public var conditions: [UInt8] {
    var lines: [UInt8] = []
    if let entityTag { lines += "If-None-Match: ".utf8 + entityTag.text + [0x0d, 0x0a] }
    if let value = fields.only("last-modified"), lastModified != nil {
      lines += "If-Modified-Since: ".utf8 + value + [0x0d, 0x0a]
    }
    return lines
  }

  /// Whether a 304 with these fields is about this answer (RFC 9111, 4.3.4). A 304 without any validator confirms the
  /// condition that was sent: it need not repeat Last-Modified (RFC 9110, 15.4.5), and many origins leave ETag out.
  public func isValidated(by fields: MessageFields) -> Bool {
    if fields.contains("etag") {
      guard let given = fields.only("etag").flatMap({ EntityTag($0) }), let entityTag else { return false }
      return given.isWeak ? given.matchesWeakly(entityTag) : given == entityTag
    }
    guard fields.contains("last-modified") else { return true }
    guard let given = fields.only("last-modified") else { return false }
    return given == self.fields.only("last-modified")
  }
}
