// [cache] and [rule.cache], and warnings about settings without effect. Tests: CachingTests.

import Bytes

extension CacheStorage {
  /// Smallest: less cannot store a page. Largest: as much as a machine may have.
  static let memoryBounds: ClosedRange<Int64> = 1 << 20...1 << 40
  static let objectBounds: ClosedRange<Int64> = 1 << 10...1 << 40
  /// Below, a purge would empty the store; at 1 each response would cause a purge.
  static let purgeBounds = 0.1...0.95
  static let purgeText = "a number from 0.1 to 0.95"
  static let mostTargets = 8
}

extension ConfigurationReading {
  func readCache(_ table: ConfigurationTable) {
    var cache = CacheStorage()
    for setting in table.settings {
      switch setting.key {
      case "directory": cache.directory = string(setting).flatMap { path(setting, $0) }
      case "disk": set(&cache.diskBytes, quantity(setting, .size, in: CacheStorage.memoryBounds).map { Int($0) })
      case "memory": set(&cache.memoryBytes, quantity(setting, .size, in: CacheStorage.memoryBounds).map { Int($0) })
      case "object": set(&cache.objectBytes, quantity(setting, .size, in: CacheStorage.objectBounds).map { Int($0) })
      case "purge_to": set(&cache.purgeTo, fraction(setting, in: CacheStorage.purgeBounds, CacheStorage.purgeText))
      case "targets": cache.targets = targets(setting)
      default: unread(setting, of: .cache)
      }
    }
    configuration.cache = cache
  }

  /// Names of fields addressed to this cache (RFC 9213, 2.1).
  private func targets(_ setting: Setting) -> [String] {
    let texts = strings(setting) ?? []
    if texts.count > CacheStorage.mostTargets {
      error(setting, "expected at most \(CacheStorage.mostTargets) names, found \(texts.count)")
    }
    let names = texts.compactMap { text, element -> (value: String, setting: Setting)? in
      guard FieldSyntax.isToken(text), text.lowercased().hasSuffix("cache-control"),
        text.lowercased() != "cache-control"
      else {
        error(
          element,
          "expected the name of a targeted field (RFC 9213) such as \"CDN-Cache-Control\", found \(text.quoted)")
        return nil
      }
      return (text.lowercased(), element)
    }
    warnOfRepetition(names) { $0.quoted }
    return names.map(\.value)
  }

  func cacheRule(_ table: ConfigurationTable) -> CacheRule {
    var rule = CacheRule()
    for setting in table.settings {
      switch setting.key {
      case "share": rule.share = choice(setting, CacheRule.Share.self) ?? rule.share
      case "fresh_for": rule.freshFor = seconds(setting)
      case "stale_if_error": rule.staleIfError = seconds(setting)
      case "offline": rule.offline = seconds(setting) ?? 0
      case "collapse": rule.collapse = choice(setting, CacheRule.Collapse.self) ?? .never
      default: unread(setting, of: .ruleCache)
      }
    }
    return rule
  }

  /// Ages are counted in whole seconds (RFC 9111, 1.2.2).
  private func seconds(_ setting: Setting) -> Int64? {
    guard let milliseconds = quantity(setting, .duration, in: Bounds.durationOrZero) else { return nil }
    if milliseconds % 1000 != 0 {
      error(setting, "expected whole seconds, found \(Quantity.duration.text(milliseconds).quoted)")
      return nil
    }
    return milliseconds / 1000
  }

  // MARK: What does nothing

  /// `cache_policy` and `resume` have an effect only if responses are stored. The exception is a policy that never asks
  /// the origin: if nothing is stored, every request is refused.
  func warnOfIdleCache(_ rule: RuleDraft) {
    let stores = configuration.cache != nil
    if rule.cache != nil, !stores, !rule.denies, let setting = rule.settings["cache"] {
      report(.warning, setting.source, setting.keyBegin, "[rule.cache] does nothing: there is no [cache]")
    }
    if rule.cache != nil, stores { return }
    let missing = rule.cache == nil ? "the rule has no [rule.cache]" : "there is no [cache]"
    if let setting = rule.request.settings["resume"], rule.request.resumes ?? false {
      warning(setting, "it does nothing: \(missing)")
    }
    if let setting = rule.request.settings["cache_policy"] {
      warning(
        setting,
        rule.request.cachePolicy == .returnCacheDontLoad
          ? "every request of this rule is refused (504): \(missing), so nothing is stored"
          : "it does nothing: \(missing)")
    } else if defaultRequest.cachePolicy == .returnCacheDontLoad, !rule.denies {
      report(
        .warning, rule.source, rule.begin,
        "every request of rule \(rule.name.quoted) is refused (504): [defaults.request] says 'cache_policy = "
          + "\"return-cache-dont-load\"', and \(missing)")
    }
  }

  /// Warns of caching keys in [defaults.request] if no rule stores anything.
  func warnOfIdleCacheDefaults() {
    if configuration.cache != nil, rules.contains(where: { $0.cache != nil }) { return }
    let missing = configuration.cache == nil ? "there is no [cache]" : "no rule has [rule.cache]"
    for key in ["cache_policy", "resume"] {
      guard let setting = defaultRequest.settings[key] else { continue }
      if key == "cache_policy", defaultRequest.cachePolicy == .returnCacheDontLoad {
        warning(setting, "every request is refused (504): \(missing), so nothing is stored")
      } else {
        warning(setting, "it does nothing: \(missing)")
      }
    }
  }
}
