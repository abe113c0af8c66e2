// Dates in and out, against what `date -u -d` says.

import Bytes
import Testing

@testable import Policy

@Suite struct CalendarDateTests {
  @Test(
    arguments: [
      ("1970-01-01", 86_400), ("2027-06-01", 1_811_894_400), ("2024-02-29", 1_709_251_200),
      ("2000-02-29", 951_868_800), ("2100-02-28", 4_107_542_400), ("1969-12-31", 0),
      ("2027-06-01T00:00:00", 1_811_808_000), ("2027-06-01T00:00:00Z", 1_811_808_000),
      ("2027-06-01T12:30:15.999", 1_811_853_015), ("2027-06-01T01:00:00+01:00", 1_811_808_000),
      ("2027-05-31T17:00:00-07:00", 1_811_808_000), ("2027-06-01T05:45:00+05:45", 1_811_808_000),
      ("9999-12-31T23:59:59Z", 253_402_300_799),
    ] as [(String, Int64)]) func aDateEndsWithItsDayAndATimeAtOnce(text: String, seconds: Int64)
  {
    #expect(CalendarDate.end(of: text) == seconds)
  }

  @Test func aTimeAloneIsNoDate() {
    #expect(CalendarDate.end(of: "07:32:00") == nil)
    #expect(CalendarDate.end(of: "07:32:00.5") == nil)
  }

  @Test(
    arguments: [
      (0, "1970-01-01 00:00:00 UTC"), (-1, "1969-12-31 23:59:59 UTC"), (951_827_696, "2000-02-29 12:34:56 UTC"),
      (1_709_164_800, "2024-02-29 00:00:00 UTC"), (1_735_689_599, "2024-12-31 23:59:59 UTC"),
      (4_107_542_400, "2100-03-01 00:00:00 UTC"), (4_733_510_400, "2120-01-01 00:00:00 UTC"),
      (253_402_300_799, "9999-12-31 23:59:59 UTC"), (-62_135_596_800, "0001-01-01 00:00:00 UTC"),
    ] as [(Int64, String)]) func secondsAreWrittenAsTheirDate(seconds: Int64, text: String)
  {
    #expect(CalendarDate.timeText(seconds) == text)
  }

  @Test func whatNoCalendarKnowsIsTheNearestThatItKnows() {
    #expect(CalendarDate.text(.max) == "9999-12-31")
    #expect(CalendarDate.text(.min) == "0001-01-01")
  }

  @Test func everyDayOfFourCenturiesReadsBack() {
    for day in stride(from: Int64(-146_097), through: 146_097, by: 1) {
      let text = CalendarDate.text(day * CalendarTime.secondsPerDay)
      if CalendarDate.end(of: text) != (day + 1) * CalendarTime.secondsPerDay { Issue.record("\(day): \(text)") }
    }
  }

  /// As TOML hands them over.
  @Test(arguments: [
    "1979-05-27", "1979-05-27T07:32:00", "1979-05-27T07:32:00Z", "1979-05-27T00:32:00-07:00",
    "1979-05-27T00:32:00.999999-07:00",
  ]) func theFormsOfTOMLAreRead(text: String) throws {
    let root = try TOMLDocument.parse(Array("x = \(text)".utf8)).get()
    guard case .table(let entries) = root.content, case .dateTime(let read) = entries[0].value.content else {
      Issue.record("no date: \(root)")
      return
    }
    #expect(CalendarDate.end(of: read) == CalendarDate.end(of: text))
    #expect(CalendarDate.end(of: read) != nil)
  }
}
