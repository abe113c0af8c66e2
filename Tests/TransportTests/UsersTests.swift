// Users by name, as this machine's name service knows them.

import Testing

@testable import Transport

@Suite struct UsersTests {
  @Test func theFirstUserIsThere() { #expect(Users.number(of: "root") == .success(0)) }

  @Test(arguments: ["", "no-such-user", "ro:ot", "0", String(repeating: "u", count: 10_000)])
  func whoIsNotThereIsNoError(name: String) { #expect(Users.number(of: name) == .success(nil)) }
}
