// Where references of Location and Refresh lead: how each spelling is read, and which rules let it through. The spellings are
// those of RFC 3986 (5.4), and those on which curl, Chromium, Firefox, Python and older clients have differed.

import Policy
import Testing

@testable import Session

@Suite struct RedirectTargetTests {
  private static func read(_ text: String) -> RedirectTarget { RedirectTarget.read(Array(text.utf8).span) }

  private static func at(_ scheme: String, _ host: String, _ port: UInt16? = nil) -> RedirectTarget {
    .absolute(scheme: scheme, place: RedirectTarget.Place(host: Array(host.utf8), port: port))
  }

  private static func elsewhere(_ scheme: String) -> RedirectTarget { .absolute(scheme: scheme, place: nil) }

  // MARK: Reading

  @Test(arguments: [
    "", "/", "/b", "/b/c?d=e#f", "b", "b/c", "./b", "../b", "../../..", ".", "..", "?d", "#f", "b?u=http://c/", "/a:b",
    "./a:b", "/b//c", "/.//c", "/..//c", "b//c", ";x", "*", "%2f%2fc", "/%5cc", "/%09/c", "/@c", "a@b", "-1",
    "/b?d#", "~u/", "1/2:3", "?http://c", "#//c",
  ]) func itStaysWithTheHost(text: String) {
    #expect(Self.read(text) == .samePlace)
  }

  @Test(arguments: ["//c", "//c/", "//c.example:80/x", "///c", "////c", "//", "//u@c", "//a.example/x"])
  func itNamesAnotherHostByTheSameScheme(text: String) {
    #expect(Self.read(text) == .networkPath)
  }

  @Test(arguments: [
    ("http://a.example", at("http", "a.example")), ("http://a.example/", at("http", "a.example")),
    ("HTTP://A.Example/x", at("http", "a.example")), ("https://a.example:/x", at("https", "a.example")),
    ("https://a.example:443/x", at("https", "a.example", 443)),
    ("http://a.example:8080?x", at("http", "a.example", 8080)),
    ("http://a.example#f", at("http", "a.example")), ("http://a.example./x", at("http", "a.example.")),
    ("http://192.0.2.1/", at("http", "192.0.2.1")), ("http://[2001:DB8::1]:80/", at("http", "[2001:db8::1]", 80)),
    ("ftp://a.example/", at("ftp", "a.example")), ("http://a.example/@b", at("http", "a.example")),
    ("http://a.example/?u=//b@c", at("http", "a.example")), ("coap+tcp://a.example", at("coap+tcp", "a.example")),
  ]) func itNamesItsHost(text: String, expected: RedirectTarget) {
    #expect(Self.read(text) == expected)
  }

  /// Each has been another host to one client than to another, or would be.
  @Test(arguments: [
    ("user information", "https://a.example@b.example/"), ("with a password", "https://a.example:443@b.example/"),
    ("an empty one", "https://@a.example/"), ("a sign for at", "https://a.example%40b.example/"),
    ("a backslash before at", "https://b.example\\@a.example/"), ("a backslash for a slash", "https://a.example\\b"),
    ("a backslash within the path", "https://a.example/b\\c"), ("a mark before at", "https://a.example?@b.example/"),
    ("a hash before at", "https://a.example#@b.example/"), ("two hashes", "https://a.example/#b#c"),
    ("an escape in the host", "https://%61.example/"), ("a dot that is none", "https://a%E3%80%82example/"),
    ("a full-width dot", "https://a\u{3002}example/"), ("a letter like another", "https://\u{430}.example/"),
    ("a soft hyphen", "https://a\u{ad}.example/"), ("no host", "https:///a.example/"), ("nothing", "https://"),
    ("a port alone", "https://:443/"), ("a port of zero", "https://a.example:0/"),
    ("a leading zero", "https://a.example:0443/"), ("a sign", "https://a.example:+443/"),
    ("a blank in the port", "https://a.example:44 3/"), ("a port out of range", "https://a.example:65979/"),
    ("two ports", "https://a.example:443:80/"), ("letters", "https://a.example:x/"),
    ("a blank in the path", "https://a.example/b c"),
    ("a tab in the host", "https://a.exa\tmple/"), ("bytes above ASCII", "https://a.example/\u{e9}"),
    ("a broken escape", "https://a.example/%zz"), ("an escape that breaks off", "https://a.example/%4"),
    ("quotes", "https://a.example/\"x\""), ("angles", "https://a.example/<x>"), ("braces", "https://a.example/{x}"),
    ("a bar", "https://a.example/x|y"), ("brackets in the path", "https://a.example/[x]"),
    ("an address that goes on", "https://[::1].b.example/"), ("no end of an address", "https://[::1/"),
    ("a zone", "https://[fe80::1%25eth0]/"), ("a comma of two hosts", "https://a.example,b.example/"),
    ("a semicolon", "https://a.example;b.example/"), ("a control", "https://a.example/\u{1}"),
  ]) func theSchemeIsClearAndTheHostIsNot(_: String, text: String) {
    #expect(Self.read(text) == Self.elsewhere("https"))
  }

