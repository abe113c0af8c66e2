// GET /v1/status for a person: the state at a glance. Tests: AdminResourcesTests.

import Bytes
import Policy

enum StatusPage {
  /// The most rules that are listed: only those with counts, the busiest first.
  static let mostRules = 12

  static func text(_ facts: AdminFacts) -> String {
    let state = facts.state
    let gauges = facts.statistics.gauges
    var lines = [
      "sallyport \(state.version), up \(String.duration(seconds: facts.uptimeSeconds))\(state.isDraining ? ", draining" : "")"
    ]
    func line(_ name: String, _ text: String) {
      lines.append(name + String(repeating: " ", count: max(1, 13 - name.utf8.count)) + text)
    }
    line("listening", "\(state.addresses.joined(separator: ", ")) (\(String.counted(state.workers, "loop")))")
    if let web = state.webAddress { line("dashboard", "http://\(web)/, opened by 'sallyport dashboard'") }
    if let metrics = state.metricsAddress { line("metrics", "http://\(metrics)/metrics") }
    line("policy", "\(String.counted(state.policy.rules.count, "rule")), read \(ago(state.loadedWall, facts.wall))")
    if let failure = state.failure {
      line("", "a reload \(ago(failure.wall, facts.wall)) failed, and changed nothing:")
      for reason in failure.reasons { line("", "  \(reason)") }
    }
    let waiting = facts.network.waiting
    line(
      "network", facts.network.status.rawValue + (waiting > 0 ? "; \(String.counted(waiting, "request")) waiting" : ""))
    line(
      "connections",
      "\(String.counted(gauges.clients, "client")), \(gauges.streams > 0 ? String.counted(gauges.streams, "stream") + ", " : "")"
        + "\(String.counted(gauges.tunnels, "tunnel")); upstream \(gauges.busyUpstreams) in use, "
        + "\(gauges.idleUpstreams) kept")
    let total = facts.total
    line("exchanges", "\(total.total): \(total.done) done\(list(total.failed, before: ", "))")
    for wire in HTTPProtocol.allCases where wire.isMultiplexed {
      let counts = facts.statistics.exchanges[wire]
      if counts.client + counts.upstream == 0 { continue }
      line("\(wire.name)", "\(counts.client) of them by clients, \(counts.upstream) with upstreams")
    }
    line("bytes", "\(size(total.bytesIn)) from clients, \(size(total.bytesOut)) to clients")
    let held = state.policy.configuration.limits.heldBodiesBytes
    line(
      "memory",
      "\(size(UInt64(max(0, facts.residentBytes)))); \(size(UInt64(max(0, facts.heldBytes)))) of \(size(UInt64(held))) for bodies that are held"
    )
    if let cache = facts.cache {
      line(
        "cache",
        "\(String.counted(cache.disk.map { max($0.answers, cache.answers) } ?? cache.answers, "answer")), "
          + "\(size(UInt64(cache.bytes))) of \(size(UInt64(cache.limit)))"
          + (cache.disk.map { ", on disk \(size($0.bytes)) of \(size(UInt64($0.limit)))" } ?? "")
          + (cache.requests == 0
            ? "" : "; \(cache.served * 100 / cache.requests) % of \(cache.requests) requests out of it"))
    }
    if let history = facts.history { line("history", text(history, facts.wall)) }
    lines += rules(facts)
    if !facts.warnings.isEmpty { lines += ["", "warnings:"] + facts.warnings.map { "  \($0)" } }
    return lines.joined(separator: "\n") + "\n"
  }

  /// `12.4 MiB of 512.0 MiB in /var/lib/sallyport/history.db, since 12 d 3 h`
  private static func text(_ history: HistoryFacts, _ wall: Int64) -> String {
    let limit = size(UInt64(history.settings.sizeBytes))
    return "\(size(UInt64(max(0, history.bytes)))) of \(limit) in \(history.settings.file)"
      + (history.oldestWall.map { ", the last \(String.duration(seconds: (wall - $0) / 1000))" } ?? "")
      + (history.dropped > 0 ? "; \(String.counted(history.dropped, "exchange")) missing" : "")
      + (history.fault.map { "; \($0)" } ?? "")
  }

  private static func rules(_ facts: AdminFacts) -> [String] {
    let busy = facts.rules.filter { $0.counts.total > 0 }.sorted { $0.counts.total > $1.counts.total }
    if busy.isEmpty { return [] }
    let shown = busy.prefix(mostRules)
    let width = shown.map { ($0.rule?.name ?? "(no rule)").utf8.count }.max() ?? 0
    var lines = ["", "rules:"]
    for (rule, counts) in shown {
      let name = rule?.name ?? "(no rule)"
      let padding = String(repeating: " ", count: width - name.utf8.count)
      lines.append(
        "  \(name)\(padding)  \(counts.total), last \(ago(counts.lastWallMilliseconds, facts.wall))"
          + list(counts.failed, before: "; ") + list(counts.violations, before: "; passed with ")
          + list(counts.reports, before: "; would refuse "))
    }
    if busy.count > mostRules { lines.append("  and \(busy.count - mostRules) more: GET /v1/rules") }
    return lines
  }

  /// `, 3 pin-mismatch, 1 denied`
  private static func list(_ counts: [String: UInt64], before: String) -> String {
    if counts.isEmpty { return "" }
    return before
      + counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.value) \($0.key)" }
      .joined(separator: ", ")
  }

  private static func ago(_ wall: Int64, _ now: Int64) -> String {
    "\(String.duration(seconds: (now - wall) / 1000)) ago"
  }

  /// `1.5 MiB`
  static func size(_ bytes: UInt64) -> String {
    var value = bytes
    var rest: UInt64 = 0
    let units = ["B", "KiB", "MiB", "GiB", "TiB"]
    var unit = 0
    while value >= 1024, unit < units.count - 1 {
      rest = value % 1024 * 10 / 1024
      value /= 1024
      unit += 1
    }
    return unit == 0 ? "\(value) B" : "\(value).\(rest) \(units[unit])"
  }
}
