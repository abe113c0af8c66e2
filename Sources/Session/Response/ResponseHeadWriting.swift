// Writes the head of a response for the client.

import Bytes
import HTTP1
import Policy
import Serialization

/// How the head of a response changes when it is forwarded.
struct ResponseHeadEdits {
  enum Framing: Equatable {
    /// As the header fields and the transfer coding say.
    case asItCame
    /// The content has been held, and has this length.
    case length(Int)
    /// Likewise, followed by trailers.
    case chunked
    /// No length is sent: the length of a response to GET is unknown.
    case unsaid
  }

  var connection: StaticString = ""
  var framing = Framing.asItCame
  /// The content is not what the origin sent.
  var isRewritten = false
  /// The content codings have been removed.
  var isDecoded = false
  /// What Proxy-Status reports about it.
  var violations: [ResponseViolation] = []
  /// Why the response was not checked.
  var unjudged: Unjudged? = nil
}

struct ResponseHeadWriter {
  /// The protocol that the response came by.
  let wire: HTTPProtocol
  let traits: ResponseTraits
  /// The content follows in chunks, if it is sent as it came.
  let isChunked: Bool
  /// Fields that must not reach the client: what the origin computed from a secret of the rule.
  let proofs: [[UInt8]]
  /// The protocol that the connection changes to with this head.
  let upgrade: Range<Int>?
  /// Why the rule's credentials did not help.
  let remark: String?
  /// What had to be mended in the head.
  let mended: HeadMendings
  let ruling: Ruling
  /// Value of Cache-Status without the name of the cache; empty: no cache took part.
  let cacheStatus: String

  /// Writes the head in `workspace.response`. `translation`: how fields of a final response change because the request
  /// was sent to another URL than it asked for. `ending`: field names in its Connection.
  func write(
    _ bytes: Span<UInt8>, _ edits: ResponseHeadEdits, translation: FieldTranslation?, target: RuleTarget?,
    ending namedFields: [UInt8], workspace: inout Workspace, to out: inout ByteBuffer
  ) {
    let last = workspace.response.fields.lines.last.map { $0.line.upperBound } ?? 64
    workspace.pool.lend(&out, last + 256)
    workspace.response.fields.dropRepeatedLength()
    let isInformational = workspace.response.isInformational
    // RFC 9110, 8.6: none in a 1xx or 204, whatever the server sends.
    if isInformational || workspace.response.status == 204 { workspace.response.fields.drop(.contentLength) }
    if traits.contains(.hasNoCookies) { workspace.response.fields.drop(.setCookie) }
    for name in proofs { workspace.response.fields.drop(name, in: bytes) }
    if edits.framing != .asItCame { workspace.response.fields.drop(.contentLength) }
    if edits.isDecoded { workspace.response.fields.drop(.contentEncoding) }
    // RFC 9110, 15.5.22: the Upgrade field of 426 names the protocol to use instead.
    let keepsUpgrade = workspace.response.status == 426 && workspace.response.fields.keep(.upgrade)
    let told = translation?.translate(bytes, of: target, in: &workspace) ?? []
    let tag = edits.isRewritten ? Self.dropDigests(bytes, &workspace.response.fields) : nil
    // Without its chunked coding the content has no trailers.
    if traits.contains(.isUnchunked) { workspace.response.fields.drop(.trailer) }
    let announced =
      workspace.response.fields.first(.trailer) == nil
      ? [] : workspace.response.fields.announceTrailers(bytes, without: removedTrailers, namedFields)
    out.append("HTTP/1.1 ")
    out.append(decimal: UInt64(workspace.response.status), width: 3)
    out.append(0x20)
    out.append(bytes.extracting(workspace.response.reason))
    out.append("\r\n")
    workspace.response.fields.write(bytes, to: &out)
    out.append(told)
    out.append(announced)
    // RFC 9110, 6.6.1: a proxy that forwards a response without a date adds the time of arrival.
    if !isInformational, workspace.response.fields.first(.date) == nil {
      out.append("Date: ")
      out.append(workspace.date.bytes)
      out.append("\r\n")
    }
    if let tag {
      out.append("ETag: W/")
      out.append(bytes.extracting(tag))
      out.append("\r\n")
    }
    writeFraming(edits.framing, isInformational: isInformational, to: &out)
    if !isInformational {
      writeProxyStatus(edits, workspace.name, to: &out)
      writeCacheStatus(workspace.name, to: &out)
    }
    if keepsUpgrade { out.append("Connection: Upgrade\r\n") }
    out.append(edits.connection)
    if let upgrade {
      out.append("Upgrade: ")
      out.append(bytes.extracting(upgrade))
      out.append("\r\n")
    }
    out.append("Via: ")
    out.append(wire.version(minor: workspace.response.minorVersion))
    out.append(0x20)
    out.append(workspace.name)
    out.append("\r\n\r\n")
  }

  /// Names of fields that are removed from trailers.
  private var removedTrailers: [[UInt8]] {
    (traits.contains(.hasNoCookies) ? [Array("set-cookie".utf8)] : []) + proofs
  }

  private func writeFraming(_ framing: ResponseHeadEdits.Framing, isInformational: Bool, to out: inout ByteBuffer) {
    switch framing {
    case .asItCame:
      guard isChunked, !traits.contains(.isUnchunked), !isInformational else { return }
      out.append("Transfer-Encoding: chunked\r\n")
    case .unsaid: return
    case .chunked: out.append("Transfer-Encoding: chunked\r\n")
    case .length(let count):
      out.append("Content-Length: ")
      out.append(decimal: UInt64(count))
      out.append("\r\n")
    }
  }

  /// Reports to the client why the response was not checked, what it violates, and what was mended.
  private func writeProxyStatus(_ edits: ResponseHeadEdits, _ proxyName: [UInt8], to out: inout ByteBuffer) {
    if edits.violations.isEmpty, edits.unjudged == nil, mended.isEmpty, remark == nil { return }
    var details = edits.violations.map(\.sentence)
    if let remark { details.append("the rule's digest credentials \(remark)") }
    if let unjudged = edits.unjudged { details.append("not judged: \(unjudged.rawValue)") }
    if !mended.isEmpty { details.append("mended: \(mended.text)") }
    out.append("Proxy-Status: ")
    out.append(
      proxyStatusOf: proxyName, error: edits.violations.first.map { Problem.Kind($0.subject).errorType },
      details: details.joined(separator: "; "), rule: ruling.rule?.name)
    out.append("\r\n")
  }

  private func writeCacheStatus(_ proxyName: [UInt8], to out: inout ByteBuffer) {
    if cacheStatus.isEmpty { return }
    out.append("Cache-Status: ")
    out.append(proxyName)
    out.append("; ")
    out.append(cacheStatus)
    out.append("\r\n")
  }

  /// Drops fields that describe the original content after a rewrite. Returns the value of a strong entity tag, which
  /// continues as a weak one (RFC 9110, 8.8.3).
  private static func dropDigests(_ bytes: Span<UInt8>, _ fields: inout FieldSection) -> Range<Int>? {
    fields.dropDigests(bytes)
    for index in fields.lines.indices
    where !fields.lines[index].isDropped && bytes.equals(fields.lines[index].name, ignoringCase: "etag") {
      let value = fields.lines[index].value
      guard let first = value.first, bytes[first] == 0x22 else { continue }
      fields.lines[index].isDropped = true
      return value
    }
    return nil
  }
}
