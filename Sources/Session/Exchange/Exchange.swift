// One request and its response, or one tunnel: a state machine without I/O. The head of a request creates it; it is
// dropped when everything is over. The session handles what comes before and after it on the connection.
//
// Events come in as calls, each with the time. Each call returns an `Action`; bytes to be sent are in `Outputs`. The
// server performs the action and delivers the next event.
//
//   head → (decide) → connecting → exchanging → end
//      │ (collect a body that is to be re-written) ↗
//      └ problem ────────────────────────────→ end
//   head → (decide) → connecting → tunnel → end        CONNECT, and Upgrade by way of exchanging
//   head → (decide) → connecting → exchanging → end    intercepted CONNECT; each request inside is another exchange
//
// Input that a call does not consume is presented again, with more after it. Content of known length is not copied: the
// exchange returns `.forward(n)` and the server moves n bytes unchanged.
//
// Tested by playbooks in SessionTests: the whole conversation at once, byte by byte, and with trailing data.

import Bytes
import HTTP1
import Policy
import Security
import Serialization

public struct Exchange: ~Copyable {
  enum Phase {
    /// No request has begun, or its head has just arrived.
    case head
    case collecting, connecting, exchanging, tunnel
  }

  /// The state of one direction of an exchange.
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
  public internal(set) var record = ExchangeRecord()
  /// The policy in force when the current exchange began.
  public internal(set) var policy: Policy
  public var client = ClientSide()
  var request = RequestSide()
  public internal(set) var upstream = UpstreamSide()
  var response = ResponseSide()
  var bodies = Bodies()
  public internal(set) var tunnel = TunnelSide()
  var times: Times

  /// Lends the record. Reading it as a property would copy it and count a dozen references.
  public borrowing func withRecord(_ body: (borrowing ExchangeRecord) -> Void) { body(record) }

  /// No exchange yet.
  init(policy: Policy, now: Int64) {
    self.policy = policy
    times = Times(lastProgress: now)
  }

  /// The head of a request has arrived on a connection described by `origin`. This changes an exchange in place, which
  /// saves the copy of a new one.
  mutating func begin(
    by current: Policy, of origin: borrowing RequestOrigin, now: Int64, _ workspace: inout Workspace
  ) {
    policy = current
    times.lastProgress = now
    tunnel.interior = origin.interior
    if origin.isLast { client.terms.insert(.isLast) }
    tunnel.isUnchecked = origin.tunnelIsUnchecked
    record.reference = workspace.references.take()
    record.client = origin.client
    record.wire = origin.wire
    client.address = origin.address
    record.program = origin.program
    if origin.interior != nil { record.credential = origin.credential }
    record.begun = now
    record.begunMicroseconds = workspace.turnMicroseconds
    record.begunWall = workspace.wallMilliseconds
  }

  /// The sender, as rules see it.
  public var sender: Sender {
    Sender(client: record.client, address: client.address, proxyUser: record.proxyUser, program: record.program)
  }

