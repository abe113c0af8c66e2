// Which hosts a set of patterns certainly matches: what one rule covers of another. Tests: ShadowedRulesTests.

import Bytes

/// A union of host patterns.
struct CoveredHosts {
  private(set) var patterns: Set<HostPattern> = []
  private var blocks: [AddressBlock] = []

  init() {}

  /// The hosts of a condition.
  init(_ hosts: [HostPattern]) { insert(hosts) }

  var isAny: Bool { patterns.contains(.any) }
  var isEmpty: Bool { patterns.isEmpty }

  /// Adds the hosts of a condition; an empty list means any host.
  mutating func insert(_ hosts: [HostPattern]) {
    for host in hosts.isEmpty ? [.any] : hosts where patterns.insert(host).inserted {
      if case .block(let block) = host { blocks.append(block) }
    }
  }

  /// Whether every host that `hosts` match is one of these.
  func covers(_ hosts: [HostPattern]) -> Bool {
    if isAny { return true }
    return !hosts.isEmpty && hosts.allSatisfy(covers)
  }

  private func covers(_ host: HostPattern) -> Bool {
    switch host {
    case .any: false
    case .block(let block): blocks.contains { $0.length <= block.length && $0.contains(block.address) }
    case .name, .oneLabelBelow, .atOrBelow: Self.covering(host).contains(where: patterns.contains)
    }
  }

  /// Every pattern except `*` that matches whatever `pattern` does, itself included; none for an address.
  static func covering(_ pattern: HostPattern) -> [HostPattern] {
    switch pattern {
    case .any, .block: []
    case .name(let name): [pattern] + below(name)
    case .oneLabelBelow(let name): [pattern] + trees(name)
    case .atOrBelow(let name): trees(name)
    }
  }

  /// `*.` of the parent, and `**.` of the name and of all above it.
  private static func below(_ name: String) -> [HostPattern] {
    guard let dot = name.utf8.firstIndex(of: 0x2e) else { return trees(name) }
    return [.oneLabelBelow(String(name[dot...].dropFirst()))] + trees(name)
  }

  /// `**.` of the name and of all above it.
  private static func trees(_ name: String) -> [HostPattern] {
    var trees: [HostPattern] = [.atOrBelow(name)]
    var rest = name[...]
    while let dot = rest.utf8.firstIndex(of: 0x2e) {
      rest = rest[dot...].dropFirst()
      trees.append(.atOrBelow(String(rest)))
    }
    return trees
  }
}
