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
      ("/u/{}", ["/u/1", "/u/x.y"], ["/u/", "/u", "/u/1/", "/u/1/admin", "/u//"]),
      ("/u/{}/a", ["/u/1/a"], ["/u//a", "/u/1/2/a", "/u/1/a/a", "/u/1/ab"]),
      ("/{}.json", ["/a.json", "/a.b.json", "/.json.json"], ["/.json", "/a/b.json", "/a.jsonx"]),
      ("/{}a/{}b*", ["/xa/xb", "/aaa/bbb", "/xa/yb/c"], ["/a/xb", "/xa/b", "/xa/y/zb"]),
      ("/{}{}", ["/ab", "/abc"], ["/a", "/a/b"]), ("/%7B}", ["/{}"], ["/a"]), ("/{a}", ["/{a}"], ["/a"]),
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

  @Test(
    arguments: [
      ("/*", "/{}", true), ("/{}", "/*", false), ("/{}", "/a", true), ("/a", "/{}", false), ("/{}", "/{}", true),
      ("/{}", "/{}.json", true), ("/{}.json", "/{}", false), ("/{}/{}", "/{}", false), ("/*", "/{}/{}", true),
      ("/{}/{}", "/a/{}", true), ("/{}", "/{}/{}", false), ("/{}", "/", false), ("/*", "/", true),
      ("/a*", "/a{}/b*", true), ("/a{}/*", "/ab/c*", true), ("/a{}/*", "/a*", false), ("/%41", "/A", true),
    ] as [(String, String, Bool)]) func onePatternCoversAnother(wide: String, narrow: String, expected: Bool)
  {
    #expect(PathPattern(wide).covers(PathPattern(narrow)) == expected, "\(wide) \(narrow)")
  }

  @Test(arguments: [
    ("/a//b", true), ("/./a", true), ("/a/..", true), ("/a/%2e/b", true), ("//", true), ("/a/*/../b", true),
    ("/", false), ("/a/", false), ("/.git", false), ("/a/.*", false), ("*", false), ("*/a/", false), ("/..a/*", false),
  ]) func aPatternThatNoReadingMatchesIsKnown(text: String, expected: Bool) {
    #expect(PathPattern(text).matchesNoReading == expected)
  }
}
