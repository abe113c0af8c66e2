// `sallyport explain METHOD URL`: which rule decides a request, why each earlier one does not, and what will be done.
//
// The verdict comes from `Policy.decide`, called as in the daemon. The rules before the deciding one are then examined
// one by one for the condition that failed. Only fields that never carry a secret are shown with values.
// Tests: ExplanationTests.

import Bytes
import Reachability

/// The answer to "what happens to this request, and why".
public struct Explanation: Sendable {
  /// A rule that did not match.
  public struct PassedOver: Hashable, Sendable {
    public let rule: String
    public let location: SourceLocation
    /// The key of the condition that fails, or "requests only".
    public let condition: String
    public let expected: String
    public let seen: String

    /// `users: expected ci, seen kiosk`
    var text: String { "\(condition): expected \(expected), seen \(seen)" }
  }

  /// A field that is written, with its value if that may be shown.
  public struct Field: Hashable, Sendable {
    public let name: String
    public let value: String?
  }

  /// The result of `deny_addresses` for the literal address that the request names.
  public struct AddressVerdict: Hashable, Sendable {
    public let address: IPAddress
    /// nil: connecting to it is allowed.
    public let block: AddressMatch?
    /// Whether the list is the rule's own, not that of [proxy].
    public let isOfRule: Bool
  }

  /// Where `target` of a rule leads.
  public struct Mapped: Hashable, Sendable {
    public let url: String
    public let rule: String
    public let location: SourceLocation
    /// How the path leads out of the base path, if that is why the request is denied.
    public let escape: PathReadingText?
  }

  public let request: String
  public let isTunnel: Bool
  public let port: UInt16
  public let decision: Decision
  /// The rule that decides; nil if none matches.
  public let rule: Rule?
  public let passedOver: [PassedOver]
  /// How many rules before the deciding one are missing from `passedOver`.
  public let passedOverMore: Int
  /// The reading of the path by which a rule denies; nil if all readings agree, or if no rule denies.
  public let pathReading: PathReadingText?
  /// `upgrades` of the rule; nil: it does not say.
  public let upgrades: UpgradeList?
  /// Protocols for the origin, in order of preference; nil: any.
  public let protocols: [HTTPProtocol]?
  /// The URL that `target` of the rule maps the request to, or would map it to, and that rule; nil: its own.
  public let mapped: Mapped?
  /// Where redirects may lead; nil: anywhere.
  public let redirects: Redirects?
  public let removed: [String]
  /// Whether the proxy answers a Digest challenge of the origin.
  public let answersDigest: Bool
  public let set: [Field]
  public let defaults: [Field]
  public let timeoutMilliseconds: Int64?
  public let cookies: Bool
  /// true: bytes above 0x7F in the path are percent-encoded. false: a request with such bytes is refused.
  public let encodesPath: Bool
  /// Parameters and bodies, and how bytes are sent; for a tunnel only the latter. nil if denied, and for an intercepted
  /// tunnel: each request in it has its own.
  public let serializer: SerializerExplanation?
  /// What the response is checked against; nil: nothing.
  public let response: ResponseExplanation?
  /// How responses are stored and used; nil: not at all.
  public let cache: CacheExplanation?
  /// nil if denied, and for a request that is sent in the clear.
  public let security: SecurityExplanation?
  /// nil if denied, and if the rule lists no routes: then it goes directly.
  public let routes: RouteExplanation?
  /// What the question left open although the answer depends on it.
  public let assumptions: [Assumption]
  /// nil for a name: then every address that it resolves to is checked.
  public let address: AddressVerdict?
  /// A note that precedes everything else.
  public var note: String? = nil
}

extension Explanation {
  /// A request that is given in words.
  public init(
    by policy: Policy, of request: NamedRequest, _ asker: Asker, own: OwnAddresses = .unknown,
    atMost passedOver: Int = .max, saysWhatIsOpen: Bool = true
  ) {
    self.init(
      by: policy, method: request.method, scheme: request.isHTTPS ? .https : .http, host: request.host,
      port: request.port, path: request.path, isTunnel: request.isTunnel, asker, own: own, query: request.query,
      atMost: passedOver, saysWhatIsOpen: saysWhatIsOpen)
  }

