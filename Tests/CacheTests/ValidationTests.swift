// Asking the origin whether an answer still holds, and what its 304 changes (RFC 9111, 3.2 and 4.3).

import Policy
import Testing

@testable import Cache

@Suite struct ValidationTests {
  // MARK: The question

  @Test(
    arguments: [
      ([], ""), (["ETag: \"1\""], "If-None-Match: \"1\"\r\n"), (["ETag: W/\"1\""], "If-None-Match: W/\"1\"\r\n"),
      (["ETag: \"\""], "If-None-Match: \"\"\r\n"), (["ETag:"], ""),
      (["Last-Modified: \(date(-100))"], "If-Modified-Since: \(date(-100))\r\n"),
      (
        ["Last-Modified: \(date(-100))", "ETag: \"1\""],
        "If-None-Match: \"1\"\r\nIf-Modified-Since: \(date(-100))\r\n"
      ),
      // The text that came goes back, whatever format it has.
      (["Last-Modified: Sunday, 01-Mar-26 11:00:00 GMT"], "If-Modified-Since: Sunday, 01-Mar-26 11:00:00 GMT\r\n"),
      (["Last-Modified: yesterday"], ""), (["Last-Modified: \(date(-1))", "Last-Modified: \(date(-2))"], ""),
      (["ETag: \"1\"", "ETag: \"2\""], ""), (["Date: \(date(0))"], ""),
    ] as [([String], String)])
  func conditions(lines: [String], asked: String) {
    #expect(text(answer(200, lines).conditions) == asked, "RFC 9111, 4.3.1: \(lines)")
  }

  // MARK: Which answer a 304 is about

  struct Row: Sendable {
    let stored: [String]
    let update: [String]
    let isAbout: Bool
  }

  private static let old = "Last-Modified: \(date(-200))"
  private static let new = "Last-Modified: \(date(-100))"

  /// RFC 9111, 4.3.4: strong validators first, then weak ones, and none where neither has any.
  static let rows: [Row] = [
    Row(stored: ["ETag: \"1\""], update: ["ETag: \"1\""], isAbout: true),
    Row(stored: ["ETag: \"1\""], update: ["ETag: \"2\""], isAbout: false),
    Row(stored: ["ETag: \"1\"", old], update: ["ETag: \"2\"", old], isAbout: false),
    Row(stored: ["ETag: W/\"1\""], update: ["ETag: W/\"1\""], isAbout: true),
    Row(stored: ["ETag: W/\"1\""], update: ["ETag: W/\"2\""], isAbout: false),
    Row(stored: ["ETag: \"1\""], update: ["ETag: W/\"1\""], isAbout: true),
    Row(
      stored: ["ETag: W/\"1\""], update: ["ETag: \"1\""], isAbout: false),
    Row(stored: [old], update: ["ETag: \"1\"", old], isAbout: false),
    Row(stored: [old], update: [old], isAbout: true), Row(stored: [old], update: [new], isAbout: false),
    Row(stored: ["ETag: \"1\"", old], update: [old], isAbout: true),
    Row(stored: ["ETag: \"1\"", old], update: [new], isAbout: false),
    Row(stored: ["ETag: \"1\"", old], update: ["ETag: \"1\"", new], isAbout: true),
    Row(
      stored: ["ETag: \"1\""], update: [new], isAbout: false),
    Row(
      stored: [], update: [new], isAbout: false),
    Row(stored: [], update: [], isAbout: true), Row(stored: [], update: ["Cache-Control: max-age=5"], isAbout: true),
    Row(stored: [], update: ["ETag: \"1\""], isAbout: false),
    // A 304 that repeats nothing answers the question that was asked.
    Row(stored: ["ETag: \"1\""], update: [], isAbout: true), Row(stored: [old], update: [], isAbout: true),
    Row(
      stored: ["ETag: \"1\""], update: ["ETag: \"1\"", "ETag: \"2\""], isAbout: false),
  ]

  @Test(arguments: rows) func whatItIsAbout(_ row: Row) {
    let isAbout = answer(200, row.stored).isValidated(by: fields(row.update))
    #expect(isAbout == row.isAbout, "RFC 9111, 4.3.4: \(row.stored) by \(row.update)")
  }

  // MARK: What it changes

  private static func freshen(
    _ stored: [String], _ update: [String], asked: [String] = [], first: [String] = [], after: Int64 = 100,
    rule: CacheRule = CacheRule()
  ) -> StoredHead {
    answer(200, stored, to: request(first)).freshened(
      by: fields(update), answering: request(asked, rule: rule), requested: later(after), received: later(after))
  }

  struct Change: Sendable {
    let name: StaticString
    let stored: [String]
    let update: [String]
    /// nil: the field is gone.
    let value: String?
  }

