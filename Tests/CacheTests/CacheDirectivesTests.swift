// How Cache-Control is read (RFC 9111, 5.2): any case, any order, values that cannot be read, several of a kind.

import Testing

@testable import Cache

@Suite struct CacheDirectivesTests {
  struct Row: Sendable {
    let section: String
    let lines: [String]
    let meant: CacheDirectives

    init(
      _ section: String, _ lines: String..., meaning change: (inout CacheDirectives) -> Void
    ) {
      self.section = section
      self.lines = lines.map { "Cache-Control: " + $0 }
      var meant = CacheDirectives()
      change(&meant)
      self.meant = meant
    }
  }

  private static func check(_ row: Row) {
    let read = CacheDirectives(fields(row.lines))
    #expect(read == row.meant, "RFC 9111, \(row.section): \(row.lines)")

  }

  // MARK: Words

  static let words: [Row] = [
    Row("5.2", "no-store") { $0.noStore = true },
    Row("5.2", "No-StOrE") { $0.noStore = true },
    Row("5.2", "no-cache") { $0.noCache = true },
    Row("5.2", "private") { $0.isPrivate = true },
    Row("5.2", "PUBLIC") { $0.isPublic = true },
    Row("5.2", "must-revalidate") { $0.revalidation = .byAll },
    Row("5.2", "proxy-revalidate") { $0.revalidation = .byProxies },
    Row("5.2.2.3", "must-understand, no-store") {
      $0.mustUnderstand = true
      $0.noStore = true
    },
    Row("RFC 8246, 2", "max-age=60, immutable") { $0.maxAge = 60 },
    Row("5.2", "must-revalidate, proxy-revalidate") { $0.revalidation = .byAll },
    Row("5.2", "proxy-revalidate, must-revalidate") { $0.revalidation = .byAll },
    Row("5.2.1.7", "only-if-cached") { $0.onlyIfCached = true },
    Row("5.2.3", "") { _ in },
    Row("5.2.3", "community=\"UCI\", x, y=z") { _ in },
    // A name that begins or ends like one that is known is another.
    Row("5.2.3", "no-stores, xno-store, no-store-x, no_store, nostore, max-ages=5, -max-age=5, s-max-age=5") { _ in },
    Row("RFC 9110, 5.6.1", ",, no-store ,\t, max-age=5,") {
      $0.noStore = true
      $0.maxAge = 5
    },
    Row("RFC 9110, 5.3", "no-store", "max-age=5") {
      $0.noStore = true
      $0.maxAge = 5
    },
    Row("RFC 9110, 5.3", "", "max-age=5", "") { $0.maxAge = 5 },
    Row("5.2", "no-store,max-age=5;x") {
      $0.noStore = true
      $0.maxAge = 0
    },
    // What names fields is read as if it named all of them.
    Row("5.2.2.4", "no-cache=\"Set-Cookie\"") { $0.noCache = true },
    Row("5.2.2.4", "no-cache=\"Set-Cookie, X\", max-age=5") {
      $0.noCache = true
      $0.maxAge = 5
    },
    Row("5.2.2.4", "no-cache=Set-Cookie") { $0.noCache = true },
    Row("5.2.2.7", "private=\"Set-Cookie, max-age=5\"") { $0.isPrivate = true },
    Row("5.2.2.7", "private=\"\"") { $0.isPrivate = true },
    // What forbids holds even where something stands behind it that nobody knows.
    Row("5.2", "no-store=1") { $0.noStore = true },
    Row("5.2", "no-store; x") { $0.noStore = true },
    Row("5.2", "private x") { $0.isPrivate = true },
    Row("5.2", "must-revalidate=0") { $0.revalidation = .byAll },
    // What allows more does not.
    Row("5.2, the strict way", "public x") { _ in
    },
    Row(
      "5.2, the strict way", "must-understand;x, no-store"
    ) {
      $0.noStore = true
    },
  ]

  @Test(arguments: words) func aWord(_ row: Row) { Self.check(row) }

  @Test func aMessageWithoutTheFieldSaysNothing() {
    let read = CacheDirectives(fields(["X-Cache-Control: no-store", "Pragma: no-cache"]))
    #expect(read == CacheDirectives())
  }

  // MARK: Times

