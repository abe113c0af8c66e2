// Writes the head of a request for the origin, with the edits of its rule.

import Bytes
import HTTP1
import Policy
import Serialization

/// Changes to the head of a request because of its body.
struct RequestBodyEdits {
  enum TypeEdit {
    case asItCame
    /// Written if neither the client nor the rule has one.
    case ifAbsent([UInt8])
    case replaced([UInt8])
  }

  /// Length of the replacement body; nil: the body is unchanged.
  var length: Int? = nil
  var type = TypeEdit.asItCame
  /// The proxy has sent the client 100 Continue.
  var hasContinued = false
  /// The content is unchanged, although it has a length now, and no trailers.
  var isAsItCame = false
}

struct RequestHeadWriter {
  /// The client's protocol.
  let wire: HTTPProtocol
  let isHTTP10: Bool
  /// An http:// request is sent as https.
  let isUpgraded: Bool
  /// It asks for an Upgrade that is relayed.
  let wantsUpgrade: Bool
  /// The client may have a part of a changed body, of which the origin's validators say nothing: it gets the whole.
  let dropsConditionalRanges: Bool

  /// Writes the head in `workspace.request`. `target`: of its rule, if it is sent there. `interior`: the intercepted
  /// tunnel that it came by. `ending`: field names in its Connection. Returns where its parts are.
  func write(
    _ bytes: Span<UInt8>, _ edits: RequestPolicy, body: RequestBodyEdits, target: RuleTarget?, interior: Interior?,
    ending namedFields: [UInt8], workspace: inout Workspace, to out: inout ByteBuffer
  ) -> WrittenHead {
    dropEdited(bytes, edits, fields: &workspace.request.fields)
    let type = typeLine(bytes, edits.fields, body: body, fields: &workspace.request.fields)
    let announced =
      workspace.request.fields.first(.trailer) == nil || body.length != nil
      ? []
      : workspace.request.fields.announceTrailers(
        bytes, without: edits.fields.removed + (edits.cookies ? [] : [Self.cookieName]), namedFields)
    workspace.pool.lend(
      &out, workspace.request.fields.lines.last.map { $0.line.upperBound + 256 } ?? 1024 + edits.fields.addedBytes)
    let written = writeRequestLine(
      bytes, edits.serialization, target: target, interior: interior, head: workspace.request, to: &out)
    writeMaxForwards(bytes, &workspace.request, to: &out)
    workspace.request.fields.write(bytes, to: &out)
    out.append(announced)
    // Lines that the response would bring back to the client are not sent.
    let adds = !EchoMethod.includes(bytes.extracting(workspace.request.method))
    for line in edits.fields.set where adds { out.append(line.line) }
    for line in edits.fields.defaults where adds && !workspace.request.fields.contains(line.name, in: bytes) {
      if type == nil || line.name != Self.contentTypeName { out.append(line.line) }
    }
    if let type {
      out.append("Content-Type: ")
      out.append(type)
      out.append("\r\n")
    }
    if let length = body.length {
      out.append("Content-Length: ")
      out.append(decimal: UInt64(length))
      out.append("\r\n")
    }
    if body.length == nil, workspace.request.framing == .chunked { out.append("Transfer-Encoding: chunked\r\n") }
    writeConnectionFields(bytes, workspace.request, to: &out)
    out.append("Via: ")
    out.append(wire.version(minor: workspace.request.minorVersion))
    out.append(0x20)
    out.append(workspace.via)
    out.append("\r\n\r\n")
    return written
  }

  private static let trailerName = Array("trailer".utf8)
  private static let ifRangeName = Array("if-range".utf8)
  private static let cookieName = Array("cookie".utf8)
  private static let contentTypeName = Array("content-type".utf8)
  private static let rangeName = Array("range".utf8)

  /// The request line, and Host after it.
  private func writeRequestLine(
    _ bytes: Span<UInt8>, _ serialization: RequestSerialization?, target: RuleTarget?, interior: Interior?,
    head: borrowing RequestHead, to out: inout ByteBuffer
  ) -> WrittenHead {
    var written = WrittenHead()
    out.append(bytes.extracting(head.method))
    written.method = 0..<out.count
    out.append(0x20)
    let begin = out.count
    writeTarget(bytes, serialization, target: target, head: head, to: &out)
    written.target = begin..<out.count
    out.append(" HTTP/1.1\r\nHost: ")
    let authority = out.count
    if let target {
      out.append(target.authority)
    } else if let interior, head.authority.isEmpty {
      out.append(interior.authority)
    } else if isUpgraded, head.port == Scheme.http.defaultPort {
      // The port follows the scheme: an https origin expects 443 when none is written.
      out.append(bytes.extracting(head.host))
    } else {
      out.append(bytes.extracting(head.authority))
    }
    written.authority = authority..<out.count
    out.append("\r\n")
    return written
  }

