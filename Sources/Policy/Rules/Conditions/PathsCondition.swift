// `paths`: patterns of the path, without the query. PathPattern.swift and PathReadings.swift describe the comparison.

import Bytes

struct PathsCondition: ListCondition {
  static let setting = KnownSetting(
    "paths", .list(.text), sentence: "Paths without the query; * is any run of characters, {} one within a segment.")
  static let subject = ConditionSubject.request

  let patterns: [PathPattern]
  var values: [PathPattern] { patterns }
  /// As a rule that refuses evaluates them, and as any other rule does.
  private let strict: PathCondition
  private let lenient: PathCondition

  init(_ patterns: [PathPattern]) {
    self.patterns = patterns
    strict = PathCondition(patterns, denies: true)
    lenient = PathCondition(patterns, denies: false)
  }

  static func read(_ setting: Setting, by reading: ConfigurationReading) -> PathsCondition? {
    let paths = reading.elements(setting, of: "strings").compactMap {
      element -> (value: PathPattern, setting: Setting)? in
      guard let text = reading.string(element) else { return nil }
      if let fault = fault(text) {
        reading.error(element, fault)
        return nil
      }
      return (PathPattern(text), element)
    }
    reading.warnOfRepetition(paths) { $0.description.quoted }
    return PathsCondition(paths.map(\.value))
  }

  private static func fault(_ text: String) -> String? {
    if !text.hasPrefix("/"), !text.hasPrefix("*") {
      return "expected a path that begins with '/' or '*', found \(text.quoted)"
    }
    if text.utf8.contains(0x3f) {
      return
        "\(text.quoted) holds '?', which no path does: the query is not looked at, and only '*' and '{}' are wildcards"
    }
    if text.utf8.contains(0x23) {
      return "\(text.quoted) holds '#', which no path does: a client keeps the fragment"
    }
    if text.utf8.contains(where: { $0 <= 0x20 || $0 >= 0x7f }) {
      return
        "\(text.quoted) holds what a path carries percent-encoded only; write '%' and two digits for each byte"
    }
    if text.utf8.count > PathPattern.longest {
      return "expected a path of at most \(PathPattern.longest) bytes"
    }
    let pattern = PathPattern(text)
    if pattern.wildcards > PathPattern.mostWildcards {
      return "expected at most \(PathPattern.mostWildcards) '*' and '{}' in one path"
    }
    if pattern.mixesWildcards {
      return "\(text.quoted) has '{}' after '*', which may already stand for any number of segments; "
        + "write '{}' for each segment, and '*' last"
    }
    return nil
  }

  func holds(_ facts: borrowing RequestFacts, _ context: borrowing ConditionContext) -> Bool {
    (context.isStrict ? strict : lenient).holds(facts.path, context.paths)
  }

  /// A rule that denies matches if any reading of the path does. A rule that allows needs all readings, so it does not
  /// cover one that denies.
  func covers(_ narrow: ComparedConditions, in wide: ComparedConditions) -> Bool {
    let others = narrow.conditions.values(of: Self.self)
    if others.isEmpty || narrow.isStrict && !wide.isStrict { return false }
    return others.allSatisfy { other in
      Escapes.ways.indices.allSatisfy { way in patterns.contains { $0.covers(other, way: way) } }
    }
  }

  var expected: String { patterns.map(\.description).abridged }
  /// Where the readings of a path differ, `explain` names the one that fails.
  static func seen(_ request: SeenRequest) -> String { request.path }
  func addWitnesses(to dimensions: inout WitnessDimensions) { dimensions.add(paths: patterns) }
}
