// What a rule refuses in requests that it otherwise allows: a method whose response would contain its secrets, and
// Upgrade to a protocol that it does not list. Tests: RefusedMethodsTests.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// RFC 9110, 15.5.6.
  func refusedEcho(_ decision: Decision) -> Problem {
    let keeper = decision.rule.map { "rule \(policy.rules[$0].name)" } ?? "[defaults.request]"
    return Problem(
      .methodNotAllowed,
      "The server answers this method with the request as it arrives, and \(keeper) adds a secret to it.",
      allowed: policy.otherMethods(of: decision))
  }

  /// Upgrade to a protocol that the rule does not list is refused, not dropped: the server would respond as if the
  /// client had not asked, and the program would report that instead of the operator's ban. Protocols that are never
  /// relayed (HTTP itself, which Java's client asks for with every request) are dropped as always, and are no reason to
  /// refuse.
  mutating func deniedUpgrade(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Problem? {
    guard let rule, let upgrades = rule.upgrades, let name = Self.requestedUpgrade(bytes, workspace),
      !upgrades.allows(bytes.extracting(name))
    else { return nil }
    let asked = bytes.extracting(name).string
    let problem = Problem(
      .denied, "Rule \(rule.name) does not allow Upgrade to \(asked); it allows: \(upgrades).",
      difference: Difference(expected: "\(upgrades)", seen: asked))
    if rule.enforce { return problem }
    record.report = problem.kind
    record.finding = Finding(problem)
    return nil
  }

  /// RFC 9110, 7.8.
  mutating func noteUpgrade(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) {
    guard let name = Self.requestedUpgrade(bytes, workspace) else { return }
    askedProtocol = name.map { bytes[$0].asciiLowercased }
    asked.insert(.wantsUpgrade)
    if askedProtocol == Self.webSocket { noteWebSocketKey(bytes, workspace.request.fields) }
    carrier.remove(.mayRetry)
  }

  /// The protocol that a request asks for, if it is relayed.
  private static func requestedUpgrade(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Range<Int>? {
    guard workspace.request.options.upgrade, workspace.request.minorVersion == 1 else { return nil }
    return relayedProtocol(workspace.request.fields, bytes)
  }

  /// The only protocol that Upgrade names, if it is relayed. HTTP in another guise is not relayed, because it would
  /// carry requests past the policy. A choice of several is not, because the content of the tunnel would be unknown.
  static func relayedProtocol(_ fields: FieldSection, _ bytes: Span<UInt8>) -> Range<Int>? {
    guard let value = fields.first(.upgrade) else { return nil }
    var elements = ListElements(value)
    guard let name = elements.next(bytes), elements.next(bytes) == nil else { return nil }
    for index in name where !bytes[index].isTokenCharacter && bytes[index] != 0x2f { return nil }
    return UpgradeList.isHTTP(bytes.extracting(name)) ? nil : name
  }
}
