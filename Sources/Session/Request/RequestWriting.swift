// Writes the head of a request for the origin, with the edits of its rule.

import Bytes
import HTTP1
import Policy
import Serialization

extension Exchange {
  mutating func writeRequest(
    _ bytes: Span<UInt8>, _ edits: RequestPolicy, _ body: RequestBodyEdits, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) {
    noteUpgrade(bytes, workspace)
    noteQuery(bytes, workspace)
    dropEdited(bytes, edits, &workspace.request.fields)
    let type = typeLine(bytes, edits.fields, body, &workspace.request.fields)
    let announced =
      workspace.request.fields.first(.trailer) == nil || body.length != nil
      ? []
      : workspace.request.fields.announceTrailers(
        bytes, without: edits.fields.removed + (edits.cookies ? [] : [Self.cookieName]), request.namedFields)
    workspace.pool.lend(
      &outputs.toUpstream,
      workspace.request.fields.lines.last.map { $0.line.upperBound + 256 } ?? 1024 + edits.fields.addedBytes)
    outputs.toUpstream.append(bytes.extracting(workspace.request.method))
    upstream.written.method = 0..<outputs.toUpstream.count
    outputs.toUpstream.append(0x20)
    let target = outputs.toUpstream.count
    writeTarget(bytes, edits.serialization, workspace, to: &outputs.toUpstream)
    upstream.written.target = target..<outputs.toUpstream.count
    outputs.toUpstream.append(" HTTP/1.1\r\nHost: ")
    let authority = outputs.toUpstream.count
    if let target = self.target {
      outputs.toUpstream.append(target.authority)
    } else if let interior = tunnel.interior, workspace.request.authority.isEmpty {
      outputs.toUpstream.append(interior.authority)
    } else if upstream.way.contains(.isUpgraded), workspace.request.port == Scheme.http.defaultPort {
      // The port follows the scheme: an https origin expects 443 when none is written.
      outputs.toUpstream.append(bytes.extracting(workspace.request.host))
    } else {
      outputs.toUpstream.append(bytes.extracting(workspace.request.authority))
    }
    upstream.written.authority = authority..<outputs.toUpstream.count
    outputs.toUpstream.append("\r\n")
    writeMaxForwards(bytes, &workspace.request, to: &outputs.toUpstream)
    workspace.request.fields.write(bytes, to: &outputs.toUpstream)
    outputs.toUpstream.append(announced)
    // Lines that the response would bring back to the client are not sent.
    let adds = !EchoMethod.includes(bytes.extracting(workspace.request.method))
    for line in edits.fields.set where adds { outputs.toUpstream.append(line.line) }
    for line in edits.fields.defaults where adds && !workspace.request.fields.contains(line.name, in: bytes) {
      if type == nil || line.name != Self.contentTypeName { outputs.toUpstream.append(line.line) }
    }
    if let type {
      outputs.toUpstream.append("Content-Type: ")
      outputs.toUpstream.append(type)
      outputs.toUpstream.append("\r\n")
    }
    if let length = body.length {
      outputs.toUpstream.append("Content-Length: ")
      outputs.toUpstream.append(decimal: UInt64(length))
      outputs.toUpstream.append("\r\n")
    }
    if body.length == nil, workspace.request.framing == .chunked {
      outputs.toUpstream.append("Transfer-Encoding: chunked\r\n")
    }
    writeConnectionFields(bytes, workspace, to: &outputs.toUpstream)
    outputs.toUpstream.append("Via: ")
    outputs.toUpstream.append(record.wire.version(minor: workspace.request.minorVersion))
    outputs.toUpstream.append(0x20)
    outputs.toUpstream.append(workspace.via)
    outputs.toUpstream.append("\r\n\r\n")
    if let challenged = bodies.challenged {
      workspace.pool.lend(&challenged.head, outputs.toUpstream.count)
      challenged.head.append(contentsOf: outputs.toUpstream)
    }
  }

