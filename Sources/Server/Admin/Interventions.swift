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
}

/// What was dropped.
struct FlushedThings: Sendable {
  /// Idle connections to origins and parents.
  var connections = 0
  /// TLS sessions that could have been resumed.
  var sessions = 0
}

extension Worker {
  /// Ends the selected exchanges and returns how many.
  func cancel(_ selection: CancelSelection) -> Int {
    var count = 0
    // Ending one may close another.
    for slot in occupants.indices {
      guard case .client(let conversation) = occupants[slot], conversation.isMeant(by: selection),
        conversation.cancel(self)
      else { continue }
      count += 1
    }
    return count
  }

  /// The next request looks up its host again, and opens a connection with a full handshake.
  func flush() -> FlushedThings {
    var things = FlushedThings()
    for slot in occupants.indices {
      switch occupants[slot] {
      case .upstream(let upstream) where upstream.owner == nil:
        dropIdle(upstream)
        things.connections += 1
      case .http2(let endpoint):
        guard case .origin = endpoint.peer else { continue }
        if endpoint.isUnused { things.connections += 1 }
        endpoint.retire()
      default: continue
      }
    }
    things.sessions = sessions.count
    sessions.removeAll { _ in true }
    probes.removeAll { _ in true }
    forgetNames()
    return things
  }
}

extension Conversation {
  fileprivate func isMeant(by selection: CancelSelection) -> Bool {
    guard session.isInExchange, !hasNoClient else { return false }
    if let host = selection.host, ![destination?.name.lowercased(), askedHost].contains(host) { return false }
    return selection.who.includes(subject)
  }
}

extension Conversation {
  /// The host that the client names, where a `target` leads elsewhere.
  private var askedHost: String? {
    let target = outputs.text.string(session.exchange.record.target)
    guard case .success(let request) = NamedRequest.read(method: "GET", url: target) else { return nil }
    return request.host.bytes.span.string
  }
}
