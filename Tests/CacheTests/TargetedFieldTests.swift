// Fields that speak to one cache (RFC 9213): structured dictionaries (RFC 8941, 4.2), their precedence, what is passed over.

import Policy
import Testing

@testable import Cache

@Suite struct TargetedFieldTests {
  struct Row: Sendable {
    let section: String
    let value: String
    /// nil: the field is passed over.
    let meant: CacheDirectives?

    init(_ section: String, _ value: String, _ change: (inout CacheDirectives) -> Void) {
      self.section = section
      self.value = value
      var meant = CacheDirectives()
      change(&meant)
      self.meant = meant
    }

    init(passedOver section: String, _ value: String) {
      self.section = section
      self.value = value
      meant = nil
    }
  }

  static let dictionaries: [Row] = [
    Row("RFC 9213, 2.1", "max-age=60") { $0.maxAge = 60 },
    Row("RFC 9213, 2.1", "max-age=60, s-maxage=5,no-cache\t,\t must-revalidate") {
      $0.maxAge = 60
      $0.sharedMaxAge = 5
      $0.noCache = true
      $0.revalidation = .byAll
    },
    Row("RFC 9213, 2.1", "no-store, private, public, proxy-revalidate, must-understand, immutable") {
      $0.noStore = true
      $0.isPrivate = true
      $0.isPublic = true
      $0.revalidation = .byProxies
      $0.mustUnderstand = true
    },
    Row("RFC 5861", "stale-while-revalidate=5, stale-if-error=7") {
      $0.staleWhileRevalidate = 5
      $0.staleIfError = 7
    },
    Row("RFC 9213, 2.1", "no-cache=\"Set-Cookie\"") { $0.noCache = true },
    Row("RFC 9213, 2.1", "private=\"Set-Cookie, X\"") { $0.isPrivate = true },
    Row("RFC 9213, 2.1", "foo") { _ in },
    Row("RFC 9213, 2.1", "foo=bar, max-age=60") { $0.maxAge = 60 },
    // Booleans.
    Row("RFC 8941, 4.2.8", "no-store=?1") { $0.noStore = true },
    Row("RFC 8941, 4.2.8", "no-store=?0, max-age=5") { $0.maxAge = 5 },
    // The last of a key is the one that holds.
    Row("RFC 8941, 4.2.2", "max-age=60, max-age=10") { $0.maxAge = 10 },
    Row("RFC 8941, 4.2.2", "max-age=10, max-age=60") { $0.maxAge = 60 },
    Row("RFC 8941, 4.2.2", "no-store, max-age=5, no-store=?0") { $0.maxAge = 5 },
    // Integers.
    Row("RFC 8941, 4.2.4", "max-age=0060") { $0.maxAge = 60 },
    Row("RFC 8941, 4.2.4", "max-age=999999999999999") { $0.maxAge = CacheDirectives.longest },
    Row("RFC 8941, 4.2.4", "max-age=-0") { $0.maxAge = 0 },
    // Values of a type that the directive does not have: they make nothing fresh.
    Row("RFC 9213, 2.1", "max-age=-1") { $0.maxAge = 0 },
    Row("RFC 9213, 2.1", "max-age=60.0") { $0.maxAge = 0 },
    Row("RFC 9213, 2.1", "max-age=\"60\"") { $0.maxAge = 0 },
    Row("RFC 9213, 2.1", "max-age") { $0.maxAge = 0 },
    Row("RFC 9213, 2.1", "max-age=sixty") { $0.maxAge = 0 },
    Row("RFC 9213, 2.1", "max-age=(60)") { $0.maxAge = 0 },
    Row("RFC 9213, 2.1", "max-age=:NjA=:") { $0.maxAge = 0 },
    Row("RFC 9213, 2.1", "no-store=0") { $0.noStore = true },
    Row("RFC 9213, 2.1", "private=no") { $0.isPrivate = true },
    Row("RFC 9213, 2.1", "public=1, max-age=5") {
      $0.maxAge = 5
    },
    Row(
      "RFC 9213, 2.1", "must-understand=\"no\", no-store"
    ) {
      $0.noStore = true
    },
    // Parameters mean nothing.
    Row("RFC 9213, 2.1", "max-age=60;a;b=1; c=\"x;y,z\";d=?0;*e=:YQ==:, no-cache;x") {
      $0.maxAge = 60
      $0.noCache = true
    },
    // Other types, read over.
    Row("RFC 8941, 4.2.2", "a=(1 \"b, c\" d;e=1);f, g=:YQ==:, h=1.125, *i=*j/k:l, m.n-o_p*=?1, max-age=60") {
      $0.maxAge = 60
    },
    Row("RFC 8941, 4.2.1.2", "a=(), b=(  ), c=( 1  2 ), max-age=60") { $0.maxAge = 60 },
    Row("RFC 8941, 4.2.5", "a=\"\\\\ \\\" , max-age=5\", max-age=60") { $0.maxAge = 60 },
    Row("RFC 8941, 4.2", "  max-age=60  ") { $0.maxAge = 60 },
  ]

