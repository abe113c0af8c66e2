// The question of one request to an operator: the request waits until it is answered. Meanwhile nothing is opened, and
// only one timer runs. Tests: test_ask.py.

import Asking
import Policy
import Session
import Sharing
import Transport

struct OperatorQuestion {
  enum Outcome {
    /// It waits, alone or with requests that ask the same.
    case asked
    /// An operator has answered the same before.
    case answered(TemporaryRule)
    /// Why it cannot wait: a sentence.
    case full(String)
  }

  /// The place among the requests that wait; nil: it does not wait.
  private(set) var waiter: QuestionWaiter?

  var isAsked: Bool { waiter != nil }

  /// Asks, or joins requests that ask the same. `slot`: that of the conversation, which gets the answer as a message.
  mutating func ask(_ exchange: borrowing Exchange, of asker: Claimant, slot: Int, _ worker: Worker) -> Outcome {
    guard let question = exchange.question, let rule = exchange.ruling.rule else {
      preconditionFailure("a question without a request")
    }
    let waiter = QuestionWaiter(
      worker: worker.index, slot: slot, generation: worker.generation(slot), exchange: exchange.record.reference.value)
    let (asked, answer) = worker.shared.desk.ask(
      OpenQuestion(
        reference: exchange.record.reference.text, request: question.request, program: exchange.record.sender.program,
        rule: rule.name, place: rule.place, connect: rule.connect, terms: rule.ask, asker: asker,
        wall: worker.workspace.wallMilliseconds), waiter)
    if let answer { return .answered(answer) }
    switch asked {
    case .put, .joined:
      self.waiter = waiter
      return .asked
    case .full(let ofClient):
      let limit = ofClient ? QuestionBoard.mostOfOneClient : QuestionBoard.mostQuestions
      return .full(
        "Rule \(rule.name) asks an operator, and \(limit) questions \(ofClient ? "of this client " : "")wait already.")
    }
  }

  /// The answer for `waiter` has come; false: it is the answer to an earlier exchange, and too late.
  mutating func isAnswered(_ waiter: QuestionWaiter) -> Bool {
    if self.waiter != waiter { return false }
    self.waiter = nil
    return true
  }

  /// The exchange has ended.
  mutating func leave(_ desk: OperatorDesk) {
    guard let waiter else { return }
    self.waiter = nil
    desk.leave(waiter)
  }
}
