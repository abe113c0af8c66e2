// What may be stored (RFC 9111, 3): methods, statuses, directives, credentials, cookies.

import HTTP1
import Policy
import Testing

@testable import Cache

@Suite struct StorabilityTests {
  struct Row: Sendable {
    let section: String
    var status = 200
    var asked: [String] = []
    let lines: [String]
    let isStored: Bool
    /// Where the store is each user's own; nil: the same.
    var isStoredForOne: Bool? = nil
    var isAuthorized = false
  }

  private static let modified = "Last-Modified: \(date(-1000))"

  static let rows: [Row] = [
    Row(section: "3, a status that is guessed at", lines: [], isStored: true),
    Row(section: "3, a status that is guessed at", lines: [modified], isStored: true),
    Row(section: "3, max-age", lines: ["Cache-Control: max-age=60"], isStored: true),
    // no-store
    Row(section: "5.2.2.5", lines: ["Cache-Control: no-store"], isStored: false),
    Row(section: "5.2.2.5", lines: ["Cache-Control: max-age=60, NO-STORE"], isStored: false),
    Row(section: "5.2.2.5", lines: ["Cache-Control: max-age=60", "Cache-Control: no-store"], isStored: false),
    Row(section: "5.2.2.5", lines: ["Cache-Control: public, no-store, s-maxage=60"], isStored: false),
    Row(section: "5.2.1.5", asked: ["Cache-Control: no-store"], lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(section: "5.2.1.4", asked: ["Cache-Control: no-cache"], lines: ["Cache-Control: max-age=60"], isStored: true),
    Row(section: "5.2.2.4", lines: ["Cache-Control: no-cache"], isStored: true),
    // private
    Row(section: "5.2.2.7", lines: ["Cache-Control: private, max-age=60"], isStored: false, isStoredForOne: true),
    Row(section: "5.2.2.7", lines: ["Cache-Control: private"], isStored: false, isStoredForOne: true),
    Row(section: "5.2.2.7", lines: ["Cache-Control: private=\"X\", max-age=60"], isStored: false, isStoredForOne: true),
    Row(section: "5.2.2.7", lines: ["Cache-Control: private, public"], isStored: false, isStoredForOne: true),
    Row(section: "3, private", status: 302, lines: ["Cache-Control: private"], isStored: false, isStoredForOne: true),
    // Statuses.
    Row(section: "3, explicit", status: 302, lines: [modified], isStored: false),
    Row(section: "3, explicit", status: 302, lines: ["Cache-Control: max-age=60"], isStored: true),
    Row(section: "3, explicit", status: 302, lines: ["Expires: \(date(60))"], isStored: true),
    Row(
      section: "3, explicit", status: 307, lines: ["Cache-Control: s-maxage=60"], isStored: true),
    Row(section: "5.2.2.9", status: 302, lines: ["Cache-Control: public"], isStored: true),
    Row(section: "3, explicit", status: 500, lines: ["Cache-Control: no-cache"], isStored: false),
    Row(section: "3, explicit", status: 503, lines: ["Cache-Control: max-age=60"], isStored: true),
    Row(section: "3, explicit", status: 299, lines: ["Cache-Control: max-age=60"], isStored: true),
    Row(section: "3, explicit", status: 599, lines: ["Cache-Control: max-age=60"], isStored: true),
    Row(section: "3, explicit", status: 599, lines: [modified], isStored: false),
    Row(
      section: "3, the status is final", status: 100, lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(
      section: "3, the status is final", status: 103, lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(
      section: "3.3, a part", status: 206, lines: ["Cache-Control: max-age=60", "Content-Range: bytes 0-0/2"],
      isStored: false),
    Row(section: "4.3.4, an update", status: 304, lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(
      section: "RFC 6585, 3", status: 428, lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(
      section: "RFC 6585, 4", status: 429, lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(
      section: "RFC 6585, 5", status: 431, lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(
      section: "RFC 6585, 6", status: 511, lines: ["Cache-Control: public, max-age=60"], isStored: false),
    // Answers to requests for a part.
    Row(section: "3.3", asked: ["Range: bytes=0-1"], lines: ["Cache-Control: max-age=60"], isStored: true),
    Row(section: "3.3", status: 416, asked: ["Range: bytes=9-"], lines: ["Cache-Control: max-age=60"], isStored: false),
    Row(section: "3.3", status: 404, asked: ["Range: bytes=9-"], lines: ["Cache-Control: max-age=60"], isStored: false),
    // must-understand
    Row(section: "5.2.2.3", lines: ["Cache-Control: must-understand, no-store, max-age=60"], isStored: true),
    Row(
      section: "5.2.2.3", status: 404, lines: ["Cache-Control: no-store, must-understand, max-age=60"], isStored: true),
    Row(
      section: "5.2.2.3", status: 299, lines: ["Cache-Control: must-understand, no-store, max-age=60"], isStored: false),
    Row(section: "5.2.2.3", status: 299, lines: ["Cache-Control: must-understand, max-age=60"], isStored: false),
    Row(section: "5.2.2.3", status: 599, lines: ["Cache-Control: must-understand, public"], isStored: false),
    Row(section: "5.2.2.3", lines: ["Cache-Control: must-understand, private"], isStored: false, isStoredForOne: true),
    // Vary
    Row(section: "4.1", lines: ["Cache-Control: max-age=60", "Vary: *"], isStored: false),
    Row(section: "4.1", lines: ["Cache-Control: max-age=60", "Vary: Accept, *"], isStored: false),
    Row(section: "4.1", lines: ["Cache-Control: max-age=60", "Vary: Accept", "Vary: *"], isStored: false),
    Row(section: "4.1", lines: ["Cache-Control: max-age=60", "Vary: Accept, Cookie"], isStored: true),
    Row(section: "4.1", lines: ["Cache-Control: max-age=60", "Vary: *a"], isStored: true),
    // Credentials: 3.5.
    Row(section: "3.5", lines: ["Cache-Control: max-age=60"], isStored: false, isAuthorized: true),
    Row(section: "3.5", lines: [modified], isStored: false, isAuthorized: true),
    Row(section: "3.5", lines: ["Expires: \(date(60))"], isStored: false, isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: public, max-age=60"], isStored: true, isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: s-maxage=60"], isStored: true, isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: must-revalidate, max-age=60"], isStored: true, isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: proxy-revalidate, max-age=60"], isStored: false, isAuthorized: true),
    // `private` takes back what is said to shared caches: who has one token is not who has another.
    Row(
      section: "3.5", lines: ["Cache-Control: private, must-revalidate, max-age=60"], isStored: false,
      isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: private, public, max-age=60"], isStored: false, isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: no-cache"], isStored: false, isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: immutable, max-age=60"], isStored: false, isAuthorized: true),
    Row(section: "3.5", lines: ["Cache-Control: public, no-store"], isStored: false, isAuthorized: true),
    // Cookies: the house, as 7.3 advises.
    Row(
      section: "7.3, the strict way", lines: ["Cache-Control: max-age=60", "Set-Cookie: a=b"], isStored: false,
      isStoredForOne: true),
    Row(section: "7.3", lines: ["Cache-Control: public, max-age=60", "Set-Cookie: a=b"], isStored: true),
    // What a request says of its own.
    Row(
      section: "5.4", asked: ["Pragma: no-cache"], lines: ["Cache-Control: max-age=60", "Pragma: no-cache"],
      isStored: true),
    Row(section: "4.3.2", asked: ["If-None-Match: \"1\""], lines: ["Cache-Control: max-age=60"], isStored: true),
  ]

  @Test(arguments: rows) func whatMayBeStored(_ row: Row) {
    let all = request(row.asked, isAuthorized: row.isAuthorized)
    let own = request(row.asked, isAuthorized: row.isAuthorized, rule: ownRule)
    let refusal = answer(row.status, row.lines, to: all).refusal(toStoreFor: all)
    #expect(
      (refusal == nil) == row.isStored, "RFC 9111, \(row.section): \(row.status) \(row.lines): \(refusal ?? "stored")"
    )
    // Each user's own: what 3.5 forbids there is the house's strict way. A row says where it differs.
    if row.lines.contains(where: { $0.contains("s-maxage") }) { return }
    let refusalForOne = answer(row.status, row.lines, to: own).refusal(toStoreFor: own)
    #expect(
      (refusalForOne == nil) == row.isStoredForOne ?? row.isStored,
      "RFC 9111, \(row.section), for one user: \(row.status) \(row.lines): \(refusalForOne ?? "stored")")

  }

  /// RFC 9111, 3: whether a status is stored without a word about it, and with one.
  @Test func everyFinalStatus() {
    let guessed: Set<Int> = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]
    let never: Set<Int> = [206, 304, 428, 429, 431, 511]
    for status in 200...599 where !never.contains(status) {
      let bare = answer(status, [Self.modified]).refusal(toStoreFor: request())
      #expect((bare == nil) == guessed.contains(status), "RFC 9111, 3: \(status)")
      let explicit = answer(status, ["Cache-Control: max-age=60"]).refusal(toStoreFor: request())
      #expect(explicit == nil, "RFC 9111, 3: \(status)")
    }
  }

  /// RFC 9110, 9.3: of the methods only GET is stored here.
  @Test(arguments: [.head, .post, .put, .delete, .options, .trace, .connect, .other] as [KnownMethod])
  func otherMethods(_ method: KnownMethod) {
    let asked = request([], method)
    #expect(answer(200, ["Cache-Control: public, max-age=60"], to: asked).refusal(toStoreFor: asked) != nil)
  }

  @Test func aRuleMakesNothingStorableThatIsNot() {
    let asked = request(rule: rule { $0.freshFor = 60 })
    func isStored(_ status: Int, _ lines: String...) -> Bool {
      answer(status, lines, to: asked).refusal(toStoreFor: asked) == nil
    }
    #expect(isStored(200))
    #expect(!isStored(302))
    #expect(isStored(302, "Cache-Control: max-age=0"))
    #expect(isStored(302, "Expires: 0"))
    #expect(!isStored(200, "Cache-Control: no-store"))
    #expect(!isStored(200, "Cache-Control: private"))
    #expect(!isStored(200, "Vary: *"))
  }

  // MARK: Requests

  @Test(
    arguments: [
      ("9.3.1", .get, [], true), ("9.3.2", .head, [], true), ("9.3.3", .post, [], false), ("9.3.4", .put, [], false),
      ("9.3.5", .delete, [], false), ("9.3.7", .options, [], false), ("9.3.8", .trace, [], false),
      ("9.3.6", .connect, [], false), ("9.1", .other, [], false), ("5.2.1.5", .get, ["Cache-Control: no-store"], false),
      ("13.1.1", .get, ["If-Match: \"1\""], false), ("13.1.1", .get, ["If-Match: *"], false),
      ("13.1.4", .get, ["If-Unmodified-Since: \(date(0))"], false), ("13.1.2", .get, ["If-None-Match: *"], true),
      ("13.1.3", .get, ["If-Modified-Since: \(date(0))"], true), ("14.2", .get, ["Range: bytes=0-1"], true),
      ("5.2.1.4", .get, ["Cache-Control: no-cache"], true),
    ] as [(String, KnownMethod, [String], Bool)])
  func whichRequestsTheStoreKnows(section: String, method: KnownMethod, lines: [String], isCacheable: Bool) {
    #expect(request(lines, method).isCacheable == isCacheable, "\(section): \(method) \(lines)")
  }

  /// RFC 9111, 4.4: what is not known to be safe makes stored answers invalid.
  @Test func whichMethodsAreSafe() {
    for method in [.get, .head, .options, .trace] as [KnownMethod] { #expect(request([], method).method != .unsafe) }
    for method in [.post, .put, .delete, .other] as [KnownMethod] { #expect(request([], method).method == .unsafe) }
  }

  /// RFC 9111, 5.4.
  @Test(
    arguments: [
      (["Pragma: no-cache"], true), (["pragma: x, No-Cache"], true),
      (["Pragma: no-cache", "Cache-Control: max-age=9"], false),
      (["Pragma: no-cache", "Cache-Control:"], false), (["Pragma: no-caches"], false),
      (["Pragma: x=\"no-cache\""], false),
      (["Pragma: x", "Pragma: no-cache"], true), (["Cache-Control: no-cache"], true), ([], false),
    ] as [([String], Bool)])
  func pragma(lines: [String], noCache: Bool) {
    #expect(request(lines).directives.noCache == noCache, "RFC 9111, 5.4: \(lines)")
  }

  @Test func conditionsAndParts() {
    #expect(request(["If-None-Match: \"1\""]).isConditional)
    #expect(request(["if-modified-since: x"]).isConditional)
    #expect(!request(["If-Range: \"1\""]).isConditional)
    #expect(request(["Range: bytes=0-"]).isForPart)
    #expect(!request(["If-Range: \"1\""]).isForPart)
  }
}
