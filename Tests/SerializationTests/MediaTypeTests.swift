// Content-Type values: what is read of them, everything that is malformed, and the letter of RFC 9110 as a pattern to
// compare with.

import Bytes
import TestSupport
import Testing

@testable import Serialization

@Suite struct MediaTypeTests {
  struct Row: Sendable {
    let sentence: String
    let value: String
    let essence: String
    var charset = MediaType.Charset.unstated
    var boundary: String?
  }

  static let accepted: [Row] = [
    Row(sentence: "a type", value: "text/html", essence: "text/html"),
    Row(sentence: "one letter each", value: "a/b", essence: "a/b"),
    Row(sentence: "every character of a token", value: "!#$%&'*+-.^_`|~/09AZaz", essence: "!#$%&'*+-.^_`|~/09AZaz"),
    Row(sentence: "a suffix", value: "application/vnd.api+json", essence: "application/vnd.api+json"),
    Row(sentence: "a charset", value: "text/html;charset=utf-8", essence: "text/html", charset: .utf8),
    Row(sentence: "a charset in capitals", value: "text/html; CHARSET=UTF-8", essence: "text/html", charset: .utf8),
    Row(sentence: "utf8 without its hyphen", value: "text/html; charset=utf8", essence: "text/html", charset: .utf8),
    Row(sentence: "a charset in quotes", value: "text/html; charset=\"utf-8\"", essence: "text/html", charset: .utf8),
    Row(sentence: "an escaped charset", value: "text/html; charset=\"u\\tf-8\"", essence: "text/html", charset: .utf8),
    Row(sentence: "US-ASCII", value: "text/plain; charset=US-ASCII", essence: "text/plain", charset: .usASCII),
    Row(sentence: "another charset", value: "text/html; charset=utf-16", essence: "text/html", charset: .other),
    Row(
      sentence: "an empty charset in quotes", value: "text/html; charset=\"\"", essence: "text/html", charset: .other),
    Row(sentence: "single quotes are characters", value: "a/b; charset='utf-8'", essence: "a/b", charset: .other),
    Row(sentence: "a parameter that begins alike", value: "a/b; charsets=utf-8", essence: "a/b"),
    Row(
      sentence: "a boundary", value: "multipart/form-data; boundary=xYz", essence: "multipart/form-data",
      boundary: "xYz"),
    Row(
      sentence: "a boundary in quotes", value: "a/b; boundary=\"a b;c\\\"\\\\d\"", essence: "a/b",
      boundary: "a b;c\"\\d"),
    Row(sentence: "an empty boundary in quotes", value: "a/b; boundary=\"\"", essence: "a/b", boundary: ""),
    Row(
      sentence: "two parameters", value: "a/b;boundary=x;charset=utf-8", essence: "a/b", charset: .utf8, boundary: "x"),
    Row(sentence: "blanks around semicolons", value: "a/b \t; \tcharset=utf-8", essence: "a/b", charset: .utf8),
    Row(sentence: "a semicolon and nothing", value: "a/b;", essence: "a/b"),
    Row(sentence: "a semicolon and blanks", value: "a/b; ", essence: "a/b"),
    Row(sentence: "empty parameters", value: "a/b;; ;charset=utf-8;", essence: "a/b", charset: .utf8),
    Row(sentence: "bytes above ASCII in quotes", value: "a/b;x=\"\u{e9}\t\"", essence: "a/b"),
    Row(
      sentence: "an escaped byte above ASCII", value: "a/b;boundary=\"\\\u{e9}\"", essence: "a/b", boundary: "\u{e9}"),
    Row(
      sentence: "as many parameters as there may be",
      value: "a/b" + (1...MediaType.maximumParameters).map { ";p\($0)=1" }.joined(), essence: "a/b"),
  ]

