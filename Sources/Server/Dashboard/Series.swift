// The last hour in samples, for the charts of the dashboard: the counts of each ten seconds. The daemon's own thread
// keeps them, and only if [admin] has `web`. Pure: the counters of the loops are handed in. Tests: SeriesTests,
// test_dashboard.py.

import Policy
import Session

/// The counters that samples are made from, as they stand at one moment.
struct SeriesCounters: Sendable {
  var requests: UInt64 = 0
  var refused: UInt64 = 0
  private(set) var failed: UInt64 = 0
  private(set) var bytesIn: UInt64 = 0
  private(set) var bytesOut: UInt64 = 0
  var cacheHits: UInt64 = 0
  private(set) var cacheMisses: UInt64 = 0
  /// Refusals by the name of the rule.
  var refusals: [String: UInt64] = [:]
  var latency = Histogram(.exchanges)
  private(set) var connections = 0
  private(set) var tunnels = 0

  init() {}

  init(_ statistics: Statistics, cache: CacheFacts?) {
    for (name, counts) in statistics.rules {
      requests += counts.total
      bytesIn += counts.bytesIn
      bytesOut += counts.bytesOut
      for (token, count) in counts.failed {
        if Self.refusingTokens.contains(token) {
          refused += count
          refusals[name, default: 0] += count
        } else {
          failed += count
        }
      }
    }
    latency = statistics.requests
    connections = statistics.gauges.clients
    tunnels = statistics.gauges.tunnels
    if let cache {
      cacheHits = cache.served
      cacheMisses = cache.requests - cache.served
    }
  }

  /// Refusals by the proxy. The others are about unreachable destinations, clients that leave, and the like.
  private static let refusingTokens = Set(
    Problem.Kind.allCases.filter { !$0.isAboutReachability }.map(\.token.description))
}

/// What happened in one interval, and what was open at its end.
struct SeriesSample: Sendable, Equatable {
  /// The end of the interval, in milliseconds since 1970.
  fileprivate(set) var wall: Int64
  fileprivate(set) var requests: UInt64 = 0
  fileprivate(set) var refused: UInt64 = 0
  fileprivate(set) var failed: UInt64 = 0
  fileprivate(set) var bytesIn: UInt64 = 0
  fileprivate(set) var bytesOut: UInt64 = 0
  fileprivate(set) var cacheHits: UInt64 = 0
  fileprivate(set) var cacheMisses: UInt64 = 0
  /// The most microseconds that half, nine tenths and 99 of 100 requests took; nil if there were none.
  fileprivate(set) var p50: Int64? = nil
  fileprivate(set) var p90: Int64? = nil
  fileprivate(set) var p99: Int64? = nil
  fileprivate(set) var connections = 0
  fileprivate(set) var tunnels = 0
  /// Refusals of the rules that refused most, and of all others together.
  fileprivate(set) var refusals: [String: UInt64] = [:]
  fileprivate(set) var otherRefusals: UInt64 = 0
}

struct Series: Sendable {
  /// The time between two samples, in milliseconds. A sample costs a loop as much as a scrape.
  static let intervalMilliseconds: Int64 = 10_000
  /// An hour of them.
  static let mostSamples = 360
  /// How many rules have separate refusal counts in a sample, and lines in a chart: a person cannot read more.
  static let mostRules = 5
  /// The number that stands for these rounds. No inquiry has it.
  static let inquiry = UInt64.max

  /// On the monotonic clock.
  private(set) var due: Int64
  private var awaited: Set<Int> = []
  private var sum: Statistics? = nil
  private var previous: SeriesCounters? = nil
  /// A ring: once it is full, the oldest is at `next`.
  private var ring: [SeriesSample] = []
  private var next = 0

  init(now: Int64) { due = now }

  /// Whether the loops are to be asked now.
  mutating func begins(now: Int64, _ workers: Set<Int>) -> Bool {
    guard now >= due else { return false }
    // After a suspension there is one sample, not one for each interval that passed.
    due = now + Self.intervalMilliseconds
    // Loops that have not yet answered the last question are asked no other.
    if !awaited.isEmpty { return false }
    awaited = workers
    sum = nil
    return !workers.isEmpty
  }

  /// A loop has answered. Returns the sum once the last has.
  mutating func answered(_ worker: Int, _ statistics: Statistics) -> Statistics? {
    guard awaited.remove(worker) != nil else { return nil }
    if sum == nil { sum = statistics } else { sum?.add(statistics) }
    return awaited.isEmpty ? sum : nil
  }

  /// A loop has ended, and answers no more: this round yields no sample.
  mutating func left(_ worker: Int) { awaited.remove(worker) }

