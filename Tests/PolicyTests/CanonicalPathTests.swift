// Paths of requests as origins read them, and patterns that are written as paths are.

import Testing

@testable import Policy

@Suite struct CanonicalPathTests {
  private func canonical(_ path: String) -> [UInt8] {
    var canonical = CanonicalPath()
    canonical.set(Array(path.utf8).span)
    return canonical.bytes
  }

  @Test(arguments: [
    ("", "/"), ("/", "/"), ("/a", "/a"), ("/a/", "/a/"), ("/%61dmin", "/admin"), ("/x/../admin", "/admin"),
    ("//admin", "/admin"), ("/admin//", "/admin/"), ("/./admin", "/admin"), ("/a%2Fb", "/a/b"), ("/%zz%4", "/%zz%4"),
    // RFC 3986, 5.2.4: what ends with a dot segment is a directory.
    ("/admin/.", "/admin/"), ("/admin/x/..", "/admin/"), ("/admin/%2e", "/admin/"), ("/admin/x/%2E%2e", "/admin/"),
    ("/admin/..", "/"), ("/..", "/"), ("/.", "/"), ("/a/../..", "/"), ("/admin/./", "/admin/"),
    ("/admin/...", "/admin/..."),
    ("/.git", "/.git"), ("/a/..b", "/a/..b"),
  ]) func aPathIsReadAsAnOriginReadsIt(path: String, expected: String) {
    let seen = canonical(path)
    #expect(String(decoding: seen, as: UTF8.self) == expected)
  }

  @Test(arguments: [
    ("/a%20b", ["/a%20b"], ["/a b c", "/a%2520b"]), ("/q%3fx", ["/q%3Fx"], ["/qx"]), ("/u%C3%BC", ["/u%c3%bc"], ["/u"]),
    ("/%74est", ["/test", "/t%65st"], ["/Test"]), ("/h%2fi", ["/h/i", "/h%2Fi"], ["/hi"]),
    ("/c%25x", ["/c%25x"], ["/c%x1"]),
    ("/%2A", ["/*", "/%2a"], ["/a", "/"]), ("/%2a*", ["/*", "/*x"], ["/x"]), ("/zz%zz", ["/zz%zz"], ["/zz"]),
    ("/admin/*", ["/admin/.", "/admin/x/..", "/admin/%2e", "/admin/x/%2e%2e", "/admin//"], ["/admin", "/admin/.."]),
    ("/secret", ["/secret", "/x/../secret"], ["/secret/.", "/secret/x/.."]),
  ]) func aPatternIsWrittenAsAPathIs(text: String, yes: [String], no: [String]) {
    let pattern = PathPattern(text)
    #expect(pattern.description == text)
    for (paths, expected) in [(yes, true), (no, false)] {
      for path in paths {
        let isMatch = pattern.matches(canonical(path).span)
        #expect(isMatch == expected, "\(pattern) \(path)")
      }
    }
  }

  @Test(arguments: [
    ("/a//b", true), ("/./a", true), ("/a/..", true), ("/a/%2e/b", true), ("//", true), ("/a/*/../b", true),
    ("/", false),
    ("/a/", false), ("/.git", false), ("/a/.*", false), ("*", false), ("*/a/", false), ("/..a/*", false),
  ]) func aPatternThatNoPathMatchesIsKnown(text: String, expected: Bool) {
    let neverMatches = PathPattern(text).neverMatches
    #expect(neverMatches == expected)
  }
}
