// GET /metrics: the text format of Prometheus, 0.0.4. Names follow its conventions: a unit at the end, _total for
// counters. Labels are bounded: rules of the policy, and words of the log. Tests: AdminResourcesTests, test_admin.py.

import Bytes
import Policy
import Reachability
import Session

enum MetricsPage {
  static let contentType = "text/plain; version=0.0.4; charset=utf-8"

  static func write(_ facts: AdminFacts, to out: inout ByteBuffer) {
    var page = MetricsText()
    exchanges(facts, &page)
    pins(facts, &page)
    network(facts.network, &page)
    histograms(facts.statistics, &page)
    connections(facts.statistics, &page)
    if let cache = facts.cache { stored(cache, &page) }
    if let history = facts.history { recorded(history, &page) }
    daemon(facts, &page)
    out.append(contentsOf: page.bytes)
  }

  private static func exchanges(_ facts: AdminFacts, _ page: inout MetricsText) {
    let rules = facts.statistics.rules.sorted { $0.key < $1.key }
    let denied = Problem.Kind.denied.token.description
    page.begin(
      "sallyport_exchanges_total", "counter", help: "Requests and tunnels that have ended, by rule and outcome.")
    for (rule, counts) in rules {
      // Present from the start, so that a rate over the first exchange of a rule is defined.
      page.sample(counts.done, ["rule": rule, "outcome": "done"])
      if counts.failed[denied] == nil { page.sample(0, ["rule": rule, "outcome": denied]) }
      for (token, count) in counts.failed.sorted(by: { $0.key < $1.key }) {
        page.sample(count, ["rule": rule, "outcome": token])
      }
    }
    page.begin(
      "sallyport_violations_total", "counter", help: "What passed although it violates its rule, by rule and kind.")
    for (rule, counts) in rules {
      for (token, count) in counts.violations.sorted(by: { $0.key < $1.key }) {
        page.sample(count, ["rule": rule, "kind": token])
      }
    }
    page.begin(
      "sallyport_reports_total", "counter",
      help: "What a rule or pins that only report would have refused, by rule and kind.")
    for (rule, counts) in rules {
      for (token, count) in counts.reports.sorted(by: { $0.key < $1.key }) {
        page.sample(count, ["rule": rule, "kind": token])
      }
    }
  }

  private static func pins(_ facts: AdminFacts, _ page: inout MetricsText) {
    page.begin(
      "sallyport_pin_mismatches_total", "counter",
      help: "Certificates without a pinned key, by rule and what became of them."
    )
    let token = Problem.Kind.pinMismatch.token.description
    let pinning = Set(facts.state.policy.rules.filter { $0.security.isPinning }.map(\.name))
    for (rule, counts) in facts.statistics.rules.sorted(by: { $0.key < $1.key }) {
      for (count, result) in [(counts.failed[token], "refused"), (counts.reports[token], "reported")] {
        guard let count = count ?? (pinning.contains(rule) ? 0 : nil) else { continue }
        page.sample(count, ["rule": rule, "result": result])
      }
    }
    page.begin(
      "sallyport_pins_expiry_timestamp_seconds", "gauge", help: "When a pin set, or a certificate in it, expires first."
    )
    let watch = facts.pinWatch
    for watched in watch.sets {
      let ends = watched.set.certificates.map(\.notAfter) + [watched.set.expires].compactMap { $0 }
      if let end = ends.min() { page.sample(seconds(end), ["pins": watched.set.name]) }
    }
    let seen = seenPins(watch, facts.pinsSeen)
    page.begin(
      "sallyport_pin_seen_timestamp_seconds", "gauge", help: "When a chain with a pin was last seen, by set and pin.")
    for (set, pin, sighting) in seen { page.sample(seconds(sighting.wall / 1000), ["pins": set, "pin": pin]) }
    page.begin(
      "sallyport_pin_certificate_expiry_timestamp_seconds", "gauge",
      help: "When the certificate expires that carried a pin when it was last seen, by set and pin.")
    for (set, pin, sighting) in seen { page.sample(seconds(sighting.match.notAfter), ["pins": set, "pin": pin]) }
    page.begin(
      "sallyport_pin_warnings", "gauge", help: "Warnings of pins and certificates that expire, as in the status.")
    page.sample(UInt64(watch.warnings(at: facts.wall / 1000).count))
  }

