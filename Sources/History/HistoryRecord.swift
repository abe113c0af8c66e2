// An exchange of the history as the commands read it, the selection of exchanges, and how they are counted.
// Tests: HistorySelectionTests.

import Policy

public struct HistoryRecord: Sendable {
  /// See `HistorySchema`.
  public let number: Int64
  /// The number of its kind.
  public let kind: Int64
  /// The value of its reference.
  public let reference: UInt32
  /// Without the query; empty if it has none.
  public let path: String
  public let status: Int
  public let bytesIn: Int64
  public let bytesOut: Int64
  public let totalMicroseconds: Int64

  public init(
    number: Int64, kind: Int64, reference: UInt32, path: String, status: Int, bytesIn: Int64, bytesOut: Int64,
    totalMicroseconds: Int64
  ) {
    self.number = number
    self.kind = kind
    self.reference = reference
    self.path = path
    self.status = status
    self.bytesIn = bytesIn
    self.bytesOut = bytesOut
    self.totalMicroseconds = totalMicroseconds
  }

  public var endedWall: Int64 { HistorySchema.wall(of: number) }
  /// As in the log.
  public var begunWall: Int64 { max(0, endedWall - totalMicroseconds / 1000) }
}

/// Selects exchanges. Of each non-empty list, at least one entry must match.
public struct HistorySelection: Sendable {
  /// Names or numbers.
  public var users: [String] = []
  /// Units, or the slices and units that contain them.
  public var units: [String] = []
  /// Whole paths, or last components.
  public var programs: [String] = []
  public var hosts: [HostPattern] = []
  /// Names; `-` means no rule.
  public var rules: [String] = []
  public var isDeniedOnly = false
  public var leastMilliseconds: Int64 = 0
  /// When they ended, in milliseconds since 1970.
  public var since: Int64 = 0
  public var until: Int64 = Int64.max >> HistorySchema.sequenceBits

  public static let noRule = "-"

  public init() {}

  public func includes(_ kind: HistoryKind) -> Bool {
    if isDeniedOnly, !kind.isDenied { return false }
    if !users.isEmpty, !users.contains(where: { $0 == kind[.user] || $0 == kind[.uid] }) { return false }
    if !units.isEmpty {
      let components = (kind[.cgroup] ?? "").split(separator: "/")
      if !units.contains(where: { unit in unit == kind[.unit] || components.contains { $0 == unit } }) { return false }
    }
    if !programs.isEmpty {
      guard let program = kind[.program] else { return false }
      let name = program.split(separator: "/").last.map(String.init)
      if !programs.contains(where: { $0 == program || $0 == name }) { return false }
    }
    if !rules.isEmpty, !rules.contains(kind[.rule] ?? Self.noRule) { return false }
    if hosts.isEmpty { return true }
    guard let host = kind.canonicalHost else { return false }
    return hosts.contains { $0.matches(host) }
  }
}

/// What exchanges are grouped by when they are counted.
public enum HistoryGrouping: Hashable, Sendable {
  case word(HistoryWord)
  case path, status, day

  public init?(_ name: String) {
    switch name {
    case "path": self = .path
    case "status": self = .status
    case "day": self = .day
    default:
      guard let word = HistoryWord(rawValue: name) else { return nil }
      self = .word(word)
    }
  }

  public var name: String {
    switch self {
    case .word(let word): word.rawValue
    case .path: "path"
    case .status: "status"
    case .day: "day"
    }
  }

  public static let names = HistoryWord.allCases.map(\.rawValue) + ["path", "status", "day"]

  /// Empty: there is none.
  public func text(_ record: HistoryRecord, _ kind: HistoryKind) -> String {
    switch self {
    case .word(let word): kind[word] ?? ""
    case .path: record.path
    case .status: "\(record.status)"
    case .day: HistoryMoment.day(of: record.endedWall)
    }
  }

  /// Whether all exchanges of a kind are in the same group.
  var isOfKind: Bool { if case .word = self { true } else { false } }
}

/// Exchanges counted by what they have in common.
public struct HistoryCounts: Sendable {
  public struct Group: Sendable {
    public let key: [String]
    public var count = 0
    public var denied = 0
    public var bytesIn: Int64 = 0
    public var bytesOut: Int64 = 0
    /// When the latest ended, in milliseconds since 1970.
    public var last: Int64 = 0
  }

  public let groupings: [HistoryGrouping]
  private var groups: [Group] = []
  private var places: [[String]: Int] = [:]
  private var placesOfKinds: [Int64: Int] = [:]
  private let isOfKinds: Bool

  public init(by groupings: [HistoryGrouping]) {
    self.groupings = groupings
    isOfKinds = groupings.allSatisfy(\.isOfKind)
  }

  public mutating func count(_ record: HistoryRecord, _ kind: HistoryKind) {
    let place = place(of: record, kind)
    groups[place].count += 1
    if kind.isDenied { groups[place].denied += 1 }
    groups[place].bytesIn &+= record.bytesIn
    groups[place].bytesOut &+= record.bytesOut
    groups[place].last = max(groups[place].last, record.endedWall)
  }

  private mutating func place(of record: HistoryRecord, _ kind: HistoryKind) -> Int {
    if isOfKinds, let place = placesOfKinds[record.kind] { return place }
    let key = groupings.map { $0.text(record, kind) }
    let place = places[key] ?? groups.count
    if place == groups.count {
      places[key] = place
      groups.append(Group(key: key))
    }
    if isOfKinds { placesOfKinds[record.kind] = place }
    return place
  }

  /// The largest first.
  public var sorted: [Group] {
    groups.sorted { ($1.count, $0.key.joined(separator: "\n")) < ($0.count, $1.key.joined(separator: "\n")) }
  }
}
