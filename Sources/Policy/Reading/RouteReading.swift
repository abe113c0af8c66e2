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
  var settings: [String: Setting] = [:]
  /// nil: `via` is missing or has an error.
  var way: Way? = nil
  var credentials: ParentCredentials? = nil
  var protocols: [HTTPProtocol]? = nil
  var links: [ReachabilityStatus] = []
  var interface: String? = nil
  /// nil after an error.
  var reaction: UnreachableReaction? = .fail
  var waitMilliseconds: Int64? = nil
  var security: SecurityDraft? = nil
  /// Whether it was read without an error.
  var isSound = false
  /// Whether a rule lists it.
  var isUsed = false

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

extension ConfigurationReading {
  func readRoutes(_ setting: Setting) {
    for entry in table(setting)?.settings ?? [] { readRoute(entry) }
  }

  private func readRoute(_ header: Setting) {
    guard let table = table(header) else { return }
    let errorsBefore = errorCount
    var draft = RouteDraft(header: header)
    for setting in table.settings {
      draft.settings[setting.key] = setting
      readRouteKey(setting, &draft)
    }
    checkRouteName(header)
    if draft.settings["via"] == nil {
      let text = "[routes.\(header.key)] has no 'via'; \(ParentAddress.expectation)"
      report(.error, header.source, header.keyBegin, text)
    }
    checkParentKeys(draft)
    checkWait(draft)
    draft.isSound = errorCount == errorsBefore
    routes[header.key] = routes[header.key] ?? draft
  }

  private func readRouteKey(_ setting: Setting, _ draft: inout RouteDraft) {
    switch setting.key {
    case "via": draft.way = way(setting)
    case "credentials": draft.credentials = routeCredentials(setting)
    case "protocols": draft.protocols = protocols(setting)
    case "when": draft.links = routeLinks(setting)
    case "interface": draft.interface = interface(setting)
    case "unreachable": draft.reaction = choice(setting, RouteDraft.UnreachableReaction.self)
    case "wait": draft.waitMilliseconds = quantity(setting, .duration, in: Route.waitBounds)
    case "security": draft.security = table(setting).map(securityDraft)
    default: unread(setting, of: .route)
    }
  }

  private func checkRouteName(_ header: Setting) {
    let name = header.key
    if name == Route.direct.name {
      report(
        .error, header.source, header.keyBegin,
        "[routes.\(name)]: the name is reserved: a rule may list \"direct\" without a table of that name")
    } else if let other = routes[name]?.header {
      report(
        .error, header.source, header.keyBegin,
        "[routes.\(name)] stands at \(other.source.location(other.keyBegin)) already; a name belongs to one route")
    } else if !Self.isRuleName(name) {
      report(
        .error, header.source, header.keyBegin,
        "[routes]: expected \(Self.ruleNameExpectation) in the name of a route, found \(name.quoted)")
    }
  }

  // MARK: Values

  private func way(_ setting: Setting) -> RouteDraft.Way? {
    guard let text = string(setting) else { return nil }
    if text == Route.direct.name { return .direct }
    do {
      return .parent(try ParentAddress(text))
    } catch {
      self.error(setting, error.description)
      return nil
    }
  }

  private func routeLinks(_ setting: Setting) -> [ReachabilityStatus] {
    let reachable = ReachabilityStatus.allCases.filter { $0 != .notReachable }
    let links = links(setting, of: reachable)
    if links.contains(.notReachable) {
      let text = "\"not-reachable\" is by no link, and nothing can be sent then"
      if links.allSatisfy({ $0 == .notReachable }) {
        error(setting, "\(text), so the route would never be used")
      } else {
        warning(setting, "\(text), so it has no effect here")
      }
    }
    return links
  }

  private func routeCredentials(_ setting: Setting) -> ParentCredentials? {
    guard case .table = setting.value.content, let table = table(setting) else {
      expected("a table with 'username' and 'password'", setting)
      return nil
    }
    if let entry = table.settings.first(where: { $0.key == "scheme" }),
      case .string(AuthorizationScheme.negotiate.rawValue) = entry.value.content
    {
      return kerberosClient(table.settings, setting).map { .kerberos($0) }
    }
    var scheme: AuthorizationScheme? = .basic
    var username: [UInt8]? = nil
    var password: [UInt8]? = nil
    var keys: Set<String> = []
    for entry in table.settings {
      keys.insert(entry.key)
      switch entry.key {
      case "scheme": scheme = authorizationScheme(entry, among: AuthorizationScheme.allCases)
      case "username": username = stringOrSecret(entry, mayBeSecret: false)?.bytes
      case "password": password = secret(entry)
      case "keytab", "principal": refuseKerberosKey(entry)
      default: unread(entry, of: .routeCredentials)
      }
    }
    let missing = ["username", "password"].filter { !keys.contains($0) }.map(\.quoted)
    if !missing.isEmpty { error(setting, "\(missing.joined(separator: " and ")) must be there") }
    guard let username, let password, let scheme else { return nil }
    return .password(RouteCredentials(username: username, password: password, scheme: scheme))
  }

