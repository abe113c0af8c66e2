// The part of `explain` about responses: what one is checked against, and what happens if it fails.
// Tests: SerializerExplanationTests.

import Serialization

/// What a response is checked against.
public struct ResponseExplanation: Sendable {
  public let serialization: ResponseSerialization
  /// The largest body that is held to be checked.
  public let bufferedBodyBytes: Int
  /// false: what would be rejected is allowed, and logged.
  public let isEnforced: Bool
  /// What is sent if the origin fails.
  public let answer: SubstituteAnswer?

  /// Whether any serializer checks bodies. "http" accepts everything.
  var looksAtBodies: Bool { !serialization.kinds.contains(.http) }

  var removesNulls: Bool { serialization.removesNulls && serialization.kinds.contains(.json) }
}

extension ResponseExplanation {
  /// nil if responses are not checked.
  init?(by policy: Policy, of decision: Decision) {
    guard let serialization = policy.response(of: decision) else { return nil }
    self.init(
      serialization: serialization, bufferedBodyBytes: policy.configuration.limits.bufferedBodyBytes,
      isEnforced: decision.rule.map { policy.rules[$0].enforce } ?? true, answer: policy.substituteAnswer(of: decision))
  }
}

// MARK: As text

extension ResponseExplanation {
  var lines: [String] {
    let judgement = serialization.judges ? judgementLines : ["  response: not judged", "  \(malformedLine)"]
    return judgement + (answer.map { ["  answer: \($0.text)"] } ?? [])
  }

  private var malformedLine: String {
    "malformed head: \(serialization.malformed == .mend ? "mended where it can be" : text(.reject))"
  }

  private var judgementLines: [String] {
    let kinds = serialization.kinds.map(\.rawValue).joined(separator: ", ")
    var lines = [
      "response: \(kinds)\(serialization.kinds.count > 1 ? ", of which the first that accepts decides" : "")"
    ]
    lines.append("status: \(serialization.acceptableStatus), else \(text(serialization.onStatus))")
    lines.append("content type: \(typesText), else \(text(serialization.onContentType))")
    if looksAtBodies {
      let root = wantsContainer ? ", and JSON an object or an array" : ""
      lines.append("body: well-formed\(root), else \(text(serialization.onBody))")
    }
    if serialization.parts == .judge { lines.append("parts (206): judged as whole responses are") }
    if serialization.malformed == .reject { lines.append(malformedLine) }
    if removesNulls { lines.append("nulls: removed from JSON") }
    if looksAtBodies || removesNulls {
      let size = Quantity.size.text(Int64(bufferedBodyBytes))
      lines.append("body above \(size): not looked at, and \(text(serialization.onOversize))")
    }
    return lines.map { "  \($0)" }
  }

  private var wantsContainer: Bool { serialization.jsonRoot == .container && serialization.kinds.contains(.json) }

  private func text(_ reaction: ResponseSerialization.Reaction) -> String {
    switch reaction {
    case .annotate: "annotated"
    case .reject: isEnforced ? "rejected" : "allowed and logged (enforce = false)"
    }
  }

  /// In a compound each serializer has its own types, unless the rule names them.
  private var typesText: String {
    if let own = serialization.acceptableTypes { return Self.list(own) }
    return serialization.kinds.map { kind in
      let types = kind == .http ? "any" : Self.list(kind.standardTypes)
      return serialization.kinds.count > 1 ? "\(types) (\(kind.rawValue))" : types
    }.joined(separator: "; ")
  }

  private static func list(_ types: [MediaRange]) -> String { types.map(\.description).joined(separator: ", ") }
}

// MARK: As JSON

extension ResponseExplanation {
  /// The member of the object that shows what will be done.
  var json: [(String, JSONText)] {
    let types = serialization.kinds.map { kind in
      (kind.rawValue, Self.json(of: serialization.acceptableTypes ?? kind.standardTypes))
    }
    return [
      (
        "response",
        .object(
          [
            ("serializer", .array(serialization.kinds.map { .string($0.rawValue) })),
            ("acceptable_status", Self.json(of: serialization.acceptableStatus)),
            ("acceptable_content_types", .object(types)), ("remove_nulls", .boolean(serialization.removesNulls)),
            ("on_violation", reactionsJSON), ("oversize", .string(serialization.onOversize.rawValue)),
            ("malformed", .string(serialization.malformed.rawValue)), ("parts", .string(serialization.parts.rawValue)),
            ("json", .string(serialization.jsonRoot.rawValue)),
            ("buffered_body_bytes", .number(bufferedBodyBytes)), ("enforce", .boolean(isEnforced)),
          ] + (answer.map { [("answer", $0.json)] } ?? []))
      )
    ]
  }

  private var reactionsJSON: JSONText {
    .object([
      ("status", .string(serialization.onStatus.rawValue)),
      ("content_type", .string(serialization.onContentType.rawValue)),
      ("body", .string(serialization.onBody.rawValue)),
    ])
  }

  private static func json(of status: StatusRanges) -> JSONText {
    .array(status.ranges.map { .string("\(StatusRanges([$0]))") })
  }

  private static func json(of types: [MediaRange]) -> JSONText { .array(types.map { .string($0.description) }) }
}
