// What a client is told when the proxy itself answers: RFC 9457 problem details, RFC 9209 Proxy-Status, and a reason
// phrase that stands out, for it is all that most clients show of a refused CONNECT.

import Bytes
import HTTP1

/// An answer of the proxy's own making: which one, and what is said with it.
public struct Problem: Sendable, Equatable {
  /// What went wrong.
  public enum Kind: Sendable, CaseIterable {
    case malformedRequest, headTooLarge, slowRequest
    case denied, authenticationRequired, addressDenied, schemeNotSupported, loop
    case nameNotFound, nameFailed, nameTimeout
    case connectionRefused, connectionTimeout, connectionFailed, notReachable, connectionClosed
    case malformedResponse, responseHeadTooLarge, responseTimeout, exchangeTimeout, stalled
    case hostBusy, misdirected, interceptionFailed
    case tlsFailed, tlsAlert, tlsTimeout
    case certificateUntrusted, certificateExpired, certificateNotYetValid, certificateNameMismatch
    case certificateRevoked, revocationUnknown, pinMismatch, pinsExpired

    public var status: Int {
      switch self {
      case .malformedRequest: 400
      case .denied, .addressDenied: 403
      case .authenticationRequired: 407
      case .slowRequest, .stalled: 408
      case .misdirected: 421
      case .headTooLarge: 431
      case .schemeNotSupported: 501
      case .loop, .nameNotFound, .nameFailed, .connectionRefused, .connectionFailed, .connectionClosed,
        .malformedResponse, .responseHeadTooLarge, .tlsFailed, .tlsAlert, .certificateUntrusted, .certificateExpired,
        .certificateNotYetValid, .certificateNameMismatch, .certificateRevoked, .revocationUnknown, .pinMismatch,
        .pinsExpired, .interceptionFailed:
        502
      case .notReachable, .hostBusy: 503
      case .nameTimeout, .connectionTimeout, .responseTimeout, .exchangeTimeout, .tlsTimeout: 504
      }
    }

    var title: StaticString {
      switch self {
      case .malformedRequest: "The request is malformed"
      case .headTooLarge: "The head of the request is too large"
      case .slowRequest: "The request did not come in time"
      case .denied: "The policy denies this request"
      case .authenticationRequired: "The proxy asks for credentials"
      case .addressDenied: "The policy denies the address of this host"
      case .schemeNotSupported: "The scheme of the target is not supported"
      case .loop: "The request came back to the proxy"
      case .nameNotFound: "The name of the host does not exist"
      case .nameFailed: "The name of the host could not be looked up"
      case .nameTimeout: "The look-up of the name of the host took too long"
      case .connectionRefused: "The host refused the connection"
      case .connectionTimeout: "The host did not take the connection in time"
      case .connectionFailed: "The connection to the host failed"
      case .notReachable: "The host cannot be reached"
      case .connectionClosed: "The host closed the connection without an answer"
      case .malformedResponse: "The response is malformed"
      case .responseHeadTooLarge: "The head of the response is too large"
      case .responseTimeout: "The host did not answer in time"
      case .exchangeTimeout: "The exchange took longer than its rule allows"
      case .stalled: "The body of the request did not come in time"
      case .hostBusy: "Too many connections to the host are open"
      case .interceptionFailed: "The proxy cannot play the part of the host"
      case .misdirected: "The request is for another host than its tunnel"
      case .tlsFailed: "The TLS handshake with the host failed"
      case .tlsAlert: "The host broke the TLS handshake off"
      case .tlsTimeout: "The TLS handshake with the host took too long"
      case .certificateUntrusted: "The certificate of the host is not trusted"
      case .certificateExpired: "The certificate of the host has expired"
      case .certificateNotYetValid: "The certificate of the host is not valid yet"
      case .certificateNameMismatch: "The certificate is not for this host"
      case .certificateRevoked: "The certificate of the host has been revoked"
      case .revocationUnknown: "Nothing shows that the certificate of the host has not been revoked"
      case .pinMismatch: "The certificate of the host carries no pinned key"
      case .pinsExpired: "The pins for this host have expired"
      }
    }

