// [cache] and [rule.cache]. CacheChecks warns of settings without effect. Tests: CachingTests.

import Bytes

extension CacheStorage {
  /// Smallest: less cannot store a page. Largest: as much as a machine may have.
  static let memoryBounds: ClosedRange<Int64> = 1 << 20...1 << 40
  static let objectBounds: ClosedRange<Int64> = 1 << 10...1 << 40
  /// Below, a purge would empty the store; at 1 each response would cause a purge.
  static let purgeBounds = 0.1...0.95
  static let purgeText = "a number from 0.1 to 0.95"
  static let mostTargets = 8

  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> CacheStorage {
    var cache = CacheStorage()
    for setting in table.settings {
      switch setting.key {
      case "directory": cache.directory = reading.string(setting).flatMap { reading.path(setting, $0) }
      case "disk":
        reading.set(&cache.diskBytes, reading.quantity(setting, .size, in: CacheStorage.memoryBounds).map { Int($0) })
      case "memory":
        reading.set(&cache.memoryBytes, reading.quantity(setting, .size, in: CacheStorage.memoryBounds).map { Int($0) })
      case "object":
        reading.set(&cache.objectBytes, reading.quantity(setting, .size, in: CacheStorage.objectBounds).map { Int($0) })
      case "purge_to":
        reading.set(&cache.purgeTo, reading.fraction(setting, in: CacheStorage.purgeBounds, CacheStorage.purgeText))
      case "targets": cache.targets = targets(setting, by: reading)
      default: reading.unread(setting, of: .cache)
      }
    }
    return cache
  }

  /// Names of fields addressed to this cache (RFC 9213, 2.1).
  private static func targets(_ setting: Setting, by reading: ConfigurationReading) -> [String] {
    let texts = reading.strings(setting) ?? []
    if texts.count > CacheStorage.mostTargets {
      reading.error(setting, "expected at most \(CacheStorage.mostTargets) names, found \(texts.count)")
    }
    let names = texts.compactMap { text, element -> (value: String, setting: Setting)? in
      guard FieldSyntax.isToken(text), text.lowercased().hasSuffix("cache-control"),
        text.lowercased() != "cache-control"
      else {
        reading.error(
          element,
          "expected the name of a targeted field (RFC 9213) such as \"CDN-Cache-Control\", found \(text.quoted)")
        return nil
      }
      return (text.lowercased(), element)
    }
    reading.warnOfRepetition(names) { $0.quoted }
    return names.map(\.value)
  }
}

extension CacheRule {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> CacheRule {
    var rule = CacheRule()
    for setting in table.settings {
      switch setting.key {
      case "share": rule.share = reading.choice(setting, CacheRule.Share.self) ?? rule.share
      case "fresh_for": rule.freshFor = seconds(setting, by: reading)
      case "stale_if_error": rule.staleIfError = seconds(setting, by: reading)
      case "offline": rule.offline = seconds(setting, by: reading) ?? 0
      case "collapse": rule.collapse = reading.choice(setting, CacheRule.Collapse.self) ?? .never
      default: reading.unread(setting, of: .ruleCache)
      }
    }
    return rule
  }

  /// Ages are counted in whole seconds (RFC 9111, 1.2.2).
  private static func seconds(_ setting: Setting, by reading: ConfigurationReading) -> Int64? {
    guard let milliseconds = reading.quantity(setting, .duration, in: Bounds.durationOrZero) else { return nil }
    if milliseconds % 1000 != 0 {
      reading.error(setting, "expected whole seconds, found \(Quantity.duration.text(milliseconds).quoted)")
      return nil
    }
    return milliseconds / 1000
  }
}
