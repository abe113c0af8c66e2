// A stream as its server sees it: it takes the place of a socket. Tests: test_http2.py.

import Bytes
import HTTP2
import Transport

final class HTTP2Carrier: CarriedStream {
  private let stream: HTTP2Stream
  private let endpoint: HTTP2Endpoint
  /// The slot of the conversation or upstream that serves it.
  private let slot: Int
  private let generation: UInt32
  @exclusivity(unchecked) private var wanted: Interest? = .read

  init(_ stream: HTTP2Stream, of endpoint: HTTP2Endpoint, servedBy slot: Int) {
    self.stream = stream
    self.endpoint = endpoint
    self.slot = slot
    generation = endpoint.worker.generation(slot)
    stream.server = self
    stream.isServed = true
  }

  func isCarried(by endpoint: HTTP2Endpoint) -> Bool { self.endpoint === endpoint }

  func noteIdle(_ milliseconds: Int64?) {
    if case .origin(let line) = endpoint.peer { line.noteIdle(milliseconds) }
  }

  func pair(with other: any CarriedStream) {
    if let other = other as? HTTP2Carrier { stream.pair(with: other.stream) }
  }

  /// The peer did nothing of the request.
  var wasRefused: Bool { stream.wasRefused }
  var wasUnsent: Bool { stream.number == 0 }

  var abortion: CarriedAbortion? {
    switch stream.abortion {
    case .malformed: .malformed
    case .reset(let code): .reset(code.name)
    case nil: nil
    }
  }

  var carrierTLS: TLSStream? { endpoint.stream.tls ?? endpoint.stream.carried?.carrierTLS }

  func read(into buffer: inout ByteBuffer, atMost most: Int) -> Transfer {
    let count = stream.read(into: &buffer, atMost: most)
    if count > 0 {
      endpoint.mark()
      return .moved(count)
    }
    if stream.isEnded { return .ended }
    return stream.isBroken ? .failed(SystemError.connectionReset.number) : .wouldBlock
  }

  func write(_ first: borrowing ByteBuffer, then second: Span<UInt8>) -> Transfer {
    if stream.isBroken { return .failed(SystemError.connectionReset.number) }
    let room = stream.room
    if room == 0 { return .wouldBlock }
    endpoint.connection.timeIs(endpoint.worker.now)
    // As a socket does, it takes what there is room for. The rest waits at its server, where limits count it.
    let first = first.bytes.extracting(first: min(first.count, room))
    let second = second.extracting(first: min(second.count, room - first.count))
    guard stream.write(first), endpoint.write(second, to: stream) else {
      return .failed(SystemError.connectionReset.number)
    }
    endpoint.mark()
    return .moved(first.count + second.count)
  }

  var room: Int { stream.room }
  /// An event announces everything.
  var hasMore: Bool { false }
  var isSilent: Bool { stream.readable == 0 && !stream.isBroken && !stream.isEnded }

  func watch(_ interest: Interest?) {
    wanted = interest
    if !happened.isEmpty { endpoint.touch(stream) }
  }

  /// Those of the wanted events that have happened, and whether the stream is broken.
  private var happened: Interest {
    guard let wanted else { return [] }
    var happened: Interest = []
    if stream.isBroken { happened.insert(.peerClosed) }
    if wanted.isSuperset(of: .read), stream.readable > 0 || stream.isEnded { happened.formUnion(.read) }
    if wanted.contains(.write), stream.room > 0 { happened.insert(.write) }
    return happened
  }

  func tell(_ worker: Worker) {
    if stream.asksForHTTP11 { endpoint.speaksHTTP11Alone() }
    let happened = self.happened
    if happened.isEmpty || worker.generation(slot) != generation { return }
    worker.dispatch(
      .carried(
        isReadable: happened.isSuperset(of: .read), isWritable: happened.contains(.write), isBroken: stream.isBroken),
      to: slot)
  }

  func shutdownWrite() {
    stream.endTunnel()
    endpoint.mark()
  }

  func close() {
    stream.server = nil
    if stream.isUnfinished { endpoint.doubt(since: stream.openedAt) }
    stream.leave()
    endpoint.mark()
  }

  func abort() {
    stream.server = nil
    stream.reset(endpoint.isClient ? .internalError : .cancel)
    endpoint.mark()
  }
}
