// Dates: `expires` as seconds since 1970, and seconds as the date in a diagnostic or an explanation. Always in UTC and
// in the Gregorian calendar. Tests: CalendarDateTests.

enum CalendarDate {
  static let secondsPerDay: Int64 = 86_400
  /// Days from 0001-01-01 to 1970-01-01.
  private static let daysBefore1970: Int64 = 719_162
  /// Days from 0001-01-01 to the last day of 9999: certificates and TOML have no later date.
  private static let lastDay: Int64 = 3_652_058

  /// The moment at which a TOML date or date-time is over, in seconds since 1970. For a date alone this is the end of
  /// the day; for a date-time, the moment itself, in UTC if it has no offset. nil for a time without a date.
  static func end(of text: String) -> Int64? {
    let parts = text.utf8.split(separator: UInt8(ascii: "T"))
    let date = numbers(parts[0])
    guard date.count == 3, parts[0].contains(UInt8(ascii: "-")) else { return nil }
    let midnight = days(year: date[0], month: Int(date[1]), day: date[2]) * secondsPerDay
    return parts.count == 2 ? midnight + clockSeconds(parts[1]) : midnight + secondsPerDay
  }

  /// `2027-06-01`
  static func text(_ seconds: Int64) -> String {
    var days = min(max(floorDivided(seconds, secondsPerDay) + daysBefore1970, 0), lastDay)
    // A first guess that is never too small, and at most one year too large.
    var year = days / 365 + 1
    while daysBefore(year: year) > days { year -= 1 }
    days -= daysBefore(year: year)
    let starts = monthStarts(year)
    let month = starts.lastIndex { $0 <= days } ?? 0
    return "\(padded(year, 4))-\(padded(Int64(month) + 1, 2))-\(padded(days - starts[month] + 1, 2))"
  }

  /// `2027-06-01 07:30:00 UTC`
  static func timeText(_ seconds: Int64) -> String {
    let rest = seconds % secondsPerDay
    let clock = rest < 0 ? rest + secondsPerDay : rest
    let parts = [clock / 3600, clock / 60 % 60, clock % 60].map { padded($0, 2) }
    return "\(text(seconds)) \(parts.joined(separator: ":")) UTC"
  }

  // MARK: The calendar

  /// Days from 1970-01-01, which is day 0.
  private static func days(year: Int64, month: Int, day: Int64) -> Int64 {
    daysBefore(year: year) + monthStarts(year)[(month - 1) % 12] + day - 1 - daysBefore1970
  }

  /// Days from 0001-01-01 to the first day of the year.
  private static func daysBefore(year: Int64) -> Int64 {
    let past = year - 1
    return 365 * past + past / 4 - past / 100 + past / 400
  }

  /// Days of the year before the first day of each month.
  private static func monthStarts(_ year: Int64) -> [Int64] {
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let lengths: [Int64] = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30]
    return lengths.reduce(into: [0]) { $0.append(($0.last ?? 0) + $1) }
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

  private static func floorDivided(_ value: Int64, _ divisor: Int64) -> Int64 {
    value / divisor - (value % divisor < 0 ? 1 : 0)
  }

  private static func padded(_ number: Int64, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }
}
