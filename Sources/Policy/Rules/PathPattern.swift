// `paths` of a rule: patterns, and their comparison with the readings of a path (PathReadings).
//
// There are two wildcards: `*` passes slashes, `{}` does not. After a `*` no `{}` may follow (PathsCondition), so one
// point to go back to is enough, and matching costs pattern × path at most. Tests: PathPatternTests.

import Bytes

/// An inclusive path pattern: literal runs around `*`, which stands for any run of characters, and `{}`, which stands
/// for one or more of them without a slash. Octets may be percent-encoded, as in paths: `%2A` is an asterisk. The query
/// is ignored.
public struct PathPattern: Hashable, Sendable, CustomStringConvertible {
  public let description: String
  /// Octets and wildcards, for each way of reading escapes, as `Escapes.ways` orders them; only one if all are alike.
  private let forms: [[UInt16]]

  /// In octets.
  public static let longest = 2048
  /// Matching costs pattern × path at worst, and the client chooses the path.
  public static let mostWildcards = 16
  public static let segmentWildcard = "{}"
  private static let anyRun: UInt16 = 0x100
  private static let segmentRun: UInt16 = 0x101
  private static func isWildcard(_ element: UInt16) -> Bool { element >= anyRun }

  /// What a pattern consists of; a literal with its escapes as they are written.
  private enum Part {
    case literal([UInt8])
    case anyRun, segmentRun
  }

  public init(_ text: String) {
    description = text
    let parts = Self.parts(text)
    let forms = Escapes.ways.map { way in
      parts.flatMap { part -> [UInt16] in
        switch part {
        case .literal(let octets):
          var decoded: [UInt8] = []
          PathReadings.decode(octets.span, way, into: &decoded)
          return decoded.map(UInt16.init)
        case .anyRun: return [Self.anyRun]
        case .segmentRun: return [Self.segmentRun]
        }
      }
    }
    self.forms = forms.allSatisfy { $0 == forms[0] } ? [forms[0]] : forms
  }

  private static func parts(_ text: String) -> [Part] {
    let octets = Array(text.utf8)
    var parts: [Part] = []
    var literal: [UInt8] = []
    func add(_ wildcard: Part) {
      if !literal.isEmpty { parts.append(.literal(literal)) }
      literal = []
      parts.append(wildcard)
    }
    for octet in octets {
      if octet == 0x2a {
        add(.anyRun)
      } else if octet == 0x7d, literal.last == 0x7b {
        literal.removeLast()
        add(.segmentRun)
      } else {
        literal.append(octet)
      }
    }
    return literal.isEmpty ? parts : parts + [.literal(literal)]
  }

  /// A path that it matches: with `anyRun` for each `*` and `segment` for each `{}`, and escapes as they are written.
  func filled(anyRun: String, segment: String) -> [UInt8] {
    Self.parts(description).flatMap { part -> [UInt8] in
      switch part {
      case .literal(let octets): octets
      case .anyRun: Array(anyRun.utf8)
      case .segmentRun: Array(segment.utf8)
      }
    }
  }

  /// One of them.
  var example: [UInt8] { filled(anyRun: "x", segment: "x") }

  /// Whether servers differ in reading one of its escapes.
  var hasForms: Bool { forms.count > 1 }

  /// How many wildcards it has.
  public var wildcards: Int { forms[0].count(where: Self.isWildcard) }

  /// Whether a `{}` follows a `*`.
  var mixesWildcards: Bool {
    guard let first = forms[0].firstIndex(of: Self.anyRun) else { return false }
    return forms[0][first...].contains(Self.segmentRun)
  }

  /// Whether it matches everything that `other` matches.
  public func covers(_ other: PathPattern) -> Bool {
    (hasForms || other.hasForms ? Array(Escapes.ways.indices) : [Self.decodedForm]).allSatisfy {
      covers(other, way: $0)
    }
  }

  /// The same for one way of reading escapes: whether it matches the other's elements, with a wildcard for each of its
  /// wildcards that is as wide.
  func covers(_ other: PathPattern, way: Int) -> Bool {
    let elements = other.form(way)
    return Self.matches(
      form(way).span, elements.count, passes: { elements[$0] != Self.anyRun && elements[$0] != 0x2f },
      equals: { elements[$0] == $1 })
  }

  private func form(_ way: Int) -> [UInt16] { forms[forms.count == 1 ? 0 : way] }

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

  /// For the first `count` octets of `path`.
  private func matches(_ path: Span<UInt8>, count: Int, _ way: Int, ignoresCase: Bool) -> Bool {
    Self.matches(
      form(way).span, count, passes: { path[$0] != 0x2f },
      equals: { index, element in Self.equals(element, path[index], ignoresCase: ignoresCase) })
  }

  /// Whether `pattern` matches a text of `count` elements. `passes`: whether a `{}` may stand for that element;
  /// `equals`: whether it is the same as one of the pattern that is no wildcard. Greedy, with one point to go back to.
  @inline(__always)
  private static func matches(
    _ pattern: Span<UInt16>, _ count: Int, passes: (Int) -> Bool, equals: (Int, UInt16) -> Bool
  ) -> Bool {
    var at = 0
    var index = 0
    var star: Int? = nil
    var resume = 0
    while index < count {
      if at < pattern.count, pattern[at] == anyRun {
        star = at
        at += 1
        resume = index
      } else if at < pattern.count, pattern[at] == segmentRun ? passes(index) : equals(index, pattern[at]) {
        if pattern[at] == segmentRun {
          star = at
          resume = index + 1
        }
        at += 1
        index += 1
      } else if let star, pattern[star] == anyRun || passes(resume) {
        at = star + 1
        resume += 1
        index = resume
      } else {
        return false
      }
    }
    while at < pattern.count, pattern[at] == anyRun { at += 1 }
    return at == pattern.count
  }

  /// Most patterns that name one path: one with more readings was made to have them.
  private static let mostNamings = 16

  /// Patterns that together allow `path` and nothing else: the path itself, and each way of reading it that it does not
  /// match. Only the path, if no patterns do.
  public static func namings(of path: String) -> [String] {
    // RFC 9110, 4.2.3.
    let path = path.isEmpty ? "/" : path
    let own = PathShape.literal(path)
    let octets = Array(path.utf8)
    var readings = PathReadings()
    readings.set(octets.span)
    if readings.isUnreadable { return [own] }
    var namings = [own]
    while namings.count < mostNamings {
      let condition = PathCondition(namings.map(PathPattern.init), denies: false)
      guard let reading = condition.decidingReading(readings) else { return namings }
      let naming = encoded(readings.octets[reading.octets])
      if namings.contains(naming) { break }
      namings.append(naming)
    }
    return [own]
  }

  /// What is read as `octets`. An escape that was kept stays.
  private static func encoded(_ octets: ArraySlice<UInt8>) -> String {
    let text = octets.flatMap { octet in
      switch octet {
      case 0x00...0x20, 0x22, 0x23, 0x2a, 0x3c, 0x3e, 0x3f, 0x5b...0x5e, 0x60, 0x7b...0xff: octet.percentEncoded
      default: [octet]
      }
    }
    return String(decoding: text, as: UTF8.self)
  }

  private static func equals(_ one: UInt16, _ other: UInt8, ignoresCase: Bool) -> Bool {
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

  /// The same for a path whose readings are not known yet.
  func holds(_ path: [UInt8]) -> Bool {
    var readings = PathReadings()
    readings.set(path.span)
    return holds(path.span, readings)
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
