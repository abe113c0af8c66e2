// The decision of a policy about a past request. The daemon's own engine makes it from the recorded data.
//
// If something was not recorded, the decision is the strict one and is marked as inexact. This concerns a client that
// could not be looked up in time, a path longer than the recorded part, and a name that led to a denied address.
// Tests: HistoryReplayTests.

import Bytes
import Policy

/// Equal requests of the history.
public struct HistoryRequest: Sendable {
  public let kind: HistoryKind
  public let path: String
  public var count: Int
  /// When the latest of them ended, in milliseconds since 1970.
  public var last: Int64

  public init(kind: HistoryKind, path: String, count: Int, last: Int64) {
    self.kind = kind
    self.path = path
    self.count = count
    self.last = last
  }
}

/// Requests of the history, with equal ones combined.
public struct HistoryRequests: Sendable {
  private struct Key: Hashable {
    let kind: Int64
    let path: String
  }

  private var places: [Key: Int] = [:]
  public private(set) var all: [HistoryRequest] = []
  public private(set) var total = 0

  public init() {}

  public mutating func add(_ record: HistoryRecord, _ kind: HistoryKind) {
    // If no policy was asked, it does not count as a request.
    guard kind.isDecided else { return }
    total += 1
    let key = Key(kind: record.kind, path: record.path)
    if let place = places[key] {
      all[place].count += 1
      all[place].last = max(all[place].last, record.endedWall)
    } else {
      places[key] = all.count
      all.append(HistoryRequest(kind: kind, path: record.path, count: 1, last: record.endedWall))
    }
  }
}

public struct HistoryJudgement: Equatable, Sendable {
  public let verdict: Decision.Verdict
  public let reason: Decision.Reason
  /// The number of the rule that decided; nil: none matches.
  public let rule: Int?
  /// Everything that the decision depends on was recorded.
  public let isExact: Bool

  public var isAllowed: Bool { verdict == .allow }
}

public struct HistoryJudge {
  /// The longest path, in bytes, that is recorded.
  static let longestPath = 1024

  public let policy: Policy
  private let isOwn: (IPAddress) -> Bool?
  private let wall: Int64
  private var workspace = DecisionWorkspace()
  /// The facts about each kind, by its words. Many paths share a kind.
  private var kinds: [HistoryKind: Facts] = [:]

  private struct Facts {
    let host: CanonicalHost
    let port: UInt16
    let scheme: Scheme
    let method: [UInt8]
    let isTunnel: Bool
    let sender: Sender
    /// The address of a direct connection.
    let address: IPAddress?
    let wasAddressDenied: Bool
  }

  /// `isOwn`: see `AddressSet.match`.
  /// `wall`: when it is judged, in milliseconds since 1970; 0: rules that have ended count too.
  public init(_ policy: Policy, wall: Int64 = 0, isOwn: @escaping (IPAddress) -> Bool?) {
    self.wall = wall
    self.policy = policy
    self.isOwn = isOwn
  }

  /// nil: the record is not a request that a policy can decide.
  public mutating func judge(_ request: HistoryRequest) -> HistoryJudgement? {
    guard let facts = facts(of: request.kind) else { return nil }
    let path = facts.isTunnel ? [] : Array(request.path.utf8)
    workspace.host = facts.host
    let asked = RequestFacts(
      scheme: facts.scheme, port: facts.port, method: facts.method.span, path: path.span, isTunnel: facts.isTunnel,
      sender: facts.sender, link: request.kind.reachability, wall: wall)
    var decision = policy.decide(asked, in: &workspace)
    let mapping = policy.mapping(of: decision, asked, in: &workspace)
    if let objection = mapping?.objection { decision = objection }
    var isExact = path.count < Self.longestPath
    if let client = facts.sender.client {
      if policy.identity.asksForClient, client.outcome != .known { isExact = false }
      if policy.identity.asksForProgram, facts.sender.program == nil { isExact = false }
    }
    decision = decision.asTunnel(connect: facts.isTunnel ? policy.treatment(of: decision) : nil)
    guard decision.verdict != .deny else {
      return HistoryJudgement(verdict: .deny, reason: decision.reason, rule: decision.rule, isExact: isExact)
    }
    let isAddressDenied: Bool
    if let address = workspace.host.address ?? (mapping == nil ? facts.address : nil) {
      isAddressDenied = policy.denyingBlock(address, rule: decision.rule, isOwn: isOwn) != nil
    } else {
      isAddressDenied = facts.wasAddressDenied
      if facts.wasAddressDenied { isExact = false }
    }
    return HistoryJudgement(
      verdict: isAddressDenied ? .deny : decision.verdict, reason: isAddressDenied ? .addressDenied : decision.reason,
      rule: decision.rule,
      isExact: isExact)
  }

  private mutating func facts(of kind: HistoryKind) -> Facts? {
    if let known = kinds[kind] { return known }
    guard let host = kind.canonicalHost, let port = kind.port, let method = kind[.method],
      let scheme = kind[.scheme].flatMap(Scheme.init)
    else { return nil }
    let facts = Facts(
      host: host, port: port, scheme: scheme, method: Array(method.utf8), isTunnel: kind.isTunnel,
      sender: Sender(
        client: kind.localClient, address: kind[.client].flatMap { IPAddress($0) }, proxyUser: kind[.proxyUser],
        program: kind[.program]),
      address: kind[.route] == Route.direct.name ? kind[.upstream].flatMap { IPAddress($0) } : nil,
      wasAddressDenied: kind[.reason] == Decision.Reason.addressDenied.rawValue)
    kinds[kind] = facts
    return facts
  }
}
