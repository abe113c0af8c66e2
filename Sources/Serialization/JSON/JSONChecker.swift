// Whether a body is JSON: at the speed of simdjson, and with the messages of our own grammar if it is not.
//
// simdjson decides almost all cases, and its acceptance is final. Everything else goes to `JSONScanner`, which decides.
// It finds the place of the fault, and accepts what simdjson cannot represent, such as a number of any size. How it is
// tested: JSONCheckerTests, where both have to agree, and Tests/Fuzz/JSON.
//
// Our own grammar alone has been tried: to check 90 KB of an API then costs 95 µs of CPU instead of 71, which is less
// than the 1 GB/s that the row json-check-90k of Tests/Bench asks for.

import Bytes
import CJSON

/// Checks JSON bodies. One for each event loop: it allocates on first use and keeps up to 3.6 MB for as long as it
/// lives.
@safe
public struct JSONChecker: ~Copyable {
  /// Bytes after a body that are read and ignored. `check` does not move a buffer that has room for them.
  public static let paddingBytes = Int(CJSON_PADDING_BYTES)
  /// The longest text that is given to simdjson. It needs fourteen times the size of the text. For 1 MB, allocating and
  /// freeing that each time is slower (740 MB/s) than our own grammar (1.3 GB/s); keeping it costs 14 MB per loop.
  static let longestTextBytes = 256 << 10
  /// The deepest nesting that is given to simdjson: it needs nine bytes for each possible level.
  static let deepestNesting = 4096

  private var parser: OpaquePointer?

  public init() {}

  deinit { if let parser = unsafe parser { unsafe cjson_free(parser) } }

  /// The first fault of `body` as a JSON text with at most `depth` nested arrays and objects; nil if it is one. White
  /// space alone is not a JSON text. The bytes stay the same, but their memory may move.
  public mutating func check(_ body: inout ByteBuffer, depth: Int) -> ContentFault? {
    if accepts(&body, depth: depth) { return nil }
    return JSONScanner.check(body.bytes, depth: depth)
  }

  /// Whether simdjson accepts `body`. CJSON.h says what a refusal may mean.
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
