// Keys of a rule that have no effect, because of its other keys or of what it inherits. This is checked after every
// file has been read, because [defaults] may come after the rules. Tests: RuleReadingTests, SecurityReadingTests.

/// The check of one rule.
struct RuleCheck {
  let rule: RuleDraft
  let defaults: DefaultsDraft
  /// Only what rules list is reachable.
  let isClosed: Bool
  let reading: ConfigurationReading

  func run() {
    warnOfIdleKeys()
    warnOfIdlePaths()
    checkTarget()
  }

  // MARK: Keys that do nothing

  /// In a rule that denies, every pattern can match: one reading of a path is enough.
  private func warnOfIdlePaths() {
    guard !rule.isStrict, let setting = rule.settings["paths"], case .array(let values) = setting.value.content
    else { return }
    let condition = PathCondition(rule.conditions.values(of: PathsCondition.self), denies: false)
    for (pattern, value) in zip(rule.conditions.values(of: PathsCondition.self), values) where pattern.matchesNoReading
    {
      if condition.holds(pattern.example) { continue }
      reading.warning(
        setting.element(value),
        "\(pattern.description.quoted) never matches: servers read such a path without empty segments, '.' and '..' "
          + "as well, and a rule that allows matches where all readings do")
    }
  }

  private func warnOfIdleKeys() {
    let denies = rule.action != .allow || rule.connect == .deny
    if rule.action != .ask, let setting = rule.settings["ask"] {
      reading.report(
        .warning, setting.source, position: setting.keyBegin,
        message: "[rule.ask] has no effect without action = \"ask\"")
    }
    if !denies {
      rule.settings["reason"].map { reading.warning($0, "it is never shown: the rule denies nothing") }
    }
    if !denies, !rule.enforce { warnOfIdleEnforce() }
    if rule.action == .deny, rule.enforce { warnOfDeadKeys() }
    if rule.upgrade, !rule.matches(.http), let setting = rule.settings["upgrade"] {
      reading.warning(setting, "it has no effect: 'schemes' leaves out http")
    }
    warnOfConnect()
    warnOfIdleNameCheck()
    if rule.action != .deny || !rule.enforce { warnOfPins() }
  }

  /// A rule that denies nothing can still refuse: tunnels by their port or their first bytes, protocols to switch to,
  /// addresses, slow responses, certificates, and bodies and responses that its serializers reject.
  private func warnOfIdleEnforce() {
    guard rule.denyAddresses == nil, rule.redirects == .pass, rule.target == nil,
      (rule.request.timeoutMilliseconds ?? defaults.request.timeoutMilliseconds) == nil, rule.upgrades == nil,
      rule.security == nil,
      rule.response == nil, defaults.response == nil,
      rule.request.allowsCellularAccess ?? defaults.request.allowsCellularAccess ?? true,
      rule.request.serializer == nil,
      defaults.request.serializer == nil,
      !looksAtTunnels(), let setting = rule.settings["enforce"]
    else { return }
    let usesTLS = rule.matches(.https) || rule.upgrade
    reading.warning(
      setting,
      usesTLS
        ? "the rule denies nothing; the only effect is that an invalid certificate is allowed and logged"
        : "it has no effect: the rule denies nothing")
  }

  /// Whether a tunnel of the rule can be refused for its port or its first bytes.
  private func looksAtTunnels() -> Bool {
    rule.matches(.https) && (rule.tunnelSNI == .match || isClosed)
  }

  private func warnOfDeadKeys() {
    for key in ["timeouts", "request", "security", "response", "cache"] {
      guard let setting = rule.settings[key] else { continue }
      reading.report(
        .warning, setting.source, position: setting.keyBegin,
        message: "[rule.\(key)] has no effect in a rule that denies every request")
    }
    for key in ["deny_addresses", "tunnel_sni", "upgrade", "upgrades", "protocols", "redirects", "target", "route"] {
      rule.settings[key].map { reading.warning($0, "it has no effect in a rule that denies every request") }
    }
  }

  private func warnOfConnect() {
    guard let connect = rule.connect, let setting = rule.settings["connect"] else { return }
    if !rule.matches(.https) {
      reading.warning(setting, "a tunnel counts as https, which 'schemes' leaves out, so this is never used")
    } else if rule.action == .deny, connect != .deny {
      reading.warning(setting, "'action = \"deny\"' denies tunnels too, so \"\(connect.rawValue)\" has no effect")
    } else if connect == .tunnel, rule.namesPins {
      reading.warning(
        setting,
        "\"tunnel\" passes bytes unread, so the rule's pins are not checked in tunnels; \"verify\" and "
          + "\"intercept\" look at them")
    }
  }

  /// `tunnel_sni` applies only to plain tunnels.
  private func warnOfIdleNameCheck() {
    guard let setting = rule.settings["tunnel_sni"], rule.action != .deny || !rule.enforce else { return }
    if !rule.matches(.https) {
      reading.warning(setting, "it has no effect: a tunnel counts as https, which 'schemes' leaves out")
    } else if rule.isAboutRequests, rule.connect == nil {
      reading.warning(
        setting,
        "it has no effect: a rule with 'methods' or 'paths' decides no tunnel. Set connect = \"tunnel\", or name it in a "
          + "rule without them")
    } else if rule.verifiesTunnels {
      reading.warning(setting, "it has no effect: with connect = \"verify\" the server name must match in any case")
    } else if rule.connect == .intercept {
      reading.warning(setting, "it has no effect: connect = \"intercept\" opens no plain tunnel")
    }
  }

  // MARK: Security that does not reach a tunnel

  private func warnOfPins() {
    guard let own = rule.security, rule.matches(.https) else { return }
    if rule.verifiesTunnels, let setting = own.settings["client_certificate"] {
      reading.warning(
        setting,
        "it is not shown in tunnels of this rule: with connect = \"verify\" TLS is the client's own; \"intercept\" "
          + "shows it")
    }
  }

  // MARK: The target

  private func checkTarget() {
    guard let target = rule.target, let setting = rule.settings["target"], rule.action != .deny || !rule.enforce else {
      return
    }
    if rule.upgrade, let upgrade = rule.settings["upgrade"] {
      reading.warning(upgrade, "it does nothing: 'target' says by which scheme requests leave")
    }
    if target.scheme == .http, rule.matches(.https), rule.connect == .intercept {
      reading.warning(setting, "requests for https leave in the clear: the target is http")
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
