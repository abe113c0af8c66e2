// The facts, decision and cost of one request or tunnel: the source of its line in the access log.

import Bytes
import HTTP1
import Policy
import Reachability
import Serialization
import TLSWire

/// The facts of an exchange, by what they are about. Moments are milliseconds of the loop's monotonic clock. How long a
/// step took is in microseconds; -1 if it did not happen.
public struct ExchangeRecord: Sendable {
  /// Who sent it, and by which protocol.
  public struct Sender: Sendable {
    /// nil if unknown or not needed.
    public internal(set) var client: LocalClient? = nil
    /// Path of the sender's executable, as the kernel reports it; nil if unknown or not needed.
    public internal(set) var program: String? = nil
    /// With what the client has shown that it is `proxyUser`.
    public internal(set) var credential: ProxyCredential? = nil
    public internal(set) var wire = HTTPProtocol.http11

    /// The user that the client named in Proxy-Authorization, with the right password; nil: none.
    public var proxyUser: String? { credential?.user }
  }

  /// What the policy said.
  public struct Ruled: Sendable {
    public var decision: Decision? = nil
    /// The operator who allowed or denied it; nil: none did.
    public internal(set) var answeredBy: String? = nil
    /// The kind of link that carried the machine's default route when the policy was consulted.
    public internal(set) var link = ReachabilityStatus.unknown
  }

  /// Positions in the text that goes with the record.
  public struct Text: Sendable {
    public var method: Range<Int> = 0..<0
    public var target: Range<Int> = 0..<0
    /// Content-Type of the upstream's response; empty if it has none, or several.
    public internal(set) var upstreamType: Range<Int> = 0..<0
    /// The text is shorter than what was asked.
    public internal(set) var isCut = false
  }

  /// When it began, and how long its steps took.
  public struct Times: Sendable {
    public var begun: Int64 = 0
    /// The same moment in microseconds: the turn of the loop that read the head. 0 for a tunnel that an earlier process
    /// began.
    public var begunMicroseconds: Int64 = 0
    /// Milliseconds since 1970 at `begun`.
    public var begunWall: Int64 = 0
    public var nameMicroseconds: Int64 = -1
    public var connectMicroseconds: Int64 = -1
    public var tlsMicroseconds: Int64 = -1
    public var firstByteMicroseconds: Int64 = -1
  }

  /// The way to its upstream.
  public struct Way: Sendable {
    /// Name of the route that was used; nil if nothing was opened.
    public internal(set) var route: String? = nil
    public var upstream: IPAddress? = nil
    public var upstreamPort: UInt16 = 0
    /// nil if there was no upstream.
    public internal(set) var upstreamWire: HTTPProtocol? = nil
    /// What is known about the identity of the other end; nil if no TLS is spoken.
    public var assurance: Assurance? = nil
    public var isReused = false
    public var isRetried = false
  }

  /// Bytes from and to the client, heads included.
  public struct Traffic: Sendable {
    public var bytesIn: UInt64 = 0
    public var bytesOut: UInt64 = 0
  }

  public struct Answer: Sendable {
    /// Status of the response that the client got; 0 if it got none.
    public var status = 0
    /// Status of the last response from the upstream; 0 if none came.
    public internal(set) var upstreamStatus = 0
    /// How a cache took part; nil: none did.
    public internal(set) var cache: CacheResult? = nil
    /// The serializers that the response, or the body of the request, was checked against: `json`. nil: none.
    public internal(set) var serializer: String? = nil
    /// What in the response broke its rule and passed nevertheless.
    public internal(set) var violation: Problem.Kind? = nil
    /// What had to be mended in the heads of its responses.
    public internal(set) var mended: HeadMendings = []
  }

  public struct Findings: Sendable {
    /// What the security policy would have refused, if its rule or its pins were enforced; nil: nothing.
    public internal(set) var report: Problem.Kind? = nil
    /// Why the exchange failed, or details of `report` and of a violation; nil if there is nothing to report.
    public internal(set) var finding: Finding? = nil
    /// Whether the unenforced rule allowed what its policy refuses.
    public internal(set) var isForgiven = false
  }

