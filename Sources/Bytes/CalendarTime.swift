// The Gregorian calendar in UTC, from and to seconds since 1970: in HTTP, logs, certificates and the configuration.
// Tests: CalendarTimeTests, HTTPDateTests.

/// A moment in the calendar.
public struct CalendarTime: Equatable, Sendable {
  public static let secondsPerDay: Int64 = 86_400

  public let year: Int
  /// 1 … 12
  public let month: Int
  /// 1 … 31
  public let day: Int
  public let hour: Int
  public let minute: Int
  public let second: Int
  /// 0 is Sunday.
  public let weekday: Int

  /// Days to the civil calendar, in eras of 400 years, counted from 1 March.
  public init(secondsSince1970: Int64) {
    var days = secondsSince1970 / Self.secondsPerDay
    var rest = Int(secondsSince1970 % Self.secondsPerDay)
    if rest < 0 {
      rest += Int(Self.secondsPerDay)
      days -= 1
    }
    hour = rest / 3600
    minute = rest / 60 % 60
    second = rest % 60
    weekday = Int(((days + 4) % 7 + 7) % 7)
    let shifted = days + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    day = Int(dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    month = Int(shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9)
    year = Int(yearOfEra + era * 400) + (month <= 2 ? 1 : 0)
  }

  /// Seconds since 1970 of a day of the calendar, and `secondOfDay` after its midnight. nil: there is no such day.
  public static func seconds(year: Int, month: Int, day: Int, secondOfDay: Int = 0) -> Int64? {
    guard (1...12).contains(month), (1...days(in: month, of: year)).contains(day) else { return nil }
    // As above, the other way.
    let shifted = month <= 2 ? year - 1 : year
    let era = (shifted >= 0 ? shifted : shifted - 399) / 400
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let days = era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear - 719_468
    return Int64(days) * secondsPerDay + Int64(secondOfDay)
  }

  private static func days(in month: Int, of year: Int) -> Int {
    if month == 2 { return year % 4 == 0 && year % 100 != 0 || year % 400 == 0 ? 29 : 28 }
    return [4, 6, 9, 11].contains(month) ? 30 : 31
  }

  /// `1994-11-06`
  public var dayText: String { "\(Self.padded(year, 4))-\(Self.padded(month, 2))-\(Self.padded(day, 2))" }
  /// `08:49:37`
  public var clockText: String { "\(Self.padded(hour, 2)):\(Self.padded(minute, 2)):\(Self.padded(second, 2))" }
  /// `1994-11-06T08:49:37Z` (RFC 3339)
  public var text: String { "\(dayText)T\(clockText)Z" }

  private static func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
  }
}

extension CalendarTime {
  /// `1994-11-06T08:49:37`, without a zone.
  public func writeRFC3339(to buffer: inout ByteBuffer) {
    buffer.append(decimal: UInt64(year), width: 4)
    buffer.append(0x2d)
    buffer.append(decimal: UInt64(month), width: 2)
    buffer.append(0x2d)
    buffer.append(decimal: UInt64(day), width: 2)
    buffer.append(0x54)
    writeClock(to: &buffer)
  }

  /// `08:49:37`
  public func writeClock(to buffer: inout ByteBuffer) {
    buffer.append(decimal: UInt64(hour), width: 2)
    buffer.append(0x3a)
    buffer.append(decimal: UInt64(minute), width: 2)
    buffer.append(0x3a)
    buffer.append(decimal: UInt64(second), width: 2)
  }
}
