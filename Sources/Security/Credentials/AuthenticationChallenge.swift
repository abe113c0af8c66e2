// WWW-Authenticate and Proxy-Authenticate (RFC 9110, 11.6.1 and 11.7.1): lists of challenges, each a scheme with
// parameters.
//
// The commas of the list and of the parameters look the same, so the text must be read from the beginning. A line that
// breaks the grammar is ignored as a whole. Tests: AuthenticationChallengeTests.

import Bytes

/// One challenge.
public struct AuthenticationChallenge: Equatable, Sendable {
  /// In lower case.
  public let scheme: String
  /// Names in lower case, values without quotes and escapes, in the original order.
  public private(set) var parameters: [Parameter] = []
  /// The token in place of parameters; nil: none.
  public private(set) var token68: [UInt8]? = nil

  public struct Parameter: Equatable, Sendable {
    public let name: String
    public let value: [UInt8]
  }

  /// The value of a parameter; nil if there is none.
  public subscript(name: String) -> [UInt8]? { parameters.first { $0.name == name }?.value }

  /// The most challenges that are read from one field line: more than the registered schemes with one algorithm each.
  static let mostChallenges = 16
  /// The most parameters of one challenge: RFC 7616 has nine.
  static let mostParameters = 32

  /// The challenges of one field line; empty if it breaks the grammar or exceeds the limits.
  public static func read(_ line: [UInt8]) -> [AuthenticationChallenge] {
    var reader = ChallengeReader(text: line)
    return reader.challenges() ?? []
  }

  /// The parameters of Authentication-Info and similar fields (RFC 9110, 11.6.3); nil if the line breaks the grammar.
  public static func readParameters(_ line: [UInt8]) -> AuthenticationChallenge? {
    var reader = ChallengeReader(text: line)
    return reader.parameters()
  }

  init(scheme: String) { self.scheme = scheme }

  fileprivate mutating func take(token68: [UInt8]) { self.token68 = token68 }

  /// false: the name occurs already, or there are too many.
  fileprivate mutating func take(_ parameter: Parameter) -> Bool {
    guard parameters.count < Self.mostParameters, self[parameter.name] == nil else { return false }
    parameters.append(parameter)
    return true
  }
}

private struct ChallengeReader {
  let text: [UInt8]
  var at = 0

  init(text: [UInt8]) { self.text = text }

  private var next: UInt8? { at < text.count ? text[at] : nil }

  private mutating func skipBlanks() { while let byte = next, byte.isBlank { at += 1 } }

  private mutating func skipCommas() { while let byte = next, byte.isBlank || byte == 0x2c { at += 1 } }

  private mutating func token() -> [UInt8]? {
    let begin = at
    while let byte = next, byte.isTokenCharacter { at += 1 }
    return begin < at ? Array(text[begin..<at]) : nil
  }

  mutating func challenges() -> [AuthenticationChallenge]? {
    var found: [AuthenticationChallenge] = []
    skipCommas()
    while at < text.count {
      let begin = at
      guard let word = token() else { return nil }
      if !found.isEmpty, isAtEquals {
        // A parameter of the previous challenge.
        at = begin
        guard found[found.count - 1].token68 == nil, let parameter = parameter(),
          found[found.count - 1].take(parameter)
        else { return nil }
      } else {
        guard found.count < AuthenticationChallenge.mostChallenges,
          let challenge = challenge(of: lowercased(word))
        else { return nil }
        found.append(challenge)
      }
      guard isAtEndOfElement else { return nil }
      skipCommas()
    }
    return found
  }

  mutating func parameters() -> AuthenticationChallenge? {
    var found = AuthenticationChallenge(scheme: "")
    skipCommas()
    while at < text.count {
      guard let parameter = parameter(), found.take(parameter), isAtEndOfElement else { return nil }
      skipCommas()
    }
    return found
  }

  /// What follows the name of a scheme: nothing, a token68, or the first of its parameters.
  private mutating func challenge(of scheme: String) -> AuthenticationChallenge? {
    var challenge = AuthenticationChallenge(scheme: scheme)
    let isSpaced = next?.isBlank ?? true
    skipBlanks()
    guard let byte = next, byte != 0x2c else { return challenge }
    guard isSpaced else { return nil }
    if let token68 = token68() {
      challenge.take(token68: token68)
      return challenge
    }
    guard let parameter = parameter(), challenge.take(parameter) else { return nil }
    return challenge
  }

  /// RFC 9110, 11.2: a run of its characters, with `=` only at the end, followed by the end of the element.
  private mutating func token68() -> [UInt8]? {
    var end = at
    while end < text.count, Self.isOfToken68(text[end]) { end += 1 }
    if end == at { return nil }
    while end < text.count, text[end] == 0x3d { end += 1 }
    let begin = at
    at = end
    if isAtEndOfElement { return Array(text[begin..<end]) }
    at = begin
    return nil
  }

  private static func isOfToken68(_ byte: UInt8) -> Bool {
    byte.isASCIILetter || byte.isASCIIDigit || [0x2d, 0x2e, 0x5f, 0x7e, 0x2b, 0x2f].contains(byte)
  }

  private var isAtEquals: Bool { text[at...].first { !$0.isBlank } == 0x3d }

  private var isAtEndOfElement: Bool { text[at...].first { !$0.isBlank }.map { $0 == 0x2c } ?? true }

  private mutating func parameter() -> AuthenticationChallenge.Parameter? {
    guard let name = token(), isAtEquals else { return nil }
    skipBlanks()
    at += 1
    skipBlanks()
    guard let value = next == 0x22 ? quotedString() : token() else { return nil }
    return AuthenticationChallenge.Parameter(name: lowercased(name), value: value)
  }

  private mutating func quotedString() -> [UInt8]? {
    var value: [UInt8] = []
    at += 1
    while let byte = next {
      at += 1
      switch byte {
      case 0x22: return value
      case 0x5c:
        guard let escaped = next else { return nil }
        at += 1
        value.append(escaped)
      default: value.append(byte)
      }
    }
    return nil
  }

  private func lowercased(_ word: [UInt8]) -> String { String(decoding: word.map(\.asciiLowercased), as: UTF8.self) }
}
