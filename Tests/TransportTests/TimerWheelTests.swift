// The wheel against a dictionary of deadlines: never early, late by less than a tick, and no loop that sleeps as long as
// it is told oversleeps.

import TestSupport
import Testing

@testable import Transport

/// What the wheel has to do, done by looking at everything.
private struct Model {
  var deadlines: [Int: Int64] = [:]
  /// When each was last set, in time that the wheel has been told of.
  var setAt: [Int: Int64] = [:]
  var lastExpired: Int64

  static let tick = TimerWheel.tickMilliseconds

  mutating func set(_ id: Int, _ deadline: Int64) {
    deadlines[id] = deadline == .max ? nil : deadline
    setAt[id] = lastExpired
  }

  /// The moment at which entry `id` must have come out: the first tick behind its deadline, and behind its setting.
  func mustFireBy(_ id: Int) -> Int64? {
    guard let deadline = deadlines[id], let begun = setAt[id] else { return nil }
    let due = (deadline + Self.tick - 1) / Self.tick * Self.tick
    return max(due, (begun / Self.tick + 1) * Self.tick)
  }

  var nearest: Int64? { deadlines.keys.compactMap { mustFireBy($0) }.min() }
}

@Suite struct TimerWheelTests {
  private static func deadline(_ now: Int64, _ generator: inout SeededGenerator) -> Int64 {
    let reach: Int64 =
      [10, 100, 600, 5_000, 40_000, 3_000_000, 400_000_000].randomElement(using: &generator)
      ?? 1
    return max(0, now + Int64.random(in: -20...reach, using: &generator))
  }

  /// Expires, and holds what came out against the model.
  private static func expire(_ wheel: inout TimerWheel, _ model: inout Model, _ now: Int64, _ seed: UInt64) {
    var due: [Int] = []
    wheel.expire(now: now, into: &due)
    model.lastExpired = now
    for id in due {
      guard let deadline = model.deadlines[id] else {
        Issue.record("seed \(seed): entry \(id) came out and was not due at all")
        continue
      }
      if deadline > now { Issue.record("seed \(seed): entry \(id) is \(deadline - now) ms early") }
      model.deadlines[id] = nil
      if wheel.deadline(id) != .max { Issue.record("seed \(seed): entry \(id) still has a deadline") }
    }
    for id in model.deadlines.keys {
      if let by = model.mustFireBy(id), by <= now {
        Issue.record("seed \(seed): entry \(id) is \(now - by) ms late")
      }
    }
  }

  private static func checkWait(_ wheel: borrowing TimerWheel, _ model: Model, _ now: Int64, _ seed: UInt64) {
    let wait = wheel.millisecondsUntilNext(now: now)
    guard let nearest = model.nearest else { return }
    guard let wait else {
      Issue.record("seed \(seed): nothing to wait for, and something is due")
      return
    }
    if wait < 0 || now + wait > max(now, nearest) {
      Issue.record("seed \(seed): waits \(wait) ms, and something is due in \(nearest - now) ms")
    }
  }

  @Test(arguments: 1...16 as ClosedRange<UInt64>) func randomOperationsAreThoseOfADictionary(seed: UInt64) {
    var generator = SeededGenerator(seed: seed)
    var now = Int64.random(in: 0...(seed % 3 == 0 ? 10 : 1 << 40), using: &generator)
    var wheel = TimerWheel(now: now)
    var model = Model(lastExpired: now)
    for _ in 0..<700 {
      let id = Int.random(in: 0..<40, using: &generator)
      switch Int.random(in: 0..<10, using: &generator) {
      case 0..<5:
        let deadline = Int.random(in: 0..<12, using: &generator) == 0 ? .max : Self.deadline(now, &generator)
        wheel.set(id, deadline)
        model.set(id, deadline)
        #expect(wheel.deadline(id) == deadline)
      case 5:
        wheel.clear(id)
        model.deadlines[id] = nil
      case 6:
        // As much later as it takes for the nearest to be due, or just not.
        if let nearest = model.nearest, nearest > now {
          now = max(now, nearest - Int64.random(in: 0...1, using: &generator))
        }
        Self.expire(&wheel, &model, now, seed)
      default:
        let step: Int64 =
          [0, 1, 7, 8, 9, 64, 511, 512, 513, 4_096, 32_768, 2_097_152].randomElement(using: &generator) ?? 1
        now += Int64.random(in: 0...step, using: &generator)
        Self.expire(&wheel, &model, now, seed)
      }
      Self.checkWait(wheel, model, now, seed)
    }
    now += 450_000_000
    Self.expire(&wheel, &model, now, seed)
    #expect(model.deadlines.isEmpty)
    #expect(wheel.millisecondsUntilNext(now: now) == nil)
  }

