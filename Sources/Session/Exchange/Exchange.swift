// One request and its answer, or one tunnel: a state machine without I/O, created by the head of a request and dropped when
// all of it is over. What comes before and after it on the connection is the session's affair.
//
// Events come in as calls, each with the time; what is to be done comes back as an `Action`, and bytes that are to be
// sent stand in `Outputs`. The server performs the action and feeds the next event.
//
//   head → (decide) → connecting → exchanging → end
//      │ (collect a body that is to be re-written) ↗
//      └ problem ────────────────────────────→ end
//   head → (decide) → connecting → tunnel → end        CONNECT, and Upgrade by way of exchanging
//
// Input that a call does not consume is shown again with more behind it. Content of known length is not copied: the
// exchange says `.forward(n)` and the server moves n bytes as they are.
//
// Tested by playbooks in SessionTests: the whole conversation at once, byte by byte, and with trailing data.

import Bytes
import HTTP1
import Policy
import Security
import Serialization

public struct Exchange: ~Copyable {
  enum Phase {
    /// Its head is there, or there is none yet.
    case head
    case collecting, connecting, exchanging, tunnel
  }

  /// Where one direction of an exchange is.
  enum Progress: Equatable {
    case head
    case length(remaining: UInt64)
    case chunked(ChunkedDecoder)
    case trailers
    case untilClose
    case done
  }

  private let byAddress = ByAddress()
  var phase = Phase.head
  var request = Progress.head
  var response = Progress.head
  public internal(set) var record = ExchangeRecord()
  /// The policy that the exchange under way began with.
  public internal(set) var policy: Policy
  /// Port of the destination.
  public internal(set) var port: UInt16 = 0
  /// What Via of the request says of the proxies before this one, with a comma behind each; kept where a parent may have to be
  /// told of them with CONNECT, for a loop of tunnels is seen by nothing else.
  public internal(set) var passedVia: [UInt8] = []
  /// The parent proxy that the request under way left to, in absolute-form; nil: none.
  var parent: String? = nil
  /// The protocol that Upgrade of the request under way asks for, in lower case; empty: none.
  var askedProtocol: [UInt8] = []
  /// Last moment at which a byte moved, or the exchange entered its phase.
  var lastProgress: Int64
  /// What this client may take of the memory for held bodies above the limit of all, because others hold more than their
  /// share and are about to give it back, in bytes.
  public var heldOverdraft = 0
  /// When the whole exchange must be over.
  var exchangeDeadline = Int64.max
  /// When a client that has closed its sending direction counts as gone.
  var clientGoneAt = Int64.max
  /// How the proxy's own words are put for this client.
  var answerForm = ProblemWriter.Form.json
  var terms = ClientTerms()
  var asked = RequestTraits()
  var way = WayTraits()
  var carrier = CarrierTraits()
  var delivery = ResponseTraits()
  /// Which directions of the tunnel have ended.
  var ends = TunnelEnds()
  /// The tunnel that the proxy reads and that the request is inside of, or is about to open.
  public internal(set) var interior: Interior? = nil

  /// The body that is held until it has been looked at: of the request while it is collected, else of the response.
  var held: HeldBody? = nil

  /// The request and the credentials that the proxy answers a challenge with; nil: challenges are the client's.
  var challenged: ChallengedRequest? = nil

  /// What codings the client takes, where its response may be written anew.
  var accepts = AcceptEncoding()

  /// The memory of a file that the client gets instead of an answer, until it has it.
  var substituteWeight: HeldBody? = nil

  /// The query of the request as it came, with its question mark, where its answer may be stored.
  var askedQuery: [UInt8] = []

  /// What was asked, where it is refused or an operator is asked about it.
  public internal(set) var question: Question? = nil

  /// Where the client connects from.
  var clientAddress: IPAddress? = nil

  /// Until when an operator may answer.
  var operatorDeadline = Int64.max

  /// See `noteCache`; empty: no cache took part.
  var cacheStatus = ""

  /// The pace of either direction; nil: as fast as it goes.
  var pacing: Pacing? = nil

  /// What is left of a body that was written anew and leaves at a pace.
  var pacedBody = ByteBuffer()

