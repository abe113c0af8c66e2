// [routes.NAME], and `route` of a rule, which names them. A route may be in any file, before or after the rules that
// list it; names are looked up when every file has been read. Tests: RouteReadingTests.

import Bytes
import Reachability
import Security

/// A route as read from the file.
struct RouteDraft {
  enum Way {
    case direct
    case parent(ParentAddress)
  }

  /// [routes.NAME] itself.
  let header: Setting
  /// The position of each key.
  private(set) var settings: [String: Setting] = [:]
  /// nil: `via` is missing or has an error.
  private(set) var way: Way? = nil
  private(set) var credentials: ParentCredentials? = nil
  private(set) var protocols: [HTTPProtocol]? = nil
  private(set) var links: [ReachabilityStatus] = []
  private(set) var interface: String? = nil
  /// nil after an error.
  private(set) var reaction: UnreachableReaction? = .fail
  private(set) var waitMilliseconds: Int64? = nil
  private(set) var security: SecurityDraft? = nil
  /// Whether it was read without an error.
  fileprivate(set) var isSound = false
  /// Whether a rule lists it.
  fileprivate(set) var isUsed = false

  /// `unreachable`
  enum UnreachableReaction: String, CaseIterable { case fail, wait }

  /// How long a request waits by default: longer than links commonly take to come back, and shorter than programs
  /// commonly wait for a response.
  static let standardWaitMilliseconds: Int64 = 30_000

  func route(security: SecurityPolicy) -> Route {
    Route(
      name: header.key, parent: parent, links: links, interface: interface,
      waitMilliseconds: reaction == .wait ? waitMilliseconds ?? Self.standardWaitMilliseconds : nil, security: security)
  }

  private var parent: Route.Parent? {
    guard case .parent(let address) = way else { return nil }
    return Route.Parent(
      kind: address.kind, host: address.host, port: address.port, credentials: credentials, protocols: protocols)
  }
}

extension Route {
  /// In milliseconds. Smallest: less than the network takes to settle after a change. Largest: few programs wait longer
  /// for a response, and their request is held all that time.
  static let waitBounds: ClosedRange<Int64> = 100...600_000
  /// Most routes of one rule: each may cost a request the time of a failing connection.
  static let mostOfRule = 16
  /// In bytes, for user name and password each: their lengths are sent in one byte (RFC 1929, 2).
  static let socksCredentialBounds = 1...255
}

/// The routes of all files, by name.
struct RouteDrafts {
  private var drafts: [String: RouteDraft] = [:]

  mutating func read(_ setting: Setting, by reading: ConfigurationReading) {
    for entry in reading.table(setting)?.settings ?? [] {
      guard let table = reading.table(entry) else { continue }
      let draft = RouteDraft(entry, table, isNamed: checkName(entry, by: reading), by: reading)
      drafts[entry.key] = drafts[entry.key] ?? draft
    }
  }

  private func checkName(_ header: Setting, by reading: ConfigurationReading) -> Bool {
    guard header.key == Route.direct.name else {
      return RuleName.check(header, of: "route", after: drafts[header.key]?.header, by: reading)
    }
    reading.report(
      .error, header.source, position: header.keyBegin,
      message: "[routes.\(header.key)]: the name is reserved: a rule may list \"direct\" without a table of that name")
    return false
  }

  // MARK: When every file has been read

  /// Resolves and checks what the routes say of TLS. Nothing of it is inherited: [defaults.security] is about origins,
  /// and a parent is not one.
  mutating func checkSecurity(_ pinSets: inout PinSets, trust: TrustSource, by reading: ConfigurationReading) {
    for (name, draft) in drafts {
      guard let security = draft.security else { continue }
      let errorsBefore = reading.errorCount
      security.resolvePins(in: &pinSets, by: reading)
      SecurityCheck(own: security, effective: security, trust: trust, reading: reading).run()
      if reading.errorCount > errorsBefore { drafts[name]?.isSound = false }
    }
  }

  /// Whether the routes that a rule lists exist; marks them as used. An error in a route does not count as an error of
  /// the rule.
  mutating func use(_ names: [(value: String, setting: Setting)], by reading: ConfigurationReading) -> Bool {
    var isSound = true
    for (name, setting) in names where !checkReference(name, setting, by: reading) { isSound = false }
    for (name, _) in names { drafts[name]?.isUsed = true }
    return isSound
  }

  /// Whether there is a route of the name; reports one that does not exist.
  func checkReference(_ name: String, _ setting: Setting, by reading: ConfigurationReading) -> Bool {
    if name == Route.direct.name || drafts[name] != nil { return true }
    let question = Suggestion.question(name, among: [Route.direct.name] + drafts.keys.sorted())
    reading.error(setting, "there is no route named \(name.quoted)\(question)")
    return false
  }

