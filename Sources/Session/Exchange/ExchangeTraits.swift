// Flags of an exchange, grouped by what they describe.

/// What was agreed with the client about its connection (RFC 9112, 9).
struct ClientTerms: OptionSet {
  let rawValue: UInt8

  static let persists = ClientTerms(rawValue: 1 << 0)
  static let isHTTP10 = ClientTerms(rawValue: 1 << 1)
  /// The client asks to keep the connection and must be sent a confirmation: to some clients, silence is no promise.
  static let asksToKeep = ClientTerms(rawValue: 1 << 2)
  /// The proxy is stopping: this exchange is the last of its connection.
  static let isLast = ClientTerms(rawValue: 1 << 3)
  /// The expectation of the request was refused: only the same request may follow.
  static let awaitsRepeat = ClientTerms(rawValue: 1 << 4)
}

/// What the request is and wants.
struct RequestTraits: OptionSet {
  let rawValue: UInt8

  static let isHead = RequestTraits(rawValue: 1 << 0)
  static let isTunnel = RequestTraits(rawValue: 1 << 1)
  static let wantsUpgrade = RequestTraits(rawValue: 1 << 2)
  /// Of type application/grpc: it needs HTTP/2 on both hops, and its responses have statuses of their own.
  static let isGRPC = RequestTraits(rawValue: 1 << 3)
  /// The client holds back its body until 100, or until a response that makes the body unnecessary.
  static let expectsContinue = RequestTraits(rawValue: 1 << 4)
  /// Some of the request body has arrived.
  static let bodyBegun = RequestTraits(rawValue: 1 << 5)
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

/// How the response is delivered to the client.
struct ResponseTraits: OptionSet {
  let rawValue: UInt8

  /// Sending of its head to the client has begun.
  static let hasBegun = ResponseTraits(rawValue: 1 << 0)
  /// Content is sent without its chunked coding, for an HTTP/1.0 client.
  static let isUnchunked = ResponseTraits(rawValue: 1 << 1)
  static let hasNoCookies = ResponseTraits(rawValue: 1 << 2)
  /// It is a challenge that the proxy answers: nothing of it is passed on.
  static let isDropped = ResponseTraits(rawValue: 1 << 3)
  /// The rule has time-outs and is not enforced.
  static let reportsTimes = ResponseTraits(rawValue: 1 << 4)
}

/// Which directions of a tunnel have ended.
struct TunnelEnds: OptionSet {
  let rawValue: UInt8

  static let client = TunnelEnds(rawValue: 1 << 0)
  static let upstream = TunnelEnds(rawValue: 1 << 1)
}
