// The requests that compare two policies, made from what their rules name.
//
// They include every value that a condition can distinguish. Names: each name in a pattern, one label below it, and
// two; any other host below it is matched by the same patterns. Addresses: the first of each run of addresses that no
// block divides. Ports, methods, users, units and links: each that a rule of the host names, and one that none names.
// So each of these requests represents all others like it, and no difference is missed.
//
// There are exceptions. Path patterns are tried with their wildcards replaced in several ways and nested in one
// another, which does not cover all that they can match, and unusual readings of a path are left to the rules. No
// client is in several units, and no address is written as another (::ffff:10.0.0.1). Only values from the rules of one
// host are combined; otherwise there would be too many. Tests: PolicyComparisonTests, test_diff.py.

import Bytes
import Reachability

/// A request that both policies decide.
struct Witness {
  let request: NamedRequest
  let asker: Asker
  let isAbsolute: Bool
}

struct WitnessRequests {
  /// Most hosts: those of a few thousand rules.
  static let mostHosts = 50_000
  /// Most requests for one host, to leave some for the others.
  static let mostOfHost = 20_000
  /// Most requests: some seconds.
  static let mostRequests = 500_000
  /// Most path patterns of one host that are nested in each other.
  static let mostPatternsCombined = 12

  let old: Policy
  let new: Policy
  private let wall: Int64
  private(set) var count = 0
  /// Whether every possible request was tried.
  private(set) var isComplete = true

  /// `wall`: the moment of the requests, in milliseconds since 1970; 0: none, and no rule has ended.
  init(_ old: Policy, _ new: Policy, wall: Int64) {
    self.old = old
    self.new = new
    self.wall = wall
  }

  /// Calls `visit` with each request. `readsTunnel`: whether either policy decides requests inside a tunnel.
  mutating func forEach(_ visit: (Witness) -> Void, readsTunnel: (Witness) -> Bool) {
    var hosts = WitnessHosts(old, new)
    hosts.collect()
    isComplete = !hosts.isCut
    for host in hosts.hosts {
      var left = min(Self.mostOfHost, Self.mostRequests - count)
      if left <= 0 { isComplete = false }
      guard left > 0 else { return }
      let before = left
      let dimensions = WitnessDimensions(host, from: old, to: new)
      forEachAsker(dimensions) { asker in
        visitAll(dimensions, asker, left: &left, visit: visit, readsTunnel: readsTunnel)
        return left > 0
      }
      count += before - left
      if left <= 0 { isComplete = false }
    }
  }

  private func forEachAsker(_ dimensions: WitnessDimensions, _ body: (Asker) -> Bool) {
    for sender in dimensions.senders {
      for link in dimensions.links where !body(Asker(sender, link: link, wall: wall)) { return }
    }
  }

  private func visitAll(
    _ dimensions: WitnessDimensions, _ asker: Asker, left: inout Int, visit: (Witness) -> Void,
    readsTunnel: (Witness) -> Bool
  ) {
    func ask(_ request: NamedRequest, absolute: Bool = false) {
      guard left > 0 else { return }
      left -= 1
      visit(Witness(request: request, asker: asker, isAbsolute: absolute))
    }
    for port in dimensions.ports {
      for method in dimensions.methods {
        for path in dimensions.paths { ask(dimensions.request(method, isHTTPS: false, port: port, path: path)) }
      }
    }
    // The usual port first, so the request that is shown is a usual one.
    for port in [443] + dimensions.ports.filter({ $0 != 443 }) {
      let tunnel = dimensions.request("CONNECT", isHTTPS: true, port: port, path: "").tunnel
      ask(tunnel)
      let isRead = readsTunnel(Witness(request: tunnel, asker: asker, isAbsolute: false))
      for method in dimensions.methods {
        for path in dimensions.paths {
          let request = dimensions.request(method, isHTTPS: true, port: port, path: path)
          if isRead { ask(request) }
          ask(request, absolute: true)
        }
      }
    }
  }
}

// MARK: Hosts

/// One host of each kind that the patterns of two policies distinguish.
private struct WitnessHosts {
  let policies: [Policy]
  private(set) var hosts: [CanonicalHost] = []
  private(set) var isCut = false
  private var known: Set<CanonicalHost> = []

  init(_ old: Policy, _ new: Policy) { policies = [old, new] }

  mutating func collect() {
    var names: [String] = []
    var blocks: [AddressBlock] = []
    var addresses: [CanonicalHost] = []
    for policy in policies {
      blocks += policy.configuration.proxy.denyAddresses.blocks
      for rule in policy.rules {
        blocks += rule.denyAddresses?.blocks ?? []
        for pattern in rule.conditions.hosts {
          switch pattern {
          case .any: continue
          case .name(let name), .oneLabelBelow(let name), .atOrBelow(let name): names.append(name)
          case .block(let block): blocks.append(block)
          }
        }
        if let host = rule.target?.host {
          if host.address == nil { names.append(host.bytes.span.string) } else { addresses.append(host) }
        }
      }
    }
    let fresh = Self.fresh(names)
    for name in names {
      add(name)
      add("\(fresh).\(name)")
      add("\(fresh).\(fresh).\(name)")
    }
    add("\(fresh).\(fresh)")
    for host in addresses { add(host) }
    add(IPAddress(ipv4: 0xcb00_7107))  // 203.0.113.7: of no network (RFC 5737)
    add(IPAddress(ipv6High: 0x2001_0db8_0000_0000, low: 7))  // RFC 3849
    add(IPAddress(ipv4: 0x7f00_0001))
    for block in blocks {
      add(block.address)
      if let next = block.next { add(next) }
    }
  }

  /// A label that no name begins or ends with.
  private static func fresh(_ names: [String]) -> String {
    let labels = Set(names.flatMap { $0.split(separator: ".").map(String.init) })
    var number = 0
    while true {
      let label = number == 0 ? "other" : "other\(number)"
      if !labels.contains(label) { return label }
      number += 1
    }
  }

  private mutating func add(_ name: String) {
    var host = CanonicalHost()
    if host.set(Array(name.utf8).span) == nil { add(host) }
  }

  private mutating func add(_ address: IPAddress) {
    var host = CanonicalHost()
    let text = address.isIPv4 ? "\(address)" : "[\(address)]"
    if host.set(Array(text.utf8).span) == nil { add(host) }
  }

  private mutating func add(_ host: CanonicalHost) {
    guard hosts.count < WitnessRequests.mostHosts else {
      isCut = true
      return
    }
    if known.insert(host).inserted { hosts.append(host) }
  }
}

extension AddressBlock {
  /// The address after the last of the block; nil if there is none.
  var next: IPAddress? {
    if address.isIPv4 {
      let sum = (address.low & 0xffff_ffff) + (1 << UInt64(32 - length))
      return sum > 0xffff_ffff ? nil : IPAddress(ipv4: UInt32(sum))
    }
    let highStep = length <= 64 ? (length == 0 ? 0 : UInt64(1) << UInt64(64 - length)) : 0
    let lowStep = length > 64 ? UInt64(1) << UInt64(128 - length) : 0
    let (low, carries) = address.low.addingReportingOverflow(lowStep)
    let (high, overflows) = address.high.addingReportingOverflow(highStep + (carries ? 1 : 0))
    return overflows || length == 0 ? nil : IPAddress(ipv6High: high, low: low)
  }
}
