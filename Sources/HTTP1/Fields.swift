// Header and trailer sections (RFC 9112, 5) as slices into the bytes from which they were read.
//
// A section is read as a whole, once its last line has arrived. Its lines are offsets, so reading allocates nothing,
// and unchanged lines are copied in runs. Fields that the proxy acts on are recognised during reading.

import Bytes

/// Fields that have a meaning for the proxy.
public enum KnownField: UInt8, Sendable {
  case other
  case accept, authorization, connection, contentEncoding, contentLength, contentType, cookie, date, expect, host
  case keepAlive, maxForwards
  case proxyAuthenticate, proxyAuthenticationInfo, proxyAuthorization, proxyConnection
  case setCookie, te, trailer, transferEncoding, upgrade, via, wwwAuthenticate

  /// Recognises a name in any case.
  static func identify(_ bytes: Span<UInt8>, _ name: Range<Int>) -> KnownField {
    @inline(__always)
    func of(_ text: StaticString, _ field: KnownField) -> KnownField {
      bytes.equals(name, ignoringCase: text) ? field : .other
    }
    switch name.count {
    case 2: return of("te", .te)
    case 3: return of("via", .via)
    case 4: return bytes[name.lowerBound] | 0x20 == 0x68 ? of("host", .host) : of("date", .date)
    case 6:
      switch bytes[name.lowerBound] | 0x20 {
      case 0x61: return of("accept", .accept)
      case 0x63: return of("cookie", .cookie)
      default: return of("expect", .expect)
      }
    case 7: return bytes[name.lowerBound] | 0x20 == 0x75 ? of("upgrade", .upgrade) : of("trailer", .trailer)
    case 10:
      switch bytes[name.lowerBound] | 0x20 {
      case 0x63: return of("connection", .connection)
      case 0x6b: return of("keep-alive", .keepAlive)
      default: return of("set-cookie", .setCookie)
      }
    case 12:
      return bytes[name.lowerBound] | 0x20 == 0x6d ? of("max-forwards", .maxForwards) : of("content-type", .contentType)
    case 13: return of("authorization", .authorization)
    case 14: return of("content-length", .contentLength)
    case 16:
      switch bytes[name.lowerBound] | 0x20 {
      case 0x77: return of("www-authenticate", .wwwAuthenticate)
      case 0x63: return of("content-encoding", .contentEncoding)
      default: return of("proxy-connection", .proxyConnection)
      }
    case 17: return of("transfer-encoding", .transferEncoding)
    case 18: return of("proxy-authenticate", .proxyAuthenticate)
    case 19: return of("proxy-authorization", .proxyAuthorization)
    case 25: return of("proxy-authentication-info", .proxyAuthenticationInfo)
    default: return .other
    }
  }

  /// Fields that always end at this hop, whether or not Connection names them (RFC 9110, 7.6.1 and 11.7).
  public var isHopByHop: Bool {
    switch self {
    case .connection, .keepAlive, .proxyConnection, .proxyAuthenticate, .proxyAuthenticationInfo, .proxyAuthorization,
      .te, .transferEncoding, .upgrade:
      true
    default: false
    }
  }
}

/// One field line, as offsets into the bytes of its section.
public struct FieldLine: Sendable {
  public let name: Range<Int>
  public let value: Range<Int>
  /// From the first byte of the name to the end of CR LF.
  public let line: Range<Int>
  public let known: KnownField
  /// Whether the line ends at this hop, because Connection names it or a rule removes it.
  public var isDropped = false
}

/// The limits for a head.
public struct HeadLimits: Sendable, Equatable {
  public let bytes: Int
  public let fields: Int

  public init(bytes: Int, fields: Int) {
    self.bytes = bytes
    self.fields = fields
  }
}

/// The progress of reading a head.
public enum HeadProgress: Equatable, Sendable {
  /// The head is the first `count` bytes.
  case complete(count: Int)
  /// It has not arrived completely; so far nothing is wrong.
  case incomplete
  case invalid(MessageFault)
}

/// The lines of a header or trailer section, in reusable storage.
public struct FieldSection: Sendable {
  public var lines: [FieldLine] = []

  public init() { lines.reserveCapacity(64) }

  /// The most options in all Connection fields of a message. Real messages have one to three.
  static let maximumConnectionOptions = 32