  func warnOfUnused(by reading: ConfigurationReading) {
    for (name, draft) in drafts where draft.isSound && !draft.isUsed {
      reading.report(
        .warning, draft.header.source, position: draft.header.keyBegin,
        message: "[routes.\(name)]: no rule lists this route, so it has no effect")
    }
  }

  /// Warns if a parent is this proxy itself. `listen`: where the proxy listens.
  func warnOfListeningParents(_ listen: [ListenAddress], by reading: ConfigurationReading) {
    for draft in drafts.values { draft.warnOfListeningParent(listen, by: reading) }
  }

  /// `security`: the policy for a table; nil: the route has none.
  func routes(security: (SecurityDraft?) -> SecurityPolicy) -> [String: Route] {
    drafts.mapValues { $0.route(security: security($0.security)) }
  }
}

extension RouteDraft {
  fileprivate init(_ header: Setting, _ table: ConfigurationTable, isNamed: Bool, by reading: ConfigurationReading) {
    self.header = header
    let errorsBefore = reading.errorCount
    for setting in table.settings {
      settings[setting.key] = setting
      read(setting, by: reading)
    }
    if settings["via"] == nil {
      let text = "[routes.\(header.key)] has no 'via'; \(ParentAddress.expectation)"
      reading.report(.error, header.source, position: header.keyBegin, message: text)
    }
    checkParentKeys(by: reading)
    checkWait(by: reading)
    isSound = isNamed && reading.errorCount == errorsBefore
  }

