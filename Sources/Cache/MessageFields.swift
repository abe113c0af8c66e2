// The fields of a stored message. Their lines are in one block of bytes and are found by name.
// Tests: MessageFieldsTests.

import Bytes
import HTTP1

/// Field lines, and the bytes that contain them.
public struct MessageFields: Sendable, Equatable {
  struct Line: Sendable, Equatable {
    let name: Range<Int>
    let value: Range<Int>
  }

  /// `Name: value` and CR LF, for each line.
  public private(set) var text: [UInt8] = []
  private(set) var lines: [Line] = []

  public init() {}

  /// From lines in the format of `text`.
  public init(text: [UInt8]) {
    for line in text.split(separator: 0x0a) {
      guard let colon = line.firstIndex(of: 0x3a), line.last == 0x0d, line.endIndex - colon >= 3 else { continue }
      append(Array(line[..<colon]).span, Array(line[(colon + 2)...].dropLast()).span)
    }
  }

  /// The lines of `section` that are not dropped.
  public init(_ section: FieldSection, _ bytes: Span<UInt8>) {
    if let first = section.lines.first, let last = section.lines.last {
      text.reserveCapacity(last.line.upperBound - first.line.lowerBound)
    }
    lines.reserveCapacity(section.lines.count)
    for index in section.lines.indices where !section.lines[index].isDropped {
      append(bytes.extracting(section.lines[index].name), bytes.extracting(section.lines[index].value))
    }
  }

  public mutating func append(_ name: Span<UInt8>, _ value: Span<UInt8>) {
    let begin = text.count
    for index in name.indices { text.append(name[index]) }
    text += [0x3a, 0x20]
    let valueBegin = text.count
    for index in value.indices { text.append(value[index]) }
    lines.append(Line(name: begin..<begin + name.count, value: valueBegin..<text.count))
    text += [0x0d, 0x0a]
  }

  public mutating func append(_ name: StaticString, _ value: [UInt8]) {
    append(name.bytes.span, value.span)
  }

  /// The lines without those whose name (in any case) satisfies `isRemoved`.
  public func without(_ isRemoved: (Span<UInt8>) -> Bool) -> MessageFields {
    var kept = MessageFields()
    for line in lines where !isRemoved(text.span.extracting(line.name)) {
      kept.append(text.span.extracting(line.name), text.span.extracting(line.value))
    }
    return kept
  }

  public func without(_ names: [StaticString]) -> MessageFields {
    without { name in names.contains { name.equals(0..<name.count, ignoringCase: $0) } }
  }

  /// The lines of `update` replace all lines of the same name (RFC 9111, 3.2).
  public func updated(by update: MessageFields) -> MessageFields {
    var updated = without { update.contains($0) }
    for line in update.lines {
      updated.append(update.text.span.extracting(line.name), update.text.span.extracting(line.value))
    }
    return updated
  }

  public func contains(_ name: Span<UInt8>) -> Bool {
    for line in lines where text.span.extracting(line.name).equalsIgnoringCase(name) { return true }
    return false
  }

  public func contains(_ name: StaticString) -> Bool { first(name) != nil }

  /// The position in `text` of the value of the first line with this name. The name is in lower case.
  func first(_ name: StaticString) -> Range<Int>? {
    for line in lines where text.span.equals(line.name, ignoringCase: name) { return line.value }
    return nil
  }

  /// The value of the only line with this name; nil if there is none or more than one.
  func only(_ name: StaticString) -> [UInt8]? {
    var found: Range<Int>? = nil
    for line in lines where text.span.equals(line.name, ignoringCase: name) {
      if found != nil { return nil }
      found = line.value
    }
    return found.map { Array(text[$0]) }
  }

  /// The values of all lines with this name as one list (RFC 9110, 5.3); nil if there is none.
  public func combined(_ name: StaticString) -> [UInt8]? { combined(name.bytes.span) }

  public func combined(_ name: Span<UInt8>) -> [UInt8]? {
    var combined: [UInt8]? = nil
    for line in lines where text.span.extracting(line.name).equalsIgnoringCase(name) {
      if combined == nil {
        combined = Array(text[line.value])
      } else {
        combined?.append(contentsOf: [0x2c, 0x20])
        combined?.append(contentsOf: text[line.value])
      }
    }
    return combined
  }

  /// Each element of the list that the lines with this name form (RFC 9110, 5.6.1).
  func forEachElement(_ name: StaticString, _ body: (Span<UInt8>) -> Void) {
    for line in lines where text.span.equals(line.name, ignoringCase: name) {
      var elements = ListElements(line.value)
      while let element = elements.next(text.span) { body(text.span.extracting(element)) }
    }
  }
}

extension StaticString {
  var bytes: [UInt8] { withUTF8Buffer { unsafe Array($0) } }
}

extension Span where Element == UInt8 {
  /// Whether both have the same bytes, ignoring the case of ASCII letters.
  func equalsIgnoringCase(_ other: Span<UInt8>) -> Bool {
    guard count == other.count else { return false }
    for index in 0..<count where self[index].asciiLowercased != other[index].asciiLowercased { return false }
    return true
  }
}
