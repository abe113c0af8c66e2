// What is wrong with a response: what was expected and what was seen.

import Bytes

/// One way in which a response does not meet its rule.
public struct ResponseViolation: Equatable, Sendable {
  public enum Subject: String, Sendable, CaseIterable {
    case status
    case contentType = "content_type"
    /// The content is not well formed.
    case body
    /// The content cannot be decoded, so it is unknown.
    case contentCoding = "content_coding"
    /// The content is too long to be held, so it is unknown.
    case size
  }

  public let subject: Subject
  public let expected: String
  public let seen: String

  public init(_ subject: Subject, expected: String, seen: String) {
    self.subject = subject
    self.expected = expected
    self.seen = seen
  }

  public var difference: Difference { Difference(expected: expected, seen: seen) }

  /// `expected status 200-299, seen 503`
  public var sentence: String {
    switch subject {
    case .status: "expected status \(expected), seen \(seen)"
    case .contentType: "expected content type \(expected), seen \(seen)"
    case .body, .contentCoding, .size: "expected \(expected), seen \(seen)"
    }
  }
}
