// What an event loop counts. Each loop has its own counters and is the only one to touch them. On request it gives a
// copy away, and the copies are added up. Counters only grow, across reloads too: the counts of a rule are kept by its
// name.
// Tests: StatisticsTests.

import Bytes
import Policy
import Session
import Transport

/// The counts of one rule, or of requests that no rule matched.
struct RuleStatistics: Sendable, Equatable {
  /// Exchanges that ended well.
  var done: UInt64 = 0
  /// Bytes from clients, and bytes to them.
  var bytesIn: UInt64 = 0
  var bytesOut: UInt64 = 0
  /// Exchanges that failed, by the word in the log.
  var failed: [String: UInt64] = [:]
  /// Responses and requests that passed although they violate the rule, and what a rule or pins that only report would
  /// have refused, by the word in the log.
  var violations: [String: UInt64] = [:]
  var reports: [String: UInt64] = [:]
  /// When the last one ended, in milliseconds since 1970; 0 if there was none.
  var lastWallMilliseconds: Int64 = 0

  var total: UInt64 { done + failed.values.reduce(0, +) }

  fileprivate var inOwnStorage: RuleStatistics {
    var copy = self
    if !failed.isEmpty { copy.failed = failed.mapValues { $0 } }
    if !violations.isEmpty { copy.violations = violations.mapValues { $0 } }
    if !reports.isEmpty { copy.reports = reports.mapValues { $0 } }
    return copy
  }

  mutating func add(_ other: RuleStatistics) {
    done += other.done
    bytesIn += other.bytesIn
    bytesOut += other.bytesOut
    failed.merge(other.failed, uniquingKeysWith: +)
    violations.merge(other.violations, uniquingKeysWith: +)
    reports.merge(other.reports, uniquingKeysWith: +)
    lastWallMilliseconds = max(lastWallMilliseconds, other.lastWallMilliseconds)
  }
}

extension NameAnswer {
  /// The word it is counted under.
  var token: String {
    switch self {
    case .addresses: "found"
    case .notFound: "not-found"
    case .failed: "failed"
    case .timedOut: "timed-out"
    }
  }
}

/// The counters of one loop, or of all.
struct Statistics: Sendable {
  /// Of the rules in force, in their order; the first entry counts requests that no rule matched.
  private var inForce: [RuleStatistics] = []
  private var names: [String] = []
  /// Of rules that were in force before.
  private var retired: [String: RuleStatistics] = [:]
  /// How long requests took from head to end, and how long tunnels lasted.
  private(set) var requests = Histogram(.exchanges)
  private(set) var tunnels = Histogram(.tunnels)
  /// How long a turn of the loop took: all others waited so long.
  private(set) var turns = Histogram(.exchanges)
  private(set) var retries: UInt64 = 0
  var clientsAccepted: UInt64 = 0
  /// Clients whose connection went to another client that held less than its share, and connections that could not even
  /// wait.
  var clientsDisplaced: UInt64 = 0
  /// HTTP/2 connections that ended because of a fault of the peer.
  var http2Faults: UInt64 = 0
  private(set) var exchanges = WireCounts()
  var clientsRefused: UInt64 = 0
  var upstreamsOpened: UInt64 = 0
  var upstreamsReused: UInt64 = 0
  var handshakes: UInt64 = 0
  var resumptions: UInt64 = 0
  /// Look-ups of names by their outcome, including those answered from the cache.
  private(set) var lookUps: [String: UInt64] = [:]

  /// The state of the moment, filled in when a copy is asked for.
  var gauges = Gauges()

  /// Requests and tunnels, by what clients and upstreams spoke.
  struct WireCounts: Sendable, Equatable {
    private var http2 = Sides()
    private var http11 = Sides()

    subscript(wire: HTTPProtocol) -> Sides {
      get {
        switch wire {
        case .http2: http2
        case .http11: http11
        }
      }
      set {
        switch wire {
        case .http2: http2 = newValue
        case .http11: http11 = newValue
        }
      }
    }

    mutating func add(_ other: WireCounts) {
      for wire in HTTPProtocol.allCases { self[wire].add(other[wire]) }
    }
  }

