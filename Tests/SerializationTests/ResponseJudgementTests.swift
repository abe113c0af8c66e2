// Status and type together, then the content: every serializer, compounds in order, and what is never held.

import Bytes
import Testing

@testable import Serialization

@Suite struct ResponseJudgementTests {
  private static let limits = ContentLimits(heldBytes: 1 << 20, jsonDepth: 4, imagePixels: 100)

  /// Judges a whole response and says what came of it, in short.
  private func judge(
    _ serialization: ResponseSerialization, _ status: Int = 200, type: String?, _ content: String?
  ) -> String {
    let bytes = Array((type ?? "").utf8)
    let head = serialization.judgeHead(
      status: status, contentType: type.map { _ in 0..<bytes.count }, in: bytes.span, hasContent: content != nil)
    var words = head.violations.map { "\($0.subject.rawValue): \($0.seen)" }
    guard head.looksAtContent, let content else { return words.isEmpty ? "passes" : words.joined(separator: "; ") }
    var buffer = ByteBuffer()
    buffer.append(content)
    var tools = ContentTools()
    var rewritten = ByteBuffer()
    switch serialization.judgeContent(
      &buffer, head, charset: nil, limits: Self.limits, tools: &tools, rewritten: &rewritten)
    {
    case .accepted: if words.isEmpty { words = ["accepted"] }
    case .rewritten: words.append("rewritten \(rewritten.bytes.string)")
    case .violation(let violation): words.append("\(violation.subject.rawValue): \(violation.seen)")
    }
    return words.joined(separator: "; ")
  }

  private static let json = ResponseSerialization(kinds: [.json])

  struct Row: CustomTestStringConvertible, Sendable {
    let testDescription: String
    let serialization: ResponseSerialization
    var status = 200
    let type: String?
    let content: String?
    let outcome: String

    init(
      _ sentence: String, _ serialization: ResponseSerialization, _ status: Int = 200, type: String?,
      _ content: String?,
      _ outcome: String
    ) {
      testDescription = sentence
      self.serialization = serialization
      self.status = status
      self.type = type
      self.content = content
      self.outcome = outcome
    }
  }