  /// Reads lines from `from` to the empty line that ends the section.
  mutating func read(_ bytes: Span<UInt8>, from: Int, limits: HeadLimits) -> HeadProgress {
    lines.removeAll(keepingCapacity: true)
    var at = from
    while true {
      guard at < bytes.count else { return .incomplete }
      let first = bytes[at]
      if first == 0x0d {
        guard at + 1 < bytes.count else { return .incomplete }
        return bytes[at + 1] == 0x0a ? .complete(count: at + 2) : .invalid(.bareCarriageReturn)
      }
      if first == 0x0a { return .invalid(.bareLineFeed) }
      if first == 0x20 || first == 0x09 { return .invalid(.obsoleteLineFolding) }
      let nameStart = at
      at = bytes.tokenEnd(from: at)
      guard at < bytes.count else { return .incomplete }
      let name = nameStart..<at
      if bytes[at] != 0x3a || name.isEmpty {
        if bytes[at].isBlank { return .invalid(.spaceBeforeColon) }
        return breakOff(bytes, at, otherwise: .badFieldName)
      }
      at &+= 1
      switch readLineEnd(bytes, from: at) {
      case .incomplete: return .incomplete
      case .invalid(let fault): return .invalid(fault)
      case .complete(let end):
        if lines.count == limits.fields { return .invalid(.tooManyFields) }
        lines.append(
          FieldLine(
            name: name, value: bytes.trimmingBlanks(at..<end), line: nameStart..<end + 2,
            known: KnownField.identify(bytes, name)))
        at = end + 2
      }
    }
  }

  /// Marks the hop-by-hop fields as dropped, including those that Connection names. Without some fields, the rest would
  /// be a different message from the one that was checked. Naming one of those is a fault (`EndToEndFields`).
  mutating func dropHopByHop(
    _ bytes: Span<UInt8>, _ options: inout ConnectionOptions, isResponse: Bool
  ) -> MessageFault? {
    var named = 0
    for index in lines.indices {
      if lines[index].known.isHopByHop { lines[index].isDropped = true }
      guard lines[index].known == .connection || lines[index].known == .proxyConnection else { continue }
      let isConnection = lines[index].known == .connection
      var elements = ListElements(lines[index].value)
      while let element = elements.next(bytes) {
        named += 1
        if named > Self.maximumConnectionOptions { return .tooManyConnectionOptions }
        options.note(bytes, element, isConnection: isConnection)
        guard isConnection else { continue }
        if EndToEndFields.contains(bytes, element, isResponse: isResponse) { return .connectionNamesContent }
        drop(namedAt: element, in: bytes)
      }
    }
    return nil
  }

  private mutating func drop(namedAt name: Range<Int>, in bytes: Span<UInt8>) {
    for index in lines.indices where lines[index].name.count == name.count {
      if bytes.equalsIgnoringCase(lines[index].name, name) { lines[index].isDropped = true }
    }
  }

  /// Whether a line that is not dropped has this name. The name is in lower case.
  public func contains(_ name: [UInt8], in bytes: Span<UInt8>) -> Bool {
    for index in lines.indices where !lines[index].isDropped {
      if bytes.equals(lines[index].name, ignoringCase: name.span) { return true }
    }
    return false
  }

  /// Drops every line with this name. The name is in lower case.
  public mutating func drop(_ name: [UInt8], in bytes: Span<UInt8>) {
    for index in lines.indices where lines[index].name.count == name.count {
      if bytes.equals(lines[index].name, ignoringCase: name.span) { lines[index].isDropped = true }
    }
  }

  /// Undoes the drop of every line of this field. Returns whether there is one.
  public mutating func keep(_ field: KnownField) -> Bool {
    var isThere = false
    for index in lines.indices where lines[index].known == field {
      lines[index].isDropped = false
      isThere = true
    }
    return isThere
  }

  /// The Connection fields as one list, for use after their bytes are gone.
  public func connectionOptions(_ bytes: Span<UInt8>) -> [UInt8] {
    var options: [UInt8] = []
    for index in lines.indices where lines[index].known == .connection {
      if !options.isEmpty { options.append(0x2c) }
      options += bytes.extracting(lines[index].value).array
    }
    return options
  }

  /// Drops the lines whose names are in a list (RFC 9110, 7.6.1).
  public mutating func drop(namedIn list: [UInt8], _ bytes: Span<UInt8>) {
    var elements = ListElements(0..<list.count)
    while let element = elements.next(list.span) { drop(list[element].map(\.asciiLowercased), in: bytes) }
  }

