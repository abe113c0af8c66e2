// What keeps a rule that an operator has just added from its effect: rules before it. Tests: AddedRuleTests.

import Bytes

extension Policy {
  /// The first rule before rule `name`, which denies, that lets some of the same requests pass; nil: none does.
  public func allowance(before name: String) -> Rule? {
    guard let place = rules.firstIndex(where: { $0.name == name }) else { return nil }
    let added = rules[place].conditions
    let hosts = CoveredHosts(added.hosts)
    return rules[..<place].first { rule in
      let patterns = rule.conditions.hosts.isEmpty ? [.any] : rule.conditions.hosts
      return (rule.action != .deny || !rule.enforce) && !rule.conditions.isApart(from: added)
        && patterns.contains { hosts.covers([$0]) || CoveredHosts([$0]).covers(added.hosts) }
    }
  }

  /// The rule that decides a request that rule `name`, which allows one kind of request to one host, is about; nil:
  /// that rule does, or the request is allowed anyway. `address`: of the client, if the rule names none.
  public func decider(insteadOf name: String, address: IPAddress?) -> Rule? {
    guard let added = rules.first(where: { $0.name == name }), let host = added.conditions.hosts.first else {
      return nil
    }
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
    let found = explain(request, asker, own: .unknown)
    return found.decision.verdict == .allow || found.rule?.name == name ? nil : found.rule
  }
}
