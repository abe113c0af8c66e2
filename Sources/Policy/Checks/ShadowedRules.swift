// Rules that can never match, because an earlier rule holds whenever they do.
//
// Only single rules are compared: two earlier ones that together leave nothing go unnoticed. Every report is true. An
// earlier rule that covers a rule must cover its first host. So candidates are looked up by that host's name and
// parents, as for requests; at most `mostCandidates` of them are compared. Tests: ShadowedRulesTests.

import Bytes

/// Finds, rule by rule in their order, the first rule that shadows each.
struct ShadowedRules {
  /// Most earlier rules that one rule is compared with: 10,000 rules for any host must still load at once, and a
  /// missing warning does no harm.
  static let mostCandidates = 256

  private struct Entry {
    let compared: ComparedConditions
    let hosts: CoveredHosts
    /// Whether it refuses something, and so matches clients in doubt.
    let isStrict: Bool
    let matchesTunnels: Bool
    let number: Int
  }

  private var entries: [Entry] = []
  /// Indices into `entries` by host pattern; those for any host are under `.any`.
  private var byHost: [HostPattern: [Int]] = [:]
  private var blockLengths: Set<Int> = []

  /// The number of the earlier rule that holds whenever this one does, if there is one. Remembers the rule in either
  /// case. `denies`: as in `PathCondition`.
  mutating func shadow(
    of conditions: Rule.Conditions, connect: ConnectTreatment?, denies: Bool, refusesTunnels: Bool, number: Int
  ) -> Int? {
    let entry = Entry(
      compared: ComparedConditions(conditions: conditions, isStrict: denies), hosts: CoveredHosts(conditions.hosts),
      isStrict: denies || refusesTunnels, matchesTunnels: connect != nil || !conditions.areAboutRequests,
      number: number)
    // A rule whose users are all unknown has already been reported: it matches nobody.
    let shadow =
      conditions[UserCondition.self]?.numbers == []
      ? nil : candidates(for: entry).first { Self.covers(entries[$0], entry) }
    remember(entry)
    return shadow.map { entries[$0].number }
  }

  private mutating func remember(_ entry: Entry) {
    for pattern in entry.hosts.isAny ? [.any] : entry.hosts.patterns {
      byHost[pattern, default: []].append(entries.count)
      if case .block(let block) = pattern { blockLengths.insert(block.length) }
    }
    entries.append(entry)
  }

  private func candidates(for entry: Entry) -> [Int] {
    let first = entry.hosts.isAny ? HostPattern.any : entry.compared.conditions.hosts[0]
    var numbers: [Int] = []
    for pattern in Self.covering(first, blockLengths: blockLengths) {
      numbers += byHost[pattern]?.prefix(Self.mostCandidates) ?? []
    }
    return Array(numbers.sorted().prefix(Self.mostCandidates))
  }

  /// Every pattern that matches whatever `pattern` does and may be in the table.
  static func covering(_ pattern: HostPattern, blockLengths: Set<Int>) -> [HostPattern] {
    guard case .block(let block) = pattern else { return [.any] + CoveredHosts.covering(pattern) }
    return [.any]
      + blockLengths.filter { $0 <= block.length }.compactMap {
        AddressBlock(address: AddressBlock.masked(block.address, $0), length: $0).map(HostPattern.block)
      }
  }

  private static func covers(_ wide: Entry, _ narrow: Entry) -> Bool {
    // Conditions on requests are not evaluated for a tunnel, so each kind of request is compared separately.
    let schemes = narrow.compared.conditions.values(of: SchemeCondition.self)
    let hasTunnels = narrow.matchesTunnels && (schemes.isEmpty || schemes.contains(.https))
    if hasTunnels, !wide.matchesTunnels { return false }
    return coversDoubt(wide, narrow)
      && Rule.Conditions.cover(wide.compared, over: narrow.compared, in: [.sender, .request, .destination])
  }

  /// For a client in doubt a rule that refuses matches, and no other does. So a rule that depends on the client and
  /// allows does not cover one that refuses.
  private static func coversDoubt(_ wide: Entry, _ narrow: Entry) -> Bool {
    wide.compared.conditions.asksFor.isEmpty || wide.isStrict || !narrow.isStrict
  }
}
