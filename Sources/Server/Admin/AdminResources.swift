// The pages of the admin API: JSON for programs, text for people (Accept: text/plain), metrics for Prometheus. Pure:
// the state of the daemon and the answers of the loops go in, bytes come out. The formats are in sallyport-admin(7).
// Tests: AdminResourcesTests, test_admin.py.

import Bytes
import Policy
import Reachability
import Session
import Transport

/// A page of the admin API.
struct AdminPage {
  enum Body {
    case text(String)
    case bytes([UInt8])
    case metrics(AdminFacts)
  }

  let status: Int
  let contentType: String
  let body: Body
  /// Further fields of the head.
  var fields: [(String, String)] = []

  static func json(_ value: JSONText, status: Int = 200) -> AdminPage {
    AdminPage(status: status, contentType: "application/json", body: .text(value.text + "\n"))
  }

  static func text(_ body: String, status: Int = 200) -> AdminPage {
    AdminPage(status: status, contentType: "text/plain; charset=utf-8", body: .text(body))
  }

  static func html(_ body: String, status: Int = 200) -> AdminPage {
    AdminPage(status: status, contentType: "text/html; charset=utf-8", body: .text(body))
  }

  /// Problem details (RFC 9457).
  static func problem(_ status: Int, _ detail: String) -> AdminPage {
    AdminPage(
      status: status, contentType: "application/problem+json",
      body: .text(JSONText.object([("status", .number(status)), ("detail", .string(detail))]).text + "\n"))
  }

  static func metrics(_ facts: AdminFacts) -> AdminPage {
    AdminPage(status: 200, contentType: MetricsPage.contentType, body: .metrics(facts))
  }

  func writeBody(to out: inout ByteBuffer) {
    switch body {
    case .text(let text): out.append(text)
    case .bytes(let bytes): out.append(bytes)
    case .metrics(let facts): MetricsPage.write(facts, to: &out)
    }
  }
}

/// The content of the pages.
struct AdminFacts {
  let state: DaemonState
  let statistics: Statistics
  let heldBytes: Int
  let residentBytes: Int64
  let lostEvents: UInt64
  /// Milliseconds since 1970.
  let wall: Int64
  /// Milliseconds of the clock that nobody sets.
  let monotonic: Int64
  var network = NetworkFacts()
  var pinsSeen: [WatchedPin: PinSighting] = [:]
  /// nil: nothing is stored.
  var cache: CacheFacts? = nil
  /// nil: no history.
  var history: HistoryFacts? = nil
  /// See `OperatorDesk.fault`.
  var deskFault: String? = nil

  var pinWatch: PinWatch { PinWatch(state.policy, seen: pinsSeen, authorityEnds: state.authorityEnds) }
  var warnings: [String] { pinWatch.warnings(at: wall / 1000) + [deskFault].compactMap { $0 } }
  var uptimeSeconds: Int64 { (monotonic - state.startedMonotonic) / 1000 }