  /// The last sighting of each configured pin that was seen; pinned certificates with one key count as one here.
  private static func seenPins(
    _ watch: PinWatch, _ sightings: [WatchedPin: PinSighting]
  ) -> [(set: String, pin: String, PinSighting)] {
    watch.sets.flatMap { watched in
      var seen: [String: PinSighting] = [:]
      for sighting in watched.pins.compactMap({ sightings[$0] }) {
        let pin = sighting.match.pin.description
        if seen[pin].map({ $0.wall < sighting.wall }) ?? true { seen[pin] = sighting }
      }
      return seen.sorted { $0.key < $1.key }.map { (watched.set.name, $0.key, $0.value) }
    }
  }

  private static func seconds(_ time: Int64) -> UInt64 { UInt64(max(0, time)) }

  private static func network(_ network: NetworkFacts, _ page: inout MetricsText) {
    page.begin(
      "sallyport_reachability_status", "gauge", help: "1 for the kind of link that the machine leaves by just now.")
    for status in ReachabilityStatus.allCases {
      page.sample(status == network.status ? 1 : 0, ["status": status.rawValue])
    }
    page.begin("sallyport_network_changes_total", "counter", help: "Changes of the network that were followed.")
    page.sample(network.changes)
    page.begin("sallyport_requests_waiting", "gauge", help: "Requests that wait for a path.")
    page.sample(UInt64(max(0, network.waiting)))
  }

  private static func histograms(_ statistics: Statistics, _ page: inout MetricsText) {
    page.histogram(
      "sallyport_request_duration_seconds", "Requests, from their head to their end.", histogram: statistics.requests)
    page.histogram(
      "sallyport_tunnel_duration_seconds", "Tunnels, from their head to their end.", histogram: statistics.tunnels)
    page.histogram(
      "sallyport_loop_turn_seconds", "Turns of an event loop: what others waited.", histogram: statistics.turns)
  }

  private static func connections(_ statistics: Statistics, _ page: inout MetricsText) {
    let rules = statistics.rules.sorted { $0.key < $1.key }
    page.begin("sallyport_client_received_bytes_total", "counter", help: "Bytes of clients, by rule.")
    for (rule, counts) in rules { page.sample(counts.bytesIn, ["rule": rule]) }
    page.begin("sallyport_client_sent_bytes_total", "counter", help: "Bytes to clients, by rule.")
    for (rule, counts) in rules { page.sample(counts.bytesOut, ["rule": rule]) }
    page.begin("sallyport_client_connections_total", "counter", help: "Connections of clients that were taken.")
    page.sample(statistics.clientsAccepted)
    page.begin(
      "sallyport_client_connections_displaced_total", "counter",
      help: "Connections closed because their client held more than its share and another waited.")
    page.sample(statistics.clientsDisplaced)
    page.begin(
      "sallyport_client_connections_refused_total", "counter",
      help: "Connections closed because too many waited for a place."
    )
    page.sample(statistics.clientsRefused)
    page.begin("sallyport_client_connections", "gauge", help: "Connections of clients that are open.")
    page.sample(UInt64(statistics.gauges.clients))
    page.begin("sallyport_client_streams", "gauge", help: "Requests that are open on HTTP/2 connections of clients.")
    page.sample(UInt64(statistics.gauges.streams))
    page.begin(
      "sallyport_exchanges_by_protocol_total", "counter",
      help: "Requests and tunnels by what was spoken on either side.")
    for wire in HTTPProtocol.allCases {
      let counts = statistics.exchanges[wire]
      page.sample(counts.client, ["side": "client", "protocol": wire.rawValue])
      page.sample(counts.upstream, ["side": "upstream", "protocol": wire.rawValue])
    }
    page.begin(
      "sallyport_http2_faults_total", "counter", help: "HTTP/2 connections that ended for a fault of the peer.")
    page.sample(statistics.http2Faults)
    page.begin("sallyport_tunnels", "gauge", help: "Tunnels that are open.")
    page.sample(UInt64(statistics.gauges.tunnels))
    page.begin("sallyport_dns_lookups_total", "counter", help: "Look-ups of names by what came of them, cached or not.")
    for (token, count) in statistics.lookUps.sorted(by: { $0.key < $1.key }) { page.sample(count, ["result": token]) }
    page.begin(
      "sallyport_upstream_uses_total", "counter", help: "Exchanges by whether their connection was kept from another.")
    page.sample(statistics.upstreamsOpened, ["connection": "new"])
    page.sample(statistics.upstreamsReused, ["connection": "kept"])
    page.begin("sallyport_upstream_connections", "gauge", help: "Connections to upstreams that are open.")
    page.sample(UInt64(statistics.gauges.busyUpstreams), ["state": "busy"])
    page.sample(UInt64(statistics.gauges.idleUpstreams), ["state": "idle"])
    page.begin(
      "sallyport_upstream_tls_handshakes_total", "counter",
      help: "TLS handshakes with upstreams, those of probes among them."
    )
    page.sample(statistics.handshakes, ["resumed": "no"])
    page.sample(statistics.resumptions, ["resumed": "yes"])
    page.begin(
      "sallyport_retries_total", "counter", help: "Requests sent again because their kept connection was dead.")
    page.sample(statistics.retries)
  }

