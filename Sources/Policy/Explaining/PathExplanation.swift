// The readings of a path in `explain`: the one that settled a condition, and how it comes about.
// Tests: ExplanationTests, test_path_readings.py.

import Bytes

/// A reading of a path, for people.
public struct PathReadingText: Hashable, Sendable, CustomStringConvertible {
  /// Empty if the path has more readings than are checked.
  public let path: String
  /// What was done to the path: "decoded, dot segments removed".
  public let how: String

  public var description: String { path.isEmpty ? how : how.isEmpty ? path : "\(path) (\(how))" }

  var json: JSONText { .object([("path", .string(path)), ("how", .string(how))]) }

  static let unreadable = PathReadingText(
    path: "",
    how: "a path with more than \(PathReadings.mostReadings) readings, or \(PathReadings.mostOctets) bytes of them")
}

extension PathReadings {
  /// The first reading whose octets satisfy `matches`. A path with too many readings counts as having one.
  func reading(where matches: (ArraySlice<UInt8>) -> Bool) -> PathReadingText? {
    if isUnreadable { return .unreadable }
    return readings.first { matches(octets[$0.octets]) }.map(text)
  }

  fileprivate func text(_ reading: Reading) -> PathReadingText {
    PathReadingText(path: octets.span.extracting(reading.octets).string, how: reading.words)
  }
}

extension PathCondition {
  /// The reading by which a rule that denies matches; nil if it does not deny, or every reading matches.
  func denyingReading(_ readings: PathReadings) -> PathReadingText? {
    if !denies || patterns.isEmpty { return nil }
    if readings.isUnreadable { return .unreadable }
    let all = PathCondition(patterns, denies: false)
    if all.decidingReading(readings) == nil { return nil }
    return decidingReading(readings).map(readings.text)
  }

  /// What was seen if the condition fails: the path, or the reading that no pattern matches.
  func seen(_ path: Span<UInt8>, _ readings: PathReadings) -> String {
    if readings.isUnreadable { return PathReadingText.unreadable.description }
    if denies { return path.isEmpty ? "/" : path.string }
    return decidingReading(readings).map { readings.text($0).description } ?? path.string
  }
}