  public var reference = Reference(value: 0)
  public var sender = Sender()
  public var ruled = Ruled()
  public var text = Text()
  public var times = Times()
  public var way = Way()
  public var traffic = Traffic()
  public var answer = Answer()
  public var found = Findings()
  /// Why the exchange failed or was cut short.
  public var outcome = Outcome.done

  public init() {}

  /// Whether the proxy refused it: by its rule, for what the exchange showed, or for lack of room. An unreachable
  /// destination is not a refusal.
  public var isRefusal: Bool {
    if ruled.decision?.verdict == .deny { return true }
    switch outcome {
    case .problem(let kind): return !kind.isAboutReachability
    case .tunnelFault, .tunnelRefused, .policyChanged: return true
    case .done, .clientLeft, .upstreamBrokeOff, .malformedBody, .stalled, .tunnelIdle, .exchangeTimeout, .shutDown,
      .cancelled, .displaced, .tunnelFaultReported:
      return false
    }
  }
}

/// What was found wrong with an exchange.
public final class Finding: Sendable {
  /// A sentence without secrets.
  public let detail: String
  /// The same in two parts, if it has them.
  public let difference: Difference?

  public init(_ detail: String, _ difference: Difference? = nil) {
    self.detail = detail
    self.difference = difference
  }

  convenience init(_ problem: Problem) { self.init(problem.detail, problem.difference) }
  convenience init(_ fault: TunnelFault) { self.init(fault.sentence, fault.difference) }
}

/// How far the policy's check of a certificate applies to the connection that carries the bytes.
public enum Assurance: String, Sendable {
  /// A plain tunnel: nothing was checked.
  case none
  /// Only the name in the ClientHello was checked.
  case sni
  /// The proxy's own handshake with the same address. Its result may be a few minutes old.
  case probe
  /// The certificate of this very connection.
  case exact
}

/// How an exchange ended.
public enum Outcome: Equatable, Sendable {
  case done
  /// The proxy answered for itself.
  case problem(Problem.Kind)
  /// The client left before the response was complete.
  case clientLeft
  /// The upstream broke off within a response.
  case upstreamBrokeOff
  /// The response turned out to be malformed after its head was sent.
  case malformedBody
  /// No byte of a body or tunnel moved for too long.
  case stalled
  /// A tunnel that was idle for too long.
  case tunnelIdle
  /// The exchange took longer than its rule allows, after its response had begun.
  case exchangeTimeout
  /// The proxy stopped.
  case shutDown
  /// An operator ended it.
  case cancelled
  /// The policy changed and denies it now.
  case policyChanged
  /// Its client held more than its share of a limit, and another client was waiting.
  case displaced
  /// Bytes in a tunnel are not TLS, cannot be read, or name another server than the tunnel was opened to.
  case tunnelFault(TunnelFault)
  /// The same under an unenforced rule: the tunnel continued.
  case tunnelFaultReported(TunnelFault)
  /// The server's certificate in the tunnel was refused.
  case tunnelRefused(Problem.Kind)

  /// The stable word in the log: `done`, or what went wrong.
  public var word: String { token ?? "done" }

  /// What went wrong; nil if nothing did.
  public var token: String? {
    switch self {
    case .done: nil
    case .problem(let kind): kind.token.description
    case .clientLeft: "client-left"
    case .upstreamBrokeOff: "upstream-broke-off"
    case .malformedBody: "malformed-body"
    case .stalled: "stalled"
    case .tunnelIdle: "tunnel-idle"
    case .exchangeTimeout: "exchange-timeout"
    case .shutDown: "shut-down"
    case .cancelled: "cancelled"
    case .policyChanged: "policy-changed"
    case .displaced: "displaced"
    case .tunnelFault(let fault), .tunnelFaultReported(let fault): fault.token
    case .tunnelRefused(let kind): kind.token.description
    }
  }
}

extension ExchangeRecord {
  /// Longest path, in bytes, in a log line.
  static let longestPath = 1024
  /// The same for a method, for host and port, and for a Content-Type: any that are served, or in use, are shorter.
  static let longestMethod = 32
  static let longestAuthority = 300
  static let longestType = 100

