// The client's part of the handshake with a parent proxy, until its connection leads to the destination: CONNECT (RFC
// 9110, 9.3.6) with an http or https parent, RFC 1928 with a socks5 one.
//
// A value: bytes in, bytes out, no waiting. The caller handles TLS to an https parent, time-outs and the choice of the
// next route. Tests: ConnectDialogueTests, SOCKSDialogueTests; fuzzed by Tests/Fuzz/ParentHandshake.

import Bytes
import HTTP1
import Policy

/// The handshake on a fresh connection to a parent, until it is a connection to the destination.
public struct ParentHandshake: Sendable {
  /// The state of the handshake.
  public enum Progress: Equatable, Sendable {
    /// Send what was appended, drop `consumed` bytes of the input, and read on.
    case wants(consumed: Int)
    /// After `consumed` bytes of the input, the destination's first bytes follow.
    case open(consumed: Int)
    /// The parent asks for credentials in `lines` of Proxy-Authenticate, and its route has some for Digest. If the
    /// connection `isKept`, call `ask(with:)` and continue after `consumed` bytes; otherwise a new connection is
    /// needed.
    case challenged(consumed: Int, lines: [[UInt8]], isKept: Bool)
    /// The parent refused, or its response makes no sense. This is final.
    case refused(ParentRefusal)
  }

  private enum Dialogue: Sendable {
    case connect(ConnectDialogue)
    case socks(SOCKSDialogue)
  }

  private var dialogue: Dialogue
  /// The final result, if there is one.
  private var outcome: Progress? = nil
  /// Whether part of the awaited response has arrived.
  private var hasBegunAnswer = false
  private var isRepeated = false

  /// `host`, `port`: the destination; a name goes to the parent unresolved. `via`: the value of the Via element of
  /// CONNECT, `1.1 sallyport (…)`. `limits`: for the head of the response to CONNECT. `authorization`: the answer to a
  /// Digest challenge of the parent; nil: none is known.
  public init(
    _ parent: Route.Parent, host: CanonicalHost, port: UInt16, via: [UInt8], limits: HeadLimits,
    authorization: [UInt8]? = nil
  ) {
    switch parent.kind {
    case .http, .https:
      dialogue = .connect(
        ConnectDialogue(parent, host: host, port: port, via: via, limits: limits, authorization: authorization))
    case .socks5: dialogue = .socks(SOCKSDialogue(parent, host: host, port: port))
    }
  }

  /// Bytes of the parent, including those that were not consumed before. Appends what must be sent now to `output`. The
  /// first call, with no input yet, begins.
  public mutating func received(_ input: Span<UInt8>, _ output: inout ByteBuffer) -> Progress {
    if let outcome { return outcome }
    let progress = advance(input, &output)
    switch progress {
    case .wants(let consumed): hasBegunAnswer = consumed < input.count
    case .open: outcome = .open(consumed: 0)
    case .challenged: hasBegunAnswer = false
    case .refused: outcome = progress
    }
    return progress
  }

  private mutating func advance(_ input: Span<UInt8>, _ output: inout ByteBuffer) -> Progress {
    switch dialogue {
    case .connect(var connect):
      defer { dialogue = .connect(connect) }
      return connect.received(input, &output)
    case .socks(var socks):
      defer { dialogue = .socks(socks) }
      return socks.received(input, &output)
    }
  }

  /// Asks again on the same connection, after a challenge. `authorization`: the answer to it.
  public mutating func ask(with authorization: [UInt8]) {
    guard case .connect(var connect) = dialogue else { preconditionFailure("only CONNECT is challenged") }
    connect.ask(with: authorization)
    dialogue = .connect(connect)
    isRepeated = true
  }

  /// Whether CONNECT was repeated on this connection, and nothing has come since: if the connection ends now, it was
  /// closed before.
  public var mayAskElsewhere: Bool { isRepeated && !hasBegunAnswer && outcome == nil }

  /// The lines of a challenge whose content is incomplete; nil: there is none.
  public var unfinishedChallenge: [[UInt8]]? {
    if case .connect(let connect) = dialogue { return connect.challengeLines }
    return nil
  }

  /// The credentials of the route are of no use. `fault`: why, "were refused".
  public mutating func refused(credentials fault: String) -> ParentRefusal {
    guard case .connect(let connect) = dialogue else { preconditionFailure("only CONNECT is challenged") }
    let refusal = connect.refused(credentials: fault)
    outcome = .refused(refusal)
    return refusal
  }

  /// The parent closed the connection, or it broke. `isStream`: it was a stream, and the parent reset it.
  public mutating func ended(isStream: Bool = false) -> ParentRefusal {
    if case .refused(let refusal) = outcome { return refusal }
    let refusal =
      switch dialogue {
      case .connect(let connect): connect.ended(within: hasBegunAnswer, isStream: isStream)
      case .socks(let socks): socks.ended(within: hasBegunAnswer)
      }
    outcome = .refused(refusal)
    return refusal
  }
}

/// Why a parent does not lead to the destination.
public struct ParentRefusal: Error, Equatable, Sendable {
  /// `parentRefused`, `parentAuthentication` or `parentFailed`.
  public let kind: Problem.Kind
  /// A sentence that names the parent: what was expected, what was seen. Contains no secret.
  public let detail: String
  /// Whether the next route of the list may be tried: the parent failed because of the network and decided nothing.
  public let allowsNext: Bool
  /// The status of the parent's response (RFC 9209, 2.1.4).
  public let status: Int?

  public init(_ kind: Problem.Kind, _ detail: String, allowsNext: Bool = false, status: Int? = nil) {
    self.kind = kind
    self.detail = detail
    self.allowsNext = allowsNext
    self.status = status
  }
}

/// The two ends of a dialogue, as its texts name them.
struct ParentPlace: Sendable {
  /// `the parent http://proxy.office.example:3128`
  let parent: String
  /// `a.example:443`, an IPv6 address in brackets.
  let destination: String

  init(_ parent: Route.Parent, host: CanonicalHost, port: UInt16) {
    self.parent = "the parent \(parent.kind.rawValue)://\(parent.authority)"
    let text = host.bytes.span.string
    destination = host.address.map { !$0.isIPv4 } == true ? "[\(text)]:\(port)" : "\(text):\(port)"
  }

  /// A description of an unexpected protocol, from its first byte.
  static func speaker(of byte: UInt8) -> String {
    switch byte {
    case 0x48: "an HTTP answer"
    case 0x05: "a SOCKS 5 answer"
    // The version in a SOCKS 4 response is zero.
    case 0x00, 0x04: "a SOCKS 4 answer"
    case 0x14...0x17: "a TLS record"
    default: "the byte 0x\(byte.hexadecimal)"
    }
  }
}
