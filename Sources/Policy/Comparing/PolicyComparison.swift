// `sallyport diff`: what two policies decide differently, without any request having been made.
//
// The engine decides the requests that `WitnessRequests` makes from the rules, under both policies. Differences are
// grouped by what decided before and after, each with the first request that shows it, which is the simplest.
// Tests: PolicyComparisonTests, test_diff.py.

import Bytes

/// A difference between two policies, and a request that shows it.
public struct PolicyDifference: Sendable {
  public enum Kind: String, Sendable, CaseIterable {
    case newlyDenied = "newly-denied"
    /// An operator is asked about what was allowed or denied before.
    case newlyAsked = "newly-asked"
    case newlyAllowed = "newly-allowed"
    /// Allowed or denied as before, by another rule or in another way.
    case otherwise
  }

  /// The result under one of the policies.
  public struct Side: Sendable {
    public let verdict: Decision.Verdict
    public let rule: Rule?
    /// `allowed by rule 'shop' (policy.d/10.toml:3)`
    public let sentence: String
  }

  public let kind: Kind
  public let old: Side
  public let new: Side
  /// What else differs: `connect "tunnel" → "intercept"`; empty if only the rule does.
  public let changes: [String]
  /// The first request that shows it, in the form that `explain` accepts.
  public let witness: String
  /// How many of the requests show it.
  public fileprivate(set) var requests: Int
  /// Hosts of these, at most `mostHosts`.
  public fileprivate(set) var hosts: [String]
  public fileprivate(set) var moreHosts = 0

  static let mostHosts = 8
}

public struct PolicyComparison: Sendable {
  /// Newly denied first, then newly allowed.
  public private(set) var differences: [PolicyDifference] = []
  /// How many requests were compared.
  public private(set) var requests = 0
  /// false: the rules would give more requests than can be compared.
  public private(set) var isComplete = true

  public func count(_ kind: PolicyDifference.Kind) -> Int {
    differences.reduce(0) { $0 + ($1.kind == kind ? $1.requests : 0) }
  }

  /// `wall`: when the requests are made, in milliseconds since 1970; 0: at no time, as if no rule had ended.
  public init(_ old: Policy, _ new: Policy, own: OwnAddresses = .unknown, wall: Int64 = 0) {
    var witnesses = WitnessRequests(old, new, wall: wall)
    var comparing = Comparing(old: old, new: new, own: own)
    witnesses.forEach { witness in
      comparing.compare(witness)
    } readsTunnel: { witness in
      [old, new].contains { policy in
        let tunnel = Forecast(by: policy, of: witness.request, witness.asker, own: own).last
        return tunnel.isAllowed && tunnel.connect == .intercept
      }
    }
    requests = witnesses.count
    isComplete = witnesses.isComplete
    for kind in PolicyDifference.Kind.allCases { differences += comparing.found.filter { $0.kind == kind } }
  }
}

private struct Comparing {
  let old: Policy
  let new: Policy
  let own: OwnAddresses
  private(set) var found: [PolicyDifference] = []
  private var places: [Key: Int] = [:]
  private var hostsOf: [Set<CanonicalHost>] = []
  private var known: [Treated: [String]] = [:]

  init(old: Policy, new: Policy, own: OwnAddresses) {
    self.old = old
    self.new = new
    self.own = own
  }

  /// The key that groups differences.
  private struct Key: Hashable {
    let kind: PolicyDifference.Kind
    let old: Decision.Reason
    let new: Decision.Reason
    let oldRule: Int?
    let newRule: Int?
    let changes: [String]
  }

  /// The treatment depends on this and little else. It is compared as text.
  private struct Treated: Hashable {
    let oldRule: Int?
    let newRule: Int?
    let isTunnel: Bool
    let isHTTPS: Bool
    let method: String
  }

