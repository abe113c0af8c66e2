// What a client gets when its origin fails and the rule has an `answer`: the file, with the status and reason of the
// failure. Tests: FailedOriginTests.
//
// The file replaces only the body of the problem. Status, reason phrase, Proxy-Status and log line stay the same, so a
// program still sees a failure. After the first byte of a response nothing can be replaced: such an exchange ends
// without a problem (`breakOff`) and never gets here.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// The file that replaces the body of `problem`; nil: its own body is sent.
  func substitute(for problem: Problem) -> SubstituteAnswer? {
    // No client shows the body of a refused CONNECT.
    guard let decision = record.decision, decision.verdict == .allow, !request.traits.contains(.isTunnel),
      let answer = policy.substituteAnswer(of: decision), let occasion = problem.occasion
    else { return nil }
    return answer.occasions.contains(occasion) ? answer : nil
  }

  /// The same, as long as there is memory for it. What a slow client has not received yet counts like a held body: a
  /// thousand such clients would have a thousand copies.
  mutating func accountedSubstitute(
    for problem: Problem, _ workspace: borrowing Workspace
  ) -> SubstituteAnswer? {
    guard let answer = substitute(for: problem) else { return nil }
    if request.traits.contains(.isHead) { return answer }
    let weight = HeldBody(workspace.heldBytes)
    guard weight.account(ofAll: heldLimit, adding: answer.content.count) else { return nil }
    bodies.toClient = weight
    return answer
  }

  /// The origin has reported a failure, and the rule has a file for that; nil: the response continues. An unenforced
  /// rule passes the origin's response.
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
  /// The occasion of an `answer` that it falls under; nil: none.
  var occasion: SubstituteAnswer.Occasion? {
    if !violations.isEmpty { return .violation }
    switch kind {
    case .originFailed: return .serverError
    // A 5xx status from a parent means that it has no route; any other status is its decision.
    case .parentRefused: return (500..<600).contains(receivedStatus ?? 0) ? .unreachable : nil
    default: return kind.isAboutReachability ? .unreachable : nil
    }
  }
}
