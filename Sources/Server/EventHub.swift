// Events for whoever watches: reloads, refusals, requests that have ended. A loop asks first whether anybody does, which
// costs a load, and never waits: what a slow reader leaves lying is dropped and counted.
// Tests: EventHubTests, test_admin.py.

import Synchronization
import Transport

/// Something that happened.
struct ProxyEvent: Sendable {
  /// The names of server-sent events.
  enum Kind: String, Sendable {
    /// An exchange is over: its line of the log.
    case finished
    /// A response or request passed although it violates its rule.
    case violation
    /// A certificate without a pinned key was seen.
    case pinMismatch = "pin-mismatch"
    case reload
  }

  let kind: Kind
  /// A JSON object, without a line end.
  let json: String
}

final class EventHub: Sendable {
  /// Events that wait for the admin side, of all loops: a moment of full load.
  static let mostWaiting = 4096

  private let watchers = Atomic<Int>(0)
  private let waiting = Atomic<Int>(0)
  private let lost = Atomic<UInt64>(0)
  /// Where the admin side finds them.
  let mailbox = Mailbox<ProxyEvent>()

  var isWatched: Bool { watchers.load(ordering: .relaxed) > 0 }
  /// Events that nobody had room for.
  var lostCount: UInt64 { lost.load(ordering: .relaxed) }

  func watcherCame() { watchers.add(1, ordering: .relaxed) }
  func watcherLeft() { watchers.subtract(1, ordering: .relaxed) }
  func noteLost() { lost.add(1, ordering: .relaxed) }

  /// `json` may end with a line feed.
  func post(_ kind: ProxyEvent.Kind, json: String) {
    guard isWatched else { return }
    if waiting.add(1, ordering: .relaxed).newValue > Self.mostWaiting {
      waiting.subtract(1, ordering: .relaxed)
      return noteLost()
    }
    mailbox.post(ProxyEvent(kind: kind, json: json.hasSuffix("\n") ? String(json.dropLast()) : json))
  }

  func takeAll() -> [ProxyEvent] {
    let events = mailbox.takeAll()
    waiting.subtract(events.count, ordering: .relaxed)
    return events
  }
}
