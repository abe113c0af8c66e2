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
// This file has the state and the events. The way of a request is in RequestPath.swift, that of a response in
// ResponsePath.swift, and how an exchange ends in ExchangeEnds.swift. What these decide by and write with are types of
// their own: Ruling, ResponseCheck, RequestHeadWriter, ResponseHeadWriter, InspectedTunnel, HeldBody,
// ChallengedRequest.
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

  private let byAddress = ByAddress()
  var phase = Phase.head
  public internal(set) var record = ExchangeRecord()
  /// The policy in force when the current exchange began.
  public internal(set) var policy: Policy
  public var client = ClientSide()
  var request = RequestSide()
  public internal(set) var upstream = UpstreamSide()
  var response = ResponseSide()
  var bodies = ExchangeBodies()
  public internal(set) var tunnel = TunnelSide()
  var times: ExchangeTimes

  /// Lends the record. Reading it as a property would copy it and count a dozen references.
  public borrowing func withRecord(_ body: (borrowing ExchangeRecord) -> Void) { body(record) }

  /// No exchange yet.
  init(policy: Policy, now: Int64) {
    self.policy = policy
    times = ExchangeTimes(lastProgress: now)
  }

  /// The head of a request has arrived on a connection described by `origin`. This changes an exchange in place, which
  /// saves the copy of a new one.
  mutating func begin(
    by current: Policy, of origin: borrowing RequestOrigin, now: Int64, in workspace: inout Workspace
  ) {
    policy = current
    times.lastProgress = now
    tunnel.interior = origin.interior
    if origin.isLast { client.terms.insert(.isLast) }
    tunnel.isUnchecked = origin.tunnelIsUnchecked
    record.reference = workspace.nextReference()
    record.sender.client = origin.client
    record.sender.wire = origin.wire
    client.address = origin.address
    record.sender.program = origin.program
    if origin.interior != nil { record.sender.credential = origin.credential }
    record.times.begun = now
    record.times.begunMicroseconds = workspace.turnMicroseconds
    record.times.begunWall = workspace.wallMilliseconds
  }

  /// A tunnel of an earlier process, under this process's policy. Waiting bytes are in `outputs` again. It gets the
  /// pace of the rule in force when the caller reports its link with `beginPace`.
  init(
    resuming state: TunnelState, policy: Policy, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) {
    self.init(policy: policy, now: now)
    let rule = state.rule.flatMap { name in policy.rules.firstIndex { $0.name == name } }
    record = ExchangeRecord(resuming: state, rule: rule, now: now)
    phase = .tunnel
    upstream.port = state.port
    times.lastProgress = min(state.lastProgress, now)
    if !state.flags.contains(.isUpgrade) { request.traits.insert(.isTunnel) }
    if state.flags.contains(.dropsRequest) { upstream.carrier.insert(.dropsRequest) }
    if state.ends.contains(.clientEnded) { tunnel.ends.insert(.client) }
    if state.ends.contains(.upstreamEnded) { tunnel.ends.insert(.upstream) }
    if rule == nil { tunnel.formerRule = state.rule }
    if let decision = record.ruled.decision { bodies.pacing = policy.request(of: decision).throttle.map { Pacing($0) } }
    outputs.resume(state, &workspace.pool)
  }

  // MARK: What it is

  /// What the policy says of it.
  public var ruling: Ruling { Ruling(policy: policy, decision: record.ruled.decision) }

  /// The name of the rule that decided it, even if the policy in force no longer has it.
  public var ruleName: String? { ruling.rule?.name ?? tunnel.formerRule }

  /// The sender, as rules see it.
  public var sender: Sender {
    Sender(
      client: record.sender.client, address: client.address, proxyUser: record.sender.proxyUser,
      program: record.sender.program)
  }

  public var isTunnel: Bool { request.traits.contains(.isTunnel) || phase == .tunnel }
  public var isGRPC: Bool { request.traits.contains(.isGRPC) }
  public var isInTunnel: Bool { phase == .tunnel }
  /// Whether the upload pauses to keep the pace that its rule sets.
  public var isPaused: Bool { phase == .exchanging && uploadRests }
  public var isCollecting: Bool { phase == .collecting }
  public var isConnecting: Bool { phase == .connecting }
  /// Whether the request is sent again if its connection turns out to be dead.
  public var keepsReplay: Bool { upstream.keepsReplay }
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
  /// Whether the connection to the destination uses TLS, with the `security` of its ruling.
  public var usesTLS: Bool { upstream.way.contains(.isSecure) }
  /// Whether the request may share a connection with others: it does not take the connection over, and its credentials
  /// are not those of the connection.
  public var mayShareConnection: Bool {
    request.traits.isDisjoint(with: [.isTunnel, .wantsUpgrade]) && !upstream.carrier.contains(.isBound)
  }
  /// Protocols for the upstream, in order of preference; none: the rule permits none of them.
  public var protocols: [HTTPProtocol] {
    mayShareConnection ? ruling.protocols : ruling.protocols.withoutMultiplexed
  }
  /// Whether the request opens a WebSocket that may use a stream of a shared connection. The origin must support that
  /// (RFC 8441). Any other Upgrade needs a connection of HTTP/1.1.
  public var opensWebSocket: Bool {
    request.traits.contains(.wantsUpgrade) && request.upgrade == RequestSide.webSocket
      && !upstream.carrier.contains(.isBound) && ruling.protocols.includeMultiplexed
  }
  /// Whether the destination of a tunnel must be verified with the `security` of its ruling before it opens.
  public var verifiesTunnel: Bool { upstream.way.contains(.isVerified) }
  /// The target of the request, if its rule has one; nil: the host that the request names.
  var target: RuleTarget? { upstream.way.contains(.isMapped) ? ruling.rule?.target : nil }
  /// Whether the client's bytes are read and dropped, because the upstream accepts no more.
  public var dropsRequest: Bool { upstream.carrier.contains(.dropsRequest) }
  /// Whether the whole request has left, or is about to.
  public var isRequestWhole: Bool { request.progress == .done && bodies.areOut }

  /// Whether the next bytes of the upstream are the head of a response.
  public var awaitsResponseHead: Bool { phase == .exchanging && response.progress == .head }
  /// The server has to inspect the next head before the exchange does: it is the final response of an upstream.
  public var awaitsFinalHead: Bool { awaitsResponseHead && !response.traits.contains(.isDropped) }

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

  /// The final size of the request with its head, counted as in `record.traffic.bytesIn`; nil if unknown.
  public var expectedBytesIn: UInt64? { isTunnel ? nil : request.progress.expectedBytes(after: record.traffic.bytesIn) }

  /// Likewise for the response and `record.traffic.bytesOut`. A held response may still become another one.
  public var expectedBytesOut: UInt64? {
    isTunnel || bodies.held != nil ? nil : response.progress.expectedBytes(after: record.traffic.bytesOut)
  }

  /// The destination as the log names it, and the parent that the request was sent to.
  func peers(_ outputs: borrowing Outputs) -> PeerNames {
    PeerNames(
      destination: outputs.text.bytes.extracting(record.text.target).string,
      parent: upstream.parent.map { ($0, record.way.route ?? "-") })
  }

  // MARK: Events of the client

  /// Bytes of the client after the head. `Step.consumed` is the number that was consumed.
  mutating func clientReceived(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    switch phase {
    case .head:
      preconditionFailure("bytes of a client that has not asked")
    case .connecting:
      return Step(consumed: 0, action: .hold)
    case .collecting:
      if !bytes.isEmpty { request.traits.insert(.bodyBegun) }
      return collect(bytes, now: now, in: &workspace, to: &outputs)
    case .exchanging:
      if !bytes.isEmpty { request.traits.insert(.bodyBegun) }
      return readRequestBody(bytes, now: now, in: &workspace, to: &outputs)
    case .tunnel:
      if dropsRequest {
        clientForwarded(bytes.count, now: now)
        return Step(consumed: bytes.count, action: .read)
      }
      if let inspected = tunnel.inspected {
        let verdict = inspected.clientReceived(bytes, now: now)
        return perform(verdict, bytes, isClients: true, workspace: &workspace, outputs: &outputs)
      }
      if bytes.isEmpty { return Step(consumed: 0, action: .read) }
      let allowed = uploadAllowance(of: bytes.count)
      return Step(consumed: 0, action: allowed > 0 ? .forward(count: allowed) : .hold)
    }
  }

  /// The client has closed its sending direction. Within a request, that ends the exchange. While a response is
  /// awaited, the client may be gone, or it may have sent everything and be listening (nc, socat); only writing to it
  /// would show which. So a response is delivered as long as some of it arrives now and then. When nothing does, the
  /// upstream is released.
  mutating func clientEnded(now: Int64, in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    switch phase {
    case .head:
      preconditionFailure("the end of a client that has not asked")
    case .collecting, .connecting, .exchanging:
      if request.progress == .done {
        times.clientEnded(now: now)
        return .hold
      }
      if response.traits.contains(.hasBegun) { return breakOff(.clientLeft) }
      let detail = "The request \(MessageFault.truncated.sentence)."
      return answer(Problem(.malformedRequest, detail), in: &workspace, to: &outputs)
    case .tunnel:
      tunnel.ends.insert(.client)
      if let fault = tunnel.inspected?.clientEnded() { return refuseTunnel(fault, in: &workspace, to: &outputs) }
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
    now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    precondition(phase == .connecting, "an upstream was opened that nobody waits for")
    record.way.assurance = request.traits.contains(.isTunnel) ? assurance ?? Assurance.none : assurance
    record.way.upstream = address
    record.way.upstreamPort = port
    record.way.isReused = reused
    record.way.route = way.route
    beginPace(on: way.link, now: now)
    if way.link == .wwan, !ruling.mayUseCellular {
      record.found.report = .cellularNotAllowed
      record.found.finding = Finding("The request left by a cellular link, which the policy does not allow it.")
    }
    if let rule = record.ruled.decision?.rule,
      policy.wouldDeny(address, rule: rule, isOwn: { way.leadsHome ? true : workspace.own.contains($0) })
    {
      record.ruled.decision = Decision(verdict: .allow, reason: .ruleWouldDeny, rule: rule)
      record.found.report = .addressDenied
      record.found.finding = Finding("\(address) is an address that the rule denies.")
    }
    times.lastProgress = now
    if request.traits.contains(.isTunnel) {
      enterTunnel()
      grantTunnel(in: &workspace, to: &outputs)
      return .tunnel
    }
    phase = .exchanging
    if reused { upstream.carrier.insert(.isReused) } else { upstream.carrier.remove(.isReused) }
    record.way.upstreamWire = way.wire
    if request.traits.contains(.isGRPC), !way.wire.isMultiplexed {
      return answer(peers(outputs).needsHTTP2, in: &workspace, to: &outputs)
    }
    upstream.parent = way.parent
    bodies.challenged?.leaves(by: way)
    leave(parentLines: way.parentLines, now: now, in: &workspace, to: &outputs)
    return request.progress == .done ? .hold : .read
  }

  /// Whether the request leaves on a stream and is short so far. An origin may refuse a stream before processing it,
  /// whatever the method, and then the request goes again.
  private func mayBeRefused(_ outputs: borrowing Outputs) -> Bool {
    record.way.upstreamWire?.isMultiplexed ?? false && bodies.spooled == nil && (isRequestWhole || !pacesUpload)
      && outputs.toUpstream.count <= UpstreamSide.longestReplay
  }

  /// Another part of the body leaves. It is kept as long as the request may have to go again.
  public func keepForReplay(_ bytes: Span<UInt8>, _ replay: inout ByteBuffer, pool: inout BufferPool) {
    if replay.isEmpty { return }
    if !keepsReplay, replay.count + bytes.count > UpstreamSide.longestReplay { return pool.reclaim(&replay) }
    pool.lend(&replay, bytes.count)
    replay.append(bytes)
  }

  /// The same for the end of `outputs.toUpstream`, from this byte on.
  func keepForReplay(from begin: Int, to outputs: inout Outputs, _ pool: inout BufferPool) {
    var replay = ByteBuffer()
    swap(&replay, &outputs.replay)
    keepForReplay(outputs.toUpstream.bytes.extracting(begin...), &replay, pool: &pool)
    swap(&replay, &outputs.replay)
  }

  /// Sends the contents of `outputs.toUpstream` on the open connection. `parentLines`: see `UpstreamWay`.
  mutating func leave(
    parentLines: [UInt8], now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) {
    if keepsReplay || mayBeRefused(outputs) {
      workspace.pool.lend(&outputs.replay, outputs.toUpstream.count)
      outputs.replay.append(contentsOf: outputs.toUpstream)
    }
    // After the replay is saved, because a retry may take another route and needs another answer to the challenge.
    let credentials = bodies.challenged?.lines(
      for: outputs.toUpstream.bytes, upstream.written, of: request, mayRetry: upstream.carrier.contains(.mayRetry),
      nonces: &workspace.nonces)
    if credentials?.expectsContinue ?? false { upstream.carrier.insert(.awaitsContinue) }
    let lines = credentials?.text ?? []
    if upstream.parent != nil {
      let added = lines.isEmpty ? parentLines : lines + parentLines
      let head = ParentRequest.rewrite(&outputs.toUpstream, upstream.written, adding: added, pool: &workspace.pool)
      let line = bodies.challenged?.parentLine(for: outputs.toUpstream.bytes, head, nonces: &workspace.nonces)
      if let line { ParentRequest.insert(line, into: &outputs.toUpstream, head, pool: &workspace.pool) }
    } else if !lines.isEmpty {
      ParentRequest.insert(lines, into: &outputs.toUpstream, upstream.written, pool: &workspace.pool)
    }
    bodies.sendPaced(now: now, to: &outputs, &workspace.pool)
  }

  /// No upstream could be opened.
  public mutating func upstreamFailed(
    _ failure: UpstreamFailure, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    precondition(phase == .connecting, "an upstream failed that nobody waits for")
    if request.traits.contains(.isTunnel) { tunnel.interior = nil }
    return answer(failure.problem, in: &workspace, to: &outputs)
  }

  /// Bytes of the upstream.
  public mutating func upstreamReceived(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    switch phase {
    case .exchanging:
      return readResponse(bytes, now: now, in: &workspace, to: &outputs)
    case .tunnel:
      if let inspected = tunnel.inspected {
        let verdict = inspected.upstreamReceived(bytes)
        return perform(verdict, bytes, isClients: false, workspace: &workspace, outputs: &outputs)
      }
      return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
    case .head, .collecting, .connecting:
      preconditionFailure("bytes of an upstream that the exchange does not have")
    }
  }

  public mutating func upstreamEnded(
    _ end: UpstreamEnd, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    switch phase {
    case .exchanging:
      switch response.progress {
      case .head: return endedBeforeResponse(end, in: &workspace, to: &outputs)
      case .untilClose where end == .closed:
        response.progress = .done
        return bodies.held == nil ? endOfResponse() : judgeHeld(in: &workspace, to: &outputs)
      case .length, .chunked, .trailers, .untilClose:
        if response.traits.contains(.isDropped) { return leaveOnAnother(in: &workspace, to: &outputs) }
        if bodies.held != nil {
          if let action = rejectWaiting(in: &workspace, to: &outputs) { return action }
          let detail = "\(peers(outputs).responder) closed the connection within the body of the response."
          return answer(Problem(.incompleteResponse, detail), in: &workspace, to: &outputs)
        }
        return breakOff(.upstreamBrokeOff)
      case .done:
        return endOfResponse()
      }
    case .tunnel:
      if end != .closed { return endOfTunnel(.upstreamBrokeOff) }
      tunnel.ends.insert(.upstream)
      if let fault = tunnel.inspected?.upstreamEnded() { return refuseTunnel(fault, in: &workspace, to: &outputs) }
      return tunnel.ends.contains(.client) ? endOfTunnel(.done) : .closeOtherWrite
    case .head, .collecting, .connecting:
      preconditionFailure("the end of an upstream that the exchange does not have")
    }
  }

  /// The upstream accepts no more bytes. Its response may still be on the way, so only the request is given up.
  public mutating func upstreamWriteFailed(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    switch phase {
    case .exchanging:
      if keepsReplay, response.progress == .head { return endedBeforeResponse(.broken, in: &workspace, to: &outputs) }
      upstream.carrier.insert(.dropsRequest)
      workspace.pool.reclaim(&outputs.replay)
      endUploadPace()
      outputs.toUpstream.removeAll()
      bodies.dropUpload()
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
    awaitsResponseHead && response.informational.isUntouched
      && upstream.goesAgain(after: end, hasReplay: !outputs.replay.isEmpty)
  }

  private mutating func endedBeforeResponse(
    _ end: UpstreamEnd, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    guard goesAgain(after: end, outputs) else {
      let isReused = upstream.carrier.contains(.isReused)
      return answer(peers(outputs).problem(of: end, isReused: isReused), in: &workspace, to: &outputs)
    }
    // RFC 9112, 9.3.1: once, on a new connection. The method is idempotent and nothing came back, or nothing was
    // processed.
    upstream.carrier.remove([.mayRetry, .dropsRequest, .awaitsContinue])
    record.way.isRetried = true
    upstream.refusals += end.weightOfRefusal ?? 0
    workspace.pool.reclaim(&outputs.toUpstream)
    swap(&outputs.toUpstream, &outputs.replay)
    phase = .connecting
    return .reconnect
  }

  // MARK: Bytes that the server moved

  /// The server has moved `count` bytes of this side unchanged, after `.forward` or on its own.
  public mutating func clientForwarded(_ count: Int, now: Int64) {
    noteQuiet(until: now)
    times.lastProgress = now
    record.traffic.bytesIn &+= UInt64(count)
    bodies.pacing?.upload?.spent(count, now: now)
    if phase == .exchanging {
      request.traits.insert(.bodyBegun)
      request.progress.moved(count)
    }
  }

  public mutating func upstreamForwarded(_ count: Int, now: Int64) {
    progressed(now: now)
    record.traffic.bytesOut &+= UInt64(count)
    if phase == .exchanging { response.progress.moved(count) }
  }

  /// Waiting bytes have left, or some of a response has come: the connection is alive, however slow.
  public mutating func progressed(now: Int64) {
    noteQuiet(until: now)
    times.progressed(now: now)
  }

  /// Whether both directions are done: to be checked after forwarding.
  public mutating func endIfComplete() -> Action? {
    if let inspected = tunnel.inspected, inspected.endsAfterForward { return endOfTunnel(.done) }
    return phase == .exchanging && response.progress == .done ? endOfResponse() : nil
  }

  // MARK: What the server found out

  /// A parent is connected, by a route: its next message may be its last.
  public mutating func noteParent(_ address: IPAddress, port: UInt16, route: String) {
    record.way.route = route
    record.way.upstream = address
    record.way.upstreamPort = port
  }

  /// The route that was tried last gave no connection.
  public mutating func noteRefused(route: String) { if record.way.route == nil { record.way.route = route } }

  public mutating func noteReport(_ kind: Problem.Kind, _ finding: Finding?, isForgiven: Bool) {
    record.found.report = kind
    record.found.finding = finding
    record.found.isForgiven = isForgiven
  }

  /// How long the name look-up, the connecting, and the TLS handshake took, in microseconds.
  public mutating func noteNameTime(_ microseconds: Int64) { record.times.nameMicroseconds = microseconds }
  public mutating func noteConnectTime(_ microseconds: Int64) {
    record.times.connectMicroseconds = microseconds
    noteTime(microseconds / 1000, of: .connect)
  }
  public mutating func noteTLSTime(_ microseconds: Int64) {
    record.times.tlsMicroseconds = microseconds
    noteTime(microseconds / 1000, of: .tlsHandshake)
  }

  // MARK: The cache

  /// What the rule stores of its responses; nil: nothing, or this request is not cacheable: its credentials belong to a
  /// connection, or something in it depends on an earlier response of the origin.
  public var cacheRule: CacheRule? {
    guard let decision = record.ruled.decision, let rule = policy.cache(of: decision), request.isForCache,
      !upstream.carrier.contains(.isBound), bodies.challenged == nil
    else { return nil }
    return rule
  }

  /// Whether its success invalidates what is stored for its URL, under whichever rule (RFC 9111, 4.4).
  public func mayInvalidate(_ outputs: borrowing Outputs) -> Bool {
    request.isForCache && !CachedExchange.isSafe(outputs.text.bytes.extracting(record.text.method))
  }

  /// How many bytes at the end of the target are the parameters that the rule adds.
  public func addedQueryBytes(_ outputs: borrowing Outputs) -> Int {
    let query = ruling.serialization?.query(for: outputs.text.bytes.extracting(record.text.method)) ?? []
    return query.isEmpty ? 0 : query.count + 1
  }

  /// The URL that the request is sent to. Its head is in `outputs`. The port is the one that is connected to: inside a
  /// tunnel, a Host without a port means the tunnel's.
  public func effectiveURL(_ outputs: borrowing Outputs) -> [UInt8] {
    upstream.written.url(outputs.toUpstream.bytes, usesTLS ? .https : .http, port: upstream.port)
  }

  /// The URL as the client asked for it, for people: without what the rule adds.
  public func shownURL(_ outputs: borrowing Outputs) -> [UInt8] {
    outputs.text.bytes.extracting(record.text.target).array + request.query
  }

  /// The value of Cache-Status for the exchange (RFC 9211), without the name of the cache: `hit; ttl=30`.
  public mutating func noteCache(_ result: CacheResult?, status: String) {
    record.answer.cache = result
    response.cacheStatus = status
  }

  /// The response comes from a source of the proxy's own, such as the store: nothing is sent, and what follows is read
  /// as an upstream's response. `isFetched`: it was fetched for this request, or for another one meanwhile, and keeps
  /// the pace of its rule towards the client.
  public mutating func answeredWithoutUpstream(
    isFetched: Bool, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) {
    precondition(phase == .connecting || phase == .exchanging, "an answer for an exchange that does not wait")
    phase = .exchanging
    upstream.carrier.remove([.isReused, .mayRetry])
    workspace.pool.reclaim(&outputs.toUpstream)
    workspace.pool.reclaim(&outputs.replay)
    upstream.parent = nil
    // What was stored before leaves at once, whatever the pace of its rule.
    if isFetched { endUploadPace() } else { bodies.pacing = nil }
    times.lastProgress = now
  }

  /// The upstream's response is of no use: the request is sent again, without the condition that the cache added.
  public mutating func askAgain(_ head: [UInt8], in workspace: inout Workspace, to outputs: inout Outputs) {
    precondition(phase == .exchanging && response.progress == .head, "an answer has begun")
    workspace.pool.reclaim(&outputs.toUpstream)
    workspace.pool.reclaim(&outputs.replay)
    workspace.pool.lend(&outputs.toUpstream, head.count)
    outputs.toUpstream.append(head)
    phase = .connecting
  }
}
