// What the admin API answers: JSON for programs, pages for people (Accept: text/plain), metrics for Prometheus. Pure: the
// state of the daemon and the answers of the loops come in, bytes go out. The shapes are in sallyport-admin(7).
// Tests: AdminResourcesTests, test_admin.py.

import Bytes
import Policy
import Session
import Transport

/// A page of the admin API.
struct AdminPage {
  let status: Int
  let contentType: String
  let body: String

  static func json(_ value: JSONText, status: Int = 200) -> AdminPage {
    AdminPage(status: status, contentType: "application/json", body: value.text + "\n")
  }

  static func text(_ body: String, status: Int = 200) -> AdminPage {
    AdminPage(status: status, contentType: "text/plain; charset=utf-8", body: body)
  }

  /// Problem details (RFC 9457).
  static func problem(_ status: Int, _ detail: String) -> AdminPage {
    AdminPage(
      status: status, contentType: "application/problem+json",
      body: JSONText.object([("status", .number(status)), ("detail", .string(detail))]).text + "\n")
  }
}

/// What the pages are made of.
struct AdminFacts {
  let state: DaemonState
  let statistics: Statistics
  let heldBytes: Int
  let residentBytes: Int64
  let lostEvents: UInt64
  /// Milliseconds since 1970.
  let wall: Int64

  var warnings: [String] { PinWatch(state.policy).warnings(at: wall / 1000) }
  var uptimeSeconds: Int64 { (wall - state.startedWall) / 1000 }

  /// Of each rule in force, in order, then of requests without a rule, what has been counted.
  var rules: [(rule: Rule?, counts: RuleStatistics)] {
    let all = statistics.rules
    let none = all[Statistics.noRule] ?? RuleStatistics()
    return state.policy.rules.map { ($0, all[$0.name] ?? RuleStatistics()) } + [(nil, none)]
  }

  var total: RuleStatistics {
    statistics.rules.values.reduce(into: RuleStatistics()) { $0.add($1) }
  }
}

enum AdminResources {
  // MARK: GET /v1/status

  static func status(_ facts: AdminFacts) -> JSONText {
    let state = facts.state
    let gauges = facts.statistics.gauges
    let total = facts.total
    return .object([
      ("version", .string(state.version)), ("started", .string(time(state.startedWall))),
      ("uptime_seconds", .number(Int(facts.uptimeSeconds))), ("listen", .array(state.addresses.map { .string($0) })),
      ("workers", .number(state.workers)), ("draining", .boolean(state.isDraining)),
      (
        "policy",
        .object([
          ("rules", .number(state.policy.rules.count)), ("loaded", .string(time(state.loadedWall))),
          ("failure", state.failure.map(failure) ?? .null),
        ])
      ),
      (
        "connections",
        .object([
          ("clients", .number(gauges.clients)), ("tunnels", .number(gauges.tunnels)),
          ("upstream_busy", .number(gauges.busyUpstreams)), ("upstream_idle", .number(gauges.idleUpstreams)),
        ])
      ),
      (
        "exchanges",
        .object([("total", number(total.total)), ("done", number(total.done)), ("failed", counts(total.failed))])
      ),
      (
        "bytes",
        .object([("in", number(facts.statistics.bytesIn)), ("out", number(facts.statistics.bytesOut))])
      ),
      ("held_bytes", .number(facts.heldBytes)), ("resident_bytes", .number(Int(facts.residentBytes))),
      ("violations", counts(total.violations)), ("reports", counts(total.reports)),
      ("warnings", .array(facts.warnings.map { .string($0) })),
    ])
  }

  private static func failure(_ failure: ReloadFailure) -> JSONText {
    .object([("at", .string(time(failure.wall))), ("reasons", .array(failure.reasons.map { .string($0) }))])
  }

  // MARK: GET /v1/rules

