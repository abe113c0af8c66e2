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

  /// What the client of a larger body gets.
  static let tooLarge = Problem(
    .requestBodyTooLarge,
    "The body of the request is longer than \(mostBytes) bytes, which is the most that is taken whole for its length.")

  /// What becomes of a piece of the body.
  enum Taking { case held, tooLarge }

  private(set) var move = Move.none
  /// Held content goes into the file: all of it as soon as possible, or once there is enough for a write.
  private var spills = false
  private(set) var spillsAtOnce = false
  /// Bytes that are in the file, or on their way.
  private(set) var written: UInt64 = 0
  /// How many of them have been read back.
  private var sent: UInt64 = 0
  /// What follows them: the end of the body, too short for a write of its own.
  private var tail = ByteBuffer()

  // MARK: Into the file

  /// Adds a piece to what is held. `ofAll`: the most that all held bodies may take.
  func take(
    _ piece: Span<UInt8>, _ held: HeldBody, heldBytes: Int, ofAll limit: Int, pool: inout BufferPool
  ) -> Taking {
    if written + UInt64(held.content.count + piece.count) > Self.mostBytes { return .tooLarge }
    if held.content.count + piece.count > heldBytes { spills = true }
    if !held.account(ofAll: limit, adding: piece.count) { spillAtOnce() }
    held.append(piece, &pool)
    return .held
  }

  /// The memory is needed: all that is held goes into the file.
  func spillAtOnce() {
    spills = true
    spillsAtOnce = true
  }

  /// Whether the held part is on its way into the file, which gives its memory back.
  var yields: Bool { spillsAtOnce || move == .writing }

  /// Moves into `bytes` what must be written now, and returns the offset; nil: nothing.
  func takePiece(of held: HeldBody, _ bytes: inout ByteBuffer) -> UInt64? {
    guard spills, move == .none, held.content.count >= (spillsAtOnce ? 1 : Self.pieceBytes) else { return nil }
    let offset = written
    bytes = held.takeContent()
    written += UInt64(bytes.count)
    move = .writing
    spillsAtOnce = false
    return offset
  }

  /// A piece is in the file.
  func pieceWritten() { move = .none }

  // MARK: Out of it

  /// The body is complete: this follows what is in the file.
  func end(with tail: consuming ByteBuffer) { self.tail = tail }

  /// The bytes of the file to send next; nil: they are on their way already.
  func nextPiece() -> (offset: UInt64, count: Int)? {
    if move != .none { return nil }
    move = .reading
    return (sent, Int(min(UInt64(Self.pieceBytes), written - sent)))
  }

  /// `bytes` are the piece that was asked for: appends it to `out`, and the end of the body after the last. Returns
  /// whether it was the last.
  func pieceRead(_ bytes: [UInt8], to out: inout ByteBuffer) -> Bool {
    precondition(move == .reading, "a read that nobody asked for")
    move = .none
    sent += UInt64(bytes.count)
    out.append(bytes)
    if sent < written { return false }
    out.append(contentsOf: tail)
    return true
  }
}
