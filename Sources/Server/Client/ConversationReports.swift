// What a conversation reports: its line in the log, its counters, and events for those who watch.

import Bytes
import History
import Policy
import Session
import Transport

extension Conversation {
  func noteNameTime(_ microseconds: Int64) { session.exchange.noteNameTime(microseconds) }
  func noteConnectTime(_ microseconds: Int64) { session.exchange.noteConnectTime(microseconds) }
  func noteParent(_ address: SocketAddress, route: String) {
    session.exchange.noteParent(IPAddress(address), port: address.port, route: route)
  }
  func noteTLSTime(_ microseconds: Int64) { session.exchange.noteTLSTime(microseconds) }

  /// Reports what a rule or a pin set that only reports would have refused.
  func report(_ kind: Problem.Kind, _ finding: Finding, isForgiven: Bool, _ worker: Worker) {
    session.exchange.noteReport(kind, finding, isForgiven: isForgiven)
    if kind == .pinMismatch { tellOfPins(finding.detail, worker) }
    worker.shared.log.event(.warning, "\(tag) would be refused: \(finding.detail)")
  }

  /// `ref=7F3K2A rule=payments`: finds the lines of one exchange.
  var tag: String {
    var text = ByteBuffer()
    session.exchange.record.reference.write(to: &text)
    return "ref=\(text.bytes.string) rule=\(session.exchange.ruleName ?? "-")"
  }

  /// Logs that another route is tried: the line of the exchange will be about that route alone.
  func tellOfFallBack(_ route: String, _ failure: UpstreamFailure, _ worker: Worker) {
    let problem = failure.problem
    worker.shared.log.event(.warning, "\(tag) route '\(route)' failed, the next is tried: \(problem.detail)")
    if problem.kind == .pinMismatch { tellOfPins(problem.detail, worker) }
  }

  func tellOfPins(_ detail: String, _ worker: Worker) {
    guard worker.shared.events.wants(.pinMismatch) else { return }
    worker.shared.events.post(.pinMismatch, about: subject, ofThis + [("detail", .string(detail))])
  }

  /// The values by which a reader of events selects those of this exchange.
  var subject: EventSubject {
    EventSubject(
      reference: session.exchange.record.reference.text, rule: session.exchange.ruleName,
      user: session.exchange.record.client?.user,
      userID: session.exchange.record.client?.userID)
  }

  /// The members that identify this exchange in its events.
  private var ofThis: [(String, JSONText)] {
    var reference = ByteBuffer()
    session.exchange.record.reference.write(to: &reference)
    return [
      ("ref", .string(reference.bytes.string)), ("rule", session.exchange.rule.map { .string($0.name) } ?? .null),
    ]
  }

  func log(_ worker: Worker) {
    // A part that came, or that was asked for in vain, is no exchange of the client's; one that was refused is told.
    if isForRest, session.exchange.record.outcome == .clientLeft { return }
    switch session.exchange.record.outcome {
    case .tunnelFault(let fault): worker.shared.log.event(.warning, "\(tag) tunnel refused: \(fault.sentence)")
    case .tunnelFaultReported(let fault):
      worker.shared.log.event(.warning, "\(tag) would be refused: \(fault.sentence)")
    default: break
    }
    session.exchange.noteWhole(now: worker.now)
    let rule = session.exchange.ruleName
    // By the clock itself: what is refused begins and ends in one turn of the loop.
    let total = session.exchange.record.microseconds(until: worker.now, Clock.monotonicMicroseconds)
    session.exchange.withRecord { record in
      worker.statistics.note(
        record, rule: rule, isTunnel: session.exchange.isTunnel, microseconds: total)
      worker.recent.note(
        record, rule: rule, policy: session.exchange.policy, client: peer, totalMicroseconds: total,
        text: outputs.text.bytes)
      tell(record, total, worker)
      let isHistory = worker.shared.history.isOn
      let isLogged =
        session.exchange.policy.configuration.log.access && session.exchange.rule?.isLogged ?? true
      guard isHistory || isLogged else { return }
      let line = line(of: record, total)
      if isHistory {
        worker.history.append(record, line, text: outputs.text.bytes)
      }
      if isLogged { line.write(record, worker.shared.log.format, text: outputs.text, to: &worker.logLines) }
    }
  }

  private func line(of record: borrowing ExchangeRecord, _ total: Int64) -> AccessLine {
    AccessLine(
      of: record, rule: session.exchange.ruleName, by: session.exchange.policy, client: peer,
      totalMicroseconds: total)
  }

  /// Emits the event that the exchange is over, if anyone watches.
  private func tell(_ record: borrowing ExchangeRecord, _ total: Int64, _ worker: Worker) {
    let events = worker.shared.events
    guard events.isWatched, !isForRest else { return }
    // A request refused before any rule was asked begins only now, for those who count beginnings and ends.
    if record.decision == nil { tellBeginning(worker) }
    let isViolation = record.violation != nil && events.wants(.violation)
    guard isViolation || events.wants(.finished) else { return }
    // The log gives the time when the exchange began; an event, the time when it happened.
    let wall = Clock.wall
    let exchange = ProxyEvent.Content.exchange(decision(copy record, total))
    events.post(.finished, about: subject, wall: wall, exchange)
    if isViolation { events.post(.violation, about: subject, wall: wall, exchange) }
  }

  /// Emits the event of what has been decided about a request or tunnel, if anyone watches.
  func tellBeginning(_ worker: Worker) {
    guard worker.shared.events.wants(.begun) else { return }
    let record = session.exchange.record
    worker.shared.events.post(.begun, about: subject, wall: record.begunWall, .beginning(decision(record, 0)))
  }

  private func decision(_ record: ExchangeRecord, _ total: Int64) -> RecentDecision {
    let text = outputs.text.bytes.array
    return RecentDecision(
      record: record, rule: session.exchange.ruleName, policy: session.exchange.policy, client: peer,
      totalMicroseconds: total, text: text)
  }
}

/// The states of a request that waits for the network.
enum WaitState: String, Sendable { case began, resumed, expired, left }

extension Conversation {
  /// Logs and emits that a request is held until a path appears.
  func tellOfWait(_ state: WaitState, _ host: String, reason: String, milliseconds: Int64, _ worker: Worker) {
    if state == .began {
      worker.shared.waitingRequests.add(1, ordering: .relaxed)
      worker.shared.log.event(.info, "\(tag) waits for the network: \(reason)")
    } else {
      worker.shared.waitingRequests.subtract(1, ordering: .relaxed)
    }
    guard worker.shared.events.wants(.wait) else { return }
    worker.shared.events.post(
      .wait, about: subject,
      ofThis + [
        ("host", .string(host)), ("state", .string(state.rawValue)), ("reason", .string(reason)),
        ("waited_ms", .number(Int(milliseconds))),
      ])
  }
}
