// The admin API: HTTP/1.1 on a socket of the file system, served by the daemon's own thread beside signals and reports, so
// that no loop ever does it. What only the loops know is asked of them by message; a page is written when the last has
// answered. Readers of events that are too slow lose them, and are told how many.
//
// Who may connect is for the socket's mode and group to say. Everything is bounded: connections, heads, what waits to be
// sent. Tests: test_admin.py.

import Bytes
import HTTP1
import Policy
import Session
import Transport

/// What the API asks of the daemon.
protocol AdminHost: AnyObject {
  var state: DaemonState { get }
  func ask(_ question: Question, inquiry: UInt64)
  /// Reads the configuration again; answers what is wrong with it, nothing where it is in force now.
  func reloadNow() -> [String]
  func drainNow()
}

final class AdminServer {
  /// Connections at once: commands, scrapers and watchers.
  static let mostConnections = 64
  /// A head of the API: a path and a few fields.
  static let headLimits = HeadLimits(bytes: 8 << 10, fields: 64)
  /// What may wait for a reader, in bytes: a page of metrics of ten thousand rules; beyond, events are lost to it.
  static let mostWaitingBytes = 4 << 20
  static let readBytes = 4 << 10
  /// How long a request may take to come, and a kept connection to be silent, in milliseconds.
  static let idleMilliseconds: Int64 = 60_000

  private let listener: LocalListener
  private let shared: SharedState
  private unowned let host: any AdminHost
  private var connections: [AdminConnection?] = []
  private var generation: UInt32 = 0
  private var inquiries: [UInt64: Inquiry] = [:]
  private var nextInquiry: UInt64 = 0
  /// Workers whose loop turns, and what those have counted that are over.
  private var workers: Set<Int>
  private var counted: Statistics? = nil

  /// A question under way.
  private struct Inquiry {
    let connection: AdminConnection
    let resource: Resource
    var answers: [Answer] = []
    /// Workers that have yet to answer.
    var awaited: Set<Int>
  }

  private enum Resource {
    case status, rules, pins, connections, metrics
    case decision
  }

  init(_ listener: LocalListener, _ shared: SharedState, host: any AdminHost) {
    self.listener = listener
    self.shared = shared
    self.host = host
    workers = Set(0..<shared.mailboxes.count)
  }

  var descriptor: Descriptor { listener.descriptor }

  // MARK: Events of the daemon's poller

  /// First of the numbers that connections are registered under; those below are the daemon's.
  static let firstData: UInt64 = 1 << 8

  func accept(_ poller: borrowing Poller) {
    while let descriptor = listener.accept() {
      guard let slot = freeSlot() else {
        descriptor.close()
        continue
      }
      generation &+= 1
      let data = UInt64(generation) << 32 | UInt64(slot) + Self.firstData
      let connection = AdminConnection(descriptor, data: data, now: Clock.monotonic)
      guard poller.add(descriptor, .read, data: data) else {
        descriptor.close()
        continue
      }
      connections[slot] = connection
      go(connection, poller)
    }
  }

  private func freeSlot() -> Int? {
    if let free = connections.firstIndex(where: { $0 == nil }) { return free }
    if connections.count == Self.mostConnections { return nil }
    connections.append(nil)
    return connections.count - 1
  }

  func ready(_ readiness: Readiness, _ poller: borrowing Poller) {
    let slot = Int(readiness.data & 0xffff_ffff) - Int(Self.firstData)
    guard connections.indices.contains(slot), let connection = connections[slot], connection.data == readiness.data
    else { return }
    go(connection, poller)
  }

  /// Reads, answers and sends as far as it goes.
  private func go(_ connection: AdminConnection, _ poller: borrowing Poller) {
    connection.receive()
    while connection.isOpen, let request = connection.nextRequest() { answer(request, connection) }
    send(connection, poller)
  }

  private func send(_ connection: AdminConnection, _ poller: borrowing Poller) {
    connection.send()
    if connection.isOpen {
      var interest: Interest = connection.hasEnded ? [] : .read
      if connection.hasOutput { interest.insert(.write) }
      poller.modify(connection.descriptor, interest, data: connection.data)
      return
    }
    let slot = Int(connection.data & 0xffff_ffff) - Int(Self.firstData)
    poller.remove(connection.descriptor)
    connection.descriptor.close()
    if connection.watches { shared.events.watcherLeft() }
    connections[slot] = nil
  }

  /// When something is due next, in the monotonic clock.
  var deadline: Int64 { connections.compactMap { $0?.deadline }.min() ?? .max }

  /// Closes what has been silent for too long.
  func expire(now: Int64, _ poller: borrowing Poller) {
    for case .some(let connection) in connections where connection.deadline <= now {
      connection.close()
      send(connection, poller)
    }
  }

  /// Hands out what has happened.
  func deliverEvents(_ poller: borrowing Poller) {
    let events = shared.events.takeAll()
    for case .some(let connection) in connections where connection.watches {
      for event in events where !connection.offer(event) { shared.events.noteLost() }
      send(connection, poller)
    }
  }

  // MARK: Requests

