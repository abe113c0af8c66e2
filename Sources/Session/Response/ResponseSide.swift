// The response of an exchange, as far as it has been read, and how the client gets it.

import HTTP1

struct ResponseSide: Sendable {
  var progress = MessageProgress.head
  var traits = ResponseTraits()
  /// What 1xx responses may still cost.
  var informational = InformationalAllowance()
  /// Field names in Connection: trailers of those names also end at this hop.
  var namedFields: [UInt8] = []
  /// See `Exchange.noteCache`; empty: no cache took part.
  var cacheStatus = ""

  /// Adapts it and the terms with the client to the framing of a response that is forwarded unchanged.
  mutating func prepare(_ framing: BodyFraming, for terms: inout ClientTerms) {
    switch framing {
    case .none, .length: break
    case .chunked:
      if terms.contains(.isHTTP10) {
        traits.insert(.isUnchunked)
        terms.remove(.persists)
      }
    case .untilClose: terms.remove(.persists)
    }
  }

  /// Whether a client sees that something is missing when the response is cut short here.
  var showsCut: Bool {
    guard traits.contains(.hasBegun) else { return false }
    return switch progress {
    case .length: true
    case .chunked, .trailers: !traits.contains(.isUnchunked)
    case .head, .untilClose, .done: false
    }
  }
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
