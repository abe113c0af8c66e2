// A conversation whose request waits for an operator. Meanwhile nothing is opened, and only one timer runs.
// Tests: test_ask.py.

import Asking
import Policy
import Session
import Sharing
import Transport

extension Conversation {
  /// Asks the question, or joins requests that ask the same.
  func askOperator(_ worker: Worker) {
    // A fetch that no client waits for is not worth a question.
    guard !hasNoClient, errand == nil else {
      return deny("Rule \(session.exchange.ruleName ?? "-") asks an operator, and no client waits.", worker)
    }
    if worker.isDraining { return perform(session.shutDown(&worker.workspace, &outputs), worker) }
    // The host is in the workspace for this turn only.
    destination = destination ?? acquireDestination(worker)
    switch question.ask(session.exchange, of: knownIdentity(worker), slot: slot, worker) {
    case .asked: session.exchange.operatorAsked(now: worker.now)
    case .answered(let rule):
      perform(
        session.exchange.operatorAnswered(rule.verdict, by: rule.by, now: worker.now, &worker.workspace, &outputs),
        worker)
    case .full(let sentence): deny(sentence, worker)
    }
  }

  private func deny(_ sentence: String, _ worker: Worker) {
    perform(session.exchange.operatorMissing(sentence, &worker.workspace, &outputs), worker)
  }

  /// The operator has answered.
  func operatorAnswered(_ waiter: QuestionWaiter, _ verdict: TemporaryRule.Verdict, by name: String, _ worker: Worker) {
    guard ending == nil, session.exchange.awaitsOperator, question.isAnswered(waiter) else { return }
    if hasLeft(worker) {
      endLeft(worker)
    } else if verdict == .allow, let denial = denialNow(worker) {
      // Nothing has been sent yet, and what has been denied meanwhile is not sent.
      perform(session.policyChanged(denial, &worker.workspace, &outputs), worker)
    } else {
      perform(
        session.exchange.operatorAnswered(verdict, by: name, now: worker.now, &worker.workspace, &outputs), worker)
    }
    settle(worker)
  }

  /// The policy has changed: nobody is asked any more about what it denies now. What cannot be decided again, because
  /// its path was too long to be kept, goes on under the policy that it began with.
  func withdrawIfDenied(_ worker: Worker) {
    guard ending == nil, session.exchange.awaitsOperator, !cannotBeDecided, let denial = denialNow(worker) else {
      return
    }
    endDenied(by: denial, worker)
  }

  /// The proxy stops: no one would be there to receive an answer.
  func stopAsking(_ worker: Worker) {
    guard question.isAsked, ending == nil else { return }
    perform(session.shutDown(&worker.workspace, &outputs), worker)
    settle(worker)
  }
}
