// Subordinate users (subuid(5)): ranges of numbers that a user may run programs under, as in a container without root.
// Who runs as one of them is its owner, whatever name the number has. Tests: SubordinateUsersTests.

import Glibc

public struct SubordinateUsers: Sendable {
  public static let path = "/etc/subuid"
  /// Largest file that is read, in bytes: a line is some thirty, so a million users.
  static let largestFile = 32 << 20

  private struct Range: Sendable {
    let first: UInt32
    let last: UInt32
    /// As the file has it: the name of a user, or a number.
    let owner: String
    /// The largest `last` of this range and all before it, so that a search knows when to stop.
    var reach: UInt32
  }

  /// By their first numbers.
  private var ranges: [Range] = []
  /// Whether the file could be read, or there is none.
  public private(set) var isKnown = true

  public init() {}

  /// Lines that are none are passed over, as newuidmap(1) does.
  public init(_ text: [UInt8]) {
    for line in text.split(separator: UInt8(ascii: "\n")) {
      let parts = line.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).map {
        String(decoding: $0, as: UTF8.self)
      }
      guard parts.count == 3, !parts[0].isEmpty, let first = UInt32(parts[1]), let count = UInt32(parts[2]), count > 0
      else { continue }
      let (last, isTooFar) = first.addingReportingOverflow(count - 1)
      ranges.append(Range(first: first, last: isTooFar ? .max : last, owner: parts[0], reach: 0))
    }
    ranges.sort { $0.first < $1.first }
    var reach: UInt32 = 0
    for index in ranges.indices {
      reach = max(reach, ranges[index].last)
      ranges[index].reach = reach
    }
  }

  /// As the machine has them now. Without the file there are none; one that cannot be read leaves owners in doubt.
  public static func read(_ path: String = path) -> SubordinateUsers {
    switch Files.read(path, limit: largestFile) {
    case .success(let text): return SubordinateUsers(text)
    case .failure(let error):
      var none = SubordinateUsers()
      none.isKnown = error.number == ENOENT
      return none
    }
  }

  /// Names, or numbers, of the users that a number is subordinate to; each once.
  public func owners(of userID: UInt32) -> [String] {
    var found: [String] = []
    // The first range that begins after the number: none from there on holds it.
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].first <= userID { low = middle + 1 } else { high = middle }
    }
    var index = low - 1
    while index >= 0, ranges[index].reach >= userID {
      let range = ranges[index]
      if range.last >= userID, !found.contains(range.owner) { found.append(range.owner) }
      index -= 1
    }
    return found
  }

  /// The numbers of the users that a number is subordinate to; nil where that cannot be looked up. May ask a directory
  /// service, as `Users.number` does.
  public func ownerNumbers(of userID: UInt32) -> [UInt32]? {
    guard isKnown else { return nil }
    var numbers: [UInt32] = []
    for owner in owners(of: userID) {
      switch Users.number(of: owner) {
      case .success(let number?): numbers.append(number)
      case .success(nil): if let number = UInt32(owner) { numbers.append(number) }
      case .failure: return nil
      }
    }
    return numbers
  }
}
