// A stored answer as a client gets it: 304 (RFC 9110, 13), one range (14.2), and the head that is written (RFC 9111, 4).

import Bytes
import Policy
import Testing

@testable import Cache

@Suite struct PresentationTests {
  struct Row: Sendable {
    let section: String
    var status = 200
    let lines: [String]
    let asked: [String]
    var length: UInt64? = 100
    var method = Method.get
    let meant: Presentation

    enum Method: Sendable { case get, head }
  }

  private static let tag = "ETag: \"1\""
  private static let modified = "Last-Modified: \(date(-3600))"
  private static let now = "Date: \(date(0))"

  // MARK: Conditions

  static let conditions: [Row] = [
    Row(section: "13.1.2", lines: [tag], asked: [], meant: .whole),
    Row(section: "13.1.2", lines: [tag], asked: ["If-None-Match: \"1\""], meant: .notModified),
    Row(section: "13.1.2", lines: [tag], asked: ["If-None-Match: \"2\""], meant: .whole),
    Row(section: "13.1.2, weakly", lines: [tag], asked: ["If-None-Match: W/\"1\""], meant: .notModified),
    Row(section: "13.1.2, weakly", lines: ["ETag: W/\"1\""], asked: ["If-None-Match: \"1\""], meant: .notModified),
    Row(section: "13.1.2, a list", lines: [tag], asked: ["If-None-Match: \"a\", W/\"1\" ,\"b\""], meant: .notModified),
    Row(
      section: "13.1.2, a list", lines: [tag], asked: ["If-None-Match: \"a\"", "If-None-Match: \"1\""],
      meant: .notModified),
    Row(section: "13.1.2, a list", lines: [tag], asked: ["If-None-Match: \"a, \"1\", b\""], meant: .whole),
    Row(
      section: "13.1.2, a list", lines: ["ETag: \"a,b\""], asked: ["If-None-Match: \"x\", \"a,b\""], meant: .notModified
    ),
    Row(section: "13.1.2, a list", lines: ["ETag: \"a\""], asked: ["If-None-Match: \"x,\"a\",\""], meant: .whole),
    Row(section: "13.1.2, *", lines: [tag], asked: ["If-None-Match: *"], meant: .notModified),
    Row(section: "13.1.2, *", lines: [], asked: ["If-None-Match: *"], meant: .notModified),
    Row(section: "13.1.2", lines: [], asked: ["If-None-Match: \"1\""], meant: .whole),
    Row(section: "13.1.2", lines: [tag], asked: ["If-None-Match:"], meant: .whole),
    Row(section: "13.1.2", lines: [tag], asked: ["If-None-Match: 1"], meant: .whole),
    Row(section: "8.8.3, case counts", lines: ["ETag: \"a\""], asked: ["If-None-Match: \"A\""], meant: .whole),
    Row(section: "8.8.3, case counts", lines: ["ETag: W/\"a\""], asked: ["If-None-Match: w/\"a\""], meant: .whole),
    Row(
      section: "8.8.3, two tags are none", lines: [tag, "ETag: \"2\""], asked: ["If-None-Match: \"1\""], meant: .whole),
    Row(section: "13.1.2, HEAD", lines: [tag], asked: ["If-None-Match: \"1\""], method: .head, meant: .notModified),
    // If-Modified-Since
    Row(section: "13.1.3", lines: [modified], asked: ["If-Modified-Since: \(date(-3600))"], meant: .notModified),
    Row(section: "13.1.3", lines: [modified], asked: ["If-Modified-Since: \(date(-3599))"], meant: .notModified),
    Row(section: "13.1.3", lines: [modified], asked: ["If-Modified-Since: \(date(-3601))"], meant: .whole),
    Row(
      section: "13.1.3", lines: [modified], asked: ["If-Modified-Since: Sunday, 01-Mar-26 11:00:00 GMT"],
      meant: .notModified),
    Row(
      section: "13.1.3", lines: [modified], asked: ["If-Modified-Since: Sun Mar  1 11:00:00 2026"], meant: .notModified),
    Row(
      section: "13.1.3", lines: [modified], asked: ["If-Modified-Since: sun, 01 mar 2026 11:00:00 gmt"],
      meant: .notModified),
    Row(section: "13.1.3, no date", lines: [modified], asked: ["If-Modified-Since: now"], meant: .whole),
    Row(
      section: "13.1.3, no date", lines: [modified], asked: ["If-Modified-Since: \(date(0)), \(date(0))"], meant: .whole
    ),
    Row(
      section: "13.1.3, more than one", lines: [modified],
      asked: ["If-Modified-Since: \(date(0))", "If-Modified-Since: \(date(0))"],
      meant: .whole),
    Row(
      section: "13.1.3, HEAD", lines: [modified], asked: ["If-Modified-Since: \(date(0))"], method: .head,
      meant: .notModified),
    Row(
      section: "RFC 9111, 4.3.2, Date instead", lines: [now], asked: ["If-Modified-Since: \(date(0))"],
      meant: .notModified),
    Row(
      section: "RFC 9111, 4.3.2, Date instead", lines: [now], asked: ["If-Modified-Since: \(date(-1))"], meant: .whole),
    Row(
      section: "RFC 9111, 4.3.2, the arrival instead", lines: [], asked: ["If-Modified-Since: \(date(-1))"],
      meant: .whole),
    Row(
      section: "RFC 9111, 4.3.2, the arrival instead", lines: [], asked: ["If-Modified-Since: \(date(0))"],
      meant: .notModified),
    // 13.2.2: If-None-Match goes before it, whichever way it turns out.
    Row(
      section: "13.2.2", lines: [tag, modified], asked: ["If-None-Match: \"2\"", "If-Modified-Since: \(date(0))"],
      meant: .whole),
    Row(
      section: "13.2.2", lines: [tag, modified], asked: ["If-None-Match: \"1\"", "If-Modified-Since: \(date(-9999))"],
      meant: .notModified),
    Row(
      section: "13.2.2", lines: [modified], asked: ["If-None-Match: \"1\"", "If-Modified-Since: \(date(0))"],
      meant: .whole),
    // 13.2.1: a condition says nothing where the answer is none of success.
    Row(section: "13.2.1", status: 404, lines: [tag], asked: ["If-None-Match: \"1\""], meant: .whole),
    Row(section: "13.2.1", status: 404, lines: [tag], asked: ["If-None-Match: *"], meant: .whole),
    Row(section: "13.2.1", status: 301, lines: [modified], asked: ["If-Modified-Since: \(date(0))"], meant: .whole),
  ]

