// A connection that carries many exchanges at once, each on a stream: what the loop, the pool, the connectors and the
// pages know of it, whatever its protocol is.
//
//   MultiplexedClient ── the client's end: each stream is a conversation of its own
//   MultiplexedConnection ── opens streams (`CarriedStream`), is read, settled and timed by the loop
//   MultiplexedOrigins ── the origin's end: which connection gets the next stream
//   MultiplexedRounds ── those that have something to send at the end of a turn
//
// A protocol is a folder with a class of this kind and a class of streams, and has one case in `HTTPProtocol` and one
// in `begin` below.

import Bytes
import Policy
import Sharing
import Transport
import Upstream

enum MultiplexedPeer {
  case client(MultiplexedClient)
  /// The connection itself. It serves no exchange.
  case origin(Upstream)
}

/// The user whose requests share a connection to an origin, as far as rules distinguish users.
struct Keeper: Equatable {
  /// By the kernel; nil: any.
  var claimant: Claimant? = nil
  /// By `credentials`; nil: any, or none was named.
  var proxyUser: String? = nil
}

protocol MultiplexedConnection: AnyObject {
  var wire: HTTPProtocol { get }
  var peer: MultiplexedPeer { get }
  /// Whose requests an origin's connection carries.
  var keeper: Keeper { get set }

  // MARK: Streams

  var openStreams: Int { get }
  /// Whether no exchange has a stream of it or waits for one.
  var isUnused: Bool { get }
  /// Whether another stream may be opened, and begins at once.
  var hasFreePlace: Bool { get }
  /// Whether another stream may be opened, which may have to wait for one to end.
  var mayOpen: Bool { get }
  /// Opens a stream to an origin for the occupant of `slot`.
  func openStream(servedBy slot: Int) -> any CarriedStream
  /// Whether the upstream is one of its streams.
  func carries(_ upstream: Upstream?) -> Bool

  // MARK: What the peer accepts

  /// Whether the peer has said what it accepts.
  var hasSettings: Bool { get }
  /// Whether a stream may become a tunnel for a WebSocket (RFC 8441).
  var takesTunnels: Bool { get }
  /// A connector waits for the settings.
  func joinSettlers()
  func leaveSettlers()

  // MARK: What happens

  func ready(_ readiness: Readiness)
  /// Reads what has arrived.
  func read()
  func timerFired()
  /// Reports what happened to streams, sends what is ready, and registers what to wait for.
  func settle()
  /// When a byte last moved, in milliseconds of the loop's clock.
  var lastProgress: Int64 { get }
  /// Whether the peer has been asked for a sign of life and has not answered. No new exchange begins on the connection.
  var isDoubted: Bool { get }

  // MARK: Ends

  var isClosed: Bool { get }
  /// Lets what is in progress end, and accepts nothing more.
  func retire()
  /// Ends it and everything in progress.
  func abandon()
}

extension MultiplexedConnection {
  var isClient: Bool { if case .client = peer { true } else { false } }

  /// The proxy is stopping.
  func drain() {
    if case .origin = peer, isUnused { abandon() } else { retire() }
  }

  /// Whether it counts at this place, where another connection is waiting, and has no open stream.
  func isIdle(at place: ConnectionQuota.Place) -> Bool {
    guard case .origin(let upstream) = peer else { return false }
    return isUnused && upstream.holdsPlace && upstream.destination.place == place
  }
}

extension HTTPProtocol {
  /// Makes the connection that speaks this protocol to `peer` and registers it in the slot of its stream. nil: memory
  /// is short. `limits`: those of the policy that applies to it. `takesTunnels`: whether a client may open a WebSocket
  /// on a stream.
  func begin(
    _ stream: ByteStream, slot: Int, with peer: MultiplexedPeer, interest: Interest?, limits: Limits,
    takesTunnels: Bool = false, _ worker: Worker
  ) -> (any MultiplexedConnection)? {
    let made: (any MultiplexedConnection)? =
      switch self {
      case .http2:
        HTTP2Endpoint.begin(
          stream, slot: slot, with: peer, interest: interest, limits: limits, takesTunnels: takesTunnels, worker)
      case .http11: nil
      }
    if let made { worker.reoccupy(slot, .multiplexed(made)) }
    return made
  }
}
