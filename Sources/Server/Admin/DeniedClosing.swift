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
  private static let slotsPerTurn = 32

  /// The requests of the admin API that wait for the end of it.
  private(set) var inquiries: [UInt64]
  private var next = 0
  private(set) var closed = 0

  init(_ inquiry: UInt64) { inquiries = [inquiry] }

  /// Starts again, with a newer policy.
  mutating func startAgain(for inquiry: UInt64) {
    inquiries.append(inquiry)
    next = 0
  }

  /// Checks some connections. Returns whether all have been checked.
  mutating func proceed(_ worker: Worker) -> Bool {
    let end = min(worker.slots.occupants.count, next + Self.slotsPerTurn)
    for slot in next..<end {
      guard case .client(let conversation) = worker.slots.occupants[slot],
        let denial = conversation.cannotBeDecided ? "it" : conversation.denialNow(worker)
      else { continue }
      conversation.endDenied(by: denial, worker)
      closed += 1
    }
    next = end
    return end >= worker.slots.occupants.count
  }
}

extension Session {
  /// What denies the exchange that was allowed to begin, or the intercepted tunnel, by the policy in force: the subject
  /// of a sentence; nil: nothing does. `text`: method and target at the record's ranges.
  func denial(text: borrowing ByteBuffer, _ worker: Worker) -> String? {
    if let interior = origin.interior,
      interior.problem(openedBy: tunnelSender, with: origin.credential, worker.policy, in: &worker.workspace) != nil
    {
      return "it"
    }
    guard isInExchange else { return nil }
    let record = exchange.record
    // Of a tunnel that an earlier process opened, it is not known who has shown what.
    if let credential = record.sender.credential, !worker.policy.configuration.proxy.accepts(credential) { return "it" }
    guard record.ruled.decision != nil, !record.text.target.isEmpty,
      case .success(let request) = NamedRequest.read(
        method: text.string(record.text.method), url: text.string(record.text.target))
    else { return nil }
    let method = Array(request.method.utf8)
    let path = Array(request.path.utf8)
    worker.workspace.decisions.host = request.host
    let facts = RequestFacts(
      scheme: request.isHTTPS ? .https : .http, port: request.port, method: method.span, path: path.span,
      isTunnel: request.isTunnel, sender: exchange.sender, link: worker.workspace.link,
      wall: worker.workspace.wallMilliseconds)
    let decision = worker.workspace.decide(facts, by: worker.policy).decision
    let decider = decision.rule.map { "rule \(worker.policy.rules[$0].name)" } ?? "it"
    if decision.verdict == .deny { return decider }
    if worker.policy.mapping(of: decision, facts, in: &worker.workspace.decisions)?.objection?.verdict == .deny {
      return decider
    }
    let own = worker.workspace.own
    guard record.way.route == nil || record.way.route == Route.direct.name, let address = record.way.upstream else {
      return nil
    }
    return worker.policy.denyingBlock(address, rule: decision.rule, isOwn: { own.contains($0) }).map { _ in "it" }
  }
}
