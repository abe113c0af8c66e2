// Why a body is not what it claims to be, and where. All checks of a body return this.

/// The first fault of a body.
public struct ContentFault: Error, Equatable, Sendable {
  /// What was expected and what was seen, as a clause: `expected ',' or ']' behind an element, found 'x'`. It quotes at
  /// most a few characters of the body, and only printable ASCII.
  public let reason: String
  /// Bytes of the decoded body before the fault.
  public let offset: Int
  /// For a text: the line, and the Unicode scalar in it, both from 1.
  public let place: Place?

  public struct Place: Equatable, Sendable {
    public let line: Int
    public let column: Int

    public init(line: Int, column: Int) {
      self.line = line
      self.column = column
    }
  }

  public init(_ reason: String, offset: Int, place: Place? = nil) {
    self.reason = reason
    self.offset = offset
    self.place = place
  }

  /// `line 3, column 14: expected …`, or `byte 1032: expected …` if it is not a text.
  public var sentence: String {
    if let place { return "line \(place.line), column \(place.column): \(reason)" }
    return "byte \(offset): \(reason)"
  }
}

extension Span where Element == UInt8 {
  /// The place of a byte in a UTF-8 text. A line ends with LF, CR LF or CR.
  public func place(of offset: Int) -> ContentFault.Place {
    var line = 1
    var column = 1
    for index in 0..<Swift.min(offset, count) {
      let byte = self[index]
      if byte == 0x0a || byte == 0x0d && (index + 1 == count || self[index + 1] != 0x0a) {
        line += 1
        column = 1
      } else if byte & 0xc0 != 0x80 {
        column += 1
      }
    }
    return ContentFault.Place(line: line, column: column)
  }
}
