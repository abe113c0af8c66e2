// Null removal, as AFNetworking's `removesKeysWithNullValues`: members and elements that are null are removed at any
// depth. Everything else stays as written.
//
// One pass over the text validates it and finds what to remove; the rest is copied in runs. How it is tested:
// JSONNullsTests, Tests/Fuzz/JSONNulls.

import Bytes

/// Removes nulls from JSON texts.
public enum JSONNulls {
  /// Appends `body` to `out` without the members and elements that are null. With each of them, the white space around
  /// it and one comma are removed. A container that loses everything stays, empty. A text that is `null` itself stays
  /// too.
  ///
  /// Returns true if something was removed. Otherwise nothing was appended, and `body` itself must be sent. If the body
  /// is not a JSON text, or has more than `depth` nested arrays and objects, the result is a fault, and the contents of
  /// `out` mean nothing.
  public static func remove(
    from body: Span<UInt8>, depth: Int, to out: inout ByteBuffer
  ) -> Result<Bool, ContentFault> {
    var scanner = JSONScanner(body, depth: depth)
    var runs = JSONRuns()
    while true {
      switch scanner.next() {
      case .scalar(let kind):
        runs.elementBegan(at: scanner.elementStart, of: body, to: &out)
        if kind == .null && !scanner.containers.isEmpty { runs.remove(from: scanner.elementStart) }
      case .opened:
        runs.elementBegan(at: scanner.elementStart, of: body, to: &out)
      case .closed:
        runs.containerEnded(at: scanner.valueStart, of: body, to: &out)
      case .finished:
        // Only removal advances `spent`.
        guard runs.spent > 0 else { return .success(false) }
        runs.copy(body, until: body.count, to: &out)
        return .success(true)
      case .refused:
        return .failure(scanner.fault)
      }
    }
  }
}
