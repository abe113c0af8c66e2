// A TOML document as a tree of values, each with its location in the source.
//
// The C shim returns a flat list of nodes, parents before children; one walk over it builds the tree. Everything is
// copied, so nothing of the document outlives `TOMLDocument.parse`. Tests: TOMLValueTests.

import CTOML

/// A position in a source text. Line and column count from 1; a column is one Unicode scalar.
struct TOMLPosition: Hashable, Comparable, Sendable {
  let line: Int
  let column: Int

  init(line: Int, column: Int) {
    self.line = line
    self.column = column
  }

  init(_ position: ctoml_position) { self.init(line: Int(position.line), column: Int(position.column)) }

  static func < (left: Self, right: Self) -> Bool { (left.line, left.column) < (right.line, right.column) }
}

/// A value and the half-open range of the source that it was read from.
struct TOMLValue: Equatable, Sendable {
  indirect enum Content: Equatable, Sendable {
    case table([TOMLEntry])
    case array([TOMLValue])
    case string(String)
    case integer(Int64)
    case float(Double)
    case boolean(Bool)
    /// A date, a time or both, as written in the source.
    case dateTime(String)
  }

  let content: Content
  let begin: TOMLPosition
  let end: TOMLPosition

  /// The type with its article, for "expected …, found …".
  var typeName: String {
    switch content {
    case .table: "a table"
    case .array: "an array"
    case .string: "a string"
    case .integer: "an integer"
    case .float: "a float"
    case .boolean: "a boolean"
    case .dateTime: "a date or time"
    }
  }
}

/// A key of a table with its value.
struct TOMLEntry: Equatable, Sendable {
  let key: String
  let keyBegin: TOMLPosition
  let value: TOMLValue
}

/// Why a text is not TOML.
struct TOMLFault: Error, Equatable, Sendable {
  let position: TOMLPosition
  let description: String
}

enum TOMLDocument {
  /// Reads a whole document; the value is its root table.
  static func parse(_ source: [UInt8]) -> Result<TOMLValue, TOMLFault> {
    let document = unsafe source.withUnsafeBytes {
      unsafe ctoml_parse($0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
    }
    defer { unsafe ctoml_free(document) }
    var position = ctoml_position()
    if let description = unsafe ctoml_fault(document, &position) {
      let text = unsafe String(cString: description)
      return .failure(TOMLFault(position: place(of: text, at: TOMLPosition(position), in: source), description: text))
    }
    var count = 0
    let first = unsafe ctoml_nodes(document, &count)
    var walk = unsafe Walk(nodes: UnsafeBufferPointer(start: first, count: count))
    return .success(walk.value())
  }

  /// toml++ reports the position where it stopped. The faulty text often ends there, and its message quotes that text:
  /// then the fault is at the beginning of it.
  private static func place(of description: String, at stop: TOMLPosition, in source: [UInt8]) -> TOMLPosition {
    let parts = description.split(separator: "'", omittingEmptySubsequences: false)
    let lines = source.split(separator: 0x0a, maxSplits: stop.line, omittingEmptySubsequences: false)
    guard parts.count == 3, !parts[1].isEmpty, stop.line >= 1, stop.line <= lines.count else { return stop }
    // Columns count characters; in a line with non-ASCII characters the reported position is kept.
    let line = Array(lines[stop.line - 1])
    guard line.allSatisfy({ $0 < 0x80 }) else { return stop }
    let quoted = Array(parts[1].utf8)
    let last = min(line.count, stop.column) - quoted.count
    guard last >= 0, let begin = (0...last).last(where: { line[$0...].starts(with: quoted) }) else { return stop }
    return TOMLPosition(line: stop.line, column: begin + 1)
  }

  /// Takes values off the list of nodes. The shim limits how deep they nest.
  @safe private struct Walk {
    let nodes: UnsafeBufferPointer<ctoml_node>
    var next = 0

    mutating func value() -> TOMLValue {
      let node = unsafe nodes[next]
      next += 1
      return unsafe TOMLValue(
        content: content(of: node), begin: TOMLPosition(node.begin), end: TOMLPosition(node.end))
    }

    private mutating func content(of node: ctoml_node) -> TOMLValue.Content {
      switch unsafe node.kind {
      case CTOML_TABLE: return unsafe .table((0..<node.children).map { _ in entry() })
      case CTOML_ARRAY: return unsafe .array((0..<node.children).map { _ in value() })
      case CTOML_STRING: return unsafe .string(Self.text(node.text, node.text_length))
      case CTOML_INTEGER: return unsafe .integer(node.integer)
      case CTOML_FLOAT: return unsafe .float(node.real)
      case CTOML_BOOLEAN: return unsafe .boolean(node.integer != 0)
      default: return unsafe .dateTime(Self.text(node.text, node.text_length))
      }
    }

    private mutating func entry() -> TOMLEntry {
      let node = unsafe nodes[next]
      let key = unsafe Self.text(node.key, node.key_length)
      return unsafe TOMLEntry(key: key, keyBegin: TOMLPosition(node.key_begin), value: value())
    }

    private static func text(_ start: UnsafePointer<CChar>?, _ count: Int) -> String {
      unsafe String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
  }
}
