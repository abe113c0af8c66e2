// Whether a stored answer is used, stands in, or the origin is asked (RFC 9111, 4 and 5.2; RFC 5861; RFC 8246; RFC 9211).

import Policy
import Testing

@testable import Cache

@Suite struct ReuseTests {
  struct Row: Sendable {
    let section: String
    /// Fields of the answer, of the request, and how long after the arrival it comes, in seconds.
    let lines: [String]
    var asked: [String] = []
    let after: Int64
    let meant: Reuse
  }

  private static let minute = "Cache-Control: max-age=60"

  static let rows: [Row] = [
    // 4.2: fresh as long as its age is below its lifetime.
    Row(section: "4.2", lines: [minute], after: 0, meant: .fresh),
    Row(section: "4.2", lines: [minute], after: 59, meant: .fresh),
    Row(section: "4.2", lines: [minute], after: 60, meant: .ask(.stale)),
    Row(section: "4.2", lines: [minute], after: 61, meant: .ask(.stale)),
    Row(section: "4.2", lines: [minute, "Age: 60"], after: 0, meant: .ask(.stale)),
    Row(section: "4.2", lines: ["Cache-Control: max-age=0"], after: 0, meant: .ask(.stale)),
    Row(section: "4.2", lines: [], after: 0, meant: .ask(.stale)),
    Row(section: "4.2.3, the clock was put back", lines: [minute], after: -1, meant: .ask(.stale)),
    Row(
      section: "4.2.3, the clock was put back", lines: [minute], asked: ["Cache-Control: max-stale"], after: -1,
      meant: .ask(.stale)),
    Row(section: "4.2.2", lines: ["Last-Modified: \(date(-1000))", "Date: \(date(0))"], after: 99, meant: .fresh),
    Row(
      section: "4.2.2", lines: ["Last-Modified: \(date(-1000))", "Date: \(date(0))"], after: 100, meant: .ask(.stale)),
    // Directives of the answer.
    Row(section: "5.2.2.4", lines: ["Cache-Control: no-cache, max-age=60"], after: 0, meant: .ask(.stale)),
    Row(section: "5.2.2.4", lines: ["Cache-Control: no-cache=\"X\", max-age=60"], after: 0, meant: .ask(.stale)),
    Row(
      section: "5.2.2.4", lines: ["Cache-Control: no-cache, max-age=60, stale-while-revalidate=60"],
      asked: ["Cache-Control: max-stale"], after: 61, meant: .ask(.stale)),
    Row(section: "5.2.2.2", lines: ["Cache-Control: must-revalidate, max-age=60"], after: 59, meant: .fresh),
    Row(section: "5.2.2.2", lines: ["Cache-Control: must-revalidate, max-age=60"], after: 60, meant: .ask(.stale)),
    Row(section: "5.2.2.8", lines: ["Cache-Control: proxy-revalidate, max-age=60"], after: 59, meant: .fresh),
    Row(section: "5.2.2.10", lines: ["Cache-Control: s-maxage=60"], after: 59, meant: .fresh),
    Row(section: "5.2.2.10", lines: ["Cache-Control: s-maxage=60, max-age=5"], after: 59, meant: .fresh),
    Row(section: "RFC 8246, 2", lines: ["Cache-Control: immutable, max-age=60"], after: 60, meant: .ask(.stale)),
    Row(
      section: "RFC 8246, 2", lines: ["Cache-Control: immutable, max-age=60"], asked: ["Cache-Control: no-cache"],
      after: 1,
      meant: .ask(.request)),
    Row(
      section: "RFC 8246, 2", lines: ["Cache-Control: immutable, max-age=60"], asked: ["Cache-Control: max-age=0"],
      after: 1,
      meant: .ask(.request)),
    // Directives of the request.
    Row(section: "5.2.1.4", lines: [minute], asked: ["Cache-Control: no-cache"], after: 0, meant: .ask(.request)),
    Row(section: "5.4", lines: [minute], asked: ["Pragma: no-cache"], after: 0, meant: .ask(.request)),
    Row(section: "5.2.1.1", lines: [minute], asked: ["Cache-Control: max-age=0"], after: 0, meant: .ask(.request)),
    Row(section: "5.2.1.1", lines: [minute], asked: ["Cache-Control: max-age=30"], after: 30, meant: .fresh),
    Row(section: "5.2.1.1", lines: [minute], asked: ["Cache-Control: max-age=30"], after: 31, meant: .ask(.request)),
    Row(section: "5.2.1.1", lines: [minute], asked: ["Cache-Control: max-age=x"], after: 1, meant: .ask(.request)),
    Row(section: "5.2.1.1", lines: [minute], asked: ["Cache-Control: max-age=9999"], after: 59, meant: .fresh),
    Row(section: "5.2.1.1", lines: [minute], asked: ["Cache-Control: max-age=9999"], after: 60, meant: .ask(.stale)),
    Row(
      section: "5.2.1.1, the age as it came counts", lines: [minute, "Age: 20"], asked: ["Cache-Control: max-age=10"],
      after: 0,
      meant: .ask(.request)),
    Row(section: "5.2.1.3", lines: [minute], asked: ["Cache-Control: min-fresh=30"], after: 30, meant: .fresh),
    Row(section: "5.2.1.3", lines: [minute], asked: ["Cache-Control: min-fresh=30"], after: 31, meant: .ask(.request)),
    Row(section: "5.2.1.3", lines: [minute], asked: ["Cache-Control: min-fresh=x"], after: 0, meant: .ask(.request)),
    Row(section: "5.2.1.3", lines: [minute], asked: ["Cache-Control: min-fresh=0"], after: 59, meant: .fresh),
    Row(
      section: "5.2.1.2", lines: [minute], asked: ["Cache-Control: max-stale"], after: 86_400,
      meant: .stale(refreshes: false)),
    Row(
      section: "5.2.1.2", lines: [minute], asked: ["Cache-Control: max-stale=30"], after: 60,
      meant: .stale(refreshes: false)),
    Row(
      section: "5.2.1.2", lines: [minute], asked: ["Cache-Control: max-stale=30"], after: 90,
      meant: .stale(refreshes: false)),
    Row(section: "5.2.1.2", lines: [minute], asked: ["Cache-Control: max-stale=30"], after: 91, meant: .ask(.stale)),
    Row(section: "5.2.1.2", lines: [minute], asked: ["Cache-Control: max-stale=x"], after: 61, meant: .ask(.stale)),
    Row(section: "5.2.1.2", lines: [minute], asked: ["Cache-Control: max-stale=30"], after: 5, meant: .fresh),
    Row(
      section: "5.2.1.1 and 5.2.1.2", lines: [minute], asked: ["Cache-Control: max-age=70, max-stale"], after: 65,
      meant: .stale(refreshes: false)),
    Row(
      section: "5.2.1.3 and 5.2.1.2", lines: [minute], asked: ["Cache-Control: min-fresh=10, max-stale"], after: 65,
      meant: .ask(.stale)),
    // 4.2.4: what forbids that a stale answer is used holds against max-stale and stale-while-revalidate.
    Row(
      section: "5.2.2.2", lines: ["Cache-Control: max-age=60, must-revalidate"], asked: ["Cache-Control: max-stale"],
      after: 61,
      meant: .ask(.stale)),
    Row(
      section: "5.2.2.8", lines: ["Cache-Control: max-age=60, proxy-revalidate"], asked: ["Cache-Control: max-stale"],
      after: 61,
      meant: .ask(.stale)),
    Row(
      section: "5.2.2.10", lines: ["Cache-Control: s-maxage=60"], asked: ["Cache-Control: max-stale"], after: 61,
      meant: .ask(.stale)),
    Row(
      section: "5.2.2.2", lines: ["Cache-Control: max-age=60, must-revalidate, stale-while-revalidate=60"], after: 61,
      meant: .ask(.stale)),
    Row(
      section: "5.2.2.10", lines: ["Cache-Control: s-maxage=60, stale-while-revalidate=60"], after: 61,
      meant: .ask(.stale)),
    // RFC 5861, 3.
    Row(
      section: "RFC 5861, 3", lines: ["Cache-Control: max-age=60, stale-while-revalidate=30"], after: 59, meant: .fresh),
    Row(
      section: "RFC 5861, 3", lines: ["Cache-Control: max-age=60, stale-while-revalidate=30"], after: 60,
      meant: .stale(refreshes: true)),
    Row(
      section: "RFC 5861, 3", lines: ["Cache-Control: max-age=60, stale-while-revalidate=30"], after: 90,
      meant: .stale(refreshes: true)),
    Row(
      section: "RFC 5861, 3", lines: ["Cache-Control: max-age=60, stale-while-revalidate=30"], after: 91,
      meant: .ask(.stale)),
    Row(
      section: "RFC 5861, 3", lines: ["Cache-Control: max-age=60, stale-while-revalidate"], after: 61,
      meant: .ask(.stale)),
    Row(
      section: "RFC 5861, 3", lines: ["Cache-Control: max-age=60, stale-while-revalidate=x"], after: 61,
      meant: .ask(.stale)),
    Row(
      section: "RFC 5861, 3", lines: ["Cache-Control: max-age=60, stale-while-revalidate=30"],
      asked: ["Cache-Control: no-cache"], after: 61, meant: .ask(.stale)),
    Row(
      section: "5.2.1.1, without max-stale no stale answer is wished for",
      lines: ["Cache-Control: max-age=60, stale-while-revalidate=30"], asked: ["Cache-Control: max-age=9999"],
      after: 61,
      meant: .ask(.stale)),
    Row(
      section: "5.2.1.3", lines: ["Cache-Control: max-age=60, stale-while-revalidate=30"],
      asked: ["Cache-Control: min-fresh=0"], after: 61, meant: .ask(.stale)),
  ]

