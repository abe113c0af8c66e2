// `paths` of a rule: patterns, and their comparison with the readings of a path (PathReadings).
// Tests: PathPatternTests.

import Bytes

/// An inclusive path pattern: literal runs around `*`, which stands for any run of characters. Octets may be
/// percent-encoded, as in paths: `%2A` is an asterisk. The query is ignored.
public struct PathPattern: Hashable, Sendable, CustomStringConvertible {
  public let description: String
  /// Octets, and `wildcard`, for each way of reading escapes in the order of `Escapes.ways`. Only one if all are the
  /// same.
  private let forms: [[UInt16]]

  private static let wildcard: UInt16 = 0x100

  public init(_ text: String) {
    description = text
    let octets = Array(text.utf8)
    let forms = Escapes.ways.map { way in
      var pattern: [UInt16] = []
      for run in octets.split(separator: 0x2a, omittingEmptySubsequences: false) {
        if !pattern.isEmpty || run.startIndex > 0 { pattern.append(Self.wildcard) }
        var literal: [UInt8] = []
        PathReadings.decode(Array(run).span, way, into: &literal)
        pattern += literal.map(UInt16.init)
      }
      return pattern
    }
    self.forms = forms.allSatisfy { $0 == forms[0] } ? [forms[0]] : forms
  }

  /// Whether servers differ in reading one of its escapes.
  var hasForms: Bool { forms.count > 1 }

  /// Paths that match, for each way of reading escapes. Wildcards are replaced by an octet that occurs in no other
  /// pattern.
  var examples: [[UInt8]] { forms.map { $0.map { UInt8($0 == Self.wildcard ? 0 : $0) } } }

  /// Whether it contains an empty segment or a dot segment. A path with one also has a reading without it, so a rule
  /// that allows matches nothing by this pattern alone.
  var matchesNoReading: Bool {
    let segments = forms[forms.count == 1 ? 0 : Self.decodedForm].split(
      separator: 0x2f, omittingEmptySubsequences: false)
    return segments.enumerated().contains { place, segment in
      if segment.isEmpty { return place > 0 && place < segments.count - 1 }
      return segment.elementsEqual([0x2e]) || segment.elementsEqual([0x2e, 0x2e])
    }
  }

  private static let decodedForm = Escapes.ways.firstIndex(of: .decoded) ?? 0

  /// Whether it matches `path` in one way of reading escapes, an index into `Escapes.ways`. `isLoose`: see
  /// `PathCondition`.
  func matches(_ path: Span<UInt8>, way: Int = decodedForm, isLoose: Bool = false) -> Bool {
    if matches(path, count: path.count, way, ignoresCase: isLoose) { return true }
    if !isLoose || path.isEmpty { return false }
    if path[path.count - 1] != 0x2f { return false }
    var count = path.count
    while count > 1, path[count - 1] == 0x2f { count -= 1 }
    return matches(path, count: count, way, ignoresCase: true)
  }

  /// For the first `count` octets of `path`. Greedy with one point to backtrack to: linear in the path for one `*`, at
  /// most pattern × path for many.
  private func matches(_ path: Span<UInt8>, count: Int, _ way: Int, ignoresCase: Bool) -> Bool {
    let form = forms[forms.count == 1 ? 0 : way]
    let pattern = form.span
    var at = 0
    var index = 0
    var star: Int? = nil
    var resume = 0
    while index < count {
      let octet = path[index]
      if at < pattern.count, pattern[at] == Self.wildcard {
        star = at
        at += 1
        resume = index
      } else if at < pattern.count, Self.equals(pattern[at], octet, ignoresCase) {
        at += 1
        index += 1
      } else if let star {
        at = star + 1
        resume += 1
        index = resume
      } else {
        return false
      }
    }
    while at < pattern.count, pattern[at] == Self.wildcard { at += 1 }
    return at == pattern.count
  }

  private static func equals(_ one: UInt16, _ other: UInt8, _ ignoresCase: Bool) -> Bool {
    if one == UInt16(other) { return true }
    return ignoresCase && one < 0x80 && UInt8(one).asciiLowercased == other.asciiLowercased
  }
}

/// The condition `paths` of a rule. Empty: any path.
struct PathCondition: Sendable {
  let patterns: [PathPattern]
  /// A rule that denies matches if any reading of the path does. It ignores case, like Express routes, and trailing
  /// slashes, which Express drops from `/admin/`. Any other rule matches only if all readings do, exactly. An
  /// unenforced rule that would deny allows what it matches and adds its edits, so it counts among the others.
  let denies: Bool
  private let hasForms: Bool

  init(_ patterns: [PathPattern], denies: Bool) {
    self.patterns = patterns
    self.denies = denies
    hasForms = patterns.contains(where: \.hasForms)
  }

  /// `readings` are those of `path`.
  func holds(_ path: Span<UInt8>, _ readings: PathReadings) -> Bool {
    if patterns.isEmpty { return true }
    if readings.isUnreadable { return denies }
    if readings.readings.isEmpty { return matches(path, .all) }
    return decidingReading(readings) == nil ? !denies : denies
  }

  /// The first reading that settles whether the condition holds: a match if the rule denies, a mismatch for any other.
  /// nil: no reading settles it.
  func decidingReading(_ readings: PathReadings) -> PathReadings.Reading? {
    let octets = readings.octets.span
    for reading in readings.readings
    where matches(octets.extracting(reading.octets), reading.escapes) == denies {
      return reading
    }
    return nil
  }

  /// Whether a pattern matches: in any way of reading escapes if the rule denies, otherwise in all.
  private func matches(_ path: Span<UInt8>, _ escapes: Escapes) -> Bool {
    if !hasForms { return matches(path, way: 0) }
    for way in Escapes.ways.indices
    where escapes.contains(Escapes.ways[way]) && matches(path, way: way) == denies {
      return denies
    }
    return !denies
  }

  private func matches(_ path: Span<UInt8>, way: Int) -> Bool {
    for pattern in patterns where pattern.matches(path, way: way, isLoose: denies) { return true }
    return false
  }
}
