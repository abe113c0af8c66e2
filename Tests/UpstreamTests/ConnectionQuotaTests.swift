// Who gets a place at a host whose connections are counted, and who gives one up.

import Sharing
import Testing

@testable import Upstream

@Suite struct ConnectionQuotaTests {
  private static let place = ConnectionQuota.Place(host: Array("a.test".utf8), port: 80)

  private func quota(limit: Int) -> ConnectionQuota { ConnectionQuota(limit: limit, share: 0.25) }

  private func waiter(_ slot: Int, _ user: UInt32, worker: Int = 0) -> ConnectionQuota.Waiter {
    ConnectionQuota.Waiter(worker: worker, slot: slot, generation: 1, identity: .user(user))
  }

  @Test func whoHoldsAllYieldsToWhoHoldsNothing() {
    var quota = quota(limit: 4)
    var granted: [Int] = []
    for slot in 0..<4 { #expect(quota.enter(Self.place, waiter(slot, 1)) == .granted) }
    #expect(quota.enter(Self.place, waiter(4, 1)) == .queued(yields: nil), "its own do not make way")
    #expect(!quota.mustYield(Self.place, .user(1)))
    #expect(quota.enter(Self.place, waiter(5, 2)) == .queued(yields: .user(1)))
    #expect(quota.mustYield(Self.place, .user(1)) && !quota.mustYield(Self.place, .user(2)))
    if let next = quota.leave(Self.place, of: .user(1)) { granted.append(next.waiter.slot) }
    #expect(granted == [5], "before the one that came first, which has more")
    #expect(!quota.mustYield(Self.place, .user(1)))
    #expect(quota.enter(Self.place, waiter(6, 2)) == .queued(yields: nil), "it has its share")
    if let next = quota.leave(Self.place, of: .user(1)) { granted.append(next.waiter.slot) }
    if let next = quota.leave(Self.place, of: .user(2)) { granted.append(next.waiter.slot) }
    #expect(granted == [5, 6, 4])
  }

  @Test func aKeptConnectionIsNobodys() {
    var quota = quota(limit: 2)
    var granted: [Int] = []
    for slot in 0..<2 { #expect(quota.enter(Self.place, waiter(slot, 1)) == .granted) }
    quota.rest(Self.place, of: .user(1))
    #expect(quota.enter(Self.place, waiter(2, 2)) == .queued(yields: nil), "one that is kept makes way")
    if let next = quota.leave(Self.place, of: nil) { granted.append(next.waiter.slot) }
    #expect(granted == [2])
    quota.rest(Self.place, of: .user(2))
    quota.resume(Self.place, for: .user(1))
    #expect(quota.enter(Self.place, waiter(3, 2)) == .queued(yields: .user(1)))
  }

  @Test func aWaiterThatLeavesIsPassedOver() {
    var quota = quota(limit: 1)
    var granted: [Int] = []
    #expect(quota.enter(Self.place, waiter(0, 1)) == .granted)
    for slot in 1..<4 { _ = quota.enter(Self.place, waiter(slot, 1, worker: slot % 2)) }
    quota.abandon(Self.place, waiter(1, 1, worker: 1))
    #expect(quota.takeFirst(Self.place, of: 1) == nil, "the next is another loop's")
    if let next = quota.leave(Self.place, of: .user(1)) { granted.append(next.waiter.slot) }
    #expect(granted == [2])
    #expect(quota.takeFirst(Self.place, of: 1)?.slot == 3)
    #expect(!quota.hasWaiters(Self.place))
  }

  @Test func aHigherLimitLetsThemIn() {
    var quota = quota(limit: 1)
    var granted: [Int] = []
    for slot in 0..<4 { _ = quota.enter(Self.place, waiter(slot, 1)) }
    granted += quota.setLimit(3, share: 0.25).map(\.waiter.slot)
    #expect(granted == [1, 2])
    granted += quota.setLimit(0, share: 0.25).map(\.waiter.slot)
    #expect(granted == [1, 2, 3])
  }
}
