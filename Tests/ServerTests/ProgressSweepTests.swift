// Of which exchanges a loop tells.

import Bytes
import Testing

@testable import Server
@testable import Session

@Suite struct ProgressSweepTests {
  private static let old = ProgressSweep.intervalMilliseconds

  @Test func anExchangeIsToldOfWhenItsBytesHaveMoved() {
    var sweep = ProgressSweep()
    let reference = Reference(value: 1)
    #expect(sweep.tells(3, reference, bytes: 10, ageMilliseconds: Self.old - 1) == false, "it may be over soon")
    #expect(sweep.tells(3, reference, bytes: 10, ageMilliseconds: Self.old) == true)
    #expect(sweep.tells(3, reference, bytes: 10, ageMilliseconds: 9999) == false)
    #expect(sweep.tells(3, reference, bytes: 11, ageMilliseconds: 9999) == true)
    #expect(sweep.tells(4, reference, bytes: 11, ageMilliseconds: 9999) == true, "another slot")
  }

  @Test func theNextExchangeOfAConnectionIsAnother() {
    var sweep = ProgressSweep()
    #expect(sweep.tells(3, Reference(value: 1), bytes: 10, ageMilliseconds: Self.old) == true)
    #expect(sweep.tells(3, Reference(value: 2), bytes: 10, ageMilliseconds: Self.old) == true)
    sweep.forget(3)
    #expect(sweep.tells(3, Reference(value: 2), bytes: 10, ageMilliseconds: Self.old) == true)
    sweep.forgetAll()
    #expect(sweep.tells(3, Reference(value: 2), bytes: 10, ageMilliseconds: Self.old) == true)
  }
}
