// Races of addresses: what is tried when, for every order in which attempts can end.

import Testing

@testable import Upstream

@Suite struct AddressRaceTests {
  private static let delay = AddressRace.attemptDelayMilliseconds

  @Test func theFirstAddressIsTriedAtOnceAndTheNextAfterAWhile() {
    var race = AddressRace(of: 2, now: 1000, within: 10_000)
    #expect(race.begin(now: 1000) == .attempt(0))
    #expect(race.begun(now: 1000) == .rest(until: 1000 + Self.delay))
    #expect(race.timePassed(now: 999 + Self.delay) == .rest(until: 1000 + Self.delay))
    #expect(race.timePassed(now: 1000 + Self.delay) == .attempt(1))
    #expect(race.begun(now: 1000 + Self.delay) == .rest(until: 11_000))
  }

  @Test func aFailureBeginsTheNextAtOnce() {
    var race = AddressRace(of: 3, now: 0, within: 10_000)
    _ = race.begin(now: 0)
    _ = race.begun(now: 0)
    #expect(race.failed(now: 7) == .attempt(1))
    #expect(race.begun(now: 7) == .rest(until: 7 + Self.delay))
    #expect(race.failed(now: 9) == .attempt(2))
    #expect(race.begun(now: 9) == .rest(until: 10_000))
    #expect(race.failed(now: 10) == .lost)
  }

  @Test func anAttemptThatCannotBeginCostsNoTime() {
    var race = AddressRace(of: 2, now: 0, within: 10_000)
    #expect(race.begin(now: 0) == .attempt(0))
    #expect(race.couldNotBegin(now: 0) == .attempt(1))
    #expect(race.couldNotBegin(now: 0) == .lost)
  }

  @Test func withoutAddressesItIsLost() {
    var race = AddressRace(of: 0, now: 0, within: 10_000)
    #expect(race.begin(now: 0) == .lost)
  }

  @Test func theTimeOfTheWholeEndsIt() {
    var race = AddressRace(of: 2, now: 0, within: 100)
    _ = race.begin(now: 0)
    #expect(race.begun(now: 0) == .rest(until: 100), "before the next would begin")
    #expect(race.timePassed(now: 100) == .timedOut)
    #expect(race.failed(now: 101) == .timedOut)
  }

  @Test func whatIsLostWithANetworkLeavesTheOthersTheirTime() {
    var race = AddressRace(of: 3, now: 0, within: 10_000)
    _ = race.begin(now: 0)
    _ = race.begun(now: 0)
    #expect(race.timePassed(now: Self.delay) == .attempt(1))
    #expect(race.begun(now: Self.delay) == .rest(until: 2 * Self.delay))
    #expect(race.lost(1, now: 300) == .rest(until: 2 * Self.delay))
    #expect(race.lost(1, now: 301) == .attempt(2), "none is under way any more")
    #expect(race.begun(now: 301) == .rest(until: 10_000))
    #expect(race.lost(1, now: 302) == .lost)
  }

  @Test func nothingThatHappensMeanwhilePutsTheNextOff() {
    var race = AddressRace(of: 2, now: 0, within: 10_000)
    _ = race.begin(now: 0)
    _ = race.begun(now: 0)
    for now in stride(from: Int64(10), to: Self.delay, by: 40) {
      #expect(race.lost(0, now: now) == .rest(until: Self.delay))
    }
    #expect(race.timePassed(now: Self.delay) == .attempt(1))
  }

  /// Four addresses, each of which cannot begin, fails, or says nothing, in every combination and with failures early and late:
  /// each address is asked once and in order, and the race ends as what became of them says.
  @Test func everyOrderOfAnswers() {
    enum Fate: CaseIterable { case cannotBegin, failsSoon, failsLate, silent }
    let within: Int64 = 5000
    for number in 0..<256 {
      let fates = (0..<4).map { Fate.allCases[number >> ($0 * 2) & 3] }
      var race = AddressRace(of: 4, now: 0, within: within)
      var now: Int64 = 0
      var failures: [Int64] = []
      var asked: [Int] = []
      var beginnings: [Int64] = []
      var action = race.begin(now: 0)
      var end: AddressRace.Action? = nil
      while end == nil {
        switch action {
        case .attempt(let address):
          asked.append(address)
          beginnings.append(now)
          switch fates[address] {
          case .cannotBegin: action = race.couldNotBegin(now: now)
          case .failsSoon, .failsLate:
            failures.append(now + (fates[address] == .failsSoon ? 30 : 400))
            action = race.begun(now: now)
          case .silent: action = race.begun(now: now)
          }
        case .rest(let until):
          #expect(until > now)
          if let first = failures.min(), first <= until {
            failures.remove(at: failures.firstIndex(of: first)!)
            now = first
            action = race.failed(now: now)
          } else {
            now = until
            action = race.timePassed(now: now)
          }
        case .lost, .timedOut: end = action
        }
      }
      #expect(asked == [0, 1, 2, 3], "\(fates)")
      #expect(zip(beginnings, beginnings.dropFirst()).allSatisfy { $1 - $0 <= Self.delay }, "\(fates)")
      #expect((end == .timedOut) == fates.contains(.silent), "\(fates)")
      #expect(end == .timedOut ? now == within : now < within, "\(fates)")
    }
  }
}