  /// RFC 9111, 3.2.
  static let changes: [Change] = [
    Change(name: "x", stored: ["X: 1"], update: ["X: 2"], value: "2"),
    Change(name: "x", stored: ["X: 1", "x: 2"], update: ["X: 3"], value: "3"),
    Change(name: "x", stored: ["X: 1"], update: ["X: 2", "X: 3"], value: "2, 3"),
    Change(name: "x", stored: ["X: 1"], update: [], value: "1"),
    Change(name: "x", stored: [], update: ["X: 2"], value: "2"),
    Change(
      name: "cache-control", stored: ["Cache-Control: max-age=5"], update: ["Cache-Control: no-cache"],
      value: "no-cache"),
    Change(name: "content-type", stored: ["Content-Type: text/a"], update: ["Content-Type: text/b"], value: "text/b"),
    Change(name: "etag", stored: ["ETag: W/\"1\""], update: ["ETag: \"1\""], value: "\"1\""),
    Change(name: "expires", stored: ["Expires: 0"], update: ["Expires: \(date(900))"], value: date(900)),
    Change(name: "content-location", stored: [], update: ["Content-Location: /x"], value: "/x"),
    Change(
      name: "content-security-policy", stored: ["Content-Security-Policy: a"], update: ["Content-Security-Policy: b"],
      value: "b"),
    // What belongs to the content that is stored.
    Change(name: "content-length", stored: ["Content-Length: 9"], update: ["Content-Length: 0"], value: nil),
    Change(
      name: "content-encoding", stored: ["Content-Encoding: gzip"], update: ["Content-Encoding: br"], value: "gzip"),
    Change(name: "content-encoding", stored: [], update: ["Content-Encoding: br"], value: nil),
    Change(name: "content-range", stored: [], update: ["Content-Range: bytes 0-1/2"], value: nil),
    Change(name: "age", stored: ["Age: 5"], update: ["Age: 7"], value: nil),
    Change(name: "date", stored: ["Date: \(date(-9))"], update: ["Date: \(date(90))"], value: date(90)),
    Change(name: "date", stored: ["Date: \(date(-9))"], update: [], value: date(100)),
    Change(name: "date", stored: ["Date: \(date(-9))"], update: ["Date: x"], value: date(100)),
    Change(
      name: "vary", stored: ["Vary: X"], update: ["Vary: X, Y"], value: "X, Y"),
    Change(
      name: "vary", stored: [], update: ["Vary: Y"], value: "Y"),
  ]

  @Test(arguments: changes) func whatTakesThePlaceOfWhat(_ row: Change) {
    let value = Self.freshen(row.stored, row.update).fields.combined(row.name)
    #expect(value.map { text($0) } == row.value, "RFC 9111, 3.2: \(row)")
  }

  /// RFC 9111, 4.3.4 and 4.2: lifetime and age are those of the update.
  @Test(
    arguments: [
      // (stored, update, lifetime, age when it came)
      (["Cache-Control: max-age=60"], [], 60, 0), (["Cache-Control: max-age=60"], ["Cache-Control: max-age=5"], 5, 0),
      (["Cache-Control: max-age=60", "Age: 50"], [], 60, 0), (["Cache-Control: max-age=60"], ["Age: 7"], 60, 7),
      (["Cache-Control: max-age=60", "Date: \(date(0))"], ["Date: \(date(100))"], 60, 0),
      (["Cache-Control: max-age=60", "Date: \(date(0))"], ["Date: \(date(70))"], 60, 30),
      (["Cache-Control: max-age=60", "Date: \(date(-900))"], [], 60, 0),
      (["Expires: \(date(60))", "Date: \(date(0))"], ["Expires: \(date(160))", "Date: \(date(100))"], 60, 0),
      (["Expires: \(date(60))", "Date: \(date(0))"], [], 0, 0), (["Expires: \(date(160))"], ["Expires: 0"], 0, 0),
      (["Expires: 0"], ["Cache-Control: max-age=9"], 9, 0),
    ] as [([String], [String], Int64, Int64)])
  func howFreshItIsThen(stored: [String], update: [String], lifetime: Int64, age: Int64) {
    let head = Self.freshen(stored, update)
    #expect(head.lifetime == lifetime, "RFC 9111, 4.3.4: \(stored) by \(update)")
    #expect(head.age(at: later(100)) == age, "RFC 9111, 4.2.3: \(stored) by \(update)")
    #expect(head.status == 200)
  }

  @Test func whatAnUpdateForbidsHolds() {
    func refusal(_ lines: String...) -> String? {
      Self.freshen(["Cache-Control: max-age=60"], lines).refusal(toStoreFor: request())
    }
    #expect(refusal() == nil)
    #expect(refusal("Cache-Control: no-store") != nil, "RFC 9111, 5.2.2.5")
    #expect(refusal("Cache-Control: private") != nil, "RFC 9111, 5.2.2.7")
    #expect(refusal("Set-Cookie: a=b") != nil, "RFC 9111, 7.3, the strict way")
    #expect(refusal("Vary: *") != nil, "RFC 9111, 4.1")
  }

  @Test func itAnswersTheSameRequestsAsBefore() {
    let head = Self.freshen(["Vary: X", "ETag: \"1\""], ["ETag: \"1\""], asked: ["X: 1"], first: ["X: 1"])
    #expect(head.answers(fields(["X: 1"])), "RFC 9111, 4.1")
    #expect(!head.answers(fields(["X: 2"])), "RFC 9111, 4.1")
  }

  @Test func whatA304VariesWithIsHeldAgainstRequests() {
    let head = Self.freshen(["ETag: \"1\""], ["ETag: \"1\"", "Vary: Cookie"], asked: ["Cookie: a"])
    #expect(head.answers(fields(["Cookie: a"])))
    #expect(!head.answers(fields(["Cookie: b"])), "RFC 9111, 3.2 and 4.1")

  }

  @Test func theRulesWordHoldsAfterwardsAsWell() {
    let head = Self.freshen(["Cache-Control: max-age=60"], [], rule: rule { $0.freshFor = 7 })
    #expect(head.lifetime == 7)
  }
}
