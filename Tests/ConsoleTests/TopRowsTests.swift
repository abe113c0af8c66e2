// What stands in the cells.

import Testing

@testable import Console

@Suite struct TopRowsTests {
  @Test func rules() {
    var data = TopData()
    data.take(
      .rules,
      json(
        #"""
        [{"name": "a", "location": "/etc/sallyport/policy.d/x.toml:12", "action": "deny", "enforce": false, "hits": 9,
          "failed": {"denied": 2, "connection-refused": 3}, "last": "2026-11-20T15:23:50.000Z"},
         {"name": null, "location": null, "action": "allow", "enforce": true, "hits": 0, "failed": {}, "last": null}]
        """#), at: moment(0))
    #expect(
      TopRows.of(.rules, data).map { $0.cells.map(\.text) } == [
        ["a", "(deny)", "0", "9", "2", "3", "6s", "x:12"], ["(no rule)", "allow", "0", "0", "0", "0", "-", "-"],
      ])
  }

  @Test func trafficIsMarkedAsAnEstimate() {
    var data = TopData()
    for round in 0..<2 {
      data.take(.status, json(statusText(total: round * 6000)), at: moment(Int64(round) * 1000))
      let sample = (0..<TopResource.sampleSize).map { decisionText("R\(round)x\($0)", second: 49 + round) }
      data.take(.decisions, json(list(sample)), at: moment(Int64(round) * 1000))
    }
    #expect(
      TopRows.of(.traffic, data).map { $0.cells.map(\.text) } == [
        ["ci", "curl", "a.test", "r", "-", "~6000", "~586 KiB", "6s"]
      ])
  }

  @Test func connectionsThatAreIdle() {
    var data = TopData()
    data.take(
      .connections, json(#"[{"client": "127.0.0.1:9", "state": "idle", "ref": null, "user": null}]"#), at: moment(0))
    #expect(
      TopRows.of(.connections, data).map { $0.cells.map(\.text) } == [
        ["-", "127.0.0.1", "-", "-", "idle", "-", "0 B", "0 B", "-"]
      ])
  }
}
