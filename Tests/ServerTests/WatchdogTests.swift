// The watchdog's books: systemd is told only when every loop has answered.

import Testing

@testable import Server

@Suite struct WatchdogTests {
  @Test func systemdIsToldWhenTheLastWorkerHasAnswered() {
    var watchdog = Watchdog(limitMilliseconds: 1000, workers: 3, now: 50)
    #expect(watchdog.step(now: 50) == .ask)
    #expect(watchdog.answered(1) == .open)
    #expect(watchdog.answered(0) == .open)
    #expect(watchdog.answered(2) == .complete)
  }

  @Test func roundsComeEveryHalfOfTheLimit() {
    var watchdog = Watchdog(limitMilliseconds: 1000, workers: 1, now: 0)
    #expect(watchdog.step(now: 0) == .ask)
    #expect(watchdog.answered(0) == .complete)
    #expect(watchdog.step(now: 100) == .wait(milliseconds: 400))
    #expect(watchdog.step(now: 500) == .ask)
  }

  @Test func aWorkerThatHangsIsNotAskedAgainAndSilencesTheRest() {
    var watchdog = Watchdog(limitMilliseconds: 1000, workers: 2, now: 0)
    #expect(watchdog.step(now: 0) == .ask)
    #expect(watchdog.answered(0) == .open)
    for now: Int64 in stride(from: 500, to: 5000, by: 500) {
      #expect(watchdog.step(now: now) == .waitForAnswers)
      #expect(watchdog.answered(0) == .open)
    }
  }

  @Test func aWorkerThatTurnsAgainIsHeardAtOnce() {
    var watchdog = Watchdog(limitMilliseconds: 1000, workers: 2, now: 0)
    #expect(watchdog.step(now: 0) == .ask)
    #expect(watchdog.answered(0) == .open)
    #expect(watchdog.answered(1) == .complete)
    #expect(watchdog.step(now: 5000) == .ask)
  }

  @Test func anAnswerThatNobodyAskedForCountsForNothing() {
    var watchdog = Watchdog(limitMilliseconds: 1000, workers: 1, now: 0)
    #expect(watchdog.answered(0) == .open)
    #expect(watchdog.step(now: 0) == .ask)
    #expect(watchdog.answered(7) == .open)
    #expect(watchdog.answered(0) == .complete)
    #expect(watchdog.answered(0) == .open)
  }

  @Test func aWorkerThatHasEndedIsNotWaitedFor() {
    var watchdog = Watchdog(limitMilliseconds: 1000, workers: 2, now: 0)
    #expect(watchdog.step(now: 0) == .ask)
    #expect(watchdog.answered(0) == .open)
    #expect(watchdog.left(1) == .complete)
    #expect(watchdog.step(now: 500) == .ask)
    #expect(watchdog.answered(0) == .complete)
    #expect(watchdog.left(0) == .open)
    #expect(watchdog.step(now: 1000) == .waitForAnswers)
  }

  @Test(arguments: [Int64(1), 2, 3]) func theShortestLimitStillLeavesAPause(_ limit: Int64) {
    var watchdog = Watchdog(limitMilliseconds: limit, workers: 1, now: 0)
    #expect(watchdog.step(now: 0) == .ask)
    #expect(watchdog.answered(0) == .complete)
    #expect(watchdog.step(now: 0) == .wait(milliseconds: 1))
  }
}
