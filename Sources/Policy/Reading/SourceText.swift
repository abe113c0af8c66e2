// The text of a configuration file, for the excerpts of diagnostics.
//
// Before a line is shown, every range that may contain a secret is replaced by "…", whatever the diagnostic is about.
// The caret stays under the right character: it is placed while the shown text is assembled, so hidden ranges, escapes
// and tabs move it together with the text. Tests: DiagnosticTests, SecretTests.

/// One file. Immutable except for its hidden ranges, which are known once the file has been parsed.
final class SourceText {
  /// Most characters of a line in an excerpt; a longer line is cut around the caret.
  static let longestExcerpt = 160

  let name: String
  private let bytes: [UInt8]
  private let lineStarts: [Int]
  /// In the order of the source.
  private var concealed: [Range<TOMLPosition>] = []
  /// The last line that was shown: thousands of findings may be about one that is long.
  private var shown: (line: Int, cells: [Cell])? = nil

  init(name: String, bytes: [UInt8]) {
    self.name = name
    self.bytes = bytes
    var starts = [0]
    for index in bytes.indices where bytes[index] == 0x0a { starts.append(index + 1) }
    lineStarts = starts
  }

  var lineCount: Int { lineStarts.count }

  func location(_ position: TOMLPosition) -> SourceLocation {
    SourceLocation(file: name, line: position.line, column: position.column)
  }

  /// Hides `ranges`, which are in the order of the source and do not overlap.
  func conceal(_ ranges: [Range<TOMLPosition>]) {
    concealed = ranges
    shown = nil
  }

  /// Whether part of the line is hidden.
  func conceals(line: Int) -> Bool { !concealment(of: line).isEmpty }

  /// The bytes of a line without its end.
  func line(_ number: Int) -> ArraySlice<UInt8> {
    guard number >= 1, number <= lineStarts.count else { return [] }
    let start = lineStarts[number - 1]
    var end = number < lineStarts.count ? lineStarts[number] - 1 : bytes.count
    if end > start, bytes[end - 1] == 0x0d { end -= 1 }
    return bytes[start..<end]
  }

  func excerpt(at position: TOMLPosition) -> Excerpt? {
    guard position.line >= 1, position.line <= lineStarts.count else { return nil }
    let cells = shown.flatMap { $0.line == position.line ? $0.cells : nil } ?? self.cells(of: position.line)
    shown = (position.line, cells)
    let caret = cells.firstIndex { $0.columns.upperBound > position.column }
    return Self.excerpt(cells, caret: caret ?? cells.count)
  }

  /// A piece of the shown line, and the source columns that it represents.
  private struct Cell {
    var text: String
    var columns: Range<Int>
  }

  private func cells(of line: Int) -> [Cell] {
    let hidden = concealment(of: line)
    var cells: [Cell] = []
    var column = 0
    for scalar in String(decoding: self.line(line), as: UTF8.self).unicodeScalars {
      column += 1
      if let range = hidden.first(where: { $0.contains(column) }) {
        if column == range.lowerBound {
          // Keeps quotation marks if there were any: a missing one may be the fault.
          let isBare = !["\"", "'", "[", "{"].contains(scalar)
          for piece in isBare ? ["…"] : ["\"", "…", "\""] {
            cells.append(Cell(text: piece, columns: column..<range.upperBound))
          }
        }
        continue
      }
      let isKept = scalar == "\t" || !scalar.isUnprintable
      cells.append(Cell(text: isKept ? String(scalar) : scalar.escaped, columns: column..<column + 1))
    }
    return Self.withoutComment(cells, behind: hidden.last?.lowerBound)
  }

  /// A comment after a hidden value may contain its previous value: it is hidden too.
  private static func withoutComment(_ cells: [Cell], behind column: Int?) -> [Cell] {
    guard let column else { return cells }
    var quote: String? = nil
    for (index, cell) in cells.enumerated() where cell.columns.lowerBound > column {
      if let open = quote {
        if cell.text == open { quote = nil }
      } else if cell.text == "\"" || cell.text == "'" {
        quote = cell.text
      } else if cell.text == "#" {
        return Array(cells[..<index])
      }
    }
    return cells
  }

  /// The hidden columns of a line.
  private func concealment(of line: Int) -> [Range<Int>] {
    // Ranges are in order, so a binary search finds the first that does not end before the line.
    var low = 0
    var high = concealed.count
    while low < high {
      let middle = (low + high) / 2
      if concealed[middle].upperBound.line < line { low = middle + 1 } else { high = middle }
    }
    var columns: [Range<Int>] = []
    while low < concealed.count, concealed[low].lowerBound.line <= line {
      let range = concealed[low]
      let from = range.lowerBound.line == line ? range.lowerBound.column : 1
      let to = range.upperBound.line == line ? range.upperBound.column : Int.max
      if from < to { columns.append(from..<to) }
      low += 1
    }
    return columns
  }

  private static func excerpt(_ cells: [Cell], caret: Int) -> Excerpt {
    var from = 0
    var to = cells.count
    if to > longestExcerpt {
      from = max(0, min(caret - longestExcerpt / 2, to - longestExcerpt))
      to = from + longestExcerpt
    }
    var line = from > 0 ? "…" : ""
    var indentation = from > 0 ? " " : ""
    for index in from..<to {
      let text = cells[index].text
      line += text
      guard index < caret else { continue }
      indentation += text == "\t" ? "\t" : String(repeating: " ", count: text.unicodeScalars.count)
    }
    if to < cells.count { line += "…" }
    while line.last == " " || line.last == "\t" { line.removeLast() }
    return Excerpt(line: line, indentation: indentation)
  }
}
