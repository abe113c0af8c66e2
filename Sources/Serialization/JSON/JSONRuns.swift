// Copies a JSON text in runs while elements of it are left out or replaced.
//
// An element is known once it has been read. Which delimiters go with it is only known after the next byte. It is
// removed from after the delimiter before it to after the comma that follows. The last element of a container is
// removed with the comma before it instead, if there is one. How it is tested: JSONNullsTests, JSONMergingTests.

import Bytes

/// How far a text has been copied.
struct JSONRuns: ~Copyable {
  /// Bytes of the text that have been copied or left out.
  private(set) var spent = 0
  /// The beginning of the removed element, until it is known what follows.
  private var removed: Int?

  init() {}

  /// Removes the element or member that begins at `start`, directly after the delimiter before it.
  mutating func remove(from start: Int) { removed = start }

  /// A comma followed, and the next element begins after it, at `start`.
  mutating func elementBegan(at start: Int, of text: Span<UInt8>, to out: inout ByteBuffer) {
    guard let removed else { return }
    copy(text, until: removed, to: &out)
    spent = start
    self.removed = nil
  }

  /// The end of the container followed, at `end`.
  mutating func containerEnded(at end: Int, of text: Span<UInt8>, to out: inout ByteBuffer) {
    guard let removed else { return }
    copy(text, until: removed, to: &out)
    // Everything between this delimiter and the end is gone. The delimiter is the comma after an element that stays, or
    // the opening.
    if out.bytes[out.count - 1] == 0x2c { out.truncate(to: out.count - 1) }
    spent = end
    self.removed = nil
  }

  /// Copies the text up to `end`, or nothing if that is already done.
  mutating func copy(_ text: Span<UInt8>, until end: Int, to out: inout ByteBuffer) {
    guard end > spent else { return }
    out.append(text.extracting(spent..<end))
    spent = end
  }

  /// Leaves out the rest up to `end`: something else takes its place.
  mutating func skip(to end: Int) { spent = end }
}
