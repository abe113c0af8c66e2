// The head of a request as a proxy reads it (RFC 9112, 3): strict, in one pass, without allocations.
//
// `read` starts at the first byte each time it is called. A caller calls it when the first bytes are there, and again
// after each further line feed. So a head that arrives slowly costs at most one pass per line.

import Bytes

/// The form of a request target (RFC 9112, 3.2).
public enum TargetForm: Sendable, Equatable { case absolute, authority, asterisk, origin }

/// Methods that the proxy treats specially.
public enum KnownMethod: Sendable, Equatable {
  case connect, delete, get, head, options, post, put, trace, other

  /// RFC 9110, 9.2.2: sending it twice has the same effect as sending it once.
  public var isIdempotent: Bool {
    switch self {
    case .get, .head, .options, .trace, .put, .delete: true
    case .connect, .post, .other: false
    }
  }
}

/// How much of the start line of a head was valid.
public enum Understood: Sendable, Equatable { case nothing, method, target }

/// A request head. Ranges are offsets into the bytes that were read.
public struct RequestHead: Sendable {
  public private(set) var method: Range<Int> = 0..<0
  public private(set) var knownMethod = KnownMethod.other
  public private(set) var target: Range<Int> = 0..<0
  public private(set) var form = TargetForm.absolute
  /// Whether the scheme of an absolute target, or of a tunnel, is https.
  public private(set) var isHTTPS = false
  /// The host as written in the target, an IPv6 address with its brackets.
  public private(set) var host: Range<Int> = 0..<0
  /// The port in the target; nil if it has none.
  public private(set) var port: UInt16?
  /// Host and port as written.
  public private(set) var authority: Range<Int> = 0..<0
  /// The path without the query; empty if the target has none.
  public private(set) var path: Range<Int> = 0..<0
  /// From the path to the end of the target, with the query.
  public private(set) var pathAndQuery: Range<Int> = 0..<0
  /// Whether the path contains bytes above 0x7F. The caller allowed them, but the path must not be sent like this.
  public private(set) var holdsRawPath = false
  /// 1 for HTTP/1.1, 0 for HTTP/1.0.
  public private(set) var minorVersion = 1
  /// How much of a rejected head can be reported.
  public private(set) var understood = Understood.nothing
  public var fields = FieldSection()
  public private(set) var options = ConnectionOptions()
  public private(set) var framing = BodyFraming.none

  public init() {}

  /// The most empty lines that are skipped before a request line (RFC 9112, 2.2, asks for at least one). Old clients
  /// send one after a body, and some send two. An endless run of them is not a request.
  static let emptyLinesPassedOver = 4

  /// Whether only such lines, or a part of one, have arrived: no request has begun.
  public static func isPassedOver(_ bytes: Span<UInt8>) -> Bool {
    let at = endOfEmptyLines(bytes)
    return at == bytes.count || at + 1 == bytes.count && bytes[at] == 0x0d && at < 2 * emptyLinesPassedOver
  }

  private static func endOfEmptyLines(_ bytes: Span<UInt8>) -> Int {
    var at = 0
    while at < 2 * emptyLinesPassedOver, bytes.count >= at + 2, bytes[at] == 0x0d, bytes[at + 1] == 0x0a { at += 2 }
    return at
  }

  public static func isPassedOver(_ buffer: borrowing ByteBuffer) -> Bool { isPassedOver(buffer.bytes) }

  /// Whether the head is inside a tunnel that the proxy reads as the origin server. Then the target is in origin-form
  /// (RFC 9112, 3.2.1) and CONNECT is not allowed.
  private var isInTunnel = false
  private var takesRawPath = false

  /// Reads a head from the beginning of `bytes`. `takesRawPath`: allows bytes above 0x7F in a path, and nowhere else.
  public mutating func read(
    _ bytes: Span<UInt8>, limits: HeadLimits, isInTunnel: Bool = false, takesRawPath: Bool = false
  ) -> HeadProgress {
    self.isInTunnel = isInTunnel
    self.takesRawPath = takesRawPath
    let window = bytes.count > limits.bytes ? bytes.extracting(0..<limits.bytes) : bytes
    let progress = readLines(window, limits: limits)
    // The limit applies to a head that is fine so far. A head that is already wrong gets its own fault.
    if progress == .incomplete && bytes.count >= limits.bytes { return .invalid(.headTooLarge) }
    return progress
  }

