// Warnings about https: settings of a rule without effect, because programs reach https through tunnels and no rule
// intercepts them; secrets sent in the clear; and pins where no TLS is used. One warning per rule and deciding rule, at
// the first of the keys. Tests: TunnelChecksTests.

import Bytes

struct TunnelChecks {
  /// Most hosts that a warning names.
  private static let mostHostsNamed = 4

  private let rules: [RuleDraft]
  private let defaults: DefaultsDraft
  private let outcomes: TunnelOutcomes
  private let reading: ConfigurationReading

  /// `isClosed`: only what rules list is reachable.
  init(_ rules: [RuleDraft], _ defaults: DefaultsDraft, isClosed: Bool, reading: ConfigurationReading) {
    self.rules = rules
    self.defaults = defaults
    self.reading = reading
    let pins = defaults.security.pinSet?.isPinning ?? false
    outcomes = TunnelOutcomes(
      rules.map { rule in
        TunnelOutcomes.Entry(
          conditions: rule.conditions, connect: rule.connect, treatment: Self.treatment(rule, defaults),
          enforces: rule.enforce, isSound: rule.isSound)
      }, treatmentOfOthers: isClosed ? .deny : pins ? .verify : .tunnel, listsPorts: isClosed)
  }

  private static func treatment(_ rule: RuleDraft, _ defaults: DefaultsDraft) -> ConnectTreatment {
    if rule.enforce, rule.action == .deny || rule.connect == .deny { return .deny }
    if let connect = rule.connect, connect != .deny { return connect }
    return (rule.effectiveSecurity ?? defaults.security).pinSet?.isPinning ?? false ? .verify : .tunnel
  }

  /// Warns about rule `number`.
  func check(_ number: Int) {
    let rule = rules[number]
    warnOfSecrets(rule)
    warnOfPinsWithoutTLS(rule)
    var keys = keysAboutRequests(rule)
    let isAllowList = rule.isAboutRequests && rule.action != .deny && rule.connect == nil
    let limits = rule.isAboutRequests && rule.connect != nil && rule.action != .deny
    let namesPins = rule.isAboutRequests && rule.connect == nil && rule.security?.pinSet?.isPinning ?? false
    let ofTLS = keysOfTLS(rule)
    if keys.isEmpty && ofTLS.isEmpty && !isAllowList && !limits { return }
    let findings = outcomes.findings(of: number)
    if limits, [.tunnel, .verify].contains(rule.connect), outcomes.deniesTheRest(of: number) {
      keys = keysOfConditions(rule) + keys
    }
    let opaque = findings.filter { [.tunnel, .verify].contains($0.outcome.treatment) }
    for finding in opaque {
      let idle = keys + (finding.outcome.treatment == .tunnel ? ofTLS : [])
      if !idle.isEmpty { warn(idle, finding, number: number) }
    }
    if isAllowList, !findings.isEmpty, findings.allSatisfy({ $0.outcome.treatment == .deny }) {
      warnOfUnusable(rule, findings[0], number: number)
    }
    if namesPins, rule.action != .deny || !rule.enforce, !opaque.isEmpty, let setting = rule.security?.settings["pins"]
    {
      reading.warning(
        setting,
        "these pins have no effect on tunnels: a rule with 'methods' or 'paths' does not decide a CONNECT; "
          + "name them in a rule without, or set 'connect'")
    }
  }

  /// Warns about [defaults.security] where the proxy takes part in no TLS of a tunnel. An error, in a rule or in pins,
  /// may hide that it does.
  func checkDefaults() {
    let keys = Self.keysOfTLS(defaults.security)
    if reading.errorCount > 0 || keys.isEmpty || defaults.security.pinSet?.isPinning ?? false { return }
    let takesPart = rules.contains { rule in
      rule.leavesByTLS ?? false || [.verify, .intercept].contains(Self.treatment(rule, defaults))
    }
    if takesPart { return }
    reading.report(
      .warning, keys[0].setting.source, position: keys[0].setting.keyBegin,
      message:
        "[defaults.security]: \(Self.subject(keys)) no effect on https: programs reach it through tunnels, and no rule "
        + "opens them. Set connect = \"verify\" or \"intercept\" in a rule.")
  }

