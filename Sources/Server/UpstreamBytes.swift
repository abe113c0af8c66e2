// From the upstream to the session, and on to the client: reading, pumping, sending.

import Bytes
import Session
import Transport

extension Conversation {
  var canReadUpstream: Bool {
    ending == nil && flags.isDisjoint(with: [.upstreamEnded, .awaitsRoom]) && upstream != nil && outputs.toClient.isEmpty
      && !(streams?.holdsResponse ?? false) && !session.exchange.downloadRests
  }

  /// `takesBytes`: the client's socket has just said so.
  func readUpstream(takesBytes: Bool = false, _ worker: Worker) {
    if spliceResponse(worker) { return }
    guard let upstream else { return }
    // Behind the head of a long body the rest is better not copied: then little more than the head is read.
    let isAtHead = session.exchange.awaitsResponseHead
    let isBeforeSplicing = isAtHead && upstream.sendsLongBodies && upstream.stream.isBare && stream.isBare
    var room = isBeforeSplicing ? Self.headBytes : responseRoom
    if !isBeforeSplicing, !takesBytes, clientRoom < Self.leastRoom, !session.exchange.holdsBody, !flags.contains(.clientBroken) {
      flags.insert(.awaitsRoom)
      return
    }
    // What is held leaves at its pace later.
    if let allowed = session.exchange.downloadAllowance(now: worker.now), !session.exchange.holdsBody {
      room = min(room, max(allowed, Self.leastReadBytes))
    }
    // What is read ahead and finds no room either stays as long as the client likes.
    upstream.stream.tls?.readAhead(clientRoom >= Worker.readBytes + TLSContext.readAheadBytes)
    var input = takeInput(&upstreamInput, room, worker)
    switch upstream.stream.read(into: &input) {
    case .moved(let count):
      if count >= Self.bulkBytes { flags.insert(.responseIsBulk) }
      pumpUpstream(&input, worker)
      keepInput(&input, &upstreamInput, worker)
      if isAtHead {
        upstream.sendsLongBodies = UInt64(count) &+ session.exchange.unchangedResponseBytes >= Self.leastSplicedBytes
        if upstream.sendsLongBodies, self.upstream === upstream, canReadUpstream { _ = spliceResponse(worker) }
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

  /// What is read at least for a client whose socket takes bytes, in however small a buffer.
  static let slowReadBytes = 8 << 10
  /// Less room than a record of TLS with its head needs is waited for: what the socket does not take would be kept for as
  /// long as the client likes.
  static let leastRoom = 18 << 10
  /// What a socket takes at least that has sent nothing: of one it need not be asked.
  static let freshRoom = 32 << 10
  /// Above this the kernel need not be asked again.
  static let ampleRoom = 64 << 10
  /// What a write takes of the socket's room beyond its bytes: the kernel's own account of it.
  static let writeOverheadBytes = 2 << 10

  /// How much is read of the upstream at once: no more than the client's socket takes.
  private var responseRoom: Int {
    if clientRoom < Self.ampleRoom, clientRoom != Self.freshRoom { clientRoom = descriptor.sendRoom }
    if clientRoom >= Worker.readBytes { return Worker.readBytes }
    // Blocks are powers of two, and are read full.
    return max(Self.slowReadBytes, 1 << (Int.bitWidth - 1 - max(1, clientRoom).leadingZeroBitCount))
  }

  func upstreamStreamEnded(broken: Bool, _ worker: Worker) {
    flags.insert(.upstreamEnded)
    let action = session.exchange.upstreamEnded(
      broken: broken, alert: broken ? upstream?.stream.tls?.alert : nil, now: worker.now, &worker.workspace, &outputs)
    perform(action, otherIsUpstream: false, worker)
  }

  func pumpUpstream(_ input: inout ByteBuffer, _ worker: Worker) {
    flags.remove(.sawUpstreamInput)
    var goesOn = true
    let isShort = worker.heldIsShort
    while goesOn, upstream != nil, ending == nil {
      if isShort || session.exchange.heldOverdraft > 0 { prepareToHold(worker) }
      let step = session.exchange.upstreamReceived(input.bytes, now: worker.now, &worker.workspace, &outputs)
      input.consume(step.consumed)
      if session.exchange.holdsBody || accountedHeld > 0 { accountHeld(worker) }
      switch step.action {
      case .read:
        goesOn = step.consumed > 0 && !input.isEmpty
        if !goesOn { flags.insert(.sawUpstreamInput) }
      case .hold:
        goesOn = false
      case .forward(let count):
        forwardToClient(&input, count, worker)
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
    // Nobody will ask for what is left of a response that is over.
    if upstream == nil { input.removeAll() }
    if ending == nil { flushClient(worker) }
  }

  func forwardToClient(_ input: inout ByteBuffer, _ count: Int, _ worker: Worker) {
    if session.exchange.pacesDownload { return forwardPaced(&input, count, worker) }
    let head = outputs.toClient.count
    var sent = 0
    switch stream.write(outputs.toClient, then: input.bytes.extracting(0..<count)) {
    case .moved(let moved):
      clientRoom -= moved + Self.writeOverheadBytes
      outputs.toClient.consume(min(head, moved))
      sent = max(0, moved - head)
    case .wouldBlock: break
    case .ended, .failed:
      perform(session.clientFailed(), worker)
      return
    }
    if sent < count {
      worker.workspace.pool.lend(&outputs.toClient, count - sent)
      outputs.toClient.append(input.bytes.extracting(sent..<count))
    } else {
      worker.workspace.pool.reclaim(&outputs.toClient)
    }
    input.consume(count)
    session.exchange.upstreamForwarded(count, now: worker.now)
  }

  /// As `forwardToClient`; `flushClient` sends as much of it as may leave.
  private func forwardPaced(_ input: inout ByteBuffer, _ count: Int, _ worker: Worker) {
    worker.workspace.pool.lend(&outputs.toClient, count)
    outputs.toClient.append(input.bytes.extracting(0..<count))
    input.consume(count)
    session.exchange.upstreamForwarded(count, now: worker.now)
  }

  /// Sends what waits for the client, as far as its pace allows.
  private func sendToClient(_ worker: Worker) -> Transfer {
    guard let allowed = session.exchange.downloadAllowance(now: worker.now), allowed < outputs.toClient.count else {
      return stream.write(outputs.toClient)
    }
    if allowed == 0 { return .wouldBlock }
    let nothing = ByteBuffer()
    var waiting = ByteBuffer()
    swap(&waiting, &outputs.toClient)
    defer { swap(&waiting, &outputs.toClient) }
    return stream.write(nothing, then: waiting.bytes.extracting(first: allowed))
  }

  func flushClient(_ worker: Worker) {
    if flags.contains(.closed) { return }
    if !outputs.toClient.isEmpty {
      switch sendToClient(worker) {
      case .moved(let count):
        clientRoom -= count + Self.writeOverheadBytes
        outputs.toClient.consume(count)
        session.exchange.clientTook(count, now: worker.now)
        session.exchange.progressed(now: worker.now)
      case .wouldBlock: return
      case .ended, .failed:
        if ending == nil { perform(session.clientFailed(), worker) }
        giveUpSending(worker)
        return
      }
    }
    if outputs.toClient.isEmpty { clientSent(worker) }
  }

  func clientSent(_ worker: Worker) {
    worker.workspace.pool.reclaim(&outputs.toClient)
    if streams?.holdsResponse ?? false { return }
    if flags.contains(.closesClientWrite) {
      flags.remove(.closesClientWrite)
      stream.shutdownWrite()
    }
    if let ending { complete(ending, worker) }
  }

  func clientWritable(_ worker: Worker) {
    flushClient(worker)
    if outputs.toClient.isEmpty, streams?.holdsResponse ?? false { drainResponsePipe(worker) }
    if flags.contains(.awaitsRoom), outputs.toClient.isEmpty {
      flags.remove(.awaitsRoom)
      if canReadUpstream { readUpstream(takesBytes: true, worker) }
    }
  }
}
