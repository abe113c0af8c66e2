// Which connections go first, and who rests between turns.

import Testing
import Transport

@testable import Server

@Suite struct IdlestClientsTests {
  private func candidate(_ slot: Int, quietSince: Int64) -> IdlestClients.Candidate {
    IdlestClients.Candidate(slot: slot, generation: 1, quietSince: quietSince)
  }

  @Test func theIdlestComeFirstAndOnlyWhileTheyAreStillIdle() {
    var idlest = IdlestClients()
    #expect(idlest.takeNext(of: .user(1)) { _ in true } == nil)
    idlest.remember((0..<100).map { candidate($0, quietSince: Int64(($0 * 37) % 100)) }, of: .user(1))
    #expect(idlest.takeNext(of: .user(2)) { _ in true } == nil, "it is another client's")
    let order = (0..<IdlestClients.most).compactMap { _ in idlest.takeNext(of: .user(1)) { $0.quietSince % 2 == 0 } }
    #expect(order.map(\.quietSince) == stride(from: 0, to: Int64(IdlestClients.most), by: 2).map { $0 })
    #expect(idlest.takeNext(of: .user(1)) { _ in true } == nil, "all have to be looked at again")
  }

  @Test func whoRestsComesBackInOrder() {
    var resting = RestingClients()
    var taken: [Int] = []
    for number in 0..<5000 {
      resting.append(number, 1)
      if number % 4 == 0 { taken.append(resting.takeFirst().slot) }
    }
    while !resting.isEmpty { taken.append(resting.takeFirst().slot) }
    #expect(taken == Array(0..<5000) && resting.count == 0)
  }
}
