// TLS sessions that may be resumed, of one loop: by host, port and security policy, as connections are pooled.
//
// On resumption OpenSSL asks for no verdict, so that the verdict travels with the session: it holds for the policy under
// which the chain was judged and no other, and for no longer than `longestMilliseconds` after that.

import Transport

struct TLSSessionCache {
  /// Hosts for which sessions are kept: those of a busy machine, at some 2 KiB each.
  static let mostHosts = 1024
  /// Sessions for one host: TLS 1.3 servers hand out two tickets at a time, and each is for one connection.
  static let mostPerHost = 4
  /// How long after the chain was judged a session is resumed, in milliseconds: an hour, by which a certificate that
  /// expires or is replaced may be noticed late.
  static let longestMilliseconds: Int64 = 3_600_000

  private struct Key: Hashable {
    let host: [UInt8]
    let port: UInt16
    let security: ObjectIdentifier
  }

  private struct Entry {
    /// Held so that its identity stays its own.
    let security: OriginSecurity
    var sessions: [TLSSession]
  }

  private var entries: [Key: Entry] = [:]
  /// Oldest first.
  private var order: [Key] = []

  mutating func insert(_ session: TLSSession, for destination: Destination) {
    guard let (key, security) = Self.key(destination) else { return }
    if entries[key] == nil {
      if order.count == Self.mostHosts { entries[order.removeFirst()] = nil }
      order.append(key)
      entries[key] = Entry(security: security, sessions: [])
    }
    entries[key]?.sessions.append(session)
    if let count = entries[key]?.sessions.count, count > Self.mostPerHost { entries[key]?.sessions.removeFirst() }
  }

  /// The session to resume, the newest first. One of TLS 1.3 is handed out once.
  mutating func take(for destination: Destination, now: Int64) -> TLSSession? {
    guard let (key, _) = Self.key(destination), let session = entries[key]?.sessions.last else { return nil }
    if now - session.verifiedAt >= Self.longestMilliseconds {
      // All before it are as old at least.
      entries[key]?.sessions = []
      return nil
    }
    if session.isForOneUse { entries[key]?.sessions.removeLast() }
    return session
  }

  /// After a handshake that failed: whatever was kept may be the reason.
  mutating func forget(_ destination: Destination) {
    if let (key, _) = Self.key(destination) { entries[key]?.sessions = [] }
  }

  mutating func removeAll(where isGone: (OriginSecurity) -> Bool) {
    let gone = Set(entries.filter { isGone($0.value.security) }.keys)
    if gone.isEmpty { return }
    for key in gone { entries[key] = nil }
    order.removeAll { gone.contains($0) }
  }

  private static func key(_ destination: Destination) -> (Key, OriginSecurity)? {
    destination.security.map {
      (Key(host: destination.host, port: destination.port, security: ObjectIdentifier($0)), $0)
    }
  }
}
