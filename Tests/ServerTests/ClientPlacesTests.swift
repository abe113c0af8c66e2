// Which connections go first, who rests between turns, and who gets a place at a host that is counted.

import Synchronization
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

@Suite struct ConnectionQuotaTests {
  private static let place = ConnectionQuota.Place(host: Array("a.test".utf8), port: 80)

  /// A quota, and who was granted a place, in order.
  private final class Granted: Sendable {
    let log = Locked<[Int]>([])
    var all: [Int] { log.withLock { $0 } }
  }

  private func quota(limit: Int, share: Double = 0.25) -> (ConnectionQuota, Granted) {
    let granted = Granted()
    return (
      ConnectionQuota(limit: limit, share: share) { waiter, _ in granted.log.withLock { $0.append(waiter.slot) } },
      granted
    )
  }

  private func waiter(_ slot: Int, _ user: UInt32, worker: Int = 0) -> ConnectionQuota.Waiter {
    ConnectionQuota.Waiter(worker: worker, slot: slot, generation: 1, identity: .user(user))
  }

  @Test func whoHoldsAllYieldsToWhoHoldsNothing() {
    let (quota, granted) = quota(limit: 4)
    for slot in 0..<4 { #expect(quota.enter(Self.place, waiter(slot, 1)) == .granted) }
    #expect(quota.enter(Self.place, waiter(4, 1)) == .queued(yields: nil), "its own do not make way")
    #expect(!quota.mustYield(Self.place, .user(1)))
    #expect(quota.enter(Self.place, waiter(5, 2)) == .queued(yields: .user(1)))
    #expect(quota.mustYield(Self.place, .user(1)) && !quota.mustYield(Self.place, .user(2)))
    quota.leave(Self.place, of: .user(1))
    #expect(granted.all == [5], "before the one that came first, which has more")
    #expect(!quota.mustYield(Self.place, .user(1)))
    #expect(quota.enter(Self.place, waiter(6, 2)) == .queued(yields: nil), "it has its share")
    quota.leave(Self.place, of: .user(1))
    quota.leave(Self.place, of: .user(2))
    #expect(granted.all == [5, 6, 4])
  }

  @Test func aKeptConnectionIsNobodys() {
    let (quota, granted) = quota(limit: 2)
    for slot in 0..<2 { #expect(quota.enter(Self.place, waiter(slot, 1)) == .granted) }
    quota.rest(Self.place, of: .user(1))
    #expect(quota.enter(Self.place, waiter(2, 2)) == .queued(yields: nil), "one that is kept makes way")
    quota.leave(Self.place, of: nil)
    #expect(granted.all == [2])
    quota.rest(Self.place, of: .user(2))
    quota.resume(Self.place, for: .user(1))
    #expect(quota.enter(Self.place, waiter(3, 2)) == .queued(yields: .user(1)))
  }

  @Test func aWaiterThatLeavesIsPassedOver() {
    let (quota, granted) = quota(limit: 1)
    #expect(quota.enter(Self.place, waiter(0, 1)) == .granted)
    for slot in 1..<4 { _ = quota.enter(Self.place, waiter(slot, 1, worker: slot % 2)) }
    quota.abandon(Self.place, waiter(1, 1, worker: 1))
    #expect(quota.takeFirst(Self.place, of: 1) == nil, "the next is another loop's")
    quota.leave(Self.place, of: .user(1))
    #expect(granted.all == [2])
    #expect(quota.takeFirst(Self.place, of: 1)?.slot == 3)
    #expect(!quota.hasWaiters(Self.place))
  }

  @Test func aHigherLimitLetsThemIn() {
    let (quota, granted) = quota(limit: 1)
    for slot in 0..<4 { _ = quota.enter(Self.place, waiter(slot, 1)) }
    quota.setLimit(3, share: 0.25)
    #expect(granted.all == [1, 2])
    quota.setLimit(0, share: 0.25)
    #expect(granted.all == [1, 2, 3])
  }
}
