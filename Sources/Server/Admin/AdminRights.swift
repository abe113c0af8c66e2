// What a client of the admin API may do, and how that is found out: the kernel names the process at the other end of a
// socket in the file system, but not a TCP client's. Pure, except for the question to the kernel.
// Tests: AdminRightsTests, test_admin_rights.py.

import Bytes
import Transport

/// Each right includes those before it.
enum AdminRights: Int, Comparable {
  /// Only GET /metrics: for everyone who reaches the address of `[admin] metrics`.
  case metrics
  /// Every question: for everyone who may connect to the socket, by its mode and group.
  case read
  /// Also what changes the daemon: for root, the user that it runs as, and `[admin] operators`.
  case act

  static func < (one: AdminRights, other: AdminRights) -> Bool { one.rawValue < other.rawValue }

  /// The rights of a process of the user `userID`. If the kernel does not name the user, it may only read: it could
  /// connect.
  static func of(userID: UInt32?, daemon: UInt32, operators: [UInt32]) -> AdminRights {
    guard let userID else { return .read }
    return userID == 0 || userID == daemon || operators.contains(userID) ? .act : .read
  }

  /// A session of the dashboard has the rights of the user who asked for it, as they are now: a reload may have removed
  /// some.
  static func of(_ session: WebSession, operators: [UInt32]) -> AdminRights {
    min(session.rights, .of(userID: session.askedBy, daemon: Process.userID, operators: operators))
  }

  /// The right that a request needs. Only methods that change nothing are for everyone.
  static func needed(method: String, path: String) -> AdminRights {
    let routes = AdminRoute.routes(path)
    if let route = routes.first(where: { $0.method == method }) { return route.right }
    if method == "OPTIONS", let least = routes.map(\.right).min() { return least }
    return method == "GET" ? .read : .act
  }

  /// Why a request is refused; nil if it is allowed.
  func refusal(_ request: AdminRequest, userID: UInt32?) -> (status: Int, detail: String)? {
    if self >= Self.needed(method: request.method, path: request.path) { return nil }
    // For a stranger, nothing exists except the metrics.
    if self == .metrics { return (404, "this address has GET /metrics only; the rest is at the admin socket") }
    let seen = userID.map { "you are user \($0)" } ?? "the kernel does not say who you are"
    return (
      403, "expected root, the daemon's user or one of 'operators' in [admin]; \(seen), and may read only"
    )
  }
}
