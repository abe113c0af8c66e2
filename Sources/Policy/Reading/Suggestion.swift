// "did you mean …?": the known name that is closest to an unknown one.

public enum Suggestion {
  /// Longest word that is compared; no name of the configuration is half as long.
  private static let longestWord = 40
  /// Most edits between a typing error and the intended word.
  private static let mostEdits = 2

  /// `; did you mean 'x'?`, to end a message with; empty where nothing is near.
  public static func question(_ word: String, among candidates: [String]) -> String {
    nearest(to: word, among: candidates).map { "; did you mean '\($0)'?" } ?? ""
  }

  /// The candidate that `word` is most likely a misspelling of, or nil. Ignores case, and '-' for '_'.
  public static func nearest(to word: String, among candidates: [String]) -> String? {
    let word = normalized(word)
    guard let first = word.utf8.first, word.utf8.count <= longestWord else { return nil }
    // A number is close to every other and a misspelling of none: the weakest TLS version must not be proposed.
    if (0x30...0x39).contains(first) { return nil }
    // A short word is within two edits of everything.
    let bound = min(mostEdits, max(1, word.utf8.count / 2))
    var best: (candidate: String, edits: Int)? = nil
    for candidate in candidates {
      let edits = edits(word, normalized(candidate), atMost: bound)
      if let edits, edits < best?.edits ?? Int.max { best = (candidate, edits) }
    }
    return best?.candidate
  }

  private static func edits(_ word: String, _ candidate: String, atMost bound: Int) -> Int? {
    if let edits = distance(word, candidate, atMost: bound) { return edits }
    let isPrefix = candidate.hasPrefix(word) || word.hasPrefix(candidate)
    return isPrefix && min(word.utf8.count, candidate.utf8.count) >= 3 ? bound + 1 : nil
  }

  private static func normalized(_ word: String) -> String {
    String(word.lowercased().map { $0 == "-" ? "_" : $0 })
  }

  /// The number of insertions, deletions, replacements and swaps of neighbours between two words (Damerau-Levenshtein,
  /// each place edited once), or nil if it is above `bound`.
  static func distance(_ left: String, _ right: String, atMost bound: Int) -> Int? {
    let left = Array(left.utf8)
    let right = Array(right.utf8)
    guard abs(left.count - right.count) <= bound else { return nil }
    guard left.count <= longestWord, right.count <= longestWord else { return nil }
    var beforeLast: [Int] = []
    var last = Array(0...right.count)
    for row in 0..<left.count {
      var current = [row + 1]
      for column in 0..<right.count {
        let replacement = last[column] + (left[row] == right[column] ? 0 : 1)
        var edits = min(replacement, last[column + 1] + 1, current[column] + 1)
        if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
          edits = min(edits, beforeLast[column - 1] + 1)
        }
        current.append(edits)
      }
      (beforeLast, last) = (last, current)
    }
    return last[right.count] <= bound ? last[right.count] : nil
  }
}
