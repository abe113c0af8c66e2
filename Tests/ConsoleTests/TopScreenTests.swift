// The lines of every view, in every size: always as wide as the terminal, and as many as it has.

import Testing

@testable import Console

@Suite struct TopScreenTests {
  private func busy() -> TopModel {
    var model = TopModel(testGlyphs)
    let hostile = "\u{1b}[2Jx漢字e\u{301}\u{202e}"
    let escaped = "\\u001b[2Jx漢字e\u{301}\\u202e"
    for round in 0..<2 {
      let time = Int64(round) * 1000
      model.take(
        .status, statusText(total: round * 9_999_999, more: #", "cache": {"results": {"hit": 1, "miss": 2}}"#), at: time
      )
      model.take(
        .asks, #"{"asks": [{"ref": "Q", "url": "\#(escaped)", "method": "\#(escaped)"}], "temporary": []}"#, at: time)
      model.take(
        .rules, #"[{"name": "\#(escaped)", "hits": 1, "action": "deny", "location": "/e/s.toml:3"}]"#, at: time)
      model.take(
        .connections, list((0..<50).map { connectionText("R\($0)", host: escaped, bytes: $0 << (20 * round)) }),
        at: time)
      model.take(.decisions, list((0..<50).map { decisionText("D\(round)x\($0)", host: "\(escaped)\($0)") }), at: time)
      model.take(.refusals, list((0..<50).map { decisionText("F\($0)", host: escaped, user: escaped) }), at: time)
    }
    #expect(hostile.contains("漢"))
    return model
  }

  @Test func everyLineIsAsWideAsTheTerminal() {
    var model = busy()
    for view in ["1", "2", "3", "4", "5", "?"] {
      model.type(view)
      for (columns, lines) in [
        (80, 24), (40, 8), (41, 9), (79, 25), (132, 50), (300, 100), (39, 24), (80, 7), (1, 1), (10, 3),
      ] {
        model.resize(columns: columns, lines: lines)
        let screen = model.text
        #expect(screen.count == lines, "\(view) in \(columns)x\(lines)")
        for line in screen {
          #expect(testGlyphs.columns(line) == columns, "\(view) in \(columns)x\(lines): \(line)")
          let isClean = line.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7f && $0.value != 0x202e }
          #expect(isClean)
        }
      }
    }
  }

  @Test func theSelectedRowIsAlwaysOnTheScreen() {
    var model = busy()
    model.type("2")
    model.resize(columns: 80, lines: 10)
    for key in [TopKey.end, .up, .pageUp, .home, .down, .pageDown, .pageDown] {
      _ = model.press(key)
      #expect(model.screen.filter { $0.contains { $0.style == .selected } }.count == 2, "the view and the row")
    }
    _ = model.press(.end)
    model.resize(columns: 80, lines: 8)
    #expect(model.screen.filter { $0.contains { $0.style == .selected } }.count == 2)
  }

  @Test func columnsThatDoNotFitAreLeftOut() {
    for view in TopView.allCases {
      let shown = view.columns
      #expect(TopScreen.headLines == 4)
      let widths = TopModel.widths(of: shown, 80)
      #expect(widths.allSatisfy { $0 > 0 }, "all of \(view) in 80 columns")
      #expect(widths.reduce(-1) { $0 + $1 + 1 } == 80, "\(view)")
      // The mark of the sorted column does not cut a title.
      for (column, width) in zip(shown, widths) where column.title != "AGE" && column.title != "N" {
        #expect(width >= column.title.utf8.count, "\(view) \(column.title)")
      }
      #expect(TopModel.widths(of: shown, 40).filter { $0 > 0 }.count >= 3)
      #expect(shown.indices.contains(view.usualSort.column) && shown.indices.contains(view.secondColumn))
    }
  }
}