  static let times: [(value: String, seconds: Int64)] = [
    ("=0", 0), ("=1", 1), ("=3600", 3600), ("=0003600", 3600), ("=00", 0),
    // Both forms are read (5.2).
    ("=\"3600\"", 3600), ("=\"0\"", 0), ("=\"36\\00\"", 3600),
    // 1.2.2: too large to be told apart.
    ("=2147483647", 2_147_483_647), ("=2147483648", 2_147_483_648), ("=2147483649", 2_147_483_648),
    ("=4294967296", 2_147_483_648), ("=9223372036854775807", 2_147_483_648), ("=9223372036854775808", 2_147_483_648),
    ("=18446744073709551616", 2_147_483_648), ("=99999999999999999999999999999999999999", 2_147_483_648),
    ("=\"99999999999999999999\"", 2_147_483_648),
    // 4.2.1: what is no delta-seconds makes the answer stale.
    ("", 0), ("=", 0), ("=\"\"", 0), ("=-1", 0), ("=-3600", 0), ("=+3600", 0), ("=3600.0", 0), ("=3600.5", 0),
    ("=0.5", 0), ("=a100", 0), ("=100a", 0), ("=1e3", 0), ("=0x10", 0), ("='3600'", 0), ("=3,600", 0),
    ("=3600\"", 0), ("=\" 3600\"", 0), ("=\"3600 \"", 0), ("=3600;", 0), ("=3600;a=b", 0),
    ("=\"3600\"0", 0), ("=\"3600\";a", 0), ("==3600", 0), (" =3600", 0), ("= 3600", 0), (" = 3600", 0),
    ("\t=\t3600", 0), ("=3600 3600", 0), ("=36 00", 0), (":3600", 0), (" 3600", 0), ("=\u{b2}", 0), ("=\u{ff}", 0),
    ("=none", 0), ("=\"max-age=60\"", 0),
  ]

  @Test(arguments: times) func aTime(_ row: (value: String, seconds: Int64)) {
    let value = row.value
    // In `=3,600` the comma ends the directive: what is left is a number.
    let seconds = value == "=3,600" ? 3 : row.seconds
    for (name, path) in Self.timesByName {
      let read = CacheDirectives(fields(["Cache-Control: \(name)\(value)"]))
      #expect(read[keyPath: path] == seconds, "RFC 9111, 1.2.2 and 4.2.1: \(name)\(value)")
      let upper = CacheDirectives(fields(["cache-control: x, \(name.uppercased())\(value)"]))
      #expect(upper[keyPath: path] == seconds, "RFC 9111, 5.2: \(name.uppercased())\(value)")
    }
  }

  /// RFC 9111, 4.2.1: what is no quoted-string is no value.
  @Test func aTimeInAQuotationThatNobodyCloses() {
    #expect(CacheDirectives(fields(["Cache-Control: max-age=\"3600"])).maxAge == 0)

  }

  private static var timesByName: [(String, KeyPath<CacheDirectives, Int64?>)] {
    [
      ("max-age", \.maxAge), ("s-maxage", \.sharedMaxAge), ("stale-while-revalidate", \.staleWhileRevalidate),
      ("stale-if-error", \.staleIfError),
    ]
  }

  static let several: [Row] = [
    // 4.2.1: of several the first, or stale; 4.2.1 of conflicts: the one that restricts most.
    Row("4.2.1", "max-age=60, max-age=60") { $0.maxAge = 60 },
    Row("4.2.1", "max-age=1, max-age=3600") { $0.maxAge = 1 },
    Row("4.2.1", "max-age=3600, max-age=1") { $0.maxAge = 1 },
    Row("4.2.1", "max-age=3600", "max-age=1") { $0.maxAge = 1 },
    Row("4.2.1", "max-age=3600, max-age=x") { $0.maxAge = 0 },
    Row("4.2.1", "max-age=x, max-age=3600") { $0.maxAge = 0 },
    Row("4.2.1", "s-maxage=60, S-MAXAGE=5, max-age=9") {
      $0.sharedMaxAge = 5
      $0.maxAge = 9
    },
    Row("4.2.1", "max-age=3600, no-cache, no-store") {
      $0.maxAge = 3600
      $0.noCache = true
      $0.noStore = true
    },
    Row("RFC 5861, 3", "stale-while-revalidate=5, stale-while-revalidate=50") { $0.staleWhileRevalidate = 5 },
    Row("RFC 5861, 4", "stale-if-error=50, stale-if-error") { $0.staleIfError = 0 },
  ]

