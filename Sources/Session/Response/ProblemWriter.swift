// Writes the proxy's own responses: problem details (RFC 9457) as JSON or text, and Proxy-Status (RFC 9209).
// Tests: ProblemTests.

import Bytes
import HTTP1
import Policy

/// Writes one problem as a response.
struct ProblemWriter {
  enum Form {
    case json, text
    /// gRPC's trailers-only form: the outcome is in the head, and there is no content.
    case grpc
  }

  /// Longest reason phrase in bytes: clients that show one show this much without cutting it.
  static let longestReason = 60
  /// Seconds after which a client may try again after 503 (RFC 9110, 10.2.3). A machine takes about that long to join
  /// another network, or a busy host to release connections; a program that respects it costs almost nothing.
  static let retryAfterSeconds: UInt64 = 10

  let problem: Problem
  let rule: String?
  let reference: Reference
  /// Pseudonym of the proxy (RFC 9209, 2).
  let proxyName: [UInt8]
  let form: Form
  let isHead: Bool
  let closes: Bool
  /// The cache's part in it; empty: none. See `Exchange.noteCache`.
  var cacheStatus = ""
  /// Replaces the proxy's own body.
  var substitute: SubstituteAnswer? = nil

  /// Appends the whole response.
  func write(to out: inout ByteBuffer, date: Span<UInt8>) {
    var body = ByteBuffer()
    if substitute == nil {
      switch form {
      case .json: writeJSON(&body)
      case .text: writeText(&body)
      case .grpc: break
      }
    }
    out.append("HTTP/1.1 ")
    out.append(decimal: form == .grpc ? 200 : UInt64(problem.status))
    out.append(0x20)
    writeReason(&out)
    out.append("\r\nDate: ")
    out.append(date)
    out.append("\r\nContent-Type: ")
    if let substitute {
      out.append(substitute.type)
    } else {
      switch form {
      case .json: out.append("application/problem+json")
      case .text: out.append("text/plain; charset=utf-8")
      case .grpc: writeGRPC(&out)
      }
    }
    out.append("\r\nContent-Length: ")
    out.append(decimal: UInt64(substitute?.content.count ?? body.count))
    out.append("\r\nCache-Control: no-store\r\nProxy-Status: ")
    writeProxyStatus(&out)
    if !cacheStatus.isEmpty {
      out.append("\r\nCache-Status: ")
      out.append(proxyName)
      out.append("; ")
      out.append(cacheStatus)
    }
    if problem.kind == .authenticationRequired {
      out.append("\r\nProxy-Authenticate: Basic realm=\"")
      out.append(proxyName)
      out.append("\", charset=\"UTF-8\"")
    }
    if problem.kind == .methodNotAllowed {
      out.append("\r\nAllow: ")
      for (index, method) in problem.allowed.enumerated() {
        if index > 0 { out.append(", ") }
        out.append(Array(method.utf8))
      }
    }
    if problem.status == 503 {
      out.append("\r\nRetry-After: ")
      out.append(decimal: Self.retryAfterSeconds)
    }
    out.append(closes ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n")
    if isHead { return }
    if let substitute { out.append(substitute.content) } else { out.append(body.bytes) }
  }

  private func writeGRPC(_ out: inout ByteBuffer) {
    out.append("application/grpc\r\ngrpc-status: ")
    out.append(decimal: problem.grpcStatus)
    out.append("\r\ngrpc-message: ")
    writeReason(&out)
    out.append(grpcMessage: ": " + problem.detail)
  }

  /// `denied rule=payments ref=7F3K2A`
  private func writeReason(_ out: inout ByteBuffer) {
    let begin = out.count
    out.append(problem.kind.token)
    let room = Self.longestReason - (out.count - begin) - Reference.digits - " ref= rule=".utf8.count
    if let rule, room > 0 {
      out.append(" rule=")
      for byte in rule.utf8.prefix(room) { out.append(byte.isTokenCharacter || byte == 0x3a ? byte : 0x5f) }
    }
    out.append(" ref=")
    reference.write(to: &out)
  }

  private func writeProxyStatus(_ out: inout ByteBuffer) {
    out.append(
      proxyStatusOf: proxyName, error: problem.kind.errorType, receivedStatus: problem.receivedStatus,
      details: problem.detail, rule: rule)
  }

  private func writeJSON(_ out: inout ByteBuffer) {
    out.append("{\"type\":\"urn:sallyport:problem:")
    out.append(problem.kind.token)
    out.append("\",\"title\":\"")
    out.append(problem.kind.title)
    out.append("\",\"status\":")
    out.append(decimal: UInt64(problem.status))
    out.append(",\"detail\":")
    out.append(json: problem.detail)
    if let rule {
      out.append(",\"rule\":")
      out.append(json: rule)
    }
    out.append(",\"error\":\"")
    out.append(problem.kind.errorType)
    out.append("\",\"nsurlError\":")
    out.append(integer: problem.kind.row.nsurlError)
    if let advice = problem.advice { advice.writeMembers(to: &out) }
    if problem.violations.isEmpty, let difference = problem.difference {
      out.append(",\"expected\":")
      out.append(json: difference.expected)
      out.append(",\"seen\":")
      out.append(json: difference.seen)
    }
    if !problem.violations.isEmpty { writeViolations(&out) }
    if let upstream = problem.upstream { write(upstream, &out) }
    out.append(",\"ref\":\"")
    reference.write(to: &out)
    out.append("\"}\n")
  }

  private func writeViolations(_ out: inout ByteBuffer) {
    out.append(",\"violations\":[")
    for index in problem.violations.indices {
      let violation = problem.violations[index]
      out.append(index == 0 ? "{\"subject\":\"" : ",{\"subject\":\"")
      out.append(violation.subject.rawValue)
      out.append("\",\"expected\":")
      out.append(json: violation.expected)
      out.append(",\"seen\":")
      out.append(json: violation.seen)
      out.append(",\"nsurlError\":")
      out.append(integer: Problem.Kind(violation.subject).row.nsurlError)
      out.append("}")
    }
    out.append("]")
  }

  private func write(_ upstream: Problem.Upstream, _ out: inout ByteBuffer) {
    out.append(",\"upstream\":{\"status\":")
    out.append(decimal: UInt64(upstream.status))
    out.append(",\"type\":")
    if let type = upstream.type { out.append(json: type) } else { out.append("null") }
    out.append(",\"text\":")
    if let text = upstream.text { out.append(json: text) } else { out.append("null") }
    out.append("}")
  }

  private func writeText(_ out: inout ByteBuffer) {
    out.append(problem.kind.title)
    out.append(".\n")
    out.append(problem.detail)
    if let rule {
      out.append("\nrule: ")
      out.append(rule)
    }
    if let advice = problem.advice { advice.writeLines(to: &out) }
    if let upstream = problem.upstream {
      out.append("\nupstream: ")
      out.append(decimal: UInt64(upstream.status))
      if let type = upstream.type {
        out.append(" ")
        out.append(type)
      }
    }
    out.append("\nref: ")
    reference.write(to: &out)
    out.append(0x0a)
    if let text = problem.upstream?.text {
      out.append(0x0a)
      out.append(text)
      out.append(0x0a)
    }
  }
}

extension ByteBuffer {
  /// Appends one element of Proxy-Status (RFC 9209, 2).
  mutating func append(
    proxyStatusOf name: [UInt8], error: StaticString?, receivedStatus: Int? = nil, details: String, rule: String?
  ) {
    // A name that is not a Token of RFC 8941 is written as a String.
    if let first = name.first, first.isASCIILetter || first == 0x2a {
      append(name)
    } else {
      append(structured: String(decoding: name, as: UTF8.self))
    }
    if let error {
      append("; error=")
      append(error)
    }
    if let receivedStatus {
      append("; received-status=")
      append(decimal: UInt64(max(0, receivedStatus)))
    }
    append("; details=")
    append(structured: details)
    if let rule {
      append("; rule=")
      append(structured: rule)
    }
  }