  /// If the response may be stored: people are shown the URL as it was asked for.
  private mutating func noteQuery(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) {
    guard cacheRule != nil else { return }
    let query = workspace.request.path.upperBound..<workspace.request.pathAndQuery.upperBound
    if !query.isEmpty { request.query = bytes.extracting(query).array }
  }

  private static let trailerName = Array("trailer".utf8)
  private static let ifRangeName = Array("if-range".utf8)
  private static let cookieName = Array("cookie".utf8)
  private static let contentTypeName = Array("content-type".utf8)

  /// The Content-Type for a changed body; nil if the client's, or the rule's own, stays. Drops fields that the new body
  /// makes untrue.
  private func typeLine(
    _ bytes: Span<UInt8>, _ edits: FieldEdits, _ body: RequestBodyEdits, _ fields: inout FieldSection
  ) -> [UInt8]? {
    // Other expectations are the origin's to meet or to refuse.
    if body.hasContinued, let value = fields.first(.expect), bytes.equals(value, ignoringCase: "100-continue") {
      fields.drop(.expect)
    }
    if body.length != nil {
      fields.drop(.contentLength)
      fields.drop(Self.trailerName, in: bytes)
      for name in Self.digestFields where !body.isAsItCame { fields.drop(name, in: bytes) }
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
    _ bytes: Span<UInt8>, _ serialization: RequestSerialization?, _ workspace: borrowing Workspace,
    to out: inout ByteBuffer
  ) {
    let query = query(serialization, method: bytes.extracting(workspace.request.method))
    if let mapped = mappedTarget(bytes, workspace.request) {
      return query.isEmpty ? out.append(mapped) : QueryEncoding.append(query: query, to: mapped.span, into: &out)
    }
    let target = bytes.extracting(workspace.request.pathAndQuery)
    if target.isEmpty, query.isEmpty {
      // RFC 9112, 3.2.4: OPTIONS without a path addresses the server as a whole.
      return out.append(workspace.request.knownMethod == .options ? "*" : "/")
    }
    if target.isEmpty || target[0] == 0x3f { out.append(0x2f) }
    if query.isEmpty { return out.append(target) }
    QueryEncoding.append(query: query, to: target, into: &out)
  }

  /// The rule's parameters, if they belong in the query of such a request.
  func query(_ serialization: RequestSerialization?, method: Span<UInt8>) -> [UInt8] {
    guard let serialization, !EchoMethod.includes(method), serialization.isInURI(method) else { return [] }
    return serialization.query
  }

  private func dropEdited(_ bytes: Span<UInt8>, _ edits: RequestPolicy, _ fields: inout FieldSection) {
    fields.drop(.host)
    if client.terms.contains(.isHTTP10) { fields.drop(.expect) }
    fields.dropRepeatedLength()
    if !edits.cookies { fields.drop(.cookie) }
    for name in edits.fields.removed { fields.drop(name, in: bytes) }
    // The client may have a part of a changed body, of which the origin's validators say nothing: it gets the whole.
    let changesBodies = record.decision.flatMap { policy.response(of: $0) }?.removesNulls ?? false
    if changesBodies, fields.contains(Self.ifRangeName, in: bytes) {
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

  private func writeConnectionFields(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace, to out: inout ByteBuffer) {
    let trailers = workspace.request.options.te && workspace.request.fields.acceptsTrailers(bytes)
    if trailers { out.append("TE: trailers\r\n") }
    if request.traits.contains(.wantsUpgrade), let name = workspace.request.fields.relayedProtocol(bytes) {
      out.append(trailers ? "Connection: TE, Upgrade\r\nUpgrade: " : "Connection: Upgrade\r\nUpgrade: ")
      out.append(bytes.extracting(name))
      out.append("\r\n")
    } else if trailers {
      out.append("Connection: TE\r\n")
    }
  }

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
