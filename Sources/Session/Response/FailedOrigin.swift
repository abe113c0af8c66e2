// What a client gets when its origin fails and the rule has an `answer`: the file, with the status and reason of the
// failure. Tests: FailedOriginTests.
//
// The file replaces only the body of the problem. Status, reason phrase, Proxy-Status and log line stay the same, so a
// program still sees a failure. After the first byte of a response nothing can be replaced: such an exchange ends
// without a problem (`breakOff`) and never gets here.

import Bytes
import HTTP1
import Policy

extension Ruling {
  /// The file that replaces the body of `problem`; nil: its own body is sent.
  func substitute(for problem: Problem, isTunnel: Bool) -> SubstituteAnswer? {
    // No client shows the body of a refused CONNECT.
    guard decision?.verdict == .allow, !isTunnel, let answer = substitute, let occasion = problem.occasion
    else { return nil }
    return answer.occasions.contains(occasion) ? answer : nil
  }

  /// The origin has reported a failure, and the rule has a file for that; nil: the response continues.
  func failure(_ status: Int, of peers: @autoclosure () -> PeerNames) -> Problem? {
    guard (500..<600).contains(status), let substitute, substitute.occasions.contains(.serverError) else { return nil }
    let what = enforces ? "is sent" : "would have been sent"
    return Problem(
      .originFailed, "\(peers().responder) answered \(status); the rule's file \(what) instead.",
      receivedStatus: status)
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
