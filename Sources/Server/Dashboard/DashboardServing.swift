// The dashboard's side of the admin API: who may use it, and the files of the page. A session's requests to /v1 are
// handled like all others (AdminRequests). Strangers only learn how to get a session. Tests: test_dashboard.py.

import Bytes
import Dashboard
import Policy
import Transport

/// The state of the admin server if [admin] has `web`.
final class DashboardState {
  let address: ListenAddress
  let checks: DashboardGuard
  var sessions = DashboardSessions { Process.random }
  var strangers = StrangerAllowance()
  var series = Series(now: Clock.monotonic)
  private var owners = SocketOwners()

  init(_ address: SocketAddress) {
    self.address = ListenAddress(address: IPAddress(address), port: address.port)
    checks = DashboardGuard(self.address)
  }

  /// Browsers send cookies to every port of a host: the name separates two daemons on one machine. The prefix __Host-
  /// would need Secure, and Secure needs https.
  var cookieName: String { "sallyport-\(address.port)" }

  /// HttpOnly: no script reads it. SameSite=Strict: no other site's page makes the browser send it. Without an age, it
  /// ends with the browser.
  func cookie(_ value: String) -> String { "\(cookieName)=\(value); Path=/; HttpOnly; SameSite=Strict" }

  /// The user whose browser a connection belongs to; nil if the kernel does not say.
  func owner(of connection: Accepted) -> UInt32? {
    if case .owner(let key, _) = owners.owner(of: connection, now: Clock.monotonic) { return key.userID }
    return nil
  }
}

extension AdminServer {
  /// Where links lead.
  static let openingPath = "/open"
  /// Where sessions are ended.
  static let leavingPath = "/leave"

  /// The session of a request to the dashboard. nil: the request has already been answered.
  func admit(_ request: AdminRequest, _ connection: AdminConnection, _ dashboard: DashboardState) -> WebSession? {
    let fields = request.web ?? WebFields()
    if let refusal = dashboard.checks.refusal(fields, method: request.method) {
      turnAway(connection, .problem(refusal.status, refusal.detail), dashboard)
      return nil
    }
    if request.path == Self.openingPath {
      open(request, connection, dashboard)
      return nil
    }
    guard let session = dashboard.sessions.session(fields.cookies(named: dashboard.cookieName), now: Clock.monotonic),
      connection.browser(dashboard) == session.browser
    else {
      let page =
        request.path.hasPrefix("/v1/") || request.path == "/metrics"
        ? AdminPage.problem(403, "no session; run 'sallyport dashboard' and open the link that it prints")
        : .html(DashboardPage.doorstep("There is no session in this browser, or it is over."), status: 403)
      turnAway(connection, page, dashboard)
      return nil
    }
    connection.recognise(session)
    return pass(request, connection, session, dashboard) ? session : nil
  }

  /// Serves what belongs to the dashboard only; true: the request is for the API.
  private func pass(
    _ request: AdminRequest, _ connection: AdminConnection, _ session: WebSession, _ dashboard: DashboardState
  ) -> Bool {
    if let file = DashboardPage.file(request.path) {
      if request.method == "GET" {
        connection.write(AdminPage(status: 200, contentType: file.type, body: .bytes(file.bytes)))
      } else {
        connection.write(.problem(405, "expected GET"), allow: "GET")
      }
      return false
    }
    switch (request.method, request.path) {
    case ("POST", Self.leavingPath):
      dashboard.sessions.end(session)
      endWatchers(of: session)
      var page = AdminPage.json(.object([("ended", .boolean(true))]))
      page.fields = [("Set-Cookie", dashboard.cookie("") + "; Max-Age=0")]
      connection.write(page)
      return false
    case ("POST", "/v1/dashboard"):
      // Otherwise a session could outlive its end through another one that it made.
      connection.write(.problem(403, "links are made at the admin socket: sallyport dashboard"))
      return false
    default: return true
    }
  }

