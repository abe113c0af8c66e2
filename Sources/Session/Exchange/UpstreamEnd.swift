// How an upstream can end, seen by the exchange that has it.

public enum UpstreamEnd: Equatable, Sendable {
  /// It closed its sending direction.
  case closed
  /// Its connection broke.
  case broken
  /// It broke the connection by a TLS alert.
  case alert(String)
  /// This machine can no longer use its connection, for this reason.
  case lost(String)
  /// It reports that it has not processed the request (RFC 9113, 8.7). `wasSent`: and not only waited for its turn.
  case refused(wasSent: Bool)
  /// It sent something that is no message (RFC 9113, 8.1.1).
  case malformed
  /// It reset the stream; `code`: `INTERNAL_ERROR`.
  case reset(code: String)

  /// What a refusal counts for; nil: it is none. See `UpstreamSide.mostRefusals`.
  var weightOfRefusal: Int? {
    if case .refused(let wasSent) = self { wasSent ? 8 : 1 } else { nil }
  }
}
