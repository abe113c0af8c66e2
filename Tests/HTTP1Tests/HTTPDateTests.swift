// Dates: known ones, and every day of four centuries against a calendar that counts day by day; and how fields are read as dates.

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

  // MARK: Reading

  /// Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110, 5.6.7.
  private static let example: Int64 = 784_111_777
  /// Sun, 01 Mar 2026 12:00:00 GMT.
  private static let now: Int64 = 1_772_366_400

  private static func read(_ text: String, now: Int64 = now) -> Int64? {
    let bytes = octets(text)
    return HTTPDate.read(bytes.span, now: now)
  }

  @Test(arguments: [
    // RFC 9110, 5.6.7: the three formats.
    "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
    // date3 takes two digits for the day as well.
    "Sun Nov 06 08:49:37 1994",
    // RFC 9111, 4.2: a cache should read them in any case.
    "SUN, 06 NOV 1994 08:49:37 GMT", "sun, 06 nov 1994 08:49:37 gmt", "sUn, 06 nOV 1994 08:49:37 GmT",
    "SUNDAY, 06-NOV-94 08:49:37 GMT", "sunday, 06-nov-94 08:49:37 gmt", "SUN NOV  6 08:49:37 1994",
    "sun nov  6 08:49:37 1994",
    // 5.6.7 asks to be robust: the day of the week adds nothing to the date.
    "Mon, 06 Nov 1994 08:49:37 GMT", "Monday, 06-Nov-94 08:49:37 GMT", "Mon Nov  6 08:49:37 1994",
  ])
  func theSameMomentInEveryFormat(_ text: String) {
    #expect(Self.read(text) == Self.example)
  }

  @Test(
    arguments: [
      // Leap days of RFC 5322, 3.3, and the second that a minute may have more.
      ("Thu, 29 Feb 2024 00:00:00 GMT", 1_709_164_800), ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
      ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800), ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
      ("Wed, 31 Dec 1969 23:59:59 GMT", -1), ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799),
      ("Tue Jan 19 03:14:08 2038", 2_147_483_648), ("Thu Jan  1 00:00:00 1970", 0),
    ] as [(String, Int64)]) func aMomentThatIsRead(text: String, seconds: Int64)
  {
    #expect(Self.read(text) == seconds)
  }

  @Test(arguments: [
    "", "0", "-1", "now", "784111777", ",", "GMT", "Sun,", "                        ", "Sun, 06 Nov 1994",
    // A day of one digit, an hour of one, years of other lengths.
    "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 Nov 94 08:49:37 GMT",
    "Sun, 06 Nov 01994 08:49:37 GMT", "Sun, 06 Nov 12994 08:49:37 GMT", "Sun Nov 6 08:49:37 1994",
    "Sunday, 06-Nov-1994 08:49:37 GMT", "Sunday, 6-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 94",
    // Days and times that no calendar has.
    "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 31 Nov 1994 08:49:37 GMT", "Sun, 32 Jan 1994 08:49:37 GMT",
    "Wed, 29 Feb 2023 00:00:00 GMT", "Thu, 29 Feb 1900 00:00:00 GMT", "Mon, 29 Feb 2100 00:00:00 GMT",
    "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
    "Sun Nov  0 08:49:37 1994", "Sun Nov 31 08:49:37 1994",
    // RFC 9111, 4.2: no zone but GMT.
    "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 EST", "Sun, 06 Nov 1994 08:49:37 AEST",
    "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 1994 08:49:37 -0100", "Sun, 06 Nov 1994 08:49:37 Z",
    "Sun, 06 Nov 1994 08:49:37", "Sun Nov  6 08:49:37 1994 GMT", "Sunday, 06-Nov-94 08:49:37 UTC",
    // Other marks between the parts, more or fewer of them.
    "Sun 06 Nov 1994 08:49:37 GMT", "Sun,06 Nov 1994 08:49:37 GMT", "Sun,  06 Nov 1994 08:49:37 GMT",
    "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06 Nov 1994 08.49.37 GMT", "Sun, 06 Nov 1994  08:49:37 GMT",
    "Sun, 06 Nov 1994 08:49:37  GMT", "Sun, 06\tNov 1994 08:49:37 GMT", "Sun, 06 Nov 1994T08:49:37 GMT",
    "Sun Nov  6 08:49:37  994", "Sun-Nov- 6-08:49:37-1994", "Sunday 06-Nov-94 08:49:37 GMT",
    "Sunday, 06 Nov 94 08:49:37 GMT", "Sun, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z",
    // Words that are none.
    "Sux, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nox 1994 08:49:37 GMT", "Sundax, 06-Nov-94 08:49:37 GMT",
    "Sun Nox  6 08:49:37 1994", "Sun, 06 November 1994 08:49:37 GMT", "Sun, O6 Nov 1994 08:49:37 GMT",
    "Sun, +6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov -994 08:49:37 GMT", "Sun, 06 Nov 1994 -8:49:37 GMT",
    // Something before or behind it, and two of them in one line.
    " Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT ", "\"Sun, 06 Nov 1994 08:49:37 GMT\"",
    "Sun, 06 Nov 1994 08:49:37 GMT; a=b", "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
    "S\u{fc}n, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GM\u{54}\u{0}",
  ])
  func whatIsNoDate(_ text: String) {
    #expect(Self.read(text) == nil, "RFC 9110, 5.6.7")
  }

  struct Century: Sendable {
    let now: String
    let text: String
    let meant: String
  }

  /// RFC 9110, 5.6.7: a time that appears to be more than 50 years ahead is the most recent year of the past with these digits.
  static let centuries: [Century] = [
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Sunday, 06-Nov-94 08:49:37 GMT",
      meant: "Sun, 06 Nov 1994 08:49:37 GMT"),
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Sunday, 01-Mar-26 12:00:00 GMT",
      meant: "Sun, 01 Mar 2026 12:00:00 GMT"),
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Thursday, 01-Mar-68 00:00:00 GMT",
      meant: "Thu, 01 Mar 2068 00:00:00 GMT"),
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Saturday, 01-Jan-00 00:00:00 GMT",
      meant: "Sat, 01 Jan 2000 00:00:00 GMT"),
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Sunday, 01-Mar-76 12:00:00 GMT",
      meant: "Sun, 01 Mar 2076 12:00:00 GMT"),
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Saturday, 01-Jan-77 00:00:00 GMT",
      meant: "Sat, 01 Jan 1977 00:00:00 GMT"),
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Friday, 31-Dec-99 23:59:59 GMT",
      meant: "Fri, 31 Dec 1999 23:59:59 GMT"),
    Century(
      now: "Sun, 01 Mar 2026 12:00:00 GMT", text: "Friday, 31-Dec-76 23:59:59 GMT",
      meant: "Fri, 31 Dec 1976 23:59:59 GMT"),
    Century(
      now: "Fri, 31 Dec 1999 23:00:00 GMT", text: "Friday, 31-Dec-99 23:30:00 GMT",
      meant: "Fri, 31 Dec 1999 23:30:00 GMT"),
    Century(
      now: "Fri, 01 Jan 2060 00:00:00 GMT", text: "Friday, 31-Dec-99 23:30:00 GMT",
      meant: "Thu, 31 Dec 2099 23:30:00 GMT"),
  ]

  @Test(arguments: centuries) func twoDigitsOfAYear(_ row: Century) throws {
    let now = try #require(Self.read(row.now))
    func check() { #expect(Self.read(row.text, now: now) == Self.read(row.meant), "\(row)") }
    check()
  }

  @Test func whatIsWrittenIsReadAgainInEveryFormat() {
    let longNames = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
    var generator = SeededGenerator(seed: 9110)
    for _ in 0..<4000 {
      // From the year 1 to the year 9999.
      let seconds = Int64.random(in: -62_135_596_800...253_402_300_799, using: &generator)
      let fixdate = Self.text(seconds)[0]
      #expect(Self.read(fixdate) == seconds, "\(fixdate)")
      let words = fixdate.split(separator: " ").map(String.init)
      let day = words[1].hasPrefix("0") ? " " + words[1].dropFirst() : words[1]
      let asctime = "\(words[0].dropLast()) \(words[2]) \(day) \(words[4]) \(words[3])"
      #expect(Self.read(asctime) == seconds, "\(asctime)")
      let weekday = longNames[CalendarTime(secondsSince1970: seconds).weekday]
      let rfc850 = "\(weekday), \(words[1])-\(words[2])-\(words[3].suffix(2)) \(words[4]) GMT"
      // At the moment itself its own century is the one that is meant.
      #expect(Self.read(rfc850, now: seconds) == seconds, "\(rfc850)")
    }
  }

  @Test func nothingBreaksTheReader() {
    var generator = SeededGenerator(seed: 5322)
    let templates = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
    for _ in 0..<4000 {
      var bytes = octets(templates[Int.random(in: 0..<3, using: &generator)])
      for _ in 0..<Int.random(in: 1...3, using: &generator) {
        let place = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<3, using: &generator) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
        case 1: bytes.insert(0x2c, at: place)
        default: bytes.remove(at: place)
        }
      }
      // Whatever it says, it is a moment that a calendar has, or nothing.
      if let seconds = HTTPDate.read(bytes.span, now: Self.now) {
        #expect((0...9999).contains(CalendarTime(secondsSince1970: seconds).year), "\(shown(bytes))")
      }
    }
  }
}
