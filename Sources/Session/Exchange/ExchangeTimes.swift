// The moments that the deadlines of an exchange count from, in milliseconds of the loop's clock; `.max`: never.

struct ExchangeTimes: Sendable {
  /// When a byte last moved, or the exchange entered its phase.
  var lastProgress: Int64
  /// When the whole exchange must be over.
  var exchangeDeadline = Int64.max
  /// When a client that has closed its sending direction counts as gone.
  private(set) var clientGoneAt = Int64.max
  /// Until when an operator may answer.
  var operatorDeadline = Int64.max

  /// How long a client that has closed its sending direction waits for more of a response, in milliseconds: long enough
  /// for most origins to begin, short enough not to keep one working for no client.
  private static let halfClosedMilliseconds: Int64 = 5_000

  init(lastProgress: Int64) { self.lastProgress = lastProgress }

  /// The client has closed its sending direction.
  mutating func clientEnded(now: Int64) { clientGoneAt = now + Self.halfClosedMilliseconds }

  /// Something has moved towards the client.
  mutating func progressed(now: Int64) {
    lastProgress = now
    if clientGoneAt != .max { clientEnded(now: now) }
  }

  /// The rule's time for the exchange does not run while a person decides.
  mutating func operatorAllowed(now: Int64) {
    if exchangeDeadline != .max { exchangeDeadline += now - lastProgress }
    progressed(now: now)
  }

  /// A tunnel is open. A rule's time for the whole exchange ends here, and a client that has sent everything still
  /// receives the rest of the tunnel.
  mutating func enterTunnel() {
    exchangeDeadline = .max
    clientGoneAt = .max
  }
}