  mutating func take(_ counters: SeriesCounters, wall: Int64) {
    defer { previous = counters }
    guard let previous else { return }
    // The counters of a store begin again with another store.
    func grown(_ part: KeyPath<SeriesCounters, UInt64>) -> UInt64 {
      let (now, before) = (counters[keyPath: part], previous[keyPath: part])
      return now >= before ? now - before : now
    }
    var sample = SeriesSample(wall: wall)
    sample.requests = grown(\.requests)
    sample.refused = grown(\.refused)
    sample.failed = grown(\.failed)
    sample.bytesIn = grown(\.bytesIn)
    sample.bytesOut = grown(\.bytesOut)
    sample.cacheHits = grown(\.cacheHits)
    sample.cacheMisses = grown(\.cacheMisses)
    sample.connections = counters.connections
    sample.tunnels = counters.tunnels
    sample.p50 = counters.latency.quantile(50, since: previous.latency)
    sample.p90 = counters.latency.quantile(90, since: previous.latency)
    sample.p99 = counters.latency.quantile(99, since: previous.latency)
    let refusals = counters.refusals.compactMap { name, count -> (name: String, count: UInt64)? in
      let before = previous.refusals[name] ?? 0
      return count > before ? (name, count - before) : nil
    }
    (sample.refusals, sample.otherRefusals) = Self.most(refusals)
    append(sample)
  }

  private mutating func append(_ sample: SeriesSample) {
    if ring.count < Self.mostSamples {
      ring.append(sample)
    } else {
      ring[next] = sample
      next = (next + 1) % Self.mostSamples
    }
  }

  /// Oldest first.
  var samples: [SeriesSample] { Array(ring[next...] + ring[..<next]) }

  /// The largest counts, and the sum of all others.
  private static func most(
    _ counts: [(name: String, count: UInt64)]
  ) -> (named: [String: UInt64], others: UInt64) {
    let sorted = counts.sorted { ($1.count, $0.name) < ($0.count, $1.name) }
    let named = sorted.prefix(mostRules).map { ($0.name, $0.count) }
    return (Dictionary(uniqueKeysWithValues: named), sorted.dropFirst(mostRules).reduce(0) { $0 + $1.count })
  }

  // MARK: GET /v1/series

  /// In columns: each name once, and a number for each sample.
  var json: JSONText {
    let samples = samples
    func column(_ part: KeyPath<SeriesSample, UInt64>) -> JSONText {
      .array(samples.map { .number(Int(clamping: $0[keyPath: part])) })
    }
    func quantiles(_ part: KeyPath<SeriesSample, Int64?>) -> JSONText {
      .array(samples.map { sample in sample[keyPath: part].map { .number(Int($0)) } ?? .null })
    }
    var sums: [String: UInt64] = [:]
    for sample in samples { sums.merge(sample.refusals, uniquingKeysWith: +) }
    let named = Self.most(sums.map { ($0.key, $0.value) }).named
    let rules = named.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map(\.key)
    let others = samples.map { sample in
      sample.otherRefusals + sample.refusals.reduce(0) { named[$1.key] == nil ? $0 + $1.value : $0 }
    }
    return .object([
      ("interval_ms", .number(Int(Self.intervalMilliseconds))), ("most", .number(Self.mostSamples)),
      ("times", .array(samples.map { .string(AdminResources.time($0.wall)) })),
      ("requests", column(\.requests)), ("refused", column(\.refused)), ("failed", column(\.failed)),
      ("bytes_in", column(\.bytesIn)), ("bytes_out", column(\.bytesOut)),
      ("p50_us", quantiles(\.p50)), ("p90_us", quantiles(\.p90)), ("p99_us", quantiles(\.p99)),
      ("cache_hits", column(\.cacheHits)), ("cache_misses", column(\.cacheMisses)),
      ("connections", .array(samples.map { .number($0.connections) })),
      ("tunnels", .array(samples.map { .number($0.tunnels) })),
      (
        "refusals",
        .array(
          rules.map { rule in
            .object([
              ("rule", rule == Statistics.noRule ? .null : .string(rule)),
              ("counts", .array(samples.map { .number(Int(clamping: $0.refusals[rule] ?? 0)) })),
            ])
          })
      ),
      ("other_refusals", .array(others.map { .number(Int(clamping: $0)) })),
    ])
  }
}

extension Histogram {
  /// The most microseconds that `percent` of the durations since `earlier` took, as far as the buckets show: within a
  /// bucket, durations are assumed to be evenly spread. nil if there were none.
  func quantile(_ percent: UInt64, since earlier: Histogram) -> Int64? {
    var total: UInt64 = 0
    for index in counts.indices { total += counts[index] &- earlier.counts[index] }
    if total == 0 { return nil }
    let wanted = (total * percent + 99) / 100
    var seen: UInt64 = 0
    for index in counts.indices {
      let here = counts[index] &- earlier.counts[index]
      if here > 0, seen + here >= wanted {
        let lower = index == 0 ? 0 : bounds.microseconds[index - 1]
        // A duration above every bound took at least the last one.
        if index == bounds.microseconds.count { return lower }
        let width = UInt64(bounds.microseconds[index] - lower)
        return lower + Int64(width * (wanted - seen) / here)
      }
      seen += here
    }
    return nil
  }
}
