// Settings about stored responses that have no effect, because nothing is stored. Tests: CachingTests.

struct CacheChecks {
  /// There is a [cache].
  let hasStore: Bool
  /// [defaults.request]
  let defaults: RequestDraft
  let reading: ConfigurationReading

  /// `cache_policy` and `resume` have an effect only if responses are stored. The exception is a policy that never asks
  /// the origin: if nothing is stored, every request is refused.
  func check(_ rule: RuleDraft) {
    if rule.cache != nil, !hasStore, !rule.denies, let setting = rule.settings["cache"] {
      reading.report(
        .warning, setting.source, position: setting.keyBegin, message: "[rule.cache] does nothing: there is no [cache]")
    }
    if rule.cache != nil, hasStore { return }
    let missing = rule.cache == nil ? "the rule has no [rule.cache]" : "there is no [cache]"
    if let setting = rule.request.settings["resume"], rule.request.resumes ?? false {
      reading.warning(setting, "it does nothing: \(missing)")
    }
    if let setting = rule.request.settings["cache_policy"] {
      reading.warning(
        setting,
        rule.request.cachePolicy == .returnCacheDontLoad
          ? "every request of this rule is refused (504): \(missing), so nothing is stored"
          : "it does nothing: \(missing)")
    } else if defaults.cachePolicy == .returnCacheDontLoad, !rule.denies {
      reading.report(
        .warning, rule.source, position: rule.begin,
        message: "every request of rule \(rule.name.quoted) is refused (504): [defaults.request] says 'cache_policy = "
          + "\"return-cache-dont-load\"', and \(missing)")
    }
  }

  /// Warns of caching keys in [defaults.request] if no rule stores anything.
  func checkDefaults(_ rules: [RuleDraft]) {
    if hasStore, rules.contains(where: { $0.cache != nil }) { return }
    let missing = hasStore ? "no rule has [rule.cache]" : "there is no [cache]"
    for key in ["cache_policy", "resume"] {
      guard let setting = defaults.settings[key] else { continue }
      if key == "cache_policy", defaults.cachePolicy == .returnCacheDontLoad {
        reading.warning(setting, "every request is refused (504): \(missing), so nothing is stored")
      } else {
        reading.warning(setting, "it does nothing: \(missing)")
      }
    }
  }
}
