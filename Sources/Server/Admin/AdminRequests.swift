// The answer of each resource of the admin API: at once, or when all loops have answered.

import Bytes
import Policy
import Session
import Transport

extension AdminServer {
  /// A question in progress.
  struct Inquiry {
    let connection: AdminConnection
    let resource: Resource
    var answers: [Answer] = []
    /// Workers that have yet to answer.
    var awaited: Set<Int>
  }

  enum Resource {
    case status, rules, pins, connections, metrics
    case decision
    case decisions(limit: Int)
    case reachability
    case cancelled, flushed
    /// The outcome of the reload.
    case closedDenied(AdminPage)
    /// For a request that has ended.
    case answer(TemporaryRule.Verdict, Int64?, by: String)
    case rule(RuleAction)
  }

  func answer(_ request: AdminRequest, _ connection: AdminConnection) {
    var userID = connection.kind == .socket ? connection.descriptor.peerUserID : nil
    if connection.kind == .web {
      guard let dashboard, let session = admit(request, connection, dashboard) else { return }
      userID = session.askedBy
    }
    let rights = rights(of: connection, userID)
    if let refusal = rights.refusal(request, userID: userID) {
      return refuse(refusal.status, refusal.detail, connection)
    }
    let routes = AdminRoute.routes(request.path)
    guard let route = routes.first(where: { $0.method == request.method }) else {
      return answer(request, of: routes, connection)
    }
    if let fault = AdminQuery.fault(in: request.query, expecting: route.query) {
      return refuse(400, fault.sentence, connection)
    }
    if connection.kind == .metrics, let scraped, scraped.until > Clock.monotonic {
      return connection.write(scraped.page)
    }
    route.answer(
      self,
      AdminCall(
        request: request, argument: route.argument(in: request.path) ?? "", userID: userID, mayAct: rights >= .act,
        connection: connection))
  }

  /// `routes`: those of the path; none has the method.
  private func answer(_ request: AdminRequest, of routes: [AdminRoute], _ connection: AdminConnection) {
    if routes.isEmpty {
      return refuse(404, "there is no such resource; GET /v1 and sallyport-admin(7) list them", connection)
    }
    let methods = AdminRoute.methods(routes)
    if request.method == "OPTIONS" { return connection.write(.json(AdminRoute.json(routes)), allow: methods) }
    let expected = routes.map(\.method).joined(separator: " or ")
    connection.write(.problem(405, "expected \(expected)"), allow: methods)
  }

  private func rights(of connection: AdminConnection, _ userID: UInt32?) -> AdminRights {
    switch connection.kind {
    case .metrics: .metrics
    case .web: connection.session.map { rights(of: $0) } ?? .metrics
    case .socket:
      // The operators of the policy in force: a reload may change them.
      .of(userID: userID, daemon: Process.userID, operators: host.state.policy.configuration.admin.operators)
    }
  }

  func refuse(_ status: Int, _ detail: String, _ connection: AdminConnection) {
    connection.write(connection.wantsText ? .text(detail + "\n", status: status) : .problem(status, detail))
  }

  // MARK: Events

  func watch(_ request: AdminRequest, _ connection: AdminConnection) {
    var kinds = EventKinds.all
    switch AdminQuery.values(of: "kind", in: request.query) {
    case .failure(let fault): return refuse(400, fault.sentence, connection)
    case .success([]): break
    case .success(let lists):
      switch EventKinds.read(lists.joined(separator: ",")) {
      case .success(let read): kinds = read
      case .failure(let fault):
        let known = ProxyEvent.Kind.allCases.map(\.rawValue).joined(separator: ", ")
        return refuse(400, "'\(Self.cut(fault.word))' is no kind of event; expected one of \(known)", connection)
      }
    }
    guard let filter = filter(of: request, connection) else { return }
    // A reader who waits for what cannot come would wait for ever.
    let rules = host.state.policy.rules.map(\.name)
    if let rule = filter.rule, !rules.contains(rule) {
      let nearest = Suggestion.nearest(to: rule, among: rules).map { "; did you mean '\($0)'?" } ?? ""
      return refuse(404, "no rule of the policy in force is named '\(Self.cut(rule))'\(nearest)", connection)
    }
    guard connection.answersHead || mayWatch(connection) else {
      return refuse(503, "\(Self.mostWatchers) readers of events are there, as many as may be", connection)
    }
    connection.beginEvents(kinds, filter)
    watchersChanged()
  }

