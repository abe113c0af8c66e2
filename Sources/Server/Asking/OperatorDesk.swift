// Where loops and operators meet: the waiting questions, and the answers that hold for a time. One for all loops, under
// a lock. Each loop has an immutable copy of the temporary rules, which it gets by message. The daemon's thread writes
// changes to the file before any request is released. Tests: test_ask.py; for its parts, AskingTests.

import Asking
import Bytes
import Policy
import Sharing
import Transport

final class OperatorDesk: Sendable {
  private struct State {
    var board = QuestionBoard()
    var book = AnswerBook()
    /// nil: answers end with the daemon.
    var file: String? = nil
    /// Files of directories that were left, which hold what may be revoked now.
    var left: [String] = []
    /// Why what the file holds is not what is in force; nil: it is.
    var fault: String? = nil
  }

  private let state = Locked(State())
  private let mailboxes: [Mailbox<WorkerMessage>]
  private let log: LogWriter
  private let events: EventHub

  init(_ mailboxes: [Mailbox<WorkerMessage>], _ log: LogWriter, events: EventHub) {
    self.mailboxes = mailboxes
    self.log = log
    self.events = events
  }

  // MARK: What outlives the daemon

  /// Reads what an earlier process wrote. Called before the loops start. If the file cannot be read, the start fails:
  /// that is no reason to forget what operators denied.
  func open(directory: String?) throws(StartFailure) {
    guard let directory else { return }
    let path = "\(directory)/\(TemporaryRuleFile.name)"
    state.withLock { $0.file = path }
    switch Files.read(path, limit: TemporaryRuleFile.largestBytes, isBelieved: true) {
    case .failure(let error) where error.isAbsence: return
    case .failure(let error): throw StartFailure(description: "cannot read \(path): \(error)")
    case .success(let bytes):
      do {
        let content = try TemporaryRuleFile.read(bytes)
        state.withLock { $0.book = AnswerBook(content) }
      } catch {
        throw StartFailure(
          description: "\(path), which holds what operators allowed and denied for a time: \(error); mend or remove it")
      }
    }
  }

  /// A reload may name another directory: the rules in force are written there at once.
  func moved(to directory: String?) {
    let path = directory.map { "\($0)/\(TemporaryRuleFile.name)" }
    if state.withLock({ $0.file == path }) { return }
    // Rules that are already there also hold, but not what this process wrote there before, and may have revoked.
    if let path, !state.withLock({ $0.left.contains(path) }) {
      switch Files.read(path, limit: TemporaryRuleFile.largestBytes, isBelieved: true) {
      case .failure(let error) where error.isAbsence: break
      case .failure(let error): return stay(because: "cannot read \(path): \(error)")
      case .success(let bytes):
        guard let content = try? TemporaryRuleFile.read(bytes) else {
          return stay(because: "\(path) is none of the daemon's")
        }
        state.withLock { $0.book.take(content, at: Clock.wall) }
      }
    }
    state.withLock { state in
      state.left.removeAll { $0 == path }
      if let file = state.file { state.left.append(file) }
      state.file = path
    }
    handOut()
    removeLeft()
  }

  /// What is revoked from now on must not come back with a file that was left.
  private func removeLeft() {
    let (path, left) = state.withLock { ($0.file, $0.left) }
    guard let path, fault == nil else { return }
    for one in left {
      if case .failure(let error) = Files.remove(one), !error.isAbsence {
        log.event(.warning, "cannot remove \(one), whose temporary rules have moved to \(path): \(error)")
      } else {
        state.withLock { $0.left.removeAll { $0 == one } }
      }
    }
    // It may have been the same file, by another name.
    if !left.isEmpty, Files.isAbsent(path) { write() }
  }

  private func stay(because reason: String) {
    log.event(.warning, "\(reason), so temporary rules stay where they were written")
  }

  /// The directory that the configuration names, or else the one that systemd made.
  static func directory(_ proxy: ProxySettings) -> String? {
    proxy.state ?? Files.environment("STATE_DIRECTORY").flatMap { $0.split(separator: ":").first.map(String.init) }
  }

