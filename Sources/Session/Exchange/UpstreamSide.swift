// The way of an exchange to its destination, and the connection that carries it.

import HTTP1

public struct UpstreamSide: Sendable {
  /// Port of the destination.
  public internal(set) var port: UInt16 = 0
  var way = WayTraits()
  var carrier = CarrierTraits()
  /// The parent proxy that the request was sent to, in absolute-form; nil: none.
  var parent: String? = nil
  /// The proxies before this one as Via of the request lists them, each followed by a comma. Kept if CONNECT may have
  /// to pass them to a parent, because nothing else reveals a loop of tunnels.
  public internal(set) var passedVia: [UInt8] = []
  /// The request as written for an origin.
  var written = WrittenHead()
  /// How much the request's streams were refused.
  var refusals = 0

  /// Longest body, in bytes, that is kept for a retry until the response begins.
  static let longestReplayedBody: UInt64 = 16 << 10
  /// Longest request, in bytes of HTTP/1.1, that is sent again after its origin refused the stream. A client rarely
  /// sends more before a refusal can arrive, and each upload that waits for its response may keep this much in memory.
  static let longestReplay = 32 << 10
  /// The most that refusals of one request may weigh in total (`weightOfRefusal`): four refusals of streams that were
  /// opened, or more of streams that were not. An origin that ends each connection after a number of requests may
  /// several times refuse a request that is only waiting for its turn. One that refuses all would otherwise be asked
  /// forever.
  static let mostRefusals = 32

  /// What the head of a request says about the connection that carries it.
  mutating func note(_ head: borrowing RequestHead, _ bytes: Span<UInt8>) {
    if head.knownMethod.isIdempotent {
      switch head.framing {
      case .none: carrier.insert(.mayRetry)
      case .length(let length) where length <= Self.longestReplayedBody: carrier.insert(.mayRetry)
      case .length, .chunked, .untilClose: break
      }
    }
    if let value = head.fields.first(.authorization), bytes.authenticatesConnection(value) {
      carrier.insert(.isBound)
      carrier.remove(.mayRetry)
    }
  }

  /// Whether the request is sent again if its connection turns out to be dead.
  var keepsReplay: Bool { carrier.isSuperset(of: [.isReused, .mayRetry]) }

  /// Whether it is sent again after this end of its connection, before a response began.
  func goesAgain(after end: UpstreamEnd, hasReplay: Bool) -> Bool {
    switch end {
    case .closed, .broken, .alert, .lost: keepsReplay
    case .refused: refusals + (end.weightOfRefusal ?? 0) <= Self.mostRefusals && hasReplay
    // The origin is there, and has seen the request.
    case .malformed, .reset: false
    }
  }
}

/// How the request is sent.
struct WayTraits: OptionSet {
  let rawValue: UInt8

  /// The upstream connection uses TLS.
  static let isSecure = WayTraits(rawValue: 1 << 0)
  /// The tunnel's upstream is verified before the client gets a response.
  static let isVerified = WayTraits(rawValue: 1 << 1)
  /// An http:// request is sent as https.
  static let isUpgraded = WayTraits(rawValue: 1 << 2)
  /// The request is sent to the target of its rule.
  static let isMapped = WayTraits(rawValue: 1 << 3)
}

/// The state of the upstream connection.
struct CarrierTraits: OptionSet {
  let rawValue: UInt8

  static let persists = CarrierTraits(rawValue: 1 << 0)
  static let isReused = CarrierTraits(rawValue: 1 << 1)
  /// The request may be sent a second time if a reused connection turns out to be dead.
  static let mayRetry = CarrierTraits(rawValue: 1 << 2)
  /// The credentials of the request are those of its upstream connection.
  static let isBound = CarrierTraits(rawValue: 1 << 3)
  /// The body waits until the origin asks for it, or the origin's time to do so is over.
  static let awaitsContinue = CarrierTraits(rawValue: 1 << 4)
  /// The rest of the request body is read and dropped, because the upstream accepts no more.
  static let dropsRequest = CarrierTraits(rawValue: 1 << 5)
}