  /// A body that is taken whole for its length, as far as it is in a file, until all of it has been read again.
  var spooled: SpooledBody? = nil

  /// What is looked at of a tunnel that is verified, until it need not be any more.
  var inspected: InspectedTunnel? = nil

  /// The rule by which a tunnel of an earlier process was allowed, where the policy in force has none of its name.
  var formerRule: String? = nil

  /// Lends the record: read as a property it would be copied, with a dozen references to count.
  public borrowing func withRecord(_ body: (borrowing ExchangeRecord) -> Void) { body(record) }

  var hop = HopState()
  /// Of the request, as it is written for an origin.
  var written = WrittenHead()

  /// None yet.
  init(policy: Policy, now: Int64) {
    self.policy = policy
    lastProgress = now
  }

  /// Its head has come, by a connection of which it has to know `origin`. Made of one that is none yet, which costs a copy less
  /// than another.
  mutating func begin(
    by current: Policy, of origin: borrowing RequestOrigin, now: Int64, _ workspace: inout Workspace
  ) {
    policy = current
    lastProgress = now
    interior = origin.interior
    if origin.isLast { terms.insert(.isLast) }
    record.reference = workspace.references.take()
    record.client = origin.client
    record.wire = origin.wire
    clientAddress = origin.address
    record.program = origin.program
    if origin.interior != nil { record.proxyUser = origin.proxyUser }
    record.begun = now
    record.begunMicroseconds = workspace.turnMicroseconds
    record.begunWall = workspace.wallMilliseconds
  }

  /// Who sends it, as rules see it.
  public var sender: Sender {
    Sender(client: record.client, address: clientAddress, proxyUser: record.proxyUser, program: record.program)
  }

  public var isTunnel: Bool { asked.contains(.isTunnel) || phase == .tunnel }
  public var isInTunnel: Bool { phase == .tunnel }
  /// Whether the upload rests, at the pace of its rule.
  public var isPaused: Bool { phase == .exchanging && uploadRests }
  public var isCollecting: Bool { phase == .collecting }
  public var isConnecting: Bool { phase == .connecting }
  /// Whether a dead connection costs only another try, so that one need not be looked at before it is used again.
  public var mayRetry: Bool { carrier.contains(.mayRetry) }
  /// Whether body bytes that are forwarded are to be appended to `Outputs.replay` too.
  public var keepsReplay: Bool { carrier.contains(.isReused) && carrier.contains(.mayRetry) }
  /// Whether the answer is awaited or on its way, and nothing more is expected of the client.
  public var awaitsOnlyUpstream: Bool { (phase == .exchanging || phase == .connecting) && request == .done }
  /// Whether bytes of the client can be used now.
  var wantsClientBytes: Bool {
    switch phase {
    case .head, .connecting: false
    case .collecting: request != .done && spooled?.move != .writing
    case .exchanging: request != .done && !uploadRests && !carrier.contains(.awaitsContinue)
    case .tunnel: !uploadRests
    }
  }
  /// Whether the connection to the destination is under TLS, by the policy of `security`.
  public var usesTLS: Bool { way.contains(.isSecure) }
  /// Whether the request may leave beside others on one connection: neither does it take the connection over, nor are its
  /// credentials those of the connection.
  public var mayShareConnection: Bool {
    asked.isDisjoint(with: [.isTunnel, .wantsUpgrade]) && !carrier.contains(.isBound)
  }
  /// What the upstream may be spoken to by, the better first; none: the rule leaves no way.
  public var protocols: [HTTPProtocol] {
    let allowed = rule?.protocols ?? HTTPProtocol.allCases
    return mayShareConnection ? allowed : allowed.filter { $0 != .http2 }
  }
  /// Whether the destination of a tunnel is to be verified, by the policy of `security`, before it is opened.
  public var verifiesTunnel: Bool { way.contains(.isVerified) }
  /// The security policy of the exchange under way.
  public var security: SecurityPolicy { record.decision.map { policy.security(of: $0) } ?? policy.defaultSecurity }
  /// Whether the exchange under way may leave by a cellular link.
  public var allowsCellularAccess: Bool { !enforces || mayUseCellular }
  private var mayUseCellular: Bool { rule?.request.allowsCellularAccess ?? policy.defaultRequest.allowsCellularAccess }
  /// How the bytes of the exchange under way are marked on their way to the destination.
  public var serviceType: ServiceType {
    rule?.request.serviceType ?? policy.defaultRequest.serviceType
  }
  /// Whether what the security policy refuses is refused, and not only told.
  public var enforces: Bool { rule?.enforce ?? true }
  /// The rule that decided the exchange under way.
  public var rule: Rule? { record.decision?.rule.map { policy.rules[$0] } }

