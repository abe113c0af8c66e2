// The streams that a client opened last, and which of them it ended itself. They decide whether a frame that carries a
// message for a stream that is not open is a fault of the connection (RFC 9113, 5.1 and 5.1.1).
// Tests: RecentStreamsTests.

struct RecentStreams {
  /// At most this many are remembered, and at least half as many. Frames in flight for older ones arrived long ago.
  static let most = 64

  /// The newest at the end.
  private var latest: [(number: Int32, wasEndedByPeer: Bool)] = []
  private var oldestKnown: Int32 = 1

  /// Stream numbers only rise.
  mutating func opened(_ number: Int32) {
    if latest.count == Self.most {
      latest.removeFirst(Self.most / 2)
      oldestKnown = latest[0].number
    }
    latest.append((number, false))
  }

  /// The stream is over, and the client had ended its side before.
  mutating func endedByPeer(_ number: Int32) {
    guard let index = latest.lastIndex(where: { $0.number == number }) else { return }
    latest[index].wasEndedByPeer = true
  }

  /// The fault of HEADERS or DATA for a stream that is not open. nil: none, because they open it, or were in flight
  /// when the proxy ended it.
  func fault(of number: Int32) -> ConnectionFault? {
    guard let newest = latest.last?.number, number & 1 == 1, number >= oldestKnown, number <= newest else { return nil }
    guard let known = latest.first(where: { $0.number == number }) else {
      return ConnectionFault(code: .protocolError, detail: "the peer opened stream \(number) behind stream \(newest)")
    }
    guard known.wasEndedByPeer else { return nil }
    return ConnectionFault(code: .streamClosed, detail: "the peer went on with stream \(number), which it had ended")
  }
}