  static let passedOver: [Row] = [
    Row(passedOver: "RFC 9213, 2.1, empty", ""), Row(passedOver: "RFC 9213, 2.1, empty", "   "),
    Row(passedOver: "RFC 8941, 4.2.2, trailing comma", "max-age=60,"),
    Row(passedOver: "RFC 8941, 4.2.2, trailing comma", "max-age=60, "),
    Row(passedOver: "RFC 8941, 4.2.2, empty member", "max-age=60,, no-store"),
    Row(passedOver: "RFC 8941, 4.2.2, empty member", ",max-age=60"),
    Row(passedOver: "RFC 8941, 4.2.2, no comma", "max-age=60 no-store"),
    Row(passedOver: "RFC 8941, 4.2.2, no comma", "max-age=60; , no-store"),
    Row(passedOver: "RFC 8941, 4.2.3.3, key", "Max-Age=60"), Row(passedOver: "RFC 8941, 4.2.3.3, key", "max-Age=60"),
    Row(passedOver: "RFC 8941, 4.2.3.3, key", "max-age=60, &&&&"),
    Row(passedOver: "RFC 8941, 4.2.3.3, key", "1a, max-age=60"),
    Row(passedOver: "RFC 8941, 4.2.3.3, key", "\"max-age\"=60"), Row(passedOver: "RFC 8941, 4.2.3.3, key", "=60"),
    Row(passedOver: "RFC 8941, 4.2.3.3, key", "max-age=60;A=1"), Row(passedOver: "RFC 8941, 4.2.3.3, key", "-a=1"),
    Row(passedOver: "RFC 8941, 4.2.3.1, no item", "max-age="),
    Row(passedOver: "RFC 8941, 4.2.3.1, no item", "max-age= 60"),
    Row(passedOver: "RFC 8941, 4.2.2, blank before =", "max-age =60"),
    Row(passedOver: "RFC 8941, 4.2.3.1, no item", "max-age=, no-store"),
    Row(passedOver: "RFC 8941, 4.2.3.1, no item", "max-age='60'"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=60a"), Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=-"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=--1"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=+60"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=1000000000000000"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=60."),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=.5"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=1.2345"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=1234567890123.0"),
    Row(passedOver: "RFC 8941, 4.2.4, number", "max-age=1.2.3"),
    Row(passedOver: "RFC 8941, 4.2.5, string", "max-age=60, a=\"b"),
    Row(passedOver: "RFC 8941, 4.2.5, string", "max-age=60, a=\"b\\c\""),
    Row(passedOver: "RFC 8941, 4.2.5, string", "max-age=60, a=\"\u{e9}\""),
    Row(passedOver: "RFC 8941, 4.2.5, string", "max-age=60, a=\"b\\"),
    Row(passedOver: "RFC 8941, 4.2.5, string", "max-age=60, a=\"b\tc\""),
    Row(passedOver: "RFC 8941, 4.2.8, boolean", "no-store=?"),
    Row(passedOver: "RFC 8941, 4.2.8, boolean", "no-store=?2"),
    Row(passedOver: "RFC 8941, 4.2.8, boolean", "no-store=?01"),
    Row(passedOver: "RFC 8941, 4.2.8, boolean", "no-store=?true"),
    Row(passedOver: "RFC 8941, 4.2.1.2, inner list", "max-age=60, a=(1"),
    Row(passedOver: "RFC 8941, 4.2.1.2, inner list", "max-age=60, a=(1,2)"),
    Row(passedOver: "RFC 8941, 4.2.1.2, inner list", "max-age=60, a=(1)2"),
    Row(passedOver: "RFC 8941, 4.2.1.2, inner list", "max-age=60, a=((1))"),
    Row(passedOver: "RFC 8941, 4.2.1.2, inner list", "max-age=60, a=(1\"b\")"),
    Row(passedOver: "RFC 8941, 4.2.1.2, inner list", "max-age=60, a=("),
    Row(passedOver: "RFC 8941, 4.2.7, byte sequence", "max-age=60, a=:YQ=="),
    Row(
      passedOver: "RFC 8941, 4.2.7, byte sequence", "max-age=60, a=:Y!Q:"),
    Row(
      passedOver: "RFC 8941, 4.2.7, byte sequence", "max-age=60, a=:\u{e9}:"),
    Row(passedOver: "RFC 9651, 4.2.9, date", "max-age=60, a=@1.5"),
    Row(passedOver: "RFC 9651, 4.2.9, date", "max-age=60, a=@"),
    Row(passedOver: "RFC 8941, 4.2.3.2, parameters", "max-age=60;a="),
    Row(passedOver: "RFC 8941, 4.2.3.2, parameters", "max-age=60;"),
    Row(passedOver: "RFC 8941, 4.2.3.2, parameters", "max-age=60;a=(1)"),
    Row(passedOver: "RFC 8941, 4.2", "m\u{e4}x-age=60"), Row(passedOver: "RFC 8941, 4.2", "\tmax-age=60"),
  ]

