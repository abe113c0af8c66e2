// The two ends of a conversation: the client's, and that of the upstream which it is served by. They are equals: bytes are
// read at one, shown to the exchange, and sent to the other, or move there through a pipe without being copied.

import Transport

/// Which end.
enum End {
  case client, upstream

  var other: End { self == .client ? .upstream : .client }
}

/// What is known of one end besides its stream and its buffers.
struct Side {
  struct State: OptionSet {
    let rawValue: UInt8

    /// The exchange has seen all of the input, and wants more.
    static let sawInput = State(rawValue: 1 << 0)
    /// A readable event came that could not be used, and the registration was changed.
    static let unwatched = State(rawValue: 1 << 1)
    /// The end of the stream has been read.
    static let ended = State(rawValue: 1 << 2)
    /// Both directions are gone while its bytes cannot be used yet: nothing at all is registered.
    static let broken = State(rawValue: 1 << 3)
    /// The sending direction is to be shut down once everything has been sent.
    static let closesWrite = State(rawValue: 1 << 4)
    /// The last read brought so much that moving without copying pays.
    static let isBulk = State(rawValue: 1 << 5)
  }

  var state: State = []
  /// Through which its bytes move to the other end; nil: through none.
  private(set) var pipe: Pipe? = nil
  /// Bytes that are in the pipe.
  var piped = 0

  var holdsPiped: Bool { piped > 0 }

  /// nil where no pipe can be had.
  mutating func takePipe(_ pool: inout PipePool) -> Pipe? {
    if pipe == nil { pipe = pool.take() }
    return pipe
  }

  mutating func givePipeBack(_ pool: inout PipePool) {
    if let pipe { pool.give(pipe, holding: piped) }
    pipe = nil
    piped = 0
  }
}

extension Conversation {
  // Values are got and set whole: a coroutine that lends them would be allocated for each access.
  subscript(end: End) -> Side {
    get { end == .client ? clientSide : upstreamSide }
    set {
      switch end {
      case .client: clientSide = newValue
      case .upstream: upstreamSide = newValue
      }
    }
  }

  /// nil where there is no upstream.
  func stream(of end: End) -> ByteStream? { end == .client ? stream : upstream?.stream }
}
