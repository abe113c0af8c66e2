// The calendar both ways. How dates of HTTP are read and written: HTTPDateTests.

import Bytes
import Testing

@Suite struct CalendarTimeTests {
  @Test(arguments: [
    (Int64(0), "1970-01-01T00:00:00Z"), (951_782_400, "2000-02-29T00:00:00Z"), (-1, "1969-12-31T23:59:59Z"),
    (784_111_777, "1994-11-06T08:49:37Z"), (253_402_300_799, "9999-12-31T23:59:59Z"),
    (-62_135_596_800, "0001-01-01T00:00:00Z"),
  ])
  func moments(seconds: Int64, text: String) {
    let time = CalendarTime(secondsSince1970: seconds)
    #expect(time.text == text && time.text == "\(time.dayText)T\(time.clockText)Z")
    let ofDay = time.hour * 3600 + time.minute * 60 + time.second
    #expect(CalendarTime.seconds(year: time.year, month: time.month, day: time.day, secondOfDay: ofDay) == seconds)
  }

  @Test func everyDayOfFourCenturiesComesBack() {
    for day in stride(from: Int64(-146_097), to: 146_097, by: 1) {
      let time = CalendarTime(secondsSince1970: day * CalendarTime.secondsPerDay)
      #expect(
        CalendarTime.seconds(year: time.year, month: time.month, day: time.day) == day * CalendarTime.secondsPerDay)
    }
  }

  @Test(arguments: [
    (2023, 2, 29), (1900, 2, 29), (2026, 4, 31), (2026, 13, 1), (2026, 0, 1), (2026, 1, 0), (2026, 1, 32),
  ])
  func daysThatThereAreNot(year: Int, month: Int, day: Int) {
    #expect(CalendarTime.seconds(year: year, month: month, day: day) == nil)
  }
}
