// Whether a body is JSON, at the speed of simdjson, with the words of our own grammar where it is not.
//
// simdjson answers nearly always, and its yes is enough. All else goes to `JSONScanner`, which decides: it finds the
// place of the fault, and takes what simdjson cannot hold, such as a number of any size. How it is tested:
// JSONCheckerTests, where both have to agree, and Tests/Fuzz/JSON.

import Bytes
import CJSON

/// Checks JSON bodies. One for each event loop: it keeps up to 3.6 MB for as long as it lives, and none before it is
/// used.
@safe
public struct JSONChecker: ~Copyable {
  /// Bytes behind a body that are read and not heeded. A buffer that has room for them is not moved by `check`.
  public static let paddingBytes = Int(CJSON_PADDING_BYTES)
  /// Longest text that simdjson is asked about. It needs fourteen times the text: for one of 1 MB, taken from the
  /// kernel and given back each time, that costs more (740 MB/s) than our own grammar does (1 GB/s), and kept, 14 MB a
  /// loop.
  static let longestTextBytes = 256 << 10
  /// Deepest nesting that simdjson is asked about: it takes nine bytes for each level that there may be.
  static let deepestNesting = 4096

  private var parser: OpaquePointer?

  public init() {}

  deinit { if let parser = unsafe parser { unsafe cjson_free(parser) } }

  /// The first fault of `body`, which should be a JSON text with at most `depth` arrays and objects inside one
  /// another; nil where it is one. White space alone is none. The bytes stay as they are, in memory that may be
  /// another.
  public mutating func check(_ body: inout ByteBuffer, depth: Int) -> ContentFault? {
    if accepts(&body, depth: depth) { return nil }
    return JSONScanner.check(body.bytes, depth: depth)
  }

  /// Whether simdjson alone takes `body`. CJSON.h says what a no may mean.
  package mutating func accepts(_ body: inout ByteBuffer, depth: Int) -> Bool {
    guard depth > 0, body.count <= Self.longestTextBytes else { return false }
    body.reserve(Self.paddingBytes)
    let parser = unsafe self.parser ?? cjson_create()
    unsafe self.parser = parser
    return unsafe body.bytes.withUnsafeBufferPointer { bytes in
      unsafe cjson_accepts(parser, bytes.baseAddress, bytes.count, min(depth, Self.deepestNesting))
    }
  }
}
