// One HTTP/1.1 client connection: a sequence of exchanges, as a state machine without I/O.
//
//   idle → head → exchange → idle …        or, where the connection does not go on:  exchange → over
//
// It reads heads, creates an exchange for each, passes events to it, and keeps what one exchange leaves for the next.
// Pipelined requests wait in the server's buffer until the one before them is over. Tests: SessionTests.

import Bytes
import HTTP1
import Policy

/// What an exchange needs to know about the connection that its request arrived on.
public struct RequestOrigin: Sendable {
  /// The program at the client's end; nil if unknown. Set before the first request whose policy needs it.
  public var client: LocalClient? = nil
  /// Where the client connects from.
  public var address: IPAddress? = nil
  /// Path of the client's executable; nil if unknown.
  public var program: String? = nil
  /// What the client last showed, name and right password. Requests inside a tunnel belong to that user too.
  public internal(set) var credential: ProxyCredential? = nil
  /// The intercepted tunnel, if one is open: every request is inside it.
  public internal(set) var interior: Interior? = nil
  /// The client's protocol.
  public var wire = HTTPProtocol.http11
  /// The policy has changed since the tunnel was opened or last checked.
  public var tunnelIsUnchecked = false
  /// No other exchange follows on the connection.
  var isLast = false
}

public struct Session: ~Copyable {
  enum Phase {
    case idle, head, exchange, over
  }

  private let byAddress = ByAddress()
  var phase = Phase.idle
  @usableFromInline let rooms: ExchangeRooms
  /// Where the current exchange is; nil: there is none.
  @usableFromInline var room: ExchangeRoom? = nil
  public var origin = RequestOrigin()
  /// The policy for reading the next head.
  private var policy: Policy
  /// When the connection entered its phase, if no exchange is under way.
  private var since: Int64
  /// An exchange of this connection is over.
  private var hasAsked = false
  /// Bytes of the head that have been examined so far.
  private var headBytesSeen = 0
  /// The only request that may follow; empty: any may. See RefusedExpectation.swift.
  private var awaitedRepeat: [UInt8] = []

  public init(policy: Policy, in rooms: ExchangeRooms, now: Int64) {
    self.policy = policy
    self.rooms = rooms
    since = now
  }

  /// A tunnel of an earlier process. See `Exchange.init(resuming:)`.
  public init(
    resuming state: TunnelState, policy: Policy, in rooms: ExchangeRooms, now: Int64, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) {
    self.init(policy: policy, in: rooms, now: now)
    exchange = Exchange(resuming: state, policy: policy, now: now, in: &workspace, to: &outputs)
    phase = .exchange
  }

  deinit { if let room { rooms.takeBack(room) } }

  /// The current exchange. Where there is none, it is one that has not begun.
  @inlinable public var exchange: Exchange {
    _read {
      let room = room ?? rooms.none
      yield room.exchange
    }
    _modify {
      let room = room ?? rooms.take()
      self.room = room
      yield &room.exchange
    }
  }

  /// Who has opened the intercepted tunnel.
  public var tunnelSender: Sender {
    Sender(client: origin.client, address: origin.address, proxyUser: origin.credential?.user, program: origin.program)
  }

  public var isIdle: Bool { phase == .idle }
  /// Whether nothing has been requested on the connection yet.
  public var isNew: Bool { !hasAsked }
  /// Whether an exchange has begun and is not logged yet.
  public var isInExchange: Bool { phase == .exchange }
  /// Whether the head of a request is awaited or incomplete.
  public var awaitsHead: Bool { phase == .idle || phase == .head }
  /// When a byte last moved, or the connection entered its phase.
  public var quietSince: Int64 { phase == .exchange ? exchange.times.lastProgress : since }
  /// The tunnel that contains the requests; nil: none is intercepted.
  public var interior: Interior? { phase == .exchange ? exchange.tunnel.interior : origin.interior }
  /// Whether bytes of the client can be used now.
  public var wantsClientBytes: Bool { phase == .exchange ? exchange.wantsClientBytes : true }

  // MARK: Events

  /// Bytes of the client. `Step.consumed` is the number that was consumed.
  public mutating func clientReceived(
    _ bytes: Span<UInt8>, now: Int64, policy current: Policy, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    switch phase {
    case .exchange:
      return exchange.clientReceived(bytes, now: now, in: &workspace, to: &outputs)
    case .over:
      return Step(consumed: bytes.count, action: .read)
    case .idle:
      if RequestHead.isPassedOver(bytes) { return Step(consumed: 0, action: .read) }
      phase = .head
      since = now
      take(current)
      return readHead(bytes, now: now, in: &workspace, to: &outputs)
    case .head:
      return readHead(bytes, now: now, in: &workspace, to: &outputs)
    }
  }

  private mutating func readHead(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    headBytesSeen = bytes.count
    switch read(bytes, in: &workspace) {
    case .incomplete:
      return Step(consumed: 0, action: .read)
    case .invalid(let fault):
      begin(now: now, in: &workspace)
      let problem = Problem(Problem.Kind(ofRequest: fault), "The request \(fault.sentence).")
      return Step(consumed: bytes.count, action: exchange.headRefused(bytes, problem, in: &workspace, to: &outputs))
    case .complete(let count):
      begin(now: now, in: &workspace)
      if !awaitedRepeat.isEmpty {
        let problem = RefusedExpectation.problem(of: workspace.request, bytes, after: awaitedRepeat)
        awaitedRepeat = []
        if let problem {
          let action = exchange.refuse(problem, bytesIn: bytes.count, in: &workspace, to: &outputs)
          return Step(consumed: bytes.count, action: action)
        }
      }
      return exchange.headReceived(bytes, headBytes: count, now: now, in: &workspace, to: &outputs)
    }
  }

