// The two ends of a conversation: the client's, and that of the upstream that serves it. Both work alike: bytes are
// read at one, shown to the exchange, and sent to the other, or move there through a pipe without being copied.

import Bytes
import Transport

enum End {
  case client, upstream

  var other: End { self == .client ? .upstream : .client }
}

/// The state of one end, apart from its stream and what was read from it.
struct Side {
  struct State: OptionSet {
    let rawValue: UInt8

    /// The exchange has seen all of the input, and wants more.
    static let sawInput = State(rawValue: 1 << 0)
    /// A readable event could not be used, and the registration was changed.
    static let unwatched = State(rawValue: 1 << 1)
    /// The end of the stream has been read.
    static let ended = State(rawValue: 1 << 2)
    /// Both directions are gone and its bytes cannot be used yet: nothing is registered.
    static let broken = State(rawValue: 1 << 3)
    /// Shut down the sending direction once everything has been sent.
    static let closesWrite = State(rawValue: 1 << 4)
    /// The last read was so large that moving without copying pays.
    static let isBulk = State(rawValue: 1 << 5)
  }

  var state: State = []
  /// Moves its bytes to the other end; nil: not in use.
  private(set) var pipe: Pipe? = nil
  /// Bytes in the pipe.
  var piped = 0
  /// It announced its end of stream while the proxy was not reading from it.
  var isHalfClosed = false

  var holdsPiped: Bool { piped > 0 }

  /// nil if no pipe is available.
  mutating func takePipe(_ pool: inout PipePool) -> Pipe? {
    if pipe == nil { pipe = pool.take() }
    return pipe
  }

  /// Takes out what is in the pipe; returns how many bytes there were.
  mutating func emptyPipe(into buffer: inout ByteBuffer) -> Int {
    guard let pipe else { return 0 }
    var taken = 0
    while taken < piped {
      buffer.reserve(piped - taken)
      guard case .moved(let moved) = pipe.readEnd.read(into: &buffer) else { break }
      taken += moved
    }
    piped = 0
    return taken
  }

  mutating func givePipeBack(_ pool: inout PipePool) {
    if let pipe { pool.give(pipe, holding: piped) }
    pipe = nil
    piped = 0
  }
}

/// Bytes that were read from either end and not used yet.
struct Inputs: ~Copyable {
  /// Least room for a read into a buffer that already holds bytes.
  static let leastReadBytes = 1024

  var fromClient = ByteBuffer()
  var fromUpstream = ByteBuffer()

  func isEmpty(of end: End) -> Bool { end == .client ? fromClient.isEmpty : fromUpstream.isEmpty }

  /// A buffer to read into: what is kept of this end, or a block with `room`.
  mutating func take(from end: End, _ room: Int, _ pool: inout BufferPool) -> ByteBuffer {
    if isEmpty(of: end) { return pool.take(room) }
    var input = takeAll(from: end)
    if input.tailRoom < Self.leastReadBytes { input.reserve(max(Self.leastReadBytes, input.count)) }
    return input
  }

  mutating func takeAll(from end: End) -> ByteBuffer {
    var input = ByteBuffer()
    switch end {
    case .client: swap(&input, &fromClient)
    case .upstream: swap(&input, &fromUpstream)
    }
    return input
  }

  /// Keeps what is left of `input` in a block of fitting size.
  mutating func keep(_ input: inout ByteBuffer, from end: End, _ pool: inout BufferPool) {
    switch end {
    case .client: Self.keep(&input, in: &fromClient, &pool)
    case .upstream: Self.keep(&input, in: &fromUpstream, &pool)
    }
  }

  private static func keep(_ input: inout ByteBuffer, in kept: inout ByteBuffer, _ pool: inout BufferPool) {
    if !input.isEmpty {
      if input.capacity >= Worker.readBytes, input.count < input.capacity / 2 {
        kept = pool.take(input.count)
        kept.append(contentsOf: input)
      } else {
        swap(&input, &kept)
      }
    }
    pool.reclaim(&input)
  }
}
