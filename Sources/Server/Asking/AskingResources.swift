// GET /v1/asks, POST /v1/allow, /v1/deny and /v1/revoke, GET /v1/rule and /v1/temporary: the requests that wait for an
// operator, and the operator's answers. A user who may read may answer a question; to name a host or to revoke an
// answer, a user needs the right to act.
// Tests: test_ask.py.

import Asking
import Bytes
import Policy
import Session
import Transport

/// The query of a request to the admin API: its values, each at most once.
private struct AskingQuery {
  var values: [String: String] = [:]

  init(_ names: [String], in query: String) throws(AdminQuery.Fault) {
    for name in names {
      let found = try AdminQuery.values(of: name, in: query).get()
      if found.count > 1 { throw AdminQuery.Fault(sentence: "expected one '\(name)' in the query") }
      values[name] = found.first
    }
  }

  subscript(_ name: String) -> String? { values[name] }

  /// `1h`, `30m`, in milliseconds; nil: not given.
  func lifetime() throws(AdminQuery.Fault) -> Int64? {
    guard let text = values["for"] else { return nil }
    guard let milliseconds = Quantity.milliseconds(text), AskingLimits.lifetime.contains(milliseconds) else {
      throw AdminQuery.Fault(sentence: "expected a time from 1s to 365d as 'for', such as 1h, found '\(text)'")
    }
    return milliseconds
  }
}

enum AskingLimits {
  /// An answer for longer than a year belongs in the configuration, as a rule.
  static let lifetime: ClosedRange<Int64> = 1000...365 * 86_400_000
  static let queryNames = ["ref", "host", "for", "user", "unit", "port"]
}

struct AskingResources {
  unowned let host: any AdminHost
  let desk: OperatorDesk
  let inquiries: AdminInquiries

  func list(_ call: AdminCall) {
    let wall = Clock.wall
    if call.wantsText {
      return call.write(.text(AskingPage.text(desk.questions, desk.temporary, at: wall)))
    }
    call.write(
      .json(
        .object([
          ("asks", .array(desk.questions.map { .object($0.members(at: wall)) })),
          ("temporary", .array(desk.temporary.map(\.json))),
        ])))
  }

  /// POST /v1/allow and /v1/deny.
  func answer(_ verdict: TemporaryRule.Verdict, _ call: AdminCall) {
    do throws(AdminQuery.Fault) {
      let query = try AskingQuery(AskingLimits.queryNames, in: call.request.query)
      let lifetime = try query.lifetime()
      let name = Self.operatorName(call.userID)
      switch (query["ref"], query["host"]) {
      case (let text?, nil):
        guard let reference = Reference(text) else {
          throw AdminQuery.Fault(sentence: "expected a reference of six characters as 'ref', found '\(text)'")
        }
        if query["user"] != nil || query["unit"] != nil || query["port"] != nil {
          throw AdminQuery.Fault(sentence: "'user', 'unit' and 'port' go with 'host'; a 'ref' says them itself")
        }
        if lifetime != nil, !call.mayAct {
          return call.refuse(
            403,
            "expected root, the daemon's user or one of 'operators' in [admin] for an answer that lasts; you may "
              + "answer once, without 'for'")
        }
        if let answered = desk.answer(reference.text, verdict, for: lifetime, by: name) {
          let warning = answered.rule == nil ? nil : desk.warning
          return call.write(Self.page(answered, verdict, warning: warning, wantsText: call.wantsText))
        }
        guard call.mayAct else {
          return call.refuse(404, "no question waits under \(reference.text); it may have been answered")
        }
        inquiries.ask(.decision(reference), for: call.connection) { answers in
          answered(Self.decision(in: answers), verdict, for: lifetime, by: name, wantsText: call.wantsText)
        }
      case (nil, let host?):
        if !call.mayAct {
          return call.refuse(
            403, "expected root, the daemon's user or one of 'operators' in [admin]; you may answer what is asked")
        }
        try addRule(verdict, host, query: query, lifetime: lifetime, by: name, call: call)
      default: throw AdminQuery.Fault(sentence: "expected either 'ref' or 'host' in the query")
      }
    } catch {
      call.refuse(400, error.sentence)
    }
  }