  /// Moves each deadline back with every byte, as connections do, and nearer now and then.
  @Test(arguments: 1...6 as ClosedRange<UInt64>) func aLoopThatSleepsAsToldFiresEverythingInTime(
    seed: UInt64
  ) {
    var generator = SeededGenerator(seed: seed)
    var now: Int64 = 1_000_003
    var wheel = TimerWheel(now: now)
    var model = Model(lastExpired: now)
    for id in 0..<200 {
      let deadline = Self.deadline(now, &generator)
      wheel.set(id, deadline)
      model.set(id, deadline)
    }
    var wakes = 0
    while let wait = wheel.millisecondsUntilNext(now: now), wakes < 5_000 {
      wakes += 1
      // Woken by something else before the time is up, half of the time.
      let isBusy = wakes < 2_000 && Bool.random(using: &generator)
      now += isBusy && wait > 0 ? Int64.random(in: 0...min(wait, 1_000), using: &generator) : wait
      Self.expire(&wheel, &model, now, seed)
      if isBusy {
        let id = Int.random(in: 0..<200, using: &generator)
        let deadline = Self.deadline(now, &generator)
        wheel.set(id, deadline)
        model.set(id, deadline)
      }
    }
    #expect(model.deadlines.isEmpty)
    #expect(wakes < 5_000)
  }

  @Test func aDeadlineComesOutByTheTickBehindItAndNotBefore() {
    let tick = TimerWheel.tickMilliseconds
    for begin in [0, 1, 7, 8, 511, 512, 513, 32_767, 1_000_000] as [Int64] {
      for distance in [
        0, 1, 7, 8, 9, 63, 64, 65, 503, 504, 511, 512, 513, 4_095, 4_096, 32_760, 32_768, 2_097_152,
      ] as [Int64] {
        var wheel = TimerWheel(now: begin)
        let deadline = begin + distance
        wheel.set(3, deadline)
        let by = max((deadline + tick - 1) / tick, begin / tick + 1) * tick
        var due: [Int] = []
        wheel.expire(now: deadline - 1, into: &due)
        #expect(due == [], "\(distance) ms behind \(begin)")
        wheel.expire(now: by, into: &due)
        #expect(due == [3], "\(distance) ms behind \(begin)")
      }
    }
  }

  @Test func aLongSleepBringsEverythingOutAtOnce() {
    var wheel = TimerWheel(now: 0)
    let deadlines: [Int64] = [5, 500, 5_000, 50_000, 5_000_000, 100_000_000, 200_000_000, 300_000_000]
    for (id, deadline) in deadlines.enumerated() { wheel.set(id, deadline) }
    var due: [Int] = []
    wheel.expire(now: 400_000_000, into: &due)
    #expect(due.sorted() == Array(0..<8))
    #expect(wheel.millisecondsUntilNext(now: 400_000_000) == nil)
  }

  @Test func aDeadlineThatMovesBackFiresOnce() {
    var wheel = TimerWheel(now: 0)
    var due: [Int] = []
    var now: Int64 = 0
    for _ in 0..<1_000 {
      wheel.set(0, now + 100)
      now += 50
      wheel.expire(now: now, into: &due)
    }
    #expect(due == [])
    wheel.expire(now: now + 49, into: &due)
    #expect(due == [])
    wheel.expire(now: now + 58, into: &due)
    #expect(due == [0])
  }

  @Test func aDeadlineThatComesNearerFiresThen() {
    for far in [600, 5_000, 300_000_000, 10_000_000_000] as [Int64] {
      var wheel = TimerWheel(now: 0)
      var due: [Int] = []
      wheel.set(0, far)
      wheel.set(0, 40)
      #expect(wheel.millisecondsUntilNext(now: 0) == 40)
      wheel.expire(now: 40, into: &due)
      #expect(due == [0])
      wheel.expire(now: far + 100, into: &due)
      #expect(due == [0])
    }
  }

  @Test func whatIsClearedNeverComesOut() {
    var wheel = TimerWheel(now: 0)
    var due: [Int] = []
    wheel.set(0, 100)
    wheel.set(1, 100)
    wheel.set(2, 100)
    wheel.clear(1)
    wheel.clear(77)
    wheel.set(2, .max)
    #expect(
      [wheel.deadline(0), wheel.deadline(1), wheel.deadline(2), wheel.deadline(77)] == [
        100, .max, .max, .max,
      ])
    wheel.expire(now: 1_000, into: &due)
    #expect(due == [0])
  }

  @Test func anEmptyWheelHasNothingToWaitFor() {
    var wheel = TimerWheel(now: 123)
    #expect(wheel.millisecondsUntilNext(now: 123) == nil)
    wheel.set(0, .max)
    #expect(wheel.millisecondsUntilNext(now: 123) == nil)
    var due: [Int] = []
    wheel.expire(now: 1 << 50, into: &due)
    #expect(due == [])
    wheel.set(0, (1 << 50) + 20)
    #expect(wheel.millisecondsUntilNext(now: 1 << 50) == 24)
  }

  /// A loop calls `expire` at every turn: what is not due must cost nothing to speak of.
  @Test func aDayWithoutATimerPassesAtOnce() {
    var wheel = TimerWheel(now: 0)
    for id in 0..<1_000 { wheel.set(id, 86_400_000 + Int64(id)) }
    var due: [Int] = []
    wheel.expire(now: 86_399_999, into: &due)
    #expect(due.isEmpty)
    wheel.expire(now: 86_401_008, into: &due)
    #expect(due.count == 1_000)
  }
}