  private func read(_ bytes: Span<UInt8>, in workspace: inout Workspace) -> HeadProgress {
    let limits = policy.configuration.limits
    return workspace.request.read(
      bytes, limits: HeadLimits(bytes: limits.headerBytes, fields: limits.headers), isInTunnel: origin.interior != nil,
      takesRawPath: policy.encodesPaths)
  }

  private mutating func take(_ current: Policy) {
    if current !== policy, origin.interior != nil { origin.tunnelIsUnchecked = true }
    policy = current
  }

  private mutating func begin(now: Int64, in workspace: inout Workspace) {
    let room = room ?? rooms.take()
    self.room = room
    room.exchange.begin(by: policy, of: origin, now: now, in: &workspace)
    origin.tunnelIsUnchecked = false
    phase = .exchange
  }

  /// Refuses the request that begins with `bytes`, before it is read and any rule is tried.
  public mutating func refuseUnread(
    _ bytes: Span<UInt8>, _ problem: Problem, now: Int64, policy current: Policy, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) -> Action {
    precondition(phase == .idle, "a request that has been read is refused for what it is")
    policy = current
    _ = read(bytes, in: &workspace)
    begin(now: now, in: &workspace)
    return exchange.headRefused(bytes, problem, in: &workspace, to: &outputs)
  }

  /// Refuses a request whose head is incomplete.
  private mutating func refuse(
    _ kind: Problem.Kind, _ detail: String, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    begin(now: now, in: &workspace)
    return exchange.refuse(Problem(kind, detail), bytesIn: headBytesSeen, in: &workspace, to: &outputs)
  }

  /// The client has closed its sending direction. See `Exchange.clientEnded`.
  public mutating func clientEnded(now: Int64, in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    switch phase {
    case .idle, .over: return .close
    case .exchange: return exchange.clientEnded(now: now, in: &workspace, to: &outputs)
    case .head:
      let detail = "The request \(MessageFault.truncated.sentence)."
      return refuse(.malformedRequest, detail, now: now, in: &workspace, to: &outputs)
    }
  }

  /// The client's connection is broken: nothing can be sent to it any more.
  public mutating func clientFailed() -> Action { phase == .exchange ? exchange.clientFailed() : .close }

  // MARK: Time

  /// How long a connection that is being closed is still read, in milliseconds. A client on the same machine, or one
  /// round trip away, has read its response by then.
  public static let lingerMilliseconds: Int64 = 2_000

  /// When `timedOut` has to be called, unless something moves before.
  public var deadline: Int64 {
    switch phase {
    case .exchange: return exchange.deadline
    case .over: return since + Self.lingerMilliseconds
    case .head: return since + policy.configuration.timeouts.clientHeaderMilliseconds
    case .idle:
      let timeouts = policy.configuration.timeouts
      // A client that has sent nothing yet has no kept connection to be idle on.
      return since
        + (isNew
          ? min(timeouts.clientIdleMilliseconds, timeouts.clientHeaderMilliseconds) : timeouts.clientIdleMilliseconds)
    }
  }

  /// The deadline has passed. `upstreamIsFull`: bytes of the request, besides those in `outputs`, wait for the upstream
  /// to accept them.
  public mutating func timedOut(
    now: Int64, upstreamIsFull: Bool = false, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    switch phase {
    case .idle, .over: return .close
    case .exchange: return exchange.timedOut(now: now, upstreamIsFull: upstreamIsFull, in: &workspace, to: &outputs)
    case .head:
      let limit = policy.configuration.timeouts.clientHeaderMilliseconds
      let detail = "The head of the request was not complete after \(limit) ms."
      return refuse(.slowRequest, detail, now: now, in: &workspace, to: &outputs)
    }
  }

  /// The deadline has passed, and the client has not taken what is left of an exchange that is over.
  public mutating func deliveryTimedOut(now: Int64) -> Action {
    phase == .exchange ? exchange.deliveryTimedOut(now: now) : .close
  }

  // MARK: Ends

  /// The proxy is stopping: the current exchange may finish, and is the last.
  public mutating func drain() -> Action {
    if phase == .idle { return .close }
    expectLastExchange()
    return .read
  }

  /// The proxy is stopping. A client that has not sent a request yet may still do so: that exchange is the last.
  public mutating func expectLastExchange() {
    origin.isLast = true
    if phase == .exchange { exchange.client.expectNoOther() }
  }

  /// The time for draining is over. A client whose response has not begun gets an error.
  public mutating func shutDown(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    phase == .exchange ? exchange.shutDown(in: &workspace, to: &outputs) : .close
  }

  /// An operator ends the current exchange.
  public mutating func cancelled(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    phase == .exchange ? exchange.cancelled(in: &workspace, to: &outputs) : .close
  }

  /// The policy in force now denies the current exchange.
  public mutating func policyChanged(
    _ denial: String, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    phase == .exchange ? exchange.policyChanged(denial, in: &workspace, to: &outputs) : .close
  }

  /// Another client waits for what this one holds above its share.
  public mutating func displaced() -> Action { phase == .exchange ? exchange.breakOffNow(.displaced) : .close }

  /// Drops the exchange after `.end` has been performed. The session is ready for the next request, or only reads the
  /// rest.
  public mutating func exchangeEnded(now: Int64, keeps: Bool) {
    origin.interior = exchange.tunnel.interior
    origin.credential = exchange.record.sender.credential
    origin.isLast = false
    awaitedRepeat = exchange.awaitedRepeat
    exchange.sentAll(toClient: true)
    if let room = room.take() { rooms.takeBack(room) }
    phase = keeps ? .idle : .over
    hasAsked = true
    since = now
  }

  /// The TLS handshake with the client of an intercepted tunnel is over: requests follow.
  public mutating func handshakeDone(now: Int64) { since = now }
}