  @Test(arguments: [
    "https:/a.example/", "https:a.example", "https:", "http:/x", "https:\\\\a.example/", "https:/\\a.example/",
    "https:\\/a.example", "ht\ttps://a.example/", " https://a.example/", "\u{1}https://a.example", "\\\\b.example/",
    "/\\b.example/", "\\/b.example", "/\t/b.example", "\t//b.example", "/ /b.example", " /b", "b c", "/\u{e9}", "/b\\c",
    "a.example:80/x", "localhost:8080", "javascript:alert(1)", "data:text/html,x", "mailto:a@b", "about:blank", ":80",
    "1.2.3.4:80/", "/[x]", "?[x]", "%zz", "/b#c#d", "\u{feff}/b", "/b\u{a0}", "\"/b\"", "<https://a.example/>", "-a:b",
    "/a|b", "_x:y/z", "%41:x",
  ]) func itIsReadInTwoWays(text: String) {
    #expect(Self.read(text) == .unclear)
  }

  // MARK: Refresh

  @Test(arguments: [
    ("5", RedirectTarget.samePlace), ("0.5", .samePlace), ("5 ", .samePlace), ("5; url=/b", .samePlace),
    ("5;url=", .samePlace), ("0, URL = b", .samePlace), ("0;Url='b?c'", .samePlace), ("0;url=\"/b\"", .samePlace),
    ("0; url=//c", .networkPath), ("0;url='https://a.example/'", at("https", "a.example")),
    ("3;url=http://a.example:80/;x", at("http", "a.example", 80)),
    ("0;url=https://a.example/b,c", at("https", "a.example")),
    ("", .unclear), ("x", .unclear), (".5", .unclear), ("-1; url=/b", .unclear), ("5;", .unclear), ("5; /b", .unclear),
    ("0; https://b.example/", .unclear), ("0 url=/b", .unclear), ("0; link=/b", .unclear), ("0; url:/b", .unclear),
    ("0; url='/b", .unclear), ("0; url='/b' x", .unclear), ("0; url=/b'c", .unclear), ("0; url=\"/b'c\"", .unclear),
    ("0; url=/b c", .unclear), ("0;; url=/b", .unclear), ("0; url='", .unclear), ("0; url=\\\\b", .unclear),
    ("0; url==/b", .samePlace), ("url=/b", .unclear), ("5x; url=/b", .unclear),
  ]) func refresh(text: String, expected: RedirectTarget) {
    #expect(RedirectTarget.read(refresh: Array(text.utf8).span) == expected)
  }

  // MARK: Rules

  private static let clear = SentURL(scheme: .http, host: Array("a.example".utf8), port: 80, programScheme: .http)
  private static let secure = SentURL(scheme: .https, host: Array("a.example".utf8), port: 443, programScheme: .https)
  private static let raised = SentURL(scheme: .https, host: Array("a.example".utf8), port: 443, programScheme: .http)
  private static let odd = SentURL(scheme: .http, host: Array("a.example".utf8), port: 8080, programScheme: .http)

  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let sent: SentURL
    let text: String
    let sameHost: Bool
    let sameScheme: Bool

