// Streams whose servers have left while the peer may still send. What it sends is of no use any more (RFC 9113, 8.1),
// but the stream is reset only after our message has been sent. A client's request has a while longer to end by itself:
// clients that see the answer stop sending, and libcurl 7.88 (Debian 12) drops an answer that a reset follows at once.
// Tests: HTTP2Tests.

struct EndingStreams {
  /// Those whose messages of ours are not sent yet.
  private var sending: [HTTP2Stream] = []
  /// Requests that are answered, in the order in which their time ends, in milliseconds of the connection's clock.
  private var lingering: [(stream: HTTP2Stream, until: Int64)] = []

  mutating func add(_ stream: HTTP2Stream) { sending.append(stream) }

  mutating func removeAll() { self = Self() }

  /// When the time of the next request ends; nil: there is none.
  var until: Int64? { lingering.first { !$0.stream.isClosed }?.until }

  /// Those that are to be reset now. `linger`: how long an answered request may go on from now, in milliseconds.
  mutating func takeDue(now: Int64, linger: Int64) -> [HTTP2Stream] {
    if sending.isEmpty && lingering.isEmpty { return [] }
    var due: [HTTP2Stream] = []
    for stream in sending where stream.isAnswered && !stream.isClosed {
      if stream.isTunnel {
        due.append(stream)
      } else {
        lingering.append((stream, now + linger))
      }
    }
    sending.removeAll { $0.isAnswered || $0.isClosed }
    lingering.removeAll { $0.stream.isClosed }
    let surplus = lingering.count - ConnectionLimits.mostLingering
    let over = lingering.indices.prefix { $0 < surplus || lingering[$0].until <= now }
    due += over.map { lingering[$0].stream }
    lingering.removeFirst(over.count)
    return due
  }
}