  /// `ref`, `rule` and `user` of the query; nil: one was wrong, and the client knows.
  func filter(of request: AdminRequest, _ connection: AdminConnection) -> EventFilter? {
    var filter = EventFilter()
    for (name, part) in [("rule", \EventFilter.rule), ("user", \EventFilter.user), ("ref", \EventFilter.reference)] {
      guard let value = single(name, of: request, connection) else { return nil }
      filter[keyPath: part] = value.first
    }
    guard let text = filter.reference else { return filter }
    guard let reference = Reference(text) else {
      refuse(400, "expected a reference of six characters as 'ref', found '\(Self.cut(text))'", connection)
      return nil
    }
    filter.reference = reference.text
    return filter
  }

  /// The value of `name` in the query, or none; nil: there are several, or it cannot be read, and the client knows.
  func single(_ name: String, of request: AdminRequest, _ connection: AdminConnection) -> [String]? {
    switch AdminQuery.values(of: name, in: request.query) {
    case .failure(let fault):
      refuse(400, fault.sentence, connection)
      return nil
    case .success(let values) where values.count > 1:
      refuse(400, "expected one '\(name)' in the query", connection)
      return nil
    case .success(let values): return values
    }
  }

  // MARK: Reachability

  func askReachability(_ request: AdminRequest, _ connection: AdminConnection) {
    var name: String? = nil
    switch AdminQuery.values(of: "host", in: request.query) {
    case .failure(let fault): return refuse(400, fault.sentence, connection)
    case .success(let names) where names.count > 1: return refuse(400, "expected one host", connection)
    case .success(let names): name = names.first
    }
    if let given = name {
      var host = CanonicalHost()
      // IPv6 addresses are also accepted without the brackets that separate a port.
      let text = given.contains(":") && !given.hasPrefix("[") ? "[\(given)]" : given
      if let fault = host.set(Array(text.utf8).span) {
        return refuse(400, "'\(Self.cut(given))' is no host; expected \(fault.expectation)", connection)
      }
      name = String(decoding: host.bytes, as: UTF8.self)
    }
    let number = newInquiry()
    if let report = host.reachability(of: name, inquiry: number) { return connection.write(page(report, connection)) }
    inquiries[number] = Inquiry(connection: connection, resource: .reachability, awaited: [])
    connection.await()
  }

  func page(_ report: ReachabilityReport, _ connection: AdminConnection) -> AdminPage {
    var page: AdminPage =
      connection.wantsText ? .text(ReachabilityPage.text(report)) : .json(AdminResources.reachability(report))
    // For the command, which prints what it gets and still has to exit with yes or no.
    if let destination = report.destination {
      page.fields = [(ReachabilityReport.fieldName, destination.isReachable ? "yes" : "no")]
    }
    return page
  }

  /// How much of a wrong word fits in a message.
  private static func cut(_ word: String) -> String { word.utf8.count > 80 ? "\(word.prefix(80))..." : word }

  // MARK: Reload

  func reload(wantsText: Bool) -> AdminPage {
    let fault: ReloadFault
    switch host.reloadNow() {
    case .done(let warnings):
      let rules = host.state.policy.rules.count
      if wantsText {
        return .text((warnings + ["reloaded: \(String.counted(rules, "rule"))\n"]).joined(separator: "\n"))
      }
      return .json(.object([("rules", .number(rules)), ("warnings", .array(warnings.map { .string($0) }))]))
    case .stopping:
      let detail = "the proxy is stopping; the configuration is not read again"
      return wantsText ? .text(detail + "\n", status: 503) : .problem(503, detail)
    case .failed(let found): fault = found
    }
    let detail = "\(fault.summary); nothing has changed"
    if wantsText { return .text((fault.reasons + [detail]).joined(separator: "\n") + "\n", status: 422) }
    return .json(
      .object([
        ("status", .number(422)), ("detail", .string(detail)), ("errors", .array(fault.reasons.map { .string($0) })),
      ]), status: 422)
  }

  // MARK: What the loops know

  func inquire(_ question: Question, _ resource: Resource, _ connection: AdminConnection) {
    let number = newInquiry()
    let inquiry = Inquiry(connection: connection, resource: resource, awaited: workers)
    if workers.isEmpty { return connection.write(page(inquiry)) }
    inquiries[number] = inquiry
    connection.await()
    host.ask(question, inquiry: number)
  }

