// The admin API: HTTP/1.1 on a socket in the file system. The daemon's own thread serves it, along with signals and
// reports, so no loop ever has to. A message asks the loops for what only they know; the page is written when the last
// has answered (AdminInquiries). Each resource is a row of AdminRoutes and a type that answers it. Readers of events
// that are too slow lose events, and are told how many.
//
// The socket's mode and group decide who may connect. Everything is bounded: connections (AdminConnections), heads,
// output that waits. Tests: test_admin_*.py.

import Bytes
import HTTP1
import Policy
import Session
import Transport

/// What the API needs from the daemon.
protocol AdminHost: AnyObject {
  var state: DaemonState { get }
  /// The current state of the network, for /metrics and the status.
  var network: NetworkFacts { get }
  func ask(_ question: Question, inquiry: UInt64)
  /// Reads the configuration again.
  func reloadNow() -> ReloadOutcome
  func drainNow()
  /// Reachability of the machine, and of `host` if given: a name in A-labels and lower case, or an address. nil: the
  /// answer comes later, as `AdminServer.answered(_:inquiry:_:)`, and has to come.
  func reachability(of host: String?, inquiry: UInt64) -> ReachabilityReport?
}

/// The outcome of reading the configuration again.
enum ReloadOutcome: Sendable, Equatable {
  /// It is in force. A part that needs a restart takes effect then; a warning says so.
  case done(warnings: [String])
  case failed(ReloadFault)
  /// The proxy is stopping, and no longer reloads.
  case stopping
}

final class AdminServer {
  /// The most connections of the socket at once: commands, scrapers and watchers.
  static let mostConnections = 64
  /// The most TCP connections at once: a scraper keeps one, and a second server may scrape too.
  static let mostScrapers = 8
  /// The most browser connections at once: each browser keeps up to six to a host, and a second console may be open.
  static let mostBrowserConnections = 32
  /// How long one page of metrics serves all TCP clients, in milliseconds: any local user may ask as fast as it can,
  /// and each page asks every loop. No scraper asks twice within a second.
  static let pageMilliseconds: Int64 = 100
  /// How many of those may read events: consoles and dashboards. The others are for clients with a question.
  static let mostWatchers = 16
  /// A head of the API: a path and a few fields.
  static let headLimits = HeadLimits(bytes: 8 << 10, fields: 64)
  /// The bytes that may wait for all readers of events together, however slow they are; beyond that, they lose events.
  static let mostWaitingBytesOfAll = 16 << 20
  /// The share of each reader, so that none takes from another: some two thousand events.
  static let mostWaitingBytes = mostWaitingBytesOfAll / mostWatchers
  static let readBytes = 4 << 10
  /// The longest time for a request to arrive, a kept connection to be silent, and an answer to be read, in
  /// milliseconds.
  static let idleMilliseconds: Int64 = 60_000

  let listeners: [AdminListener]
  private let shared: SharedState
  private unowned let host: any AdminHost
  private let connections: AdminConnections
  private let inquiries: AdminInquiries
  private let resources: AdminResourceSet
  /// nil if [admin] has no `web`.
  private let dashboard: DashboardState?
  /// The last page of metrics written for a TCP client, and how long it may be used again.
  private var scraped: (page: AdminPage, until: Int64)? = nil

  init(_ listeners: [AdminListener], _ shared: SharedState, host: any AdminHost) {
    self.listeners = listeners
    self.shared = shared
    self.host = host
    let connections = AdminConnections(shared.events)
    let inquiries = AdminInquiries(host: host, workers: shared.mailboxes.count)
    let dashboard = listeners.first { $0.kind == .web }?.tcp.map {
      DashboardState($0.address, connections, log: shared.log)
    }
    self.connections = connections
    self.inquiries = inquiries
    self.dashboard = dashboard
    resources = AdminResourceSet(
      shared, host: host, connections: connections, inquiries: inquiries, dashboard: dashboard)
  }

  // MARK: Events of the daemon's poller

  /// The first number that connections are registered under; lower ones are the daemon's.
  static let firstData: UInt64 = 1 << 8

  /// How long the daemon's thread, which has nothing urgent to do, rests where a connection waits for a descriptor.
  private static let exhaustedMilliseconds: Int32 = 10

  /// Accepts one connection: the poller comes back for the next. Otherwise clients that leave and return as fast as
  /// this accepts would keep it from seeing that they have left.
  func accept(_ index: Int, _ poller: borrowing Poller) {
    let listener = listeners[index]
    let (descriptor, accepted): (Descriptor, Accepted?)
    switch listener.accept() {
    case .none: return
    case .accepted(let connected, let peer): (descriptor, accepted) = (connected, peer)
    case .exhausted:
      // It goes on waiting. Idle connections to origins give up their descriptors, which takes the loops a turn.
      for mailbox in shared.mailboxes { mailbox.post(.yieldDescriptors) }
      return Clock.rest(milliseconds: Self.exhaustedMilliseconds)
    }
    let share = host.state.policy.configuration.limits.share
    guard let connection = connections.add(descriptor, by: listener, peer: accepted, share: share, poller) else {
      return
    }
    go(connection, poller)
  }

