// Which hosts the local authority may sign for. Rules with connect = "intercept" need a leaf for each of their hosts.

import Bytes
import Policy
import Security

extension AuthorityCertificate {
  /// Whether it may sign for every host that the pattern matches.
  func permits(_ host: HostPattern) -> Bool {
    switch host {
    case .any: permitted.isEmpty && excluded.isEmpty
    case .name(let name), .oneLabelBelow(let name), .atOrBelow(let name): permits(name: name)
    case .block(let block): permits(block)
    }
  }

  /// If nothing of a kind is explicitly permitted, everything of it is permitted that is not excluded (RFC 5280,
  /// 4.2.1.10).
  private func permits(name: String) -> Bool {
    func holds(_ subtree: NameSubtree) -> Bool {
      guard case .name(let top) = subtree else { return false }
      return top.isEmpty || name == top || name.hasSuffix("." + top)
    }
    let hasNames = permitted.contains { if case .name = $0 { true } else { false } }
    return (!hasNames || permitted.contains(where: holds)) && !excluded.contains(where: holds)
  }

  private func permits(_ block: AddressBlock) -> Bool {
    let bytes = block.address.isIPv4 ? 4 : 16
    func holds(_ subtree: NameSubtree) -> Bool {
      guard case .addresses(let network, let length) = subtree, network.count == bytes, length <= block.length else {
        return false
      }
      let address = block.address.octets
      return (0..<length).allSatisfy { bit in
        (address[bit / 8] ^ network[bit / 8]) & (0x80 >> UInt8(bit % 8)) == 0
      }
    }
    let hasAddresses = permitted.contains {
      if case .addresses(let network, _) = $0 { network.count == bytes } else { false }
    }
    return (!hasAddresses || permitted.contains(where: holds)) && !excluded.contains(where: holds)
  }

  /// What it permits, in words.
  var permittedText: String {
    permitted.isEmpty ? "other names" : permitted.map(\.description).joined(separator: ", ")
  }

  /// Rules that intercept hosts for which the authority may not sign: their tunnels would be refused.
  func permitDiagnostics(of rules: [Rule]) -> [Diagnostic] {
    rules.compactMap { rule in
      guard rule.connect == .intercept, rule.action == .allow || !rule.enforce else { return nil }
      let hosts = rule.conditions.hosts.isEmpty ? [.any] : rule.conditions.hosts
      let refused = hosts.filter { !permits($0) }
      if refused.isEmpty { return nil }
      let names = refused.contains(.any) ? "any host" : refused.prefix(8).map(\.description).joined(separator: ", ")
      return Diagnostic(
        .warning, at: rule.location,
        "rule '\(rule.name)' intercepts \(names), and the authority may sign only for \(permittedText): other "
          + "tunnels are refused. Name hosts that it permits, or make an authority with their --permit")
    }
  }

  /// The same for one host, for `explain`.
  func permitNote(on explanation: Explanation, _ host: CanonicalHost) -> String? {
    guard explanation.security?.treatment == .intercept else { return nil }
    let pattern: HostPattern? =
      host.address.map { AddressBlock(address: $0, length: $0.width).map(HostPattern.block) }
      ?? .name(host.bytes.span.string)
    guard let pattern, !permits(pattern) else { return nil }
    return "The tunnel is refused: the local authority may not sign for '\(pattern)'; it permits "
      + "\(permittedText). Make an authority with --permit \(pattern)."
  }
}
