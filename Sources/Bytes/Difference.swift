// What was expected, and what was seen instead.

/// Both sides of a condition that is not met, each in a few words that reveal no secret: `200-299`, `503`.
public struct Difference: Hashable, Sendable {
  public let expected: String
  public let seen: String

  public init(expected: String, seen: String) {
    self.expected = expected
    self.seen = seen
  }
}
