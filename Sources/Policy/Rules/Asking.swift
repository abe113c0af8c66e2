// action = "ask": the request waits for an operator. The rule's terms of the wait, and the operators' answers that
// remain valid for a time: temporary rules, beside those of the configuration.
//
// Rules that ask are tried after all others, wherever they are written. So the proxy asks only about requests that no
// other rule allows or denies. A temporary permission applies to these, and to requests that no rule matches. A
// temporary denial applies whatever the rules say: it can only restrict. Tests: AskingTests.

import Bytes
import Security

/// [rule.ask]
public struct AskTerms: Hashable, Sendable {
  /// How long a request waits for an answer.
  public var waitMilliseconds: Int64 = 30_000
  /// How long an answer of "once" is valid for the same question; 0: not at all.
  public var rememberMilliseconds: Int64 = 600_000

  public init() {}
}

/// What an operator is asked about: requests that are equal in all of this are one question.
public struct AskedRequest: Hashable, Sendable {
  /// The user that answers for the client; nil: it is no program of this machine, or its user is unknown.
  public private(set) var userID: UInt32? = nil
  public private(set) var user: String? = nil
  /// The systemd unit, if its name is permanent.
  public private(set) var unit: String? = nil
  /// Address of the client, if it has no user.
  public private(set) var client: IPAddress? = nil
  /// A program of this machine whose owner is unknown: nothing is remembered for it.
  public private(set) var isInDoubt = false
  public private(set) var scheme: Scheme
  public private(set) var host: CanonicalHost
  public private(set) var port: UInt16
  /// `CONNECT` for a tunnel.
  public private(set) var method: String
  /// The shape of the path, without the query; nil for a tunnel.
  public private(set) var path: String?
  /// It arrived inside an intercepted tunnel.
  public private(set) var isIntercepted: Bool

  /// The host is in `workspace`.
  public init(
    _ facts: borrowing RequestFacts, isIntercepted: Bool = false, in workspace: borrowing DecisionWorkspace
  ) {
    self.isIntercepted = isIntercepted
    scheme = facts.scheme
    host = CanonicalHost(canonical: workspace.host.copiedBytes, address: workspace.host.address)
    port = facts.port
    method = facts.isTunnel ? "CONNECT" : Self.shape(ofMethod: facts.method)
    path = facts.isTunnel ? nil : Self.shape(facts.path)
    let address = facts.sender.address
    guard let client = facts.sender.client else {
      self.client = address
      // A program of this machine that was not looked up: all others share its address.
      isInDoubt = address?.isLoopback ?? true
      return
    }
    isInDoubt = client.outcome != .known
    if client.isUserInDoubt { return }
    userID = client.userID
    user = client.user
    if !client.isUnitInDoubt { unit = client.unit.flatMap { UnitName.isLasting($0) ? $0 : nil } }
  }

  /// For a request that is given in words.
  public init(_ request: NamedRequest, of sender: Sender, isIntercepted: Bool) {
    let method = Array(request.method.utf8)
    let path = Array(request.path.utf8)
    var workspace = DecisionWorkspace()
    workspace.host = request.host
    self.init(
      RequestFacts(
        scheme: request.isHTTPS ? .https : .http, port: request.port, method: method.span, path: path.span,
        isTunnel: request.isTunnel, sender: sender), isIntercepted: isIntercepted, in: workspace)
  }

  /// Most segments of a path that has a shape: examining each takes less than a microsecond. A longer path is its own
  /// shape.
  private static let mostSegments = 64
  /// Precedes the digest of a path that is longer than a rule may contain. So such a path is still one question.
  private static let digestMark: UInt8 = 0x7e

  /// The longest method that is asked about by its name, in bytes: registered ones have at most 17.
  private static let longestMethod = 64

  /// Whether a method is the one of a temporary rule, given as bytes and as text.
  fileprivate static func isMethod(_ method: borrowing Span<UInt8>, _ bytes: [UInt8], text: String?) -> Bool {
    method.count <= longestMethod ? bytes.span.equals(method) : shape(ofMethod: method) == text
  }

  /// Of a longer method its digest, after the same mark, so that a question stays small.
  private static func shape(ofMethod method: borrowing Span<UInt8>) -> String {
    if method.count <= longestMethod { return method.string }
    return String(decoding: [digestMark], as: UTF8.self) + hexadecimal(sha256(method.array))
  }