    /// The registered proxy error type (RFC 9209, 2.3).
    public var errorType: StaticString {
      switch self {
      case .malformedRequest, .headTooLarge, .slowRequest, .schemeNotSupported, .stalled: "http_request_error"
      case .misdirected: "http_request_error"
      case .interceptionFailed: "proxy_configuration_error"
      case .hostBusy: "connection_limit_reached"
      case .tlsFailed: "tls_protocol_error"
      case .tlsAlert: "tls_alert_received"
      case .tlsTimeout: "connection_timeout"
      case .certificateUntrusted, .certificateExpired, .certificateNotYetValid, .certificateNameMismatch,
        .certificateRevoked, .revocationUnknown, .pinMismatch, .pinsExpired:
        "tls_certificate_error"
      case .denied, .authenticationRequired: "http_request_denied"
      case .addressDenied: "destination_ip_prohibited"
      case .loop: "proxy_loop_detected"
      case .nameNotFound, .nameFailed: "dns_error"
      case .nameTimeout: "dns_timeout"
      case .connectionRefused: "connection_refused"
      case .connectionTimeout: "connection_timeout"
      case .connectionFailed: "destination_unavailable"
      case .notReachable: "destination_ip_unroutable"
      case .connectionClosed: "connection_terminated"
      case .malformedResponse: "http_protocol_error"
      case .responseHeadTooLarge: "http_response_header_section_size"
      case .responseTimeout, .exchangeTimeout: "http_response_timeout"
      }
    }

    /// The code that AFNetworking's users know the condition by (NSURLErrorDomain).
    var nsurlError: StaticString {
      switch self {
      case .malformedRequest, .headTooLarge, .misdirected: "-1000"
      case .slowRequest, .nameTimeout, .connectionTimeout, .responseTimeout, .exchangeTimeout, .stalled, .tlsTimeout,
        .hostBusy:
        "-1001"
      case .schemeNotSupported: "-1002"
      case .nameNotFound, .nameFailed: "-1003"
      case .connectionRefused, .connectionFailed: "-1004"
      case .connectionClosed: "-1005"
      case .loop: "-1007"
      case .notReachable: "-1009"
      case .malformedResponse, .responseHeadTooLarge: "-1011"
      case .authenticationRequired: "-1013"
      case .denied, .addressDenied: "-1102"
      case .tlsFailed, .tlsAlert, .interceptionFailed: "-1200"
      case .certificateExpired: "-1201"
      case .certificateUntrusted, .certificateNameMismatch, .certificateRevoked, .revocationUnknown, .pinMismatch,
        .pinsExpired:
        "-1202"
      case .certificateNotYetValid: "-1204"
      }
    }

    /// The stable word: in the reason phrase, the log, and at the end of the problem's type URN.
    public var token: StaticString {
      switch self {
      case .malformedRequest: "malformed-request"
      case .headTooLarge: "head-too-large"
      case .slowRequest: "slow-request"
      case .denied: "denied"
      case .authenticationRequired: "authentication-required"
      case .addressDenied: "address-denied"
      case .schemeNotSupported: "scheme-not-supported"
      case .loop: "loop"
      case .nameNotFound: "name-not-found"
      case .nameFailed: "name-failed"
      case .nameTimeout: "name-timeout"
      case .connectionRefused: "connection-refused"
      case .connectionTimeout: "connection-timeout"
      case .connectionFailed: "connection-failed"
      case .notReachable: "not-reachable"
      case .connectionClosed: "connection-closed"
      case .malformedResponse: "malformed-response"
      case .responseHeadTooLarge: "response-head-too-large"
      case .responseTimeout: "response-timeout"
      case .exchangeTimeout: "exchange-timeout"
      case .stalled: "stalled"
      case .hostBusy: "host-busy"
      case .interceptionFailed: "interception-failed"
      case .misdirected: "misdirected"
      case .tlsFailed: "tls-failed"
      case .tlsAlert: "tls-alert"
      case .tlsTimeout: "tls-timeout"
      case .certificateUntrusted: "certificate-untrusted"
      case .certificateExpired: "certificate-expired"
      case .certificateNotYetValid: "certificate-not-yet-valid"
      case .certificateNameMismatch: "certificate-name-mismatch"
      case .certificateRevoked: "certificate-revoked"
      case .revocationUnknown: "revocation-unknown"
      case .pinMismatch: "pin-mismatch"
      case .pinsExpired: "pins-expired"
      }
    }
  }

  public let kind: Kind
  /// A sentence: what was expected, what was seen. Holds no secret.
  public let detail: String

  public init(_ kind: Kind, _ detail: String) {
    self.kind = kind
    self.detail = detail
  }
}

