// The policy: an immutable value that decides each request and names the rule responsible.
//
// Rules are tried in the order in which they are written. The first rule whose conditions all hold decides, alone.
// Deciding allocates nothing: the caller lends the storage (`DecisionWorkspace`).

import Bytes
import Reachability
import Security
import Serialization

/// What the proxy knows about a request when it decides it.
public struct RequestFacts: ~Escapable {
  public let scheme: Scheme
  public let port: UInt16
  public let method: Span<UInt8>
  /// Path without query; empty for CONNECT.
  public let path: Span<UInt8>
  /// A CONNECT. Conditions on methods and paths are about requests inside the tunnel.
  public let isTunnel: Bool
  public let sender: Sender
  /// The kind of link that carries the machine's default route.
  public let link: ReachabilityStatus
  /// When it is asked, in milliseconds since 1970; 0: not said.
  public let wall: Int64

  @_lifetime(copy method, copy path)
  public init(
    scheme: Scheme, port: UInt16, method: Span<UInt8>, path: Span<UInt8>, isTunnel: Bool,
    sender: Sender = Sender(), link: ReachabilityStatus = .unknown, wall: Int64 = 0
  ) {
    self.scheme = scheme
    self.port = port
    self.method = method
    self.path = path
    self.isTunnel = isTunnel
    self.sender = sender
    self.link = link
    self.wall = wall
  }
}

/// Storage for deciding, one per loop.
public struct DecisionWorkspace: Sendable {
  public var host = CanonicalHost()
  var paths = PathReadings()
  var lists: [Range<Int32>] = []

  public init() { lists.reserveCapacity(16) }
}

/// A decision and its reason. The reasons are stable words: the log shows them and tests assert them.
public struct Decision: Equatable, Sendable {
  public enum Verdict: String, Sendable, CaseIterable {
    case allow, deny
    /// An operator is asked; nothing is sent until the operator says yes.
    case ask

    /// What has been done with a request: "allowed".
    public var participle: String {
      switch self {
      case .allow: "allowed"
      case .deny: "denied"
      case .ask: "put to an operator"
      }
    }
  }

  public enum Reason: String, Sendable {
    /// A rule allows.
    case rule = "rule"
    /// A rule denies.
    case ruleDenies = "rule-denies"
    /// A rule treats CONNECT as denied.
    case connectDenied = "connect-denied"
    /// Only listed destinations are reachable, and the rule that would allow the tunnel does not list its port.
    case portNotListed = "port-not-listed"
    /// The rule has a target, and the path leads out of its base path.
    case outsideTarget = "outside-target"
    /// A rule would deny, but its `enforce` is false.
    case ruleWouldDeny = "rule-would-deny"
    /// deny_addresses lists the address of the destination.
    case addressDenied = "address-denied"
    /// No rule matches and `default` allows.
    case defaultAllow = "default"
    /// No rule matches and `default` denies.
    case defaultDeny = "default-denies"
    /// The response to this method would echo the request, including the secret that the rule adds.
    case methodRefused = "method-refused"
    /// A rule asks an operator.
    case ruleAsks = "rule-asks"
    /// A rule would ask, but its `enforce` is false.
    case ruleWouldAsk = "rule-would-ask"
    /// The tunnel is intercepted, and the rule asks about each request in it.
    case asksInside = "asks-inside"
    /// An operator allowed, or denied, this request.
    case operatorAllows = "operator-allows"
    case operatorDenies = "operator-denies"
    /// No operator answered in time.
    case unanswered
    /// An operator allowed, or denied, such requests for a time.
    case temporaryAllow = "temporary-allow"
    case temporaryDeny = "temporary-deny"
  }

  public let verdict: Verdict
  public let reason: Reason
  /// Number of the rule that decided; nil if none matched.
  public let rule: Int?

  public init(verdict: Verdict, reason: Reason, rule: Int?) {
    self.verdict = verdict
    self.reason = reason
    self.rule = rule
  }
}

/// What has to be known of who asks, of every request.
public struct IdentityNeeds: Sendable {
  /// Whether a rule depends on who the client is.
  public let asksForClient: Bool
  /// Whether a rule depends on the program that the client runs.
  public let asksForProgram: Bool
  /// Whether a rule, the log, or the history needs to know who the client is.
  public let namesClients: Bool
  /// Whether a rule, the log, or the history needs to know the program that the client runs.
  public let namesPrograms: Bool
  /// Whether a rule depends on the user of `credentials` that the client names.
  public let namesProxyUsers: Bool

  init(_ rules: [Rule], _ configuration: Configuration) {
    asksForClient = rules.contains {
      $0.action == .ask || !$0.conditions.asksFor.isEmpty || ($0.cache?.share ?? .machine) != .machine
    }
    asksForProgram = rules.contains { $0.conditions.asksFor.contains(.program) }
    namesPrograms = asksForProgram || configuration.log.who || configuration.history != nil
    namesClients = asksForClient || namesPrograms
    namesProxyUsers = rules.contains { !$0.conditions.values(of: ProxyUserCondition.self).isEmpty }
  }
}

