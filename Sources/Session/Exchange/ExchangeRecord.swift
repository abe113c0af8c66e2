// What one request or tunnel was, decided and cost: the source of its one line in the access log.

import Bytes
import HTTP1
import Policy
import Reachability
import TLSWire

/// The facts of an exchange. Times are milliseconds of the loop's monotonic clock; -1 where a step did not happen.
public struct ExchangeRecord: Sendable {
  public var reference = Reference(value: 0)
  public var begun: Int64 = 0
  /// The same moment in microseconds: the turn of the loop in which the head was read. 0 for a tunnel that an earlier
  /// process began.
  public var begunMicroseconds: Int64 = 0
  /// Milliseconds since 1970 at `begun`.
  public var begunWall: Int64 = 0
  public var decision: Decision? = nil
  /// Status of the answer that the client got; 0 where it got none.
  public var status = 0
  /// Of the last response that came of the upstream; 0 where none came.
  public internal(set) var upstreamStatus = 0
  /// Where its Content-Type stands in the text that goes with the record; empty where it has none, or several.
  public internal(set) var upstreamType: Range<Int> = 0..<0
  /// The serializers that the response, or the body of the request, was held to: `json`. nil: to none.
  public internal(set) var serializer: String? = nil
  /// By what link the machine's default route left when the policy was asked.
  public internal(set) var link = ReachabilityStatus.unknown
  public var bytesIn: UInt64 = 0
  public var bytesOut: UInt64 = 0
  public var nameMilliseconds: Int64 = -1
  public var connectMilliseconds: Int64 = -1
  public var tlsMilliseconds: Int64 = -1
  /// What is known of who answers at the other end; nil where no TLS is spoken.
  public var assurance: Assurance? = nil
  /// What the security policy would have refused, were its rule or its pins enforced; nil where there is nothing.
  public internal(set) var report: Problem.Kind? = nil
  /// Why the exchange failed, or what `report` and `violation` are about; nil where nothing is to be said.
  public internal(set) var finding: Finding? = nil
  /// Whether the rule, unenforced, let pass what its policy refuses.
  public internal(set) var isForgiven = false
  /// What the response showed against its rule, and passed with all the same.
  public internal(set) var violation: Problem.Kind? = nil
  /// What of the heads of its responses had to be mended.
  public internal(set) var mended: HeadMendings = []
  public var firstByteMilliseconds: Int64 = -1
  /// Who asked; nil where nobody had to know, or could.
  public internal(set) var client: LocalClient? = nil
  /// Path of the executable that asked, as the kernel has it; nil where nobody had to know, or could.
  public internal(set) var program: String? = nil
  /// The user that the client named in Proxy-Authorization, with the right password; nil where it named none.
  public internal(set) var proxyUser: String? = nil
  /// Name of the route that was taken; nil where nothing was opened.
  public internal(set) var route: String? = nil
  /// What the client speaks, and what was spoken with the upstream; nil where there was none.
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
  /// Where the method and the target stand in the text that goes with the record.
  public var method: Range<Int> = 0..<0
  public var target: Range<Int> = 0..<0

  public init() {}

  /// Whether the proxy refused it: by its rule, by what the exchange showed, or for want of room. That its destination
  /// could not be reached is none.
  public var isRefusal: Bool {
    if decision?.verdict == .deny { return true }
    switch outcome {
    case .problem(let kind): return !kind.isAboutReachability
    case .tunnelFault, .tunnelRefused: return true
    case .done, .clientLeft, .upstreamBrokeOff, .malformedBody, .stalled, .tunnelIdle, .exchangeTimeout, .shutDown,
      .cancelled, .displaced, .tunnelFaultReported:
      return false
    }
  }
}

/// What was found wrong with an exchange.
public final class Finding: Sendable {
  /// A sentence without a secret.
  public let detail: String
  /// The same in two parts, where it has them.
  public let difference: Difference?

  public init(_ detail: String, _ difference: Difference? = nil) {
    self.detail = detail
    self.difference = difference
  }

  convenience init(_ problem: Problem) { self.init(problem.detail, problem.difference) }
  convenience init(_ fault: TunnelFault) { self.init(fault.sentence, fault.difference) }
}

/// How much of the policy's trust in a certificate holds for the connection that carries the bytes.
public enum Assurance: String, Sendable {
  /// A plain tunnel: nothing was looked at.
  case none
  /// Only the name in the ClientHello was looked at.
  case sni
  /// The proxy's own handshake with the same address, of which the verdict may be a few minutes old.
  case probe
  /// The certificate of this very connection.
  case exact
}

/// How an exchange ended.
public enum Outcome: Equatable, Sendable {
  case done
  /// The proxy answered for itself.
  case problem(Problem.Kind)
  /// The client left before the answer was complete.
  case clientLeft
  /// The upstream broke off within a response.
  case upstreamBrokeOff
  /// The response turned out malformed after its head had gone out.
  case malformedBody
  /// No byte moved within a body or tunnel for too long.
  case stalled
  /// A tunnel that was idle for too long.
  case tunnelIdle
  /// The exchange took longer than its rule allows, after its response had begun.
  case exchangeTimeout
  /// The proxy stopped.
  case shutDown
  /// An operator ended it.
  case cancelled
  /// Its client held more than its share of a limit, and another waited.
  case displaced
  /// What was sent into a tunnel is no TLS, cannot be read, or names another server than the tunnel was opened to.
  case tunnelFault(TunnelFault)
  /// The same under a rule that is not enforced: the tunnel stood.
  case tunnelFaultReported(TunnelFault)
  /// The server's certificate in the tunnel is refused.
  case tunnelRefused(Problem.Kind)

  /// The stable word of the log: `done`, or what went wrong.
  public var word: String { token ?? "done" }

  /// Of what went wrong; nil where nothing did.
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
    case .displaced: "displaced"
    case .tunnelFault(let fault), .tunnelFaultReported(let fault): fault.token
    case .tunnelRefused(let kind): kind.token.description
    }
  }
}
