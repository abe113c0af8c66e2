// What keeps a rule that an operator has just added from its effect: rules before it. Tests: AddedRuleTests.

import Bytes

/// A rule that was just added, in the policy that has it.
public struct AddedRule {
  private let policy: Policy
  private let place: Int
  /// Of the client, if the rule names none.
  private let address: IPAddress?

  private var rule: Rule { policy.rules[place] }

  /// nil: the policy has no rule of the name.
  public init?(_ name: String, in policy: Policy, address: IPAddress?) {
    guard let place = policy.rules.firstIndex(where: { $0.name == name }) else { return nil }
    self.policy = policy
    self.place = place
    self.address = address
  }

  /// What lets requests pass that it denies: a rule before it; nil: nothing does.
  public var allowance: Rule? {
    let added = rule.conditions
    // About one kind of request, or about one tunnel.
    if !added.values(of: MethodCondition.self).isEmpty
      || added.values(of: SchemeCondition.self) == [.https] && !added.values(of: PortCondition.self).isEmpty
    {
      return specimen.flatMap { $0.decision.verdict == .deny || $0.rule === rule ? nil : $0.rule }
    }
    let hosts = CoveredHosts(added.hosts)
    return policy.rules[..<place].first { rule in
      let conditions = rule.conditions
      let patterns = conditions.hosts.isEmpty ? [.any] : conditions.hosts
      return (rule.action == .allow || !rule.enforce) && !conditions.isApart(from: added)
        && Self.meet(PortCondition.self, conditions, with: added)
        && Self.meet(SchemeCondition.self, conditions, with: added)
        && Self.meet(UnitCondition.self, conditions, with: added)
        && patterns.contains { hosts.covers([$0]) || CoveredHosts([$0]).covers(added.hosts) }
    }
  }

  /// Whether both list a value; a condition that is not there takes any.
  private static func meet<Condition: ListCondition>(
    _ kind: Condition.Type, _ one: Rule.Conditions, with other: Rule.Conditions
  ) -> Bool {
    let (one, other) = (one.values(of: kind), other.values(of: kind))
    return one.isEmpty || other.isEmpty || one.contains { other.contains($0) }
  }

  /// If it allows one kind of request to one host, the rule that decides such a request; nil: this one does, or the
  /// request is allowed anyway.
  public var decider: Rule? {
    specimen.flatMap { $0.decision.verdict == .allow || $0.rule === rule ? nil : $0.rule }
  }

  /// The settings that a request no longer has since the rule allows it, which a rule of `earlier` asked about.
  public func loss(since earlier: Policy) -> LostSettings? {
    example.flatMap { LostSettings(of: $0.request, $0.asker, from: earlier, in: policy) }
  }

  /// What is decided of a request that the rule is about.
  private var specimen: Explanation? { example.map { Explanation(by: policy, of: $0.request, $0.asker) } }

  /// A request that the rule is about.
  private var example: (request: NamedRequest, asker: Asker)? {
    let conditions = rule.conditions
    guard let host = conditions.hosts.first else { return nil }
    var asker = Asker()
    for condition in conditions.all { condition.fit(&asker) }
    if asker.sender.address == nil { asker.sender.address = address }
    let port = conditions.values(of: PortCondition.self).first.map { ":\($0)" } ?? ""
    let text = "\(host)".contains(":") ? "[\(host)]" : "\(host)"
    let path =
      conditions.values(of: PathsCondition.self).first.map { String(decoding: $0.example, as: UTF8.self) } ?? "/"
    let scheme = conditions.values(of: SchemeCondition.self).first ?? .https
    guard
      case .success(let request) = conditions.values(of: MethodCondition.self).first.map({ method in
        NamedRequest.read(method: method, url: "\(scheme.rawValue)://\(text)\(port)\(path)")
      }) ?? NamedRequest.read(method: "CONNECT", url: "\(text)\(port.isEmpty ? ":443" : port)")
    else { return nil }
    return (request, asker)
  }
}
