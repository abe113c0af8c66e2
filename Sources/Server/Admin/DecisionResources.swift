// What is under way and what has ended: GET /v1/connections, /v1/decisions and /v1/decisions/{ref}. The loops remember
// it. Tests: test_admin.py, test_admin_commands.py.

import Bytes
import Policy
import Session

struct DecisionResources {
  let desk: OperatorDesk
  let inquiries: AdminInquiries

  func connections(_ call: AdminCall) {
    inquiries.ask(.connections, for: call.connection) { answers in
      let open = answers.flatMap { answer -> [OpenConnection] in
        if case .connections(let open) = answer { open } else { [] }
      }
      return .json(AdminResources.connections(open))
    }
  }

  func list(_ call: AdminCall) {
    guard let limits = call.single("limit") else { return }
    var limit = AdminResources.usualDecisions
    if let text = limits.first {
      guard let number = Int(text), (1...AdminResources.mostDecisions).contains(number) else {
        return call.refuse(
          400, "expected a 'limit' from 1 to \(AdminResources.mostDecisions), found '\(AdminCall.cut(text))'")
      }
      limit = number
    }
    guard let words = call.single("refused") else { return }
    var areRefused: Bool? = nil
    if let text = words.first {
      guard let truth = Bool(text) else {
        return call.refuse(400, "expected 'refused' to be true or false, found '\(AdminCall.cut(text))'")
      }
      areRefused = truth
    }
    let most = limit
    inquiries.ask(.decisions(limit: most, areRefused: areRefused), for: call.connection) { answers in
      let found = answers.map { answer -> [RecentDecision] in
        if case .decisions(let found) = answer { found } else { [] }
      }
      return AdminPage(
        status: 200, contentType: "application/json",
        body: .text(AdminResources.decisions(RecentDecision.merged(found, limit: most))))
    }
  }

  func show(_ call: AdminCall) {
    guard let reference = Reference(call.argument) else {
      return call.refuse(404, "expected a reference of six characters, as in a log line")
    }
    if desk.question(reference.text) != nil {
      return call.refuse(404, "\(reference.text) waits for an operator: sallyport allow \(reference.text)")
    }
    inquiries.ask(.decision(reference), for: call.connection) { Self.page($0, wantsText: call.wantsText) }
  }

  private static func page(_ answers: [Answer], wantsText: Bool) -> AdminPage {
    for case .decision(let found) in answers {
      guard let line = AdminResources.decision(found, wantsText ? .text : .json) else { continue }
      return AdminPage(
        status: 200, contentType: wantsText ? "text/plain; charset=utf-8" : "application/json", body: .text(line))
    }
    let detail = "no loop remembers an exchange of this reference; the log may"
    return wantsText ? .text(detail + "\n", status: 404) : .problem(404, detail)
  }
}
