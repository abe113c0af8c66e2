// Whose subordinate user a number is, as /etc/subuid has it.

import Testing

@testable import Transport

@Suite struct SubordinateUsersTests {
  static let text = """
    # a comment
    alice:100000:65536
    bob:165536:65536
    0:300000:1
    carol:150000:20000
    wide:50:1000000
    end:4294967290:100

    none
    x:1
    :5:5
    y:-1:5
    z:7:0
    a:b:c:d
    alice:100000:10
    """

  static let rows: [(UInt32, [String])] = [
    (0, []), (7, []), (49, []), (50, ["wide"]), (99_999, ["wide"]), (100_000, ["alice", "wide"]),
    (150_000, ["alice", "carol", "wide"]), (165_535, ["alice", "carol", "wide"]), (165_536, ["bob", "carol", "wide"]),
    (169_999, ["bob", "carol", "wide"]), (170_000, ["bob", "wide"]), (231_072, ["wide"]), (300_000, ["0", "wide"]),
    (300_001, ["wide"]), (1_000_049, ["wide"]), (1_000_050, []), (4_294_967_289, []), (4_294_967_290, ["end"]),
    (4_294_967_295, ["end"]),
  ]

  @Test(arguments: rows) func ownersAreThoseOfEveryRange(userID: UInt32, owners: [String]) {
    #expect(SubordinateUsers(Array(Self.text.utf8)).owners(of: userID).sorted() == owners)
  }

  @Test func withoutAFileThereAreNone() {
    let none = SubordinateUsers.read("/no/such/file")
    #expect(none.isKnown && none.ownerNumbers(of: 100_000) == [])
  }

  @Test func whatCannotBeReadLeavesOwnersInDoubt() {
    let lost = SubordinateUsers.read("/")
    #expect(!lost.isKnown && lost.ownerNumbers(of: 100_000) == nil)
  }

  @Test func ownersAreNumbers() {
    let users = SubordinateUsers(Array("root:100000:10\n1234567:200000:10\nno-such-user:300000:10".utf8))
    #expect(users.ownerNumbers(of: 100_001) == [0] && users.ownerNumbers(of: 200_001) == [1_234_567])
    #expect(users.ownerNumbers(of: 300_001) == [])
  }
}
