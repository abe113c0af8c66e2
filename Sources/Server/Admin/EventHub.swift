// Events for whoever watches: reloads, refusals, requests that have ended. A loop asks first whether anybody wants the kind,
// which costs a load, and never waits: what a slow reader leaves lying is dropped and counted.
// Tests: EventHubTests, test_admin_events.py.

import Bytes
import Policy
import Synchronization
import Transport

/// Something that happened. Each tells its moment first: `time`.
struct ProxyEvent: Sendable {
  /// The names of server-sent events, in the order of an exchange's life.
  enum Kind: String, Sendable, CaseIterable {
    /// A request or tunnel has been decided, and goes on or is refused.
    case begun
    /// How far an exchange is that takes its time.
    case progress
    /// An exchange is over: its line of the log.
    case finished
    /// A response or request passed although it violates its rule.
    case violation
    /// A certificate without a pinned key was seen.
    case pinMismatch = "pin-mismatch"
    /// A request waits for the network, or does no more.
    case wait
    /// An operator is asked.
    case ask
    /// He has answered, or nobody waits any more.
    case answer
    /// Links, addresses or the default route are others.
    case reachability
    case reload
  }

  let kind: Kind
  /// A JSON object, without a line end.
  let json: String
  /// The exchange that it is about; nil where it is about none.
  var subject: EventSubject? = nil
}

/// An exchange, as events are chosen by it.
struct EventSubject: Sendable, Equatable {
  let reference: String
  let rule: String?
  /// Name and number of the client's user, where they are known.
  var user: String? = nil
  var userID: UInt32? = nil
}

/// Which events a reader wants of those of its kinds.
struct EventFilter: Sendable, Equatable {
  var rule: String? = nil
  /// A name or a number.
  var user: String? = nil
  var reference: String? = nil

  func wants(_ event: ProxyEvent) -> Bool {
    if self == EventFilter() { return true }
    return event.subject.map { includes($0) } ?? false
  }

  func includes(_ subject: EventSubject) -> Bool {
    if let rule, subject.rule != rule { return false }
    if let reference, subject.reference != reference { return false }
    if let user, subject.user != user, subject.userID.map({ "\($0)" }) != user { return false }
    return true
  }
}

/// Kinds of events that somebody wants.
struct EventKinds: OptionSet, Sendable, Hashable {
  let rawValue: UInt32

  init(rawValue: UInt32) { self.rawValue = rawValue }

  init(_ kind: ProxyEvent.Kind) {
    rawValue =
      switch kind {
      case .begun: 1 << 0
      case .progress: 1 << 1
      case .finished: 1 << 2
      case .violation: 1 << 3
      case .pinMismatch: 1 << 4
      case .wait: 1 << 5
      case .reachability: 1 << 6
      case .reload: 1 << 7
      case .ask: 1 << 8
      case .answer: 1 << 9
      }
  }

  static let all = EventKinds(ProxyEvent.Kind.allCases.map { EventKinds($0) })

  /// `reload,violation`. Answers the first word that is no kind.
  static func read(_ list: String) -> Result<EventKinds, UnknownKind> {
    var kinds: EventKinds = []
    for word in list.split(separator: ",", omittingEmptySubsequences: false) {
      guard let kind = ProxyEvent.Kind(rawValue: String(word)) else { return .failure(UnknownKind(word: String(word))) }
      kinds.insert(EventKinds(kind))
    }
    return .success(kinds)
  }

  struct UnknownKind: Error, Equatable {
    let word: String
  }
}

final class EventHub: Sendable {
  /// Events that wait for the admin side, of all loops: a moment of full load.
  static let mostWaiting = 4096

  private let wanted = Atomic<UInt32>(0)
  private let waiting = Atomic<Int>(0)
  private let lost = Atomic<UInt64>(0)
  private let dropped = Locked<[ProxyEvent.Kind: Int]>([:])
  /// Where the admin side finds them.
  let mailbox = Mailbox<ProxyEvent>()

  /// What all watchers together want to hear of.
  var kinds: EventKinds {
    get { EventKinds(rawValue: wanted.load(ordering: .relaxed)) }
    set { wanted.store(newValue.rawValue, ordering: .relaxed) }
  }
  var isWatched: Bool { !kinds.isEmpty }
  /// Events that a reader did not get, counted for each reader.
  var lostCount: UInt64 { lost.load(ordering: .relaxed) }

  func wants(_ kind: ProxyEvent.Kind) -> Bool { kinds.contains(EventKinds(kind)) }
  func noteLost(_ count: Int) { lost.add(UInt64(count), ordering: .relaxed) }

  /// An object of `members`, with the moment before them.
  func post(_ kind: ProxyEvent.Kind, about subject: EventSubject? = nil, _ members: [(String, JSONText)]) {
    guard wants(kind) else { return }
    let json = JSONText.object([("time", .string(AdminResources.time(Clock.wall)))] + members).text
    post(kind, about: subject, json: json)
  }

  /// `json` may end with a line feed.
  func post(_ kind: ProxyEvent.Kind, about subject: EventSubject? = nil, json: String) {
    guard wants(kind) else { return }
    if waiting.add(1, ordering: .relaxed).newValue > Self.mostWaiting {
      waiting.subtract(1, ordering: .relaxed)
      dropped.withLock { $0[kind, default: 0] += 1 }
      return
    }
    mailbox.post(
      ProxyEvent(kind: kind, json: json.hasSuffix("\n") ? String(json.dropLast()) : json, subject: subject))
  }

  /// What has happened, and how many events of each kind found no room behind it.
  func takeAll() -> (events: [ProxyEvent], dropped: [ProxyEvent.Kind: Int]) {
    let events = mailbox.takeAll()
    waiting.subtract(events.count, ordering: .relaxed)
    let dropped = dropped.withLock { dropped in
      defer { dropped = [:] }
      return dropped
    }
    return (events, dropped)
  }
}