  // MARK: Keys that speak of requests

  /// A key, or a table, as a warning names it.
  private struct Key {
    let name: String
    let setting: Setting
  }

  /// What it demands of TLS, in which a tunnel that nobody looks into leaves the proxy no say.
  private func keysOfTLS(_ rule: RuleDraft) -> [Key] {
    rule.action == .deny ? [] : rule.security.map(Self.keysOfTLS) ?? []
  }

  private static func keysOfTLS(_ security: SecurityDraft) -> [Key] {
    let names = [
      "min_tls", "max_tls", "ciphers", "anchors", "profile", "revocation", "server_name", "client_certificate",
    ]
    return names.compactMap { key in security.settings[key].map { Key(name: key.quoted, setting: $0) } }
  }

  private func keysOfConditions(_ rule: RuleDraft) -> [Key] {
    ["methods", "paths"].compactMap { key in rule.settings[key].map { Key(name: key.quoted, setting: $0) } }
  }

  private func keysAboutRequests(_ rule: RuleDraft) -> [Key] {
    if rule.action == .deny, rule.isAboutRequests, rule.connect == nil { return keysOfConditions(rule) }
    if rule.action == .deny, rule.enforce { return [] }
    var keys: [Key] = []
    func add(_ key: String) {
      if let setting = rule.request.settings[key] { keys.append(Key(name: key.quoted, setting: setting)) }
    }
    if rule.request.edits.contains(where: {
      $0.setting.table.hasSuffix(".headers") || $0.setting.table.contains(".headers.")
    }) {
      add("headers")
    }
    for key in ["user_agent", "accept_language", "authorization"] { add(key) }
    if SerializerDraft.merged(rule.request.serializer, inheriting: defaults.request.serializer)?.serialization != nil {
      let own = ["parameters", "transcode"].filter { rule.request.settings[$0] != nil }
      for key in own.isEmpty ? ["serializer", "query_style", "encoding"] : own { add(key) }
    }
    if rule.request.cookies == false { add("cookies") }
    if rule.request.encodesPath == true { add("encode_path") }
    if rule.request.buffersUploads == true { add("buffer_uploads") }
    for key in ["upgrades", "protocols"] {
      if let setting = rule.settings[key] { keys.append(Key(name: key.quoted, setting: setting)) }
    }
    if rule.redirects != .pass, let setting = rule.settings["redirects"] {
      keys.append(Key(name: "redirects".quoted, setting: setting))
    }
    if let setting = rule.settings["target"] { keys.append(Key(name: "target".quoted, setting: setting)) }
    for timeout in Timeout.ofRequests {
      guard let setting = rule.timeouts?.settings[timeout] else { continue }
      keys.append(Key(name: "timeouts.\(timeout.rawValue)".quoted, setting: setting))
    }
    for table in ["response", "cache"] {
      if let setting = rule.settings[table] { keys.append(Key(name: "[rule.\(table)]", setting: setting)) }
    }
    return keys
  }

  // MARK: Warnings

  private func warn(_ keys: [Key], _ finding: TunnelOutcomes.Finding, number: Int) {
    reading.report(
      .warning, keys[0].setting.source, position: keys[0].setting.keyBegin,
      message: "\(Self.subject(keys)) no effect on https\(place(finding)): programs reach it through tunnels, and "
        + "\(closing(finding.outcome, number)). \(advice(finding.outcome, number))")
  }

  private static func subject(_ keys: [Key]) -> String {
    let names = keys.map(\.name)
    return names.count == 1
      ? "\(names[0]) has" : names.dropLast().joined(separator: ", ") + " and \(names.last ?? "") have"
  }

  private func warnOfUnusable(_ rule: RuleDraft, _ finding: TunnelOutcomes.Finding, number: Int) {
    guard let key = keysOfConditions(rule).first else { return }
    let reason =
      finding.outcome.rule == nil ? "no rule allows one" : "\(decider(finding.outcome, number)) denies them"
    reading.report(
      .warning, key.setting.source, position: key.setting.keyBegin,
      message:
        "this rule allows no https: programs reach it through tunnels, and \(reason). Set connect = \"intercept\""
        + (rule.conditions.values(of: SchemeCondition.self).isEmpty
          ? ", or schemes = [\"http\"] where only http is meant" : ""))
  }

