// A fault or oddity in the configuration: where, how serious, and what to do, in one form:
//
//     policy.d/payments.toml:14:1: error: unknown key 'pinset' in [rule.security]; did you mean 'pins'?
//        14 | pinset = "payments"
//           | ^
//
// A diagnostic is made from a `SourceText`, which hides possible secrets before any part of a line is stored here.
// Tests: DiagnosticTests.

/// One finding. Its texts contain no control character and no secret.
public struct Diagnostic: Hashable, Sendable {
  public enum Severity: String, Sendable, CaseIterable {
    case error, warning
    /// Nothing is wrong: this run of the program could not check something.
    case note
  }

  public let severity: Severity
  /// Line 0 means the file as a whole.
  public let location: SourceLocation
  public let message: String
  let excerpt: Excerpt?

  /// A finding of the program itself about a location that has been read.
  public init(_ severity: Severity, at location: SourceLocation, _ message: String) {
    self.init(severity, at: location, message, excerpt: nil)
  }

  init(_ severity: Severity, at location: SourceLocation, _ message: String, excerpt: Excerpt?) {
    self.severity = severity
    self.location = location
    self.message = message.printable
    self.excerpt = excerpt
  }

  /// Digits that a line number is right-aligned to.
  private static let numberWidth = 5

  /// An array of objects with the members file, line, column, severity and message; one object a line.
  public static func json(_ diagnostics: [Diagnostic]) -> String {
    if diagnostics.isEmpty { return "[]\n" }
    return "[\n" + diagnostics.map { "  \($0.json.text)" }.joined(separator: ",\n") + "\n]\n"
  }

  var json: JSONText {
    .object([
      ("file", .string(location.file)), ("line", .number(location.line)),
      ("column", .number(location.column)),
      ("severity", .string(severity.rawValue)), ("message", .string(message)),
    ])
  }
}

extension Diagnostic: CustomStringConvertible {
  /// One line, for a log: location, severity and message.
  public var sentence: String {
    let file = location.file.printable
    guard location.line > 0 else { return "\(file): \(severity.rawValue): \(message)" }
    return "\(file):\(location.line):\(location.column): \(severity.rawValue): \(message)"
  }

  /// The sentence, the line of the source, and a caret under the column; no final newline.
  public var description: String {
    guard location.line > 0, let excerpt else { return sentence }
    let digits = String(location.line)
    let number = String(repeating: " ", count: max(0, Self.numberWidth - digits.utf8.count)) + digits
    let blank = String(repeating: " ", count: number.utf8.count)
    return "\(sentence)\n\(number) | \(excerpt.line)\n\(blank) | \(excerpt.indentation)^"
  }
}

/// A source line as it may be shown, and the white space that puts a caret under one of its columns.
struct Excerpt: Hashable, Sendable {
  let line: String
  let indentation: String
}
