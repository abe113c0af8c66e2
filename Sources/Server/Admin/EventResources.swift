// GET /v1/events: what happens, as it happens. Tests: test_admin_events.py.

import Policy
import Session

struct EventResources {
  unowned let host: any AdminHost
  let connections: AdminConnections

  func watch(_ call: AdminCall) {
    var kinds = EventKinds.all
    switch AdminQuery.values(of: "kind", in: call.request.query) {
    case .failure(let fault): return call.refuse(400, fault.sentence)
    case .success([]): break
    case .success(let lists):
      switch EventKinds.read(lists.joined(separator: ",")) {
      case .success(let read): kinds = read
      case .failure(let fault):
        let known = ProxyEvent.Kind.allCases.map(\.rawValue).joined(separator: ", ")
        return call.refuse(400, "'\(AdminCall.cut(fault.word))' is no kind of event; expected one of \(known)")
      }
    }
    guard let filter = call.filter() else { return }
    // A reader who waits for what cannot come would wait for ever.
    let policy = host.state.policy
    let rules = policy.rules.map(\.name)
    if let rule = filter.rule, !rules.contains(rule) {
      let question = Suggestion.question(rule, among: rules)
      return call.refuse(404, "no rule of the policy in force is named '\(AdminCall.cut(rule))'\(question)")
    }
    guard
      call.connection.answersHead
        || connections.mayWatch(call.connection, share: policy.configuration.limits.share)
    else {
      return call.refuse(503, "\(AdminServer.mostWatchers) readers of events are there, as many as may be")
    }
    call.connection.beginEvents(kinds, filter)
    connections.watchersChanged()
  }
}