  private static func stored(_ cache: CacheFacts, _ page: inout MetricsText) {
    page.begin(
      "sallyport_cache_requests_total", "counter", help: "Requests of rules with a cache, by how it took part.")
    for (result, count) in cache.results { page.sample(count, ["result": result.rawValue]) }
    page.begin("sallyport_cache_served_bytes_total", "counter", help: "Bytes that came out of the store.")
    page.sample(cache.servedBytes)
    page.begin("sallyport_cache_evictions_total", "counter", help: "Answers that made room for others.")
    page.sample(cache.evictions)
    page.begin("sallyport_cache_answers", "gauge", help: "Answers that are stored.")
    page.sample(UInt64(max(0, cache.answers)))
    page.begin("sallyport_cache_bytes", "gauge", help: "What they take.")
    page.sample(UInt64(max(0, cache.bytes)))
    guard let disk = cache.disk else { return }
    page.begin("sallyport_cache_disk_answers", "gauge", help: "Answers that are on the disk.")
    page.sample(UInt64(disk.answers))
    page.begin("sallyport_cache_disk_bytes", "gauge", help: "What they take there.")
    page.sample(disk.bytes)
    page.begin(
      "sallyport_cache_disk_evictions_total", "counter", help: "Answers that made room for others on the disk.")
    page.sample(disk.evictions)
  }

  private static func recorded(_ history: HistoryFacts, _ page: inout MetricsText) {
    page.begin(
      "sallyport_history_exchanges_total", "counter", help: "Exchanges, by whether they came into the history.")
    page.sample(history.written, ["result": "written"])
    page.sample(history.dropped, ["result": "dropped"])
    page.begin("sallyport_history_bytes", "gauge", help: "What the history takes.")
    page.sample(UInt64(max(0, history.bytes)))
    page.begin("sallyport_history_limit_bytes", "gauge", help: "What it may take.")
    page.sample(UInt64(history.settings.sizeBytes))
    page.begin("sallyport_history_failing", "gauge", help: "1 while the history cannot be written.")
    page.sample(history.fault == nil ? 0 : 1)
    if let oldest = history.oldestWall {
      page.begin(
        "sallyport_history_oldest_timestamp_seconds", "gauge", help: "When the oldest exchange of the history ended.")
      page.sample(seconds(oldest / 1000))
    }
  }

  private static func daemon(_ facts: AdminFacts, _ page: inout MetricsText) {
    let state = facts.state
    page.begin("sallyport_rules", "gauge", help: "Rules of the policy in force.")
    page.sample(UInt64(state.policy.rules.count))
    page.begin("sallyport_reloads_total", "counter", help: "Reloads, by whether the configuration could be read.")
    page.sample(state.reloads, ["result": "done"])
    page.sample(state.failedReloads, ["result": "failed"])
    page.begin("sallyport_policy_loaded_timestamp_seconds", "gauge", help: "When the policy in force was read.")
    page.sample(UInt64(state.loadedWall / 1000))
    page.begin("sallyport_held_bytes", "gauge", help: "Bodies that are held to be checked or re-written.")
    page.sample(UInt64(max(0, facts.heldBytes)))
    page.begin("sallyport_lost_events_total", "counter", help: "Events that a reader of /v1/events was too slow for.")
    page.sample(facts.lostEvents)
    page.begin("process_resident_memory_bytes", "gauge", help: "Memory that is resident.")
    page.sample(UInt64(max(0, facts.residentBytes)))
    page.begin("process_start_time_seconds", "gauge", help: "When the process was started.")
    page.sample(UInt64(state.startedWall / 1000))
    page.begin("sallyport_build_info", "gauge", help: "The version, as a label.")
    page.sample(1, ["version": state.version])
  }
}