  private static func operatorName(_ userID: UInt32?) -> String {
    guard let userID else { return "unknown" }
    return Accounts.userName(userID) ?? "user \(userID)"
  }

  /// What comes from elsewhere may not begin a line of its own.
  private static func lines(_ lines: String?...) -> AdminPage {
    .text(lines.compactMap { $0.map { $0.printable + "\n" } }.joined())
  }

  private static func page(
    _ answered: (released: Int, rule: TemporaryRule?), _ verdict: TemporaryRule.Verdict, warning: String?,
    wantsText: Bool
  ) -> AdminPage {
    if !wantsText {
      return .json(
        .object([
          ("released", .number(answered.released)), ("rule", answered.rule?.json ?? .null),
          ("warning", warning.map { .string($0) } ?? .null),
        ]))
    }
    let rule = answered.rule.map { "temporary rule \($0.id): \($0.sentence)" }
    return lines("\(verdict.participle) \(String.counted(answered.released, "request")) that waited", rule, warning)
  }

  /// An answer without a lifetime would apply to nothing.
  private func addRule(
    _ verdict: TemporaryRule.Verdict, _ host: String, query: AskingQuery, lifetime: Int64?, by name: String,
    call: AdminCall
  ) throws(AdminQuery.Fault) {
    guard let lifetime else { throw AdminQuery.Fault(sentence: "expected 'for' beside 'host': how long it holds") }
    let pattern: HostPattern
    switch HostPattern.parse(host) {
    case .success(let read): pattern = read
    case .failure(let fault): throw AdminQuery.Fault(sentence: fault.description)
    }
    var port: UInt16? = nil
    if let text = query["port"] {
      guard let number = UInt16(text), number > 0 else {
        throw AdminQuery.Fault(sentence: "expected a port from 1 to 65535, found '\(text)'")
      }
      port = number
    }
    var user: (number: UInt32, name: String?)? = nil
    if let text = query["user"] {
      if let number = UInt32(text) {
        user = (number, Accounts.userName(number))
      } else if case .success(let number?) = Users.number(of: text) {
        user = (number, text)
      } else {
        throw AdminQuery.Fault(sentence: "no user named '\(text)' exists")
      }
    }
    if let unit = query["unit"], let fault = UnitName.fault(unit) { throw AdminQuery.Fault(sentence: fault) }
    let rule = desk.add { id, now in
      var rule = TemporaryRule(
        id: id, verdict: verdict, host: pattern, since: now, until: now + lifetime, by: name)
      rule.port = port
      rule.userID = user?.number
      rule.user = user?.name
      rule.unit = query["unit"]
      return rule
    }
    write(rule, call)
  }

  private func write(_ rule: TemporaryRule?, _ call: AdminCall) {
    guard let rule else {
      return call.refuse(
        409, "\(AnswerBook.mostRules) temporary rules are in force, as many as may be; revoke some")
    }
    call.write(
      call.wantsText
        ? Self.lines("temporary rule \(rule.id): \(rule.sentence)", desk.warning)
        : Self.json(rule, desk.warning))
  }

  private static func json(_ rule: TemporaryRule, _ warning: String?) -> AdminPage {
    .json(
      .object([
        ("released", .number(0)), ("rule", rule.json), ("warning", warning.map { .string($0) } ?? .null),
      ]))
  }

  private static func decision(in answers: [Answer]) -> RecentDecision? {
    for case .decision(let found?) in answers { return found }
    return nil
  }

