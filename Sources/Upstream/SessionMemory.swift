// TLS sessions that may be resumed. On resumption nobody is asked for a verdict on the server's chain, so that the verdict
// travels with the session: it holds under the key that it was kept by, which names the policy, and for no longer than
// `longestMilliseconds`. Tests: SessionMemoryTests.

/// What a server gave to resume a session by.
public protocol Resumable {
  /// When the chain behind it was judged, in milliseconds of the loop's clock.
  var verifiedAt: Int64 { get }
  /// A ticket of TLS 1.3 is for one use (RFC 8446, C.4).
  var isForOneUse: Bool { get }
}

/// How long a verdict on a chain is relied on without another look, in milliseconds: an hour, by which a certificate that
/// expires or is replaced may be noticed late.
public let longestReliance: Int64 = 3_600_000

public struct SessionMemory<Key: Hashable, Session: Resumable> {
  /// Hosts for which sessions are kept: those of a busy machine, at some 2 KiB each.
  static var mostHosts: Int { 1024 }
  /// Sessions for one host: TLS 1.3 servers hand out two tickets at a time, and each is for one connection.
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

  /// The session to resume, the newest first. One that is for one use is handed out once.
  public mutating func take(for key: Key, now: Int64) -> Session? {
    guard let session = entries[key]?.last else { return nil }
    if now - session.verifiedAt >= longestReliance {
      // All before it are as old at least.
      entries[key] = []
      return nil
    }
    if session.isForOneUse { entries[key]?.removeLast() }
    return session
  }

  public var count: Int { entries.values.reduce(0) { $0 + $1.count } }

  /// After a handshake that failed: whatever was kept may be the reason.
  public mutating func forget(_ key: Key) { if entries[key] != nil { entries[key] = [] } }

  public mutating func removeAll(where isGone: (Key) -> Bool) {
    let gone = Set(entries.keys.filter(isGone))
    if gone.isEmpty { return }
    for key in gone { entries[key] = nil }
    order.removeAll { gone.contains($0) }
  }
}
