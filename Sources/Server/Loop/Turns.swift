// Clients and connections whose turn comes again although no event announces it, so that each turn of the loop spends
// only so much on one of them. Tests: TurnsTests.

struct Turns {
  /// Clients served again in one turn after they asked for more than their part of the turn before.
  static let restingPerTurn = 16

  /// A slot and its generation: the occupant may be gone by the time that its turn comes.
  typealias Place = (slot: Int, generation: UInt32)

  /// Those that have bytes to read which no event will announce.
  private var again: [Place] = []
  /// Clients that have used up their part of a turn and have sent more requests, in order.
  private var resting = RestingClients()
  /// Requests of this turn that came right after another on the same connection.
  var pipelined = 0

  /// Whether the next turn has something to do at once.
  var isDueAtOnce: Bool { !again.isEmpty }
  var hasResting: Bool { !resting.isEmpty }

  /// Comes back to it in the next turn, so that others get theirs.
  mutating func readAgain(_ slot: Int, _ generation: UInt32) { again.append((slot, generation)) }

  /// Comes back to a client that has sent more requests than fit one turn.
  mutating func rest(_ slot: Int, _ generation: UInt32) { resting.append(slot, generation) }

  /// Those that have more to read. Each may ask for the next turn again.
  mutating func takeAgain() -> [Place] {
    var turn: [Place] = []
    swap(&turn, &again)
    return turn
  }

  /// How many resting clients are served in this turn.
  var restingInTurn: Int { min(resting.count, Self.restingPerTurn) }

  mutating func takeResting() -> Place { resting.takeFirst() }
}

/// Clients with more requests in hand than fit one turn of the loop, first in, first out.
struct RestingClients {
  private var entries: [(slot: Int, generation: UInt32)] = []
  private var first = 0

  var isEmpty: Bool { first == entries.count }
  var count: Int { entries.count - first }

  mutating func append(_ slot: Int, _ generation: UInt32) { entries.append((slot, generation)) }

  mutating func takeFirst() -> (slot: Int, generation: UInt32) {
    let entry = entries[first]
    first += 1
    if first == entries.count {
      entries.removeAll(keepingCapacity: true)
      first = 0
    } else if first >= 1024, first * 2 > entries.count {
      entries.removeFirst(first)
      first = 0
    }
    return entry
  }
}
