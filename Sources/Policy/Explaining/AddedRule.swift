// What keeps a rule that an operator has just added from its effect: rules before it. Tests: AddedRuleTests.

import Bytes

extension Policy {
  /// What lets requests pass that rule `name` denies: a rule before it; nil: nothing does. `address`: as below.
  public func allowance(before name: String, address: IPAddress?) -> Rule? {
    guard let place = rules.firstIndex(where: { $0.name == name }) else { return nil }
    let added = rules[place].conditions
    // About one kind of request, or about one tunnel.
    if !added.methods.isEmpty || added.schemes == [.https] && !added.ports.isEmpty {
      let found = specimen(of: rules[place], address: address)
      return found.flatMap { $0.decision.verdict == .deny || $0.rule === rules[place] ? nil : $0.rule }
    }
    let hosts = CoveredHosts(added.hosts)
    return rules[..<place].first { rule in
      let conditions = rule.conditions
      let patterns = conditions.hosts.isEmpty ? [.any] : conditions.hosts
      return (rule.action == .allow || !rule.enforce) && !conditions.isApart(from: added)
        && Self.meet(conditions.ports, added.ports) && Self.meet(conditions.schemes, added.schemes)
        && Self.meet(conditions.units, added.units)
        && patterns.contains { hosts.covers([$0]) || CoveredHosts([$0]).covers(added.hosts) }
    }
  }

  /// Of conditions that list values; an empty list means any.
  private static func meet<Value: Equatable>(_ one: [Value], _ other: [Value]) -> Bool {
    one.isEmpty || other.isEmpty || one.contains { other.contains($0) }
  }

  /// The rule that decides a request that rule `name`, which allows one kind of request to one host, is about; nil:
  /// that rule does, or the request is allowed anyway. `address`: of the client, if the rule names none.
  public func decider(insteadOf name: String, address: IPAddress?) -> Rule? {
    guard let added = rules.first(where: { $0.name == name }), let found = specimen(of: added, address: address) else {
      return nil
    }
    return found.decision.verdict == .allow || found.rule === added ? nil : found.rule
  }

  /// The settings that a request no longer has since rule `name` allows it, which a rule of `earlier` asked about.
  public func loss(by name: String, since earlier: Policy, address: IPAddress?) -> (rule: Rule, names: [String])? {
    guard let added = rules.first(where: { $0.name == name }),
      let (request, asker) = example(of: added, address: address)
    else { return nil }
    return earlier.settings(of: request, asker, lostIn: self)
  }

  /// The same for these requests of `asker`, and of clients that rules which ask are about.
  public func loss(of requests: [NamedRequest], _ asker: Asker, since earlier: Policy) -> (rule: Rule, names: [String])?
  {
    let askers =
      [asker]
      + earlier.rules.filter { $0.action == .ask }.map { rule in
        var fitted = asker
        for condition in rule.conditions.all { condition.fit(&fitted) }
        return fitted
      }
    for request in requests {
      for asker in askers {
        if let found = earlier.settings(of: request, asker, lostIn: self), !found.names.isEmpty { return found }
      }
    }
    return nil
  }

  /// What is decided of a request that the rule is about.
  private func specimen(of added: Rule, address: IPAddress?) -> Explanation? {
    example(of: added, address: address).map { explain($0.request, $0.asker, own: .unknown) }
  }

  /// A request that the rule is about.
  private func example(of added: Rule, address: IPAddress?) -> (request: NamedRequest, asker: Asker)? {
    guard let host = added.conditions.hosts.first else { return nil }
    let conditions = added.conditions
    var asker = Asker()
    for condition in conditions.all { condition.fit(&asker) }
    if asker.sender.address == nil { asker.sender.address = address }
    let port = conditions.ports.first.map { ":\($0)" } ?? ""
    let text = "\(host)".contains(":") ? "[\(host)]" : "\(host)"
    let path = conditions.paths.first.map { String(decoding: $0.example, as: UTF8.self) } ?? "/"
    let scheme = conditions.schemes.first ?? .https
    guard
      case .success(let request) = conditions.methods.first.map({ method in
        NamedRequest.read(method: method, url: "\(scheme.rawValue)://\(text)\(port)\(path)")
      }) ?? NamedRequest.read(method: "CONNECT", url: "\(text)\(port.isEmpty ? ":443" : port)")
    else { return nil }
    return (request, asker)
  }
}