  /// Whether the next bytes of the upstream are the head of a response.
  public var awaitsResponseHead: Bool { phase == .exchanging && response == .head }

  /// Bytes of content that will pass unchanged from the upstream, for the choice of how to move them.
  public var unchangedResponseBytes: UInt64 {
    if held != nil || delivery.contains(.isDropped) || pacesDownload { return 0 }
    return switch response {
    case .length(let remaining): remaining
    case .untilClose: .max
    case .head, .chunked, .trailers, .done: 0
    }
  }

  public var unchangedRequestBytes: UInt64 {
    if case .length(let remaining) = request, carrier.isDisjoint(with: [.dropsRequest, .awaitsContinue]), !pacesUpload {
      return remaining
    }
    return 0
  }

  // MARK: Events of the client

  /// Bytes of the client behind the head. They are consumed as far as `Step.consumed` says.
  mutating func clientReceived(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch phase {
    case .head:
      preconditionFailure("bytes of a client that has not asked")
    case .connecting:
      return Step(consumed: 0, action: .hold)
    case .collecting:
      if !bytes.isEmpty { asked.insert(.bodyBegun) }
      return collect(bytes, now: now, &workspace, &outputs)
    case .exchanging:
      if !bytes.isEmpty { asked.insert(.bodyBegun) }
      return readRequestBody(bytes, now: now, &workspace, &outputs)
    case .tunnel:
      if carrier.contains(.dropsRequest) {
        clientForwarded(bytes.count, now: now)
        return Step(consumed: bytes.count, action: .read)
      }
      if let inspected { return inspect(client: bytes, inspected, now: now, &workspace, &outputs) }
      if bytes.isEmpty { return Step(consumed: 0, action: .read) }
      let allowed = pacing?.upload?.allowance(of: bytes.count) ?? bytes.count
      return Step(consumed: 0, action: allowed > 0 ? .forward(count: allowed) : .hold)
    }
  }

  /// The client has closed its sending direction. Within a request that is the end of it. While an answer is awaited it
  /// may have left, or it may be one that says all it has to say and listens (nc, socat); only writing to it would tell.
  /// So an answer is delivered as long as something of it comes now and then; when nothing does, the upstream is let go.
  mutating func clientEnded(now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    switch phase {
    case .head:
      preconditionFailure("the end of a client that has not asked")
    case .collecting, .connecting, .exchanging:
      if request == .done {
        clientGoneAt = now + Self.halfClosedMilliseconds
        return .hold
      }
      if delivery.contains(.hasBegun) { return breakOff(.clientLeft) }
      let detail = "The request \(MessageFault.truncated.sentence)."
      return answer(Problem(.malformedRequest, detail), &workspace, &outputs)
    case .tunnel:
      ends.insert(.client)
      if let inspected, inspected.beginning == nil, let fault = inspected.inspection.clientEnded() {
        return refuseTunnel(fault, &workspace, &outputs)
      }
      return ends.contains(.upstream) ? endOfTunnel(.done) : .closeOtherWrite
    }
  }

  /// The client's connection is broken: nothing can be said to it any more.
  mutating func clientFailed() -> Action {
    phase == .tunnel ? endOfTunnel(.clientLeft) : breakOff(.clientLeft)
  }

  // MARK: Events of the upstream

