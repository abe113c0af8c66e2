// Long bodies and bulk tunnels of a conversation: they move through pipes (splice(2)) without being copied.
//
// Paced bytes are read and written instead. Then a turn moves no more than the pace allows, and the session sees all of
// it.
//
// Stored content is written from where it is kept.
//
// A pipe pays from some tens of kilobytes on. It is lent while bytes move. As long as it contains any, the side they
// came from is not read.

import Bytes
import Session
import Transport

extension Conversation {
  /// A pipe pays only if at least this many bytes of content are still to come. Below that, one or two reads into the
  /// loop's block are cheaper than three system calls and a pipe.
  static let leastSplicedBytes: UInt64 = 32 << 10
  /// The first read of a response that is expected to be long: the head, and little of the body.
  static let headBytes = 4 << 10
  /// A tunnel read of this size shows a bulk transfer; a move of less than `trickleBytes` shows its end.
  static let bulkBytes = 64 << 10
  static let trickleBytes = 8 << 10

  /// Moves a long body, or the bulk of a tunnel, from one end to the other through a pipe. false: the caller copies it.
  func splice(from end: End, _ worker: Worker) -> Bool {
    guard let upstream, upstream.stream.isBare, stream.isBare, waiting(for: end.other) == 0,
      (end == .client ? clientInput.isEmpty : upstreamInput.isEmpty)
    else { return false }
    let remaining = end == .client ? session.exchange.unchangedRequestBytes : session.exchange.unchangedResponseBytes
    if session.exchange.isInTunnel {
      guard self[end].state.contains(.isBulk), !mustBeSeen(from: end) else { return false }
    } else if remaining < Self.leastSplicedBytes, self[end].pipe == nil || remaining == 0 {
      return false
    }
    guard let pipe = self[end].takePipe(&worker.pipes) else { return false }
    let wanted = session.exchange.isInTunnel ? pipe.capacity : Int(min(remaining, UInt64(pipe.capacity)))
    switch (end == .client ? descriptor : upstream.descriptor).splice(to: pipe.writeEnd, count: wanted, more: false) {
    case .moved(let count):
      if session.exchange.isInTunnel, count < Self.trickleBytes { self[end].state.remove(.isBulk) }
      self[end].piped = count
      drainPipe(from: end, worker)
    case .wouldBlock: break
    case .ended: streamEnded(of: end, worker)
    case .failed: streamFailed(of: end, worker)
    }
    return true
  }

  /// Whether the exchange has to see the bytes of a tunnel.
  private func mustBeSeen(from end: End) -> Bool {
    switch end {
    case .client: session.exchange.isInspecting || session.exchange.pacesUpload
    case .upstream: session.exchange.looksAtUpstreamBytes || session.exchange.pacesDownload
    }
  }

  func drainPipe(from end: End, _ worker: Worker) {
    guard let pipe = self[end].pipe, self[end].holdsPiped, let other = stream(of: end.other)?.descriptor else { return }
    switch pipe.readEnd.splice(to: other, count: self[end].piped, more: false) {
    case .moved(let count):
      self[end].piped -= count
      if end == .upstream { clientRoom -= count }
      noteMoved(from: end, count, worker)
    case .wouldBlock: return
    case .ended, .failed:
      // The upstream never gets the bytes in the pipe. They count as dropped.
      if end == .client {
        noteMoved(from: end, clientSide.piped, worker)
        clientSide.givePipeBack(&worker.pipes)
      }
      return sendingFailed(to: end.other, worker)
    }
    if self[end].holdsPiped { return }
    // An idle tunnel keeps no pipe.
    if session.exchange.isInTunnel, !self[end].state.contains(.isBulk) { self[end].givePipeBack(&worker.pipes) }
    if end == .upstream, let action = session.exchange.endIfComplete() {
      finish(action, leaves: false, worker)
    } else {
      sent(to: end.other, worker)
    }
  }

  /// Chunks of stored content sent in one turn: no client keeps the others of its loop waiting for more than some
  /// hundred microseconds.
  private static let chunksPerTurn = 4

  /// Writes stored content to the client without copying it. false: it has to be copied, or none is ready now.
  func giveStored(_ worker: Worker) -> Bool {
    guard session.exchange.unchangedResponseBytes >= Self.leastSplicedBytes, stream.carried == nil,
      let stored = upstream?.stream.carried as? StoredStream, waiting(for: .client) == 0, upstreamInput.isEmpty
    else { return false }
    for turn in 0..<Self.chunksPerTurn {
      guard let (chunk, range) = stored.nextContent() else { return turn > 0 }
      switch stream.write(ByteBuffer(), then: chunk.span.extracting(range)) {
      case .moved(let count):
        stored.took(count)
        clientRoom -= count
        noteMoved(from: .upstream, count, worker)
        if let action = session.exchange.endIfComplete() {
          finish(action, leaves: false, worker)
          return true
        }
        if count == range.count { continue }
        awaitsRoom = true
      case .wouldBlock: awaitsRoom = true
      case .ended, .failed: sendingFailed(to: .client, worker)
      }
      return true
    }
    return true
  }
}