  /// Exchanges as each side sees them: one without an upstream counts on one side only.
  struct Sides: Sendable, Equatable {
    var client: UInt64 = 0
    var upstream: UInt64 = 0

    mutating func add(_ other: Sides) {
      client += other.client
      upstream += other.upstream
    }
  }

  struct Gauges: Sendable, Equatable {
    var clients = 0
    var tunnels = 0
    var idleUpstreams = 0
    /// Open requests on HTTP/2 connections.
    var streams = 0
    var busyUpstreams = 0
  }

  init(_ policy: Policy) { take(policy) }

  /// A copy that shares no storage with the running counters. Otherwise the next request would find them shared, and
  /// copy them.
  var inOwnStorage: Statistics {
    var copy = self
    copy.inForce = inForce.map(\.inOwnStorage)
    copy.retired = retired.mapValues(\.inOwnStorage)
    copy.lookUps = lookUps.mapValues { $0 }
    return copy
  }

  /// From here on, exchanges count for the rules of `policy`.
  mutating func take(_ policy: Policy) {
    for (name, counts) in zip(names, inForce) { retired[name, default: RuleStatistics()].add(counts) }
    names = [Self.noRule] + policy.rules.map(\.name)
    inForce = names.map { retired.removeValue(forKey: $0) ?? RuleStatistics() }
  }

  /// Stands for the name of a rule if none matched. No rule has this name.
  static let noRule = ""

  mutating func note(_ record: borrowing ExchangeRecord, rule name: String?, isTunnel: Bool, microseconds: Int64) {
    let index = record.ruled.decision?.rule.map { $0 + 1 } ?? 0
    if index < names.count, names[index] == name ?? Self.noRule {
      Self.note(record, in: &inForce[index])
    } else {
      // It began under a policy that is no longer in force.
      Self.note(record, in: &retired[name ?? Self.noRule, default: RuleStatistics()])
    }
    if isTunnel { tunnels.note(microseconds: microseconds) } else { requests.note(microseconds: microseconds) }
    if record.way.isRetried { retries += 1 }
    exchanges[record.sender.wire].client += 1
    if let wire = record.way.upstreamWire { exchanges[wire].upstream += 1 }
  }

  private static func note(_ record: borrowing ExchangeRecord, in counts: inout RuleStatistics) {
    if let token = record.outcome.token { counts.failed[token, default: 0] += 1 } else { counts.done += 1 }
    if let violation = record.answer.violation { counts.violations[violation.token.description, default: 0] += 1 }
    if let report = record.found.report { counts.reports[report.token.description, default: 0] += 1 }
    counts.bytesIn += record.traffic.bytesIn
    counts.bytesOut += record.traffic.bytesOut
    counts.lastWallMilliseconds = record.times.begunWall
  }

  mutating func note(_ answer: NameAnswer) { lookUps[answer.token, default: 0] += 1 }

  mutating func noteTurn(microseconds: Int64) { turns.note(microseconds: microseconds) }

  /// Every name with its counts, in no order.
  var rules: [String: RuleStatistics] {
    var all = retired
    for (name, counts) in zip(names, inForce) { all[name, default: RuleStatistics()].add(counts) }
    return all
  }

  /// The sum over loops.
  mutating func add(_ other: Statistics) {
    for (name, counts) in other.rules { retired[name, default: RuleStatistics()].add(counts) }
    requests.add(other.requests)
    tunnels.add(other.tunnels)
    turns.add(other.turns)
    retries += other.retries
    clientsAccepted += other.clientsAccepted
    clientsDisplaced += other.clientsDisplaced
    http2Faults += other.http2Faults
    exchanges.add(other.exchanges)
    clientsRefused += other.clientsRefused
    upstreamsOpened += other.upstreamsOpened
    upstreamsReused += other.upstreamsReused
    handshakes += other.handshakes
    resumptions += other.resumptions
    lookUps.merge(other.lookUps, uniquingKeysWith: +)
    gauges.clients += other.gauges.clients
    gauges.tunnels += other.gauges.tunnels
    gauges.idleUpstreams += other.gauges.idleUpstreams
    gauges.streams += other.gauges.streams
    gauges.busyUpstreams += other.gauges.busyUpstreams
  }
}
