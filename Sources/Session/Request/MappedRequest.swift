// Requests of a rule with a `target`: they are sent to another URL than the program asked for. The program knows only
// its own URL, so target URLs in the response are translated back (`MappedFields`).
//
// Host, port, scheme, path and the Host field are the target's, and so is the name that the certificate is verified
// for. The log line shows what the program asked for. Tests: MappedRequestTests.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// The target of the current request, if its rule has one; nil: the host that the request names.
  var target: RuleTarget? { upstream.way.contains(.isMapped) ? rule?.target : nil }

  /// Redirects a request to its rule's target. Returns a problem if the policy objects.
  mutating func mapRequest(
    _ bytes: Span<UInt8>, _ decision: Decision, _ workspace: inout Workspace
  ) -> Problem? {
    guard rule?.target != nil, !request.traits.contains(.isTunnel) else { return nil }
    let mapping = policy.mapping(
      of: decision,
      RequestFacts(
        scheme: isSecure(workspace.request) ? .https : .http, port: upstream.port,
        method: bytes.extracting(workspace.request.method), path: bytes.extracting(workspace.request.path),
        isTunnel: false, sender: sender, link: workspace.link,
        wall: workspace.wallMilliseconds), &workspace.decisions)
    guard let mapping else { return nil }
    if let denial = temporaryDenial(of: mapping, bytes, decision, &workspace) {
      record.decision = denial
      return Problem(
        .denied, "The request would go to \(mapping.target.url(of: mapping.path)), which an operator denies for now.")
    }
    if let objection = mapping.objection {
      let problem = problem(of: mapping, by: objection)
      if objection.verdict == .deny {
        record.decision = objection
        return problem
      }
      record.report = problem.kind
      record.finding = Finding(problem)
    }
    upstream.way.insert(.isMapped)
    setMappedHost(&workspace)
    return nil
  }

  /// A temporary denial by an operator applies to every way of reaching the destination.
  private func temporaryDenial(
    of mapping: RequestMapping, _ bytes: Span<UInt8>, _ decision: Decision, _ workspace: inout Workspace
  ) -> Decision? {
    if workspace.temporary.isEmpty { return nil }
    let facts = RequestFacts(
      scheme: mapping.target.scheme, port: mapping.target.port, method: bytes.extracting(workspace.request.method),
      path: mapping.path.span, isTunnel: false, sender: sender, link: workspace.link,
      wall: workspace.wallMilliseconds)
    let amended = workspace.temporary.amend(
      decision, facts, wall: workspace.wallMilliseconds, &workspace.decisions)
    return amended.decision.verdict == .deny ? amended.decision : nil
  }

  /// Sets the target as the host and port to connect to.
  mutating func setMappedHost(_ workspace: inout Workspace) {
    guard let target else { return }
    _ = workspace.decisions.host.set(target.name.span)
    upstream.port = target.port
  }

  private func problem(of mapping: RequestMapping, by objection: Decision) -> Problem {
    let name = objection.rule.map { policy.rules[$0].name } ?? ""
    if let escape = mapping.escape {
      return Problem(
        .denied, "Rule \(name) sends requests below \(mapping.target); the path, read as \(escape), leads out of it.",
        difference: Difference(expected: "a path below \(mapping.target)", seen: "\(escape)"))
    }
    let url = mapping.target.url(of: mapping.path)
    let reason = objection.rule.flatMap { policy.rules[$0].reason }.map { " \($0)" } ?? ""
    return Problem(.denied, "The request would go to \(url), and rule \(name) denies that.\(reason)")
  }

  /// The target in origin-form, without the parameters of the rule; nil: as received.
  func mappedTarget(_ bytes: Span<UInt8>, _ head: borrowing RequestHead) -> [UInt8]? {
    guard let target, head.form != .asterisk else { return nil }
    return target.joined(bytes.extracting(head.path))
      + bytes.extracting(head.path.upperBound..<max(head.path.upperBound, head.pathAndQuery.upperBound)).array
  }
}
