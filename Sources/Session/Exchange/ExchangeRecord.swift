// The facts, decision and cost of one request or tunnel: the source of its line in the access log.

import Bytes
import HTTP1
import Policy
import Reachability
import TLSWire

/// The facts of an exchange. Moments are milliseconds of the loop's monotonic clock. How long a step took is in
/// microseconds; -1 if it did not happen.
public struct ExchangeRecord: Sendable {
  public var reference = Reference(value: 0)
  public var begun: Int64 = 0
  /// The same moment in microseconds: the turn of the loop that read the head. 0 for a tunnel that an earlier process
  /// began.
  public var begunMicroseconds: Int64 = 0
  /// Milliseconds since 1970 at `begun`.
  public var begunWall: Int64 = 0
  public var decision: Decision? = nil
  /// Status of the response that the client got; 0 if it got none.
  public var status = 0
  /// Status of the last response from the upstream; 0 if none came.
  public internal(set) var upstreamStatus = 0
  /// Position of its Content-Type in the text that goes with the record; empty if it has none, or several.
  public internal(set) var upstreamType: Range<Int> = 0..<0
  /// The serializers that the response, or the body of the request, was checked against: `json`. nil: none.
  public internal(set) var serializer: String? = nil
  /// The kind of link that carried the machine's default route when the policy was consulted.
  public internal(set) var link = ReachabilityStatus.unknown
  public var bytesIn: UInt64 = 0
  public var bytesOut: UInt64 = 0
  public var nameMicroseconds: Int64 = -1
  public var connectMicroseconds: Int64 = -1
  public var tlsMicroseconds: Int64 = -1
  /// What is known about the identity of the other end; nil if no TLS is spoken.
  public var assurance: Assurance? = nil
  /// What the security policy would have refused, if its rule or its pins were enforced; nil: nothing.
  public internal(set) var report: Problem.Kind? = nil
  /// Why the exchange failed, or details of `report` and `violation`; nil if there is nothing to report.
  public internal(set) var finding: Finding? = nil
  /// Whether the unenforced rule allowed what its policy refuses.
  public internal(set) var isForgiven = false
  /// What in the response broke its rule and passed nevertheless.
  public internal(set) var violation: Problem.Kind? = nil
  /// What had to be mended in the heads of its responses.
  public internal(set) var mended: HeadMendings = []
  public var firstByteMicroseconds: Int64 = -1
  /// Who sent it; nil if unknown or not needed.
  public internal(set) var client: LocalClient? = nil
  /// Path of the sender's executable, as the kernel reports it; nil if unknown or not needed.
  public internal(set) var program: String? = nil
  /// The user that the client named in Proxy-Authorization, with the right password; nil: none.
  public var proxyUser: String? { credential?.user }
  /// With what the client has shown that it is that user.
  public internal(set) var credential: ProxyCredential? = nil
  /// The operator who allowed or denied it; nil: none did.
  public internal(set) var answeredBy: String? = nil
  /// Name of the route that was used; nil if nothing was opened.
  public internal(set) var route: String? = nil
  /// The protocol of the client, and the protocol of the upstream; nil if there was no upstream.
  public internal(set) var wire = HTTPProtocol.http11
  public internal(set) var upstreamWire: HTTPProtocol? = nil
  /// How a cache took part; nil: none did.
  public internal(set) var cache: CacheResult? = nil
  public var isReused = false
  public var isRetried = false
  public var upstream: IPAddress? = nil
  public var upstreamPort: UInt16 = 0
  /// Why the exchange failed or was cut short.
  public var outcome = Outcome.done
  /// Positions of the method and the target in the text that goes with the record.
  public var method: Range<Int> = 0..<0
  public var target: Range<Int> = 0..<0
  /// That text is shorter than what was asked.
  public internal(set) var isTextCut = false

  public init() {}

  /// Whether the proxy refused it: by its rule, for what the exchange showed, or for lack of room. An unreachable
  /// destination is not a refusal.
  public var isRefusal: Bool {
    if decision?.verdict == .deny { return true }
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
  /// How long the exchange has lasted, in microseconds. `now` and `microseconds`: the same moment of the loop's clock.
  public func microseconds(until now: Int64, _ microseconds: Int64) -> Int64 {
    begunMicroseconds > 0 ? microseconds - begunMicroseconds : max(0, now - begun) * 1000
  }
}
