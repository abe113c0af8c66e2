// The outcome of tunnels to the hosts of a rule: which rule decides a CONNECT from the clients that the rule is about,
// and how. Programs reach https through tunnels, so the rule's settings for requests have an effect only if the tunnel
// is intercepted.
//
// Hosts are represented by specimens: a name that a pattern matches and no narrower one does, and each narrower pattern
// by itself. If the rule names no ports, a tunnel to port 443 is examined. Tests: TunnelChecksTests.

import Bytes

struct TunnelOutcomes {
  /// Most rules that are examined for one host, and most narrower patterns for one rule: 10,000 rules for any host must
  /// still load at once, and a missing warning does no harm.
  static let mostCandidates = 256
  static let mostNarrower = 64

  struct Entry {
    let conditions: Rule.Conditions
    let connect: ConnectTreatment?
    let treatment: ConnectTreatment
    let enforces: Bool
    let isSound: Bool

    var isAboutRequests: Bool { conditions.areAboutRequests }
    var decidesTunnels: Bool { allowsHTTPS && (connect != nil || !isAboutRequests) }
    var allowsHTTPS: Bool { conditions.allow(.https) }

    /// Whether it holds whenever `narrow` does, considering only conditions on `subject`.
    func covers(_ narrow: Entry, _ subject: ConditionSubject) -> Bool {
      Rule.Conditions.cover(
        ComparedConditions(conditions: conditions, isStrict: false),
        over: ComparedConditions(conditions: narrow.conditions, isStrict: false), in: [subject])
    }
  }

  /// How a tunnel is treated, and by which rule; nil: no rule matches.
  struct Outcome: Hashable {
    let rule: Int?
    let treatment: ConnectTreatment
  }

  /// An outcome and its hosts, as an operator writes them.
  struct Finding {
    let outcome: Outcome
    var hosts: [String]
    /// Whether they are all that the rule names.
    var isEveryHost: Bool
  }

  private let entries: [Entry]
  private let treatmentOfOthers: ConnectTreatment
  private let listsPorts: Bool
  private var byHost: [HostPattern: [Int]] = [:]
  /// The rules among them that decide tunnels.
  private var decidingByHost: [HostPattern: [Int]] = [:]
  private var blockLengths: Set<Int> = []
  /// Patterns of rules that decide tunnels, in the order of the rules: the first of them, those of addresses, and by
  /// each name that they are at or below.
  private var deciding: [HostPattern] = []
  private var decidingBlocks: [HostPattern] = []
  private var decidingBelow: [String: [HostPattern]] = [:]

  /// `treatmentOfOthers`: for tunnels that no rule matches. `listsPorts`: only listed destinations are reachable.
  init(_ entries: [Entry], treatmentOfOthers: ConnectTreatment, listsPorts: Bool) {
    self.entries = entries
    self.treatmentOfOthers = treatmentOfOthers
    self.listsPorts = listsPorts
    var known: Set<HostPattern> = []
    for (number, entry) in entries.enumerated() {
      for pattern in entry.conditions.hosts.isEmpty ? [.any] : Set(entry.conditions.hosts) {
        byHost[pattern, default: []].append(number)
        if entry.decidesTunnels { decidingByHost[pattern, default: []].append(number) }
        if case .block(let block) = pattern { blockLengths.insert(block.length) }
      }
      guard entry.decidesTunnels else { continue }
      for pattern in entry.conditions.hosts where known.insert(pattern).inserted { remember(pattern) }
    }
  }

  private mutating func remember(_ pattern: HostPattern) {
    if deciding.count < Self.mostNarrower { deciding.append(pattern) }
    switch pattern {
    case .any: break
    case .block: if decidingBlocks.count < Self.mostCandidates { decidingBlocks.append(pattern) }
    case .name(let name), .oneLabelBelow(let name), .atOrBelow(let name):
      var rest = name[...]
      while true {
        if decidingBelow[String(rest), default: []].count < Self.mostNarrower {
          decidingBelow[String(rest), default: []].append(pattern)
        }
        guard let dot = rest.utf8.firstIndex(of: 0x2e) else { return }
        rest = rest[dot...].dropFirst()
      }
    }
  }

  // MARK: One rule

  /// The outcome of the tunnels to the hosts of rule `number`, as far as an https request inside could be the rule's.
  func findings(of number: Int) -> [Finding] {
    let entry = entries[number]
    guard entry.allowsHTTPS, entry.isSound else { return [] }
    let patterns = entry.conditions.hosts.isEmpty ? [.any] : entry.conditions.hosts
    var found: [Outcome: [String]] = [:]
    var order: [Outcome] = []
    func note(_ outcomes: Set<Outcome>, _ host: String) {
      for outcome in outcomes {
        if found[outcome] == nil { order.append(outcome) }
        if !(found[outcome, default: []].contains(host)) { found[outcome, default: []].append(host) }
      }
    }
    var specimens = 0
    for pattern in patterns {
      for (host, name) in Self.specimens(pattern) {
        specimens += 1
        note(outcomes(of: number, to: host), name)
      }
    }
    let general = order.filter { found[$0]?.count == specimens }
    for pattern in narrower(than: patterns) {
      for (host, name) in Self.specimens(pattern) { note(outcomes(of: number, to: host).subtracting(general), name) }
    }
    return order.map { outcome in
      Finding(outcome: outcome, hosts: found[outcome] ?? [], isEveryHost: general.contains(outcome))
    }.sorted { ($0.outcome.rule ?? .max) < ($1.outcome.rule ?? .max) }
  }