  static func rules(_ facts: AdminFacts) -> JSONText {
    .array(
      facts.rules.map { rule, counts in
        .object([
          ("name", rule.map { .string($0.name) } ?? .null),
          ("location", rule.map { .string("\($0.location)") } ?? .null),
          ("action", .string(rule?.action.rawValue ?? facts.state.policy.configuration.proxy.defaultAction.rawValue)),
          ("enforce", .boolean(rule?.enforce ?? true)), ("hits", number(counts.total)), ("done", number(counts.done)),
          ("failed", self.counts(counts.failed)), ("violations", self.counts(counts.violations)),
          ("reports", self.counts(counts.reports)),
          ("last", counts.lastWallMilliseconds > 0 ? .string(time(counts.lastWallMilliseconds)) : .null),
        ])
      })
  }

  // MARK: GET /v1/pins

  static func pins(_ facts: AdminFacts) -> JSONText {
    let now = facts.wall / 1000
    return .array(
      PinWatch(facts.state.policy).sets.map { watched in
        let set = watched.set
        return .object([
          ("name", .string(set.name)), ("mode", .string(set.mode.rawValue)), ("enforce", .boolean(set.enforce)),
          ("rules", .array(watched.rules.map { .string($0) })),
          ("spki", .array(set.keys.map { .string($0.description) })),
          ("expires", set.expires.map { .string(time($0 * 1000)) } ?? .null),
          ("days_left", set.expires.map { .number(Int(PinWatch.daysLeft($0, now))) } ?? .null),
          (
            "certificates",
            .array(
              set.certificates.map { certificate in
                .object([
                  ("subject", .string(certificate.subject)), ("pin", .string(certificate.publicKeyPin.description)),
                  ("expires", .string(time(certificate.notAfter * 1000))),
                  ("days_left", .number(Int(PinWatch.daysLeft(certificate.notAfter, now)))),
                ])
              })
          ),
        ])
      })
  }

  // MARK: GET /v1/connections

  static func connections(_ open: [OpenConnection]) -> JSONText {
    .array(
      open.map { connection in
        .object([
          ("client", .string(text(connection.client))), ("state", .string(connection.state.rawValue)),
          ("request", connection.text.isEmpty ? .null : .string(connection.text)),
          ("ref", connection.reference.map { .string($0.text) } ?? .null),
          ("rule", connection.rule.map { .string($0) } ?? .null),
          ("upstream", connection.upstream.map { .string(text($0)) } ?? .null),
          ("bytes_in", number(connection.bytesIn)), ("bytes_out", number(connection.bytesOut)),
          ("age_ms", connection.ageMilliseconds.map { .number(Int($0)) } ?? .null),
        ])
      })
  }

  // MARK: GET /v1/decisions/REF

  /// The line of the log; nil where no loop remembers the exchange.
  static func decision(_ found: RecentDecision?, _ format: LineFormat) -> String? {
    guard let found else { return nil }
    var text = ByteBuffer()
    text.append(found.text)
    var line = ByteBuffer()
    AccessLine(
      record: found.record, rule: found.rule, client: found.client, totalMilliseconds: found.totalMilliseconds
    ).write(format, text: text, to: &line)
    return line.bytes.string
  }

  // MARK: Parts

  static func time(_ wall: Int64) -> String {
    var text = ByteBuffer()
    text.appendTimestamp(wall)
    return text.bytes.string
  }

  static func text(_ address: SocketAddress) -> String {
    var text = ByteBuffer()
    text.append(address)
    return text.bytes.string
  }

  private static func number(_ value: UInt64) -> JSONText { .number(Int(clamping: value)) }

  private static func counts(_ counts: [String: UInt64]) -> JSONText {
    .object(counts.sorted { $0.key < $1.key }.map { ($0.key, number($0.value)) })
  }
}

extension Reference {
  var text: String {
    var buffer = ByteBuffer()
    write(to: &buffer)
    return buffer.bytes.string
  }
}
