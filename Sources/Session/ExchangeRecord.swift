// What one request or tunnel was, decided and cost: the source of its one line in the access log.

import Bytes
import Policy

/// The facts of an exchange. Times are milliseconds of the loop's monotonic clock; -1 where a step did not happen.
public struct ExchangeRecord: Sendable {
  public var reference = Reference(value: 0)
  public var begun: Int64 = 0
  /// Milliseconds since 1970 at `begun`.
  public var begunWall: Int64 = 0
  public var decision: Decision? = nil
  /// Status of the answer that the client got; 0 where it got none.
  public var status = 0
  public var bytesIn: UInt64 = 0
  public var bytesOut: UInt64 = 0
  public var nameMilliseconds: Int64 = -1
  public var connectMilliseconds: Int64 = -1
  public var firstByteMilliseconds: Int64 = -1
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

  /// The stable word of the log; nil where nothing went wrong.
  public var token: StaticString? {
    switch self {
    case .done: nil
    case .problem(let kind): kind.token
    case .clientLeft: "client-left"
    case .upstreamBrokeOff: "upstream-broke-off"
    case .malformedBody: "malformed-body"
    case .stalled: "stalled"
    case .tunnelIdle: "tunnel-idle"
    case .exchangeTimeout: "exchange-timeout"
    case .shutDown: "shut-down"
    }
  }
}
