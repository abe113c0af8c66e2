// Who may do what at the admin API.

import Testing

@testable import Server

@Suite struct AdminRightsTests {
  private static let daemon: UInt32 = 990

  @Test(
    arguments: [
      ("root", 0, .act), ("the daemon's own user", 990, .act), ("an operator", 1001, .act),
      ("a member of the socket's group", 1002, .read), ("a user that the kernel does not name", nil, .read),
    ] as [(String, UInt32?, AdminRights)])
  func usersHaveRights(_ who: String, _ userID: UInt32?, _ rights: AdminRights) {
    #expect(AdminRights.of(userID: userID, daemon: Self.daemon, operators: [1001]) == rights, "\(who)")
  }

  @Test(
    arguments: [
      ("GET", "/metrics", .metrics), ("GET", "/v1/status", .read), ("GET", "/v1/connections", .read),
      ("GET", "/metrics/", .read), ("POST", "/metrics", .act), ("POST", "/v1/reload", .act),
      ("POST", "/v1/drain", .act), ("DELETE", "/anything", .act), ("get", "/metrics", .act),
    ] as [(String, String, AdminRights)])
  func requestsTakeRights(_ method: String, _ path: String, _ needed: AdminRights) {
    #expect(AdminRights.needed(method: method, path: path) == needed)
    let request = AdminRequest(method: method, path: path, query: "")
    for rights in [AdminRights.metrics, .read, .act] {
      let refusal = rights.refusal(request, userID: 1002)
      #expect((refusal == nil) == (rights >= needed))
      // A stranger learns of nothing that is there; a reader learns what is missing.
      if let refusal { #expect(refusal.status == (rights == .metrics ? 404 : 403)) }
    }
  }

  @Test func aRefusalSaysWhatWasExpectedAndWhoWasSeen() {
    let request = AdminRequest(method: "POST", path: "/v1/drain", query: "")
    #expect(
      AdminRights.read.refusal(request, userID: 1002)?.detail
        == "expected root, the daemon's user or one of 'operators' in [admin]; you are user 1002, and may read only")
  }
}
