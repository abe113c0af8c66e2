// Rules that can never match, because an earlier rule holds whenever they do.
//
// Only single rules are compared: that two earlier ones together leave nothing is not noticed. Whatever is reported is
// true. An earlier rule that covers a rule must cover its first host, so that candidates are looked up by that host's
// name and parents, as requests are; of those at most `mostCandidates` are compared. Tests: ShadowedRulesTests.

import Bytes

/// Finds, rule by rule in their order, the first rule that shadows each.
struct ShadowedRules {
  /// Most earlier rules that one rule is compared with: 10,000 rules for any host must still load at once, and a warning
  /// less is no harm.
  static let mostCandidates = 256

  private struct Entry {
    let conditions: Rule.Conditions
    let hosts: CoveredHosts
    let paths: PathCondition
    /// Whether it refuses something, and so matches clients in doubt.
    let isStrict: Bool
    let matchesTunnels: Bool
    let number: Int
  }

  private var entries: [Entry] = []
  /// Indices into `entries` by host pattern; those for any host stand under `.any`.
  private var byHost: [HostPattern: [Int]] = [:]
  private var blockLengths: Set<Int> = []

  /// The number of the earlier rule that holds whenever this one does, if there is one; remembers the rule either way.
  /// `denies`: as `PathCondition` has it.
  mutating func shadow(
    of conditions: Rule.Conditions, connect: ConnectTreatment?, denies: Bool, refusesTunnels: Bool, number: Int
  ) -> Int? {
    let entry = Entry(
      conditions: conditions, hosts: CoveredHosts(conditions.hosts),
      paths: PathCondition(conditions.paths, denies: denies), isStrict: denies || refusesTunnels,
      matchesTunnels: connect != nil || (conditions.methods.isEmpty && conditions.paths.isEmpty),
      number: number)
    // Of a rule whose users are all unknown it has been said that nobody is meant by them.
    let shadow = conditions.users == [] ? nil : candidates(for: entry).first { Self.covers(entries[$0], entry) }
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
    let first = entry.hosts.isAny ? HostPattern.any : entry.conditions.hosts[0]
    var numbers: [Int] = []
    for pattern in Self.covering(first, blockLengths: blockLengths) {
      numbers += byHost[pattern]?.prefix(Self.mostCandidates) ?? []
    }
    return Array(numbers.sorted().prefix(Self.mostCandidates))
  }

  /// Every pattern that matches whatever `pattern` does and may stand in the table.
  static func covering(_ pattern: HostPattern, blockLengths: Set<Int>) -> [HostPattern] {
    guard case .block(let block) = pattern else { return [.any] + CoveredHosts.covering(pattern) }
    return [.any]
      + blockLengths.filter { $0 <= block.length }.compactMap {
        AddressBlock(address: AddressBlock.masked(block.address, $0), length: $0).map(HostPattern.block)
      }
  }

  private static func covers(_ wide: Entry, _ narrow: Entry) -> Bool {
    // Methods and paths are not looked at for a tunnel: each kind of request is a question of its own.
    let hasTunnels = narrow.matchesTunnels && allows(narrow.conditions.schemes, .https)
    if hasTunnels, !wide.matchesTunnels { return false }
    return covers(wide.conditions.ports, narrow.conditions.ports)
      && covers(wide.conditions.schemes, narrow.conditions.schemes)
      && covers(wide.conditions.methods, narrow.conditions.methods)
      && coversDoubt(wide, narrow)
      && coversClients(wide.conditions, narrow.conditions) && covers(wide.conditions.links, narrow.conditions.links)
      && coversPaths(wide, narrow) && wide.hosts.covers(narrow.conditions.hosts)
  }

  /// Of a client in doubt a rule that refuses matches, and no other does: what asks who the client is and allows does not
  /// cover one that refuses.
  private static func coversDoubt(_ wide: Entry, _ narrow: Entry) -> Bool {
    let asks = wide.conditions.users != nil || !wide.conditions.units.isEmpty
    return !asks || wide.isStrict || !narrow.isStrict
  }

  private static func allows(_ schemes: [Scheme], _ scheme: Scheme) -> Bool {
    schemes.isEmpty || schemes.contains(scheme)
  }

  static func covers<Element: Equatable>(_ wide: [Element], _ narrow: [Element]) -> Bool {
    wide.isEmpty || (!narrow.isEmpty && narrow.allSatisfy(wide.contains))
  }

  /// Of users the numbers are compared, whatever names stand for them. A client meets either list by any one element, so
  /// that only a list which holds the other covers it.
  static func coversClients(_ wide: Rule.Conditions, _ narrow: Rule.Conditions) -> Bool {
    guard covers(wide.units, narrow.units) else { return false }
    // Beside users, units count that without them do not (LocalClient).
    guard let users = wide.users else { return wide.units.isEmpty || narrow.users == nil }
    return narrow.users?.allSatisfy(users.contains) ?? false
  }

  /// A pattern that matches another's text, its `*` taken for an octet of no pattern, matches whatever that one does. A rule
  /// that denies matches where any reading of a path does; one that allows, which needs all of them, does not cover it.
  private static func coversPaths(_ wide: Entry, _ narrow: Entry) -> Bool {
    if wide.paths.patterns.isEmpty { return true }
    if narrow.paths.patterns.isEmpty || narrow.paths.denies && !wide.paths.denies { return false }
    return narrow.paths.patterns.allSatisfy { pattern in
      let examples = pattern.examples
      return Escapes.ways.indices.allSatisfy { way in
        let example = examples[examples.count == 1 ? 0 : way]
        return wide.paths.patterns.contains { $0.matches(example.span, way: way) }
      }
    }
  }
}
