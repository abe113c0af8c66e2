// Interventions of an operator: POST /v1/cancel ends exchanges and tunnels, POST /v1/flush drops what is kept for later
// requests, POST /v1/drain ends everything in time. What each loop does is in Interventions.swift. Tests:
// Tests/EndToEndTests/test_interventions.py.

import Bytes
import Session
import Transport

struct InterventionResources {
  unowned let host: any AdminHost
  let resolver: Resolver
  let inquiries: AdminInquiries

  /// POST /v1/cancel?ref=…, host=…, rule=…, user=…
  func cancel(_ call: AdminCall) {
    guard let who = call.filter(), let hosts = call.single("host") else { return }
    let selection = CancelSelection(who: who, host: hosts.first?.lowercased())
    if AdminQuery.names(in: call.request.query).isEmpty {
      return call.refuse(400, "expected what to end: 'ref', 'host', 'rule' or 'user' in the query")
    }
    inquiries.ask(.cancel(selection), for: call.connection) { Self.cancelled($0, wantsText: call.wantsText) }
  }

  /// 404 if nothing matched: the command then fails.
  private static func cancelled(_ answers: [Answer], wantsText: Bool) -> AdminPage {
    let count = Answer.cancelledCount(answers)
    if count == 0 {
      let detail = "nothing of the kind is under way"
      return wantsText ? .text(detail + "\n", status: 404) : .problem(404, detail)
    }
    return wantsText
      ? .text("ended \(String.counted(count, "request or tunnel", plural: "requests and tunnels"))\n")
      : .json(.object([("cancelled", .number(count))]))
  }

  func flush(_ call: AdminCall) {
    // A separate thread looks names up.
    resolver.networkChanged()
    inquiries.ask(.flush, for: call.connection) { Self.flushed($0, wantsText: call.wantsText) }
  }

  private static func flushed(_ answers: [Answer], wantsText: Bool) -> AdminPage {
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

  func drain(_ call: AdminCall) {
    host.drainNow()
    call.write(.json(.object([("draining", .boolean(true))]), status: 202))
  }
}
