// One field section from the peer, collected line by line and then written as the head of an HTTP/1.1 message.
//
// HTTP/2 and HTTP/1.1 are two spellings of the same messages (RFC 9110, 3.9; RFC 9113, 8). The proxy judges, edits and
// logs only one of them. A head that came by HTTP/2 is written as HTTP/1.1 and then read by the same strict reader as
// every other head. What would read differently there is refused here: anything that could end a line, a second host, a
// control character.
//
// Tests: HTTP2Tests.

import Bytes
import HTTP1

/// How the content of a message is framed after its head.
enum ContentFraming: Equatable {
  /// There is none. Any that arrives is dropped.
  case none
  /// As it is: the head gives its length.
  case length
  case chunked
  /// A tunnel's bytes.
  case tunnel
}

struct FieldBlock: ~Copyable {
  /// Values of the pseudo-header fields and of some others, one after another.
  private var values = ByteBuffer()
  private var lines = ByteBuffer()
  /// Cookie crumbs, each after a NUL, which no value contains.
  private var crumbs = ByteBuffer()
  private var method = 0..<0
  private var scheme = 0..<0
  private var authority = 0..<0
  private var path = 0..<0
  private var status = 0..<0
  private var tunnelProtocol = 0..<0
  private var host: Range<Int>? = nil
  private var length: Range<Int>? = nil
  private var count = 0
  /// Names and values as decoded, in bytes, whether kept or not.
  private var decoded = 0
  private var acceptsTrailers = false
  private var announcesTrailers = false
  private var isGRPC = false
  /// A field of the section is malformed.
  var isMalformed = false
  /// Names of fields, in lower case, whose values no encoder may put into a table (RFC 7541, 6.2.3).
  private(set) var neverIndexed: [[UInt8]] = []

  var isHead: Bool { values.bytes.equals(method, "HEAD") }
  var opensTunnel: Bool { !tunnelProtocol.isEmpty }
  /// 1xx.
  var isInformational: Bool { !status.isEmpty && values.bytes[status.lowerBound] == 0x31 }

  /// Forgets what was collected and frees the memory.
  mutating func rest() {
    removeAll()
    values = ByteBuffer()
    lines = ByteBuffer()
    crumbs = ByteBuffer()
  }

  mutating func removeAll() {
    values.removeAll()
    lines.removeAll()
    crumbs.removeAll()
    method = 0..<0
    scheme = 0..<0
    authority = 0..<0
    path = 0..<0
    status = 0..<0
    tunnelProtocol = 0..<0
    host = nil
    length = nil
    neverIndexed.removeAll()
    count = 0
    decoded = 0
    acceptsTrailers = false
    announcesTrailers = false
    isGRPC = false
    isMalformed = false
  }

  /// Whether so much of it has come that it is an attack. Compression lets one byte stand for a whole line, so what a
  /// section costs is limited only by what is decoded of it.
  func isExcessive(_ limits: HeadLimits) -> Bool {
    count > limits.fields * ConnectionLimits.excess || decoded > limits.bytes * ConnectionLimits.excess
  }

  /// Whether its lines are too large. It is refused for its size, so no more of it need be kept.
  private func isTooLarge(_ limits: HeadLimits) -> Bool { lines.count + crumbs.count > limits.bytes }

  /// Adds one line. false: it makes the message malformed.
  mutating func add(_ name: Span<UInt8>, _ value: Span<UInt8>, limits: HeadLimits) -> Bool {
    decoded += name.count + value.count
    guard !name.isEmpty else { return false }
    if name[0] == 0x3a { return Self.isValue(value) && addPseudo(name, value) }
    count += 1
    // Before its size is judged: a refusal of that size takes the form that gRPC programs read.
    if name.count == 12, name.equals(0..<12, "content-type") { isGRPC = GRPC.isType(value) }
    // One line more than allowed is kept, for which the reader of the head refuses it.
    if count > limits.fields + 1 || isTooLarge(limits) { return true }
    guard Self.isValue(value), name.tokenEnd(from: 0) == name.count, !name.hasUppercase else { return false }
    switch name.count {
    case 2 where name.equals(0..<2, "te"):
      acceptsTrailers = true
      return true
    case 4 where name.equals(0..<4, "host"):
      if host != nil { return false }
      host = keep(value)
      return true
    case 6 where name.equals(0..<6, "cookie"):
      crumbs.append(0)
      crumbs.append(value)
      return true
    case 7 where name.equals(0..<7, "trailer"): announcesTrailers = true
    case 14 where name.equals(0..<14, "content-length"):
      if length != nil { return false }
      length = keep(value)
      return true
    default: break
    }
    lines.append(name)
    lines.append(": ")
    lines.append(value)
    lines.append("\r\n")
    return true
  }

