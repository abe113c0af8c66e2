// Entries of `acceptable_content_types`: what they match, how they are written, and what is said of wrong ones.

import TestSupport
import Testing

@testable import Serialization

@Suite struct MediaRangeTests {
  static let matching: [(range: String, type: String, matches: Bool)] = [
    ("application/json", "application/json", true),
    ("application/json", "Application/JSON", true),
    ("APPLICATION/Json", "application/json", true),
    ("application/json", "application/json; charset=utf-16", true),
    ("application/json", "application/jso", false),
    ("application/json", "application/json5", false),
    ("application/json", "text/json", false),
    ("application/json", "application/vnd.api+json", false),
    ("text/*", "text/html", true),
    ("Text/*", "TEXT/x", true),
    ("text/*", "texts/html", false),
    ("text/*", "application/text", false),
    ("*/*", "application/octet-stream", true),
    ("+json", "application/vnd.api+json", true),
    ("+JSON", "application/problem+Json; charset=utf-8", true),
    ("+json", "image/x+json", true),
    ("+json", "application/json", false),
    ("+json", "application/+json", false),
    ("+json", "application/x+jsonl", false),
    ("+json", "application/x+json+xml", false),
    ("+json", "application/x+xml+json", true),
    ("+json", "application/xjson", false),
    ("+json-seq", "application/geo+json-seq", true),
    ("image/svg+xml", "image/svg+xml", true),
  ]

  @Test func rangesMatchTypes() throws {
    for row in Self.matching {
      let range = try MediaRange.parse(row.range).get()
      let value = octets(row.type)
      let type = try #require(MediaType(value), "\(row.type)")
      #expect(range.matches(type, in: value) == row.matches, "\(row.range) and \(row.type)")
    }
  }

  @Test func rangesAreWrittenInLowerCaseAndReadAsThemselves() throws {
    for text in ["Application/JSON", "Text/*", "*/*", "+JSON", "image/svg+XML", "x.a-b/c_d!#$&^"] {
      let range = try MediaRange.parse(text).get()
      #expect(range.description == text.lowercased())
      #expect(try MediaRange.parse(range.description).get() == range)
    }
    #expect(try Set(["A/b", "a/B", "a/b"].map { try MediaRange.parse($0).get() }).count == 1)
  }

  static let refused: [(text: String, says: String)] = [
    ("", "expected 'type/subtype', 'type/*', '*/*' or a suffix such as '+json', found nothing"),
    ("json", "'json' has no slash"),
    ("text/html; charset=utf-8", "'text/html; charset=utf-8' has a parameter"),
    ("text/html ;q=1", "compared without theirs; write 'text/html'"),
    ("; charset=utf-8", "compared without theirs; leave it out"),
    ("a/b, c/d", "holds a comma"),
    ("*", "write '*/*'"),
    ("*/json", "wildcard in a place where none may stand"),
    ("application/*+json", "wildcard in a place where none may stand"),
    ("text/ht*", "wildcard in a place where none may stand"),
    (" text/html", "white space"),
    ("text/html\n", "white space or a control character"),
    ("/", "found '/'"), ("text/", "found 'text/'"), ("/html", "found '/html'"), ("a/b/c", "found 'a/b/c'"),
    ("+", "found '+'"), ("+a+b", "found '+a+b'"), ("+json/x/y", "found '+json/x/y'"),
    ("téxt/html", "found 't\\xc3\\xa9xt/html'"),
    (String(repeating: "x", count: 1000), "'xxxxxxxxxxxxxxxxxxxxxxxx…' has no slash"),
  ]

  @Test(arguments: refused) func whatIsNoRangeIsSaidSo(text: String, says: String) {
    switch MediaRange.parse(text) {
    case .success(let range): Issue.record("'\(text)' became \(range)")
    case .failure(let fault):
      #expect(fault.description.contains(says), "\(fault)")
      #expect(fault.description.utf8.count < 200)
    }
  }

  /// The default lists of sallyport.toml(5).
  @Test func theDefaultsAreRanges() throws {
    let defaults = [
      "application/json", "text/json", "text/javascript", "application/xml", "text/xml", "application/x-plist",
      "image/tiff", "image/jpeg", "image/gif", "image/png", "image/ico", "image/x-icon", "image/bmp", "image/x-bmp",
      "image/x-xbitmap", "image/x-win-bitmap", "image/webp", "image/avif",
    ]
    for text in defaults { #expect(try MediaRange.parse(text).get().description == text) }
  }
}
