// The client of an exchange, and what was agreed with it about its connection.

import Bytes
import HTTP1
import Serialization

public struct ClientSide: Sendable {
  /// Where it connects from.
  var address: IPAddress? = nil
  var terms = ClientTerms()
  /// The format of the proxy's own responses to it.
  var answerForm = ProblemWriter.Form.json
  /// Codings that it accepts, if its response may be rewritten.
  var accepts = AcceptEncoding()
  /// How many bytes it may take for held bodies beyond the common limit. Others hold more than their share and are
  /// about to give it back.
  public var heldOverdraft = 0

  /// What the head of a request says about its connection, and about answers to it.
  mutating func agree(to head: borrowing RequestHead, _ bytes: Span<UInt8>) {
    if head.isPersistent, !terms.contains(.isLast) { terms.insert(.persists) }
    if head.options.keepAlive { terms.insert(.asksToKeep) }
    if head.minorVersion == 0 { terms.insert(.isHTTP10) }
    if head.fields.prefersText(bytes) { answerForm = .text }
  }

  /// The proxy is stopping: this is the last exchange of the connection.
  mutating func expectNoOther() {
    terms.insert(.isLast)
    terms.remove(.persists)
  }

  /// The Connection field of a response.
  var connectionLine: StaticString {
    if !terms.contains(.persists) { return "Connection: close\r\n" }
    return terms.contains(.asksToKeep) ? "Connection: keep-alive\r\n" : ""
  }
}

/// What was agreed with the client about its connection (RFC 9112, 9).
struct ClientTerms: OptionSet {
  let rawValue: UInt8

  static let persists = ClientTerms(rawValue: 1 << 0)
  static let isHTTP10 = ClientTerms(rawValue: 1 << 1)
  /// The client asks to keep the connection and must be sent a confirmation: to some clients, silence is no promise.
  static let asksToKeep = ClientTerms(rawValue: 1 << 2)
  /// The proxy is stopping: this exchange is the last of its connection.
  static let isLast = ClientTerms(rawValue: 1 << 3)
  /// The expectation of the request was refused: only the same request may follow.
  static let awaitsRepeat = ClientTerms(rawValue: 1 << 4)
}
