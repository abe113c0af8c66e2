// The data of `sallyport top`: the last answer for each resource, and the changes since the one before. Each answer
// replaces the last, so memory does not grow with time or load. Tests: TopDataTests.

/// The resources that a view needs from the daemon.
public enum TopResource: String, CaseIterable, Sendable {
  case status, asks, rules, connections, decisions, refusals

  /// The exchanges in one sample of the traffic: enough for the shares at any load, and one page.
  static let sampleSize = 300
  /// How many of the daemon's remembered refusals are listed.
  static let refusalsListed = 200

  public var path: String {
    switch self {
    case .status: "/v1/status"
    case .asks: "/v1/asks"
    case .rules: "/v1/rules"
    case .connections: "/v1/connections"
    case .decisions: "/v1/decisions?limit=\(Self.sampleSize)"
    case .refusals: "/v1/decisions?refused=true&limit=\(Self.refusalsListed)"
    }
  }
}

/// A moment by both clocks, in milliseconds.
public struct TopMoment: Equatable, Sendable {
  /// For measuring intervals.
  let monotonic: Int64
  /// Since 1970.
  let wall: Int64

  public init(monotonic: Int64, wall: Int64) {
    self.monotonic = monotonic
    self.wall = wall
  }
}

struct TopData: Sendable {
  /// Rates of all traffic, per second.
  struct Rates: Equatable, Sendable {
    var requests = 0.0
    var refusals = 0.0
    var bytes = 0.0
  }

  /// The most connections that are shown: more rows than a person reads, and quick to sort.
  static let mostConnections = 2000

  private(set) var now = TopMoment(monotonic: 0, wall: 0)
  private(set) var status = JSONValue.null
  private(set) var rates = Rates()
  private(set) var rules: [JSONValue] = []
  /// Requests per second, by position in `rules`.
  private(set) var ruleRates: [Double] = []
  private(set) var connections: [JSONValue] = []
  /// Bytes per second of what is under way, by reference.
  private(set) var byteRates: [String: Double] = [:]
  private(set) var traffic = Traffic()
  private(set) var refusals: [JSONValue] = []
  private(set) var asks = JSONValue.null
  /// This daemon never asks.
  private(set) var hasNoAsks = false

  private var counters: (total: Double, refused: Double, bytes: Double, at: Int64)?
  private var ruleHits: (hits: [String: Double], at: Int64)?
  private var bytes: (known: [String: Double], before: [String: Double], at: Int64)?
  private var sampled: (total: Double, at: Int64)?

  /// The daemon was restarted or away: its counters cannot be compared with the previous ones.
  mutating func forget() { self = TopData() }

  mutating func take(_ resource: TopResource, _ value: JSONValue, at moment: TopMoment) {
    now = moment
    switch resource {
    case .status: takeStatus(value)
    case .asks:
      asks = value
      hasNoAsks = false
    case .rules: takeRules(value.elements)
    case .connections: takeConnections(value.elements)
    case .decisions: takeDecisions(value.elements)
    case .refusals: refusals = value.elements
    }
  }

  mutating func noteNoAsks() {
    asks = .null
    hasNoAsks = true
  }

  /// The questions that wait for an answer.
  var questions: [JSONValue] { asks["asks"].elements }

  // MARK: Counters

  private mutating func takeStatus(_ value: JSONValue) {
    let exchanges = value["exchanges"]
    let total = exchanges["total"].number ?? 0
    let refused = Self.refusals(in: exchanges["failed"])
    let bytes = (value["bytes"]["in"].number ?? 0) + (value["bytes"]["out"].number ?? 0)
    if let counters, total >= counters.total, value["started"] == status["started"], now.monotonic > counters.at {
      let seconds = Double(now.monotonic - counters.at) / 1000
      rates = Rates(
        requests: (total - counters.total) / seconds, refusals: max(0, refused - counters.refused) / seconds,
        bytes: max(0, bytes - counters.bytes) / seconds)
    } else {
      rates = Rates()
      sampled = nil
      ruleHits = nil
    }
    counters = (total, refused, bytes, now.monotonic)
    status = value
  }

