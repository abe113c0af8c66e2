// The requests by which two policies are compared, made from what their rules name.
//
// Whatever a condition can tell apart is among them. Names: each that a pattern has, one label below it, and two; a host that is
// anything else below it is matched by the same patterns. Addresses: the first of each run of addresses that no block divides.
// Ports, methods, users, units and links: each that a rule of the host names, and one that none names. So of all these one
// request stands for every other, and no difference is missed. Paths are the exception: patterns are tried with their wildcards
// filled in several ways and one within another, which is not all that can be said by them, and servers' odd readings of a path
// are left to the rules. Nor is there a client in several units, or one address written as another (::ffff:10.0.0.1). Only what the rules of a host name is combined, or nothing would come to an end.
// Tests: PolicyComparisonTests, test_diff.py.

import Bytes
import Reachability

/// A request that is asked of both policies.
struct Witness {
  let request: NamedRequest
  let asker: Asker
  let isAbsolute: Bool
}

struct WitnessRequests {
  /// Most hosts: those of some thousand rules.
  static let mostHosts = 50_000
  /// Most requests of one host, so that it leaves some for the others.
  static let mostOfHost = 20_000
  /// Most requests: some seconds.
  static let mostRequests = 500_000
  /// Most patterns of paths of one host that are put within each other.
  static let mostPatternsCombined = 12

  let old: Policy
  let new: Policy
  private(set) var count = 0
  /// Whether every request was tried that could be made.
  private(set) var isComplete = true

  init(_ old: Policy, _ new: Policy) {
    self.old = old
    self.new = new
  }

  /// Calls `visit` with each request. `readsTunnel`: whether requests inside a tunnel are decided by either policy.
  mutating func forEach(_ visit: (Witness) -> Void, readsTunnel: (Witness) -> Bool) {
    var hosts = WitnessHosts(old, new)
    hosts.collect()
    isComplete = !hosts.isCut
    for host in hosts.hosts {
      var left = min(Self.mostOfHost, Self.mostRequests - count)
      if left <= 0 { isComplete = false }
      guard left > 0 else { return }
      let before = left
      let dimensions = Dimensions(host, old, new)
      forEachAsker(dimensions) { asker in
        visitAll(dimensions, asker, &left, visit, readsTunnel)
        return left > 0
      }
      count += before - left
      if left <= 0 { isComplete = false }
    }
  }

  private func forEachAsker(_ dimensions: Dimensions, _ body: (Asker) -> Bool) {
    for client in dimensions.clients {
      for link in dimensions.links where !body(Asker(client: client, link: link)) { return }
    }
  }

  private func visitAll(
    _ dimensions: Dimensions, _ asker: Asker, _ left: inout Int, _ visit: (Witness) -> Void,
    _ readsTunnel: (Witness) -> Bool
  ) {
    func ask(_ request: NamedRequest, absolute: Bool = false) {
      guard left > 0 else { return }
      left -= 1
      visit(Witness(request: request, asker: asker, isAbsolute: absolute))
    }
    for port in dimensions.ports {
      for method in dimensions.methods {
        for path in dimensions.paths { ask(dimensions.request(method, isHTTPS: false, port, path)) }
      }
    }
    // The usual port first, so that the request that is shown is the usual one.
    for port in [443] + dimensions.ports.filter({ $0 != 443 }) {
      let tunnel = dimensions.request("CONNECT", isHTTPS: true, port, "").tunnel
      ask(tunnel)
      let isRead = readsTunnel(Witness(request: tunnel, asker: asker, isAbsolute: false))
      for method in dimensions.methods {
        for path in dimensions.paths {
          let request = dimensions.request(method, isHTTPS: true, port, path)
          if isRead { ask(request) }
          ask(request, absolute: true)
        }
      }
    }
  }
}

// MARK: Hosts