  /// The Content-Type for a changed body; nil if the client's, or the rule's own, stays. Drops fields that the new body
  /// makes untrue.
  private func typeLine(
    _ bytes: Span<UInt8>, _ edits: FieldEdits, body: RequestBodyEdits, fields: inout FieldSection
  ) -> [UInt8]? {
    // Other expectations are the origin's to meet or to refuse.
    if body.hasContinued, let value = fields.first(.expect), bytes.equals(value, ignoringCase: "100-continue") {
      fields.drop(.expect)
    }
    if body.length != nil {
      fields.drop(.contentLength)
      fields.drop(Self.trailerName, in: bytes)
      if !body.isAsItCame { fields.dropDigests(bytes) }
    }
    switch body.type {
    case .asItCame: return nil
    case .ifAbsent(let type):
      let isThere =
        fields.contains(Self.contentTypeName, in: bytes)
        || (edits.set + edits.defaults).contains { $0.name == Self.contentTypeName }
      return isThere ? nil : type
    case .replaced(let type):
      fields.drop(.contentType)
      return edits.set.contains { $0.name == Self.contentTypeName } ? nil : type
    }
  }

  /// The target in origin-form, with the rule's parameters if they belong in the query.
  private func writeTarget(
    _ bytes: Span<UInt8>, _ serialization: RequestSerialization?, target ruleTarget: RuleTarget?,
    head: borrowing RequestHead, to out: inout ByteBuffer
  ) {
    let query = serialization?.query(for: bytes.extracting(head.method)) ?? []
    if let mapped = ruleTarget?.mapped(bytes, head) {
      return query.isEmpty ? out.append(mapped) : QueryEncoding.append(query: query, to: mapped.span, into: &out)
    }
    let target = bytes.extracting(head.pathAndQuery)
    if target.isEmpty, query.isEmpty {
      // RFC 9112, 3.2.4: OPTIONS without a path addresses the server as a whole.
      return out.append(head.knownMethod == .options ? "*" : "/")
    }
    if target.isEmpty || target[0] == 0x3f { out.append(0x2f) }
    if query.isEmpty { return out.append(target) }
    QueryEncoding.append(query: query, to: target, into: &out)
  }

  private func dropEdited(_ bytes: Span<UInt8>, _ edits: RequestPolicy, fields: inout FieldSection) {
    fields.drop(.host)
    if isHTTP10 { fields.drop(.expect) }
    fields.dropRepeatedLength()
    if !edits.cookies { fields.drop(.cookie) }
    for name in edits.fields.removed { fields.drop(name, in: bytes) }
    if dropsConditionalRanges, fields.contains(Self.ifRangeName, in: bytes) {
      fields.drop(Self.ifRangeName, in: bytes)
      fields.drop(Self.rangeName, in: bytes)
    }
  }

  private func writeMaxForwards(_ bytes: Span<UInt8>, _ head: inout RequestHead, to out: inout ByteBuffer) {
    guard let number = head.maxForwards(bytes), number > 0 else { return }
    head.fields.drop(.maxForwards)
    out.append("Max-Forwards: ")
    out.append(decimal: number - 1)
    out.append("\r\n")
  }

  private func writeConnectionFields(_ bytes: Span<UInt8>, _ head: borrowing RequestHead, to out: inout ByteBuffer) {
    let trailers = head.options.te && head.fields.acceptsTrailers(bytes)
    if trailers { out.append("TE: trailers\r\n") }
    if wantsUpgrade, let name = head.fields.relayedProtocol(bytes) {
      out.append(trailers ? "Connection: TE, Upgrade\r\nUpgrade: " : "Connection: Upgrade\r\nUpgrade: ")
      out.append(bytes.extracting(name))
      out.append("\r\n")
    } else if trailers {
      out.append("Connection: TE\r\n")
    }
  }
}

extension RequestSerialization {
  /// Its parameters, if they belong in the query of a request with this method.
  func query(for method: Span<UInt8>) -> [UInt8] { EchoMethod.includes(method) || !isInURI(method) ? [] : query }
}

extension ByteBuffer {
  /// Appends one chunk (RFC 9112, 7.1). Empty content is no chunk: a size of zero would end the body.
  mutating func appendChunk(_ content: Span<UInt8>) {
    if content.isEmpty { return }
    append(hexadecimal: UInt64(content.count))
    append("\r\n")
    append(content)
    append("\r\n")
  }
}
