// How an upstream ended a stream without a response that is whole.

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
