// Checks that involve several keys or several rules. They run after every file has been read, because [defaults],
// [pins.*] and [routes.*] may come after the rules. Tests: RuleReadingTests, SecurityReadingTests,
// SerializerReadingTests, ShadowedRulesTests.

extension ConfigurationReading {
  /// Checks every rule by itself and against those before it. A rule with an error gets no further messages: they would
  /// only repeat it.
  func checkRules() {
    checkDefaultSecurity()
    checkDefaultSerializers()
    checkRoutes()
    for index in rules.indices {
      checkSecurity(&rules[index])
      checkSerializers(&rules[index])
    }
    rules = Policy.inOrder(rules) { $0.action }
    let outcomes = tunnelOutcomes()
    var shadowed = ShadowedRules()
    for (number, rule) in rules.enumerated() where rule.isSound {
      warnOfIdleKeys(rule)
      warnOfIdleSerializers(rule)
      warnOfIdlePaths(rule)
      warnOfIdleProxyUsers(rule)
      warnOfIdleCache(rule)
      checkTarget(rule)
      warnOfTunnels(number, outcomes)
      warnOfShadow(
        rule,
        shadowed.shadow(
          of: rule.conditions, connect: rule.connect, denies: rule.isStrict,
          refusesTunnels: rule.connect == .deny && rule.enforce, number: number))
    }
    warnOfIdleDefaultSerializers()
    warnOfIdleCacheDefaults()
    warnOfUnusedPins()
    warnOfUnusedRoutes()
  }

  private func warnOfShadow(_ rule: RuleDraft, _ other: Int?) {
    guard let other else { return }
    let decider = "rule \(rules[other].name.quoted) at \(rules[other].location)"
    report(
      .warning, rule.source, rule.begin,
      rule.action == .ask
        ? "rule \(rule.name.quoted) never asks: \(decider) decides all that it matches, and rules that ask come last"
        : "rule \(rule.name.quoted) can never match: \(decider) comes first and matches all that it does")
  }

  // MARK: Keys that do nothing

  /// In a rule that denies, every pattern can match: one reading of a path is enough.
  private func warnOfIdlePaths(_ rule: RuleDraft) {
    guard !rule.isStrict, let setting = rule.settings["paths"], case .array(let values) = setting.value.content
    else { return }
    let condition = PathCondition(rule.conditions.values(of: PathsCondition.self), denies: false)
    for (pattern, value) in zip(rule.conditions.values(of: PathsCondition.self), values) where pattern.matchesNoReading
    {
      if condition.holds(pattern.example) { continue }
      warning(
        setting.element(value),
        "\(pattern.description.quoted) never matches: servers read such a path without empty segments, '.' and '..' "
          + "as well, and a rule that allows matches where all readings do")
    }
  }

  private func warnOfIdleKeys(_ rule: RuleDraft) {
    let denies = rule.action != .allow || rule.connect == .deny
    if rule.action != .ask, let setting = rule.settings["ask"] {
      report(
        .warning, setting.source, setting.keyBegin, "[rule.ask] has no effect without action = \"ask\"")
    }
    if !denies {
      rule.settings["reason"].map { warning($0, "it is never shown: the rule denies nothing") }
    }
    if !denies, !rule.enforce { warnOfIdleEnforce(rule) }
    if rule.action == .deny, rule.enforce { warnOfDeadKeys(rule) }
    if rule.upgrade, !rule.matches(.http), let setting = rule.settings["upgrade"] {
      warning(setting, "it has no effect: 'schemes' leaves out http")
    }
    warnOfConnect(rule)
    warnOfIdleNameCheck(rule)
    if rule.action != .deny || !rule.enforce { warnOfPins(rule) }
  }