  mutating func compare(_ witness: Witness) {
    let before = Forecast(by: old, of: witness.request, witness.asker, absolute: witness.isAbsolute, own: own)
    let after = Forecast(by: new, of: witness.request, witness.asker, absolute: witness.isAbsolute, own: own)
    let kind: PolicyDifference.Kind
    var changes: [String] = []
    switch (before.verdict, after.verdict) {
    case (.allow, .deny): kind = .newlyDenied
    case (.ask, .deny): kind = .newlyDenied
    case (.allow, .ask), (.deny, .ask): kind = .newlyAsked
    case (.deny, .allow), (.ask, .allow): kind = .newlyAllowed
    case (.deny, .deny), (.allow, .allow), (.ask, .ask):
      kind = .otherwise
      if before.verdict != .deny { changes = changesOf(witness, from: before, to: after) }
      if changes.isEmpty, Self.rule(of: before, by: old)?.name == Self.rule(of: after, by: new)?.name { return }
    }
    let key = Key(
      kind: kind, old: before.last.decision.reason, new: after.last.decision.reason, oldRule: before.last.decision.rule,
      newRule: after.last.decision.rule, changes: changes)
    if let place = places[key] {
      found[place].requests += 1
      guard hostsOf[place].insert(witness.request.host).inserted else { return }
      if found[place].hosts.count < PolicyDifference.mostHosts {
        found[place].hosts.append(witness.request.host.bytes.span.string)
      } else {
        found[place].moreHosts += 1
      }
      return
    }
    places[key] = found.count
    hostsOf.append([witness.request.host])
    found.append(
      PolicyDifference(
        kind: kind, old: side(old, witness, forecast: before), new: side(new, witness, forecast: after),
        changes: changes,
        witness: witness.text, requests: 1, hosts: [witness.request.host.bytes.span.string]))
  }

  private func side(_ policy: Policy, _ witness: Witness, forecast: Forecast) -> PolicyDifference.Side {
    let explanation = explanation(of: witness, forecast, by: policy)
    return PolicyDifference.Side(
      verdict: forecast.verdict, rule: Self.rule(of: forecast, by: policy),
      sentence: ([explanation.verdictLine] + (forecast.last.block == nil ? [] : explanation.refusalLines)).joined(
        separator: "; "))
  }

  private static func rule(of forecast: Forecast, by policy: Policy) -> Rule? {
    forecast.last.decision.rule.map { policy.rules[$0] }
  }

  /// The parents of its routes: `[http://proxy.example:3128]`.
  private static func parents(of rule: Rule?) -> String {
    let parents = rule?.routes.compactMap(\.parent) ?? []
    let texts = parents.map { "\($0.kind.rawValue)://\($0.host.bytes.span.string):\($0.port)" }
    return "[\(texts.joined(separator: ", "))]"
  }

  /// For the step that settles it. Rules that do not match are not examined.
  private func explanation(of witness: Witness, _ forecast: Forecast, by policy: Policy) -> Explanation {
    let isInside = witness.request.needsTunnel(absolute: witness.isAbsolute) && forecast.request == nil
    return Explanation(
      by: policy, of: isInside ? witness.request.tunnel : witness.request, witness.asker, own: own, atMost: 0,
      saysWhatIsOpen: false)
  }

  mutating func changesOf(_ witness: Witness, from before: Forecast, to after: Forecast) -> [String] {
    var changes: [String] = []
    if before.tunnel?.connect != after.tunnel?.connect {
      let words = [before, after].map { $0.tunnel?.connect.map { "\"\($0.rawValue)\"" } ?? "none" }
      changes.append("connect \(words[0]) → \(words[1])")
    }
    let routes = [
      Route.names(of: before.last.decision, by: old, on: nil), Route.names(of: after.last.decision, by: new, on: nil),
    ].map { "[\($0.map(\.inTOML).joined(separator: ", "))]" }
    if routes[0] != routes[1] { changes.append("route \(routes[0]) → \(routes[1])") }
    let rules = [Self.rule(of: before, by: old), Self.rule(of: after, by: new)]
    let parents = rules.map(Self.parents)
    if routes[0] == routes[1], parents[0] != parents[1] { changes.append("via \(parents[0]) → \(parents[1])") }
    let targets = rules.map { rule in (rule?.target).map { "\($0)" } ?? "none" }
    if targets[0] != targets[1] { changes.append("target \(targets[0]) → \(targets[1])") }
    // If only one of them intercepts the tunnel, the difference in `connect` shows it.
    guard (before.request == nil) == (after.request == nil) else { return changes }
    let key = Treated(
      oldRule: before.last.decision.rule, newRule: after.last.decision.rule, isTunnel: before.request == nil,
      isHTTPS: witness.request.isHTTPS, method: witness.request.method)
    let other = known[key] ?? treatmentChanges(witness, from: before, to: after)
    known[key] = other
    return changes + other
  }

