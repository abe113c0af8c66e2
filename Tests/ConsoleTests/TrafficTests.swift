// Who talks to whom, out of samples: exact where they overlap, an estimate where they do not, and never more than can be shown.

import Testing

@testable import Console

@Suite struct TrafficTests {
  private func take(
    _ data: inout TopData, _ decisions: [String], connections: [String] = [], total: Int, at milliseconds: Int64
  ) {
    data.take(.status, json(statusText(total: total)), at: moment(milliseconds))
    data.take(.connections, json(list(connections)), at: moment(milliseconds))
    data.take(.decisions, json(list(decisions)), at: moment(milliseconds))
  }

  private func entry(_ data: TopData, _ host: String) -> Traffic.Entry? {
    data.traffic.entries.first { $0.key.host == host }?.value
  }

  @Test func onlyWhatIsNewCounts() {
    var data = TopData()
    take(&data, [decisionText("A1")], total: 1, at: 0)
    #expect(entry(data, "a.test")?.requestsPerSecond == 0)
    #expect(entry(data, "a.test")?.last == testWall - 5500)
    take(&data, [decisionText("A3"), decisionText("A2"), decisionText("A1")], total: 3, at: 1000)
    #expect(entry(data, "a.test")?.requestsPerSecond == 2 && entry(data, "a.test")?.bytesPerSecond == 200)
    #expect(entry(data, "a.test")?.reference == "A3" && entry(data, "a.test")?.isEstimate == false)
    take(&data, [decisionText("A3"), decisionText("A2"), decisionText("A1")], total: 3, at: 2000)
    #expect(entry(data, "a.test")?.requestsPerSecond == 0)
  }

  @Test func bytesOfATunnelCountOnce() {
    var data = TopData()
    take(&data, [], connections: [connectionText("T", bytes: 0)], total: 0, at: 0)
    take(&data, [], connections: [connectionText("T", bytes: 5000)], total: 0, at: 1000)
    #expect(entry(data, "a.test")?.open == 1 && entry(data, "a.test")?.bytesPerSecond == 5000)
    take(&data, [decisionText("T", bytes: 5600)], total: 1, at: 2000)
    #expect(entry(data, "a.test")?.open == 0 && entry(data, "a.test")?.bytesPerSecond == 600)
  }

  @Test func samplesWithAGapBetweenThemAreEstimates() {
    var data = TopData()
    func sample(_ prefix: String, _ second: Int) -> [String] {
      (0..<TopResource.sampleSize).map {
        decisionText("\(prefix)\($0)", host: $0 % 3 == 0 ? "b.test" : "a.test", second: second)
      }
    }
    take(&data, sample("X", 10), total: 10_000, at: 0)
    take(&data, sample("Y", 20), total: 20_000, at: 1000)
    let one = entry(data, "a.test")
    let other = entry(data, "b.test")
    #expect(one?.isEstimate == true && other?.isEstimate == true)
    #expect(abs((one?.requestsPerSecond ?? 0) - 6667) < 1 && abs((other?.requestsPerSecond ?? 0) - 3333) < 1)
  }

  @Test func whatTakesThePlaceOfAnotherOfItsMomentIsNotNew() {
    var data = TopData()
    let old = (0..<TopResource.sampleSize).map { decisionText("O\($0)", host: "old.test", second: 10) }
    take(&data, old, total: 900, at: 0)
    let next = [decisionText("N", host: "new.test", second: 20)] + old.dropFirst(2)
    take(&data, next + [decisionText("P", host: "old.test", second: 10)], total: 901, at: 1000)
    #expect(entry(data, "new.test")?.requestsPerSecond == 1 && entry(data, "old.test")?.requestsPerSecond == 0)
  }

  @Test func theLongestIdleMakeWay() {
    var data = TopData()
    for round in 0..<20 {
      let decisions = (0..<100).map {
        decisionText("R\(round)x\($0)", host: "h\(round)x\($0).test", second: 10 + round)
      }
      take(&data, decisions, total: round * 100, at: Int64(round) * 1000)
      #expect(data.traffic.entries.count <= Traffic.mostEntries)
    }
    #expect(entry(data, "h19x5.test") != nil && entry(data, "h0x5.test") == nil)
  }
}