  /// A String of RFC 8941, 3.3.3: printable ASCII, with `"` and `\` escaped.
  private mutating func append(structured text: String) {
    append(0x22)
    for byte in text.utf8 {
      if byte == 0x22 || byte == 0x5c { append(0x5c) }
      append(byte >= 0x20 && byte < 0x7f ? byte : 0x3f)
    }
    append(0x22)
  }
}

extension ByteBuffer {
  /// Appends a JSON string (RFC 8259, 7), quotes included.
  public mutating func append(json text: String) {
    append(0x22)
    let bytes = text.utf8.span
    // Bytes that need no escape, nearly always all of them, are appended at once.
    var clean = 0
    while true {
      let index = bytes.firstJSONEscape(from: clean)
      append(bytes.extracting(clean..<index))
      if index == bytes.count { break }
      if bytes[index] >= 0x80 {
        append(jsonScalars: text.unicodeScalars[text.utf8.index(text.startIndex, offsetBy: index)...])
        break
      }
      appendJSONByte(bytes[index])
      clean = index + 1
    }
    append(0x22)
  }

  /// What a terminal would obey is escaped, too: lines of the log are read there.
  private mutating func append(jsonScalars scalars: Substring.UnicodeScalarView) {
    for scalar in scalars {
      if scalar.value < 0x80 {
        appendJSONByte(UInt8(scalar.value))
      } else if scalar.isUnprintable {
        append(scalar.escaped)
      } else {
        for byte in scalar.utf8 { append(byte) }
      }
    }
  }

  /// Appends a JSON string of ASCII bytes; others are written as U+FFFD.
  public mutating func append(json bytes: Span<UInt8>) {
    append(0x22)
    var clean = 0
    while true {
      let index = bytes.firstJSONEscape(from: clean)
      append(bytes.extracting(clean..<index))
      if index == bytes.count { break }
      if bytes[index] < 0x80 { appendJSONByte(bytes[index]) } else { append("\u{fffd}") }
      clean = index + 1
    }
    append(0x22)
  }

  private mutating func appendJSONByte(_ byte: UInt8) {
    switch byte {
    case 0x22: append("\\\"")
    case 0x5c: append("\\\\")
    case 0x0a: append("\\n")
    case 0..<0x20, 0x7f:
      append("\\u00")
      append(byte >> 4 &+ 0x30)
      let low = byte & 0xf
      append(low < 10 ? low &+ 0x30 : low &+ 0x57)
    default: append(byte)
    }
  }
}