/// One host of each kind that the patterns of two policies tell apart.
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
  /// The address behind the last of the block; nil where there is none.
  fileprivate var next: IPAddress? {
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

// MARK: What else can differ

/// What the rules of a host name.
private struct Dimensions {
  let host: CanonicalHost
  var ports: [UInt16] = [80, 443]
  var methods = ["GET"]
  var paths = ["/"]
  var clients: [LocalClient?] = [nil]
  var links: [ReachabilityStatus?] = [nil]

  init(_ host: CanonicalHost, _ old: Policy, _ new: Policy) {
    self.host = host
    var rules: [Rule] = []
    for policy in [old, new] {
      let own = policy.candidates(of: host)
      rules += own
      // What a rule maps is decided once more, as the URL that comes of it.
      for target in own.compactMap(\.target) { rules += policy.candidates(of: target.host) }
    }
    setPorts(rules)
    setMethods(rules, isSecret: old.defaultRequest.carriesSecret || new.defaultRequest.carriesSecret)
    setPaths(rules)
    setClients(rules)
    if rules.contains(where: { !$0.conditions.links.isEmpty }) { links = ReachabilityStatus.allCases }
  }

  func request(_ method: String, isHTTPS: Bool, _ port: UInt16, _ path: String) -> NamedRequest {
    NamedRequest(
      method: method, isHTTPS: isHTTPS, host: host, port: port, path: path, query: "", isTunnel: false, isRawPath: false
    )
  }

  private mutating func setPorts(_ rules: [Rule]) {
    for port in rules.flatMap(\.conditions.ports) where !ports.contains(port) { ports.append(port) }
    if let other = (8443...UInt16.max).first(where: { !ports.contains($0) }) { ports.append(other) }
  }

  private mutating func setMethods(_ rules: [Rule], isSecret: Bool) {
    let named = rules.flatMap(\.conditions.methods)
    for method in named where !methods.contains(method) { methods.append(method) }
    let others = ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "OTHER"]
    if !named.isEmpty, let other = others.first(where: { !methods.contains($0) }) { methods.append(other) }
    let refusesEcho = rules.contains { $0.request.carriesSecret || $0.routes.contains(where: \.carriesSecret) }
    if refusesEcho || isSecret, !methods.contains("TRACE") { methods.append("TRACE") }
  }

  private mutating func setPaths(_ rules: [Rule]) {
    var patterns: [String] = []
    for pattern in rules.flatMap(\.conditions.paths).map(\.description) where !patterns.contains(pattern) {
      patterns.append(pattern)
    }
    if patterns.isEmpty { return }
    var found = Set(paths)
    func add(_ text: String) {
      let path = text.hasPrefix("/") ? text : "/" + text
      if found.insert(path).inserted { paths.append(path) }
      // What a rule maps is compared with what stands below its base path.
      for target in rules.compactMap(\.target) {
        let base = target.path.span.string
        if path.hasPrefix(base), base.utf8.count > 1 {
          let below = "/" + path.dropFirst(base.utf8.count)
          if found.insert(below).inserted { paths.append(below) }
        }
      }
    }
    add("/other")
    for pattern in patterns { for filling in ["other", "", "other/other"] { add(pattern.filled(filling)) } }
    // What two patterns have in common: one within the other.
    for outer in patterns.prefix(WitnessRequests.mostPatternsCombined) {
      for inner in patterns.prefix(WitnessRequests.mostPatternsCombined) where outer != inner {
        let filled = inner.filled("other")
        add(outer.filled(filled.hasPrefix("/") ? String(filled.dropFirst()) : filled))
        add(outer.filled(filled))
      }
    }
  }

  private mutating func setClients(_ rules: [Rule]) {
    var numbers: [UInt32] = []
    var names: [UInt32: String] = [:]
    var units: [String] = []
    for conditions in rules.map(\.conditions) {
      let users = conditions.users ?? []
      for number in users where !numbers.contains(number) { numbers.append(number) }
      // A name that does not exist has no number, and then they do not go side by side.
      if users.count == conditions.userNames.count {
        for (number, name) in zip(users, conditions.userNames) where UInt32(name) == nil { names[number] = name }
      }
      for unit in conditions.units where !units.contains(unit) { units.append(unit) }
    }
    guard !units.isEmpty || rules.contains(where: { $0.conditions.users != nil }) else { return }
    if let other = (UInt32(60_000)...).first(where: { !numbers.contains($0) }) { numbers.append(other) }
    // One that is not known comes first: it is what `explain` without --user is asked about.
    for number in numbers {
      for unit in [nil] + units.map(Optional.some) {
        clients.append(LocalClient(userID: number, user: names[number], cgroup: unit.map { [$0] } ?? []))
      }
    }
    clients.append(.unknown)
  }
}

extension String {
  /// A pattern with something in the place of each wildcard.
  fileprivate func filled(_ filling: String) -> String {
    split(separator: "*", omittingEmptySubsequences: false).joined(separator: filling)
  }
}