  public var isTunnel: Bool { request.traits.contains(.isTunnel) || phase == .tunnel }
  public var isGRPC: Bool { request.traits.contains(.isGRPC) }
  public var isInTunnel: Bool { phase == .tunnel }
  /// Whether the upload pauses to keep the pace that its rule sets.
  public var isPaused: Bool { phase == .exchanging && uploadRests }
  public var isCollecting: Bool { phase == .collecting }
  public var isConnecting: Bool { phase == .connecting }
  /// Whether a dead connection costs only a retry, so it need not be checked before reuse.
  public var mayRetry: Bool { upstream.carrier.contains(.mayRetry) }
  /// Whether the request is sent again if its connection turns out to be dead.
  public var keepsReplay: Bool { upstream.carrier.contains(.isReused) && upstream.carrier.contains(.mayRetry) }
  /// Whether the response is awaited or under way, and nothing more is expected of the client.
  public var awaitsOnlyUpstream: Bool { (phase == .exchanging || phase == .connecting) && request.progress == .done }
  /// Whether bytes of the client can be used now.
  var wantsClientBytes: Bool {
    switch phase {
    case .head, .connecting: false
    case .collecting: request.progress != .done && bodies.spooled?.move != .writing
    case .exchanging: request.progress != .done && !uploadRests && !upstream.carrier.contains(.awaitsContinue)
    case .tunnel: !uploadRests
    }
  }
  /// Whether the connection to the destination uses TLS, with the policy of `security`.
  public var usesTLS: Bool { upstream.way.contains(.isSecure) }
  /// Whether the request may share a connection with others: it does not take the connection over, and its credentials
  /// are not those of the connection.
  public var mayShareConnection: Bool {
    request.traits.isDisjoint(with: [.isTunnel, .wantsUpgrade]) && !upstream.carrier.contains(.isBound)
  }
  /// Protocols for the upstream, in order of preference; none: the rule permits none of them.
  public var protocols: [HTTPProtocol] {
    let allowed = rule?.protocols ?? HTTPProtocol.allCases
    return mayShareConnection ? allowed : allowed.filter { $0 != .http2 }
  }
  /// Whether the request opens a WebSocket that may use a stream of a shared connection. The origin must support that
  /// (RFC 8441). Any other Upgrade needs a connection of HTTP/1.1.
  public var opensWebSocket: Bool {
    request.traits.contains(.wantsUpgrade) && request.upgrade == Self.webSocket && !upstream.carrier.contains(.isBound)
      && (rule?.protocols ?? HTTPProtocol.allCases).contains(.http2)
  }
  /// In lower case, as `askedProtocol` is.
  static let webSocket = Array("websocket".utf8)
  /// Whether the destination of a tunnel must be verified with the policy of `security` before it opens.
  public var verifiesTunnel: Bool { upstream.way.contains(.isVerified) }
  /// The security policy of the current exchange.
  public var security: SecurityPolicy { record.decision.map { policy.security(of: $0) } ?? policy.defaultSecurity }
  /// Whether the current exchange may use a cellular link.
  public var allowsCellularAccess: Bool { !enforces || mayUseCellular }
  private var mayUseCellular: Bool { rule?.request.allowsCellularAccess ?? policy.defaultRequest.allowsCellularAccess }
  /// How packets of the current exchange are marked towards the destination.
  public var serviceType: ServiceType {
    rule?.request.serviceType ?? policy.defaultRequest.serviceType
  }
  /// Whether violations of the security policy are refused, and not only reported.
  public var enforces: Bool { rule?.enforce ?? true }
  /// The rule that decided the current exchange.
  public var rule: Rule? { record.decision?.rule.map { policy.rules[$0] } }

  /// Whether the next bytes of the upstream are the head of a response.
  public var awaitsResponseHead: Bool { phase == .exchanging && response.progress == .head }

  /// Number of content bytes that will pass unchanged from the upstream. The server uses it to choose how to move them.
  public var unchangedResponseBytes: UInt64 {
    if bodies.held != nil || response.traits.contains(.isDropped) || pacesDownload { return 0 }
    return switch response.progress {
    case .length(let remaining): remaining
    case .untilClose: .max
    case .head, .chunked, .trailers, .done: 0
    }
  }

  public var unchangedRequestBytes: UInt64 {
    if case .length(let remaining) = request.progress,
      upstream.carrier.isDisjoint(with: [.dropsRequest, .awaitsContinue]), !pacesUpload
    {
      return remaining
    }
    return 0
  }

  // MARK: Events of the client

