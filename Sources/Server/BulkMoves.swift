// Long bodies and bulk tunnels of a conversation, moved through pipes (splice(2)) without being copied.
//
// Bytes that have a pace are read and written: then what one turn moves is bounded by what the pace allows, and the session
// sees all of it.
//
// It pays from some tens of kilobytes on. A pipe is lent for as long as bytes move; while it holds any, the side they came
// from is not read.

import Session
import Transport

extension Conversation {
  /// How many bytes of content, at least, are still to come when it pays to move them through a pipe: below, one or two
  /// reads into the loop's block are cheaper than three system calls and a pipe.
  static let leastSplicedBytes: UInt64 = 32 << 10
  /// What is read at first of a response that is expected to be long: the head, and little of the body.
  static let headBytes = 4 << 10
  /// A read of a tunnel that brings this much shows a bulk transfer; a move of less than a fraction of it, its end.
  static let bulkBytes = 64 << 10
  static let trickleBytes = 8 << 10

  /// Moves a long body, or the bulk of a tunnel, from the upstream through a pipe. false: it is to be copied.
  func spliceResponse(_ worker: Worker) -> Bool {
    guard let upstream, upstream.stream.isBare, stream.isBare, upstreamInput.isEmpty, outputs.toClient.isEmpty else {
      return false
    }
    let remaining: UInt64
    if session.exchange.isInTunnel {
      guard flags.contains(.responseIsBulk), !session.exchange.looksAtUpstreamBytes, !session.exchange.pacesDownload else { return false }
      remaining = .max
    } else {
      remaining = session.exchange.unchangedResponseBytes
      guard remaining >= Self.leastSplicedBytes || streams?.responsePipe != nil && remaining > 0 else { return false }
    }
    guard let pipe = openStreams().takeResponsePipe(&worker.pipes) else { return false }
    let wanted = Int(min(remaining, UInt64(pipe.capacity)))
    switch upstream.descriptor.splice(to: pipe.writeEnd, count: wanted, more: false) {
    case .moved(let count):
      if session.exchange.isInTunnel, count < Self.trickleBytes { flags.remove(.responseIsBulk) }
      streams?.responseBytes = count
      drainResponsePipe(worker)
    case .wouldBlock: break
    case .ended: upstreamStreamEnded(broken: false, worker)
    case .failed: upstreamStreamEnded(broken: true, worker)
    }
    return true
  }

  func drainResponsePipe(_ worker: Worker) {
    guard let streams, let pipe = streams.responsePipe, streams.holdsResponse else { return }
    switch pipe.readEnd.splice(to: descriptor, count: streams.responseBytes, more: false) {
    case .moved(let count):
      streams.responseBytes -= count
      clientRoom -= count
      session.exchange.upstreamForwarded(count, now: worker.now)
    case .wouldBlock: return
    case .ended, .failed:
      perform(session.clientFailed(), worker)
      return
    }
    if streams.holdsResponse { return }
    if session.exchange.isInTunnel, !flags.contains(.responseIsBulk) { streams.abandonResponse(&worker.pipes) }
    if let action = session.exchange.endIfComplete() {
      finish(action, leaves: false, worker)
    } else {
      clientSent(worker)
    }
  }

  /// As `spliceResponse`, the other way.
  func spliceRequest(_ worker: Worker) -> Bool {
    guard let upstream, upstream.stream.isBare, stream.isBare, clientInput.isEmpty, outputs.toUpstream.isEmpty else {
      return false
    }
    let remaining: UInt64
    if session.exchange.isInTunnel {
      guard flags.contains(.requestIsBulk), !session.exchange.isInspecting, !session.exchange.pacesUpload else { return false }
      remaining = .max
    } else {
      remaining = session.exchange.unchangedRequestBytes
      guard remaining >= Self.leastSplicedBytes || streams?.requestPipe != nil && remaining > 0 else { return false }
    }
    guard let pipe = openStreams().takeRequestPipe(&worker.pipes) else { return false }
    let wanted = Int(min(remaining, UInt64(pipe.capacity)))
    switch descriptor.splice(to: pipe.writeEnd, count: wanted, more: false) {
    case .moved(let count):
      if session.exchange.isInTunnel, count < Self.trickleBytes { flags.remove(.requestIsBulk) }
      streams?.requestBytes = count
      drainRequestPipe(worker)
    case .wouldBlock: break
    case .ended: clientStreamEnded(worker)
    case .failed: perform(session.clientFailed(), worker)
    }
    return true
  }

  func drainRequestPipe(_ worker: Worker) {
    guard let upstream, let streams, let pipe = streams.requestPipe, streams.holdsRequest else { return }
    switch pipe.readEnd.splice(to: upstream.descriptor, count: streams.requestBytes, more: false) {
    case .moved(let count):
      streams.requestBytes -= count
      session.exchange.clientForwarded(count, now: worker.now)
    case .wouldBlock: return
    case .ended, .failed:
      // The bytes in the pipe are lost to the upstream, and count as dropped.
      session.exchange.clientForwarded(streams.requestBytes, now: worker.now)
      streams.abandonRequest(&worker.pipes)
      perform(session.exchange.upstreamWriteFailed(&worker.workspace, &outputs), worker)
      return
    }
    if streams.holdsRequest { return }
    // An idle tunnel keeps no pipe.
    if session.exchange.isInTunnel, !flags.contains(.requestIsBulk) { streams.abandonRequest(&worker.pipes) }
    upstreamSent(worker)
  }

  func openStreams() -> SplicedStreams {
    if let streams { return streams }
    let opened = SplicedStreams()
    streams = opened
    return opened
  }
}
