// Moments as people write them on a command line and as the commands print them. In UTC, as in the log.
// Tests: HistoryMomentTests.

import Policy

public enum HistoryMoment {
  public static let expectation =
    "a time before now such as 7d or 90m, or a moment such as 2026-11-20 or 2026-11-20T07:30 (UTC)"

  private static let dayMilliseconds: Int64 = 86_400_000

  /// Milliseconds since 1970 of `7d`, `2026-11-20`, `2026-11-20T07:30` or `2026-11-20 07:30:15Z`; nil if it is none of
  /// these.
  public static func parse(_ text: String, now: Int64) -> Int64? {
    if let ago = Quantity.milliseconds(text) { return max(0, now - ago) }
    let bytes = Array(text.utf8)
    guard let days = days(bytes.prefix(10)) else { return nil }
    var clock = bytes.dropFirst(10)
    if clock.isEmpty { return days * dayMilliseconds }
    guard clock.first == 0x54 || clock.first == 0x20 || clock.first == 0x74 else { return nil }
    clock = clock.dropFirst()
    if clock.last == 0x5a { clock = clock.dropLast() }
    let parts = clock.split(separator: 0x3a, omittingEmptySubsequences: false).map(number)
    guard (2...3).contains(parts.count), clock.count == parts.count * 3 - 1 else { return nil }
    var seconds: Int64 = 0
    for (part, limit) in zip(parts, [24, 60, 60]) {
      guard let part, part < limit else { return nil }
      seconds = seconds * 60 + part
    }
    if parts.count == 2 { seconds *= 60 }
    return days * dayMilliseconds + seconds * 1000
  }

  /// Days from 1970-01-01 to `2026-11-20`.
  private static func days(_ text: ArraySlice<UInt8>) -> Int64? {
    let parts = text.split(separator: 0x2d, omittingEmptySubsequences: false)
    guard parts.map(\.count) == [4, 2, 2], let year = number(parts[0]), let month = number(parts[1]),
      let day = number(parts[2]), year >= 1970, (1...12).contains(month), day >= 1
    else { return nil }
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let lengths: [Int64] = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    guard day <= lengths[Int(month) - 1] else { return nil }
    let past = year - 1
    let before = past * 365 + past / 4 - past / 100 + past / 400 - 719_162
    return before + lengths.prefix(Int(month) - 1).reduce(0, +) + day - 1
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
    guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits.reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) }
  }

  /// `2026-11-20 07:30:15`
  public static func text(_ wall: Int64) -> String {
    let days = wall / dayMilliseconds
    let seconds = wall % dayMilliseconds / 1000
    let clock = [seconds / 3600, seconds / 60 % 60, seconds % 60].map(padded)
    return "\(day(days)) \(clock.joined(separator: ":"))"
  }

  /// `2026-11-20`
  public static func day(of wall: Int64) -> String { day(wall / dayMilliseconds) }

  /// The civil calendar, in eras of 400 years, counted from 1 March.
  private static func day(_ days: Int64) -> String {
    let shifted = days + 719_468
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
    return "\(year)-\(padded(month))-\(padded(dayOfYear - (153 * shiftedMonth + 2) / 5 + 1))"
  }

  private static func padded(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
