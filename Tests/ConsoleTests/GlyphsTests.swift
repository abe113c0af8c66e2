// Columns of a terminal: what it would obey, what is wide, what does not fit; and numbers in a few columns.

import Testing

@testable import Console

/// The widths that matter here, whatever the locale of the tests is.
let testGlyphs = Glyphs(isUnicode: true) { scalar in
  switch scalar.value {
  case 0..<0x20, 0x7f..<0xa0, 0xe000..<0xf900: -1
  case 0x300..<0x370: 0
  case 0x1100..<0x1160, 0x3000..<0xa000, 0xff00..<0xff61, 0x1f300..<0x1f700: 2
  default: 1
  }
}

@Suite struct GlyphsTests {
  private let ascii = Glyphs(isUnicode: false) { _ in 1 }

  @Test func whatATerminalObeysIsEscaped() {
    let hostile = "a\u{1b}[31m\u{7}\u{9b}2J\u{202e}\r\n\u{e000}z"
    let safe = testGlyphs.safe(hostile)
    #expect(safe == "a\\u001b[31m\\u0007\\u009b2J\\u202e\\r\\n\\u{e000}z")
    #expect(testGlyphs.safe("plain") == "plain")
    #expect(ascii.safe("é\u{1b}") == "\\u{e9}\\u001b")
  }

  @Test func everyTextFillsItsColumnsExactly() {
    for text in ["", "a", "abcdef", "漢字かな", "a漢b", "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}", "\u{301}x", "\u{1b}[2J"]
    {
      for columns in 1..<10 {
        #expect(testGlyphs.columns(testGlyphs.fit(text, columns)) == columns, "\(text) in \(columns)")
        #expect(testGlyphs.columns(testGlyphs.fit(text, columns, isRight: true)) == columns, "\(text) in \(columns)")
        #expect(ascii.fit(text, columns).utf8.count == columns, "\(text) in \(columns)")
      }
    }
    #expect(testGlyphs.fit("漢字かな", 4) == "漢… ")
    #expect(testGlyphs.fit("12", 4, isRight: true) == "  12")
    #expect(ascii.fit("abcdef", 4) == "abc~")
    #expect(testGlyphs.fit("abc", 0).isEmpty)
  }

  @Test func marksDoNotPileUp() {
    #expect(testGlyphs.safe("a" + String(repeating: "\u{301}", count: 1000)).unicodeScalars.count == 3)
    #expect(testGlyphs.safe("\u{301}\u{301}a") == "a")
  }

  @Test func longLinesGoOnInTheNext() {
    #expect(testGlyphs.wrap("one two three\n\nfour", 8) == ["one two", "three", "", "four"])
    #expect(testGlyphs.wrap("abcdefghij", 4) == ["abcd", "efgh", "ij"])
    #expect(testGlyphs.wrap("漢字か", 5) == ["漢字", "か"])
  }

  @Test func figures() {
    #expect(
      [0, 0.04, 0.4, 9.94, 9.96, 1234, 12_345, 12_345_678].map(Figures.rate)
        == ["0", "0.0", "0.4", "9.9", "10", "1234", "12.3k", "12.3M"])
    #expect(
      [0, 1023, 1024, 1536, 102_400, 1_048_000, 5e9].map(Figures.size)
        == ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "100 KiB", "1023 KiB", "4.7 GiB"])
    #expect(
      [0, 999, 1000, 99_000, 100_000, 7_200_000, 864_000_000].map(Figures.age)
        == ["now", "now", "1s", "99s", "1m", "2h", "10d"])
    #expect(Figures.count(9_999_999) == "9999999" && Figures.count(12_345_678) == "12.3M")
  }

  @Test func moments() {
    #expect(Figures.moment("1970-01-01T00:00:00.000Z") == 0)
    #expect(Figures.moment("2000-02-29T12:30:45.678Z") == 951_827_445_678)
    #expect(Figures.moment("2026-11-20T15:23:56Z") == 1_795_188_236_000)
    for text in [nil, "", "2026-11-20", "2026-13-20T15:23:56Z", "yesterday, at noon..Z"] {
      #expect(Figures.moment(text) == nil)
    }
  }
}
