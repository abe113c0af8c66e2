// Parameters of a rule, added to the JSON object that a request brings.
//
// Only the members of the outermost object are looked at; what is inside them, and every member that no parameter is
// named like, stays as it is written. How it is tested: JSONMergingTests, Tests/Fuzz/JSON.

import Bytes

/// What came of a merge.
public enum JSONMergeOutcome: Equatable, Sendable {
  case merged
  /// The body is valid, but no object: `an array`, `a string`, `a number`, `a boolean` or `null`.
  case notAnObject(String)
  case invalid(ContentFault)
}

/// Adds members to JSON objects.
public enum JSONMerging {
  /// Appends `body`, an object, to `out` with `parameters` as members of it, in their order, behind its own. Where the
  /// body has such a key, however it is escaped, the parameter's value stands in place of the first one's, and further
  /// ones are left out. No key comes twice in `parameters`.
  ///
  /// Where the outcome is not `.merged`, `out` holds nothing of use. `depth` bounds the arrays and objects inside one
  /// another in the body; what a parameter holds is not counted.
  public static func merge(
    _ parameters: [ParameterEntry], into body: Span<UInt8>, depth: Int, to out: inout ByteBuffer
  ) -> JSONMergeOutcome {
    var scanner = JSONScanner(body, depth: depth)
    let root = scanner.next()
    guard case .opened(.object) = root else { return refuse(root, &scanner) }
    var runs = JSONRuns()
    var isPlaced = [Bool](repeating: false, count: parameters.count)
    var membersEnd = scanner.at
    while true {
      let event = scanner.next()
      let (elementStart, key, valueStart) = (scanner.elementStart, scanner.key, scanner.valueStart)
      switch event {
      case .opened:
        if let fault = scanner.skipContainer() { return .invalid(fault) }
        fallthrough
      case .scalar:
        membersEnd = scanner.at
        runs.elementBegan(at: elementStart, of: body, to: &out)
        guard let index = parameters.firstIndex(where: { body.isJSONString(key, of: $0.key.span) }) else { continue }
        if isPlaced[index] {
          runs.remove(from: elementStart)
        } else {
          runs.copy(body, until: valueStart, to: &out)
          JSONWriting.write(parameters[index].value, to: &out)
          runs.skip(to: membersEnd)
          isPlaced[index] = true
        }
      case .closed:
        runs.containerEnded(at: valueStart, of: body, to: &out)
        runs.copy(body, until: membersEnd, to: &out)
        append(parameters, except: isPlaced, to: &out)
      case .finished:
        runs.copy(body, until: body.count, to: &out)
        return .merged
      case .refused(let fault):
        return .invalid(fault)
      }
    }
  }

  /// Of a text that does not begin with an object: what it is, where the rest of it is valid.
  private static func refuse(_ root: JSONScanner.Event, _ scanner: inout JSONScanner) -> JSONMergeOutcome {
    switch root {
    case .opened(let kind), .scalar(let kind):
      if let fault = scanner.readToEnd() { return .invalid(fault) }
      return .notAnObject(kind.phrase)
    case .refused(let fault): return .invalid(fault)
    case .closed, .finished: preconditionFailure("a text begins with a value")
    }
  }

  /// Appends as members what the body had no key for.
  private static func append(_ parameters: [ParameterEntry], except isPlaced: [Bool], to out: inout ByteBuffer) {
    for index in parameters.indices where !isPlaced[index] {
      // Of an object without members its opening is the last that was written.
      if out.bytes[out.count - 1] != 0x7b { out.append(0x2c) }
      JSONWriting.writeMember(parameters[index], to: &out)
    }
  }
}
