// Writes dates in the formats of HTTP (RFC 9110, 5.6.7) and of logs (RFC 3339), from seconds since 1970.

import Bytes

/// A moment in the calendar, in UTC.
public struct CalendarTime: Equatable, Sendable {
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
    var days = secondsSince1970 / 86_400
    var rest = Int(secondsSince1970 % 86_400)
    if rest < 0 {
      rest += 86_400
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

  private static let weekdays: [StaticString] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let months: [StaticString] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  /// `Sun, 06 Nov 1994 08:49:37 GMT`
  public func writeIMFFixdate(to buffer: inout ByteBuffer) {
    buffer.append(Self.weekdays[weekday])
    buffer.append(", ")
    buffer.append(decimal: UInt64(day), width: 2)
    buffer.append(0x20)
    buffer.append(Self.months[month - 1])
    buffer.append(0x20)
    buffer.append(decimal: UInt64(year), width: 4)
    buffer.append(0x20)
    writeClock(to: &buffer)
    buffer.append(" GMT")
  }

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

  private func writeClock(to buffer: inout ByteBuffer) {
    buffer.append(decimal: UInt64(hour), width: 2)
    buffer.append(0x3a)
    buffer.append(decimal: UInt64(minute), width: 2)
    buffer.append(0x3a)
    buffer.append(decimal: UInt64(second), width: 2)
  }
}
