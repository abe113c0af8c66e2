// `acceptable_status`: inclusive ranges of status codes, as `"200-299"`, `304` or `"304"`.

/// A set of status codes (RFC 9110, 15), 100 to 999.
public struct StatusRanges: Hashable, Sendable, CustomStringConvertible {
  /// Sorted and not adjacent.
  public let ranges: [ClosedRange<Int>]

  /// Merges ranges that meet or overlap. All are within `legal`.
  public init(_ ranges: [ClosedRange<Int>]) {
    var merged: [ClosedRange<Int>] = []
    for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
      if let last = merged.last, range.lowerBound <= last.upperBound + 1 {
        merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
      } else {
        merged.append(range)
      }
    }
    self.ranges = merged
  }

  /// The three-digit statuses that a response under a rule can have: it is never below 100.
  public static let legal = 100...999
  public static let successful = StatusRanges([200...299])

  public func contains(_ status: Int) -> Bool { ranges.contains { $0.contains(status) } }

  /// `200-299, 304`
  public var description: String {
    ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ", ")
  }
}
