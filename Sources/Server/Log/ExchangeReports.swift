// What is reported of an exchange: its line in the log, its row in the history, its counters, and events for those who
// watch. All of it is read from the exchange and its record.

import Bytes
import History
import Policy
import Session
import Transport

/// The states of a request that waits for the network.
enum WaitState: String, Sendable { case began, resumed, expired, left }

extension Exchange {
  /// `ref=7F3K2A rule=payments`: finds the lines of one exchange.
  var tag: String {
    var text = ByteBuffer()
    record.reference.write(to: &text)
    return "ref=\(text.bytes.string) rule=\(ruleName ?? "-")"
  }

  /// The values by which a reader of events selects those of this exchange.
  var subject: EventSubject {
    EventSubject(
      reference: record.reference.text, rule: ruleName, user: record.sender.client?.user,
      userID: record.sender.client?.userID)
  }

  /// The members that identify this exchange in its events.
  private var identity: [(String, JSONText)] {
    var reference = ByteBuffer()
    record.reference.write(to: &reference)
    return [("ref", .string(reference.bytes.string)), ("rule", ruling.rule.map { .string($0.name) } ?? .null)]
  }

  // MARK: While it lasts

  /// Reports what a rule or a pin set that only reports would have refused.
  mutating func report(_ kind: Problem.Kind, _ finding: Finding, isForgiven: Bool, on worker: Worker) {
    noteReport(kind, finding, isForgiven: isForgiven)
    if kind == .pinMismatch { tellOfPins(finding.detail, worker) }
    worker.shared.log.event(.warning, "\(tag) would be refused: \(finding.detail)")
  }

  /// Logs that another route is tried: the line of the exchange will be about that route alone.
  func tellOfFallBack(_ route: String, _ failure: UpstreamFailure, on worker: Worker) {
    let problem = failure.problem
    worker.shared.log.event(.warning, "\(tag) route '\(route)' failed, the next is tried: \(problem.detail)")
    if problem.kind == .pinMismatch { tellOfPins(problem.detail, worker) }
  }

  /// Logs that the origin's certificate is the reason why there is no upstream.
  func tellOfCertificate(_ failure: UpstreamFailure, _ worker: Worker) {
    let problem = failure.problem
    if problem.kind.errorType.description != "tls_certificate_error" { return }
    worker.shared.log.event(.warning, "\(tag) \(problem.kind.token): \(problem.detail)")
    if problem.kind == .pinMismatch { tellOfPins(problem.detail, worker) }
  }

  private func tellOfPins(_ detail: String, _ worker: Worker) {
    guard worker.shared.events.wants(.pinMismatch) else { return }
    worker.shared.events.post(.pinMismatch, about: subject, identity + [("detail", .string(detail))])
  }

  /// Logs and emits that a request is held until a path appears.
  func tellOfWait(_ state: WaitState, _ host: String, reason: String, milliseconds: Int64, on worker: Worker) {
    if state == .began {
      worker.shared.waitingRequests.add(1, ordering: .relaxed)
      worker.shared.log.event(.info, "\(tag) waits for the network: \(reason)")
    } else {
      worker.shared.waitingRequests.subtract(1, ordering: .relaxed)
    }
    guard worker.shared.events.wants(.wait) else { return }
    worker.shared.events.post(
      .wait, about: subject,
      identity + [
        ("host", .string(host)), ("state", .string(state.rawValue)), ("reason", .string(reason)),
        ("waited_ms", .number(Int(milliseconds))),
      ])
  }

  func tellProgress(ageMilliseconds: Int64, _ worker: Worker) {
    worker.shared.events.post(
      .progress, about: subject,
      AdminResources.progress(
        record, rule: ruling.rule?.name, expectedIn: expectedBytesIn, expectedOut: expectedBytesOut,
        ageMilliseconds: ageMilliseconds))
  }

  /// Emits the event of what has been decided about a request or tunnel, if anyone watches. `text`: method and target
  /// at the record's ranges.
  func tellBeginning(text: borrowing ByteBuffer, client: SocketAddress, _ worker: Worker) {
    guard worker.shared.events.wants(.begun) else { return }
    worker.shared.events.post(
      .begun, about: subject, wall: record.times.begunWall,
      .beginning(decision(total: 0, text: text.bytes, client: client)))
  }

  // MARK: When it is over

  /// Logs and counts what has become of it, for a client at `client`. `isForRest`: it is a part of another exchange.
  mutating func log(text: borrowing ByteBuffer, client: SocketAddress, isForRest: Bool, _ worker: Worker) {
    // A part that came, or that was asked for in vain, is no exchange of the client's; one that was refused is told.
    if isForRest, record.outcome == .clientLeft { return }
    switch record.outcome {
    case .tunnelFault(let fault): worker.shared.log.event(.warning, "\(tag) tunnel refused: \(fault.sentence)")
    case .tunnelFaultReported(let fault):
      worker.shared.log.event(.warning, "\(tag) would be refused: \(fault.sentence)")
    default: break
    }
    noteWhole(now: worker.now)
    write(text: text, client: client, tells: !isForRest, worker)
  }

  private func write(text: borrowing ByteBuffer, client: SocketAddress, tells: Bool, _ worker: Worker) {
    let rule = ruleName
    // By the clock itself: what is refused begins and ends in one turn of the loop.
    let total = record.microseconds(until: worker.now, Clock.monotonicMicroseconds)
    withRecord { record in
      worker.statistics.note(record, rule: rule, isTunnel: isTunnel, microseconds: total)
      worker.recent.note(
        record, rule: rule, policy: policy, client: client, totalMicroseconds: total, text: text.bytes)
      if tells, worker.shared.events.isWatched { tellEnd(total, text: text, client: client, worker) }
      let isHistory = worker.shared.history.isOn
      let isLogged = policy.configuration.log.access && self.ruling.rule?.isLogged ?? true
      guard isHistory || isLogged else { return }
      let line = AccessLine(of: record, rule: rule, by: policy, client: client, totalMicroseconds: total)
      if isHistory { worker.history.append(record, line, text: text.bytes) }
      if isLogged { line.write(record, worker.shared.log.format, text: text, to: &worker.logLines) }
    }
  }

  /// Emits the event that it is over.
  private func tellEnd(_ total: Int64, text: borrowing ByteBuffer, client: SocketAddress, _ worker: Worker) {
    let events = worker.shared.events
    // A request refused before any rule was asked begins only now, for those who count beginnings and ends.
    if record.ruled.decision == nil { tellBeginning(text: text, client: client, worker) }
    let isViolation = record.answer.violation != nil && events.wants(.violation)
    guard isViolation || events.wants(.finished) else { return }
    // The log gives the time when the exchange began; an event, the time when it happened.
    let wall = Clock.wall
    let exchange = ProxyEvent.Content.exchange(decision(total: total, text: text.bytes, client: client))
    events.post(.finished, about: subject, wall: wall, exchange)
    if isViolation { events.post(.violation, about: subject, wall: wall, exchange) }
  }

  private func decision(total: Int64, text: Span<UInt8>, client: SocketAddress) -> RecentDecision {
    RecentDecision(
      record: record, rule: ruleName, policy: policy, client: client, totalMicroseconds: total, text: text.array)
  }
}
