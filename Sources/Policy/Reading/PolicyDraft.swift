// What the files say, table by table, and the policy that comes of it. Rules inherit from [defaults], and name pins and
// routes; all of these may come after them. So everything is kept as it was read, and checked and merged when every
// file has been read. Tests: PolicyLoaderTests and the suites of the tables.

import Security

/// [defaults] as read so far.
struct DefaultsDraft {
  private(set) var request = RequestDraft()
  private(set) var security = SecurityDraft()
  /// nil: there is no [defaults.response].
  private(set) var response: ResponseDraft? = nil

  /// Adds the keys of one file.
  fileprivate mutating func read(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in reading.once(table).settings {
      switch setting.key {
      case "request": request = reading.table(setting).map { RequestDraft.read($0, by: reading) } ?? RequestDraft()
      case "security": security = reading.table(setting).map { SecurityDraft.read($0, by: reading) } ?? SecurityDraft()
      case "response": response = reading.table(setting).map { ResponseDraft.read($0, by: reading) }
      default: reading.unread(setting, of: .defaults)
      }
    }
  }
}

struct PolicyDraft {
  private var proxy = ProxyDraft()
  private var admin = AdminDraft()
  /// The other tables of the daemon.
  private var daemon = Configuration()
  private var defaults = DefaultsDraft()
  private var pinSets = PinSets()
  private var routes = RouteDrafts()
  private var rules: [RuleDraft] = []
  private var ruleNames = RuleNames()
  private var expectations = ExpectationList()

  var configuration: Configuration {
    var configuration = daemon
    configuration.proxy = proxy.settings
    configuration.limits = proxy.limits
    configuration.timeouts = proxy.timeouts
    configuration.admin = admin.settings
    return configuration
  }

  // MARK: Reading

