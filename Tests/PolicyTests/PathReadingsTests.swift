// The readings of paths, each told from the others by what was done, and rules held against all of them.

import Testing

@testable import Policy

@Suite struct PathReadingsTests {
  private func texts(_ path: String) -> Set<String> {
    var readings = PathReadings()
    readings.set(Array(path.utf8).span)
    if readings.readings.isEmpty, !readings.isUnreadable { return [path] }
    return Set(readings.readings.map { readings.octets.span.extracting($0.octets).string })
  }

  @Test(
    arguments: [
      // Ordinary paths have one reading. So have those whose escapes mean the octet to every server.
      ("", ["/"]), ("/", ["/"]), ("/a", ["/a"]), ("/a/", ["/a/"]), ("/a.b/c.tar.gz", ["/a.b/c.tar.gz"]),
      ("/.git/x", ["/.git/x"]), ("/a/..b", ["/a/..b"]), ("/a~b!$&'()*+,=:@[]^`{|}", ["/a~b!$&'()*+,=:@[]^`{|}"]),
      ("/%61dmin", ["/admin"]), ("/a%20b", ["/a b"]), ("/u%C3%BC", ["/uü"]), ("/q%3fx", ["/q?x", "/q"]),
      ("/q%23x", ["/q#x", "/q"]),
      ("/%zz%4", ["/%zz%4"]), ("/100%", ["/100%"]),
      // Dot segments and slashes, in either order.
      ("/a/../b", ["/a/../b", "/b"]), ("/./a", ["/./a", "/a"]), ("/admin/.", ["/admin/.", "/admin/"]),
      ("/admin/x/..", ["/admin/x/..", "/admin/"]), ("/..", ["/..", "/"]), ("/a/../..", ["/a/../..", "/"]),
      ("//a", ["//a", "/a"]), ("/a//b///", ["/a//b///", "/a/b/"]),
      ("/p//../a", ["/p//../a", "/p/a", "/p/../a", "/a"]), ("/p/..//a", ["/p/..//a", "/p/../a", "//a", "/a"]),
      // Escapes of what is structure.
      ("/a%2Fb", ["/a%2Fb", "/a/b"]), ("/a%2fb", ["/a%2Fb", "/a/b"]), ("/a%2eb", ["/a%2Eb", "/a.b"]),
      ("/p/%2e%2E/a", ["/p/%2E%2E/a", "/p/../a", "/a"]),
      ("/p/..%2fa", ["/p/..%2Fa", "/p/../a", "/a"]),
      ("/a%5cb", ["/a%5Cb", "/a\\b", "/a/b"]), ("/a%3bb", ["/a%3Bb", "/a;b", "/a"]),
      ("/%2561", ["/%2561", "/%61"]), ("/a%252fb", ["/a%252fb", "/a%2fb", "/a/b"]), ("/100%25", ["/100%25", "/100%"]),
      ("/%%32%66", ["/%2f", "//", "/"]),
      ("/%u0061b", ["/%u0061b", "/ab"]), ("/%U00e9", ["/%U00e9", "/é"]), ("/%ud800", ["/%ud800"]),
      // Parameters, of each segment, before and after decoding.
      ("/a;x/b;y=1", ["/a;x/b;y=1", "/a/b"]), ("/p/..;/a", ["/p/..;/a", "/p/../a", "/a"]),
      ("/p/..;%2fa", ["/p/..;%2Fa", "/p/..;/a", "/p/..", "/p/../a", "/", "/a"]),
      // The ends of segments.
      ("/admin.", ["/admin.", "/admin"]), ("/admin../x%20", ["/admin../x ", "/admin/x"]),
      ("/a...", ["/a...", "/a"]), ("/admin%0a", ["/admin\n", "/admin"]), ("/%00", ["/\0", "/"]),
      // Who removes dot segments before anything is decoded, and hands the rest to one who decodes.
      (
        "/q/%2e%2e/a/%2e%2e/../x",
        [
          "/q/%2E%2E/a/%2E%2E/../x", "/q/%2E%2E/a/x", "/q/../a/../../x", "/q/../a/x", "/a/x", "/x",
        ]
      ),
    ] as [(String, [String])]) func aPathHasAllTheReadingsThatServersMakeOfIt(path: String, expected: [String])
  {
    let seen = texts(path)
    #expect(seen == Set(expected))
  }

