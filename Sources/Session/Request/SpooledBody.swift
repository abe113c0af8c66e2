// `buffer_uploads`: a body of unknown length is taken whole before anything is opened upstream, and leaves with its length,
// for origins that want one (411). What is more than may be held goes to a file; the session says which bytes, and the server
// moves them.
//
//   held … ─┬──────────────────────────────── whole → connect → leaves as a body that was made here
//           └ more than may be held → file … ─ whole → connect → file, piece by piece → what was held last
//
// While a piece is on its way into the file, or out of it, nothing else of the body moves. Trailers are dropped: a body with
// a length has none. Tests: SpooledBodyTests, Tests/EndToEndTests/test_buffer_uploads.py.

import Bytes
import HTTP1
import Policy

/// What of a body is in its file. An object, so that sessions of other kinds pay one word for it.
final class SpooledBody {
  /// Largest body in bytes: what goes beyond is another tool's work, and a full disk ends smaller ones.
  static let mostBytes: UInt64 = 64 << 30
  /// Bytes that are written, or read, at once: enough that the way to the thread and back does not count.
  static let pieceBytes = 256 << 10
  enum Move { case none, writing, reading }

  var move = Move.none
  /// What is held is to go into the file: all of it, as soon as can be, or once it is worth a write.
  var spills = false
  var spillsAtOnce = false
  /// Bytes that are in the file, or on their way.
  var written: UInt64 = 0
  /// How many of them have been read again.
  var sent: UInt64 = 0
  /// What comes behind them: the last of the body, which was not worth a write.
  var tail = ByteBuffer()
}

extension Exchange {
  /// What is read of a client at once while its body is taken whole, in bytes: it may come when no more may be held.
  public static let spooledReadBytes = 64 << 10

  /// Whether a body is taken whole for its length, or leaves from its file.
  public var spools: Bool { spooled != nil }

  /// Whether nothing that was made here, or taken whole, is still to leave.
  var isBodyOut: Bool { pacedBody.isEmpty && spooled == nil }

  /// Whether the body of the request is to be taken whole.
  func buffers(_ edits: RequestPolicy) -> Bool {
    if case .chunked = request { return edits.buffersUploads }
    return false
  }

  // MARK: Into the file

  /// Takes a piece of a body that is taken whole. An action where that is not to be.
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

  /// Gives away in `bytes` what is to be written to the file now, and says where; nil: nothing. `spoolWritten` or `spoolFailed`
  /// follows.
  public mutating func takeForSpool(_ bytes: inout ByteBuffer) -> UInt64? {
    guard let spooled, let held, phase == .collecting, spooled.spills, spooled.move == .none else { return nil }
    let least = spooled.spillsAtOnce ? 1 : SpooledBody.pieceBytes
    guard request != .done, held.content.count >= least else { return nil }
    let offset = spooled.written
    bytes = held.takeContent()
    spooled.written += UInt64(bytes.count)
    spooled.move = .writing
    spooled.spillsAtOnce = false
    return offset
  }

  public mutating func spoolWritten(now: Int64) {
    guard let spooled else { preconditionFailure("a write that nobody asked for") }
    spooled.move = .none
    lastProgress = now
    held?.giveBack()
  }

  /// The file cannot be written or read: why, and what file.
  public mutating func spoolFailed(
    _ reason: String, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    let detail = "The body of the request is kept in a file until its length is known: \(reason)."
    if delivery.contains(.hasBegun) { return breakOff(.problem(.spoolFailed)) }
    return answer(Problem(.spoolFailed, detail), &workspace, &outputs)
  }

  // MARK: Out of it

  /// The body is whole: the head leaves with its length, and the body behind it.
  mutating func finishSpooling(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    guard let held, let spooled, let decision = record.decision else { preconditionFailure("nothing was collected") }
    var head = held.takeHead()
    readAgain(head.bytes, &workspace)
    let length = Int(spooled.written) + held.content.count
    writeRequest(
      head.bytes, policy.request(of: decision), RequestBodyEdits(length: length, hasContinued: true, isAsItCame: true),
      &workspace, &outputs)
    workspace.pool.reclaim(&head)
    if spooled.written == 0 {
      var body = held.takeContent()
      self.spooled = nil
      sendMade(body.bytes, &outputs)
      keepForChallenge(body.bytes, &workspace)
      workspace.pool.reclaim(&body)
    } else {
      spooled.tail = held.takeContent()
      carrier.remove(.mayRetry)
      challenged?.body = .streamed
      held.release(&workspace.pool)
      self.held = nil
    }
    phase = .connecting
    return .connect
  }

  /// Which bytes of the file are to be sent next; nil: none now. `spoolRead` or `spoolFailed` follows.
  public mutating func takeFromSpool() -> (offset: UInt64, count: Int)? {
    guard let spooled, phase == .exchanging, spooled.move == .none, pacedBody.isEmpty, !uploadRests else { return nil }
    spooled.move = .reading
    return (spooled.sent, Int(min(UInt64(SpooledBody.pieceBytes), spooled.written - spooled.sent)))
  }

  public mutating func spoolRead(
    _ bytes: [UInt8], now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    guard let spooled, spooled.move == .reading else { preconditionFailure("a read that nobody asked for") }
    spooled.move = .none
    spooled.sent += UInt64(bytes.count)
    lastProgress = now
    pacedBody.append(bytes)
    if spooled.sent == spooled.written {
      pacedBody.append(contentsOf: spooled.tail)
      self.spooled = nil
    }
    sendPaced(now: now, &workspace, &outputs)
  }
}
