// How long a parent that does not answer is passed over.

import Testing

@testable import Upstream

@Suite struct RouteHealthTests {
  private let office = "office"
  private let home = "home"

  @Test func whatNeverFailedIsTried() {
    #expect(RouteHealth().deadUntil(office, now: 0) == nil)
  }

  @Test func eachFailureIsFollowedByTwiceThePauseUpToAMinute() {
    var health = RouteHealth()
    var now: Int64 = 10_000
    var pauses: [Int64] = []
    for _ in 0..<9 {
      health.failed(office, now: now)
      guard let until = health.deadUntil(office, now: now) else { return pauses.append(0) }
      pauses.append(until - now)
      #expect(health.deadUntil(office, now: until - 1) == until)
      #expect(health.deadUntil(office, now: until) == nil)
      now = until
    }
    #expect(pauses == [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000])
  }

  @Test func requestsThatWereUnderWayTogetherAreOneFailure() {
    var health = RouteHealth()
    for _ in 0..<100 { health.failed(office, now: 5) }
    #expect(health.deadUntil(office, now: 5) == 1005)
    health.failed(office, now: 1005)
    #expect(health.deadUntil(office, now: 1005) == 3005)
  }

  @Test func anAnswerForgetsAllFailures() {
    var health = RouteHealth()
    health.failed(office, now: 0)
    health.failed(office, now: 1000)
    health.succeeded(office, now: 1000)
    #expect(health.deadUntil(office, now: 1000) == nil)
    health.failed(office, now: 1000)
    #expect(health.deadUntil(office, now: 1000) == 2000)
  }

  @Test func oneParentSaysNothingOfAnother() {
    var health = RouteHealth()
    health.failed(office, now: 0)
    #expect(health.deadUntil(home, now: 0) == nil)
    health.succeeded(home, now: 0)
    #expect(health.deadUntil(office, now: 0) == 1000)
  }

  @Test func anotherNetworkForgetsThemAll() {
    var health = RouteHealth()
    for route in [office, home] { health.failed(route, now: 0) }
    health.forget()
    for route in [office, home] { #expect(health.deadUntil(route, now: 0) == nil) }
    health.failed(home, now: 0)
    #expect(health.deadUntil(home, now: 0) == 1000)
  }

  // MARK: Silence

  @Test func aParentThatAnswersNobodyIsDead() {
    var health = RouteHealth()
    health.answered(office, now: 99)
    health.answered(home, now: 150)
    health.wasSilent(office, since: 100, now: 10_100)
    #expect(health.deadUntil(office, now: 10_100) == 11_100)
  }

  @Test func aParentThatAnswersOthersIsNotHoweverManyDestinationsAreSilent() {
    var health = RouteHealth()
    for time in [100, 5000, 9000] as [Int64] {
      health.answered(office, now: time + 1)
      health.wasSilent(office, since: time, now: time + 10_000)
      #expect(health.deadUntil(office, now: time + 10_000) == nil)
    }
    health.succeeded(office, now: 20_000)
    health.wasSilent(office, since: 19_000, now: 29_000)
    #expect(health.deadUntil(office, now: 29_000) == nil)
  }
}