  /// Explains a request. `path` is without the query, and empty for a tunnel. Facts that `asker` does not give count as
  /// unknown. `own`: the addresses of the machine. `query`, with its question mark, is shown but has no influence. At
  /// most `mostPassedOver` rules that do not match are examined. `saysWhatIsOpen`: whether to report facts that rules
  /// depend on and the question leaves open.
  public init(
    by policy: Policy, method: String, scheme: Scheme, host: CanonicalHost, port: UInt16, path: String, isTunnel: Bool,
    _ asker: Asker = Asker(), own: OwnAddresses = .unknown, query: String = "",
    atMost mostPassedOver: Int = .max, saysWhatIsOpen: Bool = true
  ) {
    let methodBytes = Array(method.utf8)
    let pathBytes = Array(path.utf8)
    let facts = RequestFacts(
      scheme: scheme, port: port, method: methodBytes.span, path: pathBytes.span, isTunnel: isTunnel,
      sender: asker.sender, link: asker.link ?? .unknown, wall: asker.wall)
    var workspace = DecisionWorkspace()
    workspace.host = host
    let outcome = MappedDecision(by: policy, of: facts, in: &workspace)
    let seen = SeenRequest(method: method, scheme: scheme, host: host, port: port, path: path, asker: asker)
    let examination = Examination(
      of: policy.rules, deciding: outcome.asked.rule, seen, isTunnel: isTunnel, atMost: mostPassedOver,
      saysWhatIsOpen: saysWhatIsOpen)
    let mapped = outcome.mapping.flatMap { mapping in
      outcome.asked.rule.map { number in
        Mapped(
          url: mapping.target.url(of: mapping.path) + query, rule: policy.rules[number].name,
          location: policy.rules[number].location, escape: outcome.objection == nil ? nil : mapping.escape)
      }
    }
    self.init(
      by: policy, of: outcome.decision.asTunnel(connect: isTunnel ? policy.treatment(of: outcome.decision) : nil), seen,
      query: query, isTunnel: isTunnel, to: outcome.mapping?.target, mapped: mapped, examination: examination, own: own)
  }

  private init(
    by policy: Policy, of decision: Decision, _ seen: SeenRequest, query: String, isTunnel: Bool,
    to target: RuleTarget?, mapped: Mapped?, examination: Examination, own: OwnAddresses
  ) {
    let rule = decision.rule.map { policy.rules[$0] }
    let edits = policy.request(of: decision)
    let tls = SecurityExplanation(
      by: policy, of: decision, scheme: target?.scheme ?? seen.scheme, host: target?.host ?? seen.host,
      port: target?.port ?? seen.port, isTunnel: isTunnel)
    let written = Set(edits.fields.set.map(\.name))
    let isLookedInto = !isTunnel && decision.verdict != .deny
    let isEcho = EchoMethod.includes(Array(seen.method.utf8).span)
    self.init(
      request: seen.text(query: query, isTunnel: isTunnel), isTunnel: isTunnel, port: seen.port,
      decision: decision, rule: rule, passedOver: examination.passedOver,
      passedOverMore: examination.passedOverMore, pathReading: examination.pathReading,
      upgrades: rule?.upgrades,
      protocols: rule.map(\.protocols).flatMap { $0 == HTTPProtocol.allCases ? nil : $0 },
      mapped: mapped,
      redirects: rule.flatMap { $0.redirects == .pass ? nil : $0.redirects },
      removed: edits.fields.removed.filter { !written.contains($0) }.map { $0.span.string }
        .filter { edits.digest == nil || $0 != "authorization" },
      answersDigest: edits.digest != nil,
      set: isEcho ? [] : edits.fields.set.map(Field.init),
      defaults: isEcho ? [] : edits.fields.defaults.map(Field.init),
      timeoutMilliseconds: edits.timeoutMilliseconds, cookies: edits.cookies, encodesPath: edits.encodesPath,
      serializer: Self.sending(by: policy, of: decision, method: seen.method, isTunnel: isTunnel),
      response: isLookedInto ? ResponseExplanation(by: policy, of: decision) : nil,
      cache: isLookedInto ? CacheExplanation(by: policy, of: decision, method: seen.method) : nil, security: tls,
      routes: RouteExplanation(by: policy, of: decision), assumptions: examination.assumptions,
      address: (target?.host ?? seen.host).address.map {
        AddressVerdict(
          address: $0, block: policy.denyingBlock($0, rule: decision.rule, isOwn: own.contains),
          isOfRule: rule.map { $0.enforce && $0.denyAddresses != nil } ?? false)
      })
  }

