// The client's side of what is said to a parent proxy before its connection is one to the destination: CONNECT (RFC
// 9110, 9.3.6) with an http or https parent, RFC 1928 with a socks5 one.
//
// A value: bytes in, bytes out, and nothing is waited for here. TLS to an https parent, time-outs and the choice of the
// next route are its user's. Tests: ConnectDialogueTests, SOCKSDialogueTests; fuzzed by
// Tests/Fuzz/ParentHandshake.

import Bytes
import HTTP1
import Policy

/// What has to be said and heard on a fresh connection to a parent until it is a connection to the destination.
public struct ParentHandshake: Sendable {
  /// How far it is.
  public enum Progress: Equatable, Sendable {
    /// Send what was appended, drop `consumed` bytes of the input, and read on.
    case wants(consumed: Int)
    /// What stands behind `consumed` bytes of the input are the destination's first bytes.
    case open(consumed: Int)
    /// The parent asks for credentials by `lines` of Proxy-Authenticate, and its route has some for Digest. Say `ask(with:)` and
    /// go on behind `consumed` bytes where the connection `isKept`; else a new one is needed.
    case challenged(consumed: Int, lines: [[UInt8]], isKept: Bool)
    /// The parent's decision, or what it said makes no sense. It stays so.
    case refused(ParentRefusal)
  }

  private enum Dialogue: Sendable {
    case connect(ConnectDialogue)
    case socks(SOCKSDialogue)
  }

  private var dialogue: Dialogue
  /// What came out, where something has.
  private var outcome: Progress? = nil
  /// Whether a part of the answer that is waited for is there.
  private var hasBegunAnswer = false
  private var isRepeated = false

  /// `host`, `port`: the destination; a name goes to the parent as it is. `via`: the value of the Via element of CONNECT,
  /// `1.1 sallyport (…)`. `limits`: of the head that answers CONNECT. `authorization`: the answer to a Digest challenge of the
  /// parent's; nil: none is known.
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

  /// Bytes of the parent, those that were not consumed before among them. What is to be sent now is appended to `output`.
  /// The first call, with no input yet, begins.
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

  /// Whether it was asked again on this connection, and nothing has come since: where that ends now, it had ended before.
  public var mayAskElsewhere: Bool { isRepeated && !hasBegunAnswer && outcome == nil }

  /// The lines of a challenge of which not all of the content has come; nil: there is none.
  public var unfinishedChallenge: [[UInt8]]? {
    if case .connect(let connect) = dialogue { return connect.challengeLines }
    return nil
  }

  /// The credentials of the route will not do. `fault`: what became of them, "were refused".
  public mutating func refused(credentials fault: String) -> ParentRefusal {
    guard case .connect(let connect) = dialogue else { preconditionFailure("only CONNECT is challenged") }
    let refusal = connect.refused(credentials: fault)
    outcome = .refused(refusal)
    return refusal
  }

  /// The parent closed the connection, or it broke.
  public mutating func ended() -> ParentRefusal {
    if case .refused(let refusal) = outcome { return refusal }
    let refusal =
      switch dialogue {
      case .connect(let connect): connect.ended(within: hasBegunAnswer)
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
  /// A sentence that names the parent: what was expected, what was seen. Holds no secret.
  public let detail: String
  /// Whether the next route of the list may be tried: the network failed the parent, and it decided nothing.
  public let allowsNext: Bool
  /// The status that the parent answered with (RFC 9209, 2.1.4).
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
  /// `a.example:443`, an IPv6 address between brackets.
  let destination: String

  init(_ parent: Route.Parent, host: CanonicalHost, port: UInt16) {
    self.parent = "the parent \(parent.kind.rawValue)://\(parent.authority)"
    let text = host.bytes.span.string
    destination = host.address.map { !$0.isIPv4 } == true ? "[\(text)]:\(port)" : "\(text):\(port)"
  }

  /// What speaks a protocol that was not expected, by the first byte that it said.
  static func speaker(of byte: UInt8) -> String {
    switch byte {
    case 0x48: "an HTTP answer"
    case 0x05: "a SOCKS 5 answer"
    // The version in an answer of SOCKS 4 is zero.
    case 0x00, 0x04: "a SOCKS 4 answer"
    case 0x14...0x17: "a TLS record"
    default: "the byte 0x\(byte < 16 ? "0" : "")\(String(byte, radix: 16))"
    }
  }
}