public final class Policy: Sendable {
  public let configuration: Configuration
  public let rules: [Rule]
  /// The outcomes that the operator expects for some requests.
  public let expectations: [Expectation]
  /// For requests that no rule matches: [defaults.request].
  public let defaultRequest: RequestPolicy
  /// For requests that no rule matches: [defaults.security].
  public let defaultSecurity: SecurityPolicy
  /// For requests that no rule matches: [defaults.response]; nil: responses are not checked.
  public let defaultResponse: ResponseSerialization?
  /// For requests that no rule matches: `answer` of [defaults.response].
  private let defaultAnswer: SubstituteAnswer?
  /// Every security policy that can apply to a request, each digest once, the default first.
  public let securityPolicies: [SecurityPolicy]
  /// The most bytes that the edits of any one rule add to a head.
  public let longestAddition: Int
  private let index: RuleIndex
  private let looksAtPaths: Bool
  /// Whether the defaults, and whether each rule, have settings that apply to requests.
  private let defaultsSpeakOfRequests: Bool
  private let rulesSpeakOfRequests: [Bool]
  public let identity: IdentityNeeds
  /// Whether a request with bytes above 0x7F in its path may be accepted.
  public let encodesPaths: Bool
  /// Whether a request may have to be refused because nothing is stored for it.
  public let mayRefuseToLoad: Bool
  /// Whether a rule has time-outs of its own.
  private let rulesHaveTimeouts: Bool
  /// Every route that a rule lists and that has a table, each once, in the order of the rules.
  public let routes: [Route]

  public init(
    configuration: Configuration = Configuration(), rules: [Rule] = [], defaultRequest: RequestPolicy = RequestPolicy(),
    defaultSecurity: SecurityPolicy = .standard, defaultResponse: ResponseSerialization? = nil,
    defaultAnswer: SubstituteAnswer? = nil, expectations: [Expectation] = []
  ) {
    self.configuration = configuration
    let rules = Self.inOrder(rules) { $0.action }
    self.rules = rules
    self.expectations = expectations
    self.defaultRequest = defaultRequest
    self.defaultSecurity = defaultSecurity
    self.defaultResponse = defaultResponse
    self.defaultAnswer = defaultAnswer
    var digests: Set<[UInt8]> = []
    var known: Set<Route> = [.direct]
    routes = rules.flatMap(\.routes).filter { known.insert($0).inserted }
    securityPolicies = ([defaultSecurity] + rules.map(\.security) + routes.map(\.security)).filter {
      digests.insert($0.digest).inserted
    }
    identity = IdentityNeeds(rules, configuration)
    encodesPaths = defaultRequest.encodesPath || rules.contains { $0.request.encodesPath }
    mayRefuseToLoad =
      defaultRequest.cachePolicy == .returnCacheDontLoad
      || rules.contains { $0.request.cachePolicy == .returnCacheDontLoad }
    rulesHaveTimeouts = rules.contains { $0.timeouts != nil }
    index = RuleIndex(rules: rules)
    looksAtPaths = rules.contains { !$0.conditions.values(of: PathsCondition.self).isEmpty }
    defaultsSpeakOfRequests = defaultRequest.speaksOfRequests || defaultResponse != nil
    rulesSpeakOfRequests = rules.map(\.speaksOfRequests)
    longestAddition = rules.reduce(defaultRequest.fields.addedBytes) { max($0, $1.request.fields.addedBytes) }
  }

  /// Rules in the order in which they are tried: rules that ask come last.
  static func inOrder<Element>(_ rules: [Element], _ action: (Element) -> RuleAction) -> [Element] {
    rules.filter { action($0) != .ask } + rules.filter { action($0) == .ask }
  }

  /// Decides a request. The caller has put the host into `workspace.host`.
  public func decide(_ facts: borrowing RequestFacts, in workspace: inout DecisionWorkspace) -> Decision {
    var decision = Decision(
      verdict: configuration.proxy.defaultAction == .allow ? .allow : .deny,
      reason: configuration.proxy.defaultAction == .allow ? .defaultAllow : .defaultDeny, rule: nil)
    if rules.isEmpty { return refusingEcho(facts, decision) }
    if looksAtPaths, !facts.isTunnel { workspace.paths.set(facts.path) }
    let host = workspace.host
    var context = ConditionContext(host: nil, paths: workspace.paths)
    index.forEachCandidate(of: host, lists: &workspace.lists) { number in
      let rule = rules[number]
      guard rule.firstFailure(facts, &context) == nil else { return false }
      decision = self.decision(of: rule, number, tunnelPort: facts.isTunnel ? facts.port : nil)
      return true
    }
    return refusingEcho(facts, decision)
  }

  private func refusingEcho(_ facts: borrowing RequestFacts, _ decision: Decision) -> Decision {
    guard EchoMethod.includes(facts.method), decision.verdict != .deny, !facts.isTunnel, carriesSecret(decision) else {
      return decision
    }
    return Decision(verdict: .deny, reason: .methodRefused, rule: decision.rule)
  }