  @Test(arguments: [
    ("/", true), ("/a", true), ("/a.b/c", true), ("/..a", true), ("/a..b/", true), ("/.a/", true),
    ("/a.", false), ("/./a", false), ("/a/..", false), ("//", false), ("/a;b", false), ("/a%20", false),
    ("/a\\b", false),
  ]) func anOrdinaryPathIsItsOnlyReading(path: String, expected: Bool) {
    let octets = Array(path.utf8)
    let isOrdinary = PathReadings.isOrdinary(octets.span)
    #expect(isOrdinary == expected)
    var readings = PathReadings()
    readings.set(octets.span)
    #expect(readings.readings.isEmpty == expected)
  }

  @Test func storageIsUsedAgainAndNothingOfAnEarlierPathIsLeft() {
    var readings = PathReadings()
    for path in ["/p/..%2fa", "/%2e/%2e/%2e", "/plain", "/a//b", ""] {
      readings.set(Array(path.utf8).span)
      var fresh = PathReadings()
      fresh.set(Array(path.utf8).span)
      #expect(readings.octets == fresh.octets && readings.readings.count == fresh.readings.count, "\(path)")
      #expect(readings.isUnreadable == fresh.isUnreadable)
    }
  }

  /// Every spelling that a test of servers knows has fewer; what has more was made to have them.
  @Test func aPathOfTooManyReadingsIsUnreadable() {
    var readings = PathReadings()
    readings.set(Array("/%2e%2e;a%2f..//b./%5c../%255c;%2f.%3b/%u002e//../x%20/.%2e/y".utf8).span)
    #expect(readings.isUnreadable && readings.readings.isEmpty)
    let conditions = [
      PathCondition([PathPattern("/z")], denies: true), PathCondition([PathPattern("*")], denies: false),
      PathCondition([], denies: false),
    ]
    let verdicts = conditions.map { $0.holds(Array("/x".utf8).span, readings) }
    #expect(verdicts == [true, false, true])
    readings.set(Array("/a/../b".utf8).span)
    #expect(!readings.isUnreadable)
  }

  @Test func theReadingsOfALongPathAreBounded() {
    var readings = PathReadings()
    let long = "/" + String(repeating: "a%2fb/", count: 4000)
    readings.set(Array(long.utf8).span)
    #expect(readings.isUnreadable && readings.octets.count <= 2 * PathReadings.mostOctets)
    let plain = "/" + String(repeating: "abcdef", count: 4000)
    readings.set(Array(plain.utf8).span)
    #expect(!readings.isUnreadable)
    readings.set(Array((plain + "%C3%BC").utf8).span)
    #expect(!readings.isUnreadable && readings.readings.count == 1)
  }

  // MARK: Rules

  private func holds(_ path: String, _ patterns: [String], denies: Bool) -> Bool {
    var readings = PathReadings()
    readings.set(Array(path.utf8).span)
    return PathCondition(patterns.map { PathPattern($0) }, denies: denies).holds(Array(path.utf8).span, readings)
  }

