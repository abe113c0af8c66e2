// `[cache]`, `[rule.cache]` and `cache_policy`: whether responses are stored, for whom, and when they are used. Module
// Cache applies them to responses. Tests: CachingTests.

import Bytes

/// `[cache]`: the store of the machine. Sizes are in bytes.
public struct CacheStorage: Hashable, Sendable {
  /// nil: in memory only.
  public var directory: String? = nil
  public var memoryBytes = 64 << 20
  public var diskBytes = 2 << 30
  /// The part of its size to which a full store is purged.
  public var purgeTo = 0.6
  /// Longest content that is stored.
  public var objectBytes = 1 << 30
  /// Names of fields addressed to this cache (RFC 9213), in lower case; the first one present applies.
  public var targets: [String] = []

  public init() {}
}

/// `[rule.cache]`: which responses of a rule are stored. Times are in seconds.
public struct CacheRule: Hashable, Sendable {
  /// Who gets a stored response besides the client that it was fetched for.
  public enum Share: String, Sendable, CaseIterable { case machine, user, unit }
  /// Whether equal requests share a fetch.
  public enum Collapse: String, Sendable, CaseIterable {
    /// If the last response could be stored, or none is known.
    case auto
    case always, never
  }

  public var share = Share.machine
  /// How long a response is fresh, in place of the origin's value; nil: as the origin says.
  public var freshFor: Int64? = nil
  /// How long a stale response may replace an error, unless the origin or the program allows longer.
  public var staleIfError: Int64? = nil
  /// How old a response may be when it stands in for an unreachable destination. 0: none does.
  public var offline: Int64 = 0
  public var collapse = Collapse.auto

  public init() {}
}

/// `cache_policy`: NSURLRequestCachePolicy by its names.
public enum CachePolicy: String, Sendable, CaseIterable {
  /// As in RFC 9111.
  case useProtocol = "use-protocol"
  /// The origin is asked, whatever is stored.
  case reloadIgnoringCache = "reload-ignoring-cache"
  /// A stored response is used, however old; otherwise the origin is asked.
  case returnCacheElseLoad = "return-cache-else-load"
  /// A stored response is used, however old; the origin is never asked.
  case returnCacheDontLoad = "return-cache-dont-load"
  /// A stored response is used after the origin has confirmed it.
  case reloadRevalidating = "reload-revalidating"
}
