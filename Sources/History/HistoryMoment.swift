// Moments as people write them on a command line and as the commands print them. In UTC, as in the log.
// Tests: HistoryMomentTests.

import Bytes
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
      let day = number(parts[2]), year >= 1970
    else { return nil }
    return CalendarTime.seconds(year: Int(year), month: Int(month), day: Int(day)).map {
      $0 / CalendarTime.secondsPerDay
    }
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
    guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    return digits.reduce(Int64(0)) { $0 * 10 + Int64($1 - 0x30) }
  }

  /// `2026-11-20 07:30:15`
  public static func text(_ wall: Int64) -> String {
    let time = CalendarTime(secondsSince1970: wall / 1000)
    return "\(time.dayText) \(time.clockText)"
  }

  /// `2026-11-20`
  public static func day(of wall: Int64) -> String { CalendarTime(secondsSince1970: wall / 1000).dayText }
}
