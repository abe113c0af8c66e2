// Who talks to whom: what is under way and what has just ended, added up by asker, program, host and rule.
//
// For what has ended, the daemon returns the newest few hundred exchanges, however many there were. If two samples
// overlap, nothing is missing between them, and rates are exact. If not, the daemon's counter says how many exchanges
// the sample represents, and each row gets its share and is marked as an estimate. Tests: TrafficTests.

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
    /// When it was last active, in milliseconds since 1970.
    var last: Int64 = 0
    /// The rates represent more exchanges than were seen.
    var isEstimate = false
    /// The reference of the last one that ended.
    var reference: String? = nil
    /// What the API reports about one that is under way.
    var connection = JSONValue.null
  }

  /// The most rows that are kept; those idle for longest are removed.
  static let mostEntries = 500

  private(set) var entries: [Key: Entry] = [:]
  /// The references in the last sample.
  private var seen: Set<String> = []
  /// When the oldest exchange in it ended, if it was a full sample. Another exchange of that moment may replace it in
  /// the next sample, and is not a new one.
  private var oldest: Int64 = 0

  /// `known`: the bytes of an exchange that were counted while it was under way. `milliseconds`: since the last sample;
  /// nil: there was none, so there are no rates. `ended`: the exchanges that ended in that time.
  mutating func take(
    _ connections: [JSONValue], byteRates: [String: Double], decisions: [JSONValue],
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
    count(decisions, known, milliseconds: milliseconds, ended: ended)
    if entries.count > Self.mostEntries {
      let kept = entries.sorted { $0.value.last > $1.value.last }.prefix(Self.mostEntries)
      entries = Dictionary(uniqueKeysWithValues: kept.map { ($0.key, $0.value) })
    }
  }

  private mutating func count(
    _ decisions: [JSONValue], _ known: (String) -> Double, milliseconds: Int64?, ended: Double?
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
    // The oldest first, so the newest values remain.
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
    (Figures.moment(decision["time"].text) ?? 0) + decision["total_ms"].wholePart
  }
}
