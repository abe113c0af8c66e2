// The pages of the admin API, made of facts that are given.

import Bytes
import Policy
import Testing

@testable import Server
@testable import Session

@Suite struct AdminResourcesTests {
  private func facts(failure: ReloadFailure? = nil) -> AdminFacts {
    let place = SourceLocation(file: "a.toml", line: 7, column: 1)
    let policy = Policy(rules: [Rule(name: "pay\"ments", location: place)])
    var statistics = Statistics(policy)
    var record = ExchangeRecord()
    record.ruled.decision = Decision(verdict: .allow, reason: .rule, rule: 0)
    record.times.begunWall = 1_000
    record.traffic.bytesOut = 1536
    statistics.note(record, rule: "pay\"ments", isTunnel: false, microseconds: 12_000)
    record.outcome = .problem(.pinMismatch)
    statistics.note(record, rule: "pay\"ments", isTunnel: false, microseconds: 1_500_000)
    statistics.gauges.clients = 1
    var state = DaemonState(
      version: "1.2.3", addresses: ["127.0.0.1:3128"], workers: 2, startedWall: 0, startedMonotonic: 0,
      policy: policy, loadedWall: 0)
    state.failure = failure
    return AdminFacts(
      state: state, statistics: statistics, heldBytes: 0, residentBytes: 3 << 20, lostEvents: 0, wall: 61_000,
      monotonic: 60_000,
      network: NetworkFacts(status: .wifi, changes: 4, waiting: 2))
  }

  @Test func aPersonSeesAtAGlance() {
    let page = StatusPage.text(facts(failure: ReloadFailure(wall: 60_000, reasons: ["a.toml:1:1: error: no"])))
    #expect(
      page == """
        sallyport 1.2.3, up 1 min
        listening    127.0.0.1:3128 (2 loops)
        policy       1 rule, read 1 min ago
                     a reload 1 s ago failed, and changed nothing:
                       a.toml:1:1: error: no
        network      wifi; 2 requests waiting
        connections  1 client, 0 tunnels; upstream 0 in use, 0 kept
        exchanges    2: 1 done, 1 pin-mismatch
        bytes        0 B from clients, 3.0 KiB to clients
        memory       3.0 MiB; 0 B of 64.0 MiB for bodies that are held

        rules:
          pay"ments  2, last 1 min ago; 1 pin-mismatch

        """)
  }

  @Test func theHistoryIsOneLine() {
    var facts = facts()
    var history = HistoryFacts(settings: HistorySettings())
    history.bytes = 5 << 20
    history.oldestWall = 1_000
    facts.history = history
    #expect(
      StatusPage.text(facts).contains(
        "\nhistory      5.0 MiB of 512.0 MiB in /var/lib/sallyport/history.db, the last 1 min\n"))
    history.dropped = 7
    history.fault = "cannot write /h.db: database or disk is full"
    facts.history = history
    #expect(
      StatusPage.text(facts).contains("; 7 exchanges missing; cannot write /h.db: database or disk is full\n"))
    #expect(AdminResources.status(facts).text.contains("\"dropped\": 7, \"bytes\": 5242880, \"oldest\": \"1970-01-01T"))
  }

  @Test func rulesAreListedInTheirOrderAndWhatHadNone() {
    let text = AdminResources.rules(facts()).text
    #expect(text.hasPrefix("[{\"name\": \"pay\\\"ments\", \"location\": \"a.toml:7\", \"action\": \"allow\""))
    #expect(text.contains("\"hits\": 2, \"done\": 1, \"failed\": {\"pin-mismatch\": 1}"))
    #expect(text.contains("{\"name\": null"))
  }

  @Test func metricsFollowTheFormat() {
    var page = ByteBuffer()
    MetricsPage.write(facts(), to: &page)
    let text = page.bytes.string
    #expect(text.contains("sallyport_exchanges_total{rule=\"pay\\\"ments\",outcome=\"pin-mismatch\"} 1\n"))
    #expect(text.contains("sallyport_request_duration_seconds_bucket{le=\"0.025\"} 1\n"))
    #expect(text.contains("sallyport_request_duration_seconds_bucket{le=\"2.5\"} 2\n"))
    #expect(text.contains("sallyport_request_duration_seconds_bucket{le=\"+Inf\"} 2\n"))
    #expect(text.contains("sallyport_request_duration_seconds_sum 1.512\n"))
    #expect(text.contains("sallyport_build_info{version=\"1.2.3\"} 1\n"))
    #expect(text.contains("sallyport_reachability_status{status=\"wifi\"} 1\n"))
    #expect(text.contains("sallyport_reachability_status{status=\"not-reachable\"} 0\n"))
    #expect(text.contains("sallyport_network_changes_total 4\n"))
    #expect(text.contains("sallyport_requests_waiting 2\n"))
    var named: Set<Substring> = []
    for line in text.split(separator: "\n") where line.hasPrefix("# TYPE ") {
      #expect(named.insert(line.split(separator: " ")[2]).inserted, "\(line) comes twice")
    }
  }

  @Test(
    arguments: [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
      as [(UInt64, String)])
  func sizesAreShort(bytes: UInt64, text: String) { #expect(StatusPage.size(bytes) == text) }
}
