// Copying a JSON text in runs while elements of it are left out or replaced.
//
// What goes is known when it has been read; how much of the delimiters goes with it, only when the byte behind it has
// been. An element goes from behind the delimiter before it to behind the comma that follows it. The last one of a
// container takes the comma before it along instead, where there is one. How it is tested: JSONNullsTests,
// JSONMergingTests.

import Bytes

/// How far a text has been copied.
struct JSONRuns: ~Copyable {
  /// Bytes of the text that are in the copy, or left out of it.
  private(set) var spent = 0
  /// Where the element begins that is left out, until it is known what follows it.
  private var removed: Int?

  init() {}

  /// Leaves out the element or member that begins at `start`, directly behind the delimiter before it.
  mutating func remove(from start: Int) { removed = start }

  /// A comma followed, and the next element begins behind it at `start`.
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
    // Everything between this delimiter and the end is gone: it is the comma of an element that stays, or the opening.
    if out.bytes[out.count - 1] == 0x2c { out.truncate(to: out.count - 1) }
    spent = end
    self.removed = nil
  }

  /// Copies the text as it is up to `end`; nothing where that is spent already.
  mutating func copy(_ text: Span<UInt8>, until end: Int, to out: inout ByteBuffer) {
    guard end > spent else { return }
    out.append(text.extracting(spent..<end))
    spent = end
  }

  /// Leaves out what is not spent yet up to `end`: something else stands in its place.
  mutating func skip(to end: Int) { spent = end }
}