  /// What is done to parameters and bodies, and how bytes are sent; nil if that depends on another request.
  private static func sending(
    by policy: Policy, of decision: Decision, method: String, isTunnel: Bool
  ) -> SerializerExplanation? {
    if decision.verdict == .deny { return nil }
    if !isTunnel { return SerializerExplanation(by: policy, of: decision, method: method) }
    return policy.treatment(of: decision) == .intercept
      ? nil : SerializerExplanation(by: policy, ofClosedTunnel: decision)
  }
}

/// What the rules say, one by one, of a request that rule `deciding` decides.
private struct Examination {
  private(set) var passedOver: [Explanation.PassedOver] = []
  let passedOverMore: Int
  let pathReading: PathReadingText?
  let assumptions: [Explanation.Assumption]

  init(
    of rules: [Rule], deciding: Int?, _ seen: SeenRequest, isTunnel: Bool, atMost mostPassedOver: Int,
    saysWhatIsOpen: Bool
  ) {
    let method = Array(seen.method.utf8)
    let path = Array(seen.path.utf8)
    var paths = PathReadings()
    if !isTunnel { paths.set(path.span) }
    var context = ConditionContext(host: seen.host, paths: paths)
    func failure(of rule: Rule, _ asker: Asker) -> Rule.Failure? {
      let facts = RequestFacts(
        scheme: seen.scheme, port: seen.port, method: method.span, path: path.span, isTunnel: isTunnel,
        sender: asker.sender, link: asker.link ?? .unknown, wall: asker.wall)
      return rule.firstFailure(facts, &context)
    }
    let before = deciding ?? rules.count
    let examined = min(before, mostPassedOver)
    passedOverMore = before - examined
    for rule in rules[..<examined] {
      guard let failure = failure(of: rule, seen.asker) else { continue }
      passedOver.append(Explanation.PassedOver(rule, failure, request: seen, paths: paths))
    }
    let looked = saysWhatIsOpen ? deciding.map { $0 + 1 } ?? rules.count : 0
    assumptions = seen.asker.assumptions(of: rules.prefix(looked)) { rule, asker in failure(of: rule, asker) == nil }
    pathReading = deciding.flatMap { rules[$0].pathCondition.denyingReading(paths) }
  }
}

extension SeenRequest {
  /// `GET https://a.example:443/x?y`; `CONNECT a.example:443` for a tunnel.
  fileprivate func text(query: String, isTunnel: Bool) -> String {
    let name = host.bytes.span.string
    let authority = host.address.map { !$0.isIPv4 } == true ? "[\(name)]:\(port)" : "\(name):\(port)"
    return isTunnel ? "CONNECT \(authority)" : "\(method) \(scheme.rawValue)://\(authority)\(path)\(query)"
  }
}