  private func answer(_ request: AdminRequest, _ connection: AdminConnection) {
    switch (request.method, request.path) {
    case ("GET", "/v1/status"): inquire(.statistics, .status, connection)
    case ("GET", "/v1/rules"): inquire(.statistics, .rules, connection)
    case ("GET", "/v1/pins"): inquire(.statistics, .pins, connection)
    case ("GET", "/metrics"): inquire(.statistics, .metrics, connection)
    case ("GET", "/v1/connections"): inquire(.connections, .connections, connection)
    case ("GET", "/v1/events"):
      shared.events.watcherCame()
      connection.beginEvents()
    case ("POST", "/v1/reload"):
      connection.write(reload(wantsText: connection.wantsText))
    case ("POST", "/v1/drain"):
      host.drainNow()
      connection.write(.json(.object([("draining", .boolean(true))]), status: 202))
    case (_, let path) where path.hasPrefix("/v1/decisions/") && request.method == "GET":
      guard let reference = Reference(String(path.dropFirst("/v1/decisions/".count))) else {
        return refuse(404, "expected a reference of six characters, as in a log line", connection)
      }
      inquire(.decision(reference), .decision, connection)
    case (_, "/v1/status"), (_, "/v1/rules"), (_, "/v1/pins"), (_, "/metrics"), (_, "/v1/connections"),
      (_, "/v1/events"):
      connection.write(.problem(405, "expected GET"), allow: "GET")
    case (_, "/v1/reload"), (_, "/v1/drain"): connection.write(.problem(405, "expected POST"), allow: "POST")
    case (_, "/v1/reachability"):
      refuse(501, "reachability is not supported by this build", connection)
    case (_, let path) where path.hasPrefix("/v1/decisions/"):
      connection.write(.problem(405, "expected GET"), allow: "GET")
    default: refuse(404, "there is no such resource; sallyport-admin(7) lists them", connection)
    }
  }

  private func refuse(_ status: Int, _ detail: String, _ connection: AdminConnection) {
    connection.write(connection.wantsText ? .text(detail + "\n", status: status) : .problem(status, detail))
  }

  private func reload(wantsText: Bool) -> AdminPage {
    let faults = host.reloadNow()
    let rules = host.state.policy.rules.count
    if faults.isEmpty {
      return wantsText
        ? .text("reloaded: \(StatusPage.plural(rules, "rule"))\n") : .json(.object([("rules", .number(rules))]))
    }
    let detail = "the configuration has errors; nothing has changed"
    if wantsText { return .text((faults + [detail]).joined(separator: "\n") + "\n", status: 422) }
    return .json(
      .object([
        ("status", .number(422)), ("detail", .string(detail)), ("errors", .array(faults.map { .string($0) })),
      ]), status: 422)
  }

  private func inquire(_ question: Question, _ resource: Resource, _ connection: AdminConnection) {
    nextInquiry += 1
    let inquiry = Inquiry(connection: connection, resource: resource, awaited: workers)
    if workers.isEmpty { return connection.write(page(inquiry)) }
    inquiries[nextInquiry] = inquiry
    connection.await()
    host.ask(question, inquiry: nextInquiry)
  }

  /// A loop has answered; with the last answer the page is written.
  func answered(_ worker: Int, _ answer: Answer, inquiry number: UInt64, _ poller: borrowing Poller) {
    inquiries[number]?.answers.append(answer)
    noLongerAwaits(worker, number, poller)
  }

  /// A loop is over, as it was told to: what it was asked it answers no more.
  func workerLeft(_ worker: Int, _ statistics: Statistics, _ poller: borrowing Poller) {
    workers.remove(worker)
    if counted == nil { counted = statistics } else { counted?.add(statistics) }
    for number in inquiries.keys.sorted() where inquiries[number]?.awaited.contains(worker) ?? false {
      inquiries[number]?.answers.append(.statistics(statistics))
      noLongerAwaits(worker, number, poller)
    }
  }

  private func noLongerAwaits(_ worker: Int, _ number: UInt64, _ poller: borrowing Poller) {
    inquiries[number]?.awaited.remove(worker)
    guard let inquiry = inquiries[number], inquiry.awaited.isEmpty else { return }
    inquiries[number] = nil
    guard inquiry.connection.isOpen else { return }
    inquiry.connection.write(page(inquiry))
    go(inquiry.connection, poller)
  }

  private func page(_ inquiry: Inquiry) -> AdminPage {
    let wantsText = inquiry.connection.wantsText
    switch inquiry.resource {
    case .status:
      let facts = facts(inquiry.answers)
      return wantsText ? .text(StatusPage.text(facts)) : .json(AdminResources.status(facts))
    case .rules: return .json(AdminResources.rules(facts(inquiry.answers)))
    case .pins: return .json(AdminResources.pins(facts(inquiry.answers)))
    case .metrics:
      return AdminPage(
        status: 200, contentType: MetricsPage.contentType, body: MetricsPage.text(facts(inquiry.answers)))
    case .connections:
      let open = inquiry.answers.flatMap { answer -> [OpenConnection] in
        if case .connections(let open) = answer { open } else { [] }
      }
      return .json(AdminResources.connections(open))
    case .decision:
      for case .decision(let found) in inquiry.answers {
        guard let line = AdminResources.decision(found, wantsText ? .text : .json) else { continue }
        return AdminPage(
          status: 200, contentType: wantsText ? "text/plain; charset=utf-8" : "application/json", body: line)
      }
      let detail = "no loop remembers an exchange of this reference; the log may"
      return wantsText ? .text(detail + "\n", status: 404) : .problem(404, detail)
    }
  }

  private func facts(_ answers: [Answer]) -> AdminFacts {
    // Of those that are over by now the answer stands among the others, if they were asked.
    var sum = answers.count == shared.mailboxes.count ? nil : counted
    for case .statistics(let statistics) in answers {
      if sum == nil { sum = statistics } else { sum?.add(statistics) }
    }
    return AdminFacts(
      state: host.state, statistics: sum ?? Statistics(host.state.policy), heldBytes: shared.heldBytes.count,
      residentBytes: Process.residentBytes, lostEvents: shared.events.lostCount, wall: Clock.wall)
  }
}
