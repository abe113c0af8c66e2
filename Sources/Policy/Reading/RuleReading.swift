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
  private(set) var name = ""
  private(set) var conditions = Rule.Conditions()
  private(set) var action = RuleAction.allow
  private(set) var ask = AskTerms()
  private(set) var reason: String? = nil
  private(set) var enforce = true
  private(set) var isLogged = true
  private(set) var connect: ConnectTreatment? = nil
  private(set) var tunnelSNI: TunnelSNI? = nil
  private(set) var upgrade = false
  private(set) var upgrades: UpgradeList? = nil
  private(set) var protocols: [HTTPProtocol]? = nil
  private(set) var redirects = Redirects.pass
  private(set) var target: RuleTarget? = nil
  /// Names of routes, in order; they are looked up when every file has been read.
  private(set) var routes: [(value: String, setting: Setting)] = []
  private(set) var denyAddresses: AddressSet? = nil
  /// nil: the rule has none of its own.
  private(set) var timeouts: TimeoutDraft? = nil
  private(set) var request = RequestDraft()
  /// nil: the rule has none of its own.
  private(set) var security: SecurityDraft? = nil
  /// The rule's own and inherited settings, once every file has been read; nil if `security` is.
  private(set) var effectiveSecurity: SecurityDraft? = nil
  /// nil: the rule has none of its own.
  private(set) var response: ResponseDraft? = nil
  /// nil: nothing is stored for the rule.
  private(set) var cache: CacheRule? = nil
  /// Whether it was read without an error.
  private(set) var isSound = false
  /// The position of each key, for checks of combinations.
  private(set) var settings: [String: Setting] = [:]

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

/// Names of rules, of sets of pins and of routes. They appear in log lines, metrics and reason phrases.
enum RuleName {
  static let longest = 64
  static let expectation = "1 to \(longest) ASCII letters, digits, '.', '_', ':' and '-'"

  static func isValid(_ name: String) -> Bool {
    (1...longest).contains(name.utf8.count)
      && name.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "._:-".utf8.contains($0) }
  }

  /// Whether a table may have the name that its header gives it, as in [pins.NAME]. `other`: the table of that name
  /// that was read before.
  static func check(
    _ header: Setting, of thing: String, after other: Setting?, by reading: ConfigurationReading
  ) -> Bool {
    let message: String
    if let other {
      let place = other.source.location(other.keyBegin)
      message = "[\(header.table).\(header.key)] stands at \(place) already; a name belongs to one \(thing)"
    } else if !isValid(header.key) {
      message = "[\(header.table)]: expected \(expectation) in the name of a \(thing), found \(header.key.quoted)"
    } else {
      return true
    }
    reading.report(.error, header.source, position: header.keyBegin, message: message)
    return false
  }
}

/// The names of all rules. Each belongs to one.
struct RuleNames {
  private var locations: [String: SourceLocation] = [:]

  subscript(_ name: String) -> SourceLocation? { locations[name] }
  var all: [String] { locations.keys.sorted() }

  /// nil after an error.
  fileprivate mutating func read(_ setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let name = reading.string(setting) else { return nil }
    guard RuleName.isValid(name) else {
      reading.error(setting, "expected \(RuleName.expectation), found \(name.quoted)")
      return nil
    }
    if let other = locations[name] {
      reading.error(setting, "\(name.quoted) is the name of the rule at \(other) already; a name belongs to one rule")
      return nil
    }
    locations[name] = setting.source.location(setting.value.begin)
    return name
  }
}

extension RuleDraft {
  /// Longest text of `reason`, in bytes: a few sentences in a problem body.
  private static let longestReason = 512

  init(_ table: ConfigurationTable, _ names: inout RuleNames, by reading: ConfigurationReading) {
    source = table.source
    begin = table.begin
    let errorsBefore = reading.errorCount
    for setting in table.settings {
      settings[setting.key] = setting
      if setting.key == "name" {
        name = names.read(setting, by: reading) ?? ""
      } else if let kind = Rule.Conditions.kind(setting.key) {
        if let condition = kind.read(setting, by: reading) { conditions.set(condition) }
      } else {
        read(setting, by: reading)
      }
    }
    if settings["name"] == nil {
      let text = "[[rule]] has no 'name'; it stands in every log line and metric of the rule"
      reading.report(.error, table.source, position: table.begin, message: text)
    }
    isSound = reading.errorCount == errorsBefore
  }

  // MARK: When every file has been read

  /// Looks up what its security refers to, and merges it with what it inherits.
  mutating func resolveSecurity(
    inheriting inherited: SecurityDraft, _ pinSets: inout PinSets, by reading: ConfigurationReading
  ) {
    guard let security else { return }
    security.resolvePins(in: &pinSets, by: reading)
    effectiveSecurity = SecurityDraft(security, inheriting: inherited)
  }

  /// It has an error, which has been reported.
  mutating func markUnsound() { isSound = false }

  // MARK: Keys

  private mutating func read(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "action": action = reading.choice(setting, RuleAction.self) ?? .allow
    case "ask": ask = reading.table(setting).map { AskTerms.read($0, by: reading) } ?? AskTerms()
    case "reason": reason = Self.reason(of: setting, by: reading)
    case "enforce": enforce = reading.boolean(setting) ?? true
    case "log": isLogged = reading.boolean(setting) ?? true
    case "connect": connect = reading.choice(setting, ConnectTreatment.self)
    case "tunnel_sni": tunnelSNI = reading.choice(setting, TunnelSNI.self)
    case "upgrade": upgrade = reading.boolean(setting) ?? false
    case "upgrades": upgrades = UpgradeList.read(setting, by: reading)
    case "protocols": protocols = HTTPProtocol.readList(setting, by: reading)
    case "redirects": redirects = reading.choice(setting, Redirects.self) ?? .deny
    case "target": target = RuleTarget.read(setting, by: reading)
    case "route": routes = RouteDraft.names(setting, by: reading)
    case "deny_addresses": denyAddresses = AddressSet.read(setting, by: reading)
    case "timeouts": timeouts = reading.table(setting).map { TimeoutDraft.read($0, by: reading) }
    case "request": request = reading.table(setting).map { RequestDraft.read($0, by: reading) } ?? RequestDraft()
    case "security": security = reading.table(setting).map { SecurityDraft.read($0, by: reading) }
    case "response": response = reading.table(setting).map { ResponseDraft.read($0, by: reading) }
    case "cache": cache = reading.table(setting).map { CacheRule.read($0, by: reading) }
    default: reading.unread(setting, of: .rule)
    }
  }

  private static func reason(of setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let text = reading.string(setting) else { return nil }
    guard (1...longestReason).contains(text.utf8.count),
      !text.unicodeScalars.contains(where: \.isUnprintable)
    else {
      reading.error(setting, "expected a text of 1 to \(longestReason) bytes without control characters")
      return nil
    }
    return text
  }
}
