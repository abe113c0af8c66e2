// Requests of a rule with a `target`: they are sent to another URL than the program asked for. The program knows only
// its own URL, so target URLs in the response are translated back (`MappedFields`).
//
// Host, port, scheme, path and the Host field are the target's, and so is the name that the certificate is verified
// for. The log line shows what the program asked for. Tests: MappedRequestTests.

import Bytes
import HTTP1
import Policy

extension RequestMapping {
  /// What the policy or an operator objects to sending a request there.
  enum Refusal {
    /// It is denied, by the decision.
    case denied(Problem, by: Decision)
    /// Its rule is not enforced.
    case reported(Problem)
  }

  /// Why the request with these facts, which `decision` allows, is not sent there; nil: it is.
  func refusal(
    _ facts: borrowing RequestFacts, _ decision: Decision, policy: Policy, in workspace: inout Workspace
  ) -> Refusal? {
    if let denial = temporaryDenial(facts, decision, in: &workspace) {
      let detail = "The request would go to \(target.url(of: path)), which an operator denies for now."
      return .denied(Problem(.denied, detail), by: denial)
    }
    guard let objection else { return nil }
    let problem = problem(by: objection, policy)
    return objection.verdict == .deny ? .denied(problem, by: objection) : .reported(problem)
  }

  /// A temporary denial by an operator applies to every way of reaching the destination.
  private func temporaryDenial(
    _ asked: borrowing RequestFacts, _ decision: Decision, in workspace: inout Workspace
  ) -> Decision? {
    if workspace.temporary.isEmpty { return nil }
    let facts = RequestFacts(
      scheme: target.scheme, port: target.port, method: asked.method, path: path.span, isTunnel: false,
      sender: asked.sender, link: workspace.link, wall: workspace.wallMilliseconds)
    let amended = workspace.temporary.amend(decision, facts, wall: workspace.wallMilliseconds, in: &workspace.decisions)
    return amended.decision.verdict == .deny ? amended.decision : nil
  }

  private func problem(by objection: Decision, _ policy: Policy) -> Problem {
    let name = objection.rule.map { policy.rules[$0].name } ?? ""
    if let escape {
      return Problem(
        .denied, "Rule \(name) sends requests below \(target); the path, read as \(escape), leads out of it.",
        difference: Difference(expected: "a path below \(target)", seen: "\(escape)"))
    }
    let reason = objection.rule.flatMap { policy.rules[$0].reason }.map { " \($0)" } ?? ""
    return Problem(
      .denied, "The request would go to \(target.url(of: path)), and rule \(name) denies that.\(reason)")
  }
}

extension RuleTarget {
  /// The target of a request in origin-form, without the parameters of the rule; nil: as received.
  func mapped(_ bytes: Span<UInt8>, _ head: borrowing RequestHead) -> [UInt8]? {
    if head.form == .asterisk { return nil }
    return joined(bytes.extracting(head.path))
      + bytes.extracting(head.path.upperBound..<max(head.path.upperBound, head.pathAndQuery.upperBound)).array
  }
}
