// `[cache]`, `[rule.cache]` and `cache_policy`: whether answers are stored, whose they are, and when one is used. What they mean
// of an answer is in module Cache. Tests: CachingTests.

import Bytes

/// `[cache]`: the store of the machine. Sizes are in bytes.
public struct CacheStorage: Hashable, Sendable {
  /// nil: in memory only.
  public var directory: String? = nil
  public var memoryBytes = 64 << 20
  public var diskBytes = 2 << 30
  /// Down to which part of a size it is purged that is full.
  public var purgeTo = 0.6
  /// Longest content that is stored.
  public var objectBytes = 1 << 30
  /// Names of fields that speak to this cache (RFC 9213), in lower case, the first that is there holds.
  public var targets: [String] = []

  public init() {}
}

/// `[rule.cache]`: what is stored of a rule's answers. Times are in seconds.
public struct CacheRule: Hashable, Sendable {
  /// Who gets a stored answer besides the one that it was fetched for.
  public enum Share: String, Sendable, CaseIterable { case machine, user, unit }
  /// Whether equal requests share a fetch.
  public enum Collapse: String, Sendable, CaseIterable {
    /// Where the last answer could be stored, or none is known.
    case auto
    case always, never
  }

  public var share = Share.machine
  /// For how long an answer is fresh, instead of the origin's word; nil: as the origin says.
  public var freshFor: Int64? = nil
  /// How long after it went stale an answer stands in for an error, where the origin or the program does not say longer.
  public var staleIfError: Int64? = nil
  /// How old an answer may be that stands in for a destination that cannot be reached. 0: none does.
  public var offline: Int64 = 0
  public var collapse = Collapse.auto

  public init() {}
}

/// `cache_policy`: NSURLRequestCachePolicy by its names.
public enum CachePolicy: String, Sendable, CaseIterable {
  /// As RFC 9111 has it.
  case useProtocol = "use-protocol"
  /// The origin is asked, whatever is stored.
  case reloadIgnoringCache = "reload-ignoring-cache"
  /// What is stored is used, however old; else the origin is asked.
  case returnCacheElseLoad = "return-cache-else-load"
  /// What is stored is used, however old; the origin is never asked.
  case returnCacheDontLoad = "return-cache-dont-load"
  /// What is stored is used once the origin has said that it still holds.
  case reloadRevalidating = "reload-revalidating"
}
