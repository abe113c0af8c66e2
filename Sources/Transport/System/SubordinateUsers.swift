// Subordinate users (subuid(5)): ranges of user numbers that a user may run programs under, as in a container without
// root. A program with such a number belongs to the owner of the range, whatever name the number has. Tests:
// SubordinateUsersTests.

import Glibc

public struct SubordinateUsers: Sendable {
  public static let path = "/etc/subuid"
  /// Largest file that is read, in bytes: a line has some thirty, so a million users.
  static let largestFile = 32 << 20

  private struct Range: Sendable {
    let first: UInt32
    let last: UInt32
    /// As in the file: the name of a user, or a number.
    let owner: String
    /// The owner's number, if it was looked up.
    var number: UInt32? = nil
    /// The largest `last` of this range and all before it, so that a search knows where to stop.
    var reach: UInt32
  }

  /// Ordered by their first numbers.
  private var ranges: [Range] = []
  /// How many owners' numbers are looked up when the file is read: the people who log in to one machine. Ranges of
  /// other owners count for their own first number.
  static let mostNumbers = 1000
  /// How long their numbers are looked up, in milliseconds: signals and the watchdog wait for this during a reload. A
  /// directory service that does not answer is asked once.
  static let numbersMilliseconds: Int64 = 2000
  /// Whether the file could be read, or does not exist.
  public private(set) var isKnown = true

  public init() {}

  /// Malformed lines are skipped, as in newuidmap(1).
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

  /// The current ones of the machine. Without the file there are none; if it cannot be read, owners are in doubt.
  public static func read(_ path: String = path) -> SubordinateUsers {
    switch Files.read(path, limit: largestFile) {
    case .success(let text):
      var users = SubordinateUsers(text)
      users.lookUpNumbers()
      return users
    case .failure(let error):
      var none = SubordinateUsers()
      none.isKnown = error.number == ENOENT
      return none
    }
  }

  /// May ask a directory service.
  private mutating func lookUpNumbers() {
    var numbers: [String: UInt32] = [:]
    let deadline = Clock.monotonic + Self.numbersMilliseconds
    var answers = true
    for index in ranges.indices {
      let owner = ranges[index].owner
      if numbers[owner] == nil, numbers.count < Self.mostNumbers {
        var found: UInt32? = nil
        if answers {
          switch Users.number(of: owner) {
          case .success(let number): found = number
          case .failure: answers = false
          }
          if Clock.monotonic >= deadline { answers = false }
        }
        numbers[owner] = found ?? UInt32(owner) ?? ranges[index].first
      }
      ranges[index].number = numbers[owner]
    }
  }

  /// The user that a number counts for when limits are shared: its owner as of when the file was read, or else itself.
  /// Never blocks.
  public func principal(of userID: UInt32) -> UInt32 {
    guard let index = indices(holding: userID).first else { return userID }
    return ranges[index].number ?? ranges[index].first
  }

  /// Names, or numbers, of the users that own a number; each once.
  public func owners(of userID: UInt32) -> [String] {
    indices(holding: userID).map { ranges[$0].owner }.reduce(into: []) { found, owner in
      if !found.contains(owner) { found.append(owner) }
    }
  }

  private func indices(holding userID: UInt32) -> [Int] {
    if ranges.isEmpty { return [] }
    var found: [Int] = []
    // The first range that begins after the number: neither it nor later ones contain the number.
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].first <= userID { low = middle + 1 } else { high = middle }
    }
    var index = low - 1
    while index >= 0, ranges[index].reach >= userID {
      if ranges[index].last >= userID { found.append(index) }
      index -= 1
    }
    return found
  }

  /// The numbers of the users that own a number; nil if they cannot be looked up. May ask a directory service, as
  /// `Users.number` does.
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