  /// Reads a table, or a key beside the tables, of the main file.
  mutating func readMain(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "dns": reading.table(setting).map { daemon.dns = NameServices.read($0, by: reading) }
    case "trust": reading.table(setting).map { daemon.readTrust($0, by: reading) }
    case "authority": reading.table(setting).map { daemon.authority = AuthoritySettings.read($0, by: reading) }
    case "admin": reading.table(setting).map { admin.read($0, by: reading) }
    case "reachability": reading.table(setting).map { daemon.reachability = ReachabilitySettings.read($0, by: reading) }
    case "cache": reading.table(setting).map { daemon.cache = CacheStorage.read($0, by: reading) }
    case "history": reading.table(setting).map { daemon.history = HistorySettings.read($0, by: reading) }
    default: readShared(setting, by: reading)
    }
  }

  /// Reads the tables that are allowed in any of the files.
  mutating func readShared(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "proxy": reading.table(setting).map { proxy.read($0, by: reading) }
    case "log": reading.table(setting).map { daemon.log.read($0, by: reading) }
    case "defaults": reading.table(setting).map { defaults.read($0, by: reading) }
    case "rule":
      for table in reading.tables(setting, of: "a rule") { rules.append(RuleDraft(table, &ruleNames, by: reading)) }
    case "expect": expectations.read(setting, by: reading)
    case "pins": pinSets.read(setting, by: reading)
    case "routes": routes.read(setting, by: reading)
    default: reading.unread(setting, of: .root)
    }
  }

  /// The tables that are allowed in an included file.
  static let namesInAnyFile: Set<String> = ["rule", "expect", "pins", "routes", "defaults", "log", "proxy"]

  // MARK: Checking

  /// Checks what involves several keys or several rules, when every file has been read. A rule with an error gets no
  /// further messages: they would only repeat it.
  mutating func check(by reading: ConfigurationReading) {
    proxy.checkRemoteListening(by: reading)
    proxy.checkListenAddresses(besides: admin.addresses, by: reading)
    defaults.security.resolvePins(in: &pinSets, by: reading)
    SecurityCheck(own: defaults.security, effective: defaults.security, trust: daemon.trust, reading: reading).run()
    let serializers = SerializerChecks(defaults: defaults, reading: reading)
    serializers.checkDefaults()
    routes.checkSecurity(&pinSets, trust: daemon.trust, by: reading)
    for index in rules.indices where !routes.use(rules[index].routes, by: reading) { rules[index].markUnsound() }
    routes.warnOfListeningParents(proxy.settings.listen, by: reading)
    for index in rules.indices {
      let errorsBefore = reading.errorCount
      rules[index].resolveSecurity(inheriting: defaults.security, &pinSets, by: reading)
      checkTables(of: rules[index], serializers, by: reading)
      if reading.errorCount > errorsBefore { rules[index].markUnsound() }
    }
    rules = Policy.inOrder(rules) { $0.action }
    warnOfIdleKeys(serializers, by: reading)
    pinSets.warnOfUnused(by: reading)
    routes.warnOfUnused(by: reading)
    expectations.checkNames(rules: ruleNames, routes: routes, by: reading)
  }

  /// Checks the rule's tables, merged with what they inherit.
  private func checkTables(of rule: RuleDraft, _ serializers: SerializerChecks, by reading: ConfigurationReading) {
    if let own = rule.security, let effective = rule.effectiveSecurity {
      SecurityCheck(own: own, effective: effective, trust: daemon.trust, reading: reading).run()
    }
    serializers.check(rule)
  }

  private func warnOfIdleKeys(_ serializers: SerializerChecks, by reading: ConfigurationReading) {
    let isClosed = proxy.settings.defaultAction == .deny
    let tunnels = TunnelChecks(rules, defaults, isClosed: isClosed, reading: reading)
    let cache = CacheChecks(hasStore: daemon.cache != nil, defaults: defaults.request, reading: reading)
    var shadowed = ShadowedRules()
    for (number, rule) in rules.enumerated() where rule.isSound {
      RuleCheck(rule: rule, defaults: defaults, isClosed: isClosed, reading: reading).run()
      serializers.warnOfIdleKeys(rule)
      ProxyUserCondition.warnOfIdle(rule, credentials: proxy.knownCredentials, by: reading)
      cache.check(rule)
      tunnels.check(number)
      let other = shadowed.shadow(
        of: rule.conditions, connect: rule.connect, denies: rule.isStrict,
        refusesTunnels: rule.connect == .deny && rule.enforce, number: number)
      if let other { warnOfShadow(rule, by: rules[other], reading) }
    }
    serializers.warnOfIdleDefaults(rules)
    tunnels.checkDefaults()
    cache.checkDefaults(rules)
  }

  private func warnOfShadow(_ rule: RuleDraft, by other: RuleDraft, _ reading: ConfigurationReading) {
    let decider = "rule \(other.name.quoted) at \(other.location)"
    reading.report(
      .warning, rule.source, position: rule.begin,
      message: rule.action == .ask
        ? "rule \(rule.name.quoted) never asks: \(decider) decides all that it matches, and rules that ask come last"
        : "rule \(rule.name.quoted) can never match: \(decider) comes first and matches all that it does")
  }

  // MARK: The policy

  /// Only if there was no error.
  func policy() -> Policy {
    let configuration = configuration
    let standard = SecurityPolicy(defaults.security.policySettings)
    var interned = [standard.digest: standard]
    func policy(_ draft: SecurityDraft?, orElse other: SecurityPolicy) -> SecurityPolicy {
      let own = draft.map { SecurityPolicy($0.policySettings) } ?? other
      let security = interned[own.digest, default: own]
      interned[own.digest] = security
      return security
    }
    let routes = routes.routes { policy($0, orElse: .standard) }
    let rules = rules.map { draft in
      let response = ResponseDraft.merged(draft.response, inheriting: defaults.response)
      return draft.rule(
        inheriting: defaults.request, timeouts: configuration.timeouts,
        routes: draft.routes.map { Self.route($0.value, among: routes) },
        security: policy(draft.effectiveSecurity, orElse: standard), response: response?.serialization,
        answer: response?.answer)
    }
    return Policy(
      configuration: configuration, rules: rules, defaultRequest: defaults.request.policy(), defaultSecurity: standard,
      defaultResponse: defaults.response?.serialization, defaultAnswer: defaults.response?.answer,
      expectations: expectations.all)
  }

  /// A name that refers to nothing has already been an error: a direct connection instead would bypass the parents.
  private static func route(_ name: String, among routes: [String: Route]) -> Route {
    if let route = routes[name] { return route }
    precondition(name == Route.direct.name, "a rule lists a route that is not there")
    return .direct
  }
}