  /// Writes the method, and the target without query, for the log line and errors. `interior`: the intercepted tunnel
  /// that the request came by.
  mutating func writeText(
    _ head: borrowing RequestHead, _ bytes: Span<UInt8>, interior: Interior?, pool: inout BufferPool,
    to text: inout ByteBuffer
  ) {
    writeMethod(head, bytes, pool: &pool, to: &text)
    self.text.isCut =
      head.method.count > Self.longestMethod || head.path.count > Self.longestPath
      || head.authority.count > Self.longestAuthority
    switch head.form {
    case .asterisk: text.append("*")
    case .authority: text.append(bytes.extracting(head.authority.prefix(Self.longestAuthority)))
    case .origin:
      text.append("https://")
      if let interior { text.append(Array(interior.authority.prefix(Self.longestAuthority))) }
      text.append(bytes.extracting(head.path.prefix(Self.longestPath)))
    case .absolute:
      text.append(head.isHTTPS ? "https://" : "http://")
      text.append(bytes.extracting(head.authority.prefix(Self.longestAuthority)))
      let path = head.path
      text.append(bytes.extracting(path.prefix(Self.longestPath)))
    }
    self.text.target = self.text.method.upperBound..<text.count
  }

  /// The same for a head of which only the method can be read.
  mutating func writeMethod(
    _ head: borrowing RequestHead, _ bytes: Span<UInt8>, pool: inout BufferPool, to text: inout ByteBuffer
  ) {
    text.removeAll()
    pool.lend(&text, BufferPool.smallestBlock)
    text.append(bytes.extracting(head.method.prefix(Self.longestMethod)))
    self.text.method = 0..<text.count
    self.text.target = text.count..<text.count
  }

  /// Records what the log line shows of the original response, whatever the client gets.
  mutating func noteOrigin(_ head: borrowing ResponseHead, _ bytes: Span<UInt8>, to text: inout ByteBuffer) {
    // A response from the store has no origin status.
    if answer.cache?.isSaidByOrigin ?? true { answer.upstreamStatus = head.status }
    guard let type = head.fields.only(.contentType) else { return }
    // If a request was sent twice the second response counts; the first was discarded.
    let begin = text.count
    text.append(bytes.extracting(type.prefix(Self.longestType)))
    self.text.upstreamType = begin..<text.count
  }

  /// Records what would have been refused, were its rule enforced.
  mutating func report(_ problem: Problem) {
    found.report = problem.kind
    found.finding = Finding(problem)
  }

  /// Records how a rule's time was exceeded.
  mutating func report(_ excess: ExceededTime) {
    // The first excess would have ended the exchange.
    guard found.report == nil else { return }
    found.report = excess.kind
    // A finding about how the exchange did end comes first.
    if found.finding == nil { found.finding = excess.finding }
  }

  /// Records what was mended in the head of a response. `isRefused`: its rule, were it enforced, would refuse that.
  mutating func note(_ mendings: HeadMendings, isRefused: Bool) {
    answer.mended.formUnion(mendings)
    guard isRefused else { return }
    found.report = .malformedResponse
    found.finding = Finding("The head of the response was mended: \(mendings.text).")
  }

  /// Records violations in a response that passes nevertheless. `refused`: the one that its rule would have rejected.
  mutating func note(_ violations: [ResponseViolation], refused: ResponseViolation?) {
    guard let first = violations.first else { return }
    answer.violation = Problem.Kind(first.subject)
    found.finding = Finding("The response: \(violations.map(\.sentence).joined(separator: "; ")).", first.difference)
    if let refused { found.report = Problem.Kind(refused.subject) }
  }

  /// The bytes of `output` from `begin` on go to the client.
  mutating func countOut(_ output: borrowing ByteBuffer, from begin: Int) {
    traffic.bytesOut &+= UInt64(output.count - begin)
  }

  /// How long the exchange has lasted, in microseconds. `now` and `microseconds`: the same moment of the loop's clock.
  public func microseconds(until now: Int64, _ microseconds: Int64) -> Int64 {
    times.begunMicroseconds > 0 ? microseconds - times.begunMicroseconds : max(0, now - times.begun) * 1000
  }
}
