// The resources of the admin API, a row each. The rows define the names in each query, the rights, 405 and Allow,
// OPTIONS, and `GET /v1`, which lists them. A test compares sallyport-admin(7) with them (test_manual.py).
//
// Tests: AdminRoutesTests, test_admin_socket.py.

import Bytes
import Policy
import Session
import Transport

struct AdminRoute: Sendable {
  let method: String
  /// A last component in braces matches any one: `/v1/decisions/{ref}`.
  let path: String
  let right: AdminRights
  /// The names that its query may contain.
  let query: [String]
  let sentence: String
  let answer: @Sendable (AdminServer, AdminCall) -> Void

  init(
    _ method: String, _ path: String, _ right: AdminRights, _ sentence: String, query: [String] = [],
    _ answer: @escaping @Sendable (AdminServer, AdminCall) -> Void
  ) {
    self.method = method
    self.path = path
    self.right = right
    self.query = query
    self.sentence = sentence
    self.answer = answer
  }

  /// The text in place of the braces, empty if the path has none; nil: another path.
  func argument(in given: String) -> String? {
    guard let brace = path.firstIndex(of: "{") else { return path == given ? "" : nil }
    let beginning = path[..<brace]
    guard given.hasPrefix(beginning), given.utf8.count > beginning.utf8.count else { return nil }
    return String(given.dropFirst(beginning.count))
  }
}

/// A request to a resource.
struct AdminCall {
  let request: AdminRequest
  /// See `AdminRoute.argument`.
  let argument: String
  /// The user who asks; nil: the kernel does not say.
  let userID: UInt32?
  let mayAct: Bool
  let connection: AdminConnection
}

extension AdminRoute {
  static func routes(_ path: String) -> [AdminRoute] { all.filter { $0.argument(in: path) != nil } }

  /// HEAD goes with GET.
  static func methods(_ routes: [AdminRoute]) -> String {
    (routes.flatMap { $0.method == "GET" ? ["GET", "HEAD"] : [$0.method] } + ["OPTIONS"]).joined(separator: ", ")
  }

