// Pipes for splice(2), lent to one direction of one connection at a time.

import Transport

/// The spare pipes of one loop. A pipe goes back only when it is empty.
struct PipePool {
  /// The most spare pipes that are kept: each uses two descriptors, and no memory while it is empty.
  static let longestSpare = 32

  private var spare: [Pipe] = []

  /// nil if the process has no descriptors left: bytes are then copied.
  mutating func take() -> Pipe? { spare.popLast() ?? Pipe.open() }

  mutating func give(_ pipe: Pipe, holding bytes: Int) {
    if bytes == 0 && spare.count < Self.longestSpare { spare.append(pipe) } else { pipe.close() }
  }
}
