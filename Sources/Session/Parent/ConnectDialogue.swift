// CONNECT to an http or https parent (RFC 9110, 9.3.6), and its response. Tests: ConnectDialogueTests.

import Bytes
import HTTP1
import Policy

/// One CONNECT and its response.
struct ConnectDialogue: Sendable {
  /// Most bytes of the parent's reason phrase that are reported: a sentence, not a page.
  static let longestReason = 80
  /// Most authentication schemes of the parent that are named: more than exist in practice.
  static let mostSchemes = 8

  /// Most 1xx responses to one CONNECT: there is no work that could show progress.
  static let mostInformational = 16

  private let place: ParentPlace
  private let limits: HeadLimits
  private let scheme: AuthorizationScheme?
  private let via: [UInt8]
  /// What is still to be sent.
  private var request: [UInt8] = []
  private var informationalCount = 0
  /// A challenge whose content is still being read, and how many bytes of it are left.
  private var challenge: (lines: [[UInt8]], remaining: UInt64)? = nil

  /// `authorization`: a Negotiate ticket, or the response to an earlier Digest challenge; nil: none is known.
  init(
    _ parent: Route.Parent, host: CanonicalHost, port: UInt16, via: [UInt8], limits: HeadLimits, authorization: [UInt8]?
  ) {
    place = ParentPlace(parent, host: host, port: port)
    self.limits = limits
    self.via = via
    scheme = parent.credentials?.scheme
    ask(with: scheme == .basic ? parent.password?.basic : authorization)
  }

  /// Asks, for the first time or again after a challenge.
  mutating func ask(with authorization: [UInt8]?) {
    let authority = place.destination
    request = Array("CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n".utf8)
    if let authorization { request += ParentRequest.authorizationLine(authorization) }
    request += Array("Via: ".utf8) + via + Array("\r\n\r\n".utf8)
  }

  mutating func received(_ input: Span<UInt8>, _ output: inout ByteBuffer) -> ParentHandshake.Progress {
    output.append(request)
    request = []
    if let challenge { return drop(challenge.lines, challenge.remaining, count: input.count, from: 0) }
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
        // What follows would not be HTTP.
        if head.status == 101 { return .refused(malformed(.unexpectedSwitch)) }
        if informationalCount > Self.mostInformational { return .refused(malformed(.unexpectedInformational)) }
      }
    }
    return .wants(consumed: consumed)
  }

  /// The parent's response has arrived.
  private mutating func answered(
    _ head: borrowing ResponseHead, _ bytes: Span<UInt8>, consumed: Int
  ) -> ParentHandshake.Progress {
    let status = head.status
    if (200..<300).contains(status) { return .open(consumed: consumed) }
    if status == 407, scheme == .digest {
      let lines = head.fields.lines.filter { $0.known == .proxyAuthenticate }.map { bytes.extracting($0.value).array }
      if head.isPersistent, case .length(let length) = head.framing, length <= ChallengedRequest.mostDropped {
        return drop(lines, length, count: bytes.count, from: consumed)
      }
      return .challenged(consumed: consumed, lines: lines, isKept: false)
    }
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

  /// Skips the content of a challenge. `count` bytes of input are there.
  private mutating func drop(
    _ lines: [[UInt8]], _ remaining: UInt64, count: Int, from consumed: Int
  ) -> ParentHandshake.Progress {
    let dropped = Int(min(remaining, UInt64(count - consumed)))
    if remaining > UInt64(dropped) {
      challenge = (lines, remaining - UInt64(dropped))
      return .wants(consumed: consumed + dropped)
    }
    challenge = nil
    return .challenged(consumed: consumed + dropped, lines: lines, isKept: true)
  }

  var challengeLines: [[UInt8]]? { challenge?.lines }

  /// `fault`: why the credentials of the route failed, "were refused".
  func refused(credentials fault: String) -> ParentRefusal {
    ParentRefusal(
      .parentAuthentication, "The digest credentials of its route \(fault), by \(place.parent) (407).", status: 407)
  }

  private func asked(_ fields: FieldSection, _ bytes: Span<UInt8>) -> ParentRefusal {
    let schemes = Self.schemes(fields, bytes)
    let offer = schemes.isEmpty ? "." : "; it asks for \(schemes.joined(separator: " or "))."
    return ParentRefusal(
      .parentAuthentication,
      refusal + " (407)" + offer, status: 407)
  }

  private var refusal: String {
    switch scheme {
    case nil: "Credentials are expected by \(place.parent), and its route has none"
    case .negotiate: "The Kerberos ticket of its route is not what \(place.parent) takes"
    case .basic, .digest: "The Basic credentials of its route are not what \(place.parent) takes"
    }
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

  /// The connection ended, or the stream that carries it, before the response or `within` it.
  func ended(within isWithin: Bool, isStream: Bool) -> ParentRefusal {
    let what = isStream ? "The stream was reset" : "The connection was closed"
    let when = isWithin ? "within" : "before"
    return ParentRefusal(
      .parentFailed, "\(what) by \(place.parent) \(when) its answer to CONNECT \(place.destination).",
      allowsNext: !isWithin)
  }

  /// Text from the parent, in printable ASCII, and limited in length.
  private static func told(_ bytes: Span<UInt8>) -> String {
    let range = bytes.trimmingBlanks(0..<bytes.count)
    let text = range.prefix(longestReason).map { index in
      bytes[index] >= 0x20 && bytes[index] < 0x7f ? bytes[index] : 0x3f
    }
    return String(decoding: text, as: UTF8.self) + (range.count > longestReason ? "..." : "")
  }
}
