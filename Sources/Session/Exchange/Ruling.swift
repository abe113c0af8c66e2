// What the policy says of one exchange: the policy that was in force when its head arrived, and what it decided. After
// a reload the exchange finishes with the same ruling.

import Bytes
import HTTP1
import Policy
import Security
import Serialization

public struct Ruling {
  let policy: Policy
  /// nil: nothing has been decided, for want of a head that can be read.
  let decision: Decision?

  /// The rule that decided; nil: a default did.
  public var rule: Rule? { decision?.rule.map { policy.rules[$0] } }
  /// Whether violations are refused, and not only reported.
  public var enforces: Bool { rule?.enforce ?? true }
  /// What the certificates of the destination are judged by.
  public var security: SecurityPolicy { decision.map { policy.security(of: $0) } ?? policy.defaultSecurity }
  /// The time-outs of the rule, otherwise the general ones.
  public var timeouts: Timeouts { policy.timeouts(of: decision?.rule) }
  /// Whether a cellular link may be used.
  public var allowsCellularAccess: Bool { !enforces || mayUseCellular }
  var mayUseCellular: Bool { rule?.request.allowsCellularAccess ?? policy.defaultRequest.allowsCellularAccess }
  /// How packets towards the destination are marked.
  public var serviceType: ServiceType { rule?.request.serviceType ?? policy.defaultRequest.serviceType }
  public var cachePolicy: CachePolicy { decision.map { policy.request(of: $0).cachePolicy } ?? .useProtocol }
  /// Whether a download that the origin cuts short is continued.
  public var resumesDownloads: Bool { decision.map { policy.request(of: $0).resumesDownloads } ?? false }
  /// Whether the rule replaces the program's Authorization.
  public var setsAuthorization: Bool {
    rule?.request.fields.set.contains { $0.name == Self.authorizationName } ?? false
  }
  /// On what terms an operator is asked.
  public var askTerms: AskTerms { rule?.ask ?? AskTerms() }
  /// Protocols of upstream connections, in order of preference; none: the rule permits none of them.
  var protocols: [HTTPProtocol] { rule?.protocols ?? HTTPProtocol.allCases }

  private static let authorizationName = Array("authorization".utf8)

  // MARK: Messages

  var headLimits: HeadLimits {
    HeadLimits(bytes: policy.configuration.limits.headerBytes, fields: policy.configuration.limits.headers)
  }

  var contentLimits: ContentLimits {
    let limits = policy.configuration.limits
    return ContentLimits(
      heldBytes: limits.bufferedBodyBytes, jsonDepth: limits.jsonDepth, imagePixels: limits.imagePixels)
  }

  /// What rewrites the body of the request; nil: nothing does.
  var serialization: RequestSerialization? { decision.flatMap { policy.request(of: $0).serialization } }

  /// What the response is checked against; nil: it is not checked.
  var checks: ResponseSerialization? {
    guard let response = decision.flatMap({ policy.response(of: $0) }), response.judges else { return nil }
    return response
  }

  var removesNulls: Bool { decision.flatMap { policy.response(of: $0) }?.removesNulls ?? false }
  /// Whether heads of responses that are malformed are refused, and not mended where that is possible.
  var rejectsMalformedHeads: Bool { decision.flatMap { policy.response(of: $0) }?.malformed == .reject }

  /// The file that is sent in place of failures.
  var substitute: SubstituteAnswer? { decision.flatMap { policy.substituteAnswer(of: $0) } }

  /// Fields that the rule removes from the head must not return as trailers.
  func dropEdited(_ bytes: Span<UInt8>, _ trailers: inout FieldSection) {
    guard let decision else { return }
    let edits = policy.request(of: decision)
    if !edits.cookies { trailers.drop(.cookie) }
    for name in edits.fields.removed { trailers.drop(name, in: bytes) }
  }

  // MARK: Refusals

  /// Why the request is denied. `port`: of its destination.
  func denial(of question: Question?, isTunnel: Bool, port: UInt16) -> Problem {
    if decision?.reason == .methodRefused { return refusedEcho }
    return Problem(.denied, sentence(port: port), advice: advice(on: question, isTunnel: isTunnel))
  }

  private func sentence(port: UInt16) -> String {
    if decision?.reason == .temporaryDeny { return "An operator denies this request for now." }
    guard let rule else { return "No rule allows this request, and the default is to deny." }
    if decision?.reason == .portNotListed {
      return "Rule \(rule.name) allows tunnels to port 443 and to ports that it lists; \(port) is not one. "
        + "Add ports = [443, \(port)] to the rule."
    }
    if let reason = rule.reason { return reason }
    return decision?.reason == .connectDenied
      ? "Rule \(rule.name) denies tunnels to this host." : "Rule \(rule.name) denies this request."
  }

  /// RFC 9110, 15.5.6.
  private var refusedEcho: Problem {
    let keeper = rule.map { "rule \($0.name)" } ?? "[defaults.request]"
    return Problem(
      .methodNotAllowed,
      "The server answers this method with the request as it arrives, and \(keeper) adds a secret to it.",
      allowed: decision.map { policy.otherMethods(of: $0) } ?? [])
  }

  /// Why the request may not ask for an Upgrade to `asked`; nil: the rule allows it, or says nothing of it.
  ///
  /// A protocol that the rule does not list is refused, not dropped: the server would respond as if the client had not
  /// asked, and the program would report that instead of the operator's ban. Protocols that are never relayed (HTTP
  /// itself, which Java's client asks for with every request) are dropped as always, and are no reason to refuse.
  func refusal(ofUpgradeTo asked: Span<UInt8>) -> Problem? {
    guard let rule, let upgrades = rule.upgrades, !upgrades.allows(asked) else { return nil }
    let seen = asked.string
    return Problem(
      .denied, "Rule \(rule.name) does not allow Upgrade to \(seen); it allows: \(upgrades).",
      difference: Difference(expected: "\(upgrades)", seen: seen))
  }

  /// A denied literal address is refused before anything is opened.
  func refusal(of address: IPAddress, _ own: OwnAddresses) -> Problem? {
    // A closure on the stack: a reference to the method would be allocated for each request.
    guard let match = policy.denyingBlock(address, rule: decision?.rule, isOwn: { own.contains($0) }) else {
      return nil
    }
    return Problem(.addressDenied, "\(address) \(match.sentence).")
  }

  /// Advice on the refusal. `asked`: what became of the question to an operator.
  func advice(on question: Question?, isTunnel: Bool, asked: Advice.Question? = nil) -> Advice? {
    guard let decision else { return nil }
    return Advice(
      reason: decision.reason, contact: policy.configuration.proxy.contact,
      rule: decision.isMendable ? narrowestRule(on: question, isTunnel: isTunnel) : nil, question: asked)
  }

  /// If the rule that asks sets `connect`, the proposed rule sets it too.
  private func narrowestRule(on question: Question?, isTunnel: Bool) -> String? {
    guard let decision, let question else { return nil }
    let proposed = question.request.rule(connect: isTunnel ? rule?.connect : nil, path: question.path)
    guard let text = proposed?.text else { return nil }
    return decision.placed(text, before: rule?.name)
  }

  // MARK: Times

  /// `60000 ms`, marked as the rule's if the rule sets it.
  func text(of timeout: Timeout) -> String {
    let isOwn = rule?.timeouts.map { $0.own.contains(timeout) && $0.values[timeout] == timeouts[timeout] } ?? false
    return "\(isOwn ? "the rule's " : "")\(timeouts[timeout]) ms"
  }
}
