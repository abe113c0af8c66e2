// [[rule]]: conditions and actions. Rules inherit from the tables of [defaults], which may come after them. So they are
// kept as drafts, and become rules when every file has been read. RuleChecks checks combinations of keys; each
// condition is read in its own file (Rules/Conditions). Tests: RuleReadingTests.

import Bytes
import Security
import Serialization

/// A rule as read from the file.
struct RuleDraft {
  let source: SourceText
  let begin: TOMLPosition
  var name = ""
  var conditions = Rule.Conditions()
  var action = RuleAction.allow
  var ask = AskTerms()
  var reason: String? = nil
  var enforce = true
  var isLogged = true
  var connect: ConnectTreatment? = nil
  var tunnelSNI: TunnelSNI? = nil
  var upgrade = false
  var upgrades: UpgradeList? = nil
  var protocols: [HTTPProtocol]? = nil
  var redirects = Redirects.pass
  var target: RuleTarget? = nil
  /// Names of routes, in order; they are looked up when every file has been read.
  var routes: [(value: String, setting: Setting)] = []
  var denyAddresses: AddressSet? = nil
  /// nil: the rule has none of its own.
  var timeouts: TimeoutDraft? = nil
  var request = RequestDraft()
  /// nil: the rule has none of its own.
  var security: SecurityDraft? = nil
  /// The rule's own and inherited settings, once every file has been read; nil if `security` is.
  var effectiveSecurity: SecurityDraft? = nil
  /// nil: the rule has none of its own.
  var response: ResponseDraft? = nil
  /// nil: nothing is stored for the rule.
  var cache: CacheRule? = nil
  /// Whether it was read without an error.
  var isSound = false
  /// The position of each key, for checks of combinations.
  var settings: [String: Setting] = [:]

  var location: SourceLocation { source.location(begin) }

  func rule(
    inheriting inherited: RequestDraft, timeouts inheritedTimeouts: Timeouts, routes: [Route], security: SecurityPolicy,
    response: ResponseSerialization?, answer: SubstituteAnswer?
  ) -> Rule {
    Rule(
      name: name, location: location, conditions: conditions, action: action, ask: ask, reason: reason,
      enforce: enforce, isLogged: isLogged,
      connect: connect, tunnelSNI: tunnelSNI, upgrade: upgrade, upgrades: upgrades,
      protocols: protocols ?? HTTPProtocol.allCases, redirects: redirects,
      target: target, routes: routes,
      denyAddresses: denyAddresses, timeouts: timeouts?.timeouts(inheriting: inheritedTimeouts),
      request: request.policy(inheriting: inherited), security: security, response: response, answer: answer,
      cache: cache)
  }

  /// Whether it is about requests, and skipped when a tunnel is requested unless it sets `connect`.
  var isAboutRequests: Bool { conditions.areAboutRequests }

  /// Whether it refuses the requests that it matches.
  var denies: Bool { action == .deny && enforce }

  /// Whether it refuses them or makes them wait for an operator. Such a rule matches if any reading of the path does,
  /// and it matches clients in doubt.
  var isStrict: Bool { action != .allow && enforce }

  func matches(_ scheme: Scheme) -> Bool { conditions.allow(scheme) }
}

extension ConfigurationReading {
  static let longestRuleName = 64
  /// Longest text of `reason`, in bytes: a few sentences in a problem body.
  static let longestReason = 512

  func readRules(_ setting: Setting) {
    guard case .array(let values) = setting.value.content else {
      let isTable = setting.value.typeName == "a table"
      report(
        .error, setting.source, setting.keyBegin,
        isTable
          ? "expected [[rule]], found [rule]; a rule begins with two brackets"
          : "\(setting.title): expected an array of tables, found \(setting.value.typeName)")
      return
    }
    for value in values {
      guard let table = table(setting.element(value), path: "rule") else { continue }
      readRule(table)
    }
  }

