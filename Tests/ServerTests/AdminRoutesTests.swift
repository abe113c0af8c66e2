// The table of the admin API's resources.

import Testing

@testable import Server

@Suite struct AdminRoutesTests {
  @Test func noResourceStandsThereTwice() {
    let places = AdminRoute.all.map { "\($0.method) \($0.path)" }
    #expect(Set(places).count == places.count)
    for path in AdminRoute.all.map(\.path) {
      #expect(AdminRoute.routes(path).allSatisfy { $0.path == path }, "\(path)")
    }
  }

  @Test(
    arguments: [
      ("/v1/decisions/AT1YKF", ["/v1/decisions/{ref}"], "AT1YKF"), ("/v1/decisions/", [], ""),
      ("/v1/decisions", ["/v1/decisions"], ""), ("/v1/decisionsx", [], ""),
      ("/v1/dashboard", ["/v1/dashboard", "/v1/dashboard"], ""),
      ("/v1/decisions/a/b", ["/v1/decisions/{ref}"], "a/b"),
    ])
  func aPathHasItsResources(path: String, expected: [String], argument: String) {
    let routes = AdminRoute.routes(path)
    #expect(routes.map(\.path) == expected)
    for route in routes { #expect(route.argument(in: path) == argument) }
  }

  @Test func theMethodsOfAPathAreThoseOfItsRows() {
    #expect(AdminRoute.methods(AdminRoute.routes("/v1/dashboard")) == "GET, HEAD, POST, OPTIONS")
    #expect(AdminRoute.methods(AdminRoute.routes("/v1/drain")) == "POST, OPTIONS")
    #expect(AdminRights.needed(method: "OPTIONS", path: "/metrics") == .metrics)
    #expect(AdminRights.needed(method: "OPTIONS", path: "/v1/drain") == .act)
    #expect(AdminRights.needed(method: "OPTIONS", path: "/nowhere") == .act)
  }
}