  func page(_ inquiry: Inquiry) -> AdminPage {
    let wantsText = inquiry.connection.wantsText
    switch inquiry.resource {
    case .status:
      let facts = facts(inquiry.answers)
      return wantsText ? .text(StatusPage.text(facts)) : .json(AdminResources.status(facts))
    case .rules: return .json(AdminResources.rules(facts(inquiry.answers)))
    case .pins: return .json(AdminResources.pins(facts(inquiry.answers)))
    case .metrics: return .metrics(facts(inquiry.answers))
    case .connections:
      let open = inquiry.answers.flatMap { answer -> [OpenConnection] in
        if case .connections(let open) = answer { open } else { [] }
      }
      return .json(AdminResources.connections(open))
    case .decision: return decision(inquiry.answers, wantsText: wantsText)
    case .decisions(let limit):
      let found = inquiry.answers.map { answer -> [RecentDecision] in
        if case .decisions(let found) = answer { found } else { [] }
      }
      return AdminPage(
        status: 200, contentType: "application/json",
        body: .text(AdminResources.decisions(RecentDecision.merged(found, limit: limit))))
    case .cancelled: return cancelled(inquiry.answers, wantsText: wantsText)
    case .closedDenied(let page): return closedDenied(inquiry.answers, after: page, wantsText: wantsText)
    case .flushed: return flushed(inquiry.answers, wantsText: wantsText)
    case .answer(let verdict, let lifetime, let name):
      return answered(decision(in: inquiry.answers), verdict, for: lifetime, by: name, wantsText: wantsText)
    case .rule(let action): return rule(of: decision(in: inquiry.answers), action, wantsText: wantsText)
    case .reachability: preconditionFailure("no loop is asked of reachability")
    }
  }

  private func decision(in answers: [Answer]) -> RecentDecision? {
    for case .decision(let found?) in answers { return found }
    return nil
  }

  func askDecisions(_ request: AdminRequest, _ connection: AdminConnection) {
    func value(_ name: String) -> Result<String?, AdminQuery.Fault> {
      AdminQuery.values(of: name, in: request.query).flatMap { values in
        values.count > 1
          ? .failure(AdminQuery.Fault(sentence: "expected one '\(name)' in the query")) : .success(values.first)
      }
    }
    var limit = AdminResources.usualDecisions
    switch value("limit") {
    case .failure(let fault): return refuse(400, fault.sentence, connection)
    case .success(nil): break
    case .success(let text?):
      guard let number = Int(text), (1...AdminResources.mostDecisions).contains(number) else {
        return refuse(
          400, "expected a 'limit' from 1 to \(AdminResources.mostDecisions), found '\(Self.cut(text))'", connection)
      }
      limit = number
    }
    var areRefused: Bool? = nil
    switch value("refused") {
    case .failure(let fault): return refuse(400, fault.sentence, connection)
    case .success(nil): break
    case .success(let text?):
      guard let truth = Bool(text) else {
        return refuse(400, "expected 'refused' to be true or false, found '\(Self.cut(text))'", connection)
      }
      areRefused = truth
    }
    inquire(.decisions(limit: limit, areRefused: areRefused), .decisions(limit: limit), connection)
  }

  private func decision(_ answers: [Answer], wantsText: Bool) -> AdminPage {
    for case .decision(let found) in answers {
      guard let line = AdminResources.decision(found, wantsText ? .text : .json) else { continue }
      return AdminPage(
        status: 200, contentType: wantsText ? "text/plain; charset=utf-8" : "application/json", body: .text(line))
    }
    let detail = "no loop remembers an exchange of this reference; the log may"
    return wantsText ? .text(detail + "\n", status: 404) : .problem(404, detail)
  }

  private func facts(_ answers: [Answer]) -> AdminFacts {
    // If every loop was asked, the answers include those of the loops that have ended since.
    var sum = answers.count == shared.mailboxes.count ? nil : counted
    for case .statistics(let statistics) in answers {
      if sum == nil { sum = statistics } else { sum?.add(statistics) }
    }
    return AdminFacts(
      state: host.state, statistics: sum ?? Statistics(host.state.policy), heldBytes: shared.heldBytes.count,
      residentBytes: Process.residentBytes, lostEvents: shared.events.lostCount, wall: Clock.wall,
      monotonic: Clock.monotonic, network: host.network, pinsSeen: shared.pins.all,
      cache: shared.cache.map(CacheFacts.init),
      history: shared.history.facts, deskFault: shared.desk.fault)
  }
}