  @Test(arguments: rows) func whetherItIsUsed(_ row: Row) {
    let asked = request(row.asked)
    let reuse = answer(200, row.lines).reuse(for: asked, at: later(row.after))
    #expect(reuse == row.meant, "RFC 9111, \(row.section): \(row.lines), \(row.asked), \(row.after) s")

  }

  /// NSURLRequestCachePolicy by its names.
  @Test(
    arguments: [
      (.useProtocol, 0, .fresh), (.useProtocol, 60, .ask(.stale)), (.reloadIgnoringCache, 0, .ask(.bypass)),
      (.reloadIgnoringCache, 60, .ask(.bypass)), (.reloadRevalidating, 0, .ask(.request)),
      (.returnCacheElseLoad, 0, .fresh), (.returnCacheElseLoad, 60, .stale(refreshes: false)),
      (.returnCacheElseLoad, -1, .stale(refreshes: false)), (.returnCacheDontLoad, 0, .fresh),
      (.returnCacheDontLoad, 86_400, .stale(refreshes: false)),
    ] as [(CachePolicy, Int64, Reuse)])
  func policies(policy: CachePolicy, after: Int64, meant: Reuse) {
    let reuse = answer(200, [Self.minute]).reuse(for: request(policy: policy), at: later(after))
    #expect(reuse == meant, "\(policy), \(after) s")
  }

