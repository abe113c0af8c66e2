// How much the client's socket accepts, and so how much of a response is read for it. What is read and finds no room is
// kept for as long as the client likes, so no more is read than there is room for.

import Transport

struct ClientRoom {
  /// The least that is read for a client whose socket accepts bytes, in however small a buffer.
  private static let slowReadBytes = 8 << 10
  /// If the room is less than a TLS record with its head needs, the proxy waits for more.
  private static let leastRoom = 18 << 10
  /// The size of a TLS read where more is read ahead: both together are less than the socket of a reading client
  /// accepts.
  static let besideAheadBytes = 32 << 10
  /// What is read ahead for one of many streams of the client: two records of the largest size with their headers.
  private static let streamAheadBytes = 34 << 10
  /// The least that a socket that has sent nothing accepts: the kernel need not be asked.
  private static let freshRoom = 32 << 10
  /// Above this the kernel need not be asked again.
  private static let ampleRoom = 64 << 10
  /// What a write uses of the socket's room besides its bytes: the kernel's own accounting.
  private static let writeOverheadBytes = 2 << 10

  /// Roughly how many bytes the socket accepts at once, counted down from the kernel's last report.
  private var bytes = freshRoom
  /// The socket is full: nothing is read for it until it accepts bytes again.
  var isAwaited = false

  var isShort: Bool { bytes < Self.leastRoom }

  /// This many bytes were written to it.
  mutating func wrote(_ count: Int) { bytes -= count + Self.writeOverheadBytes }

  /// This many were moved to it without being copied.
  mutating func took(_ count: Int) { bytes -= count }

  /// How much is read of the upstream at once: no more than `stream`, the client's, accepts.
  mutating func readBytes(by stream: ByteStream) -> Int {
    if bytes < Self.ampleRoom, bytes != Self.freshRoom || stream.carried != nil { bytes = stream.sendRoom }
    if bytes >= Worker.readBytes { return Worker.readBytes }
    // Blocks are powers of two, and are filled completely.
    return max(Self.slowReadBytes, 1 << (Int.bitWidth - 1 - max(1, bytes).leadingZeroBitCount))
  }

  /// How much of `most` TLS may read ahead: there is room for all of it. A stream never has as much room as a socket.
  func aheadBytes(_ most: Int, isStream: Bool) -> Int {
    let spare = bytes - Self.besideAheadBytes
    if spare >= most { return most }
    return isStream && spare >= Self.streamAheadBytes ? Self.streamAheadBytes : 0
  }
}
