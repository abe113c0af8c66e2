// Decides the past again by another policy and reports the differences, grouped by rule and by asker. What would be
// denied comes first. Tests: HistoryReplayTests.

import Policy

public struct HistoryReplay: Sendable {
  public enum Change: String, Sendable, CaseIterable {
    case denied = "newly-denied"
    /// An operator would be asked where none was asked before.
    case asked = "newly-asked"
    case allowed = "newly-allowed"
  }

  /// Requests of one asker that one rule decides differently.
  public struct Group: Sendable {
    public let change: Change
    /// The name and place of the rule that decides now; nil: no rule matches.
    public let rule: String?
    public let place: String?
    public let reason: Decision.Reason
    /// The rule that decided then.
    public let ruleBefore: String?
    public let user: String?
    public let unit: String?
    public let client: String?
    public var count = 0
    public var last: Int64 = 0
    /// The requests and their counts, the most frequent first.
    public var requests: [(text: String, count: Int)] = []
  }

  /// Decided requests of the period.
  public private(set) var total = 0
  public private(set) var newlyDenied = 0
  public private(set) var newlyAsked = 0
  public private(set) var newlyAllowed = 0
  /// How many of all requests depend on something that was not recorded.
  public private(set) var inexact = 0
  /// How many no policy can decide.
  public private(set) var unasked = 0
  public private(set) var groups: [Group] = []

  private struct Key: Hashable {
    let change: Change
    let rule: Int?
    let reason: Decision.Reason
    let ruleBefore: String?
    let user: String?
    let unit: String?
    let client: String?
  }

  public init(_ requests: [HistoryRequest], by judge: inout HistoryJudge) {
    var places: [Key: Int] = [:]
    // How often each text occurred in each group. Clients that differ only in their program have the same texts.
    var texts: [[String: Int]] = []
    for request in requests {
      total += request.count
      guard let judgement = judge.judge(request) else {
        unasked += request.count
        continue
      }
      if !judgement.isExact { inexact += request.count }
      guard let change = Self.change(request.kind, judgement) else { continue }
      switch change {
      case .denied: newlyDenied += request.count
      case .asked: newlyAsked += request.count
      case .allowed: newlyAllowed += request.count
      }
      let kind = request.kind
      let user = kind[.user] ?? kind[.uid]
      let key = Key(
        change: change, rule: judgement.rule, reason: judgement.reason, ruleBefore: kind[.rule], user: user,
        unit: kind[.unit], client: user == nil ? kind[.client] : nil)
      let place = places[key] ?? groups.count
      if place == groups.count {
        places[key] = place
        texts.append([:])
        let rule = judgement.rule.map { judge.policy.rules[$0] }
        groups.append(
          Group(
            change: change, rule: rule?.name, place: rule?.place, reason: judgement.reason, ruleBefore: key.ruleBefore,
            user: key.user, unit: key.unit, client: key.client))
      }
      groups[place].count += request.count
      groups[place].last = max(groups[place].last, request.last)
      texts[place]["\(kind[.method] ?? "") \(kind.origin)\(request.path)", default: 0] += request.count
    }
    for index in groups.indices {
      groups[index].requests = texts[index].map { ($0.key, $0.value) }.sorted { ($1.1, $0.0) < ($0.1, $1.0) }
    }
    groups.sort { one, other in
      if one.change != other.change { return one.change.order < other.change.order }
      return (other.count, one.rule ?? "", one.user ?? "", one.unit ?? "")
        < (one.count, other.rule ?? "", other.user ?? "", other.unit ?? "")
    }
  }

  /// nil: the decision is the same. What an operator was asked about then would be asked again.
  private static func change(_ kind: HistoryKind, _ judgement: HistoryJudgement) -> Change? {
    switch judgement.verdict {
    case .allow: kind.isDenied ? .allowed : nil
    case .deny: kind.isDenied ? nil : .denied
    case .ask: kind.wasAsked ? nil : .asked
    }
  }
}

extension HistoryReplay.Change {
  fileprivate var order: Int {
    switch self {
    case .denied: 0
    case .asked: 1
    case .allowed: 2
    }
  }
}