  /// Spellings that some server answers from its handler of /admin (measured), and what must not come of them.
  static let spellings = [
    "/admin", "/admin/", "/admin/x", "/Admin", "/ADMIN/x", "/adm%69n", "/%61dmin", "//admin", "/./admin",
    "/x/../admin", "/public/../admin", "/public/%2e%2e/admin", "/public/.%2E/admin", "/public%2f..%2fadmin",
    "/public/..%2fadmin", "/public/s/..%2f..%2fadmin", "/%2fadmin", "/%2f%61dmin", "/admin%2fx", "/admin;x",
    "/admin;x/y", "/;/admin", "/;x=1/admin/x", "/public/..;/admin", "/public/..;x=1/admin", "/public/%2e%2e;/admin",
    "/.;/admin", "/admin/%2e%2e/public/x", "/admin/../public/x", "/admin/s/..%2f..%2fpublic/x", "/admin/..;/public/x",
    "/admin//../public/x", "/public//../admin", "/public/x//../../admin", "/public/x/..//../admin", "/%5cadmin",
    "/public%5c..%5cadmin", "/public/..%5cadmin", "/%u0061dmin", "/public/%u002e%u002e/admin", "/public/..%u002fadmin",
    "/../admin", "/..%2fadmin", "/public/..//admin", "/public/..%2f%2fadmin", "/public/;/../admin",
    "/public/x;/../../admin", "/x%2f..%2fadmin", "/public/x%2f..%2f..%2fadmin", "/public%3b/../admin", "//x/../admin",
    "/public/.%2e;/admin", "/%zz/../admin", "/admin.", "/public/..%252fadmin", "/public/..%253b/admin",
  ]

  @Test(arguments: spellings) func whatSomeServerTakesForDeniedIsDeniedAndNotAllowed(path: String) {
    #expect(holds(path, ["/admin", "/admin/*"], denies: true))
    #expect(!holds(path, ["/public", "/public/*"], denies: false))
  }

  static let plain = [
    "/public", "/public/", "/public/x", "/public/x.tar.gz", "/public/a%20b", "/public/%C3%BC", "/public/a+b,c:d@e",
    "/public/%7Euser", "/%70ublic/x", "/public/100%25", "/public/v1.2/x", "/public/.well-known/x", "/public/a%2Fb",
    "/public/x;v=1", "/public//x", "/public/x/./y", "/public/x/../y", "/public/administrator", "/public/admin",
  ]

  @Test(arguments: plain) func aPlainPathIsNotRefused(path: String) {
    #expect(holds(path, ["/public", "/public/", "/public/*"], denies: false))
    #expect(!holds(path, ["/admin", "/admin/*"], denies: true))
  }

  @Test(arguments: [
    // A rule that denies: case and a slash at the end count for nothing.
    ("/admin/", "/admin", true, true), ("/admin", "/admin/", true, false), ("/admin", "/admin/*", true, false),
    ("/ADMIN", "/admin", true, true), ("/admin", "/ADMIN", true, true), ("/adminx", "/admin", true, false),
    ("/admin//", "/admin", true, true), ("/", "/", true, true), ("/x", "/", true, false),
    // One that allows compares to the letter.
    ("/public/", "/public", false, false), ("/public", "/public/", false, false), ("/Public", "/public", false, false),
    ("/public/", "/public/", false, true), ("/public", "/public/*", false, false),
    // An escape in a pattern is compared with paths that are read in the same way.
    ("/g%2Fn/x", "/g%2Fn/*", false, true), ("/g%2fn/x", "/g%2Fn/*", false, true), ("/g/n/x", "/g%2Fn/*", false, false),
    ("/g/n/x", "/g%2Fn/*", true, true), ("/g%2Fn/x", "/g/n/*", false, false), ("/g%2Fn/x", "/g/n/*", true, true),
    ("/a%20b", "/a%20b", false, true), ("/*", "/%2A", false, true), ("/test", "/%74est", false, true),
    ("/~u", "/%7Eu", false, true),
    // Where a pattern for each reading is there, an allow-list can name a path of several.
    ("/a//b", "/a//b", false, false), ("/a//b", "/a//b", true, true),
  ]) func rulesCompareEachInTheirWay(path: String, pattern: String, denies: Bool, expected: Bool) {
    #expect(holds(path, [pattern], denies: denies) == expected)
  }

  @Test func anAllowListMayNameEachReading() {
    #expect(holds("/a//b", ["/a//b", "/a/b"], denies: false))
  }
}
