// Dates of certificates, as the commands print them.

import Bytes

enum Dates {

  /// `2026-11-20T16:54:12Z`
  static func time(_ seconds: Int64) -> String { CalendarTime(secondsSince1970: seconds).text }

  /// `2026-11-20`
  static func day(_ seconds: Int64) -> String { CalendarTime(secondsSince1970: seconds).dayText }

  /// Whole days until `end`; negative once it has passed.
  static func days(from now: Int64, until end: Int64) -> Int64 {
    let seconds = end - now
    return seconds >= 0 ? seconds / CalendarTime.secondsPerDay : (seconds + 1) / CalendarTime.secondsPerDay - 1
  }

  /// `23 days left`, `expired 3 days ago`
  static func remaining(from now: Int64, until end: Int64) -> String {
    func count(_ seconds: Int64) -> String {
      let days = seconds / CalendarTime.secondsPerDay
      return days == 0 ? "less than a day" : .counted(days, "day")
    }
    return end > now ? "\(count(end - now)) left" : "expired \(count(now - end)) ago"
  }
}
