// Content-Range (RFC 9110, 14.4).

import Testing

@testable import Cache

@Suite struct ContentRangeTests {
  struct Row: Sendable {
    let text: String
    let meant: ContentRange?
  }

  static let rows: [Row] = [
    Row(text: "bytes 0-499/1234", meant: ContentRange(0..<500, of: 1234)),
    Row(text: "BYTES 500-1233/1234", meant: ContentRange(500..<1234, of: 1234)),
    Row(text: "bytes 0-0/1", meant: ContentRange(0..<1, of: 1)),
    Row(text: "bytes 42-1233/*", meant: ContentRange(42..<1234, of: nil)),
    Row(text: "bytes 0-1234/1234", meant: nil),
    Row(text: "bytes 5-4/10", meant: nil),
    Row(text: "bytes */1234", meant: nil),
    Row(text: "bytes 0-1", meant: nil),
    Row(text: "bytes 0-1/", meant: nil),
    Row(text: "bytes -1/5", meant: nil),
    Row(text: "bytes 0-/5", meant: nil),
    Row(text: "bytes 0 - 1/5", meant: nil),
    Row(text: "bytes 0-1/5, bytes 2-3/5", meant: nil),
    Row(text: "bytes  0-1/5", meant: nil),
    Row(text: "bytes=0-1/5", meant: nil),
    Row(text: "items 0-1/5", meant: nil),
    Row(text: "bytes +0-1/5", meant: nil),
    Row(text: "bytes 0-1/1234567890123456789", meant: nil),
    Row(text: "bytes", meant: nil),
    Row(text: "", meant: nil),
  ]

  @Test(arguments: rows) func itIsRead(row: Row) {
    #expect(ContentRange(Array(row.text.utf8)) == row.meant, "\(row.text)")
    #expect(ContentRange(fields(["Content-Range: \(row.text)"])) == row.meant)
  }

  @Test func twoOfThemAreNone() {
    #expect(ContentRange(fields(["Content-Range: bytes 0-1/5", "Content-Range: bytes 0-1/5"])) == nil)
    #expect(ContentRange(fields([])) == nil)
  }
}
