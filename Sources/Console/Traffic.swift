// Who talks to whom: what is under way and what has just ended, added up by who asks, program, host and rule.
//
// What has ended comes as the newest few hundred exchanges, however many there were. Where two samples overlap nothing is
// missing between them, and rates are exact. Where they do not, the daemon's counter says how many exchanges the sample
// stands for, and each row gets its share; the row says that it is an estimate. Tests: TrafficTests.

struct Traffic: Sendable {
  struct Key: Hashable, Sendable {
    let who: String
    let program: String
    let host: String
    let rule: String
  }

  struct Entry: Sendable {
    var open = 0
    var requestsPerSecond = 0.0
    var bytesPerSecond = 0.0
    /// Milliseconds since 1970 of its last sign of life.
    var last: Int64 = 0
    /// The rates stand for more exchanges than were seen.
    var isEstimate = false
    /// Of the last one that ended.
    var reference: String? = nil
    /// What the API says of one that is under way.
    var connection = JSONValue.null
  }

  /// Rows that are kept: the longest idle ones make way.
  static let mostEntries = 500

  private(set) var entries: [Key: Entry] = [:]
  /// References of the last sample.
  private var seen: Set<String> = []
  /// When the oldest of it ended, if it was a full one. Another exchange of that moment may take its place in the next
  /// sample, and is no new one.
  private var oldest: Int64 = 0

  /// `known`: bytes of an exchange that have been counted while it was under way. `milliseconds`: since the last sample;
  /// nil: there was none, so nothing is said of rates. `ended`: exchanges that ended in that time.
  mutating func take(
    _ connections: [JSONValue], _ byteRates: [String: Double], _ decisions: [JSONValue],
    known: (String) -> Double, milliseconds: Int64?, ended: Double?, wall: Int64
  ) {
    for key in entries.keys {
      entries[key]?.open = 0
      entries[key]?.requestsPerSecond = 0
      entries[key]?.bytesPerSecond = 0
      entries[key]?.isEstimate = false
      entries[key]?.connection = .null
    }
    for connection in connections where connection["ref"].text != nil {
      let key = Key(
        who: TopData.who(connection), program: TopData.program(connection), host: TopData.host(connection),
        rule: connection["rule"].text ?? "-")
      entries[key, default: Entry()].open += 1
      entries[key]?.bytesPerSecond += connection["ref"].text.flatMap { byteRates[$0] } ?? 0
      entries[key]?.last = wall
      entries[key]?.connection = connection
    }
    count(decisions, known, milliseconds, ended)
    if entries.count > Self.mostEntries {
      let kept = entries.sorted { $0.value.last > $1.value.last }.prefix(Self.mostEntries)
      entries = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }
  }

  private mutating func count(
    _ decisions: [JSONValue], _ known: (String) -> Double, _ milliseconds: Int64?, _ ended: Double?
  ) {
    let references = Set(decisions.compactMap { $0["ref"].text })
    let (before, beginning) = (seen, oldest)
    func isNew(_ decision: JSONValue) -> Bool {
      guard let reference = decision["ref"].text, !before.contains(reference) else { return false }
      return Self.end(decision) > beginning
    }
    let news = decisions.filter(isNew).count
    // A full sample without a known exchange: others have ended between the two.
    let isGap = milliseconds != nil && news == decisions.count && news == TopResource.sampleSize
    let weight = isGap && news > 0 ? max(1, (ended ?? 0) / Double(news)) : 1
    // The oldest first, so the newest has the last word.
    for decision in decisions.reversed() {
      let key = Key(
        who: TopData.who(decision), program: TopData.program(decision),
        host: TopData.host(ofTarget: decision["target"].text ?? ""), rule: decision["rule"].text ?? "-")
      let end = Self.end(decision)
      entries[key, default: Entry()].last = max(entries[key]?.last ?? 0, end)
      entries[key]?.reference = decision["ref"].text
      guard let milliseconds, milliseconds > 0, isNew(decision) else { continue }
      let bytes = max(0, TopData.bytes(decision) - known(decision["ref"].text ?? ""))
      entries[key]?.requestsPerSecond += weight * 1000 / Double(milliseconds)
      entries[key]?.bytesPerSecond += weight * bytes * 1000 / Double(milliseconds)
      if weight > 1 { entries[key]?.isEstimate = true }
    }
    seen = references
    oldest = decisions.count == TopResource.sampleSize ? decisions.map(Self.end).min() ?? 0 : 0
  }

  /// Milliseconds since 1970.
  private static func end(_ decision: JSONValue) -> Int64 {
    (Figures.moment(decision["time"].text) ?? 0) + (decision["total_ms"].whole ?? 0)
  }
}
