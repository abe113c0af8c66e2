// How the daemon is: GET /v1/status, /v1/rules, /v1/pins and /metrics, from the sum of what all loops have counted. The
// pages are made by StatusPage, AdminResources and MetricsPage. Tests: test_admin.py, test_admin_metrics.py.

import Policy
import Session
import Transport

struct StatusResources {
  unowned let host: any AdminHost
  let shared: SharedState
  let inquiries: AdminInquiries

  func status(_ call: AdminCall) {
    ask(call) { call.wantsText ? .text(StatusPage.text($0)) : .json(AdminResources.status($0)) }
  }

  func rules(_ call: AdminCall) { ask(call) { .json(AdminResources.rules($0)) } }
  func pins(_ call: AdminCall) { ask(call) { .json(AdminResources.pins($0)) } }
  func metrics(_ call: AdminCall) { ask(call) { .metrics($0) } }

  private func ask(_ call: AdminCall, page: @escaping (AdminFacts) -> AdminPage) {
    inquiries.ask(.statistics, for: call.connection) { page(facts($0)) }
  }

  private func facts(_ answers: [Answer]) -> AdminFacts {
    // If every loop was asked, the answers include those of the loops that have ended since.
    var sum = answers.count == shared.mailboxes.count ? nil : inquiries.counted
    for case .statistics(let statistics) in answers {
      if sum == nil { sum = statistics } else { sum?.add(statistics) }
    }
    return AdminFacts(
      state: host.state, statistics: sum ?? Statistics(host.state.policy), heldBytes: shared.heldBytes.count,
      residentBytes: Process.residentBytes, lostEvents: shared.events.lostCount, wall: Clock.wall,
      monotonic: Clock.monotonic, network: host.network, pinsSeen: shared.pins.all,
      cache: shared.cache.map(CacheFacts.init),
      history: shared.history.facts, deskFault: shared.desk.fault)
  }
}
