// Connections that are being opened to one origin, where one may turn out to carry the requests of all (HTTP/2): who opens one,
// and who follows, that is, waits for what comes of it. Each follows once: then it goes on by itself, whether or not there is a
// connection that carries it. Tests: SharedOpeningTests.
//
//     begin ─┬► .open ─ (agreed) ─ ended ─► those that follow go on
//            └► .follow ─ leave, or told by `ended` ─ begin ─► .open

public struct SharedOpening<Follower: AnyObject> {
  public enum Turn: Equatable, Sendable {
    /// Open a connection; `ended` says that it is open, or has failed.
    case open
    case follow
  }

  /// How many are opened at once before it is known whether one of them would carry all: as many as browsers open.
  static var mostUnknown: Int { 6 }

  /// Whether the last connection that was opened carries the requests of many; nil: none has been.
  private var isShared: Bool? = nil
  /// Connections that are being opened.
  private var count = 0
  /// In the order in which they came.
  private var followers: [Follower] = []

  public init() {}

  private var most: Int {
    switch isShared {
    case true?: 1
    case false?: .max
    case nil: Self.mostUnknown
    }
  }

  /// Another connection is wanted. `hasFollowed`: it was waited for one already.
  public mutating func begin(_ follower: Follower, hasFollowed: Bool) -> Turn {
    if count >= most, !hasFollowed {
      followers.append(follower)
      return .follow
    }
    count += 1
    return .open
  }

  /// It follows no more.
  public mutating func leave(_ follower: Follower) { followers.removeAll { $0 === follower } }

  /// What a handshake with the origin has agreed on.
  public mutating func agreed(isShared: Bool) { self.isShared = isShared }

  /// What was being opened is open, or has failed: those that followed, who now go on.
  public mutating func ended() -> [Follower] {
    precondition(count > 0, "what ends has begun")
    count -= 1
    if followers.isEmpty { return [] }
    var released: [Follower] = []
    swap(&released, &followers)
    return released
  }
}
