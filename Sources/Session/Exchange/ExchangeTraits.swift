// What is so or not of an exchange, by what it is said of.

/// What was agreed with the client about its connection (RFC 9112, 9).
struct ClientTerms: OptionSet {
  let rawValue: UInt8

  static let persists = ClientTerms(rawValue: 1 << 0)
  static let isHTTP10 = ClientTerms(rawValue: 1 << 1)
  /// It says that it wants to keep the connection, and is to hear it: to some, silence is no promise.
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
  /// Of type application/grpc: it needs HTTP/2 all the way, and answers with statuses of its own.
  static let isGRPC = RequestTraits(rawValue: 1 << 3)
  /// The client waits with its body for 100, or for an answer that spares it the body.
  static let expectsContinue = RequestTraits(rawValue: 1 << 4)
  /// Something of the body of the request has come.
  static let bodyBegun = RequestTraits(rawValue: 1 << 5)
}

/// How the request leaves.
struct WayTraits: OptionSet {
  let rawValue: UInt8

  /// The upstream is spoken to under TLS.
  static let isSecure = WayTraits(rawValue: 1 << 0)
  /// The tunnel's upstream is verified before the client hears of it.
  static let isVerified = WayTraits(rawValue: 1 << 1)
  /// An http:// request leaves as https.
  static let isUpgraded = WayTraits(rawValue: 1 << 2)
  /// The request leaves for the target of its rule.
  static let isMapped = WayTraits(rawValue: 1 << 3)
}

/// What goes for the connection to the upstream.
struct CarrierTraits: OptionSet {
  let rawValue: UInt8

  static let persists = CarrierTraits(rawValue: 1 << 0)
  static let isReused = CarrierTraits(rawValue: 1 << 1)
  /// The request may be sent a second time if a reused connection turns out dead.
  static let mayRetry = CarrierTraits(rawValue: 1 << 2)
  /// The credentials of the request are those of the connection that it leaves by.
  static let isBound = CarrierTraits(rawValue: 1 << 3)
  /// The body rests until the origin bids the proxy to go on, or has had its time.
  static let awaitsContinue = CarrierTraits(rawValue: 1 << 4)
  /// What is left of the request body is read and dropped, for the upstream takes no more.
  static let dropsRequest = CarrierTraits(rawValue: 1 << 5)
}

/// How the response is told to the client.
struct ResponseTraits: OptionSet {
  let rawValue: UInt8

  /// Its head has begun to leave for the client.
  static let hasBegun = ResponseTraits(rawValue: 1 << 0)
  /// Content leaves without its chunked coding, for a client of HTTP/1.0.
  static let isUnchunked = ResponseTraits(rawValue: 1 << 1)
  static let hasNoCookies = ResponseTraits(rawValue: 1 << 2)
  /// It is a challenge that has been understood: nothing of it passes.
  static let isDropped = ResponseTraits(rawValue: 1 << 3)
  /// The rule has time-outs, and is not enforced.
  static let reportsTimes = ResponseTraits(rawValue: 1 << 4)
}

/// Which directions of a tunnel have ended.
struct TunnelEnds: OptionSet {
  let rawValue: UInt8

  static let client = TunnelEnds(rawValue: 1 << 0)
  static let upstream = TunnelEnds(rawValue: 1 << 1)
}
