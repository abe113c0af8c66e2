// What was expected, and what was seen in its place.

/// Both sides of a condition that does not hold, each in a few words that name no secret: `200-299`, `503`.
public struct Difference: Hashable, Sendable {
  public let expected: String
  public let seen: String

  public init(expected: String, seen: String) {
    self.expected = expected
    self.seen = seen
  }
}