  private mutating func readLines(_ bytes: Span<UInt8>, limits: HeadLimits) -> HeadProgress {
    minorVersion = 1
    understood = .nothing
    var at = Self.endOfEmptyLines(bytes)
    if bytes.count == at + 1, bytes[at] == 0x0d { return .incomplete }

    // 1. Method: a token, and one space.
    let methodStart = at
    while at < bytes.count, bytes[at].isTokenCharacter { at &+= 1 }
    method = methodStart..<at
    guard at < bytes.count else { return .incomplete }
    guard bytes[at] == 0x20, !method.isEmpty else { return breakOff(bytes, at, otherwise: .badMethod) }
    knownMethod = Self.identify(bytes, method)
    understood = .method
    // Some servers read `delete` as DELETE, but a rule on methods would not.
    if knownMethod == .other, Self.isKnownButForCase(bytes, method) { return .invalid(.methodCase) }

    // 2. Target: characters of a URI, and one space.
    at &+= 1
    let targetStart = at
    while at < bytes.count, bytes[at].isTargetCharacter || takesRawPath && bytes[at] >= 0x80 { at &+= 1 }
    target = targetStart..<at
    guard at < bytes.count else { return .incomplete }
    guard bytes[at] == 0x20, !target.isEmpty else { return breakOff(bytes, at, otherwise: .badTarget) }

    // 3. Version, exactly, and CR LF.
    at &+= 1
    let versionEnd = at + 8
    if bytes.count < versionEnd + 2 {
      // Incomplete: is it already wrong, or only cut short?
      let have = at..<min(bytes.count, versionEnd)
      for index in have where !Self.mayBeVersion(bytes[index], at: index - at) {
        return breakOff(bytes, index, otherwise: .badVersion)
      }
      if bytes.count == versionEnd + 1, bytes[versionEnd] != 0x0d {
        return breakOff(bytes, versionEnd, otherwise: .badVersion)
      }
      return .incomplete
    }
    guard bytes.equals(at..<versionEnd - 1, "HTTP/1."), bytes[versionEnd - 1].isASCIIDigit else {
      for index in at..<versionEnd where !Self.mayBeVersion(bytes[index], at: index - at) {
        return breakOff(bytes, index, otherwise: .badVersion)
      }
      guard bytes[versionEnd] == 0x0d, bytes[versionEnd + 1] == 0x0a else {
        return breakOff(bytes, versionEnd, otherwise: .badVersion)
      }
      return .invalid(.unsupportedVersion)
    }
    // The messages of a higher minor version have the same format (RFC 9110, 2.5).
    minorVersion = bytes[versionEnd - 1] == 0x30 ? 0 : 1
    guard bytes[versionEnd] == 0x0d, bytes[versionEnd + 1] == 0x0a else {
      return breakOff(bytes, versionEnd, otherwise: .badVersion)
    }

    if let fault = readTarget(bytes) { return .invalid(fault) }
    // What is reported of a rejected head must not contain bytes that may not be text.
    if !holdsRawPath { understood = .target }

    // 4. Fields.
    let progress = fields.read(bytes, from: versionEnd + 2, limits: limits)
    guard case .complete = progress else { return progress }
    if let fault = understand(bytes) { return .invalid(fault) }
    return progress
  }

  private static func mayBeVersion(_ byte: UInt8, at index: Int) -> Bool {
    switch index {
    case 0: byte == 0x48
    case 1, 2: byte == 0x54
    case 3: byte == 0x50
    case 4: byte == 0x2f
    case 6: byte == 0x2e
    default: byte.isASCIIDigit
    }
  }

  private static func identify(_ bytes: Span<UInt8>, _ method: Range<Int>) -> KnownMethod {
    switch method.count {
    case 3: bytes.equals(method, "GET") ? .get : bytes.equals(method, "PUT") ? .put : .other
    case 4: bytes.equals(method, "POST") ? .post : bytes.equals(method, "HEAD") ? .head : .other
    case 5: bytes.equals(method, "TRACE") ? .trace : .other
    case 6: bytes.equals(method, "DELETE") ? .delete : .other
    case 7: bytes.equals(method, "CONNECT") ? .connect : bytes.equals(method, "OPTIONS") ? .options : .other
    default: .other
    }
  }

