// What an HTTP/2 peer may ask for. Each limit has its reason. A peer that floods loses its
// connection, with ENHANCE_YOUR_CALM; windows and queues only make it wait.

import HTTP1

public struct ConnectionLimits: Sendable {
  /// What a client may send of one request before the proxy has passed it on, in bytes: the initial window of RFC 9113,
  /// 6.9.2. A client is on this machine, so a larger window makes nothing faster. But a window that closes exposes
  /// faults of clients: git before 2.44 with libcurl 7.88 (Debian 12) asks for more after the end of a streamed push
  /// and waits for ever. That happens once in some twenty pushes of 3 MiB with 64 KiB here, and not once in 150 with
  /// this size.
  public static let clientWindow: UInt32 = 1 << 20
  /// The same for all its requests together: four may stall before they block the others.
  public static let clientConnectionWindow: UInt32 = 4 << 20
  /// What an origin may send of one response before the client has read it. Over a long distance, 64 KiB per round trip
  /// are slow.
  public static let originWindow: UInt32 = 256 << 10
  /// An origin's connection carries the responses of many clients. Its window reopens as bytes arrive, so a client that
  /// does not read stops no other client. This is what may be in flight.
  public static let originConnectionWindow: UInt32 = 4 << 20
  /// Content that may wait for the peer's window on one stream, in bytes. `HTTP2Stream.room` is what is left of it: two
  /// TLS records that are read at once fit twice.
  public static let waitingContent = 68 << 10
  /// The same while no more than `fewStreams` are open: what one read(2) brings of TLS fits twice.
  public static let waitingContentOfFew = 136 << 10
  static let fewStreams = 4
  /// Requests that may wait on one connection because of the origin's stream limit. The next request opens another
  /// connection: that is faster than waiting for its turn after so many.
  static let waitingStreams = 128
  /// Bytes of frames written at once.
  public static let output = 64 << 10
  /// Acknowledgements of PING and SETTINGS that may wait for a peer that does not read: as many as one read from it can
  /// ask for.
  static let acknowledgements = Int(idleFrames.burst)
  /// How many times as large as is allowed, in fields or in bytes, a head may be and is refused as a request. Beyond
  /// that it is no mistake, and its connection ends before more of it is decoded.
  static let excess = 4
  /// How many clients' requests that are answered may go on at once; the oldest is reset for one more.
  static let mostLingering = 16
  /// Content in a frame of less than this explains no WINDOW_UPDATE, in bytes, unless nothing more waits: a peer that
  /// opens its windows by a few bytes at a time has its response cut into frames of mostly heads.
  static let leastContent = 64
  /// Content of ours, in bytes, that explains another pair of WINDOW_UPDATE: some receivers send them after each read,
  /// and read 512 bytes at once.
  static let updateBytes = 256
  /// Frames that move nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA) beyond those that content explains.
  static let idleFrames: (burst: Int64, perSecond: Int64) = (1000, 100)

  public let head: HeadLimits
  /// `limits.streams`: how many a client may have open at once.
  public let streams: Int

  /// `limits.stream_resets`: how many streams may end in ten seconds before they are answered, by the peer or for its
  /// faults.
  public let resets: Int
  /// Whether CONNECT with a protocol (RFC 8441) is accepted from a client.
  public let extendedConnect: Bool

  /// How long a client may go on sending a request that is answered, in milliseconds.
  public let linger: Int64

  /// `head`: each cookie crumb counts.
  public init(head: HeadLimits, streams: Int, resets: Int = 200, extendedConnect: Bool = false, linger: Int64) {
    self.linger = linger
    self.resets = resets
    self.extendedConnect = extendedConnect
    self.head = head
    self.streams = streams
  }
}

/// An allowance that is used up and refills over time.
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

  /// Whether one more is allowed, which uses it up. `now` is in milliseconds.
  mutating func take(now: Int64) -> Bool {
    if now > countedAt {
      left = min(burst * 1000, left + (now - countedAt) * perSecond)
      countedAt = now
    }
    if left < 1000 { return false }
    left -= 1000
    return true
  }

  /// Gives some back because something useful came with them.
  mutating func giveBack(_ count: Int = 1) { left = min(burst * 1000, left + 1000 * Int64(count)) }
}
