// Patterns of paths by themselves: wildcards, octets that are written percent-encoded, and what can never match.

import Testing

@testable import Policy

@Suite struct PathPatternTests {
  @Test(
    arguments: [
      ("/a%20b", ["/a b"], ["/a b c"]), ("/q%3fx", ["/q?x"], ["/qx"]), ("/%74est", ["/test"], ["/Test"]),
      ("/c%25x", ["/c%x"], ["/c%x1", "/cx"]), ("/%2A", ["/*"], ["/a", "/"]), ("/%2a*", ["/*", "/*x"], ["/x"]),
      ("/zz%zz", ["/zz%zz"], ["/zz"]), ("*", ["/", "", "/a/b"], []), ("/*", ["/", "/a/b"], [""]),
      ("/a*c", ["/ac", "/abc", "/a/c/c"], ["/a", "/acb"]), ("*/x", ["/x", "/a/x"], ["/x/"]),
      ("/a**", ["/a", "/ab"], ["/"]),
    ] as [(String, [String], [String])]) func aPatternIsWrittenAsAPathIs(text: String, yes: [String], no: [String])
  {
    let pattern = PathPattern(text)
    #expect(pattern.description == text)
    for (paths, expected) in [(yes, true), (no, false)] {
      for path in paths {
        let isMatch = pattern.matches(Array(path.utf8).span)
        #expect(isMatch == expected, "\(pattern) \(path)")
      }
    }
  }

  @Test(arguments: [
    ("/a//b", true), ("/./a", true), ("/a/..", true), ("/a/%2e/b", true), ("//", true), ("/a/*/../b", true),
    ("/", false), ("/a/", false), ("/.git", false), ("/a/.*", false), ("*", false), ("*/a/", false), ("/..a/*", false),
  ]) func aPatternThatNoReadingMatchesIsKnown(text: String, expected: Bool) {
    #expect(PathPattern(text).matchesNoReading == expected)
  }
}