  @Test func theWordsOfCacheStatus() {
    let words: [Forward] = [.bypass, .method, .uriMiss, .varyMiss, .request, .stale, .partial]
    #expect(
      words.map(\.rawValue) == ["bypass", "method", "uri-miss", "vary-miss", "request", "stale", "partial"],
      "RFC 9211, 2.2")
  }

  /// RFC 9211, 2.2: `request` is said where the answer that was found is fresh.
  @Test(arguments: ["no-cache", "max-age=5", "min-fresh=5"])
  func aStaleAnswerIsStaleWhateverTheRequestSays(_ directive: String) {
    let asked = request(["Cache-Control: " + directive])
    #expect(answer(200, [Self.minute]).reuse(for: asked, at: later(56)) == .ask(.request), "RFC 9211, 2.2")
    #expect(answer(200, [Self.minute]).reuse(for: asked, at: later(61)) == .ask(.stale), "RFC 9211, 2.2")

  }

  // MARK: Standing in

  struct StandIn: Sendable {
    let section: String
    let lines: [String]
    var asked: [String] = []
    var rule = CacheRule()
    var policy = CachePolicy.useProtocol
    let after: Int64
    let isUsed: Bool
  }

  private static func error(_ seconds: Int64) -> CacheRule { CacheTests.rule { $0.staleIfError = seconds } }
  private static func offline(_ seconds: Int64) -> CacheRule { CacheTests.rule { $0.offline = seconds } }
  private static let erring = "Cache-Control: max-age=60, stale-if-error=30"

  /// RFC 5861, 4.
  static let errors: [StandIn] = [
    StandIn(section: "RFC 5861, 4", lines: [erring], after: 60, isUsed: true),
    StandIn(section: "RFC 5861, 4", lines: [erring], after: 90, isUsed: true),
    StandIn(section: "RFC 5861, 4", lines: [erring], after: 91, isUsed: false),
    StandIn(section: "4.2, it is fresh", lines: [minute], after: 5, isUsed: true),
    StandIn(section: "4.2.4", lines: [minute], after: 61, isUsed: false),
    StandIn(
      section: "RFC 5861, 4", lines: [minute], asked: ["Cache-Control: stale-if-error=30"], after: 90, isUsed: true),
    StandIn(
      section: "RFC 5861, 4", lines: [minute], asked: ["Cache-Control: stale-if-error=30"], after: 91, isUsed: false),
    StandIn(
      section: "RFC 5861, 4", lines: [minute], asked: ["Cache-Control: stale-if-error"], after: 61, isUsed: false),
    StandIn(section: "RFC 5861, 4", lines: ["Cache-Control: max-age=60, stale-if-error=x"], after: 61, isUsed: false),
    StandIn(section: "[rule.cache]", lines: [minute], rule: error(30), after: 90, isUsed: true),
    StandIn(section: "[rule.cache]", lines: [minute], rule: error(30), after: 91, isUsed: false),
    StandIn(section: "[rule.cache]", lines: [erring], rule: error(300), after: 200, isUsed: true),
    StandIn(
      section: "[rule.cache], the longest word holds", lines: [erring], rule: error(0), after: 70, isUsed: true),
    StandIn(section: "4.2.4", lines: [erring + ", must-revalidate"], rule: error(300), after: 61, isUsed: false),
    StandIn(section: "4.2.4", lines: [erring + ", proxy-revalidate"], rule: error(300), after: 61, isUsed: false),
    StandIn(section: "4.2.4", lines: [erring + ", no-cache"], rule: error(300), after: 61, isUsed: false),
    StandIn(section: "4.2.4", lines: [erring + ", s-maxage=60"], rule: error(300), after: 61, isUsed: false),
    StandIn(section: "4.2, stale from its first moment", lines: ["Cache-Control: max-age=0"], after: 0, isUsed: false),
    StandIn(section: "4.2, it has just become stale", lines: [minute], after: 60, isUsed: false),
    StandIn(section: "[rule.cache]", lines: ["Cache-Control: max-age=0"], rule: error(30), after: 0, isUsed: true),
    StandIn(
      section: "reload-ignoring-cache: never", lines: [erring], policy: .reloadIgnoringCache, after: 61, isUsed: false),
    StandIn(
      section: "reload-ignoring-cache: never", lines: [erring], policy: .reloadIgnoringCache, after: 5, isUsed: false),
    StandIn(
      section: "reload-revalidating: only when confirmed", lines: [erring], policy: .reloadRevalidating, after: 61,
      isUsed: false),
    StandIn(
      section: "5.2.1.1, a preference", lines: [erring], asked: ["Cache-Control: max-age=0"], after: 61, isUsed: true),
    StandIn(section: "5.2.1.4", lines: [erring], asked: ["Cache-Control: no-cache"], after: 61, isUsed: false),
    StandIn(section: "5.4", lines: [erring], asked: ["Pragma: no-cache"], after: 61, isUsed: false),
    StandIn(section: "4.2.3, the clock was put back", lines: [erring], after: -1, isUsed: false),
    StandIn(
      section: "4.2.3, the clock was put back", lines: ["Cache-Control: max-age=60, stale-if-error=99999999999"],
      after: -1,
      isUsed: false),
  ]

  @Test(arguments: errors) func whereTheOriginFails(_ row: StandIn) {
    let asked = request(row.asked, rule: row.rule, policy: row.policy)
    let isUsed = answer(200, row.lines, to: asked).standsInForError(of: asked, at: later(row.after))
    #expect(isUsed == row.isUsed, "RFC 9111, \(row.section): \(row.lines), \(row.asked), \(row.after) s")

  }

  /// A stored error is no better than the one that has just come; and a good answer that may still stand in for it must
  /// not be lost to it.
  @Test func errorsStandInForNothingAndTakeNoPlace() {
    let asked = request([], rule: CacheTests.rule { $0.staleIfError = 600 })
    let unreachable = request([], rule: Self.offline(3600))
    for status in [500, 503, 599] {
      let error = answer(status, [Self.minute], to: asked)
      #expect(error.standsInForError(of: asked, at: later(59)), "it is fresh")
      #expect(!error.standsInForError(of: asked, at: later(61)))
      #expect(!error.standsInOffline(for: unreachable, at: later(61)))
      #expect(!error.bridgesFailures(by: asked.rule, at: later(61)))
    }
    let good = answer(200, [Self.minute], to: asked)
    #expect(
      good.bridgesFailures(by: asked.rule, at: later(660)) && !good.bridgesFailures(by: asked.rule, at: later(661)))
    #expect(good.bridgesFailures(by: unreachable.rule, at: later(3600)))
    #expect(!good.bridgesFailures(by: request([]).rule, at: later(61)))
    let strict = answer(200, ["Cache-Control: max-age=60, must-revalidate"], to: asked)
    #expect(strict.bridgesFailures(by: asked.rule, at: later(59)), "it is fresh")
    #expect(!strict.bridgesFailures(by: asked.rule, at: later(61)))
  }

  /// RFC 9111, 4.2.4: a cache that is disconnected may use what is stale, unless the origin has forbidden it.
  static let offlines: [StandIn] = [
    StandIn(section: "4.2.4", lines: [minute], rule: offline(3600), after: 3600, isUsed: true),
    StandIn(section: "4.2.4", lines: [minute], rule: offline(3600), after: 3601, isUsed: false),
    StandIn(section: "4.2.4", lines: [minute], rule: offline(0), after: 61, isUsed: false),
    StandIn(section: "4.2.4", lines: [erring], rule: offline(0), after: 90, isUsed: true),
    StandIn(
      section: "4.2.4", lines: ["Cache-Control: max-age=60, must-revalidate"], rule: offline(3600), after: 61,
      isUsed: false),
    StandIn(
      section: "4.2.4", lines: ["Cache-Control: max-age=60, proxy-revalidate"], rule: offline(3600), after: 61,
      isUsed: false),
    StandIn(
      section: "4.2.4", lines: ["Cache-Control: max-age=60, no-cache"], rule: offline(3600), after: 61, isUsed: false),
    StandIn(
      section: "4.2.4 and 5.2.2.10", lines: ["Cache-Control: s-maxage=60"], rule: offline(3600), after: 61,
      isUsed: false),
    StandIn(
      section: "4.2, it is fresh", lines: ["Cache-Control: s-maxage=60"], rule: offline(3600), after: 5, isUsed: true),
    StandIn(
      section: "5.2.1.4", lines: [minute], asked: ["Cache-Control: no-cache"], rule: offline(3600), after: 61,
      isUsed: false),
    StandIn(section: "4.2.3, the clock was put back", lines: [minute], rule: offline(3600), after: -1, isUsed: false),
    StandIn(
      section: "reload-ignoring-cache: never", lines: [minute], rule: offline(3600), policy: .reloadIgnoringCache,
      after: 5, isUsed: false),
    StandIn(
      section: "reload-revalidating: only when confirmed", lines: [minute], rule: offline(3600),
      policy: .reloadRevalidating, after: 61, isUsed: false),
  ]

  @Test(arguments: offlines) func whereTheDestinationCannotBeReached(_ row: StandIn) {
    let asked = request(row.asked, rule: row.rule, policy: row.policy)
    let isUsed = answer(200, row.lines, to: asked).standsInOffline(for: asked, at: later(row.after))
    #expect(isUsed == row.isUsed, "RFC 9111, \(row.section): \(row.lines), \(row.asked), \(row.after) s")

  }

  // MARK: Vary

  struct Variant: Sendable {
    let section: String
    let vary: [String]
    let first: [String]
    let second: [String]
    let isAnswered: Bool
  }

  static let variants: [Variant] = [
    Variant(section: "4.1, no Vary", vary: [], first: ["X: 1"], second: ["X: 2"], isAnswered: true),
    Variant(section: "4.1", vary: ["Vary: X"], first: ["X: 1"], second: ["X: 1", "Y: 2"], isAnswered: true),
    Variant(section: "4.1", vary: ["Vary: X"], first: ["X: 1"], second: ["X: 2"], isAnswered: false),
    Variant(section: "4.1", vary: ["Vary: x"], first: ["X: 1"], second: ["x: 1"], isAnswered: true),
    Variant(section: "4.1, absent matches absent alone", vary: ["Vary: X"], first: [], second: [], isAnswered: true),
    Variant(
      section: "4.1, absent matches absent alone", vary: ["Vary: X"], first: [], second: ["X: 1"], isAnswered: false),
    Variant(
      section: "4.1, absent matches absent alone", vary: ["Vary: X"], first: ["X: 1"], second: [], isAnswered: false),
    Variant(
      section: "4.1, absent matches absent alone", vary: ["Vary: X"], first: [], second: ["X:"], isAnswered: false),
    Variant(
      section: "4.1, absent matches absent alone", vary: ["Vary: Accept"], first: ["Accept:"], second: [],
      isAnswered: false),
    Variant(
      section: "4.1, all of them", vary: ["Vary: X, Y"], first: ["X: 1", "Y: 1"], second: ["X: 1", "Y: 1"],
      isAnswered: true),
    Variant(
      section: "4.1, all of them", vary: ["Vary: X, Y"], first: ["X: 1", "Y: 1"], second: ["X: 1", "Y: 2"],
      isAnswered: false),
    Variant(
      section: "4.1, all of them", vary: ["Vary: X", "Vary: Y"], first: ["X: 1", "Y: 1"], second: ["X: 1"],
      isAnswered: false),
    Variant(section: "RFC 9110, 5.6.1", vary: ["Vary: , X ,,"], first: ["X: 1"], second: ["X: 2"], isAnswered: false),
    Variant(section: "4.1, *", vary: ["Vary: *"], first: ["X: 1"], second: ["X: 1"], isAnswered: false),
    Variant(section: "4.1, *", vary: ["Vary: X, *"], first: ["X: 1"], second: ["X: 1"], isAnswered: false),
    Variant(section: "4.1, *", vary: ["Vary: *", "Vary: X"], first: [], second: [], isAnswered: false),
    Variant(section: "no name", vary: ["Vary: X Y"], first: ["X: 1"], second: ["X: 1"], isAnswered: false),
    Variant(section: "no name", vary: ["Vary: X, \"Y\""], first: ["X: 1"], second: ["X: 1"], isAnswered: false),
    Variant(
      section: "4.1, lines combined", vary: ["Vary: X"], first: ["X: 1, 2"], second: ["X: 1", "X: 2"], isAnswered: true),
    Variant(
      section: "4.1, the order counts", vary: ["Vary: X"], first: ["X: 1, 2"], second: ["X: 2, 1"], isAnswered: false),
    Variant(section: "4.1, case counts", vary: ["Vary: X"], first: ["X: a"], second: ["X: A"], isAnswered: false),
    Variant(section: "4.1, blanks count", vary: ["Vary: X"], first: ["X: a b"], second: ["X: a  b"], isAnswered: false),
    Variant(
      section: "4.1, blanks count", vary: ["Vary: X"], first: ["X: \"a , b\""], second: ["X: \"a,b\""],
      isAnswered: false),
    Variant(
      section: "4.1, blanks where its syntax allows for them", vary: ["Vary: User-Agent"],
      first: ["User-Agent: x (KHTML, like y)"], second: ["User-Agent: x (KHTML,like y)"], isAnswered: false),
    Variant(
      section: "4.1, blanks where its syntax allows for them", vary: ["Vary: Cookie"], first: ["Cookie: a=b, c"],
      second: ["Cookie: a=b,c"], isAnswered: false
    ),
    // Fields of negotiation: what their definitions hold for the same.
    Variant(
      section: "4.1", vary: ["Vary: Accept-Encoding"], first: ["Accept-Encoding: gzip, br"],
      second: ["Accept-Encoding: gzip,br"], isAnswered: true),
    Variant(
      section: "4.1", vary: ["Vary: Accept-Encoding"], first: ["Accept-Encoding: GZip"],
      second: ["Accept-Encoding: gzip"], isAnswered: true),
    Variant(
      section: "4.1", vary: ["Vary: Accept-Encoding"], first: ["Accept-Encoding: gzip;q=0.5"],
      second: ["Accept-Encoding: gzip; q=0.5"], isAnswered: true),
    Variant(
      section: "4.1", vary: ["Vary: Accept-Encoding"], first: ["Accept-Encoding: gzip"],
      second: ["Accept-Encoding: br"], isAnswered: false),
    Variant(
      section: "4.1", vary: ["Vary: Accept-Encoding"], first: ["Accept-Encoding: gzip"],
      second: ["Accept-Encoding: gzip;q=0"], isAnswered: false),
    Variant(
      section: "4.1", vary: ["Vary: Accept-Language"], first: ["Accept-Language: en-GB, de"],
      second: ["accept-language: EN-gb,DE"], isAnswered: true),
    Variant(
      section: "4.1", vary: ["Vary: Accept-Language"], first: ["Accept-Language: en", "Accept-Language: de"],
      second: ["Accept-Language: en, de"], isAnswered: true),
    Variant(
      section: "4.1", vary: ["Vary: Accept-Language"], first: ["Accept-Language: en"],
      second: ["Accept-Language: en-gb"], isAnswered: false),
    Variant(
      section: "4.1", vary: ["Vary: Accept"], first: ["Accept: Text/HTML; q=1"], second: ["Accept: text/html;q=1"],
      isAnswered: true),
    Variant(
      section: "RFC 9110, 8.3.1, values of parameters may know case", vary: ["Vary: Accept"],
      first: ["Accept: text/x;v=A"],
      second: ["Accept: text/x;v=a"], isAnswered: false),
    Variant(
      section: "4.1, what is known to be the same", vary: ["Vary: Accept"], first: ["Accept: text/x;v=\"A b\""],
      second: ["Accept: text/x;v=\"a b\""], isAnswered: false),
    Variant(
      section: "RFC 9110, 5.6.4, an escaped quotation mark ends nothing", vary: ["Vary: Accept"],
      first: ["Accept: text/x;v=\"\\\" A\""], second: ["Accept: text/x;v=\"\\\"a\""], isAnswered: false),
    Variant(
      section: "4.1, what is known to be the same", vary: ["Vary: Accept-Encoding"],
      first: ["Accept-Encoding: gzip br"],
      second: ["Accept-Encoding: gzipbr"], isAnswered: false),
  ]

  @Test(arguments: variants) func whichRequestsItAnswers(_ row: Variant) {
    let head = answer(200, row.vary, to: request(row.first))
    #expect(head.answers(fields(row.second)) == row.isAnswered, "RFC 9111, \(row.section): \(row)")
    let back = answer(200, row.vary, to: request(row.second))
    #expect(back.answers(fields(row.first)) == row.isAnswered, "RFC 9111, \(row.section), the other way: \(row)")

  }
}
