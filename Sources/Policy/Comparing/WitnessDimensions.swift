// The values from which the comparison requests for one host are made: everything that a condition of its rules names,
// and for each kind a value that none names. A condition adds its own values (`RuleCondition.addWitnesses`).

import Bytes
import Reachability

struct WitnessDimensions {
  let host: CanonicalHost
  private(set) var ports: [UInt16] = [80, 443]
  private(set) var methods = ["GET"]
  private(set) var paths = ["/"]
  var links: [ReachabilityStatus?] = [nil]
  private var namesMethods = false
  private var patterns: [PathPattern] = []
  private var asksForUsers = false
  private var users: [UInt32] = []
  private var userNames: [UInt32: String] = [:]
  private var units: [String] = []
  private var addresses: [IPAddress] = []
  private var proxyUsers: [String] = []
  private var programs: [String] = []

  init(_ host: CanonicalHost, from old: Policy, to new: Policy) {
    self.host = host
    var rules: [Rule] = []
    for policy in [old, new] {
      let own = policy.candidates(of: host)
      rules += own
      // A mapped request is decided once more, by its resulting URL.
      for target in own.compactMap(\.target) { rules += policy.candidates(of: target.host) }
    }
    for condition in rules.flatMap(\.conditions.all) { condition.addWitnesses(to: &self) }
    addOthers(rules, isSecret: old.defaultRequest.carriesSecret || new.defaultRequest.carriesSecret)
    fill(patterns, targets: rules.compactMap(\.target))
  }

  func request(_ method: String, isHTTPS: Bool, port: UInt16, path: String) -> NamedRequest {
    NamedRequest(
      method: method, isHTTPS: isHTTPS, host: host, port: port, path: path, query: "", isTunnel: false, isRawPath: false
    )
  }

  // MARK: What rules name

  mutating func add(ports named: [UInt16]) { ports.addMissing(named) }

  mutating func add(methods named: [String]) {
    namesMethods = true
    methods.addMissing(named)
  }

  mutating func add(paths named: [PathPattern]) { patterns.addMissing(named) }

  mutating func add(users numbers: [UInt32], names: [String]) {
    asksForUsers = true
    users.addMissing(numbers)
    // A name that does not exist has no number; then the two lists do not correspond.
    guard numbers.count == names.count else { return }
    for (number, name) in zip(numbers, names) where UInt32(name) == nil { userNames[number] = name }
  }

  mutating func add(units named: [String]) { units.addMissing(named) }

  /// The first address of each block, and the one after its last.
  mutating func add(clients blocks: [AddressBlock]) {
    for block in blocks { addresses.addMissing([block.address] + (block.next.map { [$0] } ?? [])) }
  }

  mutating func add(proxyUsers named: [String]) { proxyUsers.addMissing(named) }

  /// Wildcards are replaced, with something and with nothing.
  mutating func add(programs patterns: [String]) {
    programs.addMissing(
      patterns.flatMap { pattern in
        let runs = pattern.split(separator: "*", omittingEmptySubsequences: false)
        return [runs.joined(separator: "other"), runs.joined()]
      })
  }

  // MARK: What none names

  private mutating func addOthers(_ rules: [Rule], isSecret: Bool) {
    if let other = (8443...UInt16.max).first(where: { !ports.contains($0) }) { ports.append(other) }
    let others = ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "OTHER"]
    if namesMethods, let other = others.first(where: { !methods.contains($0) }) { methods.append(other) }
    let refusesEcho = rules.contains { $0.request.carriesSecret || $0.routes.contains(where: \.carriesSecret) }
    if refusesEcho || isSecret { methods.addMissing(["TRACE"]) }
    if asksForUsers || !units.isEmpty || !programs.isEmpty,
      let other = (UInt32(60_000)...).first(where: { !users.contains($0) })
    {
      users.append(other)
    }
  }

  private mutating func fill(_ patterns: [PathPattern], targets: [RuleTarget]) {
    if patterns.isEmpty { return }
    var found = Set(paths)
    func add(_ text: String) {
      let path = text.hasPrefix("/") ? text : "/" + text
      if found.insert(path).inserted { paths.append(path) }
      // A mapped request is also compared below the base path.
      for target in targets {
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
        add(outer.filledBySegment(of: inner).filled("other"))
      }
    }
  }

  // MARK: Who asks

  /// An unknown sender comes first: it is the one that `explain` assumes without options.
  var senders: [Sender] {
    let other: [String?] = programs.isEmpty ? [] : ["/other"]
    var senders: [Sender] = []
    for client in clients {
      for address in [nil] + addresses.map(Optional.some) {
        for proxyUser in [nil] + proxyUsers.map(Optional.some) {
          // Only for a client of this machine is the program known.
          for program in client == nil ? [nil] : [nil] + programs.map(Optional.some) + other {
            senders.append(Sender(client: client, address: address, proxyUser: proxyUser, program: program))
          }
        }
      }
    }
    return senders
  }

  private var clients: [LocalClient?] {
    if users.isEmpty { return [nil] }
    let known = users.flatMap { number in
      ([nil] + units.map(Optional.some)).map { unit in
        LocalClient(userID: number, user: userNames[number], cgroup: unit.map { [$0] } ?? [])
      }
    }
    return [nil] + known + [.unknown]
  }
}

extension Array where Element: Equatable {
  fileprivate mutating func addMissing(_ elements: [Element]) {
    for element in elements where !contains(element) { append(element) }
  }
}

extension PathPattern {
  /// A path that matches, with something in place of each wildcard; of one within a segment, a name.
  fileprivate func filled(_ filling: String) -> String {
    String(decoding: filled(anyRun: filling, segment: "other"), as: UTF8.self)
  }

  /// `/{}/a` filled from `/b/*` is `/b/a`: what two patterns have in common segment by segment.
  fileprivate func filledBySegment(of other: PathPattern) -> PathPattern {
    let names = other.description.split(separator: "/", omittingEmptySubsequences: false)
    return PathPattern(
      description.split(separator: "/", omittingEmptySubsequences: false).enumerated().map { place, segment in
        segment == Self.segmentWildcard && place < names.count ? names[place] : segment
      }.joined(separator: "/"))
  }
}
