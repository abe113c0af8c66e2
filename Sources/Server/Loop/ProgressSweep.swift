// The progress of long exchanges, for those who watch /v1/events: NSProgress for a proxy.
//
// Bytes on their way never touch this code. While someone watches, the admin side asks each loop from time to time. The
// loop looks at a limited number of its clients and reports those whose counts have changed. The counts it reported
// last are kept here, and only while it is asked. Tests: ProgressSweepTests, test_admin_events.py.

import Bytes
import Policy
import Session
import Transport

/// What has been reported about the exchanges of one loop, by slot.
struct ProgressSweep {
  /// The shortest time between two reports of an exchange, in milliseconds: often enough for the eye. Shorter exchanges
  /// have none.
  static let intervalMilliseconds: Int64 = 500
  /// Exchanges reported in one round, by all loops: half of the hub's capacity, so that other events find room. If
  /// there are more, the next round continues where this one ended.
  static let mostTold = EventHub.mostWaiting / 2

  private struct Told {
    let reference: Reference
    let bytes: UInt64
  }

  private var told: [Int: Told] = [:]
  /// Where the next round begins.
  private var next = 0

  /// Whether an exchange is to be reported. `bytes`: all that it has moved. If so, it counts as reported.
  mutating func tells(_ slot: Int, _ reference: Reference, bytes: UInt64, ageMilliseconds: Int64) -> Bool {
    if ageMilliseconds < Self.intervalMilliseconds { return false }
    if let last = told[slot], last.reference == reference, last.bytes == bytes { return false }
    told[slot] = Told(reference: reference, bytes: bytes)
    return true
  }

  /// The slot has no exchange.
  mutating func forget(_ slot: Int) { if !told.isEmpty { told[slot] = nil } }

  mutating func forgetAll() { self = ProgressSweep() }

  /// Reports the exchanges of a loop whose counts have changed, as many as fit one round.
  mutating func runRound(_ worker: Worker) {
    guard worker.shared.events.wants(.progress) else { return forgetAll() }
    var room = max(1, Self.mostTold / worker.shared.mailboxes.count)
    let count = worker.slots.occupants.count
    let begin = next < count ? next : 0
    for step in 0..<count where room > 0 {
      let slot = (begin + step) % count
      next = slot + 1
      guard case .client(let conversation) = worker.slots.occupants[slot], conversation.session.isInExchange else {
        forget(slot)
        continue
      }
      let record = conversation.session.exchange.record
      let age = record.microseconds(until: worker.now, worker.workspace.turnMicroseconds) / 1000
      if tells(slot, record.reference, bytes: record.traffic.bytesIn &+ record.traffic.bytesOut, ageMilliseconds: age) {
        conversation.session.exchange.tellProgress(ageMilliseconds: age, worker)
        room -= 1
      }
    }
  }
}
