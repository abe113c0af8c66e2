// CONNECT to an http or https parent (RFC 9110, 9.3.6), and its answer. Tests: ConnectDialogueTests.

import Bytes
import HTTP1
import Policy

/// One CONNECT and what is answered to it.
struct ConnectDialogue: Sendable {
  /// Most bytes of the parent's reason phrase that are told on: a sentence, not a page.
  static let longestReason = 80
  /// Most authentication schemes of the parent that are named: more than are registered in practice.
  static let mostSchemes = 8

  /// 1xx responses to one CONNECT: nothing is worked on that could show progress.
  static let mostInformational = 16

  private let place: ParentPlace
  private let limits: HeadLimits
  private let hasCredentials: Bool
  /// What is still to be sent.
  private var request: [UInt8]
  private var informationalCount = 0

  init(_ parent: Route.Parent, host: CanonicalHost, port: UInt16, via: [UInt8], limits: HeadLimits) {
    place = ParentPlace(parent, host: host, port: port)
    self.limits = limits
    hasCredentials = parent.credentials != nil
    let authority = place.destination
    request = Array("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n".utf8)
    if let credentials = parent.credentials { request += ParentRequest.authorizationLine(credentials) }
    request += Array("Via: ".utf8) + via + Array("\r\n\r\n".utf8)
  }

  mutating func received(_ input: Span<UInt8>, _ output: inout ByteBuffer) -> ParentHandshake.Progress {
    output.append(request)
    request = []
    var consumed = 0
    var head = ResponseHead()
    while consumed < input.count {
      let rest = input.extracting(consumed..<input.count)
      switch head.read(rest, limits: limits, toHead: false, toConnect: true) {
      case .incomplete: return .wants(consumed: consumed)
      case .invalid(let fault): return .refused(malformed(fault, begins: rest[0]))
      case .complete(let count):
        consumed += count
        if !head.isInformational { return answered(head, rest, consumed: consumed) }
        informationalCount += 1
        // What would follow is no HTTP.
        if head.status == 101 { return .refused(malformed(.unexpectedSwitch)) }
        if informationalCount > Self.mostInformational { return .refused(malformed(.unexpectedInformational)) }
      }
    }
    return .wants(consumed: consumed)
  }

  /// The parent's answer is there.
  private func answered(
    _ head: borrowing ResponseHead, _ bytes: Span<UInt8>, consumed: Int
  ) -> ParentHandshake.Progress {
    let status = head.status
    if (200..<300).contains(status) { return .open(consumed: consumed) }
    if status == 407 { return .refused(asked(head.fields, bytes)) }
    let reason = Self.told(bytes.extracting(head.reason))
    return .refused(
      ParentRefusal(
        .parentRefused,
        "2xx was expected in answer to CONNECT \(place.destination), and \(place.parent) answered \(status)"
          + (reason.isEmpty ? "." : " (\(reason))."),
        // A status above 599 counts as 5xx (RFC 9110, 15).
        allowsNext: status >= 500, status: status))
  }

  private func asked(_ fields: FieldSection, _ bytes: Span<UInt8>) -> ParentRefusal {
    let schemes = Self.schemes(fields, bytes)
    let offer = schemes.isEmpty ? "." : "; it asks for \(schemes.joined(separator: " or "))."
    return ParentRefusal(
      .parentAuthentication,
      (hasCredentials
        ? "The Basic credentials of its route are not what \(place.parent) takes"
        : "Credentials are expected by \(place.parent), and its route has none") + " (407)" + offer, status: 407)
  }

  /// The first word of each Proxy-Authenticate line: the scheme of its first challenge (RFC 9110, 11.7.1).
  private static func schemes(_ fields: FieldSection, _ bytes: Span<UInt8>) -> [String] {
    var schemes: [String] = []
    for line in fields.lines where line.known == .proxyAuthenticate {
      let word = line.value.prefix { bytes[$0].isTokenCharacter }
      let scheme = told(bytes.extracting(word))
      if !scheme.isEmpty, !schemes.contains(scheme), schemes.count < mostSchemes { schemes.append(scheme) }
    }
    return schemes
  }

  private func malformed(_ fault: MessageFault, begins byte: UInt8 = 0x48) -> ParentRefusal {
    let seen = byte == 0x48 ? "" : "; it sent \(ParentPlace.speaker(of: byte))"
    return ParentRefusal(
      .parentFailed, "The answer of \(place.parent) to CONNECT \(place.destination) \(fault.sentence)\(seen).")
  }

  /// The connection ended, before the answer or `within` it.
  func ended(within isWithin: Bool) -> ParentRefusal {
    let when = isWithin ? "within" : "before"
    return ParentRefusal(
      .parentFailed,
      "The connection was closed by \(place.parent) \(when) its answer to CONNECT \(place.destination).",
      allowsNext: !isWithin)
  }

  /// Text of the parent's, in printable ASCII, and not too much of it.
  private static func told(_ bytes: Span<UInt8>) -> String {
    let range = bytes.trimmingBlanks(0..<bytes.count)
    let text = range.prefix(longestReason).map { index in
      bytes[index] >= 0x20 && bytes[index] < 0x7f ? bytes[index] : 0x3f
    }
    return String(decoding: text, as: UTF8.self) + (range.count > longestReason ? "..." : "")
  }
}
