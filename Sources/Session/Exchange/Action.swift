// What a session asks of the server: the words in which every call of it answers. Tests: SessionTests.

/// What the server has to do next.
public enum Action: Equatable, Sendable {
  /// Take more bytes from the side that the event came from.
  case read
  /// Leave the rest of this side's bytes where they are for now.
  case hold
  /// Send the next `count` bytes of this side's input to the other side as they are, and go on with what follows.
  case forward(count: Int)
  /// Find an upstream for the host in `Workspace.decisions` and `Exchange.port`; answer with `upstreamOpened` or `failed`.
  case connect
  /// The connection was stale: close it and open a new one; answer as to `connect`.
  case reconnect
  /// Make ready to speak TLS with the client as the host in `interior`; answer with `interiorOpened` or `upstreamFailed`.
  case intercept
  /// Hold `presentedCertificates` against `security`; answer with `tunnelJudged`.
  case judge
  /// From here both sides are bytes: move them, and say `tunnelMoved`.
  case tunnel
  /// Shut the other side's sending direction down once everything has been sent to it.
  case closeOtherWrite
  /// The exchange is over: send what there is, write the log line, do with the connections as it says, call `exchangeEnded`.
  case end(Ending)
  /// Close the client's connection; no exchange is open.
  case close
}

/// What becomes of the connections when an exchange is over.
public struct Ending: Equatable, Sendable {
  public enum ClientFate: Sendable {
    /// The next request may follow.
    case keep
    /// Send everything and close: the client has said all it had to say.
    case close
    /// Send everything, shut down, and read on for a while, so that no reset destroys what was said.
    case linger
    /// Send what there is and close: the framing of the response shows that it is not the whole.
    case cut
    /// Break off, so that the client cannot take what it got for the whole.
    case abort
    /// Send everything and speak TLS with the client as the server that it asked for; requests follow, `interior` says where.
    case intercept
  }

  public let client: ClientFate
  public let keepsUpstream: Bool

  public init(client: ClientFate, keepsUpstream: Bool) {
    self.client = client
    self.keepsUpstream = keepsUpstream
  }
}

/// How far a call came with its input.
public struct Step: Equatable, Sendable {
  public let consumed: Int
  public let action: Action
}
