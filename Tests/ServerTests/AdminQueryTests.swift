// Queries of the admin API.

import Testing

@testable import Server

@Suite struct AdminQueryTests {
  private static let fault = AdminQuery.Fault(
    sentence: "expected text without blanks and control characters as the value of 'a' in the query")

  @Test(
    arguments: [
      ("", .success([])), ("b=1", .success([])), ("a=1", .success(["1"])), ("a", .success([""])),
      ("a=", .success([""])),
      ("a=1&b=2&a=3", .success(["1", "3"])), ("a=b=c", .success(["b=c"])), ("&&a=1&", .success(["1"])),
      ("%61=%31%2c2", .success(["1,2"])), ("a=%5B::1%5D", .success(["[::1]"])), ("a=1+2", .success(["1+2"])),
      ("%6=1&a=1", .success(["1"])), ("a=%", .failure(fault)), ("a=%4", .failure(fault)),
      ("a=%4g", .failure(fault)), ("a=%00", .failure(fault)), ("a=%0a", .failure(fault)), ("a=%20", .failure(fault)),
      ("a=%c3%a9", .success(["\u{e9}"])), ("a=%c3", .failure(fault)), ("a=1&a=%7f", .failure(fault)),
      ("b=%&a=1", .success(["1"])),
    ] as [(String, Result<[String], AdminQuery.Fault>)])
  func theValuesOfAName(_ query: String, _ values: Result<[String], AdminQuery.Fault>) {
    #expect(AdminQuery.values(of: "a", in: query) == values)
  }
}