  static let malformed: [(sentence: String, value: String)] = [
    ("nothing", ""), ("a blank", " "), ("no slash", "text"), ("a slash alone", "/"), ("no type", "/html"),
    ("no subtype", "text/"), ("no subtype, but a parameter", "text/;charset=utf-8"),
    ("two slashes", "text/html/x"), ("a blank before it", " text/html"), ("a blank behind it", "text/html "),
    ("a blank before the slash", "text /html"), ("a blank behind the slash", "text/ html"),
    ("two types", "text/html, text/plain"), ("two types without a blank", "text/html,text/plain"),
    ("a comma", "text/html,"), ("a comma behind a parameter", "text/html;a=b, text/plain"),
    ("a parameter without a semicolon", "text/html charset=utf-8"),
    ("a parameter without a value", "text/html; charset"),
    ("an empty value", "text/html; charset="), ("a value without a name", "text/html; =utf-8"),
    ("a blank before the equals sign", "text/html; charset =utf-8"),
    ("a blank behind the equals sign", "text/html; charset= utf-8"),
    ("two equals signs", "text/html; charset==utf-8"), ("an open quote", "text/html; charset=\"utf-8"),
    ("an escape and nothing", "text/html; charset=\"utf-8\\"),
    ("an escaped last quote", "text/html; charset=\"utf-8\\\""),
    ("something behind a quote", "text/html; charset=\"utf-8\"x"), ("two values", "a/b; x=\"a\"\"b\""),
    ("a control character in quotes", "a/b; x=\"\u{1}\""), ("an escaped control character", "a/b; x=\"\\\u{0}\""),
    ("DEL in quotes", "a/b; x=\"\u{7f}\""), ("a bare CR", "text/html\r"), ("a NUL", "text/html\u{0}"),
    ("a byte above ASCII", "text/html\u{e9}"), ("a byte above ASCII in a value", "a/b; x=\u{e9}"),
    ("a parameter twice", "a/b; charset=utf-8; charset=utf-8"),
    ("a parameter twice in two cases", "a/b; charset=utf-8; x=y; CharSet=utf-16"),
    ("quotes around it", "\"text/html\""), ("angle brackets", "<text/html>"), ("a colon", "a:b/c"),
    ("a parameter too many", "a/b" + (0...MediaType.maximumParameters).map { ";p\($0)=1" }.joined()),
  ]

  @Test(arguments: accepted) func isRead(row: Row) throws {
    GuardedMemory(capacity: 4096).lend(octets(row.value)) { value in
      guard let type = MediaType(value) else {
        Issue.record("\(row.sentence): malformed")
        return
      }
      #expect(value.extracting(type.essence).array == octets(row.essence), "\(row.sentence)")
      let parts = row.essence.split(separator: "/").map { octets(String($0)) }
      #expect(value.extracting(type.type).array == parts[0] && value.extracting(type.subtype).array == parts[1])
      #expect(type.charset(in: value) == row.charset, "\(row.sentence)")
      #expect(type.parameter("boundary", in: value) == row.boundary.map { octets($0) }, "\(row.sentence)")
      #expect(type.parameter("absent", in: value) == nil)
    }
  }

  @Test(arguments: malformed) func isRefused(sentence: String, value: String) {
    #expect(GuardedMemory(capacity: 4096).lend(octets(value)) { MediaType($0) == nil }, "\(sentence)")
  }

  @Test func typesCompareWithoutRegardToCase() throws {
    let value = octets("Application/JSON; charset=utf-8")
    let type = try #require(MediaType(value))
    #expect(type.equals("application", "json", in: value))
    #expect(!type.equals("application", "jso", in: value))
    #expect(!type.equals("applicatio", "json", in: value))
    #expect(!type.equals("text", "json", in: value))
  }

  // MARK: The letter of RFC 9110

  /// media-type of RFC 9110, 8.3.1, with the names of the parameters as captures.
  static func followsTheLetter(_ bytes: [UInt8]) -> Bool {
    let token = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
    let quoted = "\"(?:[\\t\\x20\\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*\""
    let parameter = "\(token)=(?:\(token)|\(quoted))"
    let pattern = "^\(token)/\(token)(?:[ \\t]*;[ \\t]*(?:\(parameter))?)*$"
    let text = String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    guard let regex = try? Regex(pattern).matchingSemantics(.unicodeScalar) else { fatalError("no pattern") }
    return (try? regex.wholeMatch(in: text)) != nil
  }

  @Test func truncatedAndDamagedValuesAreJudgedByTheLetter() {
    var generator = SeededGenerator(seed: 3)
    let memory = GuardedMemory(capacity: 4096)
    let telling = octets("/;=\"\\ \t,aZ0\r\u{0}\u{7f}\u{e9}")
    let specimens = Self.accepted.map { octets($0.value) }.filter { $0.count < 60 }
    var judged = specimens.flatMap { specimen in (0...specimen.count).map { Array(specimen.prefix($0)) } }
    for round in 0..<600 {
      var value = specimens[round % specimens.count]
      let place = Int.random(in: 0...value.count, using: &generator)
      value.insert(telling.randomElement(using: &generator) ?? 0, at: place)
      judged.append(value)
    }
    for value in judged {
      // No specimen has a name twice, and a single byte more makes none.
      let isRead = memory.lend(value) { MediaType($0) != nil }
      #expect(isRead == Self.followsTheLetter(value), "\(shown(value))")
    }
  }
}