  /// The rules whose host condition holds, in order.
  func candidates(of host: CanonicalHost) -> [Rule] {
    var lists: [Range<Int32>] = []
    var found: [Rule] = []
    index.forEachCandidate(of: host, lists: &lists) { number in
      found.append(rules[number])
      return false
    }
    return found
  }

  /// Whether the defaults, or any rule for the host in `workspace`, have settings that apply to requests.
  func speaksOfRequestsToHost(in workspace: inout DecisionWorkspace) -> Bool {
    if defaultsSpeakOfRequests { return true }
    var speaks = false
    let host = workspace.host
    index.forEachCandidate(of: host, lists: &workspace.lists) { number in
      speaks = rulesSpeakOfRequests[number]
      return speaks
    }
    return speaks
  }

  /// `tunnelPort`: nil for a request.
  private func decision(of rule: Rule, _ number: Int, tunnelPort: UInt16?) -> Decision {
    let reason: Decision.Reason
    if rule.action == .deny {
      reason = .ruleDenies
    } else if tunnelPort != nil && rule.connect == .deny {
      reason = .connectDenied
    } else if let tunnelPort, !allowsTunnel(rule, to: tunnelPort) {
      reason = .portNotListed
    } else if rule.action == .ask {
      return rule.enforce
        ? Decision(verdict: .ask, reason: .ruleAsks, rule: number)
        : Decision(verdict: .allow, reason: .ruleWouldAsk, rule: number)
    } else {
      return Decision(verdict: .allow, reason: .rule, rule: number)
    }
    if !rule.enforce { return Decision(verdict: .allow, reason: .ruleWouldDeny, rule: number) }
    return Decision(verdict: .deny, reason: reason, rule: number)
  }

  /// What to do to requests of `decision`.
  public func request(of decision: Decision) -> RequestPolicy {
    decision.rule.map { rules[$0].request } ?? defaultRequest
  }

  /// What responses to requests of `decision` are checked against; nil: nothing.
  public func response(of decision: Decision) -> ResponseSerialization? {
    guard let rule = decision.rule else { return defaultResponse }
    return rules[rule].response
  }

  /// What is sent if the origin fails for a request of `decision`; nil: the default.
  public func substituteAnswer(of decision: Decision) -> SubstituteAnswer? {
    guard let rule = decision.rule else { return defaultAnswer }
    return rules[rule].answer
  }

  /// What is stored of responses to requests of `decision`; nil: nothing.
  public func cache(of decision: Decision) -> CacheRule? {
    guard configuration.cache != nil, let rule = decision.rule else { return nil }
    return rules[rule].cache
  }

  /// The values for an exchange that this rule decided; nil: no rule did.
  public func timeouts(of rule: Int?) -> Timeouts {
    guard rulesHaveTimeouts, let rule, let own = rules[rule].timeouts else { return configuration.timeouts }
    return rules[rule].enforce ? own.values : own.lenient
  }

  /// nil: no rule, so any protocol.
  public func protocols(of rule: Int?) -> [HTTPProtocol] { rule.map { rules[$0].protocols } ?? HTTPProtocol.allCases }

  /// What the server's certificate is checked against for requests of `decision`.
  public func security(of decision: Decision) -> SecurityPolicy {
    decision.rule.map { rules[$0].security } ?? defaultSecurity
  }

  /// How a CONNECT of `decision` is treated: as the rule says; otherwise "verify" if it pins, else "tunnel". An
  /// unenforced rule that would deny tunnels treats them as if it did not say.
  public func treatment(of decision: Decision) -> ConnectTreatment {
    if decision.verdict == .deny { return .deny }
    if let connect = decision.rule.flatMap({ rules[$0].connect }), connect != .deny { return connect }
    return security(of: decision).isPinning ? .verify : .tunnel
  }

  /// The addresses that a request of rule `rule` must not connect to. An unenforced rule forbids nothing; addresses
  /// that [proxy] denies stay denied.
  public func deniedAddresses(rule: Int?) -> AddressSet {
    if let rule, rules[rule].enforce, let own = rules[rule].denyAddresses { return own }
    return configuration.proxy.denyAddresses
  }

  /// The entry that forbids a request of rule `rule` to connect to `address`; nil: none. `isOwn`: see
  /// `AddressSet.match`.
  public func denyingBlock(_ address: IPAddress, rule: Int?, isOwn: (IPAddress) -> Bool?) -> AddressMatch? {
    deniedAddresses(rule: rule).match(address, isOwn: isOwn)
  }

  /// Whether the unenforced rule would have forbidden `address`.
  public func wouldDeny(_ address: IPAddress, rule: Int, isOwn: (IPAddress) -> Bool?) -> Bool {
    !rules[rule].enforce && rules[rule].denyAddresses?.match(address, isOwn: isOwn) != nil
  }
}
