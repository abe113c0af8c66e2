// What one loop does when an operator intervenes (InterventionResources): it ends exchanges and tunnels, or drops what
// is kept for later requests. Tests: Tests/EndToEndTests/test_interventions.py.

import Bytes
import Policy
import Session
import Transport

/// Which exchanges and tunnels are to end: those that match all of it.
struct CancelSelection: Sendable {
  var who = EventFilter()
  /// A host in lower case, as in the log.
  var host: String? = nil

  /// Ends what is selected in one loop, and returns how much.
  func endAll(_ worker: Worker) -> Int {
    var count = 0
    // Ending one may close another.
    for slot in worker.slots.occupants.indices {
      guard case .client(let conversation) = worker.slots.occupants[slot], includes(conversation),
        conversation.cancel(worker)
      else { continue }
      count += 1
    }
    return count
  }
}

/// What was dropped.
struct FlushedThings: Sendable {
  /// Idle connections to origins and parents.
  var connections = 0
  /// TLS sessions that could have been resumed.
  var sessions = 0
}

extension CancelSelection {
  fileprivate func includes(_ conversation: Conversation) -> Bool {
    guard conversation.session.isInExchange, !conversation.hasNoClient else { return false }
    if let host, ![conversation.search.destination?.name.lowercased(), Self.askedHost(conversation)].contains(host) {
      return false
    }
    return who.includes(conversation.session.exchange.subject)
  }

  /// The host that the client names, where a `target` leads elsewhere.
  private static func askedHost(_ conversation: Conversation) -> String? {
    let target = conversation.outputs.text.string(conversation.session.exchange.record.text.target)
    guard case .success(let request) = NamedRequest.read(method: "GET", url: target) else { return nil }
    return request.host.bytes.span.string
  }
}
