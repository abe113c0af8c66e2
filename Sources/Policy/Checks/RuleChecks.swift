// What several keys, or several rules, say together: looked at when every file has been read, for [defaults], [pins.*]
// and [routes.*] may stand behind the rules. Tests: RuleReadingTests, SecurityReadingTests, SerializerReadingTests, ShadowedRulesTests.

extension ConfigurationReading {
  /// Checks every rule against itself and those before it. Of a rule with an error nothing more is said than that: what
  /// is wrong already would only be said twice.
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

  /// Of a rule that denies every pattern can match: it takes one reading of a path.
  private func warnOfIdlePaths(_ rule: RuleDraft) {
    guard !rule.isStrict, let setting = rule.settings["paths"], case .array(let values) = setting.value.content
    else { return }
    let condition = PathCondition(rule.conditions.paths, denies: false)
    var readings = PathReadings()
    for (pattern, value) in zip(rule.conditions.paths, values) where pattern.matchesNoReading {
      guard let example = pattern.examples.first else { continue }
      readings.set(example.span)
      if condition.holds(example.span, readings) { continue }
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
      rule.settings["reason"].map { warning($0, "it is never shown, for the rule denies nothing") }
    }
    if !denies, !rule.enforce { warnOfIdleEnforce(rule) }
    if rule.action == .deny, rule.enforce { warnOfDeadKeys(rule) }
    if rule.upgrade, !rule.matches(.http), let setting = rule.settings["upgrade"] {
      warning(setting, "it does nothing, for 'schemes' leaves out http")
    }
    warnOfConnect(rule)
    warnOfIdleNameCheck(rule)
    if rule.action != .deny || !rule.enforce { warnOfPins(rule) }
  }

  /// What a rule that denies nothing can still refuse: tunnels by their port or their first bytes, addresses, answers that take too long, certificates, and bodies
  /// and responses that its serializers do not take.
  private func warnOfIdleEnforce(_ rule: RuleDraft) {
    guard rule.denyAddresses == nil, rule.redirects == .pass, rule.target == nil,
      rule.request.timeoutMilliseconds == nil,
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
        ? "the rule denies nothing; all that this changes is that a certificate which does not hold is let pass and logged"
        : "it changes nothing, for the rule denies nothing")
  }

  /// Whether a tunnel of the rule can be refused by its port or its first bytes.
  private func looksAtTunnels(_ rule: RuleDraft) -> Bool {
    rule.matches(.https) && (rule.tunnelSNI == .match || configuration.proxy.defaultAction == .deny)
  }

  private func warnOfDeadKeys(_ rule: RuleDraft) {
    for key in ["timeouts", "request", "security", "response", "cache"] {
      guard let setting = rule.settings[key] else { continue }
      report(
        .warning, setting.source, setting.keyBegin,
        "[rule.\(key)] does nothing in a rule that denies every request")
    }
    for key in ["deny_addresses", "tunnel_sni", "upgrade", "upgrades", "protocols", "redirects", "target", "route"] {
      rule.settings[key].map { warning($0, "it does nothing in a rule that denies every request") }
    }
  }

  private func warnOfConnect(_ rule: RuleDraft) {
    guard let connect = rule.connect, let setting = rule.settings["connect"] else { return }
    if !rule.matches(.https) {
      warning(setting, "a tunnel counts as https, which 'schemes' leaves out, so that this is never used")
    } else if rule.action == .deny, connect != .deny {
      warning(setting, "'action = \"deny\"' denies tunnels too, so that \"\(connect.rawValue)\" does nothing")
    } else if connect == .tunnel, rule.namesPins {
      warning(
        setting,
        "\"tunnel\" lets bytes through unread, so that the rule's pins are not looked at in tunnels; \"verify\" and "
          + "\"intercept\" look at them")
    }
  }

  /// `tunnel_sni` speaks of plain tunnels alone.
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

  /// Whether tunnels of the rule are verified, as it says or because it pins.
  fileprivate var verifiesTunnels: Bool {
    if let connect { return connect == .verify }
    return !isAboutRequests && !upgrade && effectiveSecurity?.pinSet?.isPinning ?? false
  }
}
