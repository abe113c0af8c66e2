// Dates of certificates, as the commands print them.

import Bytes
import HTTP1

enum Dates {
  private static let secondsPerDay: Int64 = 86_400

  /// `2026-11-20T16:54:12Z`
  static func time(_ seconds: Int64) -> String {
    var buffer = ByteBuffer()
    CalendarTime(secondsSince1970: seconds).writeRFC3339(to: &buffer)
    return buffer.bytes.string + "Z"
  }

  /// `2026-11-20`
  static func day(_ seconds: Int64) -> String { String(time(seconds).prefix(10)) }

  /// Whole days until `end`; negative once it has passed.
  static func days(from now: Int64, until end: Int64) -> Int64 {
    let seconds = end - now
    return seconds >= 0 ? seconds / secondsPerDay : (seconds + 1) / secondsPerDay - 1
  }

  /// `23 days left`, `expired 3 days ago`
  static func remaining(from now: Int64, until end: Int64) -> String {
    func count(_ seconds: Int64) -> String {
      let days = seconds / secondsPerDay
      return days == 0 ? "less than a day" : "\(days) day\(days == 1 ? "" : "s")"
    }
    return end > now ? "\(count(end - now)) left" : "expired \(count(now - end)) ago"
  }
}