  /// Bytes of the client after the head. `Step.consumed` is the number that was consumed.
  mutating func clientReceived(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch phase {
    case .head:
      preconditionFailure("bytes of a client that has not asked")
    case .connecting:
      return Step(consumed: 0, action: .hold)
    case .collecting:
      if !bytes.isEmpty { request.traits.insert(.bodyBegun) }
      return collect(bytes, now: now, &workspace, &outputs)
    case .exchanging:
      if !bytes.isEmpty { request.traits.insert(.bodyBegun) }
      return readRequestBody(bytes, now: now, &workspace, &outputs)
    case .tunnel:
      if upstream.carrier.contains(.dropsRequest) {
        clientForwarded(bytes.count, now: now)
        return Step(consumed: bytes.count, action: .read)
      }
      if let inspected = tunnel.inspected { return inspect(client: bytes, inspected, now: now, &workspace, &outputs) }
      if bytes.isEmpty { return Step(consumed: 0, action: .read) }
      let allowed = bodies.pacing?.upload?.allowance(of: bytes.count) ?? bytes.count
      return Step(consumed: 0, action: allowed > 0 ? .forward(count: allowed) : .hold)
    }
  }

  /// The client has closed its sending direction. Within a request, that ends the exchange. While a response is
  /// awaited, the client may be gone, or it may have sent everything and be listening (nc, socat); only writing to it
  /// would show which. So a response is delivered as long as some of it arrives now and then. When nothing does, the
  /// upstream is released.
  mutating func clientEnded(now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    switch phase {
    case .head:
      preconditionFailure("the end of a client that has not asked")
    case .collecting, .connecting, .exchanging:
      if request.progress == .done {
        times.clientGoneAt = now + Self.halfClosedMilliseconds
        return .hold
      }
      if response.traits.contains(.hasBegun) { return breakOff(.clientLeft) }
      let detail = "The request \(MessageFault.truncated.sentence)."
      return answer(Problem(.malformedRequest, detail), &workspace, &outputs)
    case .tunnel:
      tunnel.ends.insert(.client)
      if let inspected = tunnel.inspected, inspected.beginning == nil, let fault = inspected.inspection.clientEnded() {
        return refuseTunnel(fault, &workspace, &outputs)
      }
      return tunnel.ends.contains(.upstream) ? endOfTunnel(.done) : .closeOtherWrite
    }
  }

  /// The client's connection is broken: nothing can be sent to it any more.
  mutating func clientFailed() -> Action {
    phase == .tunnel ? endOfTunnel(.clientLeft) : breakOff(.clientLeft)
  }

  // MARK: Events of the upstream

  /// A connection to the destination is open. The bytes prepared for it are in `outputs.toUpstream`.
  public mutating func upstreamOpened(
    reused: Bool, address: IPAddress, port: UInt16, by way: UpstreamWay = .direct, assurance: Assurance? = nil,
    now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    precondition(phase == .connecting, "an upstream was opened that nobody waits for")
    record.assurance = request.traits.contains(.isTunnel) ? assurance ?? Assurance.none : assurance
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
    times.lastProgress = now
    if request.traits.contains(.isTunnel) {
      enterTunnel()
      times.lastProgress = now
      record.status = 200
      grantTunnel(&workspace, &outputs)
      return .tunnel
    }
    phase = .exchanging
    if reused { upstream.carrier.insert(.isReused) } else { upstream.carrier.remove(.isReused) }
    record.upstreamWire = way.wire
    if request.traits.contains(.isGRPC), way.wire == .http11 {
      return answer(needsHTTP2(outputs), &workspace, &outputs)
    }
    upstream.parent = way.parent
    bodies.challenged?.parentLines = way.parent == nil ? nil : way.parentLines
    if let challenged = bodies.challenged, challenged.parent?.place != way.digest?.place {
      challenged.parent = way.digest
    }
    leave(parentLines: way.parentLines, now: now, &workspace, &outputs)
    return request.progress == .done ? .hold : .read
  }

  /// Whether the request leaves on a stream and is short so far. An origin may refuse a stream before processing it,
  /// whatever the method, and then the request goes again.
  private func mayBeRefused(_ outputs: borrowing Outputs) -> Bool {
    record.upstreamWire == .http2 && bodies.spooled == nil && (isRequestWhole || !pacesUpload)
      && outputs.toUpstream.count <= Self.longestReplay
  }