  /// A shape that a rule may contain: of bounded length, with a bounded number of wildcards.
  fileprivate static func shape(_ path: borrowing Span<UInt8>) -> String {
    // RFC 9110, 4.2.3.
    if path.isEmpty { return "/" }
    if path.count > PathPattern.longest {
      return String(decoding: [digestMark], as: UTF8.self) + hexadecimal(sha256(path.array))
    }
    let text = path.string
    var segments = 0
    for index in 0..<path.count where path[index] == 0x2f { segments += 1 }
    if segments > mostSegments { return PathShape.literal(text) }
    let shape = PathShape.of(text)
    return PathPattern(shape).wildcards > PathPattern.mostWildcards ? PathShape.literal(text) : shape
  }

  public var isTunnel: Bool { path == nil }

  /// `https://a.example/users/{}`; `a.example:443` for a tunnel.
  public var url: String {
    let name = host.address.map { $0.isIPv4 ? "\($0)" : "[\($0)]" } ?? host.bytes.span.string
    guard let path else { return "\(name):\(port)" }
    return "\(scheme.rawValue)://\(name)\(port == scheme.defaultPort ? "" : ":\(port)")\(path)"
  }

  /// The narrowest rule that would allow it. `connect`: how its tunnel is treated. `path`: its own path, in place of
  /// all with the same shape. nil: no rule can name the path.
  public func rule(_ action: RuleAction = .allow, connect: ConnectTreatment?, path own: String? = nil) -> RuleText? {
    let name = host.bytes.span.string
    let who = [user ?? userID.map { "\($0)" }, unit?.split(separator: ".").first.map(String.init)].compactMap { $0 }
    let paths = own.map(PathPattern.namings) ?? path.map { [$0] } ?? []
    guard paths.allSatisfy({ $0.hasPrefix("/") && $0.utf8.count <= PathPattern.longest }) else { return nil }
    guard method.utf8.first != Self.digestMark || method.utf8.count <= Self.longestMethod else { return nil }
    // A rule that allows has to match each way of reading a path.
    if action == .allow, let read = own.map({ Array($0.utf8) }) ?? path.map({ PathPattern($0).example }),
      !PathCondition(paths.map(PathPattern.init), denies: false).holds(read)
    {
      return nil
    }
    // Different rules for one host need different names.
    let mark = hexadecimal(sha256(Array("\(scheme) \(port) \(method) \(paths.joined(separator: " "))".utf8))).prefix(
      Self.markDigits)
    var rule = RuleText(name: RuleText.plainName([action.rawValue] + who + [name]) + ".\(mark)", hosts: [name])
    rule.ports = [port]
    if let userID { rule.users = [user.map(\.inTOML) ?? "\(userID)"] }
    if let unit { rule.units = [unit] }
    if isTunnel {
      rule.schemes = [.https]
      if action == .allow, let connect, connect != .deny { rule.connect = connect }
    } else {
      rule.schemes = [scheme]
      rule.methods = [method]
      rule.paths = paths
      // A request without CONNECT needs no tunnel.
      if action == .allow, scheme == .https { rule.connect = isIntercepted ? .intercept : .deny }
    }
    rule.action = action
    if userID == nil {
      rule.comment =
        "For every client: " + (client.map { "no rule can name \($0) alone." } ?? "nobody can say who asks.")
    }
    return rule
  }

  /// Digits of the mark in the name of a rule: a hundred such rules in a file have a collision with probability one in
  /// ten.
  private static let markDigits = 4

  /// A rule for this question alone; nil if its client is unknown.
  public func temporaryRule(
    _ verdict: TemporaryRule.Verdict, id: Int, since: Int64, until: Int64, by: String
  ) -> TemporaryRule? {
    if isInDoubt { return nil }
    var rule = TemporaryRule(
      id: id, verdict: verdict, host: HostPattern(exactly: host), since: since, until: until, by: by)
    rule.scheme = scheme
    rule.port = port
    rule.method = method
    rule.path = path
    rule.userID = userID
    rule.user = user
    rule.unit = unit
    rule.client = client
    return rule
  }
}

/// An operator's answer, for whom and how long.
public struct TemporaryRule: Hashable, Sendable {
  public enum Verdict: String, Sendable {
    case allow, deny

    public var participle: String {
      switch self {
      case .allow: "allowed"
      case .deny: "denied"
      }
    }
  }

