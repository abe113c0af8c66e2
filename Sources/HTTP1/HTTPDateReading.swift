// Reads HTTP dates (RFC 9110, 5.6.7): all three formats, in any case of letters (RFC 9111, 4.2), and with GMT as the
// only zone. Tests: HTTPDateTests.

import Bytes

/// A moment in seconds since 1970, read from a field.
public enum HTTPDate {
  /// nil if `text` is not an HTTP-date. `now` determines the century of a two-digit year, as in the RFC.
  public static func read(_ text: Span<UInt8>, now: Int64) -> Int64? {
    // Sun, 06 Nov 1994 08:49:37 GMT
    if text.count == 29, text[3] == 0x2c { return fixdate(text) }
    // Sun Nov  6 08:49:37 1994
    if text.count == 24, text[3] == 0x20 { return asctime(text) }
    // Sunday, 06-Nov-94 08:49:37 GMT
    return rfc850(text, now: now)
  }

  private static func fixdate(_ text: Span<UInt8>) -> Int64? {
    guard isWeekday(text, 0..<3), text[4] == 0x20, text[7] == 0x20, text[11] == 0x20, text[16] == 0x20,
      endsInGMT(text, from: 25), let day = number(text, 5..<7), let month = month(text, 8..<11),
      let year = number(text, 12..<16)
    else { return nil }
    return seconds(year: year, month: month, day: day, clock: clock(text, from: 17))
  }

  private static func asctime(_ text: Span<UInt8>) -> Int64? {
    let day = text[8] == 0x20 ? number(text, 9..<10) : number(text, 8..<10)
    guard isWeekday(text, 0..<3), text[7] == 0x20, text[10] == 0x20, text[19] == 0x20,
      let day, let month = month(text, 4..<7), let year = number(text, 20..<24)
    else { return nil }
    return seconds(year: year, month: month, day: day, clock: clock(text, from: 11))
  }

  private static func rfc850(_ text: Span<UInt8>, now: Int64) -> Int64? {
    guard let comma = text.firstIndex(of: 0x2c), text.count == comma + 24, isLongWeekday(text, 0..<comma),
      text[comma + 1] == 0x20, text[comma + 4] == 0x2d, text[comma + 8] == 0x2d, text[comma + 11] == 0x20,
      endsInGMT(text, from: comma + 20), let day = number(text, comma + 2..<comma + 4),
      let month = month(text, comma + 5..<comma + 8), let short = number(text, comma + 9..<comma + 11)
    else { return nil }
    let clock = clock(text, from: comma + 12)
    let present = CalendarTime(secondsSince1970: now)
    let year = present.year / 100 * 100 + short
    guard
      let moment = seconds(year: year, month: month, day: day, clock: clock)
        ?? seconds(year: year - 100, month: month, day: day, clock: clock)
    else { return nil }
    // A date more than 50 years ahead means the same two digits in the past.
    let limit =
      seconds(year: present.year + 50, month: present.month, day: min(present.day, 28), clock: 0).map {
        $0 + CalendarTime.secondsPerDay
      } ?? .max
    return moment > limit ? seconds(year: year - 100, month: month, day: day, clock: clock) : moment
  }

  private static func endsInGMT(_ text: Span<UInt8>, from: Int) -> Bool {
    text.equals(from..<text.count, ignoringCase: " gmt")
  }

  /// `08:49:37` in seconds of the day.
  private static func clock(_ text: Span<UInt8>, from: Int) -> Int? {
    guard text[from + 2] == 0x3a, text[from + 5] == 0x3a, let hour = number(text, from..<from + 2),
      let minute = number(text, from + 3..<from + 5), let second = number(text, from + 6..<from + 8),
      hour < 24, minute < 60, second <= 60
    else { return nil }
    return hour * 3600 + minute * 60 + second
  }

  private static func number(_ text: Span<UInt8>, _ range: Range<Int>) -> Int? {
    var number = 0
    for index in range {
      guard text[index].isASCIIDigit else { return nil }
      number = number * 10 + Int(text[index] & 0xf)
    }
    return number
  }

  private static let months: [StaticString] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
  ]
  private static let weekdays: [StaticString] = [
    "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday",
  ]

  private static func month(_ text: Span<UInt8>, _ range: Range<Int>) -> Int? {
    months.firstIndex { text.equals(range, ignoringCase: $0) }.map { $0 + 1 }
  }

  private static func isWeekday(_ text: Span<UInt8>, _ range: Range<Int>) -> Bool {
    let names: [StaticString] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    return names.contains { text.equals(range, ignoringCase: $0) }
  }

  private static func isLongWeekday(_ text: Span<UInt8>, _ range: Range<Int>) -> Bool {
    weekdays.contains { text.equals(range, ignoringCase: $0) }
  }

  private static func seconds(year: Int, month: Int, day: Int, clock: Int?) -> Int64? {
    clock.flatMap { CalendarTime.seconds(year: year, month: month, day: day, secondOfDay: $0) }
  }
}
