// Words in a sentence: alternatives, and lists that are cut short.

extension Array where Element == String {
  /// `a, b or c`
  public var alternatives: String {
    guard let last, count > 1 else { return first ?? "" }
    return dropLast().joined(separator: ", ") + " or " + last
  }

  /// `"a", "b" or "c"`
  var alternativesInTOML: String { map(\.inTOML).alternatives }

  /// `a, b, c and 2 more`: at most eight are named.
  var abridged: String {
    let most = 8
    let named = prefix(most).joined(separator: ", ")
    return count > most ? "\(named) and \(count - most) more" : named
  }
}