  static let rows: [Row] = [
    Row("http takes any type", ResponseSerialization(), type: "a/b", "x", "passes"),
    Row("http takes what has no type", ResponseSerialization(), type: nil, "x", "passes"),
    Row("http takes a malformed type", ResponseSerialization(), type: ";;", "x", "passes"),
    Row("http looks at the status", ResponseSerialization(), 404, type: "a/b", "x", "status: 404"),
    Row("JSON", json, type: "application/json; charset=utf-8", "[1]", "accepted"),
    Row("a type in capitals", json, type: "TEXT/JSON", "[1]", "accepted"),
    Row("a wrong type is named before content is held", json, type: "text/html", "[1]", "content_type: text/html"),
    Row("a wrong type without content is wrong too", json, type: "text/html", nil, "content_type: text/html"),
    Row("no type where there is content", json, type: nil, "[1]", "content_type: none"),
    Row("no type where there is none", json, type: nil, nil, "passes"),
    Row(
      "two types in one", json, type: "application/json, text/html", "[1]", "content_type: application/json, text/html"),
    Row("both are wrong: the status is named first", json, 500, type: "a/b", "[1]", "status: 500; content_type: a/b"),
    Row(
      "malformed content", json, type: "text/json", "[1",
      "body: a fault at line 1, column 3: expected ',' or ']' behind an element, found the end of the body"),
    Row(
      "a bad status and malformed content", json, 500, type: "text/json", "[",
      "status: 500; body: a fault at line 1, column 2: expected a value or ']' behind '[', found the end of the body"),
    Row(
      "nesting beyond the limit", json, type: "text/json", "[[[[[]]]]]",
      "body: a fault at line 1, column 5: expected at most 4 arrays and objects inside one another, found one more"),
    Row("a space alone is no content", json, type: "text/json", " ", "accepted"),
    Row(
      "two spaces are content", json, type: "text/json", "  ",
      "body: a fault at line 1, column 3: expected a value, found nothing but white space"),
    Row("nothing is no content", json, type: "text/json", "", "accepted"),
    Row(
      "a suffix", ResponseSerialization(kinds: [.json], acceptableTypes: MediaRange.listed("+json")),
      type: "application/problem+json", "{}", "accepted"),
    Row(
      "a list of one's own takes the place of the standard one",
      ResponseSerialization(kinds: [.json], acceptableTypes: MediaRange.listed("text/*")), type: "application/json",
      "{}", "content_type: application/json"),
    Row(
      "any type", ResponseSerialization(kinds: [.json], acceptableTypes: MediaRange.listed("*/*")), type: nil, "{}",
      "accepted"),
    Row(
      "an event stream is not held", ResponseSerialization(kinds: [.json], acceptableTypes: MediaRange.listed("*/*")),
      type: "text/event-stream", "data", "size: an event stream"),
    Row("the second of a compound", ResponseSerialization(kinds: [.json, .xml]), type: "text/xml", "<a/>", "accepted"),
    Row(
      "a compound with types for all tries each",
      ResponseSerialization(kinds: [.json, .xml], acceptableTypes: MediaRange.listed("*/*")), type: "a/b", "<a/>",
      "accepted"),
    Row(
      "where none accepts the first one's fault is told",
      ResponseSerialization(kinds: [.json, .xml], acceptableTypes: MediaRange.listed("*/*")), type: "a/b", "?",
      "body: a fault at line 1, column 1: expected a value, found '?'"),
    Row(
      "a compound does not fall back to anything", ResponseSerialization(kinds: [.json, .xml]), type: "a/b", "x",
      "content_type: a/b; body: a fault at line 1, column 1: expected a value, found 'x'"),
    Row(
      "http at the end takes the rest unseen", ResponseSerialization(kinds: [.json, .http]), type: "text/json", "[",
      "passes"),
    Row(
      "http behind one that removes nulls", ResponseSerialization(kinds: [.json, .http], removesNulls: true),
      type: "text/json", "[null]", "rewritten []"),
    Row(
      "and where that is malformed", ResponseSerialization(kinds: [.json, .http], removesNulls: true),
      type: "text/json", "[null", "accepted"),
    Row(
      "nulls are removed", ResponseSerialization(kinds: [.json], removesNulls: true), type: "text/json", "[null, 1.0]",
      "rewritten [ 1.0]"),
    Row(
      "no nulls, nothing rewritten", ResponseSerialization(kinds: [.json], removesNulls: true), type: "text/json",
      "[1.0]", "accepted"),
    Row(
      "a part is not rewritten", ResponseSerialization(kinds: [.json], removesNulls: true), 206, type: "text/json",
      "[null]", "accepted"),
    Row(
      "what passes only annotated is not rewritten", ResponseSerialization(kinds: [.json], removesNulls: true), 404,
      type: "text/json", "[null]", "status: 404"),
    Row(
      "XML", ResponseSerialization(kinds: [.xml]), type: "text/xml", "<a><b></a>",
      "body: a fault at line 1, column 9: expected the end tag of 'b', found '</a>'"),
    Row(
      "a property list", ResponseSerialization(kinds: [.plist]), type: "application/x-plist",
      "<plist version=\"1.0\"><true/></plist>", "accepted"),
  ]

  @Test(arguments: rows) func whatComesOfAResponse(row: Row) {
    #expect(judge(row.serialization, row.status, type: row.type, row.content) == row.outcome)
  }

  @Test func whatIsNoImageIsRefused() {
    let outcome = judge(ResponseSerialization(kinds: [.image]), type: "image/png", "GIF89b")
    #expect(outcome.hasPrefix("body: a fault at byte 0: "))
  }

  @Test func aStandardListNamesWhatIsExpectedOnce() {
    let both = ResponseSerialization(kinds: [.xml, .json, .xml])
    #expect(
      both.acceptableTypesDescription == "application/xml, text/xml, application/json, text/json, text/javascript")
  }
}

@Suite struct StatusRangesTests {
  @Test func rangesThatMeetBecomeOne() {
    let ranges = StatusRanges([404...404, 200...204, 205...299, 250...260])
    #expect(ranges.description == "200-299, 404")
    for (status, isIn) in [(199, false), (200, true), (299, true), (300, false), (404, true), (405, false)] {
      #expect(ranges.contains(status) == isIn)
    }
    #expect(StatusRanges.successful.description == "200-299")
  }
}
