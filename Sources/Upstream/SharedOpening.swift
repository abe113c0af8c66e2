// Connections that are being opened to one origin, if one may turn out to carry the requests of all (HTTP/2). A request
// either opens one or follows, that is, waits for the result. Each follows once. After that it proceeds on its own,
// whether or not there is a connection that carries it. Tests: SharedOpeningTests.
//
//     begin ─┬► .open ─ (agreed) ─ ended ─► those that follow go on
//            └► .follow ─ leave, or released by `ended` ─ begin ─► .open

public struct SharedOpening<Follower: AnyObject> {
  public enum Turn: Equatable, Sendable {
    /// Open a connection; call `ended` when it is open, or has failed.
    case open
    case follow
  }

  /// How many are opened at once before it is known whether one of them can carry all: as many as browsers open.
  static var mostUnknown: Int { 6 }

  /// Whether the last connection that was opened carries the requests of many; nil: none has been opened.
  private var isShared: Bool? = nil
  /// Connections that are being opened.
  private var count = 0
  /// In the order in which they arrived.
  private var followers: [Follower] = []

  public init() {}

  private var most: Int {
    switch isShared {
    case true?: 1
    case false?: .max
    case nil: Self.mostUnknown
    }
  }

  /// Another connection is needed. `hasFollowed`: the follower has already waited for one.
  public mutating func begin(_ follower: Follower, hasFollowed: Bool) -> Turn {
    if count >= most, !hasFollowed {
      followers.append(follower)
      return .follow
    }
    count += 1
    return .open
  }

  /// It no longer follows.
  public mutating func leave(_ follower: Follower) { followers.removeAll { $0 === follower } }

  /// What a handshake with the origin has agreed on.
  public mutating func agreed(isShared: Bool) { self.isShared = isShared }

  /// A connection is open, or has failed. Returns the followers, which now proceed.
  public mutating func ended() -> [Follower] {
    precondition(count > 0, "what ends has begun")
    count -= 1
    if followers.isEmpty { return [] }
    var released: [Follower] = []
    swap(&released, &followers)
    return released
  }
}
