// Learned path patterns: shapes, and the common pattern of many siblings. Tests: HistoryLearningTests.

import Policy

/// A path as it was asked for, or a way of reading it.
struct LearnedPath: Hashable {
  let text: String
  /// It was longer than what is recorded.
  let isCut: Bool

  /// What a rule has to name so that it allows a recorded path. The readings of one that was cut are not known.
  static func all(of recorded: String) -> [LearnedPath] {
    if recorded.utf8.count >= HistoryJudge.longestPath { return [LearnedPath(text: recorded, isCut: true)] }
    return PathPattern.namings(of: recorded).map { LearnedPath(text: $0, isCut: false) }
  }
}

enum LearnedPaths {
  /// This many different names in one place are generalized to any name. Fewer are a list that a person can read.
  static let foldedSiblings = 8
  /// The same directly below the root, where the pattern would match any path.
  static let foldedRoots = 32

  /// How much detail of the paths is kept, from the most general to the most literal.
  enum Detail: Int, CaseIterable, Comparable {
    case folded, shapes, literal

    static func < (one: Detail, other: Detail) -> Bool { one.rawValue < other.rawValue }
  }

  /// The fewest patterns that match all of `paths`; nil: only a pattern for any path does.
  static func patterns(_ paths: Set<LearnedPath>, _ detail: Detail) -> [String]? {
    var patterns: Set<String> = []
    for path in paths {
      let text = detail == .literal ? PathShape.literal(path.text) : PathShape.of(path.text)
      guard text.hasPrefix("/"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != 0x3f && $0 != 0x23 }) else {
        return nil
      }
      let pattern = path.isCut ? text + "*" : text
      guard pattern.utf8.count <= PathPattern.longest,
        PathPattern(pattern).wildcards <= PathPattern.mostWildcards
      else { return nil }
      patterns.insert(pattern)
    }
    if detail == .folded {
      patterns = Set(fold(patterns.map { $0.dropFirst().split(separator: "/", omittingEmptySubsequences: false) }, "/"))
    }
    return minimal(patterns)
  }

  /// `rests`: what follows `prefix`, in segments.
  private static func fold(_ rests: [[Substring]], _ prefix: String) -> [String] {
    var children: [Substring: [[Substring]]] = [:]
    for rest in rests { if let first = rest.first { children[first, default: []].append(Array(rest.dropFirst())) } }
    let limit = prefix == "/" ? foldedRoots : foldedSiblings
    if children.count >= limit { return [prefix + "*"] }
    return children.flatMap { name, rests -> [String] in
      let here = prefix + name
      let below = rests.filter { !$0.isEmpty }
      return (below.count < rests.count ? [here] : []) + (below.isEmpty ? [] : fold(below, here + "/"))
    }
  }

  /// Without the patterns that another one covers.
  private static func minimal(_ patterns: Set<String>) -> [String] {
    let read = patterns.map(PathPattern.init)
    let wide = read.filter { $0.wildcards > 0 }
    return read.filter { pattern in !wide.contains { $0 != pattern && $0.covers(pattern) } }.map(\.description).sorted()
  }
}
