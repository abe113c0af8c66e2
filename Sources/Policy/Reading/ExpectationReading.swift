// [[expect]]: a request and its expected outcome, in any of the files. Names of rules and routes may be defined later,
// so they are looked up when every file has been read. Tests: ExpectationReadingTests.

import Bytes
import Reachability

extension Expectation {
  /// Most expectations: all of them are checked before a policy is adopted, in microseconds each.
  static let most = 10_000
  /// Longest `name` of an expectation, in bytes: a sentence.
  static let longestName = 200
  /// Most fields that `header` may list: as many as a head may have.
  static let mostFields = 128
}

/// The expectations of all files.
struct ExpectationList {
  private(set) var all: [Expectation] = []
  /// Names of rules and routes that they mention; these may be defined later.
  private var rules: [(name: String, setting: Setting)] = []
  private var routes: [(name: String, setting: Setting)] = []

  mutating func read(_ setting: Setting, by reading: ConfigurationReading) {
    for table in reading.tables(setting, of: "an expectation") { read(table, by: reading) }
  }

  private mutating func read(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    let errorsBefore = reading.errorCount
    let draft = ExpectationDraft(table, by: reading)
    if let rule = draft.rule { rules.append(rule) }
    routes += draft.routes.map { ($0.value, $0.setting) }
    guard reading.errorCount == errorsBefore, let expectation = draft.expectation(table, by: reading) else { return }
    guard all.count < Expectation.most else {
      reading.report(.error, table.source, position: table.begin, message: "more than \(Expectation.most) expectations")
      return
    }
    all.append(expectation)
  }

  /// Looks up the names when every rule and route is known.
  func checkNames(rules known: RuleNames, routes drafts: RouteDrafts, by reading: ConfigurationReading) {
    for (name, setting) in rules where known[name] == nil {
      reading.error(
        setting, "there is no rule named \(name.quoted)\(Suggestion.question(name, among: known.all))")
    }
    for (name, setting) in routes { _ = drafts.checkReference(name, setting, by: reading) }
  }
}

/// An expectation as read from the file.
private struct ExpectationDraft {
  private var name: String? = nil
  private var request: (value: NamedRequest, text: String)? = nil
  private var isAbsolute = false
  private var user: NamedUser? = nil
  private var unit: String? = nil
  private var address: IPAddress? = nil
  private var proxyUser: String? = nil
  private var program: String? = nil
  private var link: ReachabilityStatus? = nil
  private var wishes: [Expectation.PlacedWish] = []
  /// The names that it mentions.
  private(set) var rule: (name: String, setting: Setting)? = nil
  private(set) var routes: [(value: String, setting: Setting)] = []
  /// The position of each key.
  private var settings: [String: Setting] = [:]

  init(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in table.settings {
      settings[setting.key] = setting
      read(setting, by: reading)
    }
    if settings["request"] == nil {
      let text = "[[expect]] has no 'request'; write \"GET https://HOST/PATH\" or \"CONNECT HOST:PORT\""
      reading.report(.error, table.source, position: table.begin, message: text)
    }
    checkWishes(table, by: reading)
  }

  /// nil without a request.
  func expectation(_ table: ConfigurationTable, by reading: ConfigurationReading) -> Expectation? {
    request.map { request in
      Expectation(
        location: table.source.location(table.begin), name: name, request: request.value, requestText: request.text,
        asker: Asker(sender(by: reading), link: link), isAbsolute: isAbsolute, wishes: wishes)
    }
  }

