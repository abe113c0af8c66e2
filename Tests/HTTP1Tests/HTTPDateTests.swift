// Dates: known ones, and every day of four centuries against a calendar that counts day by day.

import Bytes
import TestSupport
import Testing

@testable import HTTP1

@Suite struct HTTPDateTests {
  private static func text(_ seconds: Int64) -> [String] {
    var date = ByteBuffer()
    CalendarTime(secondsSince1970: seconds).writeIMFFixdate(to: &date)
    var log = ByteBuffer()
    CalendarTime(secondsSince1970: seconds).writeRFC3339(to: &log)
    return [date.bytes.string, log.bytes.string]
  }

  @Test(
    arguments: [
      (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00"),
      (59, "Thu, 01 Jan 1970 00:00:59 GMT", "1970-01-01T00:00:59"),
      (86_399, "Thu, 01 Jan 1970 23:59:59 GMT", "1970-01-01T23:59:59"),
      (86_400, "Fri, 02 Jan 1970 00:00:00 GMT", "1970-01-02T00:00:00"),
      (68_169_600, "Tue, 29 Feb 1972 00:00:00 GMT", "1972-02-29T00:00:00"),
      (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37"),
      (946_684_799, "Fri, 31 Dec 1999 23:59:59 GMT", "1999-12-31T23:59:59"),
      (946_684_800, "Sat, 01 Jan 2000 00:00:00 GMT", "2000-01-01T00:00:00"),
      (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00"),
      (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT", "2000-03-01T00:00:00"),
      (1_000_000_000, "Sun, 09 Sep 2001 01:46:40 GMT", "2001-09-09T01:46:40"),
      (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT", "2024-02-29T00:00:00"),
      (2_147_483_647, "Tue, 19 Jan 2038 03:14:07 GMT", "2038-01-19T03:14:07"),
      (2_147_483_648, "Tue, 19 Jan 2038 03:14:08 GMT", "2038-01-19T03:14:08"),
      (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT", "2100-02-28T23:59:59"),
      (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00"),
      (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT", "9999-12-31T23:59:59"),
      (-1, "Wed, 31 Dec 1969 23:59:59 GMT", "1969-12-31T23:59:59"),
      (-2_203_891_200, "Thu, 01 Mar 1900 00:00:00 GMT", "1900-03-01T00:00:00"),
      (-11_644_473_600, "Mon, 01 Jan 1601 00:00:00 GMT", "1601-01-01T00:00:00"),
    ] as [(Int64, String, String)]) func aKnownDate(seconds: Int64, date: String, log: String)
  {
    #expect(Self.text(seconds) == [date, log])
  }

  @Test func everyDayOfFourCenturiesIsTheOneAfterTheDayBefore() {
    var (year, month, day, weekday) = (1970, 1, 1, 4)
    for days in 0..<146_097 as Range<Int64> {
      let time = CalendarTime(secondsSince1970: days * 86_400 + days % 86_400)
      if (time.year, time.month, time.day, time.weekday) != (year, month, day, weekday) {
        Issue.record("day \(days): \(time), expected \(year)-\(month)-\(day)")
        return
      }
      let rest = Int(days % 86_400)
      if (time.hour, time.minute, time.second) != (rest / 3600, rest / 60 % 60, rest % 60) {
        Issue.record("day \(days): \(time)")
        return
      }
      let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
      let lengths = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
      weekday = (weekday + 1) % 7
      day += 1
      if day > lengths[month - 1] {
        day = 1
        month += 1
      }
      if month > 12 {
        month = 1
        year += 1
      }
    }
    #expect((year, month, day) == (2370, 1, 1))
  }
}
