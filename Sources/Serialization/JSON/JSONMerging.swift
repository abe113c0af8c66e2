// Adds a rule's parameters to the JSON object in a request.
//
// Only the members of the outermost object are considered. Their contents, and all members that no parameter replaces,
// stay as written. How it is tested: JSONMergingTests, Tests/Fuzz/JSON.

import Bytes

/// The result of a merge.
public enum JSONMergeOutcome: Equatable, Sendable {
  case merged
  /// The body is valid but not an object: `an array`, `a string`, `a number`, `a boolean` or `null`.
  case notAnObject(String)
  case invalid(ContentFault)
}

/// Adds members to JSON objects.
public enum JSONMerging {
  /// Appends `body`, an object, to `out`, with `parameters` as members after its own, in their order. If the body
  /// already has such a key, however it is escaped, the parameter's value replaces the first one's, and further ones
  /// are left out. No key occurs twice in `parameters`.
  ///
  /// If the outcome is not `.merged`, the contents of `out` mean nothing. `depth` limits the nesting of arrays and
  /// objects in the body; the nesting in a parameter does not count.
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
      case .refused:
        return .invalid(scanner.fault)
      }
    }
  }

  /// Describes a text that does not begin with an object, if the rest of it is valid.
  private static func refuse(_ root: JSONScanner.Event, _ scanner: inout JSONScanner) -> JSONMergeOutcome {
    switch root {
    case .opened(let kind), .scalar(let kind):
      if let fault = scanner.readToEnd() { return .invalid(fault) }
      return .notAnObject(kind.phrase)
    case .refused: return .invalid(scanner.fault)
    case .closed, .finished: preconditionFailure("a text begins with a value")
    }
  }

  /// Appends as members the parameters whose keys the body does not have.
  private static func append(_ parameters: [ParameterEntry], except isPlaced: [Bool], to out: inout ByteBuffer) {
    for index in parameters.indices where !isPlaced[index] {
      // In an object without members, the opening brace was written last.
      if out.bytes[out.count - 1] != 0x7b { out.append(0x2c) }
      JSONWriting.writeMember(parameters[index], to: &out)
    }
  }
}