  /// A connection to the destination is there. What was prepared for it stands in `outputs.toUpstream`.
  public mutating func upstreamOpened(
    reused: Bool, address: IPAddress, port: UInt16, by way: UpstreamWay = .direct, assurance: Assurance? = nil,
    now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    precondition(phase == .connecting, "an upstream was opened that nobody waits for")
    record.assurance = asked.contains(.isTunnel) ? assurance ?? Assurance.none : assurance
    record.upstream = address
    record.upstreamPort = port
    record.isReused = reused
    record.route = way.route
    beginPace(on: way.link, now: now)
    if way.link == .wwan, !mayUseCellular {
      record.report = .cellularNotAllowed
      record.finding = Finding("The request left by a cellular link, which the policy does not allow it.")
    }
    if let rule = record.decision?.rule,
      policy.wouldDeny(
        address, rule: rule, isOwn: { way.leadsHome ? true : workspace.own.contains($0) })
    {
      record.decision = Decision(verdict: .allow, reason: .ruleWouldDeny, rule: rule)
      record.report = .addressDenied
      record.finding = Finding("\(address) is an address that the rule denies.")
    }
    lastProgress = now
    if asked.contains(.isTunnel) {
      enterTunnel()
      lastProgress = now
      record.status = 200
      grantTunnel(&workspace, &outputs)
      return .tunnel
    }
    phase = .exchanging
    if reused { carrier.insert(.isReused) } else { carrier.remove(.isReused) }
    record.upstreamWire = way.wire
    if asked.contains(.isGRPC), way.wire == .http11 {
      return answer(needsHTTP2(outputs), &workspace, &outputs)
    }
    parent = way.parent
    challenged?.parentLines = way.parent == nil ? nil : way.parentLines
    if let challenged, challenged.parent?.place != way.digest?.place { challenged.parent = way.digest }
    leave(parentLines: way.parentLines, now: now, &workspace, &outputs)
    return request == .done ? .hold : .read
  }

  /// Whether all of the request stands in `outputs.toUpstream`, and leaves on a stream: an origin may refuse it before it does
  /// anything, whatever the method.
  private func isWholeOnHTTP2(_ outputs: borrowing Outputs) -> Bool {
    record.upstreamWire == .http2 && request == .done && spooled == nil && pacing == nil
      && outputs.toUpstream.count <= Int(Self.longestReplayedBody)
  }

  /// What stands in `outputs.toUpstream` leaves by the connection that there is. `parentLines`: see `UpstreamWay`.
  mutating func leave(
    parentLines: [UInt8], now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    if carrier.contains(.isReused) && carrier.contains(.mayRetry) || isWholeOnHTTP2(outputs) {
      workspace.pool.lend(&outputs.replay, outputs.toUpstream.count)
      outputs.replay.append(contentsOf: outputs.toUpstream)
    }
    // Behind the replay, because another try may go another way, and takes another answer to the challenge.
    let lines = challengeLines(&workspace, outputs)
    if parent != nil {
      let added = lines.isEmpty ? parentLines : lines + parentLines
      let head = ParentRequest.rewrite(&outputs.toUpstream, written, adding: added, &workspace.pool)
      addParentLine(to: head, &workspace, &outputs)
    } else if !lines.isEmpty {
      ParentRequest.insert(lines, into: &outputs.toUpstream, written, &workspace.pool)
    }
    sendPaced(now: now, &workspace, &outputs)
  }

  /// The proxy can play the part of the host: the tunnel is granted, and nothing is opened upstream before a request comes.
  public mutating func interiorOpened(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    precondition(phase == .connecting && interior != nil, "a tunnel was opened that nobody waits for")
    phase = .exchanging
    request = .done
    record.status = 200
    grantTunnel(&workspace, &outputs)
    return .end(Ending(client: .intercept, keepsUpstream: false))
  }

  private mutating func grantTunnel(_ workspace: inout Workspace, _ outputs: inout Outputs) {
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    outputs.toClient.append("HTTP/1.1 200 Connection established\r\n\r\n")
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
  }

  /// From here bytes go both ways. A rule's time for the whole exchange was for getting here, and whoever has said all it
  /// has to say gets the rest of the tunnel all the same.
  mutating func enterTunnel() {
    phase = .tunnel
    ends = []
    exchangeDeadline = .max
    clientGoneAt = .max
  }

  /// No upstream could be had.
  public mutating func upstreamFailed(
    _ failure: UpstreamFailure, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    precondition(phase == .connecting, "an upstream failed that nobody waits for")
    if asked.contains(.isTunnel) { interior = nil }
    return answer(failure.problem, &workspace, &outputs)
  }

