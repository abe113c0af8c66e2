// Events for those who watch: reloads, refusals, requests that have ended. A loop first checks whether the kind is
// wanted, which costs a load, and never waits. Events that a slow reader leaves are dropped and counted.
// Tests: EventHubTests, test_admin_events.py.

import Bytes
import Policy
import Synchronization
import Transport

/// Something that happened. It is written once it leaves.
struct ProxyEvent: Sendable {
  /// The names of server-sent events, in the order of an exchange's life.
  enum Kind: String, Sendable, CaseIterable {
    /// A request or tunnel has been decided, and goes on or is refused.
    case begun
    /// The progress of a long exchange.
    case progress
    /// An exchange is over: its line of the log.
    case finished
    /// A response or request passed although it violates its rule.
    case violation
    /// A certificate without a pinned key was seen.
    case pinMismatch = "pin-mismatch"
    /// A request waits for the network, or no longer waits.
    case wait
    /// An operator is asked.
    case ask
    /// The operator has answered, or no request waits any more.
    case answer
    /// Links, addresses or the default route have changed.
    case reachability
    case reload
  }

  enum Content: Sendable {
    case members([(String, JSONText)])
    /// What has been decided about an exchange in progress.
    case beginning(RecentDecision)
    /// All that the log says of an exchange.
    case exchange(RecentDecision)
  }

  let kind: Kind
  /// Milliseconds since 1970.
  let wall: Int64
  let content: Content
  /// The exchange that it is about; nil if none.
  var subject: EventSubject? = nil

  /// The members, of which the first is the time, as a JSON object.
  func write(to out: inout ByteBuffer) {
    switch content {
    case .members: return out.append(JSONText.object(members).compactText)
    case .beginning(let exchange): exchange.line.writeBeginning(exchange.record, exchange.text.span, to: &out)
    case .exchange(let exchange): exchange.line.writeMembers(exchange.record, exchange.text.span, wall: wall, to: &out)
    }
    out.append("}")
  }

  /// The same as values.
  var members: [(String, JSONText)] {
    let rest =
      switch content {
      case .members(let members): members
      case .beginning(let exchange): exchange.line.valuesOfBeginning(exchange.record, exchange.text.span)
      case .exchange(let exchange): exchange.line.values(exchange.record, exchange.text.span)
      }
    return [("time", .string(AdminResources.time(wall)))] + rest
  }
}

/// An exchange, as filters see it.
struct EventSubject: Sendable, Equatable {
  let reference: String
  let rule: String?
  /// Name and number of the client's user, if known.
  var user: String? = nil
  var userID: UInt32? = nil
}

/// Which events of its kinds a reader wants.
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

/// Kinds of events that a reader wants.
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

  /// `reload,violation`. Returns the first word that is not a kind.
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
  /// The most events of all loops that wait for the admin side: a moment of full load.
  static let mostWaiting = 4096

  private let wanted = Atomic<UInt32>(0)
  private let waiting = Atomic<Int>(0)
  private let lost = Atomic<UInt64>(0)
  private let dropped = Locked<[ProxyEvent.Kind: Int]>([:])
  /// Where the admin side gets them.
  let mailbox = Mailbox<ProxyEvent>()

  /// The kinds that all watchers together want.
  var kinds: EventKinds {
    get { EventKinds(rawValue: wanted.load(ordering: .relaxed)) }
    set { wanted.store(newValue.rawValue, ordering: .relaxed) }
  }
  var isWatched: Bool { !kinds.isEmpty }
  /// Events that readers did not get, counted for each reader.
  var lostCount: UInt64 { lost.load(ordering: .relaxed) }

  func wants(_ kind: ProxyEvent.Kind) -> Bool { kinds.contains(EventKinds(kind)) }
  func noteLost(_ count: Int) { lost.add(UInt64(count), ordering: .relaxed) }

  func post(_ kind: ProxyEvent.Kind, about subject: EventSubject? = nil, _ members: [(String, JSONText)]) {
    post(kind, about: subject, wall: Clock.wall, .members(members))
  }

  func post(
    _ kind: ProxyEvent.Kind, about subject: EventSubject? = nil, wall: Int64, _ content: ProxyEvent.Content
  ) {
    guard wants(kind) else { return }
    if waiting.add(1, ordering: .relaxed).newValue > Self.mostWaiting {
      waiting.subtract(1, ordering: .relaxed)
      dropped.withLock { $0[kind, default: 0] += 1 }
      return
    }
    mailbox.post(ProxyEvent(kind: kind, wall: wall, content: content, subject: subject))
  }

  /// The events that occurred, and for each kind how many more found no room.
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
