// The admin API: HTTP/1.1 on a socket in the file system. The daemon's own thread serves it, along with signals and
// reports, so no loop ever has to. A message asks the loops for what only they know; the page is written when the last
// has answered (AdminRequests). Readers of events that are too slow lose events, and are told how many.
//
// The socket's mode and group decide who may connect. Everything is bounded: connections, heads, output that waits. If
// all places are taken, the connection that has been silent for longest makes way. Tests: test_admin_*.py.

import Bytes
import HTTP1
import Policy
import Session
import Sharing
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
  let shared: SharedState
  unowned let host: any AdminHost
  private var connections: [AdminConnection?] = []
  private var generation: UInt32 = 0
  var inquiries: [UInt64: Inquiry] = [:]
  private var nextInquiry: UInt64 = 0
  /// Workers whose loop runs, and the counts of those that have ended.
  private(set) var workers: Set<Int>
  private(set) var counted: Statistics? = nil
  private var rounds = ProgressRounds()
  /// nil if [admin] has no `web`.
  let dashboard: DashboardState?
  /// The last page of metrics written for a TCP client, and how long it may be used again.
  private(set) var scraped: (page: AdminPage, until: Int64)? = nil
  /// Watchers that made way, until the poller is informed.
  private var displaced: [AdminConnection] = []

  init(_ listeners: [AdminListener], _ shared: SharedState, host: any AdminHost) {
    self.listeners = listeners
    self.shared = shared
    self.host = host
    dashboard = listeners.first { $0.kind == .web }?.tcp.map { DashboardState($0.address) }
    workers = Set(0..<shared.mailboxes.count)
  }

  func newInquiry() -> UInt64 {
    nextInquiry += 1
    return nextInquiry
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
    let newcomer = Claimant.user(descriptor.peerUserID ?? .max)
    guard let slot = freeSlot(of: listener, for: newcomer, poller) else { return descriptor.close() }
    generation &+= 1
    let data = UInt64(generation) << 32 | UInt64(slot) + Self.firstData
    guard poller.add(descriptor, .read, data: data) else { return descriptor.close() }
    let connection = AdminConnection(
      descriptor, data: data, by: listener.kind, peer: accepted, now: Clock.monotonic)
    connections[slot] = connection
    go(connection, poller)
  }

  private var share: Double { host.state.policy.configuration.limits.share }

  private func freeSlot(of listener: AdminListener, for newcomer: Claimant, _ poller: borrowing Poller) -> Int? {
    let slots = connections.indices.filter { connections[$0]?.kind == listener.kind }
    if slots.count < listener.mostConnections {
      if let free = connections.firstIndex(where: { $0 == nil }) { return free }
      connections.append(nil)
      return connections.count - 1
    }
    // Connections of another kind keep their places.
    let places = slots.map {
      (
        place: connections[$0]?.place ?? .served, identity: connections[$0]?.identity ?? .user(.max),
        since: connections[$0]?.lastMoment ?? .max
      )
    }
    guard let slot = AdminPlace.whoLeaves(places, for: newcomer, share: share).map({ slots[$0] }) else { return nil }
    if let connection = connections[slot] { end(connection, poller) }
    return slot
  }

  func ready(_ readiness: Readiness, _ poller: borrowing Poller) {
    let slot = Int(readiness.data & 0xffff_ffff) - Int(Self.firstData)
    guard connections.indices.contains(slot), let connection = connections[slot], connection.data == readiness.data
    else { return }
    if readiness.isBroken, connection.expectsNothing { return end(connection, poller) }
    go(connection, poller)
  }

  /// Reads, answers and sends as far as it goes. A client that does not accept an answer gets no further one.
  func go(_ connection: AdminConnection, _ poller: borrowing Poller) {
    connection.receive()
    connection.send()
    while let request = connection.nextRequest() {
      answer(request, connection)
      connection.send()
    }
    connection.send()
    connection.closeIfOver()
    settle(connection, poller)
    for connection in displaced { settle(connection, poller) }
    displaced = []
  }

  private func settle(_ connection: AdminConnection, _ poller: borrowing Poller) {
    if connection.isOpen {
      poller.modify(connection.descriptor, connection.interest, data: connection.data)
      return
    }
    let slot = Int(connection.data & 0xffff_ffff) - Int(Self.firstData)
    poller.remove(connection.descriptor)
    connection.descriptor.close()
    connections[slot] = nil
    if connection.watched != nil { watchersChanged() }
  }

  private func end(_ connection: AdminConnection, _ poller: borrowing Poller) {
    connection.close()
    settle(connection, poller)
  }

  /// When the next thing is due, on the monotonic clock.
  var deadline: Int64 {
    min(connections.compactMap { $0?.deadline }.min() ?? .max, rounds.due, dashboard?.series.due ?? .max)
  }

  /// Closes what has been silent for too long, and asks for the progress of exchanges.
  func expire(now: Int64, _ poller: borrowing Poller) {
    for case .some(let connection) in connections where connection.deadline <= now { end(connection, poller) }
    if rounds.begins(now: now, workers) { host.ask(.progress, inquiry: ProgressRounds.inquiry) }
    if dashboard?.series.begins(now: now, workers) ?? false { host.ask(.statistics, inquiry: Series.inquiry) }
  }

  // MARK: Watchers

  /// false: there are as many watchers as allowed. If one user has more than its share of them and the newcomer has
  /// less, the watcher that has accepted nothing for longest makes way.
  func mayWatch(_ newcomer: AdminConnection) -> Bool {
    let watchers = connections.compactMap { $0 }.filter { $0.watched != nil }
    guard watchers.count >= Self.mostWatchers else { return true }
    let places = watchers.map { (place: AdminPlace.served, identity: $0.identity, since: $0.lastMoment) }
    guard let index = AdminPlace.whoLeaves(places, for: newcomer.identity, share: share) else { return false }
    watchers[index].close()
    displaced.append(watchers[index])
    return true
  }

  /// Ends the event streams of a session that has ended.
  func endWatchers(of session: WebSession) {
    for case .some(let connection) in connections
    where connection.watched != nil && connection.session?.secret == session.secret {
      connection.close()
      displaced.append(connection)
    }
  }

  func watchersChanged() {
    shared.events.kinds = connections.reduce(into: []) { $0.formUnion($1?.watched ?? []) }
    if shared.events.wants(.progress) { rounds.wanted(now: Clock.monotonic) }
  }

  /// Hands out the events that have occurred.
  func deliverEvents(_ poller: borrowing Poller) {
    let (taken, dropped) = shared.events.takeAll()
    let events = taken.map { LeavingEvent($0) }
    for case .some(let connection) in connections {
      guard let kinds = connection.watched else { continue }
      var lost = 0
      for leaving in events where kinds.contains(EventKinds(leaving.event.kind)) && !connection.offer(leaving) {
        lost += 1
      }
      for (kind, count) in dropped where kinds.contains(EventKinds(kind)) {
        connection.miss(count)
        lost += count
      }
      shared.events.noteLost(lost)
      connection.send()
      settle(connection, poller)
    }
  }

  // MARK: Loops

  /// A loop has answered; after the last answer the page is written.
  func answered(_ worker: Int, _ answer: Answer, inquiry number: UInt64, _ poller: borrowing Poller) {
    if number == ProgressRounds.inquiry {
      rounds.answered(worker, isWanted: shared.events.wants(.progress), now: Clock.monotonic)
      return
    }
    if number == Series.inquiry {
      if case .statistics(let statistics) = answer { sampled(worker, statistics) }
      return
    }
    inquiries[number]?.answers.append(answer)
    noLongerAwaits(worker, number, poller)
  }

  /// A loop has ended, as it was told to: it answers no further question.
  func workerLeft(_ worker: Int, _ statistics: Statistics, _ poller: borrowing Poller) {
    workers.remove(worker)
    if counted == nil { counted = statistics } else { counted?.add(statistics) }
    rounds.answered(worker, isWanted: shared.events.wants(.progress), now: Clock.monotonic)
    dashboard?.series.left(worker)
    for number in inquiries.keys.sorted() where inquiries[number]?.awaited.contains(worker) ?? false {
      inquiries[number]?.answers.append(.statistics(statistics))
      noLongerAwaits(worker, number, poller)
    }
  }

  private func noLongerAwaits(_ worker: Int, _ number: UInt64, _ poller: borrowing Poller) {
    inquiries[number]?.awaited.remove(worker)
    guard let inquiry = inquiries[number], inquiry.awaited.isEmpty else { return }
    write(page(inquiry), number, poller)
  }

  /// The daemon has found out what `AdminHost.reachability` could not return at once.
  func answered(_ report: ReachabilityReport, inquiry number: UInt64, _ poller: borrowing Poller) {
    guard let connection = inquiries[number]?.connection else { return }
    write(page(report, connection), number, poller)
  }

  private func write(_ page: AdminPage, _ number: UInt64, _ poller: borrowing Poller) {
    guard let connection = inquiries.removeValue(forKey: number)?.connection, connection.isOpen else { return }
    if connection.kind == .metrics { scraped = (page, Clock.monotonic + Self.pageMilliseconds) }
    connection.write(page)
    go(connection, poller)
  }
}