  @Test(arguments: dictionaries + passedOver) func aField(_ row: Row) {
    let read = TargetedField.read(row.value.unicodeScalars.map { UInt8($0.value) })
    #expect(read == row.meant, "\(row.section): \(row.value)")

  }

  // MARK: Precedence

  struct Choice: Sendable {
    let sentence: String
    let lines: [String]
    let targets: [String]
    let lifetime: Int64
    let source: StoredHead.LifetimeSource
    var isStored = true
  }

  private static let cdn = ["sallyport-cache-control", "cdn-cache-control"]

  /// RFC 9213, 2.2: the first of the list that is there, valid and not empty holds alone, without Cache-Control and Expires.
  static let choices: [Choice] = [
    Choice(
      sentence: "a field that is not of the list says nothing",
      lines: ["CDN-Cache-Control: max-age=5", "Cache-Control: max-age=60"], targets: [], lifetime: 60, source: .maxAge),
    Choice(
      sentence: "one of the list goes before Cache-Control",
      lines: ["Cache-Control: max-age=60", "CDN-Cache-Control: max-age=5"], targets: cdn, lifetime: 5, source: .maxAge),
    Choice(
      sentence: "its name is told apart in no case",
      lines: ["Cache-Control: max-age=60", "cDN-cache-CONTROL: max-age=5"],
      targets: cdn, lifetime: 5, source: .maxAge),
    Choice(
      sentence: "the first of the list goes before the second, whichever comes first",
      lines: ["CDN-Cache-Control: max-age=5", "Sallyport-Cache-Control: max-age=7"], targets: cdn, lifetime: 7,
      source: .maxAge),
    Choice(
      sentence: "what cannot be read gives way to the next of the list",
      lines: ["CDN-Cache-Control: max-age=5", "Sallyport-Cache-Control: max-age=7,"], targets: cdn, lifetime: 5,
      source: .maxAge),
    Choice(
      sentence: "what is empty gives way to the next of the list",
      lines: ["CDN-Cache-Control: max-age=5", "Sallyport-Cache-Control:"], targets: cdn, lifetime: 5, source: .maxAge),
    Choice(
      sentence: "what cannot be read gives way to Cache-Control",
      lines: ["CDN-Cache-Control: max-age=5, &&", "Cache-Control: max-age=60"], targets: cdn, lifetime: 60,
      source: .maxAge),
    Choice(
      sentence: "and that may forbid", lines: ["CDN-Cache-Control: max-age=5, &&", "Cache-Control: no-store"],
      targets: cdn, lifetime: 0, source: .none, isStored: false),
    Choice(
      sentence: "no-store of Cache-Control does not count beside it",
      lines: ["CDN-Cache-Control: max-age=5", "Cache-Control: no-store, private"], targets: cdn, lifetime: 5,
      source: .maxAge),
    Choice(
      sentence: "no-store of the targeted field counts",
      lines: ["CDN-Cache-Control: no-store", "Cache-Control: max-age=60"],
      targets: cdn, lifetime: 0, source: .none, isStored: false),
    Choice(
      sentence: "private of the targeted field counts",
      lines: ["CDN-Cache-Control: private, max-age=60", "Cache-Control: max-age=60"], targets: cdn, lifetime: 60,
      source: .maxAge, isStored: false),
    Choice(
      sentence: "Expires does not count beside it", lines: ["CDN-Cache-Control: public", "Expires: \(date(60))"],
      targets: cdn, lifetime: 0, source: .none),
    Choice(
      sentence: "an Expires that is past does not count either",
      lines: ["CDN-Cache-Control: max-age=5", "Expires: 0"], targets: cdn, lifetime: 5, source: .maxAge),
    Choice(
      sentence: "s-maxage of Cache-Control does not count beside it",
      lines: ["CDN-Cache-Control: max-age=5", "Cache-Control: s-maxage=60"], targets: cdn, lifetime: 5, source: .maxAge),
    Choice(
      sentence: "a value of the wrong type makes nothing fresh",
      lines: ["CDN-Cache-Control: max-age=\"60\"", "Cache-Control: max-age=60"], targets: cdn, lifetime: 0,
      source: .maxAge),
    Choice(
      sentence: "its lines are one dictionary",
      lines: ["CDN-Cache-Control: max-age=60", "CDN-Cache-Control: max-age=5"], targets: cdn, lifetime: 5,
      source: .maxAge),
    Choice(
      sentence: "Expires counts where no field of the list can be read",
      lines: ["CDN-Cache-Control: MAX-AGE=5", "Expires: \(date(60))"], targets: cdn, lifetime: 60, source: .expires),
  ]

