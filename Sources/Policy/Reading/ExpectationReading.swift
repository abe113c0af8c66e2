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

/// An expectation as read from the file.
private struct ExpectationDraft {
  var name: String? = nil
  var request: (value: NamedRequest, text: String)? = nil
  var isAbsolute = false
  var user: ConfigurationReading.NamedUser? = nil
  var unit: String? = nil
  var address: IPAddress? = nil
  var proxyUser: String? = nil
  var program: String? = nil
  var link: ReachabilityStatus? = nil
  var wishes: [Expectation.PlacedWish] = []
  /// The position of each key.
  var settings: [String: Setting] = [:]
}

extension ConfigurationReading {
  func readExpectations(_ setting: Setting) {
    guard case .array(let values) = setting.value.content else {
      let isTable = setting.value.typeName == "a table"
      report(
        .error, setting.source, setting.keyBegin,
        isTable
          ? "expected [[expect]], found [expect]; an expectation begins with two brackets"
          : "\(setting.title): expected an array of tables, found \(setting.value.typeName)")
      return
    }
    for value in values {
      guard let table = table(setting.element(value), path: "expect") else { continue }
      readExpectation(table)
    }
  }

  private func readExpectation(_ table: ConfigurationTable) {
    let errorsBefore = errorCount
    var draft = ExpectationDraft()
    for setting in table.settings {
      draft.settings[setting.key] = setting
      readExpectationKey(setting, &draft)
    }
    if draft.settings["request"] == nil {
      let text = "[[expect]] has no 'request'; write \"GET https://HOST/PATH\" or \"CONNECT HOST:PORT\""
      report(.error, table.source, table.begin, text)
    }
    checkWishes(draft, table)
    guard errorCount == errorsBefore, let request = draft.request else { return }
    guard expectations.count < Expectation.most else {
      report(.error, table.source, table.begin, "more than \(Expectation.most) expectations")
      return
    }
    expectations.append(
      Expectation(
        location: table.source.location(table.begin), name: draft.name, request: request.value,
        requestText: request.text, asker: Asker(sender(draft), link: draft.link),
        isAbsolute: draft.isAbsolute, wishes: draft.wishes))
  }

  private func readExpectationKey(_ setting: Setting, _ draft: inout ExpectationDraft) {
    switch setting.key {
    case "name": draft.name = expectationName(setting)
    case "request": draft.request = expectedRequest(setting)
    case "absolute": draft.isAbsolute = boolean(setting) ?? false
    case "user": draft.user = user(setting)
    case "unit": draft.unit = unitName(setting)
    case "client": draft.address = clientAddress(setting)
    case "proxy_user": draft.proxyUser = string(setting)
    case "program": draft.program = string(setting)
    case "link": draft.link = choice(setting, ReachabilityStatus.self)
    case "verdict": choice(setting, Decision.Verdict.self).map { add(.verdict($0), setting, &draft) }
    case "rule": readExpectedRule(setting, &draft)
    case "connect": choice(setting, ConnectTreatment.self).map { add(.connect($0), setting, &draft) }
    case "route": readExpectedRoutes(setting, &draft)
    case "header": readExpectedFields(setting, &draft)
    default: unread(setting, of: .expect)
    }
  }

  private func add(_ wish: Expectation.Wish, _ setting: Setting, _ draft: inout ExpectationDraft) {
    let begin = setting.value.begin
    draft.wishes.append(
      Expectation.PlacedWish(
        wish: wish, location: setting.source.location(begin), excerpt: setting.source.excerpt(at: begin)))
  }

  // MARK: Who asks for what

  private func expectationName(_ setting: Setting) -> String? {
    guard let text = string(setting) else { return nil }
    if (1...Expectation.longestName).contains(text.utf8.count),
      !text.unicodeScalars.contains(where: \.isUnprintable)
    {
      return text
    }
    error(setting, "expected a text of 1 to \(Expectation.longestName) bytes without control characters")
    return nil
  }

  private func expectedRequest(_ setting: Setting) -> (value: NamedRequest, text: String)? {
    guard let text = string(setting) else { return nil }
    let parts = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
    guard (1...2).contains(parts.count), let target = parts.last else {
      error(setting, "expected a method and a URL with one space between, found \(text.quoted)")
      return nil
    }
    let method = parts.count == 2 ? parts[0] : "GET"
    if method != "CONNECT", target.firstRange(of: "://") == nil {
      let isAuthority = !target.contains("/") && target.contains(":")
      let meant = isAuthority ? "CONNECT \(target)" : "\(method) https://\(target)"
      error(setting, "expected a URL behind the method, found \(target.quoted); did you mean '\(meant)'?")
      return nil
    }
    switch NamedRequest.read(method: method, url: target) {
    case .success(let request): return (request, "\(method) \(target)")
    case .failure(let fault):
      error(setting, fault.sentence)
      return nil
    }
  }

