// Which frames for streams that are not open are faults of the connection.

import Testing

@testable import HTTP2

@Suite struct RecentStreamsTests {
  private func recent(_ numbers: [Int32], ended: [Int32] = []) -> RecentStreams {
    var recent = RecentStreams()
    for number in numbers { recent.opened(number) }
    for number in ended { recent.endedByPeer(number) }
    return recent
  }

  @Test func whatOpensAStreamIsNone() {
    #expect(RecentStreams().fault(of: 1) == nil)
    #expect(RecentStreams().fault(of: .max) == nil)
    #expect(recent([1, 3]).fault(of: 5) == nil)
    #expect(recent([1, 3]).fault(of: 101) == nil)
  }

  @Test func aNumberThatWasPassedOverCannotBeOpened() {
    let recent = recent([5, 11])
    for number in [1, 3, 7, 9] as [Int32] {
      #expect(recent.fault(of: number)?.code == .protocolError)
    }
    #expect(recent.fault(of: 7)?.detail == "the peer opened stream 7 behind stream 11")
  }

  @Test func whatTheClientEndedGoesOnNoMore() {
    let recent = recent([1, 3, 5], ended: [3])
    #expect(
      recent.fault(of: 3)
        == ConnectionFault(code: .streamClosed, detail: "the peer went on with stream 3, which it had ended"))
    // The proxy ended these, and the client may not know yet.
    #expect(recent.fault(of: 1) == nil && recent.fault(of: 5) == nil)
  }

  /// Those of the connection itself (0), and those that a server would open.
  @Test func onlyOddNumbersAreStreamsOfClients() {
    let recent = recent([1, 9], ended: [1, 9])
    for number in [0, 2, 4, 8] as [Int32] { #expect(recent.fault(of: number) == nil) }
  }

  @Test func aStreamThatIsUnknownIsNotEnded() {
    let recent = recent([1, 5], ended: [3, 7])
    #expect(recent.fault(of: 3)?.code == .protocolError)
    #expect(recent.fault(of: 7) == nil)
  }

  @Test func whatIsLongOverIsForgotten() {
    let numbers = (0..<Int32(RecentStreams.most)).map { 4 * $0 + 1 }
    var full = recent(numbers, ended: numbers)
    #expect(full.fault(of: 1)?.code == .streamClosed && full.fault(of: 3)?.code == .protocolError)
    // One more, and half of them are gone.
    let next = 4 * Int32(RecentStreams.most) + 1
    full.opened(next)
    let oldest = numbers[RecentStreams.most / 2]
    for number in 0..<oldest { #expect(full.fault(of: number) == nil) }
    for number in numbers[(RecentStreams.most / 2)...] {
      #expect(full.fault(of: number)?.code == .streamClosed)
      #expect(full.fault(of: number + 2)?.code == .protocolError)
    }
    #expect(full.fault(of: next) == nil)
    // Whoever ends one that is forgotten changes nothing.
    full.endedByPeer(1)
    #expect(full.fault(of: 1) == nil)
  }
}