  /// The counts of each rule in force, in order, then of requests without a rule.
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
      ("metrics", state.metricsAddress.map { .string($0) } ?? .null),
      ("web", state.webAddress.map { .string($0) } ?? .null),
      ("proxy_credentials", .boolean(!state.policy.configuration.proxy.credentials.isEmpty)),
      ("authority", .string(state.policy.configuration.authority.directory)),
      ("workers", .number(state.workers)), ("draining", .boolean(state.isDraining)),
      ("reachability", .string(facts.network.status.rawValue)), ("waiting", .number(facts.network.waiting)),
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
          ("clients", .number(gauges.clients)), ("streams", .number(gauges.streams)),
          ("tunnels", .number(gauges.tunnels)),
          ("upstream_busy", .number(gauges.busyUpstreams)), ("upstream_idle", .number(gauges.idleUpstreams)),
        ])
      ),
      (
        "exchanges",
        .object([
          ("total", number(total.total)), ("done", number(total.done)), ("failed", counts(total.failed)),
          ("http2", number(facts.statistics.exchanges[.http2].client)),
          ("http2_upstream", number(facts.statistics.exchanges[.http2].upstream)),
        ])
      ),
      (
        "bytes",
        .object([("in", number(total.bytesIn)), ("out", number(total.bytesOut))])
      ),
      ("held_bytes", .number(facts.heldBytes)), ("resident_bytes", .number(Int(facts.residentBytes))),
      ("cache", facts.cache.map(CachePages.status) ?? .null),
      ("history", facts.history.map(history) ?? .null),
      ("violations", counts(total.violations)), ("reports", counts(total.reports)),
      ("warnings", .array(facts.warnings.map { .string($0) })),
    ])
  }

  private static func history(_ history: HistoryFacts) -> JSONText {
    .object([
      ("file", .string(history.settings.file)), ("written", number(history.written)),
      ("dropped", number(history.dropped)), ("bytes", .number(Int(history.bytes))),
      ("oldest", history.oldestWall.map { .string(time($0)) } ?? .null),
      ("fault", history.fault.map { .string($0) } ?? .null),
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
    let watch = facts.pinWatch
    return .array(
      watch.sets.map { watched in
        let set = watched.set
        return .object([
          ("name", .string(set.name)), ("mode", .string(set.mode.rawValue)), ("enforce", .boolean(set.enforce)),
          ("rules", .array(watched.rules.map { .string($0) })),
          ("expires", set.expires.map { .string(time($0 * 1000)) } ?? .null),
          ("days_left", set.expires.map { .number(Int(PinWatch.daysLeft($0, now))) } ?? .null),
          (
            "spki",
            .array(
              set.keys.map { key in
                .object([("pin", .string(key.description))] + sighting(watch.sighting(of: key, in: set), now))
              })
          ),
          (
            "certificates",
            .array(
              set.certificates.map { certificate in
                .object(
                  [
                    ("subject", .string(certificate.subject)), ("pin", .string(certificate.publicKeyPin.description)),
                    ("expires", .string(time(certificate.notAfter * 1000))),
                    ("days_left", .number(Int(PinWatch.daysLeft(certificate.notAfter, now)))),
                  ] + sighting(watch.sighting(of: certificate, in: set), now))
              })
          ),
        ])
      })
  }

  /// When a chain with the pin was last seen, and which of its certificates had it.
  private static func sighting(_ sighting: PinSighting?, _ now: Int64) -> [(String, JSONText)] {
    guard let sighting else { return [("last_seen", .null), ("seen_on", .null)] }
    let match = sighting.match
    return [
      ("last_seen", .string(time(sighting.wall))),
      (
        "seen_on",
        .object([
          ("place", .string(sighting.place)), ("subject", .string(match.subject)),
          ("expires", .string(time(match.notAfter * 1000))),
          ("days_left", .number(Int(PinWatch.daysLeft(match.notAfter, now)))),
          ("superseded", .boolean(sighting.isSuperseded)),
        ])
      ),
    ]
  }

  // MARK: GET /v1/connections

  static func connections(_ open: [OpenConnection]) -> JSONText {
    .array(open.map { .object(request($0) + destination($0) + progress($0)) })
  }

  private static func request(_ connection: OpenConnection) -> [(String, JSONText)] {
    let client = connection.user
    return [
      ("client", .string(text(connection.client))), ("state", .string(connection.state.rawValue)),
      ("request", connection.text.isEmpty ? .null : .string(connection.text)),
      ("ref", connection.reference.map { .string($0.text) } ?? .null), ("rule", text(connection.rule)),
      ("user", text(client.map { $0.user ?? "\($0.userID)" })), ("uid", client.flatMap(userID) ?? .null),
      ("unit", text(client?.unit)), ("program", text(connection.program)),
    ]
  }

  private static func destination(_ connection: OpenConnection) -> [(String, JSONText)] {
    let destination = connection.destination
    return [
      ("host", text(destination?.host)), ("port", destination.map { .number(Int($0.port)) } ?? .null),
      ("protocol", text(connection.wire.rawValue)),
      ("decision", text(connection.decision?.verdict.rawValue)),
      ("reason", text(connection.decision?.reason.rawValue)),
      ("upstream", text(connection.upstream.map { text($0) })),
      ("upstream_protocol", text(connection.upstreamWire?.rawValue)),
    ]
  }

  private static func progress(_ connection: OpenConnection) -> [(String, JSONText)] {
    [
      ("bytes_in", number(connection.bytesIn)), ("bytes_out", number(connection.bytesOut)),
      ("age_ms", connection.ageMilliseconds.map { .number(Int($0)) } ?? .null),
    ]
  }

  private static func text(_ word: String?) -> JSONText { word.map { .string($0) } ?? .null }

  /// nil if it is unknown which user it is.
  private static func userID(_ client: LocalClient) -> JSONText? {
    client.isUserInDoubt && client.userID == LocalClient.noUser ? nil : .number(Int(client.userID))
  }

  // MARK: GET /v1/dashboard

  /// `user` and the rest: of the session that asks; nil for a client of the socket.
  static func dashboard(_ address: String, sessions: Int, user: UInt32?, acts: Bool?, until wall: Int64?) -> JSONText {
    .object([
      ("web", .string(address)), ("sessions", .number(sessions)),
      ("user", user.map { .number(Int($0)) } ?? .null), ("act", acts.map { .boolean($0) } ?? .null),
      ("until", wall.map { .string(time($0)) } ?? .null),
    ])
  }

  // MARK: GET /v1/reachability

  static func reachability(_ report: ReachabilityReport) -> JSONText {
    var members = machine(report)
    members += [
      (
        "routes",
        .array(
          report.routes.map { route in
            .object([
              ("name", .string(route.name)), ("via", .string(route.via)),
              ("dead_for_ms", route.deadForMilliseconds.map { .number(Int($0)) } ?? .null),
              ("unusable", route.unusable.map { .string($0) } ?? .null),
            ])
          })
      ),
      ("waiting", .number(report.waiting)),
    ]
    if let destination = report.destination { members.append(("destination", self.destination(destination))) }
    return .object(members)
  }

  /// The members about the machine, here and in the event of a change.
  static func machine(_ report: ReachabilityReport) -> [(String, JSONText)] {
    [
      ("status", .string(report.status.rawValue)), ("ipv4", path(report.ipv4)), ("ipv6", path(report.ipv6)),
      (
        "interfaces",
        .array(
          report.interfaces.map { interface in
            .object([
              ("name", .string(interface.name)), ("kind", .string(interface.kind.rawValue)),
              ("up", .boolean(interface.isUp)), ("carrier", .boolean(interface.hasCarrier)),
              ("addresses", .array(interface.addresses.map { .string($0) })),
            ])
          })
      ),
    ]
  }

  private static func path(_ path: ReachabilityReport.Path) -> JSONText {
    .object([
      ("status", .string(path.status.rawValue)), ("interface", path.interface.map { .string($0) } ?? .null),
      ("gateway", path.gateway.map { .string($0) } ?? .null),
    ])
  }

  private static func destination(_ destination: ReachabilityReport.Destination) -> JSONText {
    .object([
      ("host", .string(destination.host)), ("status", .string(destination.status.rawValue)),
      ("error", destination.error.map { .string($0) } ?? .null),
      (
        "addresses",
        .array(
          destination.addresses.map { address in
            .object([
              ("address", .string(address.address)), ("status", .string(address.status.rawValue)),
              ("interface", address.interface.map { .string($0) } ?? .null),
              ("source", address.source.map { .string($0) } ?? .null),
            ])
          })
      ),
    ])
  }

  // MARK: GET /v1/decisions

  /// How many there are without a limit in the query, and the most: a page that a program reads once a second costs
  /// little.
  static let usualDecisions = 100
  static let mostDecisions = 1000

  /// Lines of the log, newest first, with all their members.
  static func decisions(_ found: [RecentDecision]) -> String {
    var out = ByteBuffer()
    out.append("[")
    for (index, decision) in found.enumerated() {
      if index > 0 { out.append(",\n") }
      decision.line.writeMembers(decision.record, decision.text.span, to: &out)
      out.append("}")
    }
    out.append("]\n")
    return out.bytes.string
  }

  // MARK: GET /v1/decisions/REF

  /// How many rules before the deciding one get a reason why they did not match: a page.
  static let mostPassedOver = 32

  /// The line of the log, and what `explain` prints about the request by the policy that decided it; nil if no loop
  /// remembers the exchange.
  static func decision(_ found: RecentDecision?, _ format: LineFormat) -> String? {
    guard let found else { return nil }
    var text = ByteBuffer()
    text.append(found.text)
    let line = found.line
    let explanation = explanation(of: found)
    var out = ByteBuffer()
    if format == .json {
      line.writeMembers(found.record, found.text.span, to: &out)
      out.append(",\"explanation\":")
      out.append(explanation?.value.text ?? "null")
      out.append(",\"allow\":")
      if let rule = narrowestRule(for: found) { out.append(json: rule) } else { out.append("null") }
      out.append("}\n")
    } else {
      line.write(found.record, format, text: text, to: &out)
      if let explanation { out.append("\n\(explanation)") }
      // The author of a rule that denies meant it.
      if found.record.ruled.decision?.reason != .ruleDenies, let rule = narrowestRule(for: found) {
        out.append("\nThis rule would allow it:\n\(rule)")
      }
    }
    return out.bytes.string
  }

  /// The text of a rule that would allow what was refused; nil: no rule would, or it was not refused.
  private static func narrowestRule(for found: RecentDecision) -> String? {
    guard let decision = found.record.ruled.decision, decision.verdict == .deny, decision.isMendable else { return nil }
    let connect = decision.rule.flatMap { found.policy.rules[$0].connect }
    guard let request = AskedRequest(found) else { return nil }
    let url = found.text.span.extracting(found.record.text.target).string
    guard case .success(let named) = NamedRequest.read(method: request.method, url: url) else { return nil }
    return request.rule(connect: connect, path: request.isTunnel ? nil : named.path).map {
      decision.placed($0.text, before: found.rule)
    }
  }

  /// nil if no rule was asked, because the request could not be read or was for the proxy itself; or if only its
  /// beginning is known.
  private static func explanation(of found: RecentDecision) -> Explanation? {
    let record = found.record
    guard record.ruled.decision != nil, !record.text.target.isEmpty, !record.text.isCut else { return nil }
    let text = found.text.span
    let request = NamedRequest.read(
      method: text.extracting(record.text.method).string, url: text.extracting(record.text.target).string)
    guard case .success(let request) = request else { return nil }
    var explanation = Explanation(
      by: found.policy, of: request, Asker(found.sender, link: record.ruled.link, wall: record.times.begunWall),
      atMost: mostPassedOver)
    switch record.ruled.decision?.reason {
    case .temporaryDeny:
      explanation.note = "An operator\(operatorText(record)) denied such requests for a time, before any rule."
    case .temporaryAllow:
      explanation.note = "An operator\(operatorText(record)) allowed such requests for a time, before any rule."
    default: break
    }
    return explanation
  }

  private static func operatorText(_ record: borrowing ExchangeRecord) -> String {
    record.ruled.answeredBy.map { " (\($0))" } ?? ""
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