  private func write() {
    let (path, content) = state.withLock { ($0.file, $0.book.content(at: Clock.wall)) }
    guard let path else { return }
    if content.rules.isEmpty, Files.isAbsent(path) { return state.withLock { $0.fault = nil } }
    guard case .failure(let error) = Files.replace(path, Array(TemporaryRuleFile.text(content).utf8), mode: 0o600)
    else {
      return state.withLock { $0.fault = nil }
    }
    let outcome =
      Files.isAbsent(path)
      ? "temporary rules end with this process"
      : "it has older temporary rules than those in force, and a restart brings them back"
    let fault = "cannot write \(path): \(error); \(outcome)"
    state.withLock { $0.fault = fault }
    log.event(.warning, fault)
  }

  /// Why a restart would change the temporary rules; nil: it would not.
  var fault: String? { state.withLock { $0.fault } }

  /// The same for whoever has just changed them.
  var warning: String? { fault.map { "warning: \($0)" } }

  /// The daemon stops, or a reload may have mended what was wrong: another try, if the last one failed.
  func retry() {
    if fault != nil { write() }
    removeLeft()
  }

  /// The rules in force.
  var rules: TemporaryRules { TemporaryRules(temporary) }
  var temporary: [TemporaryRule] { state.withLock { $0.book.all(at: Clock.wall) } }
  var questions: [OpenQuestion] { state.withLock { $0.board.all } }
  var waiting: Int { state.withLock { $0.board.waiting } }
  func question(_ reference: String) -> OpenQuestion? { state.withLock { $0.board.question(reference) } }

  private func handOut() {
    write()
    let rules = rules
    for mailbox in mailboxes { mailbox.post(.temporary(rules)) }
  }

  // MARK: Requests

  /// Asks: returns a place among those that wait, or the answer that a similar question got just now, before this loop
  /// heard of it.
  func ask(_ question: OpenQuestion, _ waiter: QuestionWaiter) -> (asked: QuestionBoard.Asked, rule: TemporaryRule?) {
    let found = state.withLock { state -> (QuestionBoard.Asked, TemporaryRule?) in
      let rules = state.book.all(at: question.since).filter { $0.covers(question.request) }
      if let rule = rules.first(where: { $0.verdict == .deny }) ?? rules.first { return (.joined, rule) }
      return (state.board.ask(question, waiter), nil)
    }
    guard case (.put, nil) = found else { return found }
    log.event(
      .info,
      "ref=\(question.reference) rule=\(question.rule) asks an operator: \(question.request.method) "
        + "\(question.request.url.printable) for \(question.who.printable); sallyport allow \(question.reference)")
    if events.wants(.ask) { events.post(.ask, question.members(at: Clock.wall)) }
    return found
  }

  /// The request no longer waits. If it was the last one, the question is removed.
  func leave(_ waiter: QuestionWaiter) {
    guard let ended = state.withLock({ $0.board.leave(waiter) }) else { return }
    tellAnswer(ended.reference, "none", by: nil, released: 0)
  }

  // MARK: Operators

  /// Answers a waiting question. Returns how many requests go on, or are refused; nil: there is no such question.
  /// `milliseconds`: how long the answer holds; nil: once, as long as the rule remembers it.
  func answer(
    _ reference: String, _ verdict: TemporaryRule.Verdict, for milliseconds: Int64?, by name: String
  ) -> (released: Int, rule: TemporaryRule?)? {
    let now = Clock.wall
    guard
      let (taken, rule) = state.withLock({ state -> (QuestionBoard.Taken, TemporaryRule?)? in
        guard let taken = state.board.take(reference) else { return nil }
        let lasting = milliseconds ?? taken.question.rememberMilliseconds
        if lasting == 0 { return (taken, nil) }
        let rule = state.book.add(isRemembered: milliseconds == nil, at: now) { id in
          taken.question.request.temporaryRule(verdict, id: id, since: now, until: now + lasting, by: name)
        }
        return (taken, rule)
      })
    else { return nil }
    // The rule first: requests from now on do not ask again.
    if rule != nil { handOut() }
    release(taken, verdict, by: name)
    return (taken.waiters.count, rule)
  }

