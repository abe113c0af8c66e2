// The dashboard's own resources of the admin API: /v1/dashboard makes links, /v1/series has the figures of the last
// hour. Tests: test_dashboard.py.

import Policy
import Transport

struct DashboardResources {
  unowned let host: any AdminHost
  /// nil if [admin] has no `web`.
  let dashboard: DashboardState?

  private var operators: [UInt32] { host.state.policy.configuration.admin.operators }

  /// POST /v1/dashboard[?user=N]: makes a link.
  func makeLink(_ call: AdminCall) {
    guard let dashboard else { return refuse(call) }
    let asking = call.connection.descriptor.peerUserID
    var user = asking == 0 ? nil : asking
    switch AdminQuery.values(of: "user", in: call.request.query) {
    case .failure(let fault): return call.refuse(400, fault.sentence)
    case .success([]): break
    case .success(let values):
      guard values.count == 1, let named = UInt32(values[0]) else {
        return call.refuse(400, "expected one number of a user as 'user'")
      }
      guard asking == 0 || named == asking else { return call.refuse(403, "only root makes links for other users") }
      user = named
    }
    // A client that the kernel does not name cannot be told from any other.
    if asking == nil { return call.refuse(403, "the kernel does not say who you are") }
    let rights = AdminRights.of(userID: asking, daemon: Process.userID, operators: operators)
    let secret = dashboard.sessions.link(askedBy: asking, rights: rights, for: user, now: Clock.monotonic)
    let url = "http://\(dashboard.address)\(DashboardState.openingPath)?token=\(secret.text)"
    if call.wantsText { return call.write(.text(url + "\n")) }
    let until = AdminResources.time(Clock.wall + DashboardSessions.linkMilliseconds)
    call.write(
      .json(.object([("url", .string(url)), ("until", .string(until)), ("act", .boolean(rights == .act))])))
  }

  /// GET /v1/dashboard
  func show(_ call: AdminCall) {
    guard let dashboard else { return refuse(call) }
    let session = call.connection.session
    let until = session.map { Clock.wall + $0.until - Clock.monotonic }
    call.write(
      .json(
        AdminResources.dashboard(
          "\(dashboard.address)", sessions: dashboard.sessions.count, user: session?.askedBy,
          acts: session.map { .of($0, operators: operators) == AdminRights.act }, until: until)))
  }

  /// GET /v1/series
  func series(_ call: AdminCall) {
    guard let dashboard else { return refuse(call) }
    call.write(.json(dashboard.series.json))
  }

  private func refuse(_ call: AdminCall) {
    call.refuse(404, "there is no dashboard: set web = \"127.0.0.1:3129\" in [admin] and restart")
  }
}