  private mutating func read(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "name": name = Self.name(of: setting, by: reading)
    case "request": request = Self.request(of: setting, by: reading)
    case "absolute": isAbsolute = reading.boolean(setting) ?? false
    case "user": user = NamedUser.read(setting, by: reading)
    case "unit": unit = Self.unit(of: setting, by: reading)
    case "client": address = Self.address(of: setting, by: reading)
    case "proxy_user": proxyUser = reading.string(setting)
    case "program": program = reading.string(setting)
    case "link": link = reading.choice(setting, ReachabilityStatus.self)
    case "verdict": reading.choice(setting, Decision.Verdict.self).map { add(.verdict($0), setting) }
    case "rule": readRule(setting, by: reading)
    case "connect": reading.choice(setting, ConnectTreatment.self).map { add(.connect($0), setting) }
    case "route": readRoutes(setting, by: reading)
    case "header": readFields(setting, by: reading)
    default: reading.unread(setting, of: .expect)
    }
  }

  private mutating func add(_ wish: Expectation.Wish, _ setting: Setting) {
    let begin = setting.value.begin
    wishes.append(
      Expectation.PlacedWish(
        wish: wish, location: setting.source.location(begin), excerpt: setting.source.excerpt(at: begin)))
  }

  // MARK: Who asks for what

  private static func name(of setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let text = reading.string(setting) else { return nil }
    if (1...Expectation.longestName).contains(text.utf8.count),
      !text.unicodeScalars.contains(where: \.isUnprintable)
    {
      return text
    }
    reading.error(setting, "expected a text of 1 to \(Expectation.longestName) bytes without control characters")
    return nil
  }

  private static func request(of setting: Setting, by reading: ConfigurationReading) -> (
    value: NamedRequest, text: String
  )? {
    guard let text = reading.string(setting) else { return nil }
    let parts = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    guard (1...2).contains(parts.count), let target = parts.last else {
      reading.error(setting, "expected a method and a URL with one space between, found \(text.quoted)")
      return nil
    }
    let method = parts.count == 2 ? parts[0] : "GET"
    if method != "CONNECT", target.firstRange(of: "://") == nil {
      let isAuthority = !target.contains("/") && target.contains(":")
      let meant = isAuthority ? "CONNECT \(target)" : "\(method) https://\(target)"
      reading.error(setting, "expected a URL behind the method, found \(target.quoted); did you mean '\(meant)'?")
      return nil
    }
    switch NamedRequest.read(method: method, url: target) {
    case .success(let request): return (request, "\(method) \(target)")
    case .failure(let fault):
      reading.error(setting, fault.sentence)
      return nil
    }
  }

  private static func unit(of setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let name = reading.string(setting) else { return nil }
    guard let fault = UnitName.fault(name) else { return name }
    reading.error(setting, fault)
    return nil
  }

  private static func address(of setting: Setting, by reading: ConfigurationReading) -> IPAddress? {
    guard let text = reading.string(setting) else { return nil }
    if let address = IPAddress(text) { return address }
    reading.error(setting, "expected an address, found \(text.quoted)")
    return nil
  }

  private func sender(by reading: ConfigurationReading) -> Sender {
    var sender = Sender(
      client: client(by: reading), address: address, proxyUser: proxyUser, program: program)
    sender.nameClientOfProgram()
    return sender
  }

  /// A client as the daemon would see it; nil if none is described.
  private func client(by reading: ConfigurationReading) -> LocalClient? {
    let cgroup = unit.map { [$0] } ?? []
    guard let user = user else {
      return unit == nil ? nil : LocalClient(userID: LocalClient.noUser, user: nil, cgroup: cgroup)
    }
    // A warning has already reported an unknown name: no rule matches it.
    guard let number = user.number else {
      return LocalClient(userID: LocalClient.noUser, user: user.name, cgroup: cgroup)
    }
    let owners = reading.files.subordinateOwners(of: number)
    return LocalClient(
      userID: number, user: user.name == "\(number)" ? nil : user.name, owners: owners ?? [], cgroup: cgroup,
      isUserInDoubt: owners == nil)
  }

  // MARK: What is wished for

  private mutating func readRule(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.value.content {
    case .boolean(false): add(.rule(nil), setting)
    case .string(let name):
      rule = (name, setting)
      add(.rule(name), setting)
    default: reading.expected("the name of a rule, or false where none is to match", setting)
    }
  }

  private mutating func readRoutes(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.value.content {
    case .string(let name):
      routes = [(name, setting)]
      add(.firstRoute(name), setting)
    case .array:
      let names = RouteDraft.names(setting, by: reading)
      routes = names
      add(.routes(names.map(\.value)), setting)
    default: reading.expected("the name of the route that is tried first, or an array of all in their order", setting)
    }
  }

  private mutating func readFields(_ setting: Setting, by reading: ConfigurationReading) {
    guard let table = reading.table(setting) else { return }
    if table.entries.isEmpty { reading.error(setting, "an empty table expects nothing; leave the key out") }
    if table.entries.count > Expectation.mostFields {
      reading.error(setting, "expected at most \(Expectation.mostFields) fields, found \(table.entries.count)")
    }
    for field in table.settings {
      guard HeaderEdit.isField(field.key, field, at: field.keyBegin, refused: FieldSyntax.owned, by: reading) else {
        continue
      }
      switch field.value.content {
      case .boolean(let leaves): add(.field(name: field.key, leaves ? .present : .absent), field)
      case .string(let text):
        if let fault = FieldSyntax.fault(ofValue: Array(text.utf8)) {
          reading.error(field, fault)
        } else {
          add(.field(name: field.key, .value(Array(text.utf8))), field)
        }
      default: reading.expected("the value that leaves, true for any, or false for none", field)
      }
    }
  }

  /// Reports expectations that no such request could meet, so that they do not pass for tests.
  private func checkWishes(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    let wishes = ["verdict", "rule", "connect", "route", "header"]
    if !wishes.contains(where: { settings[$0] != nil }) {
      let text = "[[expect]] expects nothing; it takes 'verdict', 'rule', 'connect', 'route' or 'header'"
      reading.report(.error, table.source, position: table.begin, message: text)
    }
    guard let request = request?.value else { return }
    if let setting = settings["connect"], !request.isTunnel, !request.needsTunnel(absolute: isAbsolute) {
      reading.error(setting, "no CONNECT stands before this request; 'connect' is for https and for CONNECT")
    }
    if let setting = settings["header"], request.isTunnel {
      reading.error(
        setting, "a CONNECT has no fields that leave; name the request inside, such as \"GET https://HOST/\"")
    }
    if let setting = settings["absolute"], isAbsolute, request.isTunnel || !request.isHTTPS {
      reading.error(setting, "it speaks of https:// that is sent without CONNECT; leave it out")
    }
  }
}