  /// Adds a rule that no question asked for; nil: there are as many as allowed, or it is unclear whom it is for.
  func add(_ make: (Int, Int64) -> TemporaryRule?) -> TemporaryRule? {
    let now = Clock.wall
    guard let rule = state.withLock({ $0.book.add(isRemembered: false, at: now) { make($0, now) } }) else { return nil }
    handOut()
    log.event(.info, "temporary rule \(rule.id): \(rule.sentence.printable)")
    // It also answers the questions that it covers.
    for question in questions where rule.covers(question.request) {
      guard let taken = state.withLock({ $0.board.take(question.reference) }) else { continue }
      release(taken, rule.verdict, by: rule.by)
    }
    return rule
  }

  private func release(_ taken: QuestionBoard.Taken, _ verdict: TemporaryRule.Verdict, by name: String) {
    for waiter in taken.waiters { mailboxes[waiter.worker].post(.operatorAnswered(waiter, verdict, by: name)) }
    tellAnswer(taken.question.reference, verdict.rawValue, by: name, released: taken.waiters.count)
  }

  /// Ends a temporary rule; nil: no rule has this number.
  func revoke(_ id: Int) -> TemporaryRule? {
    guard let rule = state.withLock({ $0.book.revoke(id, at: Clock.wall) }) else { return nil }
    handOut()
    log.event(.info, "temporary rule \(id) is revoked: \(rule.sentence.printable)")
    return rule
  }

  private func tellAnswer(_ reference: String, _ word: String, by name: String?, released: Int) {
    if let name { log.event(.info, "ref=\(reference) \(word): the answer of \(name), for \(released) that waited") }
    guard events.wants(.answer) else { return }
    events.post(
      .answer,
      [
        ("ref", .string(reference)), ("answer", .string(word)), ("by", name.map { .string($0) } ?? .null),
        ("released", .number(released)),
      ])
  }
}

extension TemporaryRule {
  /// `allow GET https://a.example:443/x/* for ci until 2026-…, by root`
  var sentence: String {
    var what = [verdict.rawValue, method].compactMap { $0 }.joined(separator: " ")
    what += " \(host)\(port.map { ":\($0)" } ?? "")\(path ?? "")"
    return "\(what) for \(who) until \(AdminResources.time(until)), by \(by)"
  }

  var who: String {
    let user = user ?? userID.map { "user \($0)" } ?? client.map { "\($0)" } ?? "everybody"
    return unit.map { "\(user) in \($0)" } ?? user
  }

  var json: JSONText {
    .object([
      ("id", .number(id)), ("verdict", .string(verdict.rawValue)), ("host", .string(host.description)),
      ("scheme", scheme.map { .string($0.rawValue) } ?? .null), ("port", port.map { .number(Int($0)) } ?? .null),
      ("method", method.map { .string($0) } ?? .null),
      ("path", path.map { .string($0) } ?? .null), ("user", user.map { .string($0) } ?? .null),
      ("uid", userID.map { .number(Int($0)) } ?? .null), ("unit", unit.map { .string($0) } ?? .null),
      ("client", client.map { .string("\($0)") } ?? .null), ("since", .string(AdminResources.time(since))),
      ("until", .string(AdminResources.time(until))), ("by", .string(by)),
    ])
  }
}

extension OpenQuestion {
  var who: String {
    let user = request.user ?? request.userID.map { "user \($0)" } ?? request.client.map { "\($0)" } ?? "unknown"
    return request.unit.map { "\(user) in \($0)" } ?? user
  }

  /// Its members in events and in GET /v1/asks.
  func members(at wall: Int64) -> [(String, JSONText)] {
    [
      ("ref", .string(reference)), ("since", .string(AdminResources.time(since))),
      ("until", .string(AdminResources.time(until))), ("waiting", .number(waiting)),
      ("user", request.user.map { .string($0) } ?? .null), ("uid", request.userID.map { .number(Int($0)) } ?? .null),
      ("unit", request.unit.map { .string($0) } ?? .null), ("program", program.map { .string($0) } ?? .null),
      ("client", request.client.map { .string("\($0)") } ?? .null), ("method", .string(request.method)),
      ("url", .string(request.url)), ("host", .string(request.host.bytes.span.string)),
      ("port", .number(Int(request.port))), ("path", request.path.map { .string($0) } ?? .null),
      ("rule", .string(rule)), ("place", .string(place)),
      ("allow", request.rule(connect: connect).map { .string($0.text) } ?? .null),
    ]
  }
}