  // MARK: A route as a whole

  /// Checks keys that are only for parents, or only for some of them.
  private func checkParentKeys(_ draft: RouteDraft) {
    switch draft.way {
    case nil: break
    case .direct:
      if let setting = draft.settings["credentials"] {
        error(setting, "there is no parent to show them to: 'via' is \"direct\"")
      }
      refuseSecurity(draft, "what an origin is held to is for [rule.security] to say, and 'via' is \"direct\"")
      refuseProtocols(
        draft, "there is no parent to offer them to: 'via' is \"direct\"; for origins, set 'protocols' in their rule")
    case .parent(let parent):
      if let setting = draft.settings["credentials"], let credentials = draft.credentials {
        if let fault = Self.fault(of: credentials, at: parent) { error(setting, fault) }
      }
      if parent.kind == .https {
        guard case .kerberos = draft.credentials, draft.protocols?.contains(.http2) ?? false else { break }
        refuseProtocols(draft, "a Kerberos ticket is for one connection of HTTP/1.1 (RFC 4559); leave \"h2\" out")
        break
      }
      refuseProtocols(
        draft,
        "they are offered in the TLS handshake, and \(parent.kind.rawValue):// has none; use https://, or leave this out"
      )
      refuseSecurity(
        draft,
        "there is no TLS to a parent by \(parent.kind.rawValue)://, so nothing would be checked; use https://, or "
          + "leave this out")
    }
  }

  private func refuseSecurity(_ draft: RouteDraft, _ message: String) {
    guard let setting = draft.settings["security"] else { return }
    report(.error, setting.source, setting.keyBegin, "[\(setting.table).security]: \(message)")
  }

  private func refuseProtocols(_ draft: RouteDraft, _ message: String) {
    if let setting = draft.settings["protocols"] { error(setting, message) }
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
    if let fault = fault(ofCredential: credentials.username, isUser: true, scheme) { return "'username': \(fault)" }
    if let fault = fault(ofCredential: credentials.password, isUser: false, scheme) { return "'password': \(fault)" }
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

  private func checkWait(_ draft: RouteDraft) {
    guard draft.reaction == .fail, draft.waitMilliseconds != nil, let setting = draft.settings["wait"] else { return }
    warning(setting, "it does nothing without unreachable = \"wait\"")
  }

  // MARK: References

  /// The names that a rule lists, in order.
  func routeNames(_ setting: Setting) -> [(value: String, setting: Setting)] {
    if case .string(let name) = setting.value.content {
      expected("an array of names of routes", setting, advice: "write [\"\(name)\"]")
      return []
    }
    guard let names = strings(setting) else { return [] }
    if case .array(let values) = setting.value.content, values.isEmpty {
      error(setting, "an empty list leads nowhere; leave the key out to go straight, or set action = \"deny\"")
    }
    if names.count > Route.mostOfRule {
      error(setting, "expected at most \(Route.mostOfRule) routes, found \(names.count)")
    }
    let routes = names.map { (value: $0.text, setting: $0.setting) }
    warnOfRepetition(routes) { $0.quoted }
    return routes
  }

  /// Checks the routes that rules list. An error in a route does not count as an error of the rule.
  func checkRoutes() {
    for (name, draft) in routes {
      guard let security = draft.security else { continue }
      let errorsBefore = errorCount
      checkSecurity(ofRoute: security)
      if errorCount > errorsBefore { routes[name]?.isSound = false }
    }
    for index in rules.indices {
      for (name, setting) in rules[index].routes where name != Route.direct.name {
        if routes[name] == nil {
          reportUnknownRoute(name, setting)
          rules[index].isSound = false
        } else {
          routes[name]?.isUsed = true
        }
      }
    }
    for draft in routes.values { warnOfListeningParent(draft) }
  }

  func reportUnknownRoute(_ name: String, _ setting: Setting) {
    var message = "there is no route named \(name.quoted)"
    if let nearest = Suggestion.nearest(to: name, among: [Route.direct.name] + routes.keys.sorted()) {
      message += "; did you mean '\(nearest)'?"
    }
    error(setting, message)
  }

  func warnOfUnusedRoutes() {
    for (name, draft) in routes where draft.isSound && !draft.isUsed {
      report(
        .warning, draft.header.source, draft.header.keyBegin,
        "[routes.\(name)]: no rule lists this route, so it has no effect")
    }
  }

  /// Warns if a parent is this proxy itself.
  private func warnOfListeningParent(_ draft: RouteDraft) {
    guard case .parent(let parent) = draft.way, let setting = draft.settings["via"] else { return }
    let isLocalName = parent.host.bytes.elementsEqual("localhost".utf8)
    guard
      let own = configuration.proxy.listen.first(where: { own in
        own.port == parent.port
          && (own.address == parent.host.address
            || (own.address.isLoopback || own.address.isUnspecified) && isLocalName
            || own.address.isUnspecified && parent.host.address?.isLoopback ?? false)
      })
    else { return }
    warning(
      setting, "this proxy itself listens on \(own) ('listen' in [proxy]), so requests would come back to it")
  }
}