  @Test(arguments: several) func severalOfAKind(_ row: Row) { Self.check(row) }

  // MARK: Quotation marks

  static let quotations: [Row] = [
    Row("5.2.3", "x=\"max-age=3600\", max-age=1") { $0.maxAge = 1 },
    Row("5.2.3", "max-age=1, x=\"max-age=0\"") { $0.maxAge = 1 },
    Row("5.2.3", "x=\"a, no-store, b\"") { _ in },
    Row("5.2.3", "x=\"a, public, max-age=60\"") { _ in },
    Row("5.2.3", "x=\"a\\\", max-age=60\", no-cache") { $0.noCache = true },
    Row("5.2.3", "x=\"a\\\\\", max-age=60") { $0.maxAge = 60 },
    Row("5.2.3", "x='a, max-age=60', public") {
      $0.maxAge = 0
      $0.isPublic = true
    },
    Row("5.2.3", "x=a\"b, no-store, \"c") { $0.noStore = true },
    // A quotation that nobody closes must hide nothing that forbids.
    Row("5.2, the strict way", "max-age=60, x=\"a, no-store") {
      $0.maxAge = 60
      $0.noStore = true
    },
    Row(
      "5.2, the strict way", "x=\"a", "private, max-age=60"
    ) {
      $0.isPrivate = true
      $0.maxAge = 60
    },
    Row("5.2, the strict way", "x=\"a\\", "no-store") {
      $0.noStore = true
    },
  ]

  @Test(arguments: quotations) func aQuotation(_ row: Row) { Self.check(row) }

  // MARK: Requests

  static let asked: [Row] = [
    Row("5.2.1.2", "max-stale") { $0.maxStale = .max },
    Row("5.2.1.2", "max-stale=60") { $0.maxStale = 60 },
    Row("5.2.1.2", "max-stale=\"60\"") { $0.maxStale = 60 },
    Row("5.2.1.2", "max-stale, max-stale=60") { $0.maxStale = 60 },
    Row("5.2.1.2", "max-stale=60, max-stale") { $0.maxStale = 60 },
    Row("5.2.1.2", "max-stale=") { $0.maxStale = 0 },
    Row("5.2.1.2", "max-stale=x") { $0.maxStale = 0 },
    Row("5.2.1.2", "max-stale=-1") { $0.maxStale = 0 },
    Row("5.2.1.2", "max-stale 60") { $0.maxStale = 0 },
    Row("1.2.2", "max-stale=99999999999999999999") { $0.maxStale = CacheDirectives.longest },
    Row("5.2.1.3", "min-fresh=60") { $0.minFresh = 60 },
    Row("5.2.1.3", "min-fresh=60, min-fresh=90") { $0.minFresh = 90 },
    Row("5.2.1.3", "min-fresh=90, min-fresh=60") { $0.minFresh = 90 },
    Row("5.2.1.3", "min-fresh") { $0.minFresh = CacheDirectives.longest },
    Row("5.2.1.3", "min-fresh=x") { $0.minFresh = CacheDirectives.longest },
    Row("5.2.1.3", "min-fresh=60;") { $0.minFresh = CacheDirectives.longest },
    Row("5.2.1.1", "max-age=0, max-stale") {
      $0.maxAge = 0
      $0.maxStale = .max
    },
    Row("5.2.1.1", "max-age") { $0.maxAge = 0 },
  ]

  @Test(arguments: asked) func whatARequestAsks(_ row: Row) { Self.check(row) }

  @Test func noLineBreaksTheReader() {
    let parts = [
      "max-age", "s-maxage", "no-store", "x", "=", "\"", "\\", ",", " ", "\t", "60", "99999999999999999999", ";",
      "\u{ff}",
    ]
    var chance = Seeded(state: 9111)
    for _ in 0..<4000 {
      let line = (0..<Int.random(in: 0...12, using: &chance)).map { _ in
        parts[Int.random(in: 0..<parts.count, using: &chance)]
      }
      let read = CacheDirectives(fields(["Cache-Control: " + line.joined()]))
      #expect(read.maxAge.map { (0...CacheDirectives.longest).contains($0) } ?? true, "\(line)")
      #expect(read.sharedMaxAge.map { (0...CacheDirectives.longest).contains($0) } ?? true, "\(line)")
    }
  }
}
