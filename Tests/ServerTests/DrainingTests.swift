// Whether a loop takes new work, over the whole of a stop.

import Testing

@testable import Server

@Suite struct DrainingTests {
  @Test func aLoopServesUntilItIsTold() {
    var draining = Draining()
    #expect(!draining.isDraining && !draining.isRefusing && !draining.isOver && draining.due == nil)
    draining.end(now: .max - 1, clients: 3)
    #expect(draining.refusalIsOver(now: .max) == false)
    #expect(!draining.isOverdue(now: .max) && !draining.isOver)
  }

  @Test func aStopEndsWithTheLastClientOrItsTime() {
    for (now, clients, isOver) in [(5000, 1, false), (5000, 0, true), (9999, 1, false), (10_000, 1, true)] {
      var draining = Draining()
      #expect(draining.begin(deadline: 10_000, now: 100) == true)
      draining.end(now: Int64(now), clients: clients)
      #expect(draining.isOver == isOver && draining.isDraining, "\(now) \(clients)")
    }
  }

  @Test func aSecondStopOnlyMakesItShorter() {
    var draining = Draining()
    #expect(draining.begin(deadline: 10_000, now: 0) == true)
    #expect(draining.begin(deadline: 20_000, now: 10) == false)
    #expect(!draining.isOverdue(now: 9999))
    #expect(draining.begin(deadline: 50, now: 20) == false)
    #expect(draining.isOverdue(now: 50) && !draining.isOverdue(now: 49))
  }

  @Test func freshConnectionsHaveASecondForTheirFirstRequest() {
    var draining = Draining()
    #expect(draining.firstRequestsAreOver(now: .max - 1) == false)
    #expect(draining.awaitsFirstRequests)
    _ = draining.begin(deadline: 10_000, now: 100)
    #expect(draining.due == 100 + Draining.firstRequestMilliseconds)
    #expect(draining.firstRequestsAreOver(now: 1099) == false)
    #expect(draining.awaitsFirstRequests)
    #expect(draining.firstRequestsAreOver(now: 1100) == true)
    #expect(!draining.awaitsFirstRequests)
    #expect(draining.firstRequestsAreOver(now: 1101) == false, "once")
    #expect(draining.due == 10_000)
  }

  @Test func aDrainedProxyRefusesAndRunsOn() {
    var draining = Draining()
    draining.refuse(deadline: 500)
    #expect(draining.isRefusing && !draining.isDraining && draining.due == 500)
    #expect(draining.refusalIsOver(now: 499) == false)
    #expect(draining.refusalIsOver(now: 500) == true)
    #expect(draining.refusalIsOver(now: 501) == false, "once")
    #expect(draining.due == nil && draining.isRefusing)
    #expect(draining.begin(deadline: 900, now: 600) == true)
    #expect(draining.isRefusing)
  }
}
