// Dates: `expires` as seconds since 1970, and seconds as the date in a diagnostic or an explanation. Always in UTC and
// in the Gregorian calendar. Tests: CalendarDateTests.

import Bytes

enum CalendarDate {
  /// From 0001-01-01 to the end of 9999: certificates and TOML have no other dates.
  private static let range: ClosedRange<Int64> = -62_135_596_800...253_402_300_799

  /// The moment at which a TOML date or date-time is over, in seconds since 1970. For a date alone this is the end of
  /// the day; for a date-time, the moment itself, in UTC if it has no offset. nil for a time without a date.
  static func end(of text: String) -> Int64? {
    let parts = text.utf8.split(separator: UInt8(ascii: "T"))
    let date = numbers(parts[0])
    guard date.count == 3, parts[0].contains(UInt8(ascii: "-")) else { return nil }
    guard let midnight = CalendarTime.seconds(year: Int(date[0]), month: Int(date[1]), day: Int(date[2])) else {
      return nil
    }
    return parts.count == 2 ? midnight + clockSeconds(parts[1]) : midnight + CalendarTime.secondsPerDay
  }

  /// `2027-06-01`
  static func text(_ seconds: Int64) -> String { time(seconds).dayText }

  /// `2027-06-01 07:30:00 UTC`
  static func timeText(_ seconds: Int64) -> String { "\(time(seconds).dayText) \(time(seconds).clockText) UTC" }

  private static func time(_ seconds: Int64) -> CalendarTime {
    CalendarTime(secondsSince1970: min(max(seconds, range.lowerBound), range.upperBound))
  }

  // MARK: Texts

  /// `07:32:00`, with or without a fraction, followed by an offset, "Z", or nothing: seconds from midnight UTC.
  private static func clockSeconds(_ text: Substring.UTF8View.SubSequence) -> Int64 {
    let sign = text.lastIndex { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "-") }
    let local = numbers(text[..<(sign ?? text.endIndex)])
    let seconds = local.prefix(3).reduce(0) { $0 * 60 + $1 }
    guard let sign else { return seconds }
    let offset = numbers(text[sign...]).reduce(0) { $0 * 60 + $1 } * 60
    return text[sign] == UInt8(ascii: "-") ? seconds + offset : seconds - offset
  }

  private static func numbers(_ text: Substring.UTF8View.SubSequence) -> [Int64] {
    text.split { !(0x30...0x39).contains($0) }.map { $0.reduce(0) { $0 * 10 + Int64($1 & 0xf) } }
  }
}