  private func readRule(_ table: ConfigurationTable) {
    let errorsBefore = errorCount
    var draft = RuleDraft(source: table.source, begin: table.begin)
    for setting in table.settings {
      draft.settings[setting.key] = setting
      readKey(setting, &draft)
    }
    if draft.settings["name"] == nil {
      let text = "[[rule]] has no 'name'; it stands in every log line and metric of the rule"
      report(.error, table.source, table.begin, text)
    }
    draft.isSound = errorCount == errorsBefore
    rules.append(draft)
  }

  private func readKey(_ setting: Setting, _ draft: inout RuleDraft) {
    if let kind = Rule.Conditions.kind(setting.key) {
      if let condition = kind.read(setting, by: self) { draft.conditions.set(condition) }
    } else if setting.key == "name" {
      draft.name = ruleName(setting) ?? ""
    } else {
      readTreatment(setting, &draft)
    }
  }

  private func readTreatment(_ setting: Setting, _ draft: inout RuleDraft) {
    switch setting.key {
    case "action": draft.action = choice(setting, RuleAction.self) ?? .allow
    case "ask": draft.ask = table(setting).map(askTerms) ?? AskTerms()
    case "reason": draft.reason = reason(setting)
    case "enforce": draft.enforce = boolean(setting) ?? true
    case "log": draft.isLogged = boolean(setting) ?? true
    case "connect": draft.connect = choice(setting, ConnectTreatment.self)
    case "tunnel_sni": draft.tunnelSNI = choice(setting, TunnelSNI.self)
    case "upgrade": draft.upgrade = boolean(setting) ?? false
    case "upgrades": draft.upgrades = upgrades(setting)
    case "protocols": draft.protocols = protocols(setting)
    case "redirects": draft.redirects = choice(setting, Redirects.self) ?? .deny
    case "target": draft.target = ruleTarget(setting)
    case "route": draft.routes = routeNames(setting)
    case "deny_addresses": draft.denyAddresses = addressSet(setting)
    case "timeouts": draft.timeouts = table(setting).map(timeoutDraft)
    case "request": draft.request = table(setting).map(requestDraft) ?? RequestDraft()
    case "security": draft.security = table(setting).map(securityDraft)
    case "response": draft.response = table(setting).map(responseDraft)
    case "cache": draft.cache = table(setting).map(cacheRule)
    default: unread(setting, of: .rule)
    }
  }

  // MARK: Names and texts

  private func ruleName(_ setting: Setting) -> String? {
    guard let name = string(setting) else { return nil }
    guard Self.isRuleName(name) else {
      error(setting, "expected \(Self.ruleNameExpectation), found \(name.quoted)")
      return nil
    }
    if let other = ruleNames[name] {
      error(setting, "\(name.quoted) is the name of the rule at \(other) already; a name belongs to one rule")
      return nil
    }
    ruleNames[name] = setting.source.location(setting.value.begin)
    return name
  }

  /// Names of rules and of sets of pins appear in log lines, metrics and reason phrases.
  static func isRuleName(_ name: String) -> Bool {
    (1...longestRuleName).contains(name.utf8.count)
      && name.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "._:-".utf8.contains($0) }
  }

  static let ruleNameExpectation = "1 to \(longestRuleName) ASCII letters, digits, '.', '_', ':' and '-'"

  private func reason(_ setting: Setting) -> String? {
    guard let text = string(setting) else { return nil }
    guard (1...Self.longestReason).contains(text.utf8.count),
      !text.unicodeScalars.contains(where: \.isUnprintable)
    else {
      error(setting, "expected a text of 1 to \(Self.longestReason) bytes without control characters")
      return nil
    }
    return text
  }

  // MARK: Conditions

  /// The elements of a condition. Nothing could match an empty list.
  func elements(_ setting: Setting, of noun: String) -> [Setting] {
    guard let elements = array(setting, of: noun) else { return [] }
    if elements.isEmpty {
      error(setting, "an empty list matches nothing; leave the key out to match any")
    }
    return elements
  }
}
