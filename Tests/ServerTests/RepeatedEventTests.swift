// An event that is said now and then.

import Testing

@testable import Server

struct RepeatedEventTests {
  @Test func oneLineInEachPauseSaysHowManyThereWere() {
    var event = RepeatedEvent()
    #expect(event.happened(now: 5) == 0)
    for time in 6..<1000 as Range<Int64> { #expect(event.happened(now: time) == nil) }
    #expect(event.happened(now: 5 + RepeatedEvent.pauseMilliseconds - 1) == nil)
    #expect(event.happened(now: 5 + RepeatedEvent.pauseMilliseconds) == 995)
    #expect(event.happened(now: 6 + RepeatedEvent.pauseMilliseconds) == nil)
    #expect(event.happened(now: 9 * RepeatedEvent.pauseMilliseconds) == 1)
    #expect(event.happened(now: 99 * RepeatedEvent.pauseMilliseconds) == 0)
  }
}
