// Who makes way where every place of the admin API is taken, and when the loops are asked how far exchanges are. Pure.
// Tests: AdminPlacesTests.

import Sharing
import Transport

/// What a connection does with its place. Moments are of the monotonic clock.
enum AdminPlace: Equatable {
  /// It has never sent a whole request, and is there since then.
  case silent(since: Int64)
  /// It has had its answers since then, and may or may not ask again.
  case kept(since: Int64)
  /// It has not read of its answer since then.
  case unread(since: Int64)
  /// Its answer is being prepared, or it reads events.
  case served

  /// Whom a new connection may push out: whoever has never asked, of these the one that is there for longest; else who has
  /// been answered; else who does not read. Bytes that make no request win nobody a longer stay. nil: nobody may be.
  static func whoLeaves(_ places: [AdminPlace]) -> Int? {
    places.indices.filter { places[$0] != .served }.min { places[$0].rank < places[$1].rank }
  }

  /// The same with regard to who came: where one user has more than its share and the one that came has less, it is one of
  /// that user's, were it being served. `since`: when each came, asked last, or took something last.
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

/// The rounds in which loops are asked to tell how far exchanges are: one after another, and only while somebody watches.
/// The last round, when nobody does any more, lets them forget.
struct ProgressRounds {
  /// Stands for the number of an inquiry, of which it is none.
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

  /// The next round comes a while after the last answer, so that no loop is asked twice within that while.
  mutating func answered(_ worker: Int, isWanted: Bool, now: Int64) {
    guard awaited.remove(worker) != nil, awaited.isEmpty, isWanted else { return }
    due = now + ProgressSweep.intervalMilliseconds
  }
}
