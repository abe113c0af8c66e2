// What a session asks of the server: every call returns one of these. Tests: SessionTests.

/// What the server has to do next.
public enum Action: Equatable, Sendable {
  /// Read more bytes from the side that the event came from.
  case read
  /// Leave this side's remaining bytes in place for now.
  case hold
  /// Send the next `count` bytes of this side's input to the other side unchanged, then continue with what follows.
  case forward(count: Int)
  /// Find an upstream for the host in `Workspace.decisions`, which stays there for this turn, and the port in
  /// `Exchange.upstream`; then call `upstreamOpened` or `upstreamFailed`. Something else may answer in its place
  /// (`answeredWithoutUpstream`). If `awaitsOperator`, an operator comes first (`operatorAsked` and what follows it).
  case connect
  /// The connection was stale: close it and open a new one; then continue as for `connect`.
  case reconnect
  /// Prepare TLS with the client in the role of the host in `interior`; then call `interiorOpened` or `upstreamFailed`.
  case intercept
  /// Check `presentedCertificates` against the ruling's `security`; then call `tunnelJudged`.
  case judge
  /// From here on both sides are plain bytes: move them and call `clientForwarded` and `upstreamForwarded`.
  case tunnel
  /// Shut down the other side's sending direction once everything has been sent to it.
  case closeOtherWrite
  /// The exchange is over: send what is pending, write the log line, treat the connections as `Ending` says, call
  /// `exchangeEnded`.
  case end(Ending)
  /// Close the client's connection; no exchange is open.
  case close
}

/// What happens to the connections when an exchange is over.
public struct Ending: Equatable, Sendable {
  public enum ClientFate: Sendable {
    /// The next request may follow.
    case keep
    /// Send everything and close: the client has sent all it had to send.
    case close
    /// Send everything, shut down, and keep reading for a while, so that no reset destroys what was sent.
    case linger
    /// Send what is pending and close: the framing of the response shows that it is incomplete.
    case cut
    /// Abort, so that the client cannot mistake what it received for the whole.
    case abort
    /// Send everything, then speak TLS with the client as the server that it asked for. Requests follow; `interior`
    /// names their host.
    case intercept
  }

  public let client: ClientFate
  public let keepsUpstream: Bool

  public init(client: ClientFate, keepsUpstream: Bool) {
    self.client = client
    self.keepsUpstream = keepsUpstream
  }
}

/// How much of its input a call consumed.
public struct Step: Equatable, Sendable {
  public let consumed: Int
  public let action: Action
}