  private static func isKnownButForCase(_ bytes: Span<UInt8>, _ method: Range<Int>) -> Bool {
    func isCased(_ upper: StaticString, _ lower: StaticString) -> Bool {
      bytes.equals(method, ignoringCase: lower) && !bytes.equals(method, upper)
    }
    switch method.count {
    case 3: return isCased("GET", "get") || isCased("PUT", "put")
    case 4: return isCased("POST", "post") || isCased("HEAD", "head")
    case 5: return isCased("PATCH", "patch") || isCased("TRACE", "trace") || isCased("TRACK", "track")
    case 6: return isCased("DELETE", "delete")
    case 7: return isCased("CONNECT", "connect") || isCased("OPTIONS", "options")
    default: return false
    }
  }

  /// Interprets the fields: Host, connection options, framing.
  private mutating func understand(_ bytes: Span<UInt8>) -> MessageFault? {
    if let fault = checkHost(bytes) { return fault }
    options = ConnectionOptions()
    if let fault = fields.dropHopByHop(bytes, &options, isResponse: false) { return fault }
    switch BodyFraming.ofRequest(fields, bytes, minorVersion: minorVersion) {
    case .failure(let fault): return fault
    case .success(let framing): self.framing = framing
    }
    // RFC 9110, 9.3.6 and 9.3.8: a CONNECT or TRACE request has no content.
    if knownMethod == .connect || knownMethod == .trace {
      switch framing {
      case .none, .length(0): break
      case .length, .chunked, .untilClose: return .bodyNotAllowed
      }
    }
    return nil
  }

  /// RFC 9112, 3.2: the method and the first character determine the form.
  private mutating func readTarget(_ bytes: Span<UInt8>) -> MessageFault? {
    host = 0..<0
    port = nil
    authority = 0..<0
    path = target.upperBound..<target.upperBound
    pathAndQuery = path
    isHTTPS = false
    holdsRawPath = false
    if knownMethod == .connect {
      if isInTunnel { return .connectInTunnel }
      form = .authority
      isHTTPS = true
      if let fault = readAuthority(bytes, target) { return fault }
      return port == nil ? .missingPort : nil
    }
    if target.count == 1, bytes[target.lowerBound] == 0x2a {
      form = .asterisk
      return knownMethod == .options ? nil : .badTarget
    }
    if bytes[target.lowerBound] == 0x2f {
      if !isInTunnel { return .targetNotAbsolute }
      form = .origin
      isHTTPS = true
      return readPath(bytes, from: target.lowerBound)
    }
    form = .absolute
    var at = target.lowerBound
    while at < target.upperBound, bytes[at].isSchemeCharacter { at &+= 1 }
    let scheme = target.lowerBound..<at
    guard !scheme.isEmpty, at + 2 < target.upperBound, bytes.equals(at..<at + 3, "://") else {
      return .targetNotAbsolute
    }
    if bytes.equals(scheme, ignoringCase: "https") {
      isHTTPS = true
    } else if !bytes.equals(scheme, ignoringCase: "http") {
      return .unsupportedScheme
    }
    at &+= 3
    let authorityStart = at
    while at < target.upperBound, bytes[at] != 0x2f, bytes[at] != 0x3f { at &+= 1 }
    if let fault = readAuthority(bytes, authorityStart..<at) { return fault }
    return readPath(bytes, from: at)
  }

  private mutating func readPath(_ bytes: Span<UInt8>, from at: Int) -> MessageFault? {
    pathAndQuery = at..<target.upperBound
    let query = bytes.extracting(pathAndQuery).firstIndex(of: 0x3f).map { at + $0 } ?? target.upperBound
    path = at..<query
    if takesRawPath {
      for index in query..<target.upperBound where bytes[index] >= 0x80 { return .badTarget }
      for index in path where bytes[index] >= 0x80 { holdsRawPath = true }
    }
    // Some servers read "\" in a path as "/". A rule on paths would then see another path than they do.
    return bytes.extracting(path).firstIndex(of: 0x5c) == nil ? nil : .badTarget
  }

  /// RFC 3986, 3.2, without user information (RFC 9110, 4.2.4).
  private mutating func readAuthority(_ bytes: Span<UInt8>, _ range: Range<Int>) -> MessageFault? {
    for index in range where bytes[index] == 0x40 { return .userInformationInTarget }
    switch HostAndPort.read(bytes, range) {
    case .failure(let fault): return fault
    case .success(let parts):
      authority = parts.authority
      host = parts.host
      port = parts.port
      return nil
    }
  }

