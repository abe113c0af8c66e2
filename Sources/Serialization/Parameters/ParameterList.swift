// The parameters after a media type or a content disposition (RFC 9110, 5.6.6; RFC 2183), as ranges of the value: *(
// OWS ";" OWS [ name "=" ( token / quoted-string ) ] ). Tests: MediaTypeTests and MultipartFormDataTests, through the
// two readers of such values.

/// Walks through the parameters of a field value; allocates nothing.
struct ParameterList {
  struct Parameter {
    let name: Range<Int>
    /// For a quoted string, the part between the quotes.
    let value: Range<Int>
    let spelling: Spelling
  }

  enum Spelling { case token, quoted }

  enum Step {
    case parameter(Parameter)
    case end
    /// What is at this index is not part of a valid parameter.
    case malformed(at: Int)
  }

  private var at: Int

  /// The list begins at `from`, after the main value, and ends with the bytes.
  init(from: Int) { at = from }

  mutating func next(_ bytes: Span<UInt8>) -> Step {
    while at < bytes.count {
      at = bytes.blanksEnd(from: at)
      guard at < bytes.count, bytes[at] == UInt8(ascii: ";") else { return .malformed(at: at) }
      at = bytes.blanksEnd(from: at + 1)
      // RFC 9110 allows empty parameters: `text/html;` and `text/html;;charset=utf-8` are well formed.
      if at == bytes.count { return .end }
      if bytes[at] == UInt8(ascii: ";") { continue }
      return parameter(bytes)
    }
    return .end
  }

  private mutating func parameter(_ bytes: Span<UInt8>) -> Step {
    let name = at..<bytes.tokenEnd(from: at)
    at = name.upperBound
    guard !name.isEmpty, at < bytes.count, bytes[at] == UInt8(ascii: "=") else { return .malformed(at: at) }
    at += 1
    if at < bytes.count, bytes[at] == UInt8(ascii: "\"") { return quoted(bytes, name) }
    let value = at..<bytes.tokenEnd(from: at)
    at = value.upperBound
    if value.isEmpty { return .malformed(at: at) }
    return .parameter(Parameter(name: name, value: value, spelling: .token))
  }

  /// quoted-string of RFC 9110, 5.6.4.
  private mutating func quoted(_ bytes: Span<UInt8>, _ name: Range<Int>) -> Step {
    let begin = at + 1
    at = begin
    while at < bytes.count, bytes[at] != UInt8(ascii: "\"") {
      if bytes[at] == UInt8(ascii: "\\") { at += 1 }
      guard at < bytes.count, bytes[at].isFieldText else { return .malformed(at: at) }
      at += 1
    }
    guard at < bytes.count else { return .malformed(at: at) }
    let value = begin..<at
    at += 1
    return .parameter(Parameter(name: name, value: value, spelling: .quoted))
  }
}
