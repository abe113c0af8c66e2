// Which route is tried next, for every way in which one can fail, and what is said when none is left.

import Testing

@testable import Upstream

@Suite struct RouteChoiceTests {
  private typealias Choice = RouteChoice<String>

  /// `attempt 1`, `wait until 500`, `fail: b of a b`, with what was waited where it was.
  private func words(_ action: Choice.Action) -> String {
    switch action {
    case .attempt(let route): return "attempt \(route)"
    case .wait(let until): return "wait until \(until)"
    case .fail(let conclusion):
      let all = conclusion.attempts.map(\.failure).joined(separator: " ")
      let waited = conclusion.waitedMilliseconds.map { ", waited \($0)" } ?? ""
      return "fail: \(conclusion.telling.failure) of \(all)\(waited)\(conclusion.wasTried ? ", tried" : "")"
    }
  }

  private func alive(_: Int) -> Bool { false }

  @Test func routesAreTriedInTheirOrder() {
    var choice = Choice(waits: [nil, nil, nil])
    #expect(words(choice.begin(isDead: alive)) == "attempt 0")
    #expect(!choice.isLater && choice.hasNext)
    #expect(words(choice.failed("a", .tried, now: 0)) == "attempt 1")
    #expect(choice.isLater && choice.hasNext)
    #expect(words(choice.failed("b", .unusable, now: 0)) == "attempt 2")
    #expect(!choice.hasNext)
    #expect(words(choice.failed("c", .unusable, now: 0)) == "fail: a of a b c, tried")
  }

  @Test func whoseParentIsDeadComesLastAndIsTriedAllTheSame() {
    var choice = Choice(waits: [nil, nil, nil])
    #expect(words(choice.begin { $0 == 0 || $0 == 1 }) == "attempt 2")
    #expect(words(choice.failed("c", .tried, now: 0)) == "attempt 0")
    #expect(words(choice.failed("a", .tried, now: 0)) == "attempt 1")
    #expect(words(choice.failed("b", .tried, now: 0)) == "fail: b of c a b, tried")
  }

  @Test func allDeadIsAsGoodAsNone() {
    var choice = Choice(waits: [nil, nil])
    #expect(words(choice.begin { _ in true }) == "attempt 0")
  }

  @Test func aDecisionEndsItWhateverIsLeft() {
    var choice = Choice(waits: [1000, nil])
    _ = choice.begin(isDead: alive)
    #expect(words(choice.failed("denied", .final, now: 0)) == "fail: denied of denied, tried")
    #expect(choice.failures.isEmpty, "it says nothing of the routes before")
  }

  @Test(arguments: [
    ([Choice.Cause.tried, .tried, .unusable], 1, true), ([.tried, .unusable, .forbidden], 0, true),
    ([.unusable, .forbidden, .unusable], 1, false), ([.forbidden, .forbidden, .unusable], 0, false),
    ([.unusable, .unusable, .unusable], 2, false),
  ])
  func whichFailureIsTheTellingOne(causes: [RouteChoice<String>.Cause], telling: Int, isTried: Bool) {
    var choice = Choice(waits: [nil, nil, nil])
    var action = choice.begin(isDead: alive)
    for (number, cause) in causes.enumerated() { action = choice.failed("\(number)", cause, now: 5) }
    #expect(words(action) == "fail: \(telling) of 0 1 2\(isTried ? ", tried" : "")")
  }

  // MARK: Waiting

  @Test func whereNoneCanBeUsedItWaitsAsLongAsTheLongestAllows() {
    var choice = Choice(waits: [300, nil, 500])
    _ = choice.begin(isDead: alive)
    for _ in 0..<2 { _ = choice.failed("x", .unusable, now: 1000) }
    #expect(words(choice.failed("y", .forbidden, now: 1000)) == "wait until 1500")
    #expect(choice.hasWaited && choice.isLater)
    #expect(words(choice.timePassed(now: 1499)) == "wait until 1500")
    #expect(words(choice.timePassed(now: 1500)) == "fail: y of x x y, waited 500")
  }

  @Test func whatWasTriedIsNotWaitedFor() {
    var choice = Choice(waits: [300, 300])
    _ = choice.begin(isDead: alive)
    _ = choice.failed("a", .tried, now: 0)
    #expect(words(choice.failed("b", .unusable, now: 0)) == "fail: a of a b, tried")
    #expect(!choice.hasWaited)
  }

  @Test func anotherNetworkBeginsAgainWithinTheSameTime() {
    var choice = Choice(waits: [500])
    _ = choice.begin(isDead: alive)
    #expect(words(choice.failed("a", .unusable, now: 1000)) == "wait until 1500")
    #expect(words(choice.begin(isDead: alive)) == "attempt 0")
    #expect(choice.isLater, "nobody has looked for a kept connection since")
    #expect(words(choice.failed("b", .unusable, now: 1200)) == "wait until 1500", "not anew")
    #expect(words(choice.begin(isDead: alive)) == "attempt 0")
    #expect(words(choice.failed("c", .unusable, now: 1600)) == "fail: c of c, waited 600")
  }

  @Test func whatFailsAfterAWaitIsTriedAndSaysHowLongItWaited() {
    var choice = Choice(waits: [500])
    _ = choice.begin(isDead: alive)
    _ = choice.failed("a", .unusable, now: 1000)
    _ = choice.begin(isDead: alive)
    #expect(words(choice.failed("refused", .tried, now: 1100)) == "fail: refused of refused, waited 100, tried")
  }

  /// Whatever happens, every route is tried once a round, and it ends.
  @Test func everyOrderOfFailuresEnds() {
    let causes: [Choice.Cause] = [.unusable, .forbidden, .tried]
    for word in 0..<27 {
      var choice = Choice(waits: [nil, word % 2 == 0 ? 100 : nil, nil])
      var seen: [Int] = []
      var action = choice.begin { $0 == word % 4 }
      var (now, rest) = (Int64(0), word)
      loop: for _ in 0..<20 {
        switch action {
        case .attempt(let route):
          seen.append(route)
          action = choice.failed("\(route)", causes[rest % 3], now: now)
          rest /= 3
        case .wait(let until):
          now = until
          action = choice.timePassed(now: now)
        case .fail: break loop
        }
      }
      guard case .fail(let conclusion) = action else {
        Issue.record("\(word) does not end")
        continue
      }
      #expect(seen.sorted() == [0, 1, 2] && conclusion.attempts.map(\.route) == seen)
    }
  }
}