  private func place(_ finding: TunnelOutcomes.Finding) -> String {
    if finding.isEveryHost { return "" }
    let named = finding.hosts.prefix(Self.mostHostsNamed).joined(separator: ", ")
    let rest = finding.hosts.count - Self.mostHostsNamed
    return " for " + (rest > 0 ? "\(named) and \(rest) more" : named)
  }

  private func closing(_ outcome: TunnelOutcomes.Outcome, _ number: Int) -> String {
    outcome.rule == nil ? "no rule opens them" : decider(outcome, number) + " leaves them closed"
  }

  private func decider(_ outcome: TunnelOutcomes.Outcome, _ number: Int) -> String {
    guard let rule = outcome.rule else { return "the default" }
    return rule == number ? "this rule" : "rule \(rules[rule].name.quoted) (\(rules[rule].location))"
  }

  /// The line to add, and where: in this rule, unless an earlier one decides, or it denies and so would deny tunnels
  /// too.
  private func advice(_ outcome: TunnelOutcomes.Outcome, _ number: Int) -> String {
    let line = "connect = \"intercept\""
    if let rule = outcome.rule, rule < number || rules[number].action == .deny && rule != number {
      return "Set \(line) in rule \(rules[rule].name.quoted)."
    }
    if rules[number].action == .deny { return "Add a rule for these hosts with \(line)." }
    return "Set \(line)."
  }

  // MARK: Secrets and pins

  private func warnOfSecrets(_ rule: RuleDraft) {
    guard rule.action != .deny || !rule.enforce,
      rule.leavesByTLS == false || rule.leavesByTLS == nil && rule.matches(.http),
      rule.conditions.values(of: PortCondition.self) != [Scheme.https.defaultPort], !isOfThisMachine(rule)
    else { return }
    var told: Set<String> = []
    func warn(_ setting: Setting, isDigest: Bool = false) {
      guard told.insert("\(setting.table) \(setting.key)").inserted else { return }
      // Digest hides the password from eavesdroppers, but they can then try to guess it.
      let what =
        isDigest
        ? "digest answers, from which a weak password can be guessed, leave in the clear"
        : "the secret leaves in the clear"
      reading.report(
        .warning, setting.source, position: setting.keyBegin,
        message: "\(setting.title): \(what) where a program asks for http. Set upgrade = true, or schemes = [\"https\"]"
      )
    }
    for edit in rule.request.edits where edit.value.isSecret { warn(edit.setting, isDigest: edit.digest != nil) }
    if rule.request.serializer?.secretNames.isEmpty == false, let setting = rule.request.settings["parameters"] {
      warn(setting)
    }
  }

  private static func pattern(_ host: CanonicalHost) -> HostPattern {
    host.address.flatMap { AddressBlock("\($0)") }.map(HostPattern.block) ?? .name(host.bytes.span.string)
  }

  /// Bytes that never leave the machine cannot be read on the way.
  private func isOfThisMachine(_ rule: RuleDraft) -> Bool {
    let hosts = rule.target.map { [Self.pattern($0.host)] } ?? rule.conditions.hosts
    return !hosts.isEmpty
      && hosts.allSatisfy { host in
        switch host {
        case .name(let name), .oneLabelBelow(let name), .atOrBelow(let name):
          name == "localhost" || name.hasSuffix(".localhost")
        case .block(let block):
          block.address.isIPv4
            ? block.length >= 8 && block.address.description.hasPrefix("127.") : block.address.description == "::1"
        case .any: false
        }
      }
  }

  private func warnOfPinsWithoutTLS(_ rule: RuleDraft) {
    guard rule.security?.pinSet?.isPinning ?? false,
      rule.leavesByTLS == false
        || rule.leavesByTLS == nil && rule.conditions.values(of: SchemeCondition.self) == [.http],
      rule.action != .deny || !rule.enforce, let setting = rule.security?.settings["pins"]
    else { return }
    reading.warning(
      setting,
      "they have no effect: requests of this rule leave without TLS. Set upgrade = true, or leave 'schemes' out")
  }
}