  /// Longest request, in bytes of HTTP/1.1, that is sent again after its origin refused the stream. A client rarely
  /// sends more before a refusal can arrive, and each upload that waits for its response may keep this much in memory.
  static let longestReplay = 32 << 10

  /// Another part of the body leaves. It is kept as long as the request may have to go again.
  public func keepForReplay(_ bytes: Span<UInt8>, _ replay: inout ByteBuffer, _ pool: inout BufferPool) {
    if replay.isEmpty { return }
    if !keepsReplay, replay.count + bytes.count > Self.longestReplay { return pool.reclaim(&replay) }
    pool.lend(&replay, bytes.count)
    replay.append(bytes)
  }

  /// The same for the end of `outputs.toUpstream`, from this byte on.
  func keepForReplay(from begin: Int, _ outputs: inout Outputs, _ pool: inout BufferPool) {
    var replay = ByteBuffer()
    swap(&replay, &outputs.replay)
    keepForReplay(outputs.toUpstream.bytes.extracting(begin...), &replay, &pool)
    swap(&replay, &outputs.replay)
  }

  /// The most that refusals of one request may weigh in total (`weightOfRefusal`): four refusals of streams that were
  /// opened, or more of streams that were not. An origin that ends each connection after a number of requests may
  /// several times refuse a request that is only waiting for its turn. One that refuses all would otherwise be asked
  /// forever.
  static let mostRefusals = 32

  /// Sends the contents of `outputs.toUpstream` on the open connection. `parentLines`: see `UpstreamWay`.
  mutating func leave(
    parentLines: [UInt8], now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    if upstream.carrier.contains(.isReused) && upstream.carrier.contains(.mayRetry) || mayBeRefused(outputs) {
      workspace.pool.lend(&outputs.replay, outputs.toUpstream.count)
      outputs.replay.append(contentsOf: outputs.toUpstream)
    }
    // After the replay is saved, because a retry may take another route and needs another answer to the challenge.
    let lines = challengeLines(&workspace, outputs)
    if upstream.parent != nil {
      let added = lines.isEmpty ? parentLines : lines + parentLines
      let head = ParentRequest.rewrite(&outputs.toUpstream, upstream.written, adding: added, &workspace.pool)
      addParentLine(to: head, &workspace, &outputs)
    } else if !lines.isEmpty {
      ParentRequest.insert(lines, into: &outputs.toUpstream, upstream.written, &workspace.pool)
    }
    sendPaced(now: now, &workspace, &outputs)
  }

  /// The proxy can act as the host: the tunnel is granted, and no upstream is opened before a request arrives.
  public mutating func interiorOpened(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    precondition(phase == .connecting && tunnel.interior != nil, "a tunnel was opened that nobody waits for")
    phase = .exchanging
    request.progress = .done
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

  /// From here on bytes go both ways. A rule's time for the whole exchange ends here. A client that has sent everything
  /// still receives the rest of the tunnel.
  mutating func enterTunnel() {
    phase = .tunnel
    tunnel.ends = []
    times.exchangeDeadline = .max
    times.clientGoneAt = .max
  }

  /// No upstream could be opened.
  public mutating func upstreamFailed(
    _ failure: UpstreamFailure, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    precondition(phase == .connecting, "an upstream failed that nobody waits for")
    if request.traits.contains(.isTunnel) { tunnel.interior = nil }
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
      if let inspected = tunnel.inspected { return inspect(upstream: bytes, inspected, &workspace, &outputs) }
      return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
    case .head, .collecting, .connecting:
      preconditionFailure("bytes of an upstream that the exchange does not have")
    }
  }

