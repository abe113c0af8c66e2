// `buffer_uploads`: a body of unknown length is buffered whole before anything is opened upstream, and sent with its
// length, for origins that require one (411). What exceeds the memory limit goes to a file; the session chooses the
// bytes, and the server moves them.
//
//   held … ─┬──────────────────────────────── whole → connect → leaves as a body that was made here
//           └ more than may be held → file … ─ whole → connect → file, piece by piece → what was held last
//
// While a piece is on its way into the file, or out of it, nothing else of the body moves. Trailers are dropped: a body
// with a length has none. Tests: SpooledBodyTests, Tests/EndToEndTests/test_buffer_uploads.py.

import Bytes
import HTTP1
import Policy

/// The part of a body that is in its file. An object, so that other sessions pay one word for it.
final class SpooledBody {
  /// Largest body in bytes: larger ones need another tool, and a full disk stops smaller ones.
  static let mostBytes: UInt64 = 64 << 30
  /// Bytes written or read at once: enough to make the cost of the thread switch negligible.
  static let pieceBytes = 256 << 10
  enum Move { case none, writing, reading }

  var move = Move.none
  /// Held content goes into the file: all of it as soon as possible, or once there is enough for a write.
  var spills = false
  var spillsAtOnce = false
  /// Bytes that are in the file, or on their way.
  var written: UInt64 = 0
  /// How many of them have been read back.
  var sent: UInt64 = 0
  /// What follows them: the end of the body, too short for a write of its own.
  var tail = ByteBuffer()
}

extension Exchange {
  /// Bytes read from a client at once while its body is buffered whole. They may arrive when no more may be held.
  public static let spooledReadBytes = 64 << 10

  /// Whether a body is being buffered whole for its length, or sent from its file.
  public var spools: Bool { bodies.spooled != nil }

  /// Whether all of a body that was made or buffered here has left.
  var isBodyOut: Bool { bodies.paced.isEmpty && bodies.spooled == nil }

  /// Whether the request body is to be buffered whole.
  func buffers(_ edits: RequestPolicy) -> Bool {
    if case .chunked = request.progress { return edits.buffersUploads }
    return false
  }

  // MARK: Into the file

  /// Adds a piece of a body that is buffered whole. Returns an action if buffering ends.
  mutating func spool(
    _ piece: Span<UInt8>, _ held: HeldBody, _ spooled: SpooledBody, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action? {
    if spooled.written + UInt64(held.content.count + piece.count) > SpooledBody.mostBytes {
      let detail =
        "The body of the request is longer than \(SpooledBody.mostBytes) bytes, which is the most that is taken whole for its length."
      return answer(Problem(.requestBodyTooLarge, detail), &workspace, &outputs)
    }
    if held.content.count + piece.count > contentLimits.heldBytes { spooled.spills = true }
    if !held.account(ofAll: heldLimit, adding: piece.count) {
      spooled.spills = true
      spooled.spillsAtOnce = true
    }
    held.append(piece, &workspace.pool)
    return nil
  }

  /// Moves into `bytes` what must be written to the file now, and returns the offset; nil: nothing. `spoolWritten` or
  /// `spoolFailed` follows.
  public mutating func takeForSpool(_ bytes: inout ByteBuffer) -> UInt64? {
    guard let spooled = bodies.spooled, let held = bodies.held, phase == .collecting, spooled.spills,
      spooled.move == .none
    else { return nil }
    let least = spooled.spillsAtOnce ? 1 : SpooledBody.pieceBytes
    guard request.progress != .done, held.content.count >= least else { return nil }
    let offset = spooled.written
    bytes = held.takeContent()
    spooled.written += UInt64(bytes.count)
    spooled.move = .writing
    spooled.spillsAtOnce = false
    return offset
  }

  public mutating func spoolWritten(now: Int64) {
    guard let spooled = bodies.spooled else { preconditionFailure("a write that nobody asked for") }
    spooled.move = .none
    times.lastProgress = now
    bodies.held?.giveBack()
  }

  /// The file cannot be written or read: `reason` includes its path.
  public mutating func spoolFailed(
    _ reason: String, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    let detail = "The body of the request is kept in a file until its length is known: \(reason)."
    if response.traits.contains(.hasBegun) { return breakOff(.problem(.spoolFailed)) }
    return answer(Problem(.spoolFailed, detail), &workspace, &outputs)
  }

  // MARK: Out of it

  /// The body is complete: the head is sent with its length, followed by the body.
  mutating func finishSpooling(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    guard let held = bodies.held, let spooled = bodies.spooled, let decision = record.decision else {
      preconditionFailure("nothing was collected")
    }
    var head = held.takeHead()
    readAgain(head.bytes, &workspace)
    let length = Int(spooled.written) + held.content.count
    writeRequest(
      head.bytes, policy.request(of: decision), RequestBodyEdits(length: length, hasContinued: true, isAsItCame: true),
      &workspace, &outputs)
    workspace.pool.reclaim(&head)
    if spooled.written == 0 {
      var body = held.takeContent()
      bodies.spooled = nil
      sendMade(body.bytes, &outputs)
      keepForChallenge(body.bytes, &workspace, outputs)
      workspace.pool.reclaim(&body)
    } else {
      spooled.tail = held.takeContent()
      upstream.carrier.remove(.mayRetry)
      bodies.challenged?.body = .streamed
      held.release(&workspace.pool)
      bodies.held = nil
    }
    phase = .connecting
    return .connect
  }

  /// The bytes of the file to send next; nil: none now. `spoolRead` or `spoolFailed` follows.
  public mutating func takeFromSpool() -> (offset: UInt64, count: Int)? {
    guard let spooled = bodies.spooled, phase == .exchanging, spooled.move == .none, bodies.paced.isEmpty, !uploadRests
    else { return nil }
    spooled.move = .reading
    return (spooled.sent, Int(min(UInt64(SpooledBody.pieceBytes), spooled.written - spooled.sent)))
  }

  public mutating func spoolRead(
    _ bytes: [UInt8], now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    guard let spooled = bodies.spooled, spooled.move == .reading else {
      preconditionFailure("a read that nobody asked for")
    }
    spooled.move = .none
    spooled.sent += UInt64(bytes.count)
    times.lastProgress = now
    bodies.paced.append(bytes)
    if spooled.sent == spooled.written {
      bodies.paced.append(contentsOf: spooled.tail)
      bodies.spooled = nil
    }
    sendPaced(now: now, &workspace, &outputs)
  }
}