  private func unitName(_ setting: Setting) -> String? {
    guard let name = string(setting) else { return nil }
    guard let fault = UnitName.fault(name) else { return name }
    error(setting, fault)
    return nil
  }

  private func clientAddress(_ setting: Setting) -> IPAddress? {
    guard let text = string(setting) else { return nil }
    if let address = IPAddress(text) { return address }
    error(setting, "expected an address, found \(text.quoted)")
    return nil
  }

  private func sender(_ draft: ExpectationDraft) -> Sender {
    var sender = Sender(
      client: client(draft), address: draft.address, proxyUser: draft.proxyUser, program: draft.program)
    sender.nameClientOfProgram()
    return sender
  }

  /// A client as the daemon would see it; nil if none is described.
  private func client(_ draft: ExpectationDraft) -> LocalClient? {
    let cgroup = draft.unit.map { [$0] } ?? []
    guard let user = draft.user else {
      return draft.unit == nil ? nil : LocalClient(userID: LocalClient.noUser, user: nil, cgroup: cgroup)
    }
    // A warning has already reported an unknown name: no rule matches it.
    guard let number = user.number else {
      return LocalClient(userID: LocalClient.noUser, user: user.name, cgroup: cgroup)
    }
    let owners = files.subordinateOwners(of: number)
    return LocalClient(
      userID: number, user: user.name == "\(number)" ? nil : user.name, owners: owners ?? [], cgroup: cgroup,
      isUserInDoubt: owners == nil)
  }

  // MARK: What is wished for

  private func readExpectedRule(_ setting: Setting, _ draft: inout ExpectationDraft) {
    switch setting.value.content {
    case .boolean(false): add(.rule(nil), setting, &draft)
    case .string(let name):
      expectedRules.append((name, setting))
      add(.rule(name), setting, &draft)
    default: expected("the name of a rule, or false where none is to match", setting)
    }
  }

  private func readExpectedRoutes(_ setting: Setting, _ draft: inout ExpectationDraft) {
    switch setting.value.content {
    case .string(let name):
      expectedRoutes.append((name, setting))
      add(.firstRoute(name), setting, &draft)
    case .array:
      let names = routeNames(setting)
      expectedRoutes += names.map { ($0.value, $0.setting) }
      add(.routes(names.map(\.value)), setting, &draft)
    default: expected("the name of the route that is tried first, or an array of all in their order", setting)
    }
  }

  private func readExpectedFields(_ setting: Setting, _ draft: inout ExpectationDraft) {
    guard let table = table(setting) else { return }
    if table.entries.isEmpty { error(setting, "an empty table expects nothing; leave the key out") }
    if table.entries.count > Expectation.mostFields {
      error(setting, "expected at most \(Expectation.mostFields) fields, found \(table.entries.count)")
    }
    for field in table.settings {
      guard isField(field.key, field, at: field.keyBegin, refused: FieldSyntax.owned) else { continue }
      switch field.value.content {
      case .boolean(let leaves): add(.field(name: field.key, leaves ? .present : .absent), field, &draft)
      case .string(let text):
        if let fault = FieldSyntax.fault(ofValue: Array(text.utf8)) {
          error(field, fault)
        } else {
          add(.field(name: field.key, .value(Array(text.utf8))), field, &draft)
        }
      default: expected("the value that leaves, true for any, or false for none", field)
      }
    }
  }

  /// Reports expectations that no such request could meet, so that they do not pass for tests.
  private func checkWishes(_ draft: ExpectationDraft, _ table: ConfigurationTable) {
    let wishes = ["verdict", "rule", "connect", "route", "header"]
    if !wishes.contains(where: { draft.settings[$0] != nil }) {
      let text = "[[expect]] expects nothing; it takes 'verdict', 'rule', 'connect', 'route' or 'header'"
      report(.error, table.source, table.begin, text)
    }
    guard let request = draft.request?.value else { return }
    if let setting = draft.settings["connect"], !request.isTunnel, !request.needsTunnel(absolute: draft.isAbsolute) {
      error(setting, "no CONNECT stands before this request; 'connect' is for https and for CONNECT")
    }
    if let setting = draft.settings["header"], request.isTunnel {
      error(setting, "a CONNECT has no fields that leave; name the request inside, such as \"GET https://HOST/\"")
    }
    if let setting = draft.settings["absolute"], draft.isAbsolute, request.isTunnel || !request.isHTTPS {
      error(setting, "it speaks of https:// that is sent without CONNECT; leave it out")
    }
  }

  /// Looks up the names when every rule and route is known.
  func checkExpectationNames() {
    for (name, setting) in expectedRules where ruleNames[name] == nil {
      var message = "there is no rule named \(name.quoted)"
      if let nearest = Suggestion.nearest(to: name, among: ruleNames.keys.sorted()) {
        message += "; did you mean '\(nearest)'?"
      }
      error(setting, message)
    }
    for (name, setting) in expectedRoutes where name != Route.direct.name && routes[name] == nil {
      reportUnknownRoute(name, setting)
    }
  }
}
