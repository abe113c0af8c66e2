// What the upstream sends: read, and passed to the exchange.

import Bytes
import Session
import Transport

extension Conversation {
  var canReadUpstream: Bool {
    ending == nil && !upstreamSide.state.contains(.ended) && !awaitsRoom && upstream != nil && outputs.toClient.isEmpty
      && !upstreamSide.holdsPiped && !session.exchange.downloadRests
  }

  /// `takesBytes`: the client's socket has just become writable.
  func readUpstream(takesBytes: Bool = false, _ worker: Worker) {
    if splice(from: .upstream, worker) || giveStored(worker) { return }
    guard let upstream else { return }
    // After the head of a long body the rest is better not copied, so little more than the head is read.
    let isAtHead = session.exchange.awaitsResponseHead
    let isBeforeSplicing = isAtHead && upstream.sendsLongBodies && upstream.stream.isBare && stream.isBare
    var room = isBeforeSplicing ? Self.headBytes : responseRoom
    // Others may wait for the head that the cache is to see.
    let isForCache = caching?.awaitsHead ?? false
    if !isBeforeSplicing, !takesBytes, !isForCache, clientRoom < Self.leastRoom, !session.exchange.holdsBody,
      !clientSide.state.contains(.broken)
    {
      awaitsRoom = true
      return
    }
    // A body that is held leaves at its pace later.
    if let allowed = session.exchange.downloadAllowance(now: worker.now), !session.exchange.holdsBody {
      room = min(room, max(allowed, Self.leastReadBytes))
    }
    if let tls = upstream.stream.tls {
      let ahead = aheadBytes(isLong: !isAtHead || upstream.sendsLongBodies)
      if ahead > 0, !session.exchange.holdsBody { room = min(room, Self.besideAheadBytes) }
      tls.readAhead(ahead)
    }
    var input = takeInput(&upstreamInput, room, worker)
    switch upstream.stream.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { upstreamSide.state.insert(.isBulk) }
      pumpUpstream(&input, worker)
      keepInput(&input, &upstreamInput, worker)
      if isAtHead {
        upstream.sendsLongBodies = UInt64(count) &+ session.exchange.unchangedResponseBytes >= Self.leastSplicedBytes
        if upstream.sendsLongBodies, self.upstream === upstream, canReadUpstream { _ = splice(from: .upstream, worker) }
      }
    case .wouldBlock:
      keepInput(&input, &upstreamInput, worker)
    case .ended:
      keepInput(&input, &upstreamInput, worker)
      upstreamStreamEnded(broken: false, worker)
    case .failed:
      keepInput(&input, &upstreamInput, worker)
      upstreamStreamEnded(broken: true, worker)
    }
  }

  /// The least that is read for a client whose socket accepts bytes, in however small a buffer.
  static let slowReadBytes = 8 << 10
  /// If the room is less than a TLS record with its head needs, the proxy waits for more: bytes that the socket does
  /// not accept would be kept for as long as the client likes.
  static let leastRoom = 18 << 10
  /// The size of a TLS read where more is read ahead: both together are less than the socket of a reading client
  /// accepts.
  static let besideAheadBytes = 32 << 10
  /// What is read ahead for one of many streams of the client: two records of the largest size with their headers.
  static let streamAheadBytes = 34 << 10
  /// The least that a socket that has sent nothing accepts: the kernel need not be asked.
  static let freshRoom = 32 << 10
  /// Above this the kernel need not be asked again.
  static let ampleRoom = 64 << 10
  /// What a write uses of the socket's room besides its bytes: the kernel's own accounting.
  static let writeOverheadBytes = 2 << 10

  /// How much TLS may read ahead. Bytes that were read ahead and find no room wait as long as the client likes, so
  /// there is room for all of them, or the body is held anyway. A stream never has as much room as a socket.
  private func aheadBytes(isLong: Bool) -> Int {
    let most = isLong ? TLSContext.readAheadBytes : TLSContext.recordBytes
    if session.exchange.holdsBody { return most }
    let spare = clientRoom - Self.besideAheadBytes
    if spare >= most { return most }
    return isStream && spare >= Self.streamAheadBytes ? Self.streamAheadBytes : 0
  }

  /// How much is read of the upstream at once: no more than the client's socket accepts.
  private var responseRoom: Int {
    if clientRoom < Self.ampleRoom, clientRoom != Self.freshRoom || isStream { clientRoom = stream.sendRoom }
    if clientRoom >= Worker.readBytes { return Worker.readBytes }
    // Blocks are powers of two, and are filled completely.
    return max(Self.slowReadBytes, 1 << (Int.bitWidth - 1 - max(1, clientRoom).leadingZeroBitCount))
  }

  func upstreamStreamEnded(broken: Bool, _ worker: Worker) {
    let end = endOfUpstream(broken: broken)
    let silence = end == .malformed ? "malformed-response" : "connection-closed"
    if caching != nil, !session.exchange.goesAgain(after: end, outputs), cacheStandsInForSilence(silence, worker) {
      return
    }
    upstreamSide.state.insert(.ended)
    let action = session.exchange.upstreamEnded(end, now: worker.now, &worker.workspace, &outputs)
    perform(action, otherIsUpstream: false, worker)
  }

  private func endOfUpstream(broken: Bool) -> UpstreamEnd {
    if let stream = upstream?.stream.carried {
      if stream.wasRefused { return .refused(wasSent: !stream.wasUnsent) }
      switch stream.abortion {
      case .malformed: return .malformed
      case .reset(let code): return .reset(code: code)
      case nil: break
      }
    }
    guard broken else { return .closed }
    return upstream?.stream.tls?.alert.map { .alert($0) } ?? .broken
  }

  func pumpUpstream(_ input: inout ByteBuffer, _ worker: Worker) {
    upstreamSide.state.remove(.sawInput)
    var goesOn = true
    let isShort = worker.heldIsShort
    while goesOn, upstream != nil, ending == nil {
      if caching?.awaitsHead ?? false, cacheTakes(&input, worker) { return }
      if isShort || session.exchange.client.heldOverdraft > 0 { prepareToHold(worker) }
      let step = session.exchange.upstreamReceived(input.bytes, now: worker.now, &worker.workspace, &outputs)
      input.consume(step.consumed)
      if session.exchange.holdsBody || held.bytes > 0 { accountHeld(worker) }
      switch step.action {
      case .read:
        goesOn = step.consumed > 0 && !input.isEmpty
        if !goesOn { upstreamSide.state.insert(.sawInput) }
      case .hold:
        goesOn = false
      case .forward(let count):
        forward(from: .upstream, &input, count, worker)
        if let action = session.exchange.endIfComplete() {
          finish(action, leaves: !input.isEmpty, worker)
          goesOn = false
        } else {
          goesOn = !input.isEmpty && outputs.toClient.isEmpty
        }
      case .end:
        finish(step.action, leaves: !input.isEmpty, worker)
        goesOn = false
      case .connect, .reconnect, .intercept, .judge, .tunnel, .closeOtherWrite, .close:
        perform(step.action, worker)
        goesOn = !input.isEmpty && outputs.toClient.isEmpty
      }
    }
    // No exchange will ask for what is left of a response that is over.
    if upstream == nil { input.removeAll() }
    if ending == nil { flush(to: .client, worker) }
  }
}
