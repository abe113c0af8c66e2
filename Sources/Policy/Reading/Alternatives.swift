// Alternatives in a sentence.

extension Array where Element == String {
  /// `a, b or c`
  public var alternatives: String {
    guard let last, count > 1 else { return first ?? "" }
    return dropLast().joined(separator: ", ") + " or " + last
  }
}
