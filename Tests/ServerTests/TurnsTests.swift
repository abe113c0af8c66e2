// Whose turn comes again without an event.

import Testing

@testable import Server

@Suite struct TurnsTests {
  @Test func whoReadsAgainComesInTheNextTurnOnce() {
    var turns = Turns()
    #expect(!turns.isDueAtOnce && turns.takeAgain().isEmpty)
    turns.readAgain(3, 7)
    turns.readAgain(4, 1)
    #expect(turns.isDueAtOnce && !turns.hasResting)
    let turn = turns.takeAgain()
    #expect(turn.map(\.slot) == [3, 4] && turn.map(\.generation) == [7, 1])
    #expect(!turns.isDueAtOnce)
  }

  @Test func onlySoManyOfThoseThatRestComeInATurn() {
    var turns = Turns()
    for slot in 0..<(Turns.restingPerTurn + 3) { turns.rest(slot, 1) }
    #expect(turns.hasResting && !turns.isDueAtOnce, "they do not keep the loop awake by themselves")
    let first = (0..<turns.restingInTurn).map { _ in turns.takeResting().slot }
    #expect(first == Array(0..<Turns.restingPerTurn))
    #expect(turns.restingInTurn == 3)
    let rest = (0..<turns.restingInTurn).map { _ in turns.takeResting().slot }
    #expect(rest == [16, 17, 18] && !turns.hasResting)
  }
}
