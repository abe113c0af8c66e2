// Which connection makes way when every place of the admin API is taken, and when the loops are asked for progress.
// Pure.
// Tests: AdminPlacesTests.

import Sharing
import Transport

/// How a connection uses its place. Times are of the monotonic clock.
enum AdminPlace: Equatable {
  /// It connected then, and has never sent a whole request.
  case silent(since: Int64)
  /// It got its last answer then, and may or may not ask again.
  case kept(since: Int64)
  /// It has read nothing of its answer since then.
  case unread(since: Int64)
  /// Its answer is being prepared, or it reads events.
  case served

  /// Which connection makes way for a new one. First one that has never asked, the oldest of these; then one that has
  /// been answered; then one that does not read. Bytes that make no request do not extend a stay. nil: none may be
  /// closed.
  static func whoLeaves(_ places: [AdminPlace]) -> Int? {
    places.indices.filter { places[$0] != .served }.min { places[$0].rank < places[$1].rank }
  }

  /// The same with the identity of the newcomer. If one user has more than its share and the newcomer's has less, a
  /// connection of that user makes way, even one that is being served. `since`: when each came, last asked, or last
  /// accepted something.
  static func whoLeaves(
    _ places: [(place: AdminPlace, identity: Claimant, since: Int64)], for newcomer: Claimant,
    share: Double
  ) -> Int? {
    var shares = Shares<Claimant>()
    for place in places { shares.take(for: place.identity) }
    guard let greediest = shares.whoYields(to: newcomer, of: places.count, share: share) else {
      return whoLeaves(places.map(\.place))
    }
    return places.indices.filter { places[$0].identity == greediest }
      .min { (places[$0].place.rank.0, places[$0].since) < (places[$1].place.rank.0, places[$1].since) }
  }

  private var rank: (Int, Int64) {
    switch self {
    case .silent(let since): (0, since)
    case .kept(let since): (1, since)
    case .unread(let since): (2, since)
    case .served: (3, 0)
    }
  }
}

/// The rounds that ask the loops for the progress of exchanges: one after another, and only while someone watches. The
/// last round, when no one does any more, lets the loops forget.
struct ProgressRounds {
  /// The number that stands for these rounds. No inquiry has it.
  static let inquiry: UInt64 = 0

  private(set) var due = Int64.max
  /// Loops that have yet to answer.
  private var awaited: Set<Int> = []

  mutating func wanted(now: Int64) {
    if due == .max, awaited.isEmpty { due = now + ProgressSweep.intervalMilliseconds }
  }

  /// Whether the loops are to be asked now.
  mutating func begins(now: Int64, _ workers: Set<Int>) -> Bool {
    guard now >= due else { return false }
    due = .max
    awaited = workers
    return !workers.isEmpty
  }

  /// The next round comes a while after the last answer, so no loop is asked twice within that time.
  mutating func answered(_ worker: Int, isWanted: Bool, now: Int64) {
    guard awaited.remove(worker) != nil, awaited.isEmpty, isWanted else { return }
    due = now + ProgressSweep.intervalMilliseconds
  }
}
