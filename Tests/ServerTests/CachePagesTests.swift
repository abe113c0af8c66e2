// What the admin API says of stored answers: the store in numbers, the list, one URL; and which answers are meant by what.

import Bytes
import Cache
import HTTP1
import Policy
import Testing

@testable import Server
@testable import Session

@Suite struct CachePagesTests {
  /// 2026-11-20T15:00:00Z, in milliseconds since 1970.
  private static let noon: Int64 = 1_795_186_800_000

  /// An answer to a GET for `url`, that came at `received` with `lines`.
  private static func answer(
    _ url: String = "http://a.example/x", host: String = "a.example", rule: String = "r", status: Int = 200,
    received: Int64 = noon, _ lines: [(StaticString, String)] = [("Cache-Control", "max-age=60")],
    asked: [(StaticString, String)] = [], content: String = "content", whole: Bool = true
  ) -> StoredAnswer {
    var fields = MessageFields()
    for (name, value) in lines { fields.append(name, Array(value.utf8)) }
    var askedFields = MessageFields()
    for (name, value) in asked { askedFields.append(name, Array(value.utf8)) }
    let head = StoredHead(
      status: status, reason: Array("OK".utf8), fields,
      answering: CacheRequest(.get, askedFields, isAuthorized: false), requested: received, received: received)
    let stored = Content(announced: nil)
    _ = stored.append(Array(content.utf8).span)
    if whole { _ = stored.finish() }
    let selecting = asked.map(\.1).joined()
    return StoredAnswer(
      key: CacheKey(url: Array((url + selecting).utf8), rule: [], owner: ""), url: Array(url.utf8), host: host,
      rule: rule, head, stored)
  }

  private static func store(_ answers: StoredAnswer...) -> SharedCache {
    let cache = SharedCache(CacheStorage())
    for answer in answers {
      cache.with {
        $0.insert(answer)
        return
      }
    }
    return cache
  }

  private static func urls(_ cache: SharedCache, _ selection: CacheSelection, at now: Int64 = noon) -> [String] {
    CachePages.list(cache, selection, at: now).answers.map { String(decoding: $0.url, as: UTF8.self) }
  }

  // MARK: The store

