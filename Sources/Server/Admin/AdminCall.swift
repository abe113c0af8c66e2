// A request to one resource of the admin API, and the types that answer such requests. Tests: test_admin_*.py.

import Bytes
import Policy
import Session

struct AdminCall {
  let request: AdminRequest
  /// See `AdminRoute.argument`.
  let argument: String
  /// The user who asks; nil: the kernel does not say.
  let userID: UInt32?
  let mayAct: Bool
  let connection: AdminConnection

  var wantsText: Bool { connection.wantsText }

  func write(_ page: AdminPage) { connection.write(page) }
  func refuse(_ status: Int, _ detail: String) { connection.refuse(status, detail) }

  func write(routes: [AdminRoute]) {
    if !wantsText { return write(.json(AdminRoute.json(routes))) }
    write(.text(routes.map { "\($0.method) \($0.path)  \($0.sentence)\n" }.joined()))
  }

  // MARK: The query

  /// The value of `name`, or none; nil: there are several, or it cannot be read, and the client knows.
  func single(_ name: String) -> [String]? {
    switch AdminQuery.values(of: name, in: request.query) {
    case .failure(let fault):
      refuse(400, fault.sentence)
      return nil
    case .success(let values) where values.count > 1:
      refuse(400, "expected one '\(name)' in the query")
      return nil
    case .success(let values): return values
    }
  }

  /// `ref`, `rule` and `user`; nil: one was wrong, and the client knows.
  func filter() -> EventFilter? {
    var filter = EventFilter()
    for (name, part) in [("rule", \EventFilter.rule), ("user", \EventFilter.user), ("ref", \EventFilter.reference)] {
      guard let value = single(name) else { return nil }
      filter[keyPath: part] = value.first
    }
    guard let text = filter.reference else { return filter }
    guard let reference = Reference(text) else {
      refuse(400, "expected a reference of six characters as 'ref', found '\(Self.cut(text))'")
      return nil
    }
    filter.reference = reference.text
    return filter
  }

  /// How much of a wrong word fits in a message.
  static func cut(_ word: String) -> String { word.utf8.count > 80 ? "\(word.prefix(80))..." : word }
}

/// The types that answer, each with what it needs of the daemon.
struct AdminResourceSet {
  let status: StatusResources
  let decisions: DecisionResources
  let events: EventResources
  let reachability: ReachabilityResource
  let interventions: InterventionResources
  let reload: ReloadResource
  let cache: CacheResources
  let asking: AskingResources
  let dashboard: DashboardResources

  init(
    _ shared: SharedState, host: any AdminHost, connections: AdminConnections, inquiries: AdminInquiries,
    dashboard: DashboardState?
  ) {
    status = StatusResources(host: host, shared: shared, inquiries: inquiries)
    decisions = DecisionResources(desk: shared.desk, inquiries: inquiries)
    events = EventResources(host: host, connections: connections)
    reachability = ReachabilityResource(inquiries: inquiries)
    interventions = InterventionResources(host: host, resolver: shared.resolver, inquiries: inquiries)
    reload = ReloadResource(host: host, inquiries: inquiries)
    cache = CacheResources(shared: shared)
    asking = AskingResources(host: host, desk: shared.desk, inquiries: inquiries)
    self.dashboard = DashboardResources(host: host, dashboard: dashboard)
  }
}