  /// The field that is added next is never to be indexed. Credentials, the usual ones, are left out: the library never
  /// indexes them by itself.
  mutating func neverIndexes(_ name: Span<UInt8>) {
    if name.count == 13, name.equals(0..<13, "authorization") { return }
    if neverIndexed.count < Self.mostNeverIndexed, !neverIndexed.contains(where: { $0.span.equals(name) }) {
      neverIndexed.append(name.array)
    }
  }

  /// More names than real messages have, and few enough to look through for each field. Of a message with so many, none
  /// is indexed.
  static let mostNeverIndexed = 16

  private mutating func addPseudo(_ name: Span<UInt8>, _ value: Span<UInt8>) -> Bool {
    // No control character either: `isValue`.
    for index in 0..<value.count where value[index].isBlank { return false }
    let kept = keep(value)
    let whole = 0..<name.count
    switch name.count {
    case 5 where name.equals(whole, ":path"): path = kept
    case 7 where name.equals(whole, ":method"): method = kept
    case 7 where name.equals(whole, ":scheme"): scheme = kept
    case 7 where name.equals(whole, ":status"): status = kept
    case 9 where name.equals(whole, ":protocol"): tunnelProtocol = kept
    case 10 where name.equals(whole, ":authority"): authority = kept
    default: return false
    }
    return true
  }

  private mutating func keep(_ value: Span<UInt8>) -> Range<Int> {
    let begin = values.count
    values.append(value)
    return begin..<values.count
  }

  /// Whether it has no line end, and no control character other than TAB (RFC 9110, 5.5).
  private static func isValue(_ value: Span<UInt8>) -> Bool {
    var at = 0
    while true {
      at = value.firstControl(from: at)
      if at == value.count { return true }
      if value[at] != 0x09 { return false }
      at += 1
    }
  }

  // MARK: Written

  /// Appends a request head; nil if the message is malformed. `ends`: no content follows.
  func writeRequest(
    ends: Bool, _ limits: HeadLimits, to out: inout ByteBuffer
  ) -> ContentFraming? {
    let named = authority.isEmpty ? host ?? authority : authority
    // RFC 9113, 8.3.1: a Host that names another server is malformed.
    if let host, !values.bytes.equalsIgnoringCase(host, named) { return nil }
    if opensTunnel { return writeUpgrade(named, limits, to: &out) }
    out.append(values.bytes.extracting(method))
    out.append(0x20)
    writeTarget(at: named, to: &out)
    writeLines(limits, to: &out)
    if acceptsTrailers { out.append("te: trailers\r\nconnection: te\r\n") }
    return writeFraming(ends: ends, needsLength: takesContent, limits, to: &out)
  }

  /// RFC 8441, 5: CONNECT with a protocol corresponds to Upgrade to it on HTTP/1.1.
  private func writeUpgrade(_ named: Range<Int>, _ limits: HeadLimits, to out: inout ByteBuffer) -> ContentFraming? {
    guard values.bytes.equals(method, "CONNECT"), length == nil else { return nil }
    // No proxy relays this one (RFC 9113, 3.1), so what would be left is a plain GET that nobody asked for.
    if values.bytes.equals(tunnelProtocol, ignoringCase: "h2c") { return nil }
    out.append("GET ")
    writeTarget(at: named, to: &out)
    writeLines(limits, to: &out)
    out.append("connection: upgrade\r\nupgrade: ")
    out.append(values.bytes.extracting(tunnelProtocol))
    if values.bytes.equals(tunnelProtocol, ignoringCase: "websocket") {
      out.append("\r\nsec-websocket-key: ")
      out.append(WebSocketKey.random())
    }
    out.append("\r\n\r\n")
    return .tunnel
  }

  /// The rest of a request line, and Host. A scheme other than https is named, which only absolute-form has room for.
  /// CONNECT has neither scheme nor path.
  private func writeTarget(at named: Range<Int>, to out: inout ByteBuffer) {
    if scheme.isEmpty {
      out.append(values.bytes.extracting(named))
    } else if !values.bytes.equals(scheme, ignoringCase: "https") {
      out.append(values.bytes.extracting(scheme))
      out.append("://")
      out.append(values.bytes.extracting(named))
    }
    out.append(values.bytes.extracting(path))
    out.append(" HTTP/1.1\r\nhost: ")
    out.append(values.bytes.extracting(named))
    out.append("\r\n")
  }