extension Explanation.PassedOver {
  fileprivate init(_ rule: Rule, _ failure: Rule.Failure, request: SeenRequest, paths: PathReadings) {
    self.rule = rule.name
    location = rule.location
    switch failure {
    case .requestsOnly:
      condition = Rule.requestsOnly
      let keys = rule.conditions.all.map { type(of: $0) }.filter { $0.subject == .request }.map { $0.key.quoted }
      expected = "a request, because the rule has \(keys.joined(separator: " and ")) and no 'connect'"
      seen = "a tunnel, of whose requests nothing is known yet"
    case .condition(let failed):
      condition = type(of: failed).key
      expected = failed.expected
      seen =
        failed is PathsCondition
        ? rule.pathCondition.seen(Array(request.path.utf8).span, paths) : type(of: failed).seen(request)
    }
  }
}

extension Explanation.Field {
  /// Fields that by their meaning carry no secret. For all others only the name is shown.
  private static let harmless: Set<String> = [
    "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-language",
    "content-type", "dnt", "pragma", "priority", "range", "sec-gpc", "user-agent",
  ]

  static func isHarmless(_ name: String) -> Bool { harmless.contains(name.lowercased()) }

  init(_ line: FieldEdits.Line) {
    let isShown = !line.isSecret && Self.isHarmless(line.name.span.string)
    // Without the name, colon and space before the value, and the CR LF after it.
    let written = String(decoding: line.line.prefix(line.name.count), as: UTF8.self)
    let text = String(decoding: line.line.dropFirst(line.name.count + 2).dropLast(2), as: UTF8.self)
    self.init(name: written, value: isShown ? text : nil)
  }
}

// MARK: As text

extension Explanation: CustomStringConvertible {
  /// For people; ends with a newline.
  public var description: String {
    let lines =
      (note.map { [$0, ""] } ?? []) + [request, "", verdictLine] + reasonLines + passedOverLines + assumptionLines
      + actionLines
    return lines.map(\.printable).joined(separator: "\n") + "\n"
  }

  private var secretKeeper: String { rule == nil ? "[defaults.request]" : ruleText }

  private var ruleText: String { rule.map { "rule '\($0.name)' (\($0.location))" } ?? "no rule" }

  /// `denied by rule 'payments' (policy.d/10-bank.toml:3)`
  var verdictLine: String {
    switch decision.reason {
    case .rule: "allowed by \(ruleText)"
    case .addressDenied: "denied: the address is one that deny_addresses lists"
    case .ruleDenies: "denied by \(ruleText)"
    case .connectDenied: "denied by \(ruleText): connect = \"deny\""
    case .portNotListed:
      "denied by \(ruleText): with 'default' = \"deny\" tunnels go to port 443 and to ports that the rule lists; "
        + "add 'ports = [443, \(port)]'"
    case .outsideTarget: "denied by \(ruleText): the path leads out of its target"
    case .ruleWouldDeny: "allowed: \(ruleText) would deny, but enforce = false, so this is only logged"
    case .ruleAsks: "asks an operator, by \(ruleText): the request waits up to \(waitText) for an answer"
    case .ruleWouldAsk: "allowed: \(ruleText) would ask an operator, but enforce = false, so this is only logged"
    case .asksInside: "allowed by \(ruleText): the tunnel is read, and an operator is asked about each request in it"
    case .operatorAllows: "allowed by an operator, who was asked by \(ruleText)"
    case .operatorDenies: "denied by an operator, who was asked by \(ruleText)"
    case .unanswered: "denied: no operator answered \(ruleText) within \(waitText)"
    case .temporaryAllow: "allowed by a temporary rule; without it, \(ruleText) decides"
    case .temporaryDeny: "denied by a temporary rule; without it, \(ruleText) decides"
    case .defaultAllow: "allowed: no rule matches, and 'default' in [proxy] is \"allow\""
    case .defaultDeny: "denied: no rule matches, and 'default' in [proxy] is \"deny\""
    case .methodRefused:
      "denied: the server would answer with the request itself, and \(secretKeeper) adds a secret to it (405)"
    }
  }

  private var waitText: String { Quantity.duration.text(rule?.ask.waitMilliseconds ?? 0) }