  /// A rule that denies nothing can still refuse: tunnels by their port or their first bytes, protocols to switch to,
  /// addresses, slow responses, certificates, and bodies and responses that its serializers reject.
  private func warnOfIdleEnforce(_ rule: RuleDraft) {
    guard rule.denyAddresses == nil, rule.redirects == .pass, rule.target == nil,
      (rule.request.timeoutMilliseconds ?? defaultRequest.timeoutMilliseconds) == nil, rule.upgrades == nil,
      rule.security == nil,
      rule.response == nil, defaultResponse == nil,
      rule.request.allowsCellularAccess ?? defaultRequest.allowsCellularAccess ?? true, rule.request.serializer == nil,
      defaultRequest.serializer == nil,
      !looksAtTunnels(rule), let setting = rule.settings["enforce"]
    else { return }
    let usesTLS = rule.matches(.https) || rule.upgrade
    warning(
      setting,
      usesTLS
        ? "the rule denies nothing; the only effect is that an invalid certificate is allowed and logged"
        : "it has no effect: the rule denies nothing")
  }

  /// Whether a tunnel of the rule can be refused for its port or its first bytes.
  private func looksAtTunnels(_ rule: RuleDraft) -> Bool {
    rule.matches(.https) && (rule.tunnelSNI == .match || configuration.proxy.defaultAction == .deny)
  }

  private func warnOfDeadKeys(_ rule: RuleDraft) {
    for key in ["timeouts", "request", "security", "response", "cache"] {
      guard let setting = rule.settings[key] else { continue }
      report(
        .warning, setting.source, setting.keyBegin,
        "[rule.\(key)] has no effect in a rule that denies every request")
    }
    for key in ["deny_addresses", "tunnel_sni", "upgrade", "upgrades", "protocols", "redirects", "target", "route"] {
      rule.settings[key].map { warning($0, "it has no effect in a rule that denies every request") }
    }
  }

  private func warnOfConnect(_ rule: RuleDraft) {
    guard let connect = rule.connect, let setting = rule.settings["connect"] else { return }
    if !rule.matches(.https) {
      warning(setting, "a tunnel counts as https, which 'schemes' leaves out, so this is never used")
    } else if rule.action == .deny, connect != .deny {
      warning(setting, "'action = \"deny\"' denies tunnels too, so \"\(connect.rawValue)\" has no effect")
    } else if connect == .tunnel, rule.namesPins {
      warning(
        setting,
        "\"tunnel\" passes bytes unread, so the rule's pins are not checked in tunnels; \"verify\" and "
          + "\"intercept\" look at them")
    }
  }

  /// `tunnel_sni` applies only to plain tunnels.
  private func warnOfIdleNameCheck(_ rule: RuleDraft) {
    guard let setting = rule.settings["tunnel_sni"], rule.action != .deny || !rule.enforce else { return }
    if !rule.matches(.https) {
      warning(setting, "it has no effect: a tunnel counts as https, which 'schemes' leaves out")
    } else if rule.isAboutRequests, rule.connect == nil {
      warning(
        setting,
        "it has no effect: a rule with 'methods' or 'paths' decides no tunnel. Set connect = \"tunnel\", or name it in a "
          + "rule without them")
    } else if rule.verifiesTunnels {
      warning(setting, "it has no effect: with connect = \"verify\" the server name must match in any case")
    } else if rule.connect == .intercept {
      warning(setting, "it has no effect: connect = \"intercept\" opens no plain tunnel")
    }
  }

  // MARK: Security that does not reach a tunnel

  private func warnOfPins(_ rule: RuleDraft) {
    guard let own = rule.security, rule.matches(.https) else { return }
    if rule.verifiesTunnels, let setting = own.settings["client_certificate"] {
      warning(
        setting,
        "it is not shown in tunnels of this rule: with connect = \"verify\" TLS is the client's own; \"intercept\" "
          + "shows it")
    }
  }
}

extension RuleDraft {
  /// Whether the rule's own table names a set that pins.
  fileprivate var namesPins: Bool { security?.pinSet?.isPinning ?? false }

  /// Whether tunnels of the rule are verified, because it says so or because it pins.
  fileprivate var verifiesTunnels: Bool {
    if let connect { return connect == .verify }
    return !isAboutRequests && !upgrade && effectiveSecurity?.pinSet?.isPinning ?? false
  }
}