  /// RFC 9112, 3.2: an HTTP/1.1 request has exactly one Host. In every version it must be well formed.
  private mutating func checkHost(_ bytes: Span<UInt8>) -> MessageFault? {
    var seen = false
    for index in fields.lines.indices where fields.lines[index].known == .host {
      if seen { return .severalHosts }
      seen = true
      let value = fields.lines[index].value
      // Clients send an empty Host for a target without an authority. Here only "*" is such a target.
      if value.isEmpty {
        if form == .asterisk { continue }
        return .malformedHostField
      }
      guard case .success(let parts) = HostAndPort.read(bytes, value) else { return .malformedHostField }
      // Inside a tunnel, Host names the server, because the target does not.
      if form == .origin {
        authority = parts.authority
        host = parts.host
        port = parts.port
      }
    }
    return seen || minorVersion == 0 ? nil : .missingHost
  }

  /// Whether the connection persists (RFC 9112, 9.3). Never for HTTP/1.0, whose keep-alive is not for proxies.
  public var isPersistent: Bool { minorVersion == 1 && !options.close }
}

/// The result for a line that ends too early at `at`. If possible it names a better fault than `otherwise`. It waits
/// for the byte after a CR, which decides what the CR is.
func breakOff(_ bytes: Span<UInt8>, _ at: Int, otherwise: MessageFault) -> HeadProgress {
  let byte = bytes[at]
  if byte == 0x0a { return .invalid(.bareLineFeed) }
  if byte == 0x0d {
    guard at + 1 < bytes.count else { return .incomplete }
    return .invalid(bytes[at + 1] == 0x0a ? otherwise : .bareCarriageReturn)
  }
  return .invalid(byte < 0x20 && byte != 0x09 || byte == 0x7f ? .controlCharacter : otherwise)
}

/// `host [ ":" port ]`, as in targets and Host. Only the shape is checked here; the policy judges the spelling of the
/// host.
public struct HostAndPort: Sendable, Equatable {
  public let host: Range<Int>
  /// nil if there is none, or an empty one, which stands for the scheme's port (RFC 3986, 3.2.3).
  public let port: UInt16?

  /// Both as written, without the colon of an empty port.
  public let authority: Range<Int>

  public static func read(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Result<HostAndPort, MessageFault> {
    var at = range.lowerBound
    if at < range.upperBound, bytes[at] == 0x5b {
      while at < range.upperBound, bytes[at] != 0x5d { at &+= 1 }
      guard at < range.upperBound, at - range.lowerBound > 2 else { return .failure(.badHost) }
      at &+= 1
      for index in range.lowerBound + 1..<at - 1
      where bytes[index].hexadecimalValue == nil && bytes[index] != 0x3a && bytes[index] != 0x2e {
        return .failure(.badHost)
      }
    } else {
      while at < range.upperBound, bytes[at] != 0x3a {
        guard bytes[at].isRegisteredNameCharacter else { return .failure(.badHost) }
        at &+= 1
      }
    }
    let host = range.lowerBound..<at
    guard !host.isEmpty else { return .failure(.badHost) }
    if at == range.upperBound { return .success(HostAndPort(host: host, port: nil, authority: host)) }
    guard bytes[at] == 0x3a else { return .failure(.badHost) }
    var port = 0
    let digits = at + 1..<range.upperBound
    if digits.isEmpty { return .success(HostAndPort(host: host, port: nil, authority: host)) }
    guard digits.count <= 5 else { return .failure(.badPort) }
    for index in digits {
      guard bytes[index].isASCIIDigit else { return .failure(.badPort) }
      port = port * 10 + Int(bytes[index] & 0xf)
    }
    guard port > 0, port <= 65535 else { return .failure(.badPort) }
    return .success(HostAndPort(host: host, port: UInt16(port), authority: range))
  }
}

extension UInt8 {
  /// The characters of a request target: those of RFC 3986, and `[ \ ] ^ ` { | }`, which browsers send because the URL
  /// standard does not encode them in a query. No space, no quotes, no `< > #`, nothing above 0x7e.
  var isTargetCharacter: Bool {
    let low: UInt64 = 0xafff_fff2_0000_0000
    let high: UInt64 = 0x7fff_ffff_ffff_ffff
    if self >= 0x80 { return false }
    return (self < 0x40 ? low >> UInt64(self) : high >> UInt64(self & 0x3f)) & 1 == 1
  }

  var isSchemeCharacter: Bool { isASCIILetter || isASCIIDigit || self == 0x2b || self == 0x2d || self == 0x2e }

  /// Letters, digits, "-", "_" and ".": the characters of host names on the Internet.
  var isRegisteredNameCharacter: Bool {
    isASCIILetter || isASCIIDigit || self == 0x2d || self == 0x2e || self == 0x5f
  }
}
