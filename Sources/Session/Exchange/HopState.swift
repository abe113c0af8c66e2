// What an exchange remembers about its client hop and its upstream hop after the bytes are gone.

struct HopState: Sendable {
  /// What 1xx responses may still cost.
  var informational = InformationalAllowance()
  /// Field names in Connection of the request and of the response: trailers of those names also end at this hop.
  var namedInRequest: [UInt8] = []
  var namedInResponse: [UInt8] = []
  /// Method and target of a request whose body is awaited; kept after 417, since only this request may follow.
  var expectation: [UInt8] = []
  /// The request has a Range. Known only if its rule checks responses.
  var asksForPart = false
  /// How much the request's streams were refused. See `Exchange.mostRefusals`.
  var refusals = 0
}

/// What an origin did to a stream before its response was whole.
public enum StreamAbortion: Sendable {
  /// It sent something that is no message (RFC 9113, 8.1.1).
  case malformed
  /// It reset the stream; `code`: `INTERNAL_ERROR`.
  case reset(code: String)
}

/// A stream was refused, and nothing of its request was done.
public enum StreamRefusal: Sendable {
  /// The request was sent.
  case opened
  /// It waited for its turn.
  case waiting

  var weight: Int { self == .opened ? 8 : 1 }
}