  private var reasonLines: [String] {
    guard decision.verdict == .deny else { return [] }
    var reading = pathReading.map { ["  path read as \($0)"] } ?? []
    if let mapped {
      reading.append(
        "  the request would go to \(mapped.url), by 'target' of rule '\(mapped.rule)' (\(mapped.location))")
      if let escape = mapped.escape { reading.append("  path read as \(escape)") }
    }
    guard decision.reason != .methodRefused, decision.reason != .portNotListed,
      decision.reason != .outsideTarget, let reason = rule?.reason
    else {
      return reading
    }
    return reading + ["  reason shown to the client: \(reason)"]
  }

  /// Why a request that a rule allows is refused nevertheless, or how a path was read; without indentation.
  var refusalLines: [String] {
    let address = address?.block == nil ? [] : addressLines
    return (reasonLines + address).map { String($0.drop { $0 == " " }) }
  }

  private var passedOverLines: [String] {
    if passedOver.isEmpty { return rule == nil ? [] : ["", "no rule comes before it"] }
    return ["", rule == nil ? "rules that do not match:" : "rules before it that do not match:"]
      + passedOver.map {
        "  \($0.rule) (\($0.location)): \($0.text)"
      } + (passedOverMore > 0 ? ["  and \(passedOverMore) more"] : [])
  }

  private var assumptionLines: [String] { assumptions.isEmpty ? [] : [""] + assumptions.map(\.text) }

  private var actionLines: [String] {
    if decision.verdict == .deny { return [] }
    let timeouts = rule?.timeouts.map { ["  timeouts: \($0.text)"] } ?? []
    let lines =
      (isTunnel ? serializer?.lines ?? [] : requestLines) + timeouts + (security?.lines ?? []) + (routes?.lines ?? [])
      + addressLines
    return ["", decision.verdict == .ask ? "what will be done once the answer is yes:" : "what will be done:"]
      + (lines.isEmpty ? ["  the request is forwarded as it came"] : lines)
  }

  private var requestLines: [String] {
    var lines = (mapped.map { ["  target: \($0.url)"] } ?? []) + removed.map { "  remove \($0)" }
    lines += set.map { "  set \($0.text)" }
    lines += defaults.map { "  default \($0.text)" }
    if answersDigest { lines.append("  authorization: digest, where the origin asks for it (credentials hidden)") }
    if let timeoutMilliseconds {
      lines.append("  timeout \(Quantity.duration.text(timeoutMilliseconds)), whole exchange")
    }
    if !cookies { lines.append("  cookies: Cookie and Set-Cookie are removed") }
    if encodesPath { lines.append("  path: bytes above 0x7f are percent-encoded") }
    if let upgrades { lines.append("  upgrades: \(upgrades)") }
    if let protocols { lines.append("  protocols: \(protocols.map(\.rawValue).joined(separator: ", "))") }
    if let redirects { lines.append("  redirects: \(redirects.text)") }
    return lines + (serializer?.lines ?? []) + (response?.lines ?? []) + (cache?.lines ?? [])
  }

  private var addressLines: [String] {
    guard let address else { return [] }
    let list = "deny_addresses of \(address.isOfRule ? "the rule" : "[proxy]")"
    guard let block = address.block else { return ["  \(address.address) is not in \(list)"] }
    switch block {
    case .block: return ["  \(address.address) is in \(block), which \(list) names: it is not connected to"]
    case .own:
      return ["  \(address.address) is an address of this machine, which \(list) names: it is not connected to"]
    case .possiblyOwn:
      return [
        "  \(address.address) may be an address of this machine, which \(list) names: it is not connected to where it is"
      ]
    }
  }
}

extension Explanation.Field {
  fileprivate var text: String { "\(name): \(value ?? "(value hidden)")" }

  fileprivate var json: JSONText {
    .object([("name", .string(name)), ("value", value.map(JSONText.string) ?? .null)])
  }
}

// MARK: As JSON

extension Explanation {
  /// One object in one line, with a final newline. `value` of a field is null if it is hidden.
  public var json: String { json(inside: nil) }

