// Links that open the dashboard, and the sessions that browsers get for them. They are only in memory and end with the
// daemon. Pure: time, random numbers and users are handed in.
//
// A link opens one session, once, within a minute. Link and session belong to the user who asked for the link, and the
// kernel says whose the browser's connection is. So another user gains nothing from seeing a link (in the arguments of
// a browser, say), or from receiving a cookie on a server on this machine (cookies do not distinguish ports). Tests:
// DashboardSessionsTests, test_dashboard.py.

import Bytes

/// Unguessable text: 192 bits of the kernel's random bytes as hexadecimal digits.
struct WebSecret: Equatable, Sendable {
  let text: String

  /// `random` returns 64 bits of getrandom(2) at a time.
  init(_ random: () -> UInt64) {
    text = (0..<3).map { _ in withUnsafeBytes(of: random()) { $0.hexadecimal } }.joined()
  }

  /// Takes the same time wherever the two differ. A different length is no secret.
  func equals(_ other: String) -> Bool {
    let one = Array(text.utf8)
    let two = Array(other.utf8)
    if one.count != two.count { return false }
    var difference: UInt8 = 0
    for index in one.indices { difference |= one[index] ^ two[index] }
    return difference == 0
  }
}

/// What a browser may do, and for which user.
struct WebSession: Sendable {
  let secret: WebSecret
  /// The user who asked for the link: the session has this user's rights.
  let askedBy: UInt32?
  let rights: AdminRights
  /// The user whose browser it is.
  let browser: UInt32
  /// Both on the monotonic clock.
  let until: Int64
  var lastUsed: Int64
}

struct DashboardSessions: Sendable {
  /// How long a link can be used, in milliseconds: for a browser that has yet to start.
  static let linkMilliseconds: Int64 = 60_000
  /// The most unused links: several people at once, each of whom has tried again.
  static let mostLinks = 16
  /// How long a session lasts, in milliseconds: a working day.
  static let sessionMilliseconds: Int64 = 12 * 3_600_000
  /// The most sessions at once: consoles of the people who run one machine.
  static let mostSessions = 16

  private struct Link {
    let secret: WebSecret
    let askedBy: UInt32?
    let rights: AdminRights
    /// The user whose browser may use it; nil: any user, if root asked and named none.
    let user: UInt32?
    let until: Int64
  }

  private let random: @Sendable () -> UInt64
  private var links: [Link] = []
  private var sessions: [WebSession] = []

  init(random: @escaping @Sendable () -> UInt64) { self.random = random }

  var count: Int { sessions.count }

  /// A new link. If too many are unused, it replaces the oldest of the same user, or else the oldest of all.
  mutating func link(askedBy: UInt32?, rights: AdminRights, for user: UInt32?, now: Int64) -> WebSecret {
    expire(now)
    if links.count >= Self.mostLinks {
      links.remove(at: links.firstIndex { $0.askedBy == askedBy } ?? 0)
    }
    let secret = WebSecret(random)
    links.append(
      Link(secret: secret, askedBy: askedBy, rights: rights, user: user, until: now + Self.linkMilliseconds))
    return secret
  }

  enum Opening {
    /// `ended`: the session that it takes the place of.
    case opened(WebSession, ended: WebSession?)
    case unknown
    /// The link is for another user, and stays.
    case notYours(UInt32)
  }

  /// Whether there is an unused link with this text.
  mutating func hasLink(_ text: String, now: Int64) -> Bool {
    expire(now)
    // All are compared, whichever matches.
    return links.reduce(false) { $1.secret.equals(text) || $0 }
  }

  /// Uses a link up.
  mutating func open(_ text: String, browser: UInt32, now: Int64) -> Opening {
    expire(now)
    var index: Int? = nil
    for candidate in links.indices where links[candidate].secret.equals(text) { index = candidate }
    guard let index else { return .unknown }
    if let user = links[index].user, user != browser { return .notYours(user) }
    let link = links.remove(at: index)
    var ended: WebSession? = nil
    if sessions.count >= Self.mostSessions,
      let idlest = sessions.indices.min(by: { sessions[$0].lastUsed < sessions[$1].lastUsed })
    {
      ended = sessions.remove(at: idlest)
    }
    let session = WebSession(
      secret: WebSecret(random), askedBy: link.askedBy, rights: link.rights, browser: browser,
      until: now + Self.sessionMilliseconds, lastUsed: now)
    sessions.append(session)
    return .opened(session, ended: ended)
  }

  /// The session whose cookie is among these.
  mutating func session(_ cookies: [String], now: Int64) -> WebSession? {
    expire(now)
    var found: Int? = nil
    for index in sessions.indices where cookies.contains(where: sessions[index].secret.equals) { found = index }
    guard let found else { return nil }
    sessions[found].lastUsed = now
    return sessions[found]
  }

  mutating func end(_ session: WebSession) { sessions.removeAll { $0.secret == session.secret } }

  private mutating func expire(_ now: Int64) {
    links.removeAll { $0.until <= now }
    sessions.removeAll { $0.until <= now }
  }
}

/// Limits the answers to requests without a session. Every user of the machine can send them as fast as it likes;
/// beyond the limit they are closed without an answer. A valid link or cookie always counts.
struct StrangerAllowance {
  /// Answers a second: a browser that reloads a page whose session has ended asks for three files.
  static let most = 30
  static let milliseconds: Int64 = 1000

  private var began: Int64 = .min
  private var count = 0

  mutating func takes(now: Int64) -> Bool {
    if began == .min || now - began >= Self.milliseconds {
      began = now
      count = 0
    }
    count += 1
    return count <= Self.most
  }
}
