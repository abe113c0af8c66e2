// Sends bytes to either end: content that passes unchanged, and what the exchange has written.
//
// Write first: only what the socket does not accept is kept. While any of it is left, the other end is not read.

import Bytes
import Session
import Transport

extension Conversation {
  /// How many bytes wait to be sent to one end, apart from those in a pipe.
  func waiting(for end: End) -> Int { end == .client ? outputs.toClient.count : outputs.toUpstream.count }

  /// Sends the next `count` bytes of the input of one end to the other, after what already waits.
  func forward(from end: End, _ input: inout ByteBuffer, _ count: Int, _ worker: Worker) {
    guard let stream = stream(of: end.other) else { preconditionFailure("bytes for an upstream that is not there") }
    let outcome: Transfer
    switch end {
    case .client:
      session.exchange.keepForReplay(
        input.bytes.extracting(0..<count), &outputs.replay, &worker.workspace.pool)
      outcome = Self.send(
        input.bytes.extracting(0..<count), behind: &outputs.toUpstream, by: stream, &worker.workspace.pool)
    case .upstream where session.exchange.pacesDownload:
      // `flush` sends paced bytes, as many as may leave.
      worker.workspace.pool.lend(&outputs.toClient, count)
      outputs.toClient.append(input.bytes.extracting(0..<count))
      outcome = .wouldBlock
    case .upstream:
      outcome = Self.send(
        input.bytes.extracting(0..<count), behind: &outputs.toClient, by: stream, &worker.workspace.pool)
      if case .moved(let moved) = outcome { clientRoom -= moved + Self.writeOverheadBytes }
    }
    switch outcome {
    case .moved, .wouldBlock: noteForwarded(from: end, &input, count, worker)
    case .ended, .failed:
      // Consumed first: what can be sent again is in the replay, the rest is dropped.
      if end == .client { noteForwarded(from: end, &input, count, worker) }
      sendingFailed(to: end.other, worker)
    }
  }

  /// Sends what waits in `output`, and `bytes` after it. What the socket does not accept waits there.
  private static func send(
    _ bytes: Span<UInt8>, behind output: inout ByteBuffer, by stream: ByteStream, _ pool: inout BufferPool
  ) -> Transfer {
    let waiting = output.count
    let outcome = stream.write(output, then: bytes)
    var sent = 0
    switch outcome {
    case .moved(let moved):
      output.consume(min(waiting, moved))
      sent = max(0, moved - waiting)
    case .wouldBlock: break
    case .ended, .failed: return outcome
    }
    if sent < bytes.count {
      pool.lend(&output, bytes.count - sent)
      output.append(bytes.extracting(sent..<bytes.count))
    } else {
      pool.reclaim(&output)
    }
    return outcome
  }

  private func noteForwarded(from end: End, _ input: inout ByteBuffer, _ count: Int, _ worker: Worker) {
    input.consume(count)
    noteMoved(from: end, count, worker)
  }

  func noteMoved(from end: End, _ count: Int, _ worker: Worker) {
    switch end {
    case .client: session.exchange.clientForwarded(count, now: worker.now)
    case .upstream: session.exchange.upstreamForwarded(count, now: worker.now)
    }
  }

  /// One end accepts no more bytes.
  func sendingFailed(to end: End, _ worker: Worker) {
    switch end {
    case .client: perform(session.clientFailed(), worker)
    case .upstream where upstream?.stream.carried.map { $0.wasRefused || $0.abortion != nil } ?? false:
      upstreamStreamEnded(broken: true, worker)
    case .upstream: perform(session.exchange.upstreamWriteFailed(&worker.workspace, &outputs), worker)
    }
  }

  /// Sends what waits for one end. For the client, this also ends an exchange that has nothing more to send.
  func flush(to end: End, _ worker: Worker) {
    if flags.contains(.closed) || end == .upstream && (upstream == nil || outputs.toUpstream.isEmpty) { return }
    if waiting(for: end) > 0 {
      switch end == .client ? sendToClient(worker) : upstream?.stream.write(outputs.toUpstream) ?? .ended {
      case .moved(let count) where end == .client:
        outputs.toClient.consume(count)
        clientRoom -= count + Self.writeOverheadBytes
        session.exchange.clientTook(count, now: worker.now)
        session.exchange.progressed(now: worker.now)
      case .moved(let count):
        outputs.toUpstream.consume(count)
        session.exchange.progressed(now: worker.now)
      case .wouldBlock: return
      case .ended, .failed:
        if end == .upstream || ending == nil { sendingFailed(to: end, worker) }
        if end == .client { giveUpSending(worker) }
        return
      }
    }
    if waiting(for: end) == 0 { sent(to: end, worker) }
  }

  /// As far as the pace of the client allows.
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

  /// No bytes wait for one end any more, except in a pipe.
  func sent(to end: End, _ worker: Worker) {
    switch end {
    case .client: worker.workspace.pool.reclaim(&outputs.toClient)
    case .upstream: worker.workspace.pool.reclaim(&outputs.toUpstream)
    }
    if session.exchange.hasBodyOnItsWay {
      session.exchange.sentAll(toClient: end == .client)
      accountHeld(worker)
    }
    if self[end.other].holdsPiped { return }
    // During a pause, bytes of the client may still wait for its end.
    if self[end].state.contains(.closesWrite), end == .client || !session.exchange.uploadRests {
      self[end].state.remove(.closesWrite)
      stream(of: end)?.shutdownWrite()
    }
    if end == .client, let ending { complete(ending, worker) }
  }

  func writable(_ end: End, _ worker: Worker) {
    flush(to: end, worker)
    if waiting(for: end) == 0, self[end.other].holdsPiped { drainPipe(from: end.other, worker) }
    if end == .client, awaitsRoom, outputs.toClient.isEmpty {
      awaitsRoom = false
      if canReadUpstream { readUpstream(takesBytes: true, worker) }
    }
  }
}
