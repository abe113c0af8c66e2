// Entries of `acceptable_content_types`: one type, all subtypes of a type, all types with a structured-syntax suffix,
// or any type. A range is always in lower case, so matching compares bytes. Parameters are not compared, as in
// AFNetworking. Tests: MediaRangeTests.

import Bytes

/// Why a text is not a media range, and what to write instead.
public struct MediaRangeFault: Error, Hashable, Sendable, CustomStringConvertible {
  public let description: String
}

/// A set of media types.
public struct MediaRange: Hashable, Sendable, CustomStringConvertible {
  private enum Form: Hashable {
    case any
    case type([UInt8])
    case subtype([UInt8], of: [UInt8])
    /// With its plus sign.
    case suffix([UInt8])
  }

  private let form: Form

  /// Reads `type/subtype`, `type/*`, `*/*` or `+suffix` (RFC 6839), in any case.
  public static func parse(_ text: String) -> Result<MediaRange, MediaRangeFault> {
    let bytes = text.utf8.map(\.asciiLowercased)
    if let form = form(bytes) { return .success(MediaRange(form: form)) }
    return .failure(MediaRangeFault(description: fault(bytes)))
  }

  /// Whether it contains every type.
  public var isAny: Bool { form == .any }

  /// Whether the set contains `type`, which was read from `value`.
  public func matches(_ type: MediaType, in value: Span<UInt8>) -> Bool {
    switch form {
    case .any: return true
    case .type(let name): return value.equals(type.type, ignoringCase: name.span)
    case .subtype(let subtype, let name):
      return value.equals(type.type, ignoringCase: name.span) && value.equals(type.subtype, ignoringCase: subtype.span)
    case .suffix(let suffix):
      // A suffix needs a name before it: in RFC 6838, 4.2 no subtype begins with a plus sign.
      guard type.subtype.count > suffix.count else { return false }
      return value.equals(type.subtype.suffix(suffix.count), ignoringCase: suffix.span)
    }
  }

  /// The range as in the configuration, in lower case.
  public var description: String {
    switch form {
    case .any: "*/*"
    case .type(let name): "\(name.span.string)/*"
    case .subtype(let subtype, let name): "\(name.span.string)/\(subtype.span.string)"
    case .suffix(let suffix): suffix.span.string
    }
  }

  private static func form(_ bytes: [UInt8]) -> Form? {
    if bytes.first == UInt8(ascii: "+") {
      // The suffix is what follows the last plus sign (RFC 6838, 4.2.8).
      let name = Array(bytes.dropFirst())
      return isName(name) && !name.contains(UInt8(ascii: "+")) ? .suffix(bytes) : nil
    }
    let parts = bytes.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Array($0) }
    guard parts.count == 2 else { return nil }
    let wildcard = [UInt8(ascii: "*")]
    if parts == [wildcard, wildcard] { return .any }
    guard isName(parts[0]) else { return nil }
    if parts[1] == wildcard { return .type(parts[0]) }
    return isName(parts[1]) ? .subtype(parts[1], of: parts[0]) : nil
  }

  private static func isName(_ bytes: [UInt8]) -> Bool {
    !bytes.isEmpty && bytes.allSatisfy { $0.isTokenCharacter && $0 != UInt8(ascii: "*") }
  }

  // MARK: What people write instead

  private static func fault(_ bytes: [UInt8]) -> String {
    let forms = "expected 'type/subtype', 'type/*', '*/*' or a suffix such as '+json'"
    if bytes.isEmpty { return "\(forms), found nothing" }
    let seen = Seen.text(bytes.span)
    if let semicolon = bytes.firstIndex(of: UInt8(ascii: ";")) {
      var type = bytes[..<semicolon]
      while type.last?.isBlank == true { type.removeLast() }
      let advice = form(Array(type)) == nil ? "leave it out" : "write \(Seen.text(Array(type).span))"
      return "\(seen) has a parameter, and types are compared without theirs; \(advice)"
    }
    if bytes.contains(UInt8(ascii: ",")) { return "\(seen) holds a comma; make each type an entry of its own" }
    if bytes.contains(where: { !$0.isFieldText || $0.isBlank }) {
      return "\(seen) holds white space or a control character"
    }
    if bytes == [UInt8(ascii: "*")] { return "'*' has no subtype; write '*/*'" }
    if bytes.contains(UInt8(ascii: "*")) {
      return "\(seen) has a wildcard in a place where none may stand; \(forms)"
    }
    if !bytes.contains(UInt8(ascii: "/")), isName(bytes), bytes[0] != UInt8(ascii: "+") {
      return "\(seen) has no slash; \(forms)"
    }
    return "\(forms), found \(seen)"
  }
}
