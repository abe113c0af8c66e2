// The resources of the admin API, a row each: which type of AdminResourceSet answers. The rows define the names in each
// query, the rights, 405 and Allow, OPTIONS, and `GET /v1`, which lists them. A test compares sallyport-admin(7) with
// them (test_manual.py).
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
  let answer: @Sendable (AdminResourceSet, AdminCall) -> Void

  init(
    _ method: String, _ path: String, right: AdminRights, sentence: String, query: [String] = [],
    answer: @escaping @Sendable (AdminResourceSet, AdminCall) -> Void
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

extension AdminRoute {
  static func routes(_ path: String) -> [AdminRoute] { all.filter { $0.argument(in: path) != nil } }

  /// HEAD goes with GET.
  static func methods(_ routes: [AdminRoute]) -> String {
    (routes.flatMap { $0.method == "GET" ? ["GET", "HEAD"] : [$0.method] } + ["OPTIONS"]).joined(separator: ", ")
  }

  static let all: [AdminRoute] = [
    AdminRoute("GET", "/v1", right: .read, sentence: "These resources.") { $1.write(routes: all) },
    AdminRoute("GET", "/v1/status", right: .read, sentence: "How the daemon is.") { $0.status.status($1) },
    AdminRoute("GET", "/v1/rules", right: .read, sentence: "The rules, with what each has decided.") {
      $0.status.rules($1)
    },
    AdminRoute("GET", "/v1/pins", right: .read, sentence: "The sets of pins, with what matched.") {
      $0.status.pins($1)
    },
    AdminRoute("GET", "/v1/connections", right: .read, sentence: "What is under way.") { $0.decisions.connections($1) },
    AdminRoute(
      "GET", "/v1/decisions", right: .read, sentence: "The last exchanges, the newest first.",
      query: ["limit", "refused"]
    ) {
      $0.decisions.list($1)
    },
    AdminRoute("GET", "/v1/decisions/{ref}", right: .read, sentence: "One exchange, and why it was decided so.") {
      $0.decisions.show($1)
    },
    AdminRoute("GET", "/v1/series", right: .read, sentence: "The figures of the last hour.") {
      $0.dashboard.series($1)
    },
    AdminRoute("GET", "/v1/dashboard", right: .read, sentence: "Where the dashboard is.", query: ["user"]) {
      $0.dashboard.show($1)
    },
    // A link to the dashboard has no more rights than the user who asks for it.
    AdminRoute("POST", "/v1/dashboard", right: .read, sentence: "Makes a link to the dashboard.", query: ["user"]) {
      $0.dashboard.makeLink($1)
    },
    AdminRoute(
      "GET", "/v1/reachability", right: .read, sentence: "How the machine, and a host, is reached.", query: ["host"]
    ) { $0.reachability.show($1) },
    AdminRoute(
      "GET", "/v1/events", right: .read, sentence: "What happens, as it happens.",
      query: ["kind", "rule", "user", "ref"]
    ) { $0.events.watch($1) },
    AdminRoute("GET", "/v1/cache", right: .read, sentence: "The stored answers as a whole, or one.", query: ["url"]) {
      $0.cache.show($1)
    },
    AdminRoute("GET", "/v1/cache/answers", right: .read, sentence: "The stored answers.", query: ["host", "rule"]) {
      $0.cache.show($1)
    },
    AdminRoute(
      "POST", "/v1/cache/purge", right: .act, sentence: "Drops stored answers.",
      query: ["url", "host", "rule", "older", "all"]
    ) { $0.cache.purge($1) },
    AdminRoute(
      "GET", "/v1/asks", right: .read, sentence: "The questions that wait, and the answers that hold for a time."
    ) {
      $0.asking.list($1)
    },
    // A user who may read a question may answer it. Its handler checks what else such a request may do.
    AdminRoute(
      "POST", "/v1/allow", right: .read, sentence: "Answers a question with yes.", query: AskingLimits.queryNames
    ) {
      $0.asking.answer(.allow, $1)
    },
    AdminRoute(
      "POST", "/v1/deny", right: .read, sentence: "Answers a question with no.", query: AskingLimits.queryNames
    ) {
      $0.asking.answer(.deny, $1)
    },
    AdminRoute(
      "POST", "/v1/revoke", right: .act, sentence: "Takes back an answer that holds for a time.", query: ["id"]
    ) {
      $0.asking.revoke($1)
    },
    AdminRoute(
      "GET", "/v1/rule", right: .read, sentence: "The text of a rule about a request.", query: ["ref", "verdict"]
    ) {
      $0.asking.rule($1)
    },
    AdminRoute(
      "GET", "/v1/temporary", right: .read, sentence: "The answer that holds for such a request.",
      query: ["method", "url", "uid", "unit"]
    ) { $0.asking.temporary($1) },
    AdminRoute(
      "POST", "/v1/cancel", right: .act, sentence: "Ends exchanges and tunnels.",
      query: ["ref", "host", "rule", "user"]
    ) { $0.interventions.cancel($1) },
    AdminRoute("POST", "/v1/flush", right: .act, sentence: "Drops kept connections, names and TLS sessions.") {
      $0.interventions.flush($1)
    },
    AdminRoute("POST", "/v1/reload", right: .act, sentence: "Reads the configuration again.", query: ["close_denied"]) {
      $0.reload.reload($1)
    },
    AdminRoute("POST", "/v1/drain", right: .act, sentence: "Lets requests under way end, and takes no more.") {
      $0.interventions.drain($1)
    },
    AdminRoute("GET", "/metrics", right: .metrics, sentence: "Metrics in the text format of Prometheus.") {
      $0.status.metrics($1)
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