  /// GET /open?token=…
  private func open(_ request: AdminRequest, _ connection: AdminConnection, _ dashboard: DashboardState) {
    let now = Clock.monotonic
    // HEAD does not use up the link: programs that check where a link leads send it.
    guard request.method == "GET", !connection.answersHead,
      case .success(let tokens) = AdminQuery.values(of: "token", in: request.query), tokens.count == 1,
      dashboard.sessions.hasLink(tokens[0], now: now)
    else {
      let sentence = "This link is not valid: it works once, and for a minute."
      return turnAway(connection, .html(DashboardPage.doorstep(sentence), status: 403), dashboard)
    }
    guard let browser = connection.browser(dashboard) else {
      let sentence = "The kernel does not say whose browser this is, so it cannot have a session."
      return turnAway(connection, .html(DashboardPage.doorstep(sentence), status: 403), dashboard)
    }
    switch dashboard.sessions.open(tokens[0], browser: browser, now: now) {
    case .unknown:
      turnAway(connection, .html(DashboardPage.doorstep("This link is not valid."), status: 403), dashboard)
    case .notYours(let user):
      shared.log.event(.warning, "dashboard: user \(browser) tried to use a link of user \(user)")
      let sentence = "This link is for user \(user), and this is a browser of user \(browser)."
      turnAway(connection, .html(DashboardPage.doorstep(sentence), status: 403), dashboard)
    case .opened(let session, let ended):
      if let ended { endWatchers(of: ended) }
      connection.recognise(session)
      var page = AdminPage(status: 303, contentType: "text/plain; charset=utf-8", body: .text("see /\n"))
      page.fields = [("Location", "/"), ("Set-Cookie", dashboard.cookie(session.secret.text))]
      connection.write(page)
    }
  }

  /// Answers a stranger and closes, so that strangers occupy no places. Beyond the strangers' limit, it only closes.
  private func turnAway(_ connection: AdminConnection, _ page: AdminPage, _ dashboard: DashboardState) {
    guard dashboard.strangers.takes(now: Clock.monotonic) else { return connection.close() }
    connection.dismiss()
    connection.write(page)
  }

  // MARK: /v1/dashboard, /v1/series

  /// A session has the rights of the user who asked for it, as they are now: a reload may have removed some.
  func rights(of session: WebSession) -> AdminRights {
    let operators = host.state.policy.configuration.admin.operators
    return min(session.rights, .of(userID: session.askedBy, daemon: Process.userID, operators: operators))
  }

  /// POST /v1/dashboard[?user=N]: makes a link.
  func makeLink(_ request: AdminRequest, _ connection: AdminConnection) {
    guard let dashboard else { return refuseWithoutDashboard(connection) }
    let asking = connection.descriptor.peerUserID
    var user = asking == 0 ? nil : asking
    switch AdminQuery.values(of: "user", in: request.query) {
    case .failure(let fault): return refuse(400, fault.sentence, connection)
    case .success([]): break
    case .success(let values):
      guard values.count == 1, let named = UInt32(values[0]) else {
        return refuse(400, "expected one number of a user as 'user'", connection)
      }
      guard asking == 0 || named == asking else {
        return refuse(403, "only root makes links for other users", connection)
      }
      user = named
    }
    // A client that the kernel does not name cannot be told from any other.
    if asking == nil { return refuse(403, "the kernel does not say who you are", connection) }
    let rights = AdminRights.of(
      userID: asking, daemon: Process.userID, operators: host.state.policy.configuration.admin.operators)
    let secret = dashboard.sessions.link(askedBy: asking, rights: rights, for: user, now: Clock.monotonic)
    let url = "http://\(dashboard.address)\(Self.openingPath)?token=\(secret.text)"
    if connection.wantsText { return connection.write(.text(url + "\n")) }
    let until = AdminResources.time(Clock.wall + DashboardSessions.linkMilliseconds)
    connection.write(
      .json(.object([("url", .string(url)), ("until", .string(until)), ("act", .boolean(rights == .act))])))
  }

  /// GET /v1/dashboard
  func tellDashboard(_ connection: AdminConnection) {
    guard let dashboard else { return refuseWithoutDashboard(connection) }
    let session = connection.session
    let until = session.map { Clock.wall + $0.until - Clock.monotonic }
    connection.write(
      .json(
        AdminResources.dashboard(
          "\(dashboard.address)", sessions: dashboard.sessions.count, user: session?.askedBy,
          acts: session.map { rights(of: $0) == .act }, until: until)))
  }

  /// GET /v1/series
  func tellSeries(_ connection: AdminConnection) {
    guard let dashboard else { return refuseWithoutDashboard(connection) }
    connection.write(.json(dashboard.series.json))
  }

  private func refuseWithoutDashboard(_ connection: AdminConnection) {
    refuse(404, "there is no dashboard: set web = \"127.0.0.1:3129\" in [admin] and restart", connection)
  }

  /// A loop has answered for the next sample.
  func sampled(_ worker: Int, _ statistics: Statistics) {
    guard let dashboard, var sum = dashboard.series.answered(worker, statistics) else { return }
    if let counted { sum.add(counted) }
    let cache = shared.cache.map(CacheFacts.init)
    dashboard.series.take(SeriesCounters(sum, cache: cache), wall: Clock.wall)
  }
}