  public mutating func upstreamEnded(
    _ end: UpstreamEnd, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    switch phase {
    case .exchanging:
      switch response.progress {
      case .head: return endedBeforeResponse(end, &workspace, &outputs)
      case .untilClose where end == .closed:
        response.progress = .done
        return bodies.held == nil ? endOfResponse() : judgeHeld(&workspace, &outputs)
      case .length, .chunked, .trailers, .untilClose:
        if let action = endedWithinChallenge(&workspace, &outputs) { return action }
        if bodies.held != nil {
          if let action = rejectWaiting(&workspace, &outputs) { return action }
          let detail = "\(responder(outputs)) closed the connection within the body of the response."
          return answer(Problem(.incompleteResponse, detail), &workspace, &outputs)
        }
        return breakOff(.upstreamBrokeOff)
      case .done:
        return endOfResponse()
      }
    case .tunnel:
      if end != .closed { return endOfTunnel(.upstreamBrokeOff) }
      tunnel.ends.insert(.upstream)
      if let fault = tunnel.inspected?.inspection.upstreamEnded() { return refuseTunnel(fault, &workspace, &outputs) }
      return tunnel.ends.contains(.client) ? endOfTunnel(.done) : .closeOtherWrite
    case .head, .collecting, .connecting:
      preconditionFailure("the end of an upstream that the exchange does not have")
    }
  }

  /// The upstream accepts no more bytes. Its response may still be on the way, so only the request is given up.
  public mutating func upstreamWriteFailed(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    switch phase {
    case .exchanging:
      if keepsReplay, response.progress == .head { return endedBeforeResponse(.broken, &workspace, &outputs) }
      upstream.carrier.insert(.dropsRequest)
      workspace.pool.reclaim(&outputs.replay)
      endUploadPace()
      outputs.toUpstream.removeAll()
      dropUpload()
      bodies.spooled = nil
      return .read
    case .tunnel:
      // Its last bytes may be on the way: it is read to its end.
      upstream.carrier.insert(.dropsRequest)
      endUploadPace()
      outputs.toUpstream.removeAll()
      return .read
    case .head, .collecting, .connecting:
      preconditionFailure("a write to an upstream that the exchange does not have")
    }
  }

  /// Whether the request is sent again after this end of its upstream.
  public func goesAgain(after end: UpstreamEnd, _ outputs: borrowing Outputs) -> Bool {
    guard awaitsResponseHead, response.informational.isUntouched else { return false }
    return switch end {
    case .closed, .broken, .alert, .lost: keepsReplay
    case .refused: upstream.refusals + (end.weightOfRefusal ?? 0) <= Self.mostRefusals && !outputs.replay.isEmpty
    // The origin is there, and has seen the request.
    case .malformed, .reset: false
    }
  }

  private mutating func endedBeforeResponse(
    _ end: UpstreamEnd, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard goesAgain(after: end, outputs) else { return answer(problem(of: end, outputs), &workspace, &outputs) }
    // RFC 9112, 9.3.1: once, on a new connection. The method is idempotent and nothing came back, or nothing was
    // processed.
    upstream.carrier.remove([.mayRetry, .dropsRequest, .awaitsContinue])
    record.isRetried = true
    upstream.refusals += end.weightOfRefusal ?? 0
    workspace.pool.reclaim(&outputs.toUpstream)
    swap(&outputs.toUpstream, &outputs.replay)
    phase = .connecting
    return .reconnect
  }

  private func problem(of end: UpstreamEnd, _ outputs: borrowing Outputs) -> Problem {
    switch end {
    case .alert(let alert):
      return Problem(.tlsAlert, "\(destination(outputs)) ended the TLS connection with an alert (\(alert)).")
    case .lost(let reason): return Problem(.connectionClosed, "\(destination(outputs)): \(reason).")
    case .malformed:
      return Problem(
        .malformedResponse, "The response of \(respondent(outputs)) is no message of HTTP/2 (RFC 9113, 8.1.1).")
    case .reset(let code):
      return Problem(
        .connectionClosed,
        "\(responder(outputs)) reset the stream (\(code)) before the head of a response was complete.")
    case .closed, .broken, .refused:
      let what = upstream.carrier.contains(.isReused) ? "a kept connection" : "the connection"
      return Problem(
        .connectionClosed, "\(responder(outputs)) closed \(what) before the head of a response was complete.")
    }
  }
}