  private mutating func read(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "via": way = Self.way(of: setting, by: reading)
    case "credentials": credentials = Self.credentials(of: setting, by: reading)
    case "protocols": protocols = HTTPProtocol.readList(setting, by: reading)
    case "when": links = Self.links(of: setting, by: reading)
    case "interface": interface = InterfaceName.read(setting, by: reading)
    case "unreachable": reaction = reading.choice(setting, UnreachableReaction.self)
    case "wait": waitMilliseconds = reading.quantity(setting, .duration, in: Route.waitBounds)
    case "security": security = reading.table(setting).map { SecurityDraft.read($0, by: reading) }
    default: reading.unread(setting, of: .route)
    }
  }

  // MARK: Values

  private static func way(of setting: Setting, by reading: ConfigurationReading) -> RouteDraft.Way? {
    guard let text = reading.string(setting) else { return nil }
    if text == Route.direct.name { return .direct }
    do {
      return .parent(try ParentAddress(text))
    } catch {
      reading.error(setting, error.description)
      return nil
    }
  }

  private static func links(of setting: Setting, by reading: ConfigurationReading) -> [ReachabilityStatus] {
    let reachable = ReachabilityStatus.allCases.filter { $0 != .notReachable }
    let links = LinkCondition.links(setting, of: reachable, by: reading)
    if links.contains(.notReachable) {
      let text = "\"not-reachable\" is by no link, and nothing can be sent then"
      if links.allSatisfy({ $0 == .notReachable }) {
        reading.error(setting, "\(text), so the route would never be used")
      } else {
        reading.warning(setting, "\(text), so it has no effect here")
      }
    }
    return links
  }

  private static func credentials(of setting: Setting, by reading: ConfigurationReading) -> ParentCredentials? {
    guard case .table = setting.value.content, let table = reading.table(setting) else {
      reading.expected("a table with 'username' and 'password'", setting)
      return nil
    }
    if let entry = table.settings.first(where: { $0.key == "scheme" }),
      case .string(AuthorizationScheme.negotiate.rawValue) = entry.value.content
    {
      return KerberosClient.read(table.settings, of: setting, by: reading).map { .kerberos($0) }
    }
    var scheme: AuthorizationScheme? = .basic
    var username: [UInt8]? = nil
    var password: [UInt8]? = nil
    var keys: Set<String> = []
    for entry in table.settings {
      keys.insert(entry.key)
      switch entry.key {
      case "scheme": scheme = AuthorizationScheme.read(entry, among: AuthorizationScheme.allCases, by: reading)
      case "username": username = reading.stringOrSecret(entry, mayBeSecret: false)?.bytes
      case "password": password = reading.secret(entry)
      case "keytab", "principal": KerberosClient.refuse(entry, by: reading)
      default: reading.unread(entry, of: .routeCredentials)
      }
    }
    let missing = ["username", "password"].filter { !keys.contains($0) }.map(\.quoted)
    if !missing.isEmpty { reading.error(setting, "\(missing.joined(separator: " and ")) must be there") }
    guard let username, let password, let scheme else { return nil }
    return .password(RouteCredentials(username: username, password: password, scheme: scheme))
  }

  // MARK: A route as a whole

  /// Checks keys that are only for parents, or only for some of them.
  private func checkParentKeys(by reading: ConfigurationReading) {
    switch way {
    case nil: break
    case .direct:
      if let setting = settings["credentials"] {
        reading.error(setting, "there is no parent to show them to: 'via' is \"direct\"")
      }
      refuseSecurity("what an origin is held to is for [rule.security] to say, and 'via' is \"direct\"", by: reading)
      refuseProtocols(
        "there is no parent to offer them to: 'via' is \"direct\"; for origins, set 'protocols' in their rule",
        by: reading)
    case .parent(let parent):
      if let setting = settings["credentials"], let credentials, let fault = Self.fault(of: credentials, at: parent) {
        reading.error(setting, fault)
      }
      if parent.kind == .https {
        guard case .kerberos = credentials, protocols?.includeMultiplexed ?? false else { break }
        refuseProtocols("a Kerberos ticket is for one connection of HTTP/1.1 (RFC 4559); leave \"h2\" out", by: reading)
        break
      }
      refuseProtocols(
        "they are offered in the TLS handshake, and \(parent.kind.rawValue):// has none; use https://, or leave this out",
        by: reading)
      refuseSecurity(
        "there is no TLS to a parent by \(parent.kind.rawValue)://, so nothing would be checked; use https://, or "
          + "leave this out", by: reading)
    }
  }

  private func refuseSecurity(_ message: String, by reading: ConfigurationReading) {
    guard let setting = settings["security"] else { return }
    reading.report(
      .error, setting.source, position: setting.keyBegin, message: "[\(setting.table).security]: \(message)")
  }

  private func refuseProtocols(_ message: String, by reading: ConfigurationReading) {
    if let setting = settings["protocols"] { reading.error(setting, message) }
  }

  private static func fault(of credentials: ParentCredentials, at parent: ParentAddress) -> String? {
    switch credentials {
    case .password(let given): return parent.kind == .socks5 ? socksFault(given) : httpFault(given)
    case .kerberos where parent.kind == .socks5: return socksSchemeFault
    case .kerberos where parent.host.address != nil:
      return "a ticket is for a service of a host by its name, and 'via' names an address"
    case .kerberos: return nil
    }
  }

  private static let socksSchemeFault =
    "'scheme': SOCKS knows no schemes, only user name and password (RFC 1929); leave it out"

  /// Never quotes any of it: people put passwords into the wrong key.
  private static func httpFault(_ credentials: RouteCredentials) -> String? {
    let scheme = credentials.scheme
    if let fault = scheme.fault(ofCredential: credentials.username, isUser: true) { return "'username': \(fault)" }
    if let fault = scheme.fault(ofCredential: credentials.password, isUser: false) { return "'password': \(fault)" }
    if scheme == .digest { return nil }
    return FieldSyntax.fault(
      ofValue: Array("Basic ".utf8) + Base64.encode(credentials.username + [0x3a] + credentials.password))
  }

  private static func socksFault(_ credentials: RouteCredentials) -> String? {
    if credentials.scheme != .basic { return socksSchemeFault }
    let bounds = Route.socksCredentialBounds
    for (name, bytes) in [("username", credentials.username), ("password", credentials.password)]
    where !bounds.contains(bytes.count) {
      return
        "'\(name)': SOCKS takes \(bounds.lowerBound) to \(bounds.upperBound) bytes (RFC 1929, 2), found \(bytes.count)"
    }
    return nil
  }

  private func checkWait(by reading: ConfigurationReading) {
    guard reaction == .fail, waitMilliseconds != nil, let setting = settings["wait"] else { return }
    reading.warning(setting, "it does nothing without unreachable = \"wait\"")
  }

  // MARK: References

  /// The names that a rule lists, in order.
  static func names(_ setting: Setting, by reading: ConfigurationReading) -> [(value: String, setting: Setting)] {
    if case .string(let name) = setting.value.content {
      reading.expected("an array of names of routes", setting, advice: "write [\"\(name)\"]")
      return []
    }
    guard let names = reading.strings(setting) else { return [] }
    if case .array(let values) = setting.value.content, values.isEmpty {
      reading.error(setting, "an empty list leads nowhere; leave the key out to go straight, or set action = \"deny\"")
    }
    if names.count > Route.mostOfRule {
      reading.error(setting, "expected at most \(Route.mostOfRule) routes, found \(names.count)")
    }
    let routes = names.map { (value: $0.text, setting: $0.setting) }
    reading.warnOfRepetition(routes) { $0.quoted }
    return routes
  }

  /// Warns if a parent is this proxy itself.
  fileprivate func warnOfListeningParent(_ listen: [ListenAddress], by reading: ConfigurationReading) {
    guard case .parent(let parent) = way, let setting = settings["via"] else { return }
    let isLocalName = parent.host.bytes.elementsEqual("localhost".utf8)
    guard
      let own = listen.first(where: { own in
        own.port == parent.port
          && (own.address == parent.host.address
            || (own.address.isLoopback || own.address.isUnspecified) && isLocalName
            || own.address.isUnspecified && parent.host.address?.isLoopback ?? false)
      })
    else { return }
    reading.warning(
      setting, "this proxy itself listens on \(own) ('listen' in [proxy]), so requests would come back to it")
  }
}