  /// Its number, which identifies it until it ends.
  public var id: Int
  public var verdict: Verdict
  public var host: HostPattern
  /// nil: any. A tunnel counts as https.
  public var scheme: Scheme? = nil
  /// nil: any; for an allowed tunnel, 443.
  public var port: UInt16? = nil
  /// `CONNECT` means only tunnels; nil: any, including tunnels.
  public var method: String? = nil
  /// The shape of a path (`PathShape`). A permission is for paths of this shape; a denial, for all that the same text
  /// denies in a rule. nil: any.
  public var path: String? = nil
  /// nil: any client.
  public var userID: UInt32? = nil
  /// For display.
  public var user: String? = nil
  /// nil: any.
  public var unit: String? = nil
  /// Address of a client that is no program of this machine; nil: any.
  public var client: IPAddress? = nil
  /// Milliseconds since 1970.
  public var since: Int64
  public var until: Int64
  /// Who answered.
  public var by: String
  /// An answer of "once", which is remembered for a while. It is discarded before others.
  public var isRemembered = false

  public init(id: Int, verdict: Verdict, host: HostPattern, since: Int64, until: Int64, by: String) {
    self.id = id
    self.verdict = verdict
    self.host = host
    self.since = since
    self.until = until
    self.by = by
  }
}

/// All temporary rules: an immutable value that loops share. Each change creates a new one.
public final class TemporaryRules: Sendable {
  public static let none = TemporaryRules([])

  /// In the order of creation.
  public let all: [TemporaryRule]
  private let entries: [Entry]
  private let looksAtPaths: Bool
  /// Whether any of them is for a user or a unit.
  public let asksForClient: Bool

  fileprivate struct Entry: Sendable {
    let rule: TemporaryRule
    let method: [UInt8]
    /// The path of a denial: it is compared as that of a rule that denies.
    let denied: PathCondition?
  }

  public init(_ rules: [TemporaryRule]) {
    all = rules
    asksForClient = rules.contains { $0.userID != nil || $0.unit != nil }
    looksAtPaths = rules.contains { $0.verdict == .deny && $0.path != nil }
    // Denials first: if both exist, the denial applies.
    entries = (rules.filter { $0.verdict == .deny } + rules.filter { $0.verdict == .allow }).map { rule in
      Entry(
        rule: rule, method: Array((rule.method ?? "").utf8),
        denied: rule.verdict == .deny ? rule.path.map { PathCondition([PathPattern($0)], denies: true) } : nil)
    }
  }

  public var isEmpty: Bool { all.isEmpty }

  /// Whether a denial is about requests of `sender` to `host`, which cannot be told apart inside a tunnel.
  public func deniesRequests(to host: CanonicalHost, port: UInt16, of sender: Sender, wall: Int64) -> Bool {
    entries.contains { entry in
      let rule = entry.rule
      return rule.verdict == .deny && rule.until > wall
        && (rule.path != nil || !entry.method.isEmpty && entry.method != Entry.connect)
        && rule.host.matches(host) && rule.port ?? port == port && entry.isAbout(sender)
    }
  }

  /// The result of `decision` under these rules, and the rule responsible. The host is in `workspace`. `wall`:
  /// milliseconds since 1970.
  public func amend(
    _ decision: Decision, _ facts: borrowing RequestFacts, wall: Int64, in workspace: inout DecisionWorkspace
  ) -> (decision: Decision, rule: TemporaryRule?) {
    if entries.isEmpty { return (decision, nil) }
    let isOpen = decision.verdict == .ask || decision.reason == .defaultDeny || decision.reason == .defaultAllow
    // A denial applies to every way in which a server may read the path.
    if !facts.isTunnel, looksAtPaths { workspace.paths.set(facts.path) }
    let host = workspace.host
    var shape: String? = nil
    for entry in entries where entry.rule.until > wall {
      let denies = entry.rule.verdict == .deny
      guard denies ? decision.verdict != .deny : isOpen,
        entry.holds(facts, host: host),
        entry.rule.path == nil || entry.holds(facts, &shape, paths: workspace.paths)
      else { continue }
      let amended = Decision(
        verdict: denies ? .deny : .allow, reason: denies ? .temporaryDeny : .temporaryAllow, rule: decision.rule)
      return (amended, entry.rule)
    }
    return (decision, nil)
  }
}

