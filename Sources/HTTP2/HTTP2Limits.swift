// What a peer of HTTP/2 may ask for. Each limit has its reason; what breaks one ends the connection with ENHANCE_YOUR_CALM.

import HTTP1

public struct ConnectionLimits: Sendable {
  /// What a client may send of one request before the proxy has passed it on, in bytes: the initial window of RFC 9113, 6.9.2.
  /// A client is on this machine, so that a larger one makes nothing faster. But a window that shuts shows the faults of
  /// clients: git before 2.44 with libcurl 7.88 (Debian 12) asks for more after the end of a streamed push and waits for ever,
  /// once in some twenty pushes of 3 MiB with 64 KiB here, not once in 150 with this.
  public static let clientWindow: UInt32 = 1 << 20
  /// The same of all its requests: four may stand still before they hold up the others.
  public static let clientConnectionWindow: UInt32 = 4 << 20
  /// What an origin may send of one response before the client has taken it: a long way off, 64 KiB a round trip are slow.
  public static let originWindow: UInt32 = 256 << 10
  /// An origin's connection carries the responses of many clients. Its window is given back as bytes come, so that a client
  /// that does not read stops nobody else; this is what may be under way.
  public static let originConnectionWindow: UInt32 = 4 << 20
  /// Content that waits for the peer's window on one stream, in bytes. Beyond it nothing more is taken.
  public static let waitingContent = 64 << 10
  /// Bytes of frames that are written at once.
  public static let output = 64 << 10
  /// Acknowledgements of PING and SETTINGS that may wait for a peer that does not read: those that one read of it asks for.
  static let acknowledgements = Int(idleFrames.burst)
  /// Frames that move nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA) beyond those that content explains.
  static let idleFrames: (burst: Int64, perSecond: Int64) = (1000, 100)

  public let head: HeadLimits
  /// `limits.streams`: what a client may have open at once.
  public let streams: Int

  /// `limits.stream_resets`: how many of these may end in ten seconds before they are answered, by the peer or for its faults.
  public let resets: Int
  /// Whether CONNECT with a protocol (RFC 8441) is taken of a client.
  public let extendedConnect: Bool

  /// `head`: cookie crumbs count one by one.
  public init(head: HeadLimits, streams: Int, resets: Int = 200, extendedConnect: Bool = false) {
    self.resets = resets
    self.extendedConnect = extendedConnect
    self.head = head
    self.streams = streams
  }
}

/// An allowance that is used up and comes back with time.
struct Allowance {
  private let burst: Int64
  private let perSecond: Int64
  private var left: Int64
  private var countedAt: Int64

  init(_ rate: (burst: Int64, perSecond: Int64), now: Int64) {
    burst = rate.burst
    perSecond = rate.perSecond
    left = rate.burst * 1000
    countedAt = now
  }

  /// Whether one more is allowed, at `now` in milliseconds.
  mutating func take(now: Int64) -> Bool {
    if now > countedAt {
      left = min(burst * 1000, left + (now - countedAt) * perSecond)
      countedAt = now
    }
    if left < 1000 { return false }
    left -= 1000
    return true
  }

  /// Gives one back, for something useful came with it.
  mutating func giveBack() { left = min(burst * 1000, left + 1000) }
}
