// Interventions of an operator: POST /v1/cancel ends exchanges and tunnels, POST /v1/flush drops what is kept for later
// requests. Each loop does its part in its turn. Tests: Tests/EndToEndTests/test_interventions.py.

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
      guard case .client(let conversation) = occupants[slot], selection.includes(conversation),
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
    let target = conversation.outputs.text.string(conversation.session.exchange.record.target)
    guard case .success(let request) = NamedRequest.read(method: "GET", url: target) else { return nil }
    return request.host.bytes.span.string
  }
}

extension AdminServer {
  /// POST /v1/cancel?ref=…, host=…, rule=…, user=…
  func cancel(_ request: AdminRequest, _ connection: AdminConnection) {
    guard let who = filter(of: request, connection), let hosts = single("host", of: request, connection) else { return }
    let selection = CancelSelection(who: who, host: hosts.first?.lowercased())
    if AdminQuery.names(in: request.query).isEmpty {
      return refuse(400, "expected what to end: 'ref', 'host', 'rule' or 'user' in the query", connection)
    }
    inquire(.cancel(selection), .cancelled, connection)
  }

  /// 404 if nothing matched: the command then fails.
  func cancelled(_ answers: [Answer], wantsText: Bool) -> AdminPage {
    let count = answers.reduce(0) { sum, answer in
      if case .cancelled(let count) = answer { sum + count } else { sum }
    }
    if count == 0 {
      let detail = "nothing of the kind is under way"
      return wantsText ? .text(detail + "\n", status: 404) : .problem(404, detail)
    }
    return wantsText
      ? .text("ended \(String.counted(count, "request or tunnel", "requests and tunnels"))\n")
      : .json(.object([("cancelled", .number(count))]))
  }

  func flush(_ connection: AdminConnection) {
    // A separate thread looks names up.
    shared.resolver.networkChanged()
    inquire(.flush, .flushed, connection)
  }

  func flushed(_ answers: [Answer], wantsText: Bool) -> AdminPage {
    var sum = FlushedThings()
    for case .flushed(let things) in answers {
      sum.connections += things.connections
      sum.sessions += things.sessions
    }
    return wantsText
      ? .text(
        "dropped \(String.counted(sum.connections, "kept connection")), "
          + "\(String.counted(sum.sessions, "TLS session")), and all names\n")
      : .json(.object([("connections", .number(sum.connections)), ("tls_sessions", .number(sum.sessions))]))
  }
}
