// `sallyport reload --close-denied`: once every loop has the new policy, each checks its open exchanges and ends those
// that the policy denies. It does some connections a turn, so ten thousand of them delay no one. Tests:
// test_close_denied.py.

import Bytes
import Policy
import Session
import Transport

/// How far a loop has got.
struct DeniedClosing {
  /// How many connections are checked in one turn: deciding one takes some ten microseconds.
  static let slotsPerTurn = 32

  /// The requests of the admin API that wait for the end of it.
  var inquiries: [UInt64]
  var next = 0
  var closed = 0
}

extension Worker {
  func continueClosing() {
    guard var closing else { return }
    let end = min(occupants.count, closing.next + DeniedClosing.slotsPerTurn)
    for slot in closing.next..<end {
      guard case .client(let conversation) = occupants[slot],
        let denial = conversation.cannotBeDecided ? "it" : conversation.denialNow(self)
      else { continue }
      conversation.endDenied(by: denial, self)
      closing.closed += 1
    }
    closing.next = end
    if end < occupants.count {
      self.closing = closing
      return
    }
    self.closing = nil
    for inquiry in closing.inquiries {
      shared.reports.post(.answered(worker: index, .cancelled(closing.closed), inquiry: inquiry))
    }
  }
}

extension Conversation {
  /// Whether too little is known of the request to decide it again: it does not go on.
  var cannotBeDecided: Bool {
    ending == nil && !hasNoClient && session.isInExchange && session.exchange.isTextCut
  }

  /// What denies the exchange that was allowed to begin, or the intercepted tunnel, by the policy in force: the subject
  /// of a sentence; nil: nothing does.
  func denialNow(_ worker: Worker) -> String? {
    guard !flags.contains(.closed), ending == nil, !hasNoClient else { return nil }
    if let interior = session.origin.interior,
      Exchange.problem(
        ofTunnel: interior, openedBy: session.tunnelSender, with: session.origin.credential, worker.policy,
        &worker.workspace) != nil
    {
      return "it"
    }
    guard session.isInExchange else { return nil }
    let record = session.exchange.record
    // Of a tunnel that an earlier process opened, it is not known who has shown what.
    if let credential = record.credential, !worker.policy.configuration.proxy.accepts(credential) { return "it" }
    guard record.decision != nil, !record.target.isEmpty,
      case .success(let request) = NamedRequest.read(
        method: outputs.text.string(record.method), url: outputs.text.string(record.target))
    else { return nil }
    let method = Array(request.method.utf8)
    let path = Array(request.path.utf8)
    worker.workspace.decisions.host = request.host
    let facts = RequestFacts(
      scheme: request.isHTTPS ? .https : .http, port: request.port, method: method.span, path: path.span,
      isTunnel: request.isTunnel, sender: session.exchange.sender, link: worker.workspace.link,
      wall: worker.workspace.wallMilliseconds)
    let decision = worker.workspace.decide(facts, by: worker.policy).decision
    let decider = decision.rule.map { "rule \(worker.policy.rules[$0].name)" } ?? "it"
    if decision.verdict == .deny { return decider }
    if worker.policy.mapping(of: decision, facts, &worker.workspace.decisions)?.objection?.verdict == .deny {
      return decider
    }
    let own = worker.workspace.own
    guard record.route == nil || record.route == Route.direct.name, let address = record.upstream else { return nil }
    return worker.policy.denyingBlock(address, rule: decision.rule, isOwn: { own.contains($0) }).map { _ in "it" }
  }

  /// `denial`: see `denialNow`.
  func endDenied(by denial: String, _ worker: Worker) {
    perform(session.policyChanged(denial, &worker.workspace, &outputs), worker)
    if !flags.contains(.closed) { settle(worker) }
  }
}