  @Test func anEmptyStoreIsShownAsSuch() {
    let facts = CacheFacts(SharedCache(CacheStorage()))
    #expect(
      CachePages.statusText(facts) == """
        stored    0 answers, 0 B of 64.0 MiB; 0 evicted
        requests  0

        """)
    #expect(
      CachePages.status(facts).text
        == #"{"answers": 0, "bytes": 0, "limit": 67108864, "evictions": 0, "disk": null, "results": {"hit": 0, "stale": 0, "#
        + #""offline": 0, "revalidated": 0, "collapsed": 0, "stored": 0, "miss": 0}, "served_bytes": 0}"#)
  }

  @Test func aUsedStoreSaysForWhatItWasUsed() {
    let answer = Self.answer()
    let cache = Self.store(answer)
    for _ in 0..<5 { cache.count(.hit) }
    cache.count(.revalidated)
    cache.count(.stored)
    cache.count(.miss)
    cache.servedBytes.add(2048, ordering: .relaxed)
    let facts = CacheFacts(cache)
    #expect(facts.answers == 1 && facts.bytes >= answer.overheadBytes)
    #expect(facts.served == 6 && facts.requests == 8)
    #expect(
      CachePages.statusText(facts) == """
        stored    1 answer, \(StatusPage.size(UInt64(facts.bytes))) of 64.0 MiB; 0 evicted
        requests  8: 5 hit, 1 revalidated, 1 stored, 1 miss
        from it   75 % of the requests, 2.0 KiB

        """)
    let json = CachePages.status(facts).text
    #expect(json.contains("\"hit\": 5") && json.contains("\"served_bytes\": 2048"), "\(json)")
  }

  /// For them the origin sent no content.
  @Test func whichResultsCameOutOfTheStore() {
    #expect(
      CacheResult.allCases.filter(\.isServedFromStore) == [.hit, .stale, .offline, .revalidated, .collapsed])
  }

  // MARK: Lists

  @Test func aListHasALineForEachAnswer() {
    let cache = Self.store(
      Self.answer(), Self.answer("http://b.example/y", [("Cache-Control", "max-age=7200")]),
      Self.answer("http://c.example/z", status: 404, [], content: ""))
    #expect(
      CachePages.text(CachePages.list(cache, CacheSelection(), at: Self.noon), withQueries: true, at: Self.noon) == """
        200  7 B         for 1 min           http://a.example/x
        200  7 B         for 2 h 0 min       http://b.example/y
        404  0 B         stale for 0 s       http://c.example/z

        """)
    #expect(CachePages.text(([], 0), withQueries: true, at: Self.noon) == "nothing is stored\n")
    var cut = CachePages.list(cache, CacheSelection(), at: Self.noon)
    cut.more = 3
    #expect(CachePages.text(cut, withQueries: true, at: Self.noon).hasSuffix("/z\nand 3 more\n"))
  }

  @Test func aListEndsAndSaysHowMuchIsLeftOut() {
    let cache = SharedCache(CacheStorage())
    let most = CachePages.mostListed
    for number in 0..<most + 2 {
      let answer = Self.answer("http://a.example/\(number)")
      cache.with {
        $0.insert(answer)
        return
      }
    }
    let found = CachePages.list(cache, CacheSelection(), at: Self.noon)
    #expect(found.answers.count == most && found.more == 2)
    #expect(CachePages.json(found, withQueries: true, at: Self.noon).text.hasSuffix("], \"more\": 2}"))
  }

  @Test func anAnswerInFull() {
    let answer = Self.answer(
      received: Self.noon,
      [
        ("Cache-Control", "max-age=3600, must-revalidate"), ("ETag", "\"v1\""),
        ("Vary", "Accept-Encoding, X-Kind"),
      ], asked: [("Accept-Encoding", "gzip")])
    let cache = Self.store(answer)
    let now = Self.noon + 90_000
    let found = CachePages.list(cache, CacheSelection(url: ComparableURL(Array("http://a.example/x".utf8))), at: now)
    #expect(
      CachePages.showText(found.answers, withQueries: true, at: now) == """
        http://a.example/x
          status   200, 7 B
          stored   2026-11-20T15:00:00.000Z, by rule r
          age      1 min
          fresh    for 58 min: 1 h 0 min by max-age
          stale    never served: the origin forbids it
          etag     "v1"
          varies   accept-encoding: gzip
          varies   x-kind: (absent)

        """)
    #expect(
      CachePages.json(found, withQueries: true, at: now).text
        == #"{"answers": [{"url": "http://a.example/x", "host": "a.example", "rule": "r", "status": 200, "bytes": 7, "#
        + #""complete": true, "part": null, "stored": "2026-11-20T15:00:00.000Z", "age_seconds": 90, "ttl_seconds": 3510, "#
        + #""lifetime_seconds": 3600, "because": "max-age", "etag": "\"v1\"", "#
        + #""vary": {"accept-encoding": "gzip", "x-kind": null}}], "more": 0}"#)
    #expect(CachePages.showText([], withQueries: true, at: now) == "nothing is stored for this URL\n")
  }

  @Test func anAnswerThatIsComingOrStaleSaysSo() {
    let answer = Self.answer("http://a.example/x", [("Date", "Fri, 20 Nov 2026 14:59:00 GMT")], whole: false)
    let now = Self.noon + 3_600_000
    let found = CachePages.list(Self.store(answer), CacheSelection(), at: now)
    #expect(
      CachePages.showText(found.answers + found.answers, withQueries: true, at: now).split(separator: "\n\n").first
        == """
        http://a.example/x
          status   200, 7 B so far
          stored   2026-11-20T15:00:00.000Z, by rule r
          age      1 h 1 min
          fresh    stale for 1 h 1 min
        """)
    let json = CachePages.json(found, withQueries: true, at: now).text
    #expect(json.contains(#""complete": false"#) && json.contains(#""age_seconds": 3660, "ttl_seconds": -3660"#))
    #expect(json.contains(#""because": "nothing", "etag": null, "vary": {}"#), "\(json)")
  }

  @Test func aClockThatWasSetBackIsNamed() {
    let answer = Self.answer()
    let found = CachePages.list(Self.store(answer), CacheSelection(), at: Self.noon)
    let text = CachePages.showText(found.answers, withQueries: true, at: Self.noon - 1000)
    #expect(text.contains("  age      not known: the clock was set back\n"), "\(text)")
    #expect(CachePages.json(found, withQueries: true, at: Self.noon - 1000).text.contains("\"age_seconds\": null"))
  }

  /// URLs are the clients', tags the origins': none moves the cursor of a terminal.
  @Test func whatIsNotPrintableIsNotPrinted() {
    let answer = Self.answer("http://a.example/\u{1b}[2J\u{7f}é", [("ETag", "\"\u{1b}]0;x\u{7}\"")])
    let found = CachePages.list(Self.store(answer), CacheSelection(), at: Self.noon)
    for text in [
      CachePages.text(found, withQueries: true, at: Self.noon),
      CachePages.showText(found.answers, withQueries: true, at: Self.noon),
      CachePages.json(found, withQueries: true, at: Self.noon).text,
    ] {
      #expect(text.utf8.allSatisfy { $0 == 0x0a || $0 >= 0x20 && $0 < 0x7f }, "\(text)")
      #expect(text.contains("http://a.example/?[2J???"), "\(text)")
    }
  }

  // MARK: Which are meant

  @Test func answersAreMeantByWhatIsAsked() {
    let cache = Self.store(
      Self.answer(), Self.answer("http://b.example/x", host: "b.example"),
      Self.answer("http://b.example/y", host: "b.example", rule: "s", received: Self.noon - 60_000))
    #expect(Self.urls(cache, CacheSelection()).count == 3)
    #expect(
      Self.urls(cache, CacheSelection(url: ComparableURL(Array("http://b.example/x".utf8)))) == ["http://b.example/x"])
    #expect(Self.urls(cache, CacheSelection(host: "b.example")).count == 2)
    #expect(Self.urls(cache, CacheSelection(rule: "s")) == ["http://b.example/y"])
    #expect(Self.urls(cache, CacheSelection(host: "a.example", rule: "s")) == [])
    for (older, count) in [(0, 3), (1, 1), (60, 1), (61, 0)] as [(Int64, Int)] {
      #expect(Self.urls(cache, CacheSelection(older: older)).count == count, "\(older)")
    }
  }

  @Test func whatIsMeantIsPurgedAndNothingElse() {
    let cache = Self.store(
      Self.answer(), Self.answer("http://b.example/x", host: "b.example"),
      Self.answer("http://b.example/y", host: "b.example"))
    let selection = CacheSelection(host: "b.example")
    #expect(cache.purge(selection, at: Self.noon) == 2)
    #expect(cache.purge(selection, at: Self.noon) == 0)
    #expect(Self.urls(cache, CacheSelection()) == ["http://a.example/x"])
    #expect(cache.purge(CacheSelection(), at: Self.noon) == 1)
    #expect(CacheFacts(cache).answers == 0 && CacheFacts(cache).bytes == 0)
  }

  // MARK: Elsewhere

  private static func facts(_ cache: CacheFacts?) -> AdminFacts {
    let state = DaemonState(
      version: "1.2.3", addresses: ["127.0.0.1:3128"], workers: 2, startedWall: 0, startedMonotonic: 0,
      policy: Policy(), loadedWall: 0)
    return AdminFacts(
      state: state, statistics: Statistics(Policy()), heldBytes: 0, residentBytes: 3 << 20, lostEvents: 0, wall: 61_000,
      monotonic: 60_000,
      cache: cache)
  }

  @Test func theStatusHasALineOfTheStoreWhereThereIsOne() {
    #expect(!StatusPage.text(Self.facts(nil)).contains("cache"))
    let cache = SharedCache(CacheStorage())
    #expect(StatusPage.text(Self.facts(CacheFacts(cache))).contains("\ncache        0 answers, 0 B of 64.0 MiB\n"))
    cache.count(.hit)
    cache.count(.miss)
    #expect(
      StatusPage.text(Self.facts(CacheFacts(cache))).contains(
        "\ncache        0 answers, 0 B of 64.0 MiB; 50 % of 2 requests out of it\n"))
  }

  @Test func theMetricsHaveTheStoreWhereThereIsOne() {
    func page(_ cache: CacheFacts?) -> String {
      var page = ByteBuffer()
      MetricsPage.write(Self.facts(cache), to: &page)
      return page.bytes.string
    }
    #expect(!page(nil).contains("sallyport_cache"))
    let cache = Self.store(Self.answer())
    cache.count(.offline)
    let text = page(CacheFacts(cache))
    for result in CacheResult.allCases {
      let count = result == .offline ? 1 : 0
      #expect(text.contains("\nsallyport_cache_requests_total{result=\"\(result.rawValue)\"} \(count)\n"), "\(result)")
    }
    #expect(text.contains("\nsallyport_cache_answers 1\n") && text.contains("\nsallyport_cache_evictions_total 0\n"))
  }
}
