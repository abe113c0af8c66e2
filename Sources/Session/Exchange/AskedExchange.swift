// An exchange that waits for an operator (action = "ask"). Nothing is sent to the destination until the answer is yes.
// The server puts the question (Server/Asking). Tests: AskedExchangeTests, test_ask.py.

import Bytes
import Policy

extension Exchange {
  /// What was asked, if it is refused or an operator is asked about it.
  public var question: Question? { request.question }

  /// Whether an operator has to allow the request before anything is opened.
  public var awaitsOperator: Bool { phase == .connecting && record.decision?.verdict == .ask }

  /// The rule's terms.
  public var askTerms: AskTerms { rule?.ask ?? AskTerms() }

  /// The question has been put.
  public mutating func operatorAsked(now: Int64) {
    times.lastProgress = now
    times.operatorDeadline = now + askTerms.waitMilliseconds
  }

  /// The operator's answer. Returns what to do next.
  public mutating func operatorAnswered(
    _ verdict: TemporaryRule.Verdict, by operatorName: String, now: Int64, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action {
    precondition(awaitsOperator, "an answer that nobody waits for")
    record.answeredBy = operatorName
    switch verdict {
    case .allow:
      settle(.allow, .operatorAllows)
      // The rule's time for the exchange does not run while a person decides.
      if times.exchangeDeadline != .max { times.exchangeDeadline += now - times.lastProgress }
      times.lastProgress = now
      if times.clientGoneAt != .max { times.clientGoneAt = now + Self.halfClosedMilliseconds }
      return .connect
    case .deny:
      settle(.deny, .operatorDenies)
      return answer(
        Problem(.denied, "An operator denies this request.", advice: adviceAfterQuestion(.denied)), &workspace,
        &outputs)
    }
  }

  /// No operator can be asked, for the reason in `sentence`.
  public mutating func operatorMissing(
    _ sentence: String, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    settle(.deny, .unanswered)
    return answer(Problem(.unanswered, sentence, advice: adviceAfterQuestion(.unasked)), &workspace, &outputs)
  }

  mutating func unanswered(now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    settle(.deny, .unanswered)
    let seconds = askTerms.waitMilliseconds / 1000
    let reference = record.reference.text
    return answer(
      Problem(
        .unanswered,
        "Rule \(rule?.name ?? "-") asks an operator, and none answered within \(seconds) s. "
          + "To allow it: sallyport allow \(reference)",
        advice: adviceAfterQuestion(.unanswered)),
      &workspace, &outputs)
  }

  mutating func settle(_ verdict: Decision.Verdict, _ reason: Decision.Reason) {
    record.decision = Decision(verdict: verdict, reason: reason, rule: record.decision?.rule)
    times.operatorDeadline = .max
  }

  private func adviceAfterQuestion(_ question: Advice.Question) -> Advice? {
    record.decision.map { advice(on: $0, question: question) }
  }
}