  private func outcomes(of number: Int, to host: HostPattern) -> Set<Outcome> {
    var outcomes: Set<Outcome> = []
    let ports = ports(of: entries[number])
    // A rule that names port 80 means http.
    for port in ports.isEmpty ? [Scheme.https.defaultPort] : ports where port != Scheme.http.defaultPort {
      outcomes.formUnion(self.outcomes(of: number, to: host, port) ?? [])
    }
    return outcomes
  }

  /// nil: no https request to the host is the rule's, or it is unknown.
  private func outcomes(of number: Int, to host: HostPattern, _ port: UInt16) -> Set<Outcome>? {
    let rule = entries[number]
    var outcomes: Set<Outcome> = []
    let (candidates, isWhole) = candidates(host)
    for candidate in candidates {
      let entry = entries[candidate]
      if candidate == number {
        guard entry.decidesTunnels else { continue }
        outcomes.insert(Outcome(rule: number, treatment: treatment(entry, port)))
        return outcomes
      }
      guard entry.isSound else { return nil }
      guard entry.allowsHTTPS, ports(of: entry).isEmpty || ports(of: entry).contains(port),
        !entry.conditions.isApart(from: rule.conditions)
      else { continue }
      let covers = entry.covers(rule, .sender)
      // An earlier rule that takes every request leaves none to this one; a rule that takes those of some clients
      // leaves the others.
      if candidate < number {
        if covers, entry.covers(rule, .request) { return nil }
        if !entry.isAboutRequests { continue }
      }
      guard entry.decidesTunnels else { continue }
      outcomes.insert(Outcome(rule: candidate, treatment: treatment(entry, port)))
      if covers { return outcomes }
    }
    guard isWhole else { return nil }
    outcomes.insert(Outcome(rule: nil, treatment: treatmentOfOthers))
    return outcomes
  }

  /// Whether a later rule, or the default, denies https requests to a host of the rule that the rule does not match.
  func deniesTheRest(of number: Int) -> Bool {
    if treatmentOfOthers == .deny { return true }
    let patterns = entries[number].conditions.hosts.isEmpty ? [.any] : entries[number].conditions.hosts
    return patterns.flatMap(Self.specimens).contains { host, _ in
      candidates(host).numbers.contains { candidate in
        candidate > number && entries[candidate].allowsHTTPS && entries[candidate].connect == nil
          && entries[candidate].treatment == .deny
      }
    }
  }

  private func ports(of entry: Entry) -> [UInt16] { entry.conditions.values(of: PortCondition.self) }

  private func treatment(_ entry: Entry, _ port: UInt16) -> ConnectTreatment {
    let isListed = !listsPorts || port == Scheme.https.defaultPort || ports(of: entry).contains(port)
    return isListed || !entry.enforces ? entry.treatment : .deny
  }

  // MARK: Hosts

  /// Label of a name that no rule mentions.
  private static let label = "x--any--x"

  /// Names and addresses that represent a pattern, with what they represent.
  private static func specimens(_ pattern: HostPattern) -> [(host: HostPattern, name: String)] {
    switch pattern {
    case .any: [(.name("\(label).\(label)"), "*")]
    case .name: [(pattern, pattern.description)]
    case .oneLabelBelow(let name): [(.name("\(label).\(name)"), pattern.description)]
    case .atOrBelow(let name):
      [
        (.name(name), name), (.name("\(label).\(name)"), "*.\(name)"),
        (.name("\(label).\(label).\(name)"), pattern.description),
      ]
    case .block(let block):
      AddressBlock(address: block.address, length: block.address.width).map { [(.block($0), pattern.description)] }
        ?? []
    }
  }

  /// Patterns of rules that decide tunnels and match only what `patterns` match.
  private func narrower(than patterns: [HostPattern]) -> [HostPattern] {
    var found: [HostPattern] = []
    for wide in patterns where found.count < Self.mostNarrower {
      let candidates: [HostPattern] =
        switch wide {
        case .any: deciding
        case .name: []
        case .oneLabelBelow(let name), .atOrBelow(let name): decidingBelow[name] ?? []
        case .block: decidingBlocks
        }
      let hosts = CoveredHosts([wide])
      found += candidates.filter { hosts.covers([$0]) && !patterns.contains($0) }
    }
    return Array(found.prefix(Self.mostNarrower))
  }

  /// The first rules that match a host and the first that decide its tunnels, in their order, and whether these are
  /// all.
  private func candidates(_ host: HostPattern) -> (numbers: [Int], isWhole: Bool) {
    var numbers: [Int] = []
    var count = 0
    for pattern in ShadowedRules.covering(host, blockLengths: blockLengths) {
      numbers += byHost[pattern]?.prefix(Self.mostCandidates) ?? []
      let list = decidingByHost[pattern] ?? []
      numbers += list.prefix(Self.mostCandidates)
      count += list.count
    }
    var last = -1
    let first = numbers.sorted().filter { number in
      defer { last = number }
      return number != last
    }
    return (first, count <= Self.mostCandidates)
  }
}
