// What names one thing among many becomes an asterisk; what is a word stays.

import Testing

@testable import Policy

@Suite struct PathShapeTests {
  @Test(arguments: [
    ("/", "/"), ("", ""), ("/simple/requests/", "/simple/requests/"), ("/users/17", "/users/{}"),
    ("/users/17/avatar.png", "/users/{}/avatar.png"), ("/2.31.0/x", "/{}/x"), ("/v1/items", "/v1/items"),
    ("/by-hash/SHA256/0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0", "/by-hash/SHA256/{}"),
    ("/commit/3f2a9bc", "/commit/{}"), ("/commit/facade", "/commit/facade"), ("/deadbeef", "/deadbeef"),
    ("/o/01234567-89ab-cdef-0123-456789abcdef/x", "/o/{}/x"), ("/17.json", "/{}.json"),
    ("/blob/0f1e2d3c4b5a.tar", "/blob/{}.tar"), ("/i/eyJhbGciOiJIUzI1NiJ9x7Q2", "/i/{}"),
    ("/releases/2026-11-24-release-notes-for-all", "/releases/2026-11-24-release-notes-for-all"),
    ("/a-very-long-name-of-a-package-without-numbers", "/a-very-long-name-of-a-package-without-numbers"),
    ("/a*b", "/a%2Ab"), ("/{}/17", "/%7B}/{}"), ("/17.*", "/{}.%2A"), ("/17.{}", "/{}.%7B}"), ("//x//7//", "//x//{}//"),
    ("/.", "/."), ("/..", "/.."), ("/1.", "/1."),
  ])
  func shapes(_ path: String, _ shape: String) { #expect(PathShape.of(path) == shape) }
}
