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
    record.decision = Decision(verdict: .allow, reason: .rule, rule: rule)
    record.outcome = outcome
    record.bytesIn = 3
    record.bytesOut = 5
    record.begunWall = 7
    return record
  }

  @Test func whatEndedIsCountedByRuleAndOutcome() {
    var statistics = Statistics(policy("a", "b"))
    statistics.note(record(0), rule: "a", isTunnel: false, milliseconds: 1)
    statistics.note(record(0, .problem(.denied)), rule: "a", isTunnel: false, milliseconds: 6)
    statistics.note(record(1, .clientLeft), rule: "b", isTunnel: true, milliseconds: 40_000)
    statistics.note(record(nil), rule: nil, isTunnel: false, milliseconds: 0)
    #expect(statistics.rules["a"]?.done == 1)
    #expect(statistics.rules["a"]?.failed == ["denied": 1])
    #expect(statistics.rules["a"]?.total == 2)
    #expect(statistics.rules["b"]?.failed == ["client-left": 1])
    #expect(statistics.rules[Statistics.noRule]?.done == 1)
    #expect(statistics.bytesIn == 12 && statistics.bytesOut == 20)
    #expect(statistics.requests.count == 3 && statistics.tunnels.count == 1)
  }

  @Test func aReloadMovesNoCountToAnotherRule() {
    var statistics = Statistics(policy("a", "b"))
    statistics.note(record(0), rule: "a", isTunnel: false, milliseconds: 1)
    statistics.take(policy("b", "a"))
    statistics.note(record(0), rule: "b", isTunnel: false, milliseconds: 1)
    // One that began before the reload still has the number that it had then.
    statistics.note(record(0), rule: "a", isTunnel: false, milliseconds: 1)
    #expect(statistics.rules["a"]?.done == 2)
    #expect(statistics.rules["b"]?.done == 1)
    statistics.take(policy())
    #expect(statistics.rules["a"]?.done == 2)
    statistics.take(policy("a"))
    statistics.note(record(0), rule: "a", isTunnel: false, milliseconds: 1)
    #expect(statistics.rules["a"]?.done == 3)
  }

  @Test func loopsAreSummed() {
    var first = Statistics(policy("a"))
    var second = Statistics(policy("a"))
    first.note(record(0), rule: "a", isTunnel: false, milliseconds: 1)
    second.note(record(0, .problem(.denied)), rule: "a", isTunnel: false, milliseconds: 2)
    second.upstreamsOpened = 4
    second.gauges.clients = 2
    first.add(second)
    #expect(first.rules["a"]?.total == 2)
    #expect(first.upstreamsOpened == 4 && first.gauges.clients == 2)
    #expect(first.requests.count == 2)
  }

  @Test func aDurationFallsIntoTheFirstBucketThatHoldsIt() {
    var histogram = Histogram()
    for milliseconds: Int64 in [0, 1, 2, 3, 30_000, 30_001] { histogram.note(milliseconds) }
    #expect(histogram.counts[0] == 2)
    #expect(histogram.counts[1] == 1)
    #expect(histogram.counts[2] == 1)
    #expect(histogram.counts[13] == 1 && histogram.counts[14] == 1)
    #expect(histogram.count == 6)
    // One bucket more than there are bounds.
    #expect(histogram.counts.count == Histogram.boundsMilliseconds.count + 1)
    #expect(histogram.sumMilliseconds == 60_007)
  }
}