extension TemporaryRules {
  /// The rule that decides a request that is given in words; nil: none does.
  public func rule(for request: NamedRequest, of sender: Sender, by policy: Policy, wall: Int64) -> TemporaryRule? {
    let method = Array(request.method.utf8)
    let path = Array(request.path.utf8)
    var workspace = DecisionWorkspace()
    workspace.host = request.host
    // If the address is not given, a rule for an address is reported too, and names its address.
    let addresses: [IPAddress?] =
      [sender.address] + (sender.address == nil && sender.client == nil ? all.map(\.client) : [])
    for address in addresses {
      var sender = sender
      sender.address = address
      let facts = RequestFacts(
        scheme: request.isHTTPS ? .https : .http, port: request.port, method: method.span, path: path.span,
        isTunnel: request.isTunnel, sender: sender, wall: wall)
      workspace.host = request.host
      let decision = policy.decide(facts, in: &workspace)
      if let rule = amend(decision, facts, wall: wall, in: &workspace).rule { return rule }
      // A denial also counts for where the request is sent instead.
      guard let mapping = policy.mapping(of: decision, facts, in: &workspace) else { continue }
      let mapped = RequestFacts(
        scheme: mapping.target.scheme, port: mapping.target.port, method: method.span, path: mapping.path.span,
        isTunnel: false, sender: sender, wall: wall)
      _ = workspace.host.set(mapping.target.name.span)
      let amended = amend(decision, mapped, wall: wall, in: &workspace)
      if amended.decision.verdict == .deny, let rule = amended.rule { return rule }
    }
    return nil
  }
}

extension TemporaryRules.Entry {
  fileprivate func holds(_ facts: borrowing RequestFacts, host: CanonicalHost) -> Bool {
    guard rule.host.matches(host) else { return false }
    let isDenial = rule.verdict == .deny
    if let scheme = rule.scheme, facts.scheme != scheme { return false }
    if let port = rule.port {
      if facts.port != port { return false }
    } else if facts.isTunnel, !isDenial, facts.port != Scheme.https.defaultPort {
      return false
    }
    if !isAbout(facts.sender) { return false }
    if facts.isTunnel { return method.isEmpty || method == Self.connect }
    return method.isEmpty || AskedRequest.isMethod(facts.method, method, text: rule.method)
  }

  fileprivate static let connect = Array("CONNECT".utf8)

  /// Whether it applies to this sender. What is not known counts for a denial, and against a permission.
  fileprivate func isAbout(_ sender: Sender) -> Bool {
    let isDenial = rule.verdict == .deny
    if rule.userID != nil || rule.unit != nil {
      guard let client = sender.client else { return false }
      if let userID = rule.userID, !client.isOne(of: [userID], strictly: isDenial) { return false }
      if let unit = rule.unit,
        !client.belongs(toOneOf: [unit], countsOwn: rule.userID != nil, strictly: isDenial)
      {
        return false
      }
    }
    return rule.client == nil || rule.client == sender.address
  }

  /// Whether the path matches. `shape` is that of this request, made for the first rule that needs it. A path that is
  /// too long for a pattern is known by its shape alone.
  fileprivate func holds(
    _ facts: borrowing RequestFacts, _ shape: inout String?, paths: borrowing PathReadings
  ) -> Bool {
    guard let path = rule.path else { return true }
    if facts.isTunnel { return false }
    let known = shape ?? AskedRequest.shape(facts.path)
    shape = known
    return known == path || denied?.holds(facts.path, paths) ?? false
  }
}

extension Decision {
  /// The decision for a tunnel. An intercepted tunnel is granted without a question, because nothing is opened for it;
  /// each request in it is asked about. `connect`: how it is treated; nil: it is a request.
  public func asTunnel(connect: ConnectTreatment?) -> Decision {
    verdict == .ask && connect == .intercept ? Decision(verdict: .allow, reason: .asksInside, rule: rule) : self
  }
}

extension HostPattern {
  /// That host alone.
  public init(exactly host: CanonicalHost) {
    if let address = host.address, let block = AddressBlock(address: address, length: address.width) {
      self = .block(block)
    } else {
      self = .name(host.bytes.span.string)
    }
  }
}

extension TemporaryRule {
  /// Whether it applies to everything that `request` asks, if it is about a host.
  public func covers(_ request: AskedRequest) -> Bool {
    // As in `holds`: without a port, tunnels are allowed only to the https port.
    if verdict == .allow, port == nil, request.isTunnel, request.port != Scheme.https.defaultPort { return false }
    return host.matches(request.host) && (scheme ?? request.scheme) == request.scheme
      && (port ?? request.port) == request.port
      && (method ?? request.method) == request.method && (path == nil || path == request.path)
      && (userID == nil || userID == request.userID) && (unit == nil || unit == request.unit)
      && (client == nil || client == request.client)
  }
}
