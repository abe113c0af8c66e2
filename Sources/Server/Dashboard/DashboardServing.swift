// The dashboard's side of the admin API: who may use it, and the files of the page. A session's requests to /v1 are
// handled like all others (AdminRoutes). Strangers only learn how to get a session. Tests: test_dashboard.py.

import Bytes
import Dashboard
import Policy
import Transport

/// The state of the admin server if [admin] has `web`.
final class DashboardState {
  let address: ListenAddress
  private let checks: DashboardGuard
  var sessions = DashboardSessions { Process.random }
  private var strangers = StrangerAllowance()
  var series = Series(now: Clock.monotonic)
  private var owners = SocketOwners()
  private let connections: AdminConnections
  private let log: LogWriter

  init(_ address: SocketAddress, _ connections: AdminConnections, log: LogWriter) {
    self.connections = connections
    self.log = log
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

  /// A loop has answered for the next sample. `counted`: the sum of those that have ended.
  func sampled(_ worker: Int, _ statistics: Statistics, counted: Statistics?, cache: SharedCache?) {
    guard var sum = series.answered(worker, statistics) else { return }
    if let counted { sum.add(counted) }
    series.take(SeriesCounters(sum, cache: cache.map(CacheFacts.init)), wall: Clock.wall)
  }

  // MARK: Who may use it

  /// Where links lead.
  static let openingPath = "/open"
  /// Where sessions are ended.
  static let leavingPath = "/leave"

  /// The session of a request to the dashboard. nil: the request has already been answered.
  func admit(_ request: AdminRequest, _ connection: AdminConnection) -> WebSession? {
    let fields = request.web ?? WebFields()
    if let refusal = checks.refusal(fields, method: request.method) {
      turnAway(connection, .problem(refusal.status, refusal.detail))
      return nil
    }
    if request.path == Self.openingPath {
      open(request, connection)
      return nil
    }
    guard let session = sessions.session(fields.cookies(named: cookieName), now: Clock.monotonic),
      connection.browser(self) == session.browser
    else {
      let page =
        request.path.hasPrefix("/v1/") || request.path == "/metrics"
        ? AdminPage.problem(403, "no session; run 'sallyport dashboard' and open the link that it prints")
        : .html(DashboardPage.doorstep("There is no session in this browser, or it is over."), status: 403)
      turnAway(connection, page)
      return nil
    }
    connection.recognise(session)
    return pass(request, connection, of: session) ? session : nil
  }

  /// Serves what belongs to the dashboard only; true: the request is for the API.
  private func pass(_ request: AdminRequest, _ connection: AdminConnection, of session: WebSession) -> Bool {
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
      sessions.end(session)
      connections.endWatchers(of: session)
      var page = AdminPage.json(.object([("ended", .boolean(true))]))
      page.fields = [("Set-Cookie", cookie("") + "; Max-Age=0")]
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
  private func open(_ request: AdminRequest, _ connection: AdminConnection) {
    let now = Clock.monotonic
    // HEAD does not use up the link: programs that check where a link leads send it.
    guard request.method == "GET", !connection.answersHead,
      case .success(let tokens) = AdminQuery.values(of: "token", in: request.query), tokens.count == 1,
      sessions.hasLink(tokens[0], now: now)
    else {
      let sentence = "This link is not valid: it works once, and for a minute."
      return turnAway(connection, .html(DashboardPage.doorstep(sentence), status: 403))
    }
    guard let browser = connection.browser(self) else {
      let sentence = "The kernel does not say whose browser this is, so it cannot have a session."
      return turnAway(connection, .html(DashboardPage.doorstep(sentence), status: 403))
    }
    switch sessions.open(tokens[0], browser: browser, now: now) {
    case .unknown:
      turnAway(connection, .html(DashboardPage.doorstep("This link is not valid."), status: 403))
    case .notYours(let user):
      log.event(.warning, "dashboard: user \(browser) tried to use a link of user \(user)")
      let sentence = "This link is for user \(user), and this is a browser of user \(browser)."
      turnAway(connection, .html(DashboardPage.doorstep(sentence), status: 403))
    case .opened(let session, let ended):
      if let ended { connections.endWatchers(of: ended) }
      connection.recognise(session)
      var page = AdminPage(status: 303, contentType: "text/plain; charset=utf-8", body: .text("see /\n"))
      page.fields = [("Location", "/"), ("Set-Cookie", cookie(session.secret.text))]
      connection.write(page)
    }
  }

  /// Answers a stranger and closes, so that strangers occupy no places. Beyond the strangers' limit, it only closes.
  private func turnAway(_ connection: AdminConnection, _ page: AdminPage) {
    guard strangers.takes(now: Clock.monotonic) else { return connection.close() }
    connection.dismiss()
    connection.write(page)
  }
}
