// What a client gets where its origin fails, where the rule has an `answer`: the file with the status and the words of the
// failure. Tests: FailedOriginTests.
//
// It takes the place of the body of a problem and of nothing else: status, reason phrase, Proxy-Status and log line are those
// that there would be without it, so that a program still sees a failure. Of a response of which a byte has gone out nothing
// can be replaced; such an exchange ends without a problem (`breakOff`), and never comes here.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// The file that is sent instead of the body of `problem`; nil: its own body is.
  func substitute(for problem: Problem) -> SubstituteAnswer? {
    // No client shows the body of a refused CONNECT.
    guard let decision = record.decision, decision.verdict == .allow, !asked.contains(.isTunnel),
      let answer = policy.substituteAnswer(of: decision), let occasion = problem.occasion
    else { return nil }
    return answer.occasions.contains(occasion) ? answer : nil
  }

  /// The same, as long as there is memory for it: what a client that reads slowly has not taken yet counts as a held body does,
  /// for a thousand of them would have a thousand copies.
  mutating func accountedSubstitute(
    for problem: Problem, _ workspace: borrowing Workspace
  ) -> SubstituteAnswer? {
    guard let answer = substitute(for: problem) else { return nil }
    if asked.contains(.isHead) { return answer }
    let weight = HeldBody(workspace.heldBytes)
    guard weight.account(ofAll: heldLimit, adding: answer.content.count) else { return nil }
    substituteWeight = weight
    return answer
  }

  /// The origin has answered that it fails, and the rule has a file for that; nil: the response goes on. A rule that is not
  /// enforced lets the origin's own words pass.
  mutating func judgeFailure(
    _ bytes: Span<UInt8>, _ workspace: borrowing Workspace, _ outputs: borrowing Outputs
  ) -> Problem? {
    let status = workspace.response.status
    guard (500..<600).contains(status), let decision = record.decision,
      let answer = policy.substituteAnswer(of: decision), answer.occasions.contains(.serverError)
    else { return nil }
    let problem = Problem(
      .originFailed, "\(responder(outputs)) answered \(status); the rule's file is sent instead.",
      receivedStatus: status)
    if enforces { return problem }
    record.report = problem.kind
    record.finding = Finding("\(responder(outputs)) answered \(status); the rule's file would have been sent instead.")
    return nil
  }
}

extension Problem {
  /// On what occasion of an `answer` it comes; nil: on none.
  var occasion: SubstituteAnswer.Occasion? {
    if !violations.isEmpty { return .violation }
    switch kind {
    case .originFailed: return .serverError
    // What a parent answers with 5xx is that it has no way; anything else is its decision.
    case .parentRefused: return (500..<600).contains(receivedStatus ?? 0) ? .unreachable : nil
    default: return kind.isAboutReachability ? .unreachable : nil
    }
  }
}