/// How a problem is put on the wire.
struct ProblemWriter {
  /// Longest reason phrase in bytes: what the clients that show one show without cutting it.
  static let longestReason = 60

  let problem: Problem
  let rule: String?
  let reference: Reference
  /// Pseudonym of the proxy (RFC 9209, 2).
  let proxyName: [UInt8]
  let prefersText: Bool
  let isHead: Bool
  let closes: Bool

  /// Appends the whole response.
  func write(to out: inout ByteBuffer, date: Span<UInt8>) {
    var body = ByteBuffer()
    if prefersText { writeText(&body) } else { writeJSON(&body) }
    out.append("HTTP/1.1 ")
    out.append(decimal: UInt64(problem.kind.status))
    out.append(0x20)
    writeReason(&out)
    out.append("\r\nDate: ")
    out.append(date)
    out.append("\r\nContent-Type: ")
    out.append(prefersText ? "text/plain; charset=utf-8" : "application/problem+json")
    out.append("\r\nContent-Length: ")
    out.append(decimal: UInt64(body.count))
    out.append("\r\nCache-Control: no-store\r\nProxy-Status: ")
    writeProxyStatus(&out)
    if problem.kind == .authenticationRequired {
      out.append("\r\nProxy-Authenticate: Basic realm=\"")
      out.append(proxyName)
      out.append("\", charset=\"UTF-8\"")
    }
    if problem.kind.status == 503 { out.append("\r\nRetry-After: 10") }
    out.append(closes ? "\r\nConnection: close\r\n\r\n" : "\r\n\r\n")
    if !isHead { out.append(body.bytes) }
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
    // A name that is no Token of RFC 8941 is written as a String.
    if let first = proxyName.first, first.isASCIILetter || first == 0x2a {
      out.append(proxyName)
    } else {
      writeStructuredString(String(decoding: proxyName, as: UTF8.self), &out)
    }
    out.append("; error=")
    out.append(problem.kind.errorType)
    out.append("; details=")
    writeStructuredString(problem.detail, &out)
    if let rule {
      out.append("; rule=")
      writeStructuredString(rule, &out)
    }
  }

  /// A String of RFC 8941, 3.3.3: printable ASCII, with `"` and `\` escaped.
  private func writeStructuredString(_ text: String, _ out: inout ByteBuffer) {
    out.append(0x22)
    for byte in text.utf8 {
      if byte == 0x22 || byte == 0x5c { out.append(0x5c) }
      out.append(byte >= 0x20 && byte < 0x7f ? byte : 0x3f)
    }
    out.append(0x22)
  }

  private func writeJSON(_ out: inout ByteBuffer) {
    out.append("{\"type\":\"urn:sallyport:problem:")
    out.append(problem.kind.token)
    out.append("\",\"title\":\"")
    out.append(problem.kind.title)
    out.append("\",\"status\":")
    out.append(decimal: UInt64(problem.kind.status))
    out.append(",\"detail\":")
    out.append(json: problem.detail)
    if let rule {
      out.append(",\"rule\":")
      out.append(json: rule)
    }
    out.append(",\"error\":\"")
    out.append(problem.kind.errorType)
    out.append("\",\"nsurlError\":")
    out.append(problem.kind.nsurlError)
    out.append(",\"ref\":\"")
    reference.write(to: &out)
    out.append("\"}\n")
  }

  private func writeText(_ out: inout ByteBuffer) {
    out.append(problem.kind.title)
    out.append(".\n")
    out.append(problem.detail)
    if let rule {
      out.append("\nrule: ")
      out.append(rule)
    }
    out.append("\nref: ")
    reference.write(to: &out)
    out.append(0x0a)
  }
}

extension ByteBuffer {
  /// Appends a JSON string (RFC 8259, 7), quotes included.
  public mutating func append(json text: String) {
    append(0x22)
    for byte in text.utf8 { appendJSONByte(byte) }
    append(0x22)
  }

  /// Appends a JSON string of bytes that are ASCII; others are written as U+FFFD.
  public mutating func append(json bytes: Span<UInt8>) {
    append(0x22)
    var clean = 0
    for index in 0..<bytes.count {
      let byte = bytes[index]
      if byte >= 0x20 && byte < 0x7f && byte != 0x22 && byte != 0x5c { continue }
      append(bytes.extracting(clean..<index))
      if byte < 0x80 { appendJSONByte(byte) } else { append("\u{fffd}") }
      clean = index + 1
    }
    append(bytes.extracting(clean..<bytes.count))
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