  /// Other differences, by their names in the JSON of `explain`.
  private func treatmentChanges(_ witness: Witness, from before: Forecast, to after: Forecast) -> [String] {
    let one = explanation(of: witness, before, by: old).actions
    let other = explanation(of: witness, after, by: new).actions
    var texts: [String: [String?]] = [:]
    for (key, value) in one { texts[key, default: [nil, nil]][0] = value.text }
    for (key, value) in other { texts[key, default: [nil, nil]][1] = value.text }
    var names = Set(texts.filter { $0.value[0] != $0.value[1] }.keys)
    // Compared above.
    names.subtract(["routes", "route", "connect"])
    // These follow from the treatment of the tunnel; certificate checks are compared below.
    if before.tunnel?.connect != after.tunnel?.connect {
      names.subtract(["assurance", "refuses_clear_requests", "requires_tls", "security", "tunnel_sni"])
    }
    let edits = (old.request(of: before.last.decision).fields, new.request(of: after.last.decision).fields)
    if before.request != nil, !edits.0.set.elementsEqual(edits.1.set) { names.insert("set") }
    if before.request != nil, !edits.0.defaults.elementsEqual(edits.1.defaults) { names.insert("default") }
    if old.security(of: before.last.decision).digest != new.security(of: after.last.decision).digest,
      witness.request.isHTTPS
    {
      names.insert("security")
    }
    return names.sorted()
  }
}

/// The settings of a rule that asks about a request, and that no longer apply once another policy allows the request.
public struct LostSettings: Sendable {
  /// The rule that asks.
  public let rule: Rule
  /// As `diff` names them.
  public let names: [String]

  /// nil: no rule of `earlier` asks about it, or `next` does not allow it.
  public init?(of request: NamedRequest, _ asker: Asker, from earlier: Policy, in next: Policy) {
    // A rule about https:// without CONNECT allows no tunnel.
    let isTunnelled = Forecast(by: next, of: request, asker).verdict == .allow
    let witness = Witness(request: request, asker: asker, isAbsolute: !isTunnelled)
    let before = Forecast(by: earlier, of: request, asker, absolute: !isTunnelled)
    let after = Forecast(by: next, of: request, asker, absolute: !isTunnelled)
    guard before.verdict == .ask, after.verdict == .allow,
      let rule = before.last.decision.rule.map({ earlier.rules[$0] })
    else { return nil }
    var comparing = Comparing(old: earlier, new: next, own: .unknown)
    // These follow from asking, and no rule has to set them.
    let derived = ["assurance", "refuses_clear_requests", "requires_tls", "tunnel_sni"]
    var names = comparing.changesOf(witness, from: before, to: after).map { String($0.prefix { $0 != " " }) }
    names.removeAll(where: derived.contains)
    let replacing = after.last.decision.rule.map { next.rules[$0] }
    if rule.denyAddresses != replacing?.denyAddresses { names.append("deny_addresses") }
    self.rule = rule
    self.names = names
  }

  /// The first that is not empty of these requests of `asker`, and of clients that rules which ask are about.
  public init?(ofAny requests: [NamedRequest], _ asker: Asker, from earlier: Policy, in next: Policy) {
    let askers =
      [asker]
      + earlier.rules.filter { $0.action == .ask }.map { rule in
        var fitted = asker
        for condition in rule.conditions.all { condition.fit(&fitted) }
        return fitted
      }
    for request in requests {
      for asker in askers {
        guard let found = Self(of: request, asker, from: earlier, in: next), !found.names.isEmpty else { continue }
        self = found
        return
      }
    }
    return nil
  }
}

