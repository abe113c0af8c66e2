// The connections with streams that something happened to in this turn of the loop. They are settled after everything
// else: what was written to streams is sent together, and what happened to streams reaches those that serve them.
//
// A class, because a connection that is settled marks others.

final class MultiplexedRounds {
  /// How many times within a turn one connection's effects on another are passed on: a request and its answer take two.
  private static let roundsPerTurn = 4

  @exclusivity(unchecked) private var unsettled: [any MultiplexedConnection] = []
  /// Those that have more to send in the next turn, alone or with what that brings.
  @exclusivity(unchecked) private var heldBack: [any MultiplexedConnection] = []
  /// Memory for a round of them, and for those that were held back in the last turn.
  @exclusivity(unchecked) private var settling: [any MultiplexedConnection] = []
  @exclusivity(unchecked) private var holding: [any MultiplexedConnection] = []
  /// Peers that broke a limit of their protocol.
  private var faults = RepeatedEvent()

  var isEmpty: Bool { unsettled.isEmpty && heldBack.isEmpty }

  /// Something happened to it. It is marked once a turn.
  func mark(_ connection: any MultiplexedConnection) { unsettled.append(connection) }
  func holdBack(_ connection: any MultiplexedConnection) { heldBack.append(connection) }

  /// Runs after the rest of the turn: sends what was written to streams, and reports what happened to them.
  func settle() {
    swap(&holding, &heldBack)
    for _ in 0..<Self.roundsPerTurn where !unsettled.isEmpty || !holding.isEmpty {
      swap(&settling, &unsettled)
      for connection in settling { connection.settle() }
      settling.removeAll(keepingCapacity: true)
      // What was held back goes with what this turn brought, and that may have come by the streams of the first round.
      unsettled += holding
      holding.removeAll(keepingCapacity: true)
    }
  }

  /// See `RepeatedEvent`.
  func faultHappened(now: Int64) -> Int? { faults.happened(now: now) }
}