  @Test(arguments: choices) func theFirstThatHolds(_ row: Choice) {
    let head = answer(200, row.lines + ["Date: \(date(0))"], targets: row.targets)
    #expect(head.lifetime == row.lifetime, "RFC 9213, 2.2: \(row.sentence)")
    #expect(head.lifetimeSource == row.source, "RFC 9213, 2.2: \(row.sentence)")
    #expect((head.refusal(toStoreFor: request()) == nil) == row.isStored, "RFC 9213, 2.2: \(row.sentence)")
  }

  @Test func targetedFieldsAreKeptForThoseBehind() {
    let head = answer(200, ["CDN-Cache-Control: max-age=5", "Cache-Control: max-age=60"], targets: Self.cdn)
    #expect(head.fields.combined("cdn-cache-control") == Array("max-age=5".utf8), "RFC 9213, 3")
    #expect(head.fields.combined("cache-control") == Array("max-age=60".utf8), "RFC 9213, 3")
  }

  @Test func expiresBesideATargetedFieldMakesNothingStorable() {
    let fresh = request(rule: rule { $0.freshFor = 60 })
    let head = answer(302, ["CDN-Cache-Control: x=1", "Expires: \(date(60))"], to: fresh, targets: Self.cdn)
    #expect(head.refusal(toStoreFor: fresh) != nil, "RFC 9213, 2.2")

  }
}