extension Witness {
  /// In the form that `explain` accepts, with its options.
  fileprivate var text: String {
    let port = request.isHTTPS ? 443 : 80
    let host = request.host.address.map { $0.isIPv4 ? "\($0)" : "[\($0)]" } ?? request.host.bytes.span.string
    let authority = request.isTunnel || Int(request.port) != port ? "\(host):\(request.port)" : host
    let url = request.isTunnel ? authority : "\(request.isHTTPS ? "https" : "http")://\(authority)\(request.path)"
    var words = ["\(request.method) \(url)"]
    if let client = asker.sender.client {
      if client.isUserInDoubt {
        words.append("(a client that cannot be looked up)")
      } else {
        if client.userID != LocalClient.noUser { words.append("--user \(client.user ?? "\(client.userID)")") }
        if let unit = client.unit { words.append("--unit \(unit)") }
      }
    }
    if let address = asker.sender.address { words.append("--client \(address)") }
    if let name = asker.sender.proxyUser { words.append("--proxy-user \(name)") }
    if let program = asker.sender.program { words.append("--program \(program)") }
    if let link = asker.link { words.append("--when \(link.rawValue)") }
    if isAbsolute { words.append("--absolute") }
    return words.joined(separator: " ")
  }
}

// MARK: As text

extension PolicyComparison: CustomStringConvertible {
  /// Ends with a newline.
  public var description: String {
    var text = ""
    for kind in PolicyDifference.Kind.allCases {
      let found = differences.filter { $0.kind == kind }
      if found.isEmpty { continue }
      text += "\(kind.title):\n" + found.map(\.description).joined() + "\n"
    }
    return text + total + "\n"
  }

  private var total: String {
    let bound = isComplete ? "" : "; there are more rules than requests were made of: the rest was not compared"
    if differences.isEmpty { return "no difference in \(requests) requests made from the rules of both\(bound)" }
    let asked = count(.newlyAsked) > 0 ? "newly asked \(count(.newlyAsked)), " : ""
    return "newly denied \(count(.newlyDenied)), \(asked)newly allowed \(count(.newlyAllowed)), otherwise "
      + "\(count(.otherwise)), of \(requests) requests made from the rules of both\(bound)"
  }

  public var json: String {
    JSONText.object([
      ("requests", .number(requests)), ("newly_denied", .number(count(.newlyDenied))),
      ("newly_asked", .number(count(.newlyAsked))),
      ("newly_allowed", .number(count(.newlyAllowed))), ("otherwise", .number(count(.otherwise))),
      ("complete", .boolean(isComplete)), ("differences", .array(differences.map(\.json))),
    ]).text + "\n"
  }
}

extension PolicyDifference.Kind {
  fileprivate var title: String {
    switch self {
    case .newlyDenied: "newly denied"
    case .newlyAsked: "newly asked about"
    case .newlyAllowed: "newly allowed"
    case .otherwise: "allowed or denied as before, but otherwise"
    }
  }
}

extension PolicyDifference {
  fileprivate var description: String {
    var lines = ["  \(old.sentence)", "  → \(new.sentence)"]
    if kind == .otherwise {
      lines.append("    \(changes.isEmpty ? "only the rule differs" : "differs: \(changes.joined(separator: "; "))")")
    }
    let names = hosts.joined(separator: ", ") + (moreHosts > 0 ? " and \(moreHosts) more" : "")
    lines.append("    \(witness)")
    if requests > 1 { lines.append("    and \(requests - 1) more, of \(names)") }
    return lines.map { $0.printable + "\n" }.joined()
  }

  fileprivate var json: JSONText {
    .object([
      ("kind", .string(kind.rawValue)), ("old", old.json), ("new", new.json),
      ("changes", .array(changes.map(JSONText.string))), ("witness", .string(witness)),
      ("requests", .number(requests)), ("hosts", .array(hosts.map(JSONText.string))),
      ("more_hosts", .number(moreHosts)),
    ])
  }
}

extension PolicyDifference.Side {
  fileprivate var json: JSONText {
    .object([
      ("verdict", .string(verdict.rawValue)), ("rule", rule.map { .string($0.name) } ?? .null),
      ("file", rule.map { .string($0.location.file) } ?? .null),
      ("line", rule.map { .number($0.location.line) } ?? .null), ("why", .string(sentence)),
    ])
  }
}
