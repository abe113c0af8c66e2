// What a loop counts: by rule, over reloads, summed over loops.

import Policy
import Testing

@testable import Server
@testable import Session

@Suite struct StatisticsTests {
  private func policy(_ names: String...) -> Policy {
    let place = SourceLocation(file: "f", line: 1, column: 1)
    return Policy(rules: names.map { Rule(name: $0, location: place) })
  }

  private func record(_ rule: Int?, _ outcome: Outcome = .done) -> ExchangeRecord {
    var record = ExchangeRecord()
    record.ruled.decision = Decision(verdict: .allow, reason: .rule, rule: rule)
    record.outcome = outcome
    record.traffic.bytesIn = 3
    record.traffic.bytesOut = 5
    record.times.begunWall = 7
    return record
  }

  @Test func whatEndedIsCountedByRuleAndOutcome() {
    var statistics = Statistics(policy("a", "b"))
    statistics.note(record(0), rule: "a", isTunnel: false, microseconds: 1)
    statistics.note(record(0, .problem(.denied)), rule: "a", isTunnel: false, microseconds: 6)
    statistics.note(record(1, .clientLeft), rule: "b", isTunnel: true, microseconds: 40_000)
    statistics.note(record(nil), rule: nil, isTunnel: false, microseconds: 0)
    #expect(statistics.rules["a"]?.done == 1)
    #expect(statistics.rules["a"]?.failed == ["denied": 1])
    #expect(statistics.rules["a"]?.total == 2)
    #expect(statistics.rules["b"]?.failed == ["client-left": 1])
    #expect(statistics.rules[Statistics.noRule]?.done == 1)
    #expect(statistics.rules["a"]?.bytesIn == 6 && statistics.rules["b"]?.bytesOut == 5)
    #expect(statistics.requests.count == 3 && statistics.tunnels.count == 1)
  }

  @Test func aReloadMovesNoCountToAnotherRule() {
    var statistics = Statistics(policy("a", "b"))
    statistics.note(record(0), rule: "a", isTunnel: false, microseconds: 1)
    statistics.take(policy("b", "a"))
    statistics.note(record(0), rule: "b", isTunnel: false, microseconds: 1)
    // One that began before the reload still has the number that it had then.
    statistics.note(record(0), rule: "a", isTunnel: false, microseconds: 1)
    #expect(statistics.rules["a"]?.done == 2)
    #expect(statistics.rules["b"]?.done == 1)
    statistics.take(policy())
    #expect(statistics.rules["a"]?.done == 2)
    statistics.take(policy("a"))
    statistics.note(record(0), rule: "a", isTunnel: false, microseconds: 1)
    #expect(statistics.rules["a"]?.done == 3)
  }

  @Test func loopsAreSummed() {
    var first = Statistics(policy("a"))
    var second = Statistics(policy("a"))
    first.note(record(0), rule: "a", isTunnel: false, microseconds: 1)
    second.note(record(0, .problem(.denied)), rule: "a", isTunnel: false, microseconds: 2)
    second.upstreamsOpened = 4
    second.gauges.clients = 2
    first.add(second)
    #expect(first.rules["a"]?.total == 2)
    #expect(first.upstreamsOpened == 4 && first.gauges.clients == 2)
    #expect(first.requests.count == 2)
  }

  @Test func whatEachSideSpokeIsCountedAndSummed() {
    var client = record(nil)
    client.sender.wire = .http2
    var both = client
    both.way.upstreamWire = .http2
    var upstream = record(nil)
    upstream.way.upstreamWire = .http11
    var counts: [Statistics] = [Statistics(policy()), Statistics(policy())]
    for (index, record) in [client, both, upstream, upstream].enumerated() {
      counts[index % 2].note(record, rule: nil, isTunnel: false, microseconds: 1)
    }
    counts[0].add(counts[1])
    #expect(counts[0].exchanges[.http2] == Statistics.Sides(client: 2, upstream: 1))
    #expect(counts[0].exchanges[.http11] == Statistics.Sides(client: 2, upstream: 2))
  }

  @Test func aDurationFallsIntoTheFirstBucketThatHoldsIt() {
    var histogram = Histogram(.exchanges)
    for microseconds: Int64 in [0, 100, 101, 1_000, 60_000_000, 60_000_001] {
      histogram.note(microseconds: microseconds)
    }
    #expect(histogram.counts[0] == 2)
    #expect(histogram.counts[1] == 1)
    #expect(histogram.counts[3] == 1)
    #expect(histogram.counts[17] == 1 && histogram.counts[18] == 1)
    #expect(histogram.count == 6)
    // One bucket more than there are bounds.
    #expect(histogram.counts.count == histogram.bounds.microseconds.count + 1)
    #expect(histogram.sumMicroseconds == 120_001_202)
  }

  @Test(arguments: [("requests", Histogram.Bounds.exchanges), ("tunnels", .tunnels)])
  func boundsGrow(_ name: String, _ bounds: Histogram.Bounds) {
    for index in 1..<bounds.microseconds.count {
      #expect(bounds.microseconds[index - 1] < bounds.microseconds[index], "\(name) \(index)")
    }
  }

  @Test func aTunnelOfHoursIsToldFromOneOfADay() {
    var histogram = Histogram(.tunnels)
    histogram.note(microseconds: 2 * 3_600_000_000)
    histogram.note(microseconds: 20 * 3_600_000_000)
    #expect(histogram.counts[14] == 1 && histogram.counts[17] == 1)
  }
}