  // MARK: Ranges

  private static func range(_ set: String, _ meant: Presentation, length: UInt64? = 100) -> Row {
    Row(section: "14.1.2", lines: [tag], asked: ["Range: " + set], length: length, meant: meant)
  }

  static let ranges: [Row] = [
    range("bytes=0-0", .part(0..<1, of: 100)), range("bytes=0-99", .part(0..<100, of: 100)),
    range("bytes=10-19", .part(10..<20, of: 100)), range("bytes=99-99", .part(99..<100, of: 100)),
    range("bytes=0-", .part(0..<100, of: 100)), range("bytes=99-", .part(99..<100, of: 100)),
    range("bytes=90-100", .part(90..<100, of: 100)), range("bytes=90-999999999999999999", .part(90..<100, of: 100)),
    range("bytes=0010-0019", .part(10..<20, of: 100)), range("BYTES=1-2", .part(1..<3, of: 100)),
    range("bytes=-1", .part(99..<100, of: 100)), range("bytes=-100", .part(0..<100, of: 100)),
    range("bytes=-101", .part(0..<100, of: 100)), range("bytes=-999999999999999999", .part(0..<100, of: 100)),
    range("bytes=100-", .unsatisfiable(of: 100)), range("bytes=100-200", .unsatisfiable(of: 100)),
    range("bytes=-0", .unsatisfiable(of: 100)), range("bytes=0-", .unsatisfiable(of: 0), length: 0),
    range("bytes=0-0", .unsatisfiable(of: 0), length: 0),
    range(
      "bytes=-5", .whole, length: 0),
    // 14.2: what is no range, of another unit, or more than one gets the whole.
    range("bytes=19-10", .whole), range("bytes=-", .whole), range("bytes=", .whole), range("bytes", .whole),
    range("", .whole),
    range("bytes=a-b", .whole), range("bytes=0-b", .whole), range("bytes=0", .whole), range("bytes=--5", .whole),
    range("bytes=0--5", .whole), range("bytes=+0-5", .whole), range("bytes=0x0-5", .whole),
    range("bytes=0-5-6", .whole),
    range("bytes:0-5", .whole), range("bytes 0-5", .whole), range("bytes =0-5", .whole), range("bytes=0 - 5", .whole),
    range("octets=0-5", .whole), range("items=0-5", .whole), range("xbytes=0-5", .whole), range("0-5", .whole),
    range("bytes=0-1,5-6", .whole), range("bytes=0-1, 0-1", .whole), range("bytes=-1,-2", .whole),
    range("bytes=1.0-2", .whole), range("bytes=\u{b2}-5", .whole), range("bytes=\"0-5\"", .whole),
    range("bytes=0-5", .whole, length: nil), range("bytes=500-", .whole, length: nil),
    Row(section: "14.2, GET alone", lines: [tag], asked: ["Range: bytes=0-1"], method: .head, meant: .whole),
    Row(
      section: "14.2, more than one line", lines: [tag], asked: ["Range: bytes=0-1", "Range: bytes=0-1"], meant: .whole),
    Row(section: "14.2, 200 alone", status: 404, lines: [tag], asked: ["Range: bytes=0-1"], meant: .whole),
    Row(
      section: "13.2.2, If-None-Match goes before Range", lines: [tag],
      asked: ["Range: bytes=0-1", "If-None-Match: \"1\""],
      meant: .notModified),
    Row(
      section: "13.2.2", lines: [tag], asked: ["Range: bytes=0-1", "If-None-Match: \"2\""], meant: .part(0..<2, of: 100)
    ),
  ]