  /// The reference of a request that has ended: the answer holds from now on.
  private func answered(
    _ found: RecentDecision?, _ verdict: TemporaryRule.Verdict, for lifetime: Int64?, by name: String, wantsText: Bool
  ) -> AdminPage {
    func refusal(_ status: Int, _ detail: String) -> AdminPage {
      wantsText ? .text(detail + "\n", status: status) : .problem(status, detail)
    }
    guard let found, let request = AskedRequest(found) else {
      let detail = "no question waits under this reference, and no loop remembers a request of it"
      return refusal(404, detail + (found?.record.text.isCut ?? false ? " whole: it was too long" : ""))
    }
    let rule = found.record.ruled.decision?.rule.map { found.policy.rules[$0] }
    let lasting = lifetime ?? rule?.ask.rememberMilliseconds ?? AskTerms().rememberMilliseconds
    if lasting == 0 {
      return refusal(409, "the rule remembers no answer, and the request is over; say how long with --for")
    }
    if request.isInDoubt {
      return refusal(409, "the sender of this request is unknown, so no answer to it can be remembered")
    }
    if verdict == .allow, let fault = ineffective(request, found) { return refusal(409, fault) }
    guard
      let made = desk.add({ id, now in
        request.temporaryRule(verdict, id: id, since: now, until: now + lasting, by: name)
      })
    else { return refusal(409, "\(AnswerBook.mostRules) temporary rules are in force, as many as may be") }
    return wantsText
      ? Self.lines("it is over; for the next like it, temporary rule \(made.id): \(made.sentence)", desk.warning)
      : Self.json(made, desk.warning)
  }

  /// Why a temporary permission would change nothing; nil: it would.
  private func ineffective(_ request: AskedRequest, _ found: RecentDecision) -> String? {
    let policy = host.state.policy
    guard let rule = request.temporaryRule(.allow, id: 0, since: 0, until: .max, by: ""), let named = found.named,
      TemporaryRules([rule]).rule(for: named, of: found.sender, by: policy, wall: Clock.wall) == nil
    else { return nil }
    let outcome = found.record.ruled.decision?.rule.map { "rule '\(found.policy.rules[$0].name)'" } ?? "the policy"
    return "a temporary permission would change nothing: it is for what no rule decides, and \(outcome) decides this"
  }

  /// POST /v1/revoke?id=4
  func revoke(_ call: AdminCall) {
    guard case .success(let values) = AdminQuery.values(of: "id", in: call.request.query), values.count == 1,
      let id = Int(values[0])
    else { return call.refuse(400, "expected the number of a temporary rule as 'id' in the query") }
    guard let rule = desk.revoke(id) else {
      return call.refuse(404, "there is no temporary rule \(id); it may be over")
    }
    call.write(
      call.wantsText
        ? Self.lines("revoked temporary rule \(id): \(rule.sentence)", desk.warning)
        : .json(
          .object([("revoked", rule.json), ("warning", desk.warning.map { .string($0) } ?? .null)])))
  }

  // MARK: GET /v1/rule?ref=…&verdict=allow

  /// The text of the rule that would decide such requests from now on, for one of the operator's files.
  func rule(_ call: AdminCall) {
    do throws(AdminQuery.Fault) {
      let query = try AskingQuery(["ref", "verdict"], in: call.request.query)
      guard let reference = query["ref"].flatMap({ Reference($0) }) else {
        throw AdminQuery.Fault(sentence: "expected a reference of six characters as 'ref'")
      }
      let words: [String: RuleAction] = ["allow": .allow, "deny": .deny]
      guard let action = words[query["verdict"] ?? "allow"] else {
        throw AdminQuery.Fault(sentence: "expected 'allow' or 'deny' as 'verdict'")
      }
      if let question = desk.question(reference.text) {
        return call.write(rule(question.request, action, connect: question.connect, wantsText: call.wantsText))
      }
      inquiries.ask(.decision(reference), for: call.connection) { answers in
        rule(of: Self.decision(in: answers), action, wantsText: call.wantsText)
      }
    } catch {
      call.refuse(400, error.sentence)
    }
  }

