// The shape of a path. Segments that name one thing among many of its kind become `{}`: numbers, versions, hashes,
// UUIDs, long ids. So paths that ask for the same kind of thing are one, in learned rules and in questions to an
// operator.
//
// `{}` in a rule stands for characters of one segment, so a shape is a pattern of `paths`, and one that allows nothing
// below what was seen. Tests: PathShapeTests.

import Bytes

public enum PathShape {
  /// Hexadecimal digits from which a word counts as a hash: an abbreviated git hash has seven or eight.
  static let shortestHash = 7
  /// Characters from which a word of digits and letters counts as an id: shorter ones are names with a number.
  static let shortestID = 20

  /// `/users/17/avatar.png` → `/users/{}/avatar.png`. Wildcards in the path itself are percent-encoded.
  public static func of(_ path: String) -> String {
    path.split(separator: "/", omittingEmptySubsequences: false).map(shape).joined(separator: "/")
  }

  /// The path as a pattern that matches only it.
  public static func literal(_ path: String) -> String {
    if path.utf8.allSatisfy({ $0 != 0x2a && $0 != 0x7b }) { return path }
    return path.split(separator: "*", omittingEmptySubsequences: false).joined(separator: "%2A")
      .split(separator: "{", omittingEmptySubsequences: false).joined(separator: "%7B")
  }

  /// A segment of which nothing is known.
  private static let anySegment = PathPattern.segmentWildcard

  private static func shape(_ segment: Substring) -> String {
    let bytes = Array(segment.utf8)
    if bytes.isEmpty { return "" }
    if isOneOfMany(bytes[...]) { return anySegment }
    // A file extension shows the kind: `0f1e2d3c.json`.
    if let dot = bytes.lastIndex(of: 0x2e), dot > 0, (2...6).contains(bytes.count - dot),
      isOneOfMany(bytes[..<dot])
    {
      return anySegment + literal(String(decoding: bytes[dot...], as: UTF8.self))
    }
    return literal(String(segment))
  }

  private static func isOneOfMany(_ word: ArraySlice<UInt8>) -> Bool {
    isVersion(word) || isUUID(word) || isHash(word) || isID(word)
  }

  /// `17`, `2.31.0`
  private static func isVersion(_ word: ArraySlice<UInt8>) -> Bool {
    word.first?.isASCIIDigit ?? false && word.last?.isASCIIDigit ?? false
      && word.allSatisfy { $0.isASCIIDigit || $0 == 0x2e }
  }

  /// `01234567-89ab-cdef-0123-456789abcdef`
  private static func isUUID(_ word: ArraySlice<UInt8>) -> Bool {
    let parts = word.split(separator: 0x2d, omittingEmptySubsequences: false)
    return parts.map(\.count) == [8, 4, 4, 4, 12] && parts.allSatisfy { $0.allSatisfy { $0.hexadecimalValue != nil } }
  }

  private static func isHash(_ word: ArraySlice<UInt8>) -> Bool {
    word.count >= shortestHash && word.allSatisfy { $0.hexadecimalValue != nil } && word.contains(where: \.isASCIIDigit)
  }

  /// Long, with digits among letters, and no words between dots or dashes.
  private static func isID(_ word: ArraySlice<UInt8>) -> Bool {
    guard word.count >= shortestID else { return false }
    let digits = word.count(where: \.isASCIIDigit)
    return digits * 8 >= word.count
      && word.allSatisfy { $0.isASCIIDigit || $0.isASCIILetter || $0 == 0x5f || $0 == 0x2d || $0 == 0x3d }
      && !word.split(whereSeparator: { $0 == 0x2d || $0 == 0x5f }).contains {
        $0.count < 4 && $0.allSatisfy(\.isASCIIDigit)
      }
  }
}