  // MARK: If-Range

  private static func ifRange(_ lines: [String], _ asked: String..., isPart: Bool) -> Row {
    Row(
      section: "13.1.5", lines: lines, asked: ["Range: bytes=0-1"] + asked.map { "If-Range: " + $0 },
      meant: isPart ? .part(0..<2, of: 100) : .whole)
  }

  static let ifRanges: [Row] = [
    ifRange([tag], "\"1\"", isPart: true), ifRange([tag], "\"2\"", isPart: false),
    ifRange([tag], "W/\"1\"", isPart: false),
    ifRange(["ETag: W/\"1\""], "W/\"1\"", isPart: false), ifRange(["ETag: W/\"1\""], "\"1\"", isPart: false),
    ifRange([], "\"1\"", isPart: false), ifRange([tag], "1", isPart: false), ifRange(["ETag: 1"], "1", isPart: false),
    ifRange([tag], "", isPart: false), ifRange([tag], "*", isPart: false),
    ifRange([tag], "\"1\", \"2\"", isPart: false),
    ifRange([tag], "\"1\"", "\"1\"", isPart: false), ifRange(["ETag: \"a, b\""], "\"a, b\"", isPart: true),
    ifRange([tag, "ETag: \"2\""], "\"1\"", isPart: false),
    ifRange([now, modified], date(-3600), isPart: true),
    ifRange([now, modified], "Sunday, 01-Mar-26 11:00:00 GMT", isPart: true),
    // The date must be exactly the one that is stored, no later one.
    ifRange([now, modified], date(-3599), isPart: false), ifRange([now, modified], date(-3601), isPart: false),
    ifRange([now, modified], date(0), isPart: false), ifRange([now, modified], "yesterday", isPart: false),
    ifRange([now], date(0), isPart: false),
    // 8.8.2.2: a date is a strong validator only if the answer is younger than the change by enough.
    ifRange([now, "Last-Modified: \(date(0))"], date(0), isPart: false),
    ifRange([now, "Last-Modified: \(date(10))"], date(10), isPart: false),
  ]

  @Test(arguments: conditions + ranges + ifRanges) func whatAClientGets(_ row: Row) {
    let asked = request(row.asked, row.method == .get ? .get : .head)
    let presentation = Presentation(of: answer(row.status, row.lines), for: asked, length: row.length)
    #expect(presentation == row.meant, "RFC 9110, \(row.section): \(row.lines), \(row.asked)")
  }

  @Test func ifRangeWithoutRangeSaysNothing() {
    let head = answer(200, [Self.tag])
    #expect(Presentation(of: head, for: request(["If-Range: \"2\""]), length: 100) == .whole, "RFC 9110, 13.1.5")
  }

  /// Every range of a short content, against what is cut out of it by hand (RFC 9110, 14.1.2).
  @Test func everyRangeOfAShortContent() {
    for length in 0...6 {
      for first in 0...8 {
        for last in 0...8 {
          let part = Presentation.part(Array("bytes=\(first)-\(last)".utf8), of: UInt64(length))
          let places = (0..<length).filter { $0 >= first && $0 <= last }
          if last < first {
            #expect(part == .whole)
          } else if let low = places.first, let high = places.last {
            #expect(part == .part(UInt64(low)..<UInt64(high + 1), of: UInt64(length)))
          } else {
            #expect(part == .unsatisfiable(of: UInt64(length)))
          }
        }
      }
    }
  }