  private mutating func takeRules(_ value: [JSONValue]) {
    var hits: [String: Double] = [:]
    for rule in value { hits[Self.name(rule)] = rule["hits"].number ?? 0 }
    let before = ruleHits
    ruleRates = value.map { rule in
      let name = Self.name(rule)
      guard let before, let earlier = before.hits[name], let count = hits[name], now.monotonic > before.at else {
        return 0
      }
      return max(0, count - earlier) * 1000 / Double(now.monotonic - before.at)
    }
    ruleHits = (hits, now.monotonic)
    rules = value
  }

  private mutating func takeConnections(_ value: [JSONValue]) {
    connections = Array(value.prefix(Self.mostConnections))
    var known: [String: Double] = [:]
    byteRates = [:]
    for connection in connections {
      guard let reference = connection["ref"].text else { continue }
      let count = Self.bytes(connection)
      known[reference] = count
      guard let bytes, now.monotonic > bytes.at else { continue }
      byteRates[reference] = max(0, count - (bytes.known[reference] ?? 0)) * 1000 / Double(now.monotonic - bytes.at)
    }
    bytes = (known, bytes?.known ?? [:], now.monotonic)
  }

  private mutating func takeDecisions(_ value: [JSONValue]) {
    let total = counters?.total ?? 0
    let elapsed = sampled.map { now.monotonic - $0.at }
    let ended = sampled.map { max(0, total - $0.total) }
    traffic.take(
      connections, byteRates: byteRates, decisions: value, known: { bytes?.known[$0] ?? bytes?.before[$0] ?? 0 },
      milliseconds: elapsed, ended: ended, wall: now.wall)
    sampled = (total, now.monotonic)
  }

  // MARK: Words of the API

  static func bytes(_ value: JSONValue) -> Double { (value["bytes_in"].number ?? 0) + (value["bytes_out"].number ?? 0) }

  static func name(_ rule: JSONValue) -> String { rule["name"].text ?? "(no rule)" }

  /// From counts by outcome, the number that the proxy refused.
  static func refusals(in failed: JSONValue) -> Double {
    failed.members.reduce(0) { Outcomes.isRefusal($1.name) ? $0 + ($1.value.number ?? 0) : $0 }
  }

  /// `alice`, `www-data/nginx`, or the address if the client is unknown.
  static func who(_ value: JSONValue) -> String {
    let user = value["user"].text ?? value["proxy_user"].text
    guard let user else { return address(value["client"].text ?? "-") }
    guard let unit = value["unit"].text, unit.hasSuffix(".service"), !unit.hasPrefix("user@") else { return user }
    return "\(user)/\(unit.dropLast(".service".count))"
  }

  /// The part of `127.0.0.1:80` before the port.
  private static func address(_ text: String) -> String {
    guard let colon = text.lastIndex(of: ":") else { return text }
    return String(text[..<colon])
  }

  static func program(_ value: JSONValue) -> String {
    value["program"].text.map { path in path.split(separator: "/").last.map(String.init) ?? path } ?? "-"
  }

  /// `a.example` for `https://a.example/path` and `a.example:443`; with its port if that is neither 80 nor 443.
  static func host(ofTarget target: String) -> String {
    var rest = target[...]
    if let colon = target.firstRange(of: "://") { rest = target[colon.upperBound...].prefix { $0 != "/" && $0 != "?" } }
    for port in [":443", ":80"] where rest.hasSuffix(port) { rest = rest.dropLast(port.count) }
    return rest.isEmpty ? "-" : String(rest)
  }

  static func host(_ connection: JSONValue) -> String {
    guard let host = connection["host"].text else { return "-" }
    let port = connection["port"].whole ?? 443
    return port == 443 || port == 80 ? host : "\(host):\(port)"
  }
}

/// The outcomes in the log, as far as a view distinguishes them.
enum Outcomes {
  /// The outcomes that are not refusals: the destination could not be reached, or one side left. Session decides this
  /// by `ExchangeRecord.isRefusal`, and a test compares the two.
  static let failures: Set<String> = [
    "name-not-found", "name-failed", "name-timeout", "connection-refused", "connection-timeout", "connection-failed",
    "not-reachable", "connection-closed", "response-timeout", "exchange-timeout", "tls-timeout", "incomplete-response",
    "client-left", "upstream-broke-off", "malformed-body", "stalled", "tunnel-idle", "shut-down", "displaced",
  ]

  static func isRefusal(_ outcome: String) -> Bool { outcome != "done" && !failures.contains(outcome) }
}
