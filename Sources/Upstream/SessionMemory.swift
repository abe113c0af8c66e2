// TLS sessions that may be resumed. On resumption the server's chain is not verified again, so its verdict is kept with
// the session. The verdict is valid for the key of the session, which includes the policy, and for no longer than
// `longestReliance`. Tests: SessionMemoryTests.

/// What a server supplied for resuming a session.
public protocol Resumable {
  /// When its chain was verified, in milliseconds of the loop's clock.
  var verifiedAt: Int64 { get }
  /// A TLS 1.3 ticket is for one use (RFC 8446, C.4).
  var isForOneUse: Bool { get }
}

/// How long a verdict on a chain is valid without another check, in milliseconds: an hour. So an expired or replaced
/// certificate may be noticed late.
public let longestReliance: Int64 = 3_600_000

public struct SessionMemory<Key: Hashable, Session: Resumable> {
  /// Most hosts with kept sessions: those of a busy machine, at some 2 KiB each.
  static var mostHosts: Int { 1024 }
  /// Sessions for one host: TLS 1.3 servers issue two tickets at a time, and each is for one connection.
  static var mostPerHost: Int { 4 }

  private var entries: [Key: [Session]] = [:]
  /// Oldest first.
  private var order: [Key] = []

  public init() {}

  public mutating func insert(_ session: Session, for key: Key) {
    if entries[key] == nil {
      if order.count == Self.mostHosts { entries[order.removeFirst()] = nil }
      order.append(key)
      entries[key] = []
    }
    entries[key]?.append(session)
    if let count = entries[key]?.count, count > Self.mostPerHost { entries[key]?.removeFirst() }
  }

  /// The session to resume, the newest first. A session for one use is returned once.
  public mutating func take(for key: Key, now: Int64) -> Session? {
    guard let session = entries[key]?.last else { return nil }
    if now - session.verifiedAt >= longestReliance {
      // All earlier ones are at least as old.
      entries[key] = []
      return nil
    }
    if session.isForOneUse { entries[key]?.removeLast() }
    return session
  }

  public var count: Int { entries.values.reduce(0) { $0 + $1.count } }

  /// After a failed handshake: a kept session may be the reason.
  public mutating func forget(_ key: Key) { if entries[key] != nil { entries[key] = [] } }

  public mutating func removeAll(where isGone: (Key) -> Bool) {
    let gone = Set(entries.keys.filter(isGone))
    if gone.isEmpty { return }
    for key in gone { entries[key] = nil }
    order.removeAll { gone.contains($0) }
  }
}