  // MARK: Heads

  private static let full = [
    now, "ETag: \"1\"", "Content-Type: text/x", "Cache-Control: max-age=60", "Vary: X", "Expires: \(date(60))",
    "Content-Location: /x", modified, "X: y", "Set-Cookie: a=b", "Age: 3", "Content-Length: 100",
  ]

  private static func head(
    _ presentation: Presentation, _ lines: [String] = full, status: Int = 200, age: Int64 = 7, length: UInt64? = 100
  ) -> [String] {
    var buffer = ByteBuffer()
    presentation.write(answer(status, lines), age: age, length: length, to: &buffer)
    let written = buffer.bytes.string
    #expect(written.hasSuffix("\r\n\r\n"))
    return written.split(separator: "\r\n", omittingEmptySubsequences: true).map(String.init)
  }

  @Test func theWhole() {
    let written = Self.head(.whole)
    #expect(written.first == "HTTP/1.1 200 OK")
    #expect(written.dropFirst() == Self.full.dropLast(2) + ["Age: 7", "Content-Length: 100"], "RFC 9111, 4 and 5.1")
    #expect(Self.head(.whole, ["Date: \(date(0))"], status: 404).first == "HTTP/1.1 404 OK")
    #expect(Self.head(.whole, length: nil).last == "Transfer-Encoding: chunked", "RFC 9112, 6.3")
    #expect(Self.head(.whole, length: 0).last == "Content-Length: 0")
    #expect(
      Self.head(.whole, [Self.now], status: 204, length: 0) == ["HTTP/1.1 204 OK", Self.now, "Age: 7"], "RFC 9110, 8.6")
  }

  /// RFC 9110, 15.4.5: what the whole would have of these, and nothing else that describes the content.
  @Test func notModified() {
    let written = Self.head(.notModified)
    #expect(written.first == "HTTP/1.1 304 Not Modified")
    for line in [
      Self.now, "ETag: \"1\"", "Cache-Control: max-age=60", "Vary: X", "Expires: \(date(60))", "Content-Location: /x",
      "Age: 7",
    ] {
      #expect(written.filter { $0 == line }.count == 1, "RFC 9110, 15.4.5: \(line)")
    }
    for name in ["Content-Type", "Content-Length", "Transfer-Encoding", "Set-Cookie"] {
      #expect(!written.contains { $0.hasPrefix(name + ":") }, "RFC 9110, 15.4.5: \(name)")
    }
  }

  /// RFC 9110, 15.3.7.
  @Test func aPart() {
    let written = Self.head(.part(10..<15, of: 100))
    #expect(written.first == "HTTP/1.1 206 Partial Content")
    for line in [
      "Content-Range: bytes 10-14/100", "Content-Length: 5", Self.now, "ETag: \"1\"", "Cache-Control: max-age=60",
      "Vary: X",
      "Expires: \(date(60))", "Content-Location: /x", "Content-Type: text/x", "Age: 7",
    ] {
      #expect(written.filter { $0 == line }.count == 1, "RFC 9110, 15.3.7: \(line)")
    }
    #expect(!written.contains { $0.hasPrefix("Transfer-Encoding:") })
  }

  /// RFC 9110, 14.4: a Content-Range that a 200 bears means nothing, and a part has one of its own.
  @Test func aPartHasOneContentRange() {
    let written = Self.head(.part(10..<15, of: 100), ["Content-Range: bytes 0-1/2"])
    #expect(written.filter { $0.hasPrefix("Content-Range:") } == ["Content-Range: bytes 10-14/100"], "RFC 9110, 14.4")

  }

  /// RFC 9110, 15.5.17.
  @Test func noPart() {
    let written = Self.head(.unsatisfiable(of: 100))
    #expect(written.first == "HTTP/1.1 416 Range Not Satisfiable")
    #expect(written.contains("Content-Range: bytes */100"))
    #expect(written.contains("Content-Length: 0"))
    for name in ["Content-Type", "ETag", "Cache-Control", "Set-Cookie"] {
      #expect(!written.contains { $0.hasPrefix(name + ":") }, "RFC 9110, 15.5.17: \(name)")
    }
  }

  @Test(arguments: [(0, "Age: 0"), (-5, "Age: 0"), (2_147_483_700, "Age: 2147483700")] as [(Int64, String)])
  func ages(age: Int64, line: String) {
    #expect(Self.head(.whole, age: age).filter { $0.hasPrefix("Age:") } == [line], "RFC 9111, 5.1")
  }
}
