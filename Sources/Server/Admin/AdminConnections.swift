// The clients of the admin API that are connected, and those of them that read events. Everything is bounded: if all
// places are taken, the connection that has been silent for longest makes way. Tests: AdminPlacesTests,
// test_admin_socket.py, test_admin_events.py.

import Bytes
import Sharing
import Transport

final class AdminConnections {
  private let events: EventHub
  private var slots: [AdminConnection?] = []
  private var generation: UInt32 = 0
  private var rounds = ProgressRounds()
  /// Watchers that made way, until the poller is informed.
  private var displaced: [AdminConnection] = []

  init(_ events: EventHub) { self.events = events }

  // MARK: Places

  /// Registers a new connection; nil: there is no place for it, and it is closed.
  func add(
    _ descriptor: Descriptor, by listener: AdminListener, peer: Accepted?, share: Double, _ poller: borrowing Poller
  ) -> AdminConnection? {
    let newcomer = Claimant.user(descriptor.peerUserID ?? .max)
    guard let slot = freeSlot(of: listener, for: newcomer, share: share, poller) else {
      descriptor.close()
      return nil
    }
    generation &+= 1
    let data = UInt64(generation) << 32 | UInt64(slot) + AdminServer.firstData
    guard poller.add(descriptor, .read, data: data) else {
      descriptor.close()
      return nil
    }
    let connection = AdminConnection(descriptor, data: data, by: listener.kind, peer: peer, now: Clock.monotonic)
    slots[slot] = connection
    return connection
  }

  private func freeSlot(
    of listener: AdminListener, for newcomer: Claimant, share: Double, _ poller: borrowing Poller
  ) -> Int? {
    let taken = slots.indices.filter { slots[$0]?.kind == listener.kind }
    if taken.count < listener.mostConnections {
      if let free = slots.firstIndex(where: { $0 == nil }) { return free }
      slots.append(nil)
      return slots.count - 1
    }
    // Connections of another kind keep their places.
    let places = taken.map {
      (
        place: slots[$0]?.place ?? .served, identity: slots[$0]?.identity ?? .user(.max),
        since: slots[$0]?.lastMoment ?? .max
      )
    }
    guard let slot = AdminPlace.whoLeaves(places, for: newcomer, share: share).map({ taken[$0] }) else { return nil }
    if let connection = slots[slot] { end(connection, poller) }
    return slot
  }

  /// The connection that was registered under this number; nil: it is gone.
  func find(_ data: UInt64) -> AdminConnection? {
    let slot = Self.slot(data)
    guard slots.indices.contains(slot), let connection = slots[slot], connection.data == data else { return nil }
    return connection
  }

  private static func slot(_ data: UInt64) -> Int { Int(data & 0xffff_ffff) - Int(AdminServer.firstData) }

  /// Sets what the poller watches, here and for those that made way meanwhile.
  func settleAll(_ connection: AdminConnection, _ poller: borrowing Poller) {
    settle(connection, poller)
    for connection in displaced { settle(connection, poller) }
    displaced = []
  }

  private func settle(_ connection: AdminConnection, _ poller: borrowing Poller) {
    if connection.isOpen {
      poller.modify(connection.descriptor, connection.interest, data: connection.data)
      return
    }
    poller.remove(connection.descriptor)
    connection.descriptor.close()
    slots[Self.slot(connection.data)] = nil
    if connection.watched != nil { watchersChanged() }
  }

  func end(_ connection: AdminConnection, _ poller: borrowing Poller) {
    connection.close()
    settle(connection, poller)
  }

  // MARK: Time

  /// When the next thing is due, on the monotonic clock.
  var deadline: Int64 { min(slots.compactMap { $0?.deadline }.min() ?? .max, rounds.due) }

  /// Closes what has been silent for too long.
  func expire(now: Int64, _ poller: borrowing Poller) {
    for case .some(let connection) in slots where connection.deadline <= now { end(connection, poller) }
  }

  // MARK: Watchers

  /// false: there are as many watchers as allowed. If one user has more than its share of them and the newcomer has
  /// less, the watcher that has accepted nothing for longest makes way.
  func mayWatch(_ newcomer: AdminConnection, share: Double) -> Bool {
    let watchers = slots.compactMap { $0 }.filter { $0.watched != nil }
    guard watchers.count >= AdminServer.mostWatchers else { return true }
    let places = watchers.map { (place: AdminPlace.served, identity: $0.identity, since: $0.lastMoment) }
    guard let index = AdminPlace.whoLeaves(places, for: newcomer.identity, share: share) else { return false }
    watchers[index].close()
    displaced.append(watchers[index])
    return true
  }

  /// Ends the event streams of a session that has ended.
  func endWatchers(of session: WebSession) {
    for case .some(let connection) in slots
    where connection.watched != nil && connection.session?.secret == session.secret {
      connection.close()
      displaced.append(connection)
    }
  }

  func watchersChanged() {
    events.kinds = slots.reduce(into: []) { $0.formUnion($1?.watched ?? []) }
    if events.wants(.progress) { rounds.wanted(now: Clock.monotonic) }
  }

  /// Hands out the events that have occurred.
  func deliverEvents(_ poller: borrowing Poller) {
    let (taken, dropped) = events.takeAll()
    let leaving = taken.map { LeavingEvent($0) }
    for case .some(let connection) in slots {
      guard let kinds = connection.watched else { continue }
      var lost = 0
      for one in leaving where kinds.contains(EventKinds(one.event.kind)) && !connection.offer(one) { lost += 1 }
      for (kind, count) in dropped where kinds.contains(EventKinds(kind)) {
        connection.miss(count)
        lost += count
      }
      events.noteLost(lost)
      connection.send()
      settle(connection, poller)
    }
  }

  // MARK: Progress of exchanges

  /// Whether the loops are to be asked for it now.
  func asksForProgress(now: Int64, _ workers: Set<Int>) -> Bool { rounds.begins(now: now, workers) }

  /// A loop has answered, or has ended.
  func progressAnswered(_ worker: Int) {
    rounds.answered(worker, isWanted: events.wants(.progress), now: Clock.monotonic)
  }
}