  /// `inside`: the explanation of the request inside this tunnel.
  /// `temporary`: what operators have said about it for a time, which decides before the policy.
  public func json(inside: Explanation?, temporary: JSONText? = nil) -> String {
    let inside: [(String, JSONText)] = inside.map { [("inside", .object($0.members))] } ?? []
    let temporary: [(String, JSONText)] = temporary.map { [("temporary", $0)] } ?? []
    return JSONText.object(members + inside + temporary).text + "\n"
  }

  public var value: JSONText { .object(members) }

  private var members: [(String, JSONText)] {
    let note: [(String, JSONText)] = self.note.map { [("note", .string($0))] } ?? []
    // A literal address is refused whatever the rule says.
    let refusal: Decision.Reason? = address?.block == nil || decision.verdict == .deny ? nil : .addressDenied
    return note + [
      ("request", .string(request)),
      ("decision", .string(refusal == nil ? decision.verdict.rawValue : Decision.Verdict.deny.rawValue)),
      ("reason", .string((refusal ?? decision.reason).rawValue)), ("rule", ruleJSON),
      ("path_reading", (pathReading ?? mapped?.escape)?.json ?? .null), ("passed_over", .array(passedOver.map(\.json))),
      ("passed_over_more", .number(passedOverMore)),
      ("assumed", .array(assumptions.map(\.json))),
      ("actions", actionsJSON), ("address", addressJSON),
    ] + (mapped.map { [("target", .string($0.url))] } ?? [])
  }

  private var ruleJSON: JSONText {
    guard let rule else { return .null }
    return .object([
      ("name", .string(rule.name)), ("file", .string(rule.location.file)),
      ("line", .number(rule.location.line)),
      ("enforce", .boolean(rule.enforce)), ("reason", rule.reason.map(JSONText.string) ?? .null),
    ])
  }

  /// What will be done, part by part; empty if denied.
  var actions: [(String, JSONText)] {
    if case .object(let members) = actionsJSON { members } else { [] }
  }

  private var actionsJSON: JSONText {
    if decision.verdict == .deny { return .null }
    let tls = security?.json ?? [("assurance", .null), ("security", .null)]
    let timeouts = rule?.timeouts.map { [("timeouts", $0.json)] } ?? []
    let ways = timeouts + (routes?.json ?? [])
    if isTunnel { return .object((serializer?.json ?? []) + tls + ways) }
    return .object(
      [
        ("remove", .array(removed.map(JSONText.string))), ("set", .array(set.map(\.json))),
        ("default", .array(defaults.map(\.json))),
        ("authorization", answersDigest ? .string("digest") : .null),
        ("timeout_ms", timeoutMilliseconds.map { .number(Int($0)) } ?? .null),
        ("upgrades", upgrades.map { .array($0.protocols.map(JSONText.string)) } ?? .null),
        ("cookies", .boolean(cookies)),
      ] + (encodesPath ? [("encode_path", .boolean(true))] : [])
        + (protocols.map { [("protocols", .array($0.map { .string($0.rawValue) }))] } ?? [])
        + (redirects.map { [("redirects", .string($0.rawValue))] } ?? []) + (serializer?.json ?? [])
        + (response?.json ?? []) + (cache?.json ?? []) + tls + ways)
  }

  private var addressJSON: JSONText {
    guard let address else { return .null }
    return .object([
      ("address", .string("\(address.address)")), ("denied", .boolean(address.block != nil)),
      ("block", address.block.map { .string("\($0)") } ?? .null),
      ("list", .string(address.isOfRule ? "rule" : "proxy")),
    ])
  }
}

extension Explanation.PassedOver {
  fileprivate var json: JSONText {
    .object([
      ("rule", .string(rule)), ("file", .string(location.file)), ("line", .number(location.line)),
      ("condition", .string(condition)), ("expected", .string(expected)), ("seen", .string(seen)),
    ])
  }
}
