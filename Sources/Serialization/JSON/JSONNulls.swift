// Null removal, as AFNetworking's `removesKeysWithNullValues`: members and elements that are null go, at any depth, and
// everything else stays as it is written.
//
// One walk over the text validates it and finds what goes; what stays is copied in runs. How it is tested:
// JSONNullsTests, Tests/Fuzz/JSONNulls.

import Bytes

/// Removes nulls from JSON texts.
public enum JSONNulls {
  /// Appends `body` to `out` without the members and elements that are null, each with the white space around it and
  /// one comma. A container that loses all it has stays, empty; so does a text that is `null` itself.
  ///
  /// True where something was removed; where not, nothing was appended, and `body` is what to send. A body that is no
  /// JSON text, or has more than `depth` arrays and objects inside one another, is a fault, and `out` holds nothing of
  /// use.
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
        // What was left out is spent: nothing is where nothing was.
        guard runs.spent > 0 else { return .success(false) }
        runs.copy(body, until: body.count, to: &out)
        return .success(true)
      case .refused(let fault):
        return .failure(fault)
      }
    }
  }
}