  private func rule(of found: RecentDecision?, _ action: RuleAction, wantsText: Bool) -> AdminPage {
    guard let found, let request = AskedRequest(found), !request.isInDoubt else {
      let detail = "no question waits under this reference, and no loop remembers a request of it that a rule can name"
      return wantsText ? .text(detail + "\n", status: 404) : .problem(404, detail)
    }
    let rule = found.record.ruled.decision?.rule.map { found.policy.rules[$0] }
    return self.rule(request, action, connect: rule?.connect, wantsText: wantsText)
  }

  private func rule(
    _ request: AskedRequest, _ action: RuleAction, connect: ConnectTreatment?, wantsText: Bool
  ) -> AdminPage {
    if !request.isInDoubt, let text = request.rule(action, connect: connect)?.text { return .text(text) }
    let detail =
      request.isInDoubt
      ? "the sender of this request is unknown, so no rule can be about it"
      : "no rule can name this path: it is too long, or servers read it in several ways"
    return wantsText ? .text(detail + "\n", status: 409) : .problem(409, detail)
  }
}

extension AskingResources {
  /// GET /v1/temporary?method=…&url=…&uid=…&unit=…: the temporary rule that decides such a request; 204 if none does.
  func temporary(_ call: AdminCall) {
    do throws(AdminQuery.Fault) {
      let query = try AskingQuery(["method", "url", "uid", "unit"], in: call.request.query)
      guard let url = query["url"],
        case .success(let named) = NamedRequest.read(method: query["method"] ?? "GET", url: url)
      else { throw AdminQuery.Fault(sentence: "expected a URL, or HOST:PORT of a CONNECT, as 'url'") }
      var client: LocalClient? = nil
      if let uid = query["uid"].flatMap({ UInt32($0) }) {
        client = LocalClient(userID: uid, user: Accounts.userName(uid), cgroup: query["unit"].map { [$0] } ?? [])
      }
      let found = desk.rules.rule(
        for: named, of: Sender(client: client), by: host.state.policy, wall: Clock.wall)
      guard let found else {
        return call.write(call.wantsText ? .text("") : .json(.null))
      }
      call.write(
        call.wantsText
          ? Self.lines("temporary rule \(found.id) decides before that: \(found.sentence)")
          : .json(found.json))
    } catch {
      call.refuse(400, error.sentence)
    }
  }
}

extension AskedRequest {
  /// The question of a request that has ended; nil if it named no host that a policy can be asked about.
  init?(_ found: RecentDecision) {
    guard let named = found.named else { return nil }
    let isIntercepted = found.policy.rules.contains { $0.connect == .intercept }
    self.init(
      named, of: found.sender, isIntercepted: isIntercepted)
  }
}

extension RecentDecision {
  /// What was asked; nil if that is not known whole.
  fileprivate var named: NamedRequest? {
    guard record.ruled.decision != nil, !record.text.target.isEmpty, !record.text.isCut,
      case .success(let named) = NamedRequest.read(
        method: text.span.extracting(record.text.method).string, url: text.span.extracting(record.text.target).string)
    else { return nil }
    return named
  }
}

/// GET /v1/asks for people.
enum AskingPage {
  static func text(_ questions: [OpenQuestion], _ rules: [TemporaryRule], at wall: Int64) -> String {
    var text = questions.isEmpty ? "no question waits\n" : ""
    for question in questions {
      let left = max(0, question.until - wall) / 1000
      // What comes from elsewhere may not begin a line of its own.
      text += "\(question.reference)  \(question.request.method) \(question.request.url)".printable + "\n"
      let program = question.program.map { " (\($0))" } ?? ""
      text +=
        "        \(question.who)\(program); \(question.waiting) waiting, \(left) s left; rule '\(question.rule)' (\(question.place))"
        .printable + "\n"
    }
    if rules.isEmpty { return text }
    text += "\ntemporary rules:\n"
    for rule in rules { text += "  \(rule.id)  \(rule.sentence)".printable + "\n" }
    return text
  }
}
