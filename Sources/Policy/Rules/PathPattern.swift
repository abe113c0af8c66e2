// `paths` of a rule: patterns, and how they are held against the readings of a path (PathReadings). Tests: PathPatternTests.

import Bytes

/// An inclusive path pattern: literal runs around `*`, which stands for any run of characters. Octets may be written
/// percent-encoded, as paths have them: `%2A` is an asterisk. The query is not looked at.
public struct PathPattern: Hashable, Sendable, CustomStringConvertible {
  public let description: String
  /// Octets, and `wildcard`, by each way of reading escapes in the order of `Escapes.ways`. One where all are the same.
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

  /// Whether servers read an escape of it in several ways.
  var hasForms: Bool { forms.count > 1 }

  /// Paths that match, by each way of reading escapes: its wildcards taken for an octet that stands in no other pattern.
  var examples: [[UInt8]] { forms.map { $0.map { UInt8($0 == Self.wildcard ? 0 : $0) } } }

  /// Whether it holds an empty segment or a dot segment. A path that does has a reading without, so a rule that allows
  /// matches nothing by it alone.
  var matchesNoReading: Bool {
    let segments = forms[forms.count == 1 ? 0 : Self.decodedForm].split(
      separator: 0x2f, omittingEmptySubsequences: false)
    return segments.enumerated().contains { place, segment in
      if segment.isEmpty { return place > 0 && place < segments.count - 1 }
      return segment.elementsEqual([0x2e]) || segment.elementsEqual([0x2e, 0x2e])
    }
  }

  private static let decodedForm = Escapes.ways.firstIndex(of: .decoded) ?? 0

  /// Whether it matches `path` in the form of a way of reading escapes, by its place in `Escapes.ways`. `isLoose`: as
  /// `PathCondition` says.
  func matches(_ path: Span<UInt8>, way: Int = decodedForm, isLoose: Bool = false) -> Bool {
    if matches(path, count: path.count, way, ignoresCase: isLoose) { return true }
    if !isLoose || path.isEmpty { return false }
    if path[path.count - 1] != 0x2f { return false }
    var count = path.count
    while count > 1, path[count - 1] == 0x2f { count -= 1 }
    return matches(path, count: count, way, ignoresCase: true)
  }

  /// The first `count` octets of `path`. Greedy with one point of return: linear in the path for one `*`, at most pattern × path
  /// for many.
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
  /// Of a rule that denies: it matches where any reading of the path does, without regard to case, as Express routes, and to
  /// slashes at the end, which Express drops from `/admin/`. Any other matches where all readings do, to the letter. A rule
  /// that would deny but is not enforced lets pass what it matches, and adds what it adds: it is one of the others.
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

  /// The first reading that settles whether the condition holds: one that matches, of a rule that denies; one that does not, of
  /// any other. nil: all readings agree that it does not, or does.
  func decidingReading(_ readings: PathReadings) -> PathReadings.Reading? {
    let octets = readings.octets.span
    for reading in readings.readings
    where matches(octets.extracting(reading.octets), reading.escapes) == denies {
      return reading
    }
    return nil
  }

  /// Whether a pattern matches in any way of reading escapes, of a rule that denies, or in all.
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