  /// Removes names (in lower case), and those in a list from Connection, from the announcement in Trailer (RFC 9110,
  /// 6.6.2), because the trailers will not have them. Returns the line that replaces the existing ones. It is empty if
  /// nothing changes or nothing remains to be announced.
  public mutating func announceTrailers(
    _ bytes: Span<UInt8>, without removed: [[UInt8]], _ namedInConnection: [UInt8]
  ) -> [UInt8] {
    if removed.isEmpty && namedInConnection.isEmpty { return [] }
    var gone = removed
    var options = ListElements(0..<namedInConnection.count)
    while let option = options.next(namedInConnection.span) {
      gone.append(namedInConnection[option].map(\.asciiLowercased))
    }
    var names: [[UInt8]] = []
    var count = 0
    for index in lines.indices where lines[index].known == .trailer && !lines[index].isDropped {
      var elements = ListElements(lines[index].value)
      while let element = elements.next(bytes) {
        count += 1
        let name = bytes.extracting(element).array
        if !gone.contains(name.map(\.asciiLowercased)) { names.append(name) }
      }
    }
    if names.count == count { return [] }
    drop(.trailer)
    return names.isEmpty ? [] : Array("Trailer: ".utf8) + Array(names.joined(separator: [0x2c, 0x20])) + [0x0d, 0x0a]
  }

  /// Drops every line of this field.
  public mutating func drop(_ field: KnownField) {
    for index in lines.indices where lines[index].known == field { lines[index].isDropped = true }
  }

  /// The value of this field if it occurs exactly once; otherwise nil.
  public func only(_ field: KnownField) -> Range<Int>? {
    var found: Range<Int>? = nil
    for index in lines.indices where lines[index].known == field {
      if found != nil { return nil }
      found = lines[index].value
    }
    return found
  }

  /// The values of this field if it occurs more than once; otherwise an empty array, without an allocation.
  public func repeated(_ field: KnownField) -> [Range<Int>] {
    var count = 0
    for index in lines.indices where lines[index].known == field { count += 1 }
    if count < 2 { return [] }
    return lines.indices.filter { lines[$0].known == field }.map { lines[$0].value }
  }

  /// The value of the first line of this field.
  public func first(_ field: KnownField) -> Range<Int>? {
    for index in lines.indices where lines[index].known == field { return lines[index].value }
    return nil
  }

  /// Appends the lines that are not dropped, unchanged and in runs.
  public func write(_ bytes: Span<UInt8>, to buffer: inout ByteBuffer) {
    var run = 0..<0
    for index in lines.indices where !lines[index].isDropped {
      let line = lines[index].line
      if line.lowerBound == run.upperBound {
        run = run.lowerBound..<line.upperBound
      } else {
        if !run.isEmpty { buffer.append(bytes.extracting(run)) }
        run = line
      }
    }
    if !run.isEmpty { buffer.append(bytes.extracting(run)) }
  }
}

/// Finds the CR LF that ends the line whose content begins at `from`, and checks the bytes before it.
/// `complete(count:)` has the index of the CR.
func readLineEnd(_ bytes: Span<UInt8>, from: Int) -> HeadProgress {
  var at = from
  while true {
    at = bytes.firstControl(from: at)
    guard at < bytes.count else { return .incomplete }
    switch bytes[at] {
    case 0x09: at &+= 1
    case 0x0d:
      guard at + 1 < bytes.count else { return .incomplete }
      return bytes[at + 1] == 0x0a ? .complete(count: at) : .invalid(.bareCarriageReturn)
    case 0x0a: return .invalid(.bareLineFeed)
    default: return .invalid(.controlCharacter)
    }
  }
}

/// The options in the Connection fields of a message (RFC 9110, 7.6.1).
public struct ConnectionOptions: Sendable, Equatable {
  public var close = false
  public var keepAlive = false
  public var upgrade = false
  public var te = false
  /// It names fields that end at this hop, perhaps among the trailers (RFC 9110, 7.6.1).
  public var namesFields = false

  public init() {}

  /// Proxy-Connection is not a standard field. Only what old clients mean by it is honoured.
  mutating func note(_ bytes: Span<UInt8>, _ element: Range<Int>, isConnection: Bool) {
    if bytes.equals(element, ignoringCase: "close") {
      close = true
    } else if bytes.equals(element, ignoringCase: "keep-alive") {
      keepAlive = true
    } else if isConnection && bytes.equals(element, ignoringCase: "upgrade") {
      upgrade = true
    } else if isConnection && bytes.equals(element, ignoringCase: "te") {
      te = true
    } else if isConnection {
      namesFields = true
    }
  }
}