  static let all: [AdminRoute] = [
    AdminRoute("GET", "/v1", .read, "These resources.") { $0.tellRoutes($1.connection) },
    AdminRoute("GET", "/v1/status", .read, "How the daemon is.") { $0.inquire(.statistics, .status, $1.connection) },
    AdminRoute("GET", "/v1/rules", .read, "The rules, with what each has decided.") {
      $0.inquire(.statistics, .rules, $1.connection)
    },
    AdminRoute("GET", "/v1/pins", .read, "The sets of pins, with what matched.") {
      $0.inquire(.statistics, .pins, $1.connection)
    },
    AdminRoute("GET", "/v1/connections", .read, "What is under way.") {
      $0.inquire(.connections, .connections, $1.connection)
    },
    AdminRoute("GET", "/v1/decisions", .read, "The last exchanges, the newest first.", query: ["limit", "refused"]) {
      $0.askDecisions($1.request, $1.connection)
    },
    AdminRoute("GET", "/v1/decisions/{ref}", .read, "One exchange, and why it was decided so.") {
      $0.askDecision($1.argument, $1.connection)
    },
    AdminRoute("GET", "/v1/series", .read, "The figures of the last hour.") { $0.tellSeries($1.connection) },
    AdminRoute("GET", "/v1/dashboard", .read, "Where the dashboard is.", query: ["user"]) {
      $0.tellDashboard($1.connection)
    },
    // A link to the dashboard has no more rights than the user who asks for it.
    AdminRoute("POST", "/v1/dashboard", .read, "Makes a link to the dashboard.", query: ["user"]) {
      $0.makeLink($1.request, $1.connection)
    },
    AdminRoute(
      "GET", "/v1/reachability", .read, "How the machine, and a host, is reached.", query: ["host"]
    ) { $0.askReachability($1.request, $1.connection) },
    AdminRoute(
      "GET", "/v1/events", .read, "What happens, as it happens.", query: ["kind", "rule", "user", "ref"]
    ) { $0.watch($1.request, $1.connection) },
    AdminRoute("GET", "/v1/cache", .read, "The stored answers as a whole, or one.", query: ["url"]) {
      $0.tellCache($1.request, mayAct: $1.mayAct, $1.connection)
    },
    AdminRoute("GET", "/v1/cache/answers", .read, "The stored answers.", query: ["host", "rule"]) {
      $0.tellCache($1.request, mayAct: $1.mayAct, $1.connection)
    },
    AdminRoute(
      "POST", "/v1/cache/purge", .act, "Drops stored answers.", query: ["url", "host", "rule", "older", "all"]
    ) { $0.purgeCache($1.request, $1.connection) },
    AdminRoute("GET", "/v1/asks", .read, "The questions that wait, and the answers that hold for a time.") {
      $0.tellAsks($1.connection)
    },
    // A user who may read a question may answer it. Its handler checks what else such a request may do.
    AdminRoute("POST", "/v1/allow", .read, "Answers a question with yes.", query: AskingLimits.queryNames) {
      $0.answerAsk(.allow, $1.request, by: $1.userID, mayAct: $1.mayAct, $1.connection)
    },
    AdminRoute("POST", "/v1/deny", .read, "Answers a question with no.", query: AskingLimits.queryNames) {
      $0.answerAsk(.deny, $1.request, by: $1.userID, mayAct: $1.mayAct, $1.connection)
    },
    AdminRoute("POST", "/v1/revoke", .act, "Takes back an answer that holds for a time.", query: ["id"]) {
      $0.revoke($1.request, $1.connection)
    },
    AdminRoute("GET", "/v1/rule", .read, "The text of a rule about a request.", query: ["ref", "verdict"]) {
      $0.tellRule($1.request, $1.connection)
    },
    AdminRoute(
      "GET", "/v1/temporary", .read, "The answer that holds for such a request.",
      query: ["method", "url", "uid", "unit"]
    ) { $0.tellTemporary($1.request, $1.connection) },
    AdminRoute(
      "POST", "/v1/cancel", .act, "Ends exchanges and tunnels.", query: ["ref", "host", "rule", "user"]
    ) { $0.cancel($1.request, $1.connection) },
    AdminRoute("POST", "/v1/flush", .act, "Drops kept connections, names and TLS sessions.") {
      $0.flush($1.connection)
    },
    AdminRoute("POST", "/v1/reload", .act, "Reads the configuration again.", query: ["close_denied"]) {
      $0.reload($1.request, $1.connection)
    },
    AdminRoute("POST", "/v1/drain", .act, "Lets requests under way end, and takes no more.") { server, call in
      server.host.drainNow()
      call.connection.write(.json(.object([("draining", .boolean(true))]), status: 202))
    },
    AdminRoute("GET", "/metrics", .metrics, "Metrics in the text format of Prometheus.") {
      $0.inquire(.statistics, .metrics, $1.connection)
    },
  ]
}

extension AdminRoute {
  static func json(_ routes: [AdminRoute]) -> JSONText {
    let resources = routes.map { route in
      JSONText.object([
        ("method", .string(route.method)), ("path", .string(route.path)), ("right", .string("\(route.right)")),
        ("query", .array(route.query.map(JSONText.string))), ("what", .string(route.sentence)),
      ])
    }
    return .object([("resources", .array(resources))])
  }
}

extension AdminServer {
  fileprivate func tellRoutes(_ connection: AdminConnection) {
    if connection.wantsText {
      let lines = AdminRoute.all.map { "\($0.method) \($0.path)  \($0.sentence)\n" }
      return connection.write(.text(lines.joined()))
    }
    connection.write(.json(AdminRoute.json(AdminRoute.all)))
  }

  fileprivate func askDecision(_ text: String, _ connection: AdminConnection) {
    guard let reference = Reference(text) else {
      return refuse(404, "expected a reference of six characters, as in a log line", connection)
    }
    if shared.desk.question(reference.text) != nil {
      return refuse(404, "\(reference.text) waits for an operator: sallyport allow \(reference.text)", connection)
    }
    inquire(.decision(reference), .decision, connection)
  }
}
