// A table for people: columns as wide as their contents, and no wider in total than the terminal. Without a terminal,
// nothing is cut. Tests: test_history.py.

import Policy

struct TextTable {
  struct Column {
    let title: String
    var isNumber = false
  }

  private let columns: [Column]
  private let width: Int?
  private var rows: [[String]] = []
  private var widths: [Int]

  /// Only the last column is cut. `width`: of the terminal; nil if there is none.
  init(_ columns: [Column], width: Int?) {
    self.columns = columns
    self.width = width
    widths = columns.map(\.title.count)
  }

  var count: Int { rows.count }

  /// Characters in a cell that a terminal would interpret are escaped.
  mutating func add(_ cells: [String]) {
    let cells = cells.map(\.printable)
    for index in cells.indices { widths[index] = max(widths[index], cells[index].unicodeScalars.count) }
    rows.append(cells)
  }

  /// The rows since the last call, with a head if `hasHead`.
  mutating func take(hasHead: Bool) -> String {
    var text = hasHead ? line(columns.map(\.title)) : ""
    for row in rows { text += line(row) }
    rows = []
    return text
  }

  private func line(_ cells: [String]) -> String {
    var line = ""
    for (index, cell) in cells.enumerated() {
      let isLast = index == cells.count - 1
      let padding = String(repeating: " ", count: max(0, widths[index] - cell.unicodeScalars.count))
      line += columns[index].isNumber ? padding + cell : isLast ? cell : cell + padding
      if !isLast { line += "  " }
    }
    guard let width, line.unicodeScalars.count > width else { return line + "\n" }
    return String(String.UnicodeScalarView(line.unicodeScalars.prefix(max(1, width - 1)))) + "…\n"
  }
}