  /// Bytes of the upstream.
  public mutating func upstreamReceived(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch phase {
    case .exchanging:
      return readResponse(bytes, now: now, &workspace, &outputs)
    case .tunnel:
      if let inspected { return inspect(upstream: bytes, inspected, &workspace, &outputs) }
      return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
    case .head, .collecting, .connecting:
      preconditionFailure("bytes of an upstream that the exchange does not have")
    }
  }

  /// The upstream closed its sending direction, or its connection broke (`broken`): by a TLS alert, where `alert` names one,
  /// or because this machine can use it no more, for the reason `loss`. `refused`: it has said that it did nothing of the request
  /// (RFC 9113, 8.7).
  public mutating func upstreamEnded(
    broken: Bool, alert: String? = nil, loss: String? = nil, refused: Bool = false, now: Int64,
    _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action {
    switch phase {
    case .exchanging:
      switch response {
      case .head:
        return upstreamEndedBeforeResponse(alert: alert, loss: loss, refused: refused, &workspace, &outputs)
      case .untilClose where !broken:
        response = .done
        return held == nil ? endOfResponse() : judgeHeld(&workspace, &outputs)
      case .length, .chunked, .trailers, .untilClose:
        if let action = endedWithinChallenge(&workspace, &outputs) { return action }
        if held != nil {
          if let action = rejectWaiting(&workspace, &outputs) { return action }
          let detail = "\(responder(outputs)) closed the connection within the body of the response."
          return answer(Problem(.incompleteResponse, detail), &workspace, &outputs)
        }
        return breakOff(.upstreamBrokeOff)
      case .done:
        return endOfResponse()
      }
    case .tunnel:
      if broken { return endOfTunnel(.upstreamBrokeOff) }
      ends.insert(.upstream)
      if let fault = inspected?.inspection.upstreamEnded() { return refuseTunnel(fault, &workspace, &outputs) }
      return ends.contains(.client) ? endOfTunnel(.done) : .closeOtherWrite
    case .head, .collecting, .connecting:
      preconditionFailure("the end of an upstream that the exchange does not have")
    }
  }

  /// The upstream takes no more bytes. Its answer may still be on the way, so that only the request is given up.
  public mutating func upstreamWriteFailed(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    switch phase {
    case .exchanging:
      if keepsReplay, response == .head { return upstreamEndedBeforeResponse(&workspace, &outputs) }
      carrier.insert(.dropsRequest)
      endUploadPace()
      outputs.toUpstream.removeAll()
      pacedBody = ByteBuffer()
      spooled = nil
      return .read
    case .tunnel:
      // Its last words may be on the way: it is read to its end.
      carrier.insert(.dropsRequest)
      endUploadPace()
      outputs.toUpstream.removeAll()
      return .read
    case .head, .collecting, .connecting:
      preconditionFailure("a write to an upstream that the exchange does not have")
    }
  }

  private mutating func upstreamEndedBeforeResponse(
    alert: String? = nil, loss: String? = nil, refused: Bool = false, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action {
    let mayRetry =
      refused
      ? !record.isRetried && !outputs.replay.isEmpty : carrier.contains(.isReused) && carrier.contains(.mayRetry)
    if mayRetry, hop.informational.isUntouched {
      // RFC 9112, 9.3.1: once, on a new connection, for the method is idempotent and nothing came back; or nothing was done.
      carrier.remove([.mayRetry, .dropsRequest])
      record.isRetried = true
      workspace.pool.reclaim(&outputs.toUpstream)
      swap(&outputs.toUpstream, &outputs.replay)
      phase = .connecting
      return .reconnect
    }
    if let alert {
      return answer(
        Problem(.tlsAlert, "\(destination(outputs)) ended the TLS connection with an alert (\(alert))."), &workspace,
        &outputs)
    }
    if let loss {
      return answer(Problem(.connectionClosed, "\(destination(outputs)): \(loss)."), &workspace, &outputs)
    }
    let what = carrier.contains(.isReused) ? "a kept connection" : "the connection"
    return answer(
      Problem(.connectionClosed, "\(responder(outputs)) closed \(what) before the head of a response was complete."),
      &workspace, &outputs)
  }
}
