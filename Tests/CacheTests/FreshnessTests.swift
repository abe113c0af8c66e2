// How old an answer is and for how long it is fresh (RFC 9111, 4.2): Age, Date, Expires, Last-Modified, the rule's own word.

import Policy
import Testing

@testable import Cache

@Suite struct FreshnessTests {
  // MARK: Age

  struct AgeRow: Sendable {
    let section: String
    let lines: [String]
    var delay: Int64 = 0
    let age: Int64
  }

  static let ages: [AgeRow] = [
    AgeRow(section: "4.2.3, nothing is known", lines: [], age: 0),
    AgeRow(section: "5.1", lines: ["Age: 0"], age: 0), AgeRow(section: "5.1", lines: ["age: 7200"], age: 7200),
    AgeRow(section: "5.1", lines: ["Age: 007200"], age: 7200),
    AgeRow(section: "1.2.2", lines: ["Age: 2147483647"], age: 2_147_483_647),
    AgeRow(section: "1.2.2", lines: ["Age: 2147483649"], age: 2_147_483_648),
    AgeRow(section: "1.2.2", lines: ["Age: 99999999999999999999999"], age: 2_147_483_648),
    // The first of a list counts.
    AgeRow(section: "5.1", lines: ["Age: 7200, 0"], age: 7200), AgeRow(section: "5.1", lines: ["Age: 0, 7200"], age: 0),
    AgeRow(section: "5.1", lines: ["Age: 7200", "Age: 0"], age: 7200),
    AgeRow(section: "5.1", lines: ["Age: 0", "Age: 7200"], age: 0),
    AgeRow(section: "5.1", lines: ["Age: 7200, x"], age: 7200), AgeRow(section: "5.1", lines: ["Age: x, 7200"], age: 0),
    AgeRow(section: "RFC 9110, 5.6.1", lines: ["Age: , 7200"], age: 7200),
    AgeRow(
      section: "RFC 9110, 5.6.1", lines: ["Age:", "Age: 7200"], age: 7200),
    // What is no number is passed over.
    AgeRow(section: "5.1", lines: ["Age:"], age: 0), AgeRow(section: "5.1", lines: ["Age: abc"], age: 0),
    AgeRow(section: "5.1", lines: ["Age: -7200"], age: 0), AgeRow(section: "5.1", lines: ["Age: +7200"], age: 0),
    AgeRow(section: "5.1", lines: ["Age: 7200.0"], age: 0), AgeRow(section: "5.1", lines: ["Age: 7200;a=b"], age: 0),
    AgeRow(section: "5.1", lines: ["Age: \"7200\""], age: 0), AgeRow(section: "5.1", lines: ["Age: 7200 0"], age: 0),
    // apparent_age
    AgeRow(section: "4.2.3", lines: ["Date: \(date(-100))"], age: 100),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(0))"], age: 0),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(100))"], age: 0),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(-100))", "Age: 50"], age: 100),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(-100))", "Age: 150"], age: 150),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(100))", "Age: 150"], age: 150),
    AgeRow(section: "4.2.3", lines: ["Date: Sunday, 01-Mar-26 11:00:00 GMT"], age: 3600),
    AgeRow(section: "4.2.3", lines: ["Date: Sun Mar  1 11:00:00 2026"], age: 3600),
    AgeRow(section: "RFC 9110, 6.6.1", lines: ["Date: 0"], age: 0),
    AgeRow(section: "RFC 9110, 6.6.1", lines: ["Date: \(date(-100))", "Date: \(date(-100))"], age: 0),
    // response_delay counts on top of Age, and not on top of what Date tells.
    AgeRow(section: "4.2.3", lines: [], delay: 5000, age: 5),
    AgeRow(section: "4.2.3", lines: ["Age: 10"], delay: 5000, age: 15),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(-5))"], delay: 5000, age: 5),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(-5))", "Age: 1"], delay: 5000, age: 6),
    AgeRow(section: "4.2.3", lines: ["Date: \(date(-100))", "Age: 10"], delay: 5000, age: 100),
    AgeRow(section: "4.2.3, the clock was put back", lines: ["Age: 10"], delay: -5000, age: 10),
    AgeRow(section: "1.2.2", lines: ["Age: 99999999999999"], delay: 5000, age: 2_147_483_653),
  ]

  @Test(arguments: ages) func howOldItIsWhenItComes(_ row: AgeRow) {
    let head = answer(200, row.lines, delay: row.delay)
    #expect(head.initialAge == row.age, "RFC 9111, \(row.section): \(row.lines), \(row.delay) ms")
    #expect(head.age(at: later(0)) == row.age)
    #expect(head.age(at: later(30)) == row.age + 30, "4.2.3: resident_time")

  }

  @Test func whereTheClockStandsBeforeTheArrivalNothingIsKnown() {
    let head = answer(200, ["Cache-Control: max-age=60"])
    #expect(head.age(at: later(-1)) == nil)
    #expect(head.timeToLive(at: later(-1)) < 0)
    #expect(head.age(at: later(0)) == 0)
  }

  // MARK: Lifetime

  struct Row: Sendable {
    let section: String
    var status = 200
    let lines: [String]
    let lifetime: Int64
    let source: StoredHead.LifetimeSource
  }

  private static let now = "Date: \(date(0))"

  static let lifetimes: [Row] = [
    // 4.2.1: s-maxage before max-age before Expires before a guess.
    Row(section: "4.2.1", lines: [now, "Cache-Control: max-age=60"], lifetime: 60, source: .maxAge),
    Row(section: "4.2.1", lines: [now, "Cache-Control: max-age=60, s-maxage=5"], lifetime: 5, source: .sharedMaxAge),
    Row(section: "4.2.1", lines: [now, "Cache-Control: s-maxage=60, max-age=5"], lifetime: 60, source: .sharedMaxAge),
    Row(section: "4.2.1", lines: [now, "Cache-Control: s-maxage=0, max-age=60"], lifetime: 0, source: .sharedMaxAge),
    Row(section: "4.2.1", lines: [now, "Cache-Control: s-maxage=x, max-age=60"], lifetime: 0, source: .sharedMaxAge),
    Row(
      section: "5.3", lines: [now, "Cache-Control: max-age=60", "Expires: \(date(5))"], lifetime: 60, source: .maxAge),
    Row(section: "5.3", lines: [now, "Cache-Control: max-age=60", "Expires: 0"], lifetime: 60, source: .maxAge),
    Row(
      section: "5.3", lines: [now, "Cache-Control: max-age=0", "Expires: \(date(60))"], lifetime: 0, source: .maxAge),
    Row(
      section: "5.3", lines: [now, "Cache-Control: max-age=x", "Expires: \(date(60))"], lifetime: 0, source: .maxAge),
    Row(
      section: "5.3", lines: [now, "Cache-Control: s-maxage=5", "Expires: \(date(60))"], lifetime: 5,
      source: .sharedMaxAge),
    Row(section: "5.3", lines: [now, "Cache-Control: public", "Expires: \(date(60))"], lifetime: 60, source: .expires),
    Row(
      section: "4.2.2", lines: [now, "Cache-Control: max-age=5", "Last-Modified: \(date(-864_000))"], lifetime: 5,
      source: .maxAge),
    Row(
      section: "4.2.2", lines: [now, "Expires: \(date(-5))", "Last-Modified: \(date(-864_000))"], lifetime: 0,
      source: .expires),
    // 5.3: against Date, or the arrival where there is none.
    Row(section: "5.3", lines: [now, "Expires: \(date(60))"], lifetime: 60, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: \(date(0))"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: \(date(-60))"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: ["Expires: \(date(60))"], lifetime: 60, source: .expires),
    Row(section: "5.3", lines: ["Date: x", "Expires: \(date(60))"], lifetime: 60, source: .expires),
    Row(section: "5.3", lines: ["Date: \(date(-40))", "Expires: \(date(60))"], lifetime: 100, source: .expires),
    Row(section: "5.3", lines: ["Date: \(date(40))", "Expires: \(date(60))"], lifetime: 20, source: .expires),
    // 4.2 and 5.3: the three formats, in any case.
    Row(section: "5.3", lines: [now, "Expires: Sunday, 01-Mar-26 13:00:00 GMT"], lifetime: 3600, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: Sun Mar  1 13:00:00 2026"], lifetime: 3600, source: .expires),
    Row(section: "4.2", lines: [now, "Expires: sun, 01 mar 2026 13:00:00 gmt"], lifetime: 3600, source: .expires),
    Row(section: "4.2", lines: [now, "Expires: SUN, 01 MAR 2026 13:00:00 GMT"], lifetime: 3600, source: .expires),
    Row(
      section: "5.3", lines: [now, "Expires: Fri, 31 Dec 9999 23:59:59 GMT"], lifetime: 251_629_934_399,
      source: .expires),
    Row(section: "5.3", lines: [now, "Expires: Sunday, 01-Mar-77 13:00:00 GMT"], lifetime: 0, source: .expires),
    // 5.3: what is no date is past, and so is what comes twice.
    Row(section: "5.3", lines: [now, "Expires: 0"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: -1"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: [now, "Expires:"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: 3600"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: tomorrow"], lifetime: 0, source: .expires),
    Row(section: "4.2", lines: [now, "Expires: Sun, 01 Mar 2026 13:00:00 UTC"], lifetime: 0, source: .expires),
    Row(section: "4.2", lines: [now, "Expires: Sun, 01 Mar 2026 13:00:00 +0000"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: Sun, 01-Mar-2026 13:00:00 GMT"], lifetime: 0, source: .expires),
    Row(section: "5.3", lines: [now, "Expires: \(date(60)); a=b"], lifetime: 0, source: .expires),
    Row(section: "4.2.1", lines: [now, "Expires: \(date(60))", "Expires: \(date(60))"], lifetime: 0, source: .expires),
    Row(section: "4.2.1", lines: [now, "Expires: \(date(60))", "Expires: 0"], lifetime: 0, source: .expires),
    Row(section: "4.2.1", lines: [now, "Expires: \(date(60)), \(date(60))"], lifetime: 0, source: .expires),
    // 4.2.2: a tenth of the time since the last change, a day at most.
    Row(section: "4.2.2", lines: [now, "Last-Modified: \(date(-100))"], lifetime: 10, source: .heuristic),
    Row(section: "4.2.2", lines: [now, "Last-Modified: \(date(-86_400))"], lifetime: 8640, source: .heuristic),
    Row(section: "4.2.2", lines: [now, "Last-Modified: \(date(-864_000))"], lifetime: 86_400, source: .heuristic),
    Row(
      section: "4.2.2", lines: [now, "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT"], lifetime: 86_400,
      source: .heuristic),
    Row(
      section: "4.2.2", lines: [now, "Last-Modified: \(date(-100))", "Cache-Control: x"], lifetime: 10,
      source: .heuristic),
    Row(section: "4.2.2", lines: [now, "Last-Modified: \(date(0))"], lifetime: 0, source: .none),
    Row(section: "4.2.2", lines: [now, "Last-Modified: \(date(100))"], lifetime: 0, source: .none),
    Row(section: "4.2.2", lines: [now, "Last-Modified: yesterday"], lifetime: 0, source: .none),
    Row(
      section: "4.2.2", lines: [now, "Last-Modified: \(date(-100))", "Last-Modified: \(date(-100))"], lifetime: 0,
      source: .none),
    Row(section: "4.2.2", lines: [now, "ETag: \"1\""], lifetime: 0, source: .none),
    Row(section: "4.2.2", lines: [now], lifetime: 0, source: .none),
    Row(
      section: "4.2.2", status: 299, lines: [now, "Cache-Control: public", "Last-Modified: \(date(-100))"],
      lifetime: 10,
      source: .heuristic),
    Row(section: "4.2.2", status: 302, lines: [now, "Last-Modified: \(date(-100))"], lifetime: 0, source: .none),
    Row(section: "5.2.2.1", status: 302, lines: [now, "Cache-Control: max-age=60"], lifetime: 60, source: .maxAge),
  ]

  @Test(arguments: lifetimes) func forHowLongItIsFresh(_ row: Row) {
    let head = answer(row.status, row.lines)
    #expect(head.lifetime == row.lifetime, "RFC 9111, \(row.section): \(row.lines)")
    #expect(head.lifetimeSource == row.source, "RFC 9111, \(row.section): \(row.lines)")

  }

  /// RFC 9110, 15.1, without 206, which is not stored.
  @Test func whichStatusesAreGuessedAt() {
    let known: Set<Int> = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]
    for status in 200...599 where status != 206 && status != 304 {
      let head = answer(status, [Self.now, "Last-Modified: \(date(-1000))"])
      #expect(head.lifetime == (known.contains(status) ? 100 : 0), "RFC 9111, 4.2.2: \(status)")
    }
  }

  @Test func theRulesWordGoesBeforeTheOrigins() {
    let asked = request(rule: rule { $0.freshFor = 7 })
    for lines in [["Cache-Control: max-age=60"], ["Cache-Control: s-maxage=60"], ["Expires: 0"], []] {
      let head = answer(200, lines, to: asked)
      #expect(head.lifetime == 7)
      #expect(head.lifetimeSource == .rule)
    }
  }

  /// RFC 9111, 5.2.2.10: s-maxage speaks to shared caches. What a rule stores for each user alone is none.
  @Test func sharedMaxAgeIsNotForAStoreOfOneUser() {
    let own = request(rule: ownRule)
    #expect(answer(200, ["Cache-Control: s-maxage=3600, max-age=10"], to: own).lifetime == 10, "RFC 9111, 5.2.2.10")

    #expect(answer(200, ["Cache-Control: s-maxage=3600"], to: own).lifetime == 0, "RFC 9111, 5.2.2.10")

    let head = answer(302, ["Cache-Control: s-maxage=3600"], to: own)
    #expect(head.refusal(toStoreFor: own) != nil, "RFC 9111, 3: s-maxage, if the cache is shared")

  }

  // MARK: What is left

  @Test(
    arguments: [
      // (lines, seconds after the arrival, time to live)
      (["Cache-Control: max-age=60"], 0, 60), (["Cache-Control: max-age=60"], 59, 1),
      (["Cache-Control: max-age=60"], 60, 0),
      (["Cache-Control: max-age=60"], 61, -1), (["Cache-Control: max-age=60", "Age: 60"], 0, 0),
      (["Cache-Control: max-age=60", "Age: 70"], 0, -10), (["Cache-Control: max-age=60", "Date: \(date(-50))"], 0, 10),
      (["Expires: \(date(60))", "Date: \(date(-50))"], 0, 60), (["Expires: \(date(60))", "Age: 20"], 0, 40),
      (["Expires: \(date(60))", "Date: \(date(50))"], 0, 10),
      (["Cache-Control: max-age=99999999999"], 0, 2_147_483_648),
      (["Cache-Control: max-age=3600", "Age: 99999999999"], 0, 3600 - 2_147_483_648),
    ] as [([String], Int64, Int64)])
  func timeToLive(lines: [String], after: Int64, left: Int64) {
    #expect(answer(200, lines).timeToLive(at: later(after)) == left, "RFC 9111, 4.2: \(lines)")
  }

  // MARK: What is kept of the head

  @Test func ageAndLengthAreNotKeptAndADateIs() {
    let head = answer(200, ["Age: 5", "Content-Length: 9", "Date: \(date(-3))", "X: 1"])
    #expect(text(head.fields.text) == "Date: \(date(-3))\r\nX: 1\r\n", "RFC 9111, 4 and 5.1")
    let dateless = answer(200, ["X: 1"])
    #expect(text(dateless.fields.text) == "X: 1\r\nDate: \(date(0))\r\n", "RFC 9110, 6.6.1")
    let confused = answer(200, ["Date: now", "date: then", "X: 1"])
    #expect(text(confused.fields.text) == "X: 1\r\nDate: \(date(0))\r\n", "RFC 9110, 6.6.1")
  }
}
