// Recognizes whether the first bytes that a client sends into a tunnel are an HTTP request in the clear: an HTTP/1.x
// request line with any method, the preface of HTTP/2, or an HTTP/0.9 request, which is a line without a version.
//
// This does not parse requests; it recognizes what any server might take for one. Servers are lenient in different
// ways: Python's accepts every kind of white space that its strings have between the parts, and before them; others
// skip empty lines, or accept a bare LF as the line end. So the line is read as the most lenient of them would read it.
//
// Other protocols must not wait for this. Most differ in their first byte. Among those that begin like a method (SMTP,
// FTP, IRC, SSH, STOMP), a line that ends without a version is theirs. Bytes that can still become a request line are
// held.
//
// Tested in ClearRequestTests with the first bytes of many protocols; by playbooks in PlainTunnelTests.

import Bytes

struct ClearRequestReader {
  enum Reading: Equatable {
    /// It may still become either.
    case incomplete
    case other
    /// With its method, or the beginning of it.
    case request(method: String)
  }

  /// Longest line in bytes that is held: no server reads a longer one. A longer line that is still undecided counts as
  /// a request.
  static let longest = 64 << 10
  /// Longest beginning of a method that is reported.
  private static let longestMethodTold = 24

  private enum Phase { case before, method, rest }

  private var phase = Phase.before
  /// Bytes that have been read.
  private var at = 0
  private var methodBegin = 0
  private var methodEnd = 0
  /// How much of a version, white space followed by "HTTP/" and a digit, has been seen.
  private var versionMatched = 0
  /// First byte after the method; nil: there is none.
  private var target: Int? = nil

  private static let version: [UInt8] = Array("http/".utf8)

  /// `input` begins with the tunnel's first byte and grows with each call. Must not be called again after a final
  /// result. `isLast`: nothing more will come.
  mutating func read(_ input: Span<UInt8>, isLast: Bool) -> Reading {
    while at < input.count {
      if let reading = step(input[at], input) { return reading }
      at += 1
      if at == Self.longest { return request(input) }
    }
    if !isLast { return .incomplete }
    return endOfLine(input) ?? .other
  }

  /// nil: more bytes are needed.
  private mutating func step(_ byte: UInt8, _ input: Span<UInt8>) -> Reading? {
    switch phase {
    case .before:
      if byte == 0x0a || Self.isSpace(byte) { return nil }
      guard byte.isTokenCharacter else { return .other }
      methodBegin = at
      phase = .method
    case .method:
      if byte.isTokenCharacter { return nil }
      methodEnd = at
      guard Self.isSpace(byte) else { return byte == 0x0a ? endOfLine(input) : .other }
      phase = .rest
    case .rest:
      if byte == 0x0a { return endOfLine(input) }
      return stepRest(byte, input)
    }
    return nil
  }

  private mutating func stepRest(_ byte: UInt8, _ input: Span<UInt8>) -> Reading? {
    if versionMatched == Self.version.count {
      if byte.isASCIIDigit { return request(input) }
      versionMatched = 0
    }
    if Self.isSpace(byte) {
      versionMatched = 0
      return nil
    }
    if target == nil { target = at }
    // A server that checks methods accepts no control character in a request line. If the method looks like one, there
    // may be a server that does not check the rest.
    if byte < 0x20 || byte == 0x7f, !isUppercaseMethod(input) { return .other }
    let isAtBegin = versionMatched > 0 || Self.isSpace(input[at - 1])
    versionMatched =
      isAtBegin && byte.asciiLowercased == Self.version[versionMatched] ? versionMatched + 1 : 0
    return nil
  }

  /// The line has ended without a version: it can only be HTTP/0.9.
  private mutating func endOfLine(_ input: Span<UInt8>) -> Reading? {
    if phase == .method { methodEnd = at }
    guard phase == .rest, let target else { return .other }
    let isGet = input.equals(methodBegin..<methodEnd, "GET")
    let isPath = isUppercaseMethod(input) && (input[target] == 0x2f || Self.beginsURL(input.extracting(target..<at)))
    return isGet || isPath ? request(input) : .other
  }

  private static func beginsURL(_ text: Span<UInt8>) -> Bool {
    text.equals(0..<min(5, text.count), ignoringCase: "http:")
      || text.equals(0..<min(6, text.count), ignoringCase: "https:")
  }

  private func isUppercaseMethod(_ input: Span<UInt8>) -> Bool {
    for index in methodBegin..<methodEnd {
      guard 0x41...0x5a ~= input[index] || input[index] == 0x2d || input[index] == 0x5f else { return false }
    }
    return methodEnd > methodBegin
  }

  private func request(_ input: Span<UInt8>) -> Reading {
    let end = phase == .rest ? methodEnd : at
    return .request(method: input.extracting(methodBegin..<min(end, methodBegin + Self.longestMethodTold)).string)
  }

  /// White space of any server except LF, which ends the line: Python's strings have the most.
  private static func isSpace(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x09, 0x0b, 0x0c, 0x0d, 0x1c...0x20, 0x85, 0xa0: true
    default: false
    }
  }
}