    init(_ sentence: String, _ sent: SentURL, _ text: String, sameHost: Bool, sameScheme: Bool) {
      testDescription = sentence
      self.sent = sent
      self.text = text
      self.sameHost = sameHost
      self.sameScheme = sameScheme
    }
  }

  static let rows = [
    Row("a path", clear, "/b", sameHost: true, sameScheme: true),
    Row("a path of an upgraded request", raised, "/b", sameHost: true, sameScheme: true),
    Row("the same host", clear, "http://A.example/b", sameHost: true, sameScheme: true),
    Row("its port in full", clear, "http://a.example:80/b", sameHost: true, sameScheme: true),
    Row("an empty port", odd, "http://a.example:/b", sameHost: false, sameScheme: true),
    Row("another port", clear, "http://a.example:81/b", sameHost: false, sameScheme: true),
    Row("the same odd port", odd, "http://a.example:8080/b", sameHost: true, sameScheme: true),
    Row("the scheme rises", clear, "https://a.example/b", sameHost: true, sameScheme: false),
    Row("it rises to the port in full", clear, "https://a.example:443/b", sameHost: true, sameScheme: false),
    Row("it rises to another port", clear, "https://a.example:8443/b", sameHost: false, sameScheme: false),
    Row("it rises from another port", odd, "https://a.example/b", sameHost: false, sameScheme: false),
    Row("it rises on one odd port", odd, "https://a.example:8080/b", sameHost: false, sameScheme: false),
    Row("the scheme falls", secure, "http://a.example/b", sameHost: false, sameScheme: false),
    Row("it falls on its own port", secure, "http://a.example:443/b", sameHost: false, sameScheme: false),
    Row("the scheme of an upgraded request falls", raised, "http://a.example/b", sameHost: false, sameScheme: false),
    Row("the scheme of an upgraded request stays", raised, "https://a.example/b", sameHost: true, sameScheme: true),
    Row("another host", secure, "https://b.example/", sameHost: false, sameScheme: true),
    Row("a host below", secure, "https://www.a.example/", sameHost: false, sameScheme: true),
    Row("a host that begins so", secure, "https://a.example.b.example/", sameHost: false, sameScheme: true),
    Row("a dot at the end", secure, "https://a.example./", sameHost: false, sameScheme: true),
    Row("user information", secure, "https://a.example@b.example/", sameHost: false, sameScheme: true),
    Row("a backslash behind the host", secure, "https://a.example\\@b.example/", sameHost: false, sameScheme: true),
    Row("two slashes", secure, "//a.example/", sameHost: false, sameScheme: true),
    Row("two slashes of an upgraded request", raised, "//a.example/", sameHost: false, sameScheme: false),
    Row("another scheme", clear, "ftp://a.example/", sameHost: false, sameScheme: false),
    Row("a script", clear, "javascript:x", sameHost: false, sameScheme: false),
    Row("one slash", secure, "https:/b.example/", sameHost: false, sameScheme: false),
    Row("a tab in the scheme", secure, "ht\ttps://a.example/", sameHost: false, sameScheme: false),
    Row("a path above ASCII", secure, "/\u{e9}", sameHost: false, sameScheme: false),
  ]

  @Test(arguments: rows) func whatARuleLetsThrough(row: Row) {
    let target = Self.read(row.text)
    #expect(row.sent.mayLead(to: target, by: .pass))
    #expect(!row.sent.mayLead(to: target, by: .deny))
    #expect(row.sent.mayLead(to: target, by: .sameHost) == row.sameHost)
    #expect(row.sent.mayLead(to: target, by: .sameScheme) == row.sameScheme)
  }

  /// Whatever is changed in a redirect that stays, it is read as staying only where it still names the host.
  @Test func noByteLeadsAway() {
    let text = Array("http://a.example/b".utf8)
    for at in 0..<text.count {
      for byte in UInt8.min...UInt8.max {
        for changed in [text[..<at] + [byte] + text[(at + 1)...], text[..<at] + [byte] + text[at...]] {
          let changed = Array(changed)
          guard Self.clear.mayLead(to: RedirectTarget.read(changed.span), by: .sameHost) else { continue }
          let lower = String(decoding: changed, as: UTF8.self).lowercased()
          let stays =
            ["http://a.example/", "https://a.example/", "http://a.example:/", "http://a.example?", "http://a.example#"]
            .contains { lower.hasPrefix($0) }
          #expect(stays || !lower.prefix { !"/?#".contains($0) }.contains(":"), "\(lower)")
          #expect(!lower.contains("\\") && !lower.hasPrefix("//") && changed.allSatisfy { $0 > 0x20 && $0 < 0x7f })
        }
      }
    }
  }

  @Test(arguments: [
    ("https://u:secret@b.example/x?token=1#f", "https://b.example/x"), ("/b?c", "/b"), ("a\tb\u{7f}", "a?b?"),
    ("http://b.example\\u:p@c", "http://b.example\\c"), ("//u@b", "//b"),
  ]) func noSecretIsShown(text: String, expected: String) {
    #expect(SentURL.shown(Array(text.utf8).span) == expected)
  }
}