  func ready(_ readiness: Readiness, _ poller: borrowing Poller) {
    guard let connection = connections.find(readiness.data) else { return }
    if readiness.isBroken, connection.expectsNothing { return connections.end(connection, poller) }
    go(connection, poller)
  }

  /// Reads, answers and sends as far as it goes. A client that does not accept an answer gets no further one.
  private func go(_ connection: AdminConnection, _ poller: borrowing Poller) {
    connection.receive()
    connection.send()
    while let request = connection.nextRequest() {
      answer(request, connection)
      connection.send()
    }
    connection.send()
    connection.closeIfOver()
    connections.settleAll(connection, poller)
  }

  /// When the next thing is due, on the monotonic clock.
  var deadline: Int64 { min(connections.deadline, dashboard?.series.due ?? .max) }

  /// Closes what has been silent for too long, and asks for the progress of exchanges.
  func expire(now: Int64, _ poller: borrowing Poller) {
    connections.expire(now: now, poller)
    if connections.asksForProgress(now: now, inquiries.workers) { host.ask(.progress, inquiry: ProgressRounds.inquiry) }
    if dashboard?.series.begins(now: now, inquiries.workers) ?? false {
      host.ask(.statistics, inquiry: Series.inquiry)
    }
  }

  /// Hands out the events that have occurred.
  func deliverEvents(_ poller: borrowing Poller) { connections.deliverEvents(poller) }

  // MARK: Requests

  private func answer(_ request: AdminRequest, _ connection: AdminConnection) {
    var userID = connection.kind == .socket ? connection.descriptor.peerUserID : nil
    if connection.kind == .web {
      guard let session = dashboard?.admit(request, connection) else { return }
      userID = session.askedBy
    }
    let rights = rights(of: connection, userID)
    if let refusal = rights.refusal(request, userID: userID) {
      return connection.refuse(refusal.status, refusal.detail)
    }
    let routes = AdminRoute.routes(request.path)
    guard let route = routes.first(where: { $0.method == request.method }) else {
      return answer(request, of: routes, connection)
    }
    if let fault = AdminQuery.fault(in: request.query, expecting: route.query) {
      return connection.refuse(400, fault.sentence)
    }
    if connection.kind == .metrics, let scraped, scraped.until > Clock.monotonic {
      return connection.write(scraped.page)
    }
    route.answer(
      resources,
      AdminCall(
        request: request, argument: route.argument(in: request.path) ?? "", userID: userID, mayAct: rights >= .act,
        connection: connection))
  }

  /// `routes`: those of the path; none has the method.
  private func answer(_ request: AdminRequest, of routes: [AdminRoute], _ connection: AdminConnection) {
    if routes.isEmpty {
      return connection.refuse(404, "there is no such resource; GET /v1 and sallyport-admin(7) list them")
    }
    let methods = AdminRoute.methods(routes)
    if request.method == "OPTIONS" { return connection.write(.json(AdminRoute.json(routes)), allow: methods) }
    let expected = routes.map(\.method).joined(separator: " or ")
    connection.write(.problem(405, "expected \(expected)"), allow: methods)
  }

  private func rights(of connection: AdminConnection, _ userID: UInt32?) -> AdminRights {
    // The operators of the policy in force: a reload may change them.
    let operators = host.state.policy.configuration.admin.operators
    switch connection.kind {
    case .metrics: return .metrics
    case .web: return connection.session.map { .of($0, operators: operators) } ?? .metrics
    case .socket: return .of(userID: userID, daemon: Process.userID, operators: operators)
    }
  }

  // MARK: Answers of the loops and the daemon

  /// A loop has answered; after the last answer the page is written.
  func answered(_ worker: Int, _ answer: Answer, inquiry number: UInt64, poller: borrowing Poller) {
    if number == ProgressRounds.inquiry { return connections.progressAnswered(worker) }
    if number == Series.inquiry {
      guard case .statistics(let statistics) = answer else { return }
      dashboard?.sampled(worker, statistics, counted: inquiries.counted, cache: shared.cache)
      return
    }
    if let outcome = inquiries.answered(worker, answer, inquiry: number) { write(outcome, poller) }
  }

  /// A loop has ended, as it was told to: it answers no further question.
  func workerLeft(_ worker: Int, _ statistics: Statistics, poller: borrowing Poller) {
    let outcomes = inquiries.workerLeft(worker, statistics)
    connections.progressAnswered(worker)
    dashboard?.series.left(worker)
    for outcome in outcomes { write(outcome, poller) }
  }

  /// The daemon has found out what `AdminHost.reachability` could not return at once.
  func answered(_ report: ReachabilityReport, inquiry number: UInt64, _ poller: borrowing Poller) {
    if let outcome = inquiries.answered(report, inquiry: number) { write(outcome, poller) }
  }

  private func write(_ outcome: AdminInquiries.Outcome, _ poller: borrowing Poller) {
    let (connection, page) = outcome
    guard connection.isOpen else { return }
    if connection.kind == .metrics { scraped = (page, Clock.monotonic + Self.pageMilliseconds) }
    connection.write(page)
    go(connection, poller)
  }
}
