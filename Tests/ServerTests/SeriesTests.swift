// The last hour in samples.

import Policy
import Testing

@testable import Server

@Suite struct SeriesTests {
  private func counters(
    requests: UInt64 = 0, refusals: [String: UInt64] = [:], hits: UInt64 = 0, latencies: [Int64] = []
  ) -> SeriesCounters {
    var counters = SeriesCounters()
    counters.requests = requests
    counters.refusals = refusals
    counters.refused = refusals.values.reduce(0, +)
    counters.cacheHits = hits
    for microseconds in latencies { counters.latency.note(microseconds: microseconds) }
    return counters
  }

  @Test func aSampleIsWhatWasCountedSinceTheLast() {
    var series = Series(now: 0)
    series.take(counters(requests: 100, refusals: ["a": 5]), wall: 1)
    #expect(series.samples.isEmpty)
    series.take(counters(requests: 130, refusals: ["a": 7, "b": 1], latencies: [400, 400]), wall: 2)
    let sample = series.samples[0]
    #expect(sample.wall == 2 && sample.requests == 30 && sample.refused == 3)
    #expect(sample.refusals == ["a": 2, "b": 1] && sample.otherRefusals == 0)
    #expect(sample.p50 == 375 && sample.p99 == 500)
    // Nothing happens.
    series.take(counters(requests: 130, refusals: ["a": 7, "b": 1], latencies: [400, 400]), wall: 3)
    #expect(series.samples[1].requests == 0 && series.samples[1].p50 == nil && series.samples[1].refusals.isEmpty)
  }

  @Test func aCounterThatBeganAgainCountsFromNothing() {
    var series = Series(now: 0)
    series.take(counters(hits: 100), wall: 1)
    series.take(counters(hits: 3), wall: 2)
    #expect(series.samples[0].cacheHits == 3)
  }

  @Test func theRingKeepsAnHour() {
    var series = Series(now: 0)
    for number in 0...Series.mostSamples + 10 {
      series.take(counters(requests: UInt64(number)), wall: Int64(number))
    }
    #expect(series.samples.count == Series.mostSamples)
    #expect(series.samples.map(\.wall) == (11...Int64(Series.mostSamples) + 10).map { $0 })
    #expect(Series.intervalMilliseconds * Int64(Series.mostSamples) == 3_600_000)
  }

  @Test func manyRulesAreAFewAndTheOthers() {
    var series = Series(now: 0)
    series.take(counters(), wall: 1)
    let refusals = Dictionary(uniqueKeysWithValues: (1...20).map { ("rule-\($0)", UInt64($0)) })
    series.take(counters(refusals: refusals), wall: 2)
    let sample = series.samples[0]
    #expect(sample.refusals == ["rule-20": 20, "rule-19": 19, "rule-18": 18, "rule-17": 17, "rule-16": 16])
    #expect(sample.otherRefusals == 120 && sample.refused == 210)
  }

  @Test func columnsHoldEveryRefusalOnce() {
    var series = Series(now: 0)
    series.take(counters(), wall: 0)
    var sums: [String: UInt64] = [:]
    for round in 1...8 {
      for number in 1...6 { sums["rule-\(round)-\(number)", default: 0] += UInt64(number * round) }
      series.take(counters(refusals: sums), wall: Int64(round))
    }
    let text = series.json.text
    let named = text.split(separator: "\"rule\": \"").count - 1
    #expect(named == Series.mostRules)
    #expect(text.contains("\"other_refusals\": [21, 42, 63, 84, 105, "))
  }

  @Test func loopsAreAskedOnceInAnInterval() {
    var series = Series(now: 0)
    let first = series.begins(now: 0, [0, 1])
    let again = series.begins(now: 1, [0, 1])
    #expect(first && !again)
    let statistics = Statistics(Policy())
    let one = series.answered(0, statistics)
    let twice = series.answered(0, statistics)
    #expect(one == nil && twice == nil)
    // One is slow: it is not asked twice.
    let overdue = series.begins(now: Series.intervalMilliseconds, [0, 1])
    #expect(!overdue)
    let both = series.answered(1, statistics)
    #expect(both != nil)
    let next = series.begins(now: 2 * Series.intervalMilliseconds, [0, 1])
    #expect(next && series.due == 3 * Series.intervalMilliseconds)
  }

  @Test(
    arguments: [(50, 100), (90, 9_000), (99, 9_900), (100, 10_000)] as [(UInt64, Int64)])
  func quantilesAreWithinTheirBucket(_ percent: UInt64, _ expected: Int64) {
    var histogram = Histogram(.exchanges)
    for _ in 0..<50 { histogram.note(microseconds: 80) }
    for _ in 0..<50 { histogram.note(microseconds: 7_000) }
    let found = histogram.quantile(percent, since: Histogram(.exchanges))
    let lower: Int64 = percent == 50 ? 0 : 5_000
    #expect(found.map { $0 > lower && $0 <= expected } ?? false, "\(String(describing: found))")
  }

  @Test func whatTookLongerThanEveryBucketTookAtLeastTheLast() {
    var histogram = Histogram(.exchanges)
    histogram.note(microseconds: 3_600_000_000)
    #expect(histogram.quantile(50, since: Histogram(.exchanges)) == 60_000_000)
  }
}