  /// POST, PUT and PATCH without content state that (RFC 9110, 8.6).
  private var takesContent: Bool {
    values.bytes.equals(method, "POST") || values.bytes.equals(method, "PUT") || values.bytes.equals(method, "PATCH")
  }

  /// Appends a response head. `isToHead`: it answers HEAD.
  func writeResponse(
    ends: Bool, isToHead: Bool, _ limits: HeadLimits, to out: inout ByteBuffer
  ) -> ContentFraming {
    let code = values.bytes.extracting(status)
    out.append("HTTP/1.1 ")
    out.append(code)
    out.append(0x20)
    out.append(ReasonPhrase.of((0..<code.count).reduce(0) { $0 * 10 + Int(code[$1] & 0xf) }))
    out.append("\r\n")
    let hasNone = isInformational || values.bytes.equals(status, "204") || values.bytes.equals(status, "304")
    writeLines(limits, to: &out)
    if isToHead || hasNone {
      if let length, !isInformational { write(length, to: &out) }
      out.append("\r\n")
      return .none
    }
    return writeFraming(ends: ends, needsLength: true, limits, to: &out)
  }

  /// A 2xx. To CONNECT with a protocol, it corresponds to 101 on HTTP/1.1 (RFC 8441, 5).
  var isGranted: Bool { !status.isEmpty && values.bytes[status.lowerBound] == 0x32 }

  /// Appends the head with which an HTTP/1.1 server switches to WebSocket.
  func writeSwitch(_ proof: [UInt8], _ limits: HeadLimits, to out: inout ByteBuffer) {
    out.append(
      "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ")
    out.append(proof)
    out.append("\r\n")
    writeLines(limits, to: &out)
    out.append("\r\n")
  }

  /// Appends the head with which a proxy grants CONNECT. The length of its content means nothing (RFC 9110, 9.3.6).
  func writeGrant(_ limits: HeadLimits, to out: inout ByteBuffer) {
    out.append("HTTP/1.1 200 OK\r\n")
    writeLines(limits, to: &out)
    out.append("\r\n")
  }

  /// Appends the last chunk and a trailer section.
  func writeTrailers(_ limits: HeadLimits, to out: inout ByteBuffer) {
    out.append("0\r\n")
    out.append(contentsOf: lines)
    showExcess(limits, to: &out)
    out.append("\r\n")
  }

  /// Of too many fields some are not in the text, and several can be one line of it. The reader, who refuses a section
  /// for the number of its lines, is shown enough of them.
  private func showExcess(_ limits: HeadLimits, to out: inout ByteBuffer) {
    if count <= limits.fields { return }
    for _ in 0...limits.fields { out.append("x: \r\n") }
  }

  private func writeLines(_ limits: HeadLimits, to out: inout ByteBuffer) {
    // Of a section that is too large, the line of that name may not have been kept.
    if isGRPC, count > limits.fields || isTooLarge(limits) {
      out.append("content-type: application/grpc\r\n")
    }
    out.append(contentsOf: lines)
    showExcess(limits, to: &out)
    if crumbs.isEmpty { return }
    // One field again (RFC 9113, 8.2.3).
    var at = 0
    while at < crumbs.count {
      let end = crumbs.bytes.firstIndex(of: 0, from: at + 1) ?? crumbs.count
      out.append(at == 0 ? "cookie: " : "; ")
      out.append(crumbs.bytes.extracting(at + 1..<end))
      at = end
    }
    out.append("\r\n")
  }

  private func write(_ length: Range<Int>, to out: inout ByteBuffer) {
    out.append("content-length: ")
    out.append(values.bytes.extracting(length))
    out.append("\r\n")
  }

  /// Writes how the content is framed, and ends the head. Content with trailers is chunked, because no other framing
  /// carries them.
  private func writeFraming(
    ends: Bool, needsLength: Bool, _ limits: HeadLimits, to out: inout ByteBuffer
  ) -> ContentFraming {
    // Without an end, the reader of the head finds it too large too.
    if isTooLarge(limits) { return .none }
    let framing: ContentFraming
    if ends {
      if let length { write(length, to: &out) } else if needsLength { out.append("content-length: 0\r\n") }
      framing = .none
    } else if let length, !announcesTrailers, !isGRPC {
      write(length, to: &out)
      framing = .length
    } else {
      out.append("transfer-encoding: chunked\r\n")
      framing = .chunked
    }
    out.append("\r\n")
    return framing
  }
}
