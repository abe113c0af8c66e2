// The way of a request through an exchange: its head is checked, decided and prepared; its body streams, or is
// collected first; and it leaves once its way is known.

import Bytes
import HTTP1
import Policy
import Serialization

extension Exchange {
  /// The head in `workspace.request` is the first `count` of these bytes. Returns what to do next, and how much of the
  /// bytes after the head has been used.
  mutating func headReceived(
    _ bytes: Span<UInt8>, headBytes count: Int, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    let action =
      workspace.request.holdsRawPath
      ? beginEncoded(bytes, headBytes: count, now: now, in: &workspace, to: &outputs)
      : begin(bytes, headBytes: count, received: count, isEncoded: false, now: now, in: &workspace, to: &outputs)
    if request.progress == .head { return Step(consumed: bytes.count, action: action) }
    if count < bytes.count { request.traits.insert(.bodyBegun) }
    guard phase == .collecting else { return Step(consumed: count, action: action) }
    let step = collect(bytes.extracting(count..<bytes.count), now: now, in: &workspace, to: &outputs)
    return Step(consumed: count + step.consumed, action: step.action)
  }

  /// The head cannot be read, or must not be: `bytes` are all of it or its beginning.
  mutating func headRefused(
    _ bytes: Span<UInt8>, _ problem: Problem, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    noteReadable(bytes, in: &workspace, to: &outputs)
    return refuse(problem, bytesIn: bytes.count, in: &workspace, to: &outputs)
  }

  /// The first `headBytes` of `bytes` are a head whose path contains bytes above 0x7F. See RawPath.swift.
  private mutating func beginEncoded(
    _ bytes: Span<UInt8>, headBytes: Int, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    var head = ByteBuffer()
    RawPath.encode(bytes.extracting(0..<headBytes), path: workspace.request.path, to: &head)
    let progress = workspace.request.read(head.bytes, limits: ruling.headLimits, isInTunnel: tunnel.interior != nil)
    if case .complete(let count) = progress {
      return begin(
        head.bytes, headBytes: count, received: headBytes, isEncoded: true, now: now, in: &workspace, to: &outputs)
    }
    // It can only be too long: everything else in it has been read before.
    let detail = "The request \(MessageFault.headTooLarge.sentence) once its path is percent-encoded."
    return refuse(Problem(.headTooLarge, detail), bytesIn: bytes.count, in: &workspace, to: &outputs)
  }

  // MARK: The head

  /// The head is complete: checks it, decides, and prepares what is sent. It was received as `received` bytes;
  /// `isEncoded`: the proxy has encoded its path.
  private mutating func begin(
    _ bytes: Span<UInt8>, headBytes: Int, received: Int, isEncoded: Bool, now: Int64, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) -> Action {
    record.traffic.bytesIn = UInt64(received)
    times.lastProgress = now
    noteHead(bytes, in: &workspace, to: &outputs)
    if let problem = judge(bytes, in: &workspace) { return answer(problem, in: &workspace, to: &outputs) }
    if workspace.request.form == .asterisk && tunnel.interior == nil || workspace.request.maxForwards(bytes) == 0 {
      // No rule decides, so none accepts the path.
      if isEncoded { return answer(.rawPath, in: &workspace, to: &outputs) }
      return answerForItself(bytes, in: &workspace, to: &outputs)
    }
    let decision = decide(bytes, in: &workspace)
    let isTunnel = request.traits.contains(.isTunnel)
    if decision.verdict == .deny {
      let denial = ruling.denial(of: request.question, isTunnel: isTunnel, port: upstream.port)
      return answer(denial, in: &workspace, to: &outputs)
    }
    if isEncoded, !policy.request(of: decision).encodesPath { return answer(.rawPath, in: &workspace, to: &outputs) }
    if let problem = mapRequest(bytes, decision, in: &workspace) {
      return answer(problem, in: &workspace, to: &outputs)
    }
    noteSecurity(decision, in: &workspace)
    if let address = workspace.decisions.host.address, let problem = ruling.refusal(of: address, workspace.own) {
      return answer(problem, in: &workspace, to: &outputs)
    }
    let edits = policy.request(of: decision)
    noteRuling(bytes, edits, decision: decision, now: now, in: &workspace)
    if isTunnel {
      phase = .connecting
      return policy.treatment(of: decision) == .intercept ? intercept(bytes, in: workspace) : .connect
    }
    if let name = workspace.request.requestedUpgrade(bytes),
      let problem = enforced(ruling.refusal(ofUpgradeTo: bytes.extracting(name)))
    {
      return answer(problem, in: &workspace, to: &outputs)
    }
    return prepare(bytes, headBytes: headBytes, edits, in: &workspace, to: &outputs)
  }

  /// A problem that its rule finds; nil: none, or the rule is not enforced, and it is only recorded.
  mutating func enforced(_ problem: Problem?) -> Problem? {
    guard let problem else { return nil }
    if ruling.enforces { return problem }
    record.report(problem)
    return nil
  }

  /// Copies from the head what the exchange must remember after its bytes are gone.
  private mutating func noteHead(_ bytes: Span<UInt8>, in workspace: inout Workspace, to outputs: inout Outputs) {
    client.agree(to: workspace.request, bytes)
    request.note(workspace.request, bytes)
    if request.traits.contains(.isGRPC) { client.answerForm = .grpc }
    upstream.note(workspace.request, bytes)
    response.progress = .head
    record.writeText(workspace.request, bytes, interior: tunnel.interior, pool: &workspace.pool, to: &outputs.text)
  }

  /// Records what was readable in a head that is refused.
  private mutating func noteReadable(_ bytes: Span<UInt8>, in workspace: inout Workspace, to outputs: inout Outputs) {
    if workspace.request.understood == .nothing { return }
    request.noteReadable(workspace.request, bytes)
    if request.traits.contains(.isGRPC) { client.answerForm = .grpc }
    if workspace.request.understood == .target {
      record.writeText(workspace.request, bytes, interior: tunnel.interior, pool: &workspace.pool, to: &outputs.text)
    } else {
      record.writeMethod(workspace.request, bytes, pool: &workspace.pool, to: &outputs.text)
    }
  }

  /// Checks that precede all rules: credentials, host, loops.
  private mutating func judge(_ bytes: Span<UInt8>, in workspace: inout Workspace) -> Problem? {
    if let interior = tunnel.interior {
      // Credentials for the proxy came with CONNECT.
      let changed =
        tunnel.isUnchecked
        ? interior.problem(openedBy: sender, with: record.sender.credential, policy, in: &workspace) : nil
      if let problem = changed ?? interior.misdirection(bytes, in: &workspace) {
        client.terms.remove(.persists)
        return problem
      }
      upstream.port = interior.port
      return workspace.loopProblem(bytes)
    }
    let credentials = policy.configuration.proxy.credentials
    if !credentials.isEmpty {
      guard let known = workspace.request.fields.credential(bytes, of: credentials) else {
        return Problem(
          .authenticationRequired, "Proxy-Authorization with Basic credentials that the proxy knows was expected.")
      }
      record.sender.credential = known
    }
    if workspace.request.form == .asterisk { return nil }
    if let fault = setHost(bytes, in: &workspace) {
      client.terms.remove(.persists)
      return Problem(.malformedRequest, "The target names a malformed host; expected \(fault.expectation).")
    }
    upstream.port = workspace.request.port ?? (workspace.request.isHTTPS ? 443 : 80)
    return workspace.loopProblem(bytes)
  }

  /// Sets the host of the request, for deciding and connecting.
  private func setHost(_ bytes: Span<UInt8>, in workspace: inout Workspace) -> HostFault? {
    let named = bytes.extracting(workspace.request.host)
    return tunnel.interior.map { $0.setHost(named, in: &workspace) } ?? workspace.decisions.host.set(named)
  }

  private func isSecure(_ head: borrowing RequestHead) -> Bool { head.isHTTPS || tunnel.interior != nil }

  /// The request with the head in `workspace`, as rules see it.
  @_lifetime(copy bytes)
  private func facts(_ bytes: Span<UInt8>, in workspace: borrowing Workspace) -> RequestFacts {
    RequestFacts(
      scheme: isSecure(workspace.request) ? .https : .http, port: upstream.port,
      method: bytes.extracting(workspace.request.method), path: bytes.extracting(workspace.request.path),
      isTunnel: request.traits.contains(.isTunnel), sender: sender, link: workspace.link,
      wall: workspace.wallMilliseconds)
  }

  /// Consults the policy and the operators' temporary decisions.
  private mutating func decide(_ bytes: Span<UInt8>, in workspace: inout Workspace) -> Decision {
    let facts = facts(bytes, in: workspace)
    let decided = workspace.decide(facts, by: policy)
    var decision = decided.decision
    record.ruled.answeredBy = decided.rule?.by
    if decision.verdict == .ask, request.traits.contains(.isTunnel) {
      decision = decision.asTunnel(connect: policy.treatment(of: decision))
    }
    record.ruled.decision = decision
    record.ruled.link = workspace.link
    switch decision.reason {
    case .ruleWouldDeny: record.found.report = .denied
    case .ruleWouldAsk: record.found.report = .unanswered
    default: break
    }
    if decision.verdict == .ask || decision.verdict == .deny && decision.isMendable {
      request.question = Question(
        AskedRequest(facts, isIntercepted: tunnel.interior != nil, in: workspace.decisions),
        path: facts.isTunnel ? nil : facts.path.string)
    }
    return decision
  }

  /// Redirects a request to its rule's target. Returns a problem if the policy objects.
  private mutating func mapRequest(
    _ bytes: Span<UInt8>, _ decision: Decision, in workspace: inout Workspace
  ) -> Problem? {
    guard ruling.rule?.target != nil, !request.traits.contains(.isTunnel) else { return nil }
    let facts = facts(bytes, in: workspace)
    guard let mapping = policy.mapping(of: decision, facts, in: &workspace.decisions) else { return nil }
    switch mapping.refusal(facts, decision, policy: policy, in: &workspace) {
    case .denied(let problem, let denial):
      record.ruled.decision = denial
      return problem
    case .reported(let problem): record.report(problem)
    case nil: break
    }
    upstream.way.insert(.isMapped)
    setMappedHost(in: &workspace)
    return nil
  }

  /// Sets the target as the host and port to connect to.
  private mutating func setMappedHost(in workspace: inout Workspace) {
    guard let target else { return }
    _ = workspace.decisions.host.set(target.name.span)
    upstream.port = target.port
  }

  /// Chooses the security of the upstream connection.
  private mutating func noteSecurity(_ decision: Decision, in workspace: inout Workspace) {
    if request.traits.contains(.isTunnel) {
      switch policy.treatment(of: decision) {
      case .verify:
        upstream.way.insert(.isVerified)
        tunnel.inspected = InspectedTunnel(verifying: workspace.decisions.host, by: ruling)
      case .tunnel:
        var opening = policy.opening(of: decision, port: upstream.port, in: &workspace.decisions)
        if workspace.temporary.deniesRequests(
          to: workspace.decisions.host, port: upstream.port, of: sender, wall: workspace.wallMilliseconds)
        {
          opening.refusesRequests = true
        }
        if !opening.isFree { tunnel.inspected = InspectedTunnel(opening, to: workspace.decisions.host, by: ruling) }
      case .intercept, .deny: break
      }
    } else if let target {
      if target.scheme == .https { upstream.way.insert(.isSecure) }
    } else if isSecure(workspace.request) {
      upstream.way.insert(.isSecure)
    } else if ruling.rule?.upgrade ?? false {
      upstream.way.insert([.isSecure, .isUpgraded])
      if upstream.port == Scheme.http.defaultPort { upstream.port = Scheme.https.defaultPort }
    }
  }

  /// Prepares what the rule says of times, cookies, challenges, pace and checks.
  private mutating func noteRuling(
    _ bytes: Span<UInt8>, _ edits: RequestPolicy, decision: Decision, now: Int64, in workspace: inout Workspace
  ) {
    let rule = ruling.rule
    if let timeout = edits.timeoutMilliseconds, rule?.enforce ?? true { times.exchangeDeadline = now + timeout }
    if ExceededTime.areReported(by: rule, edits) { response.traits.insert(.reportsTimes) }
    if !edits.cookies { response.traits.insert(.hasNoCookies) }
    if !request.traits.contains(.isTunnel) {
      bodies.challenged = ChallengedRequest.of(
        edits, by: rule, to: workspace.decisions.host, port: upstream.port,
        isSecure: upstream.way.contains(.isSecure))
    }
    if let throttle = edits.throttle { bodies.pacing = Pacing(throttle) }
    if (rule?.parents ?? .none) != .none { upstream.passedVia = workspace.request.fields.passedVia(bytes) }
    guard let checks = policy.response(of: decision) else { return }
    request.asksForPart = workspace.request.fields.contains(RequestSide.rangeName, in: bytes)
    if checks.removesNulls { client.accepts = workspace.request.fields.acceptedCodings(bytes) }
  }

  /// Starts a tunnel that the proxy will read.
  private mutating func intercept(_ bytes: Span<UInt8>, in workspace: borrowing Workspace) -> Action {
    tunnel.interior = Interior(
      host: bytes.extracting(workspace.request.host).array, port: upstream.port,
      canonicalHost: workspace.decisions.host.copiedBytes,
      mayUpgrade: ruling.rule?.upgrades?.protocols.isEmpty != true)
    return .intercept
  }

  // MARK: Preparing

  /// Prepares a request for sending: with a body from the serializer, after collecting the original one, or unchanged.
  private mutating func prepare(
    _ bytes: Span<UInt8>, headBytes: Int, _ edits: RequestPolicy, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) -> Action {
    // RFC 9110, 9.3.8: TRACE has no content, and its response echoes what it receives.
    let isEcho = EchoMethod.includes(bytes.extracting(workspace.request.method))
    if let serialization = edits.serialization, !isEcho {
      switch serialization.work(bytes, workspace.request, limits: ruling.contentLimits) {
      case .nothing: break
      case .made:
        let made = serialization.madeBody(workspace.request.fields.only(.contentType), in: bytes)
        bodies.challenged?.body = .made(made)
        let body = RequestBodyEdits(length: made.count, type: .ifAbsent(serialization.contentType))
        writeRequest(bytes, edits, body: body, in: &workspace, to: &outputs)
        bodies.sendMade(made.span, to: &outputs, &upstream.carrier)
        phase = .connecting
        return .connect
      case .held:
        let action = beginCollecting(bytes, headBytes: headBytes, in: &workspace, to: &outputs)
        bodies.held?.isForSerializer = true
        return action
      case .conflict(let conflict):
        if let problem = record.note(conflict, serialization, enforces: ruling.enforces) {
          return answer(problem, in: &workspace, to: &outputs)
        }
      }
    }
    let isBuffered = request.progress.isChunked && edits.buffersUploads
    if isBuffered { bodies.spooled = SpooledBody() }
    if isBuffered || bodies.challenged?.collects(request.progress, heldBytes: ruling.contentLimits.heldBytes) ?? false {
      return beginCollecting(bytes, headBytes: headBytes, in: &workspace, to: &outputs)
    }
    if request.progress != .done { bodies.challenged?.body = .streamed }
    writeRequest(bytes, edits, body: RequestBodyEdits(), in: &workspace, to: &outputs)
    phase = .connecting
    return .connect
  }

  private mutating func writeRequest(
    _ bytes: Span<UInt8>, _ edits: RequestPolicy, body: RequestBodyEdits, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) {
    if request.noteUpgrade(workspace.request, bytes, on: record.sender.wire) { upstream.carrier.remove(.mayRetry) }
    if cacheRule != nil {
      // If the response may be stored: people are shown the URL as it was asked for.
      let query = workspace.request.path.upperBound..<workspace.request.pathAndQuery.upperBound
      if !query.isEmpty { request.query = bytes.extracting(query).array }
    }
    let writer = RequestHeadWriter(
      wire: record.sender.wire, isHTTP10: client.terms.contains(.isHTTP10),
      isUpgraded: upstream.way.contains(.isUpgraded),
      wantsUpgrade: request.traits.contains(.wantsUpgrade), dropsConditionalRanges: ruling.removesNulls)
    upstream.written = writer.write(
      bytes, edits, body: body, target: target, interior: tunnel.interior, ending: request.namedFields,
      workspace: &workspace, to: &outputs.toUpstream)
    bodies.challenged?.keep(outputs.toUpstream, &workspace.pool)
  }

  // MARK: Collecting

  private mutating func beginCollecting(
    _ bytes: Span<UInt8>, headBytes: Int, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    let held = HeldBody(workspace.heldBytes)
    bodies.held = held
    workspace.pool.lend(&held.head, headBytes)
    held.head.append(bytes.extracting(0..<headBytes))
    // For its head. If even that is too much, a body that goes to a file is still accepted.
    guard held.account(ofAll: heldLimit) || bodies.spooled != nil else {
      return refuseToHold(in: &workspace, to: &outputs)
    }
    if request.traits.contains(.expectsContinue) {
      // RFC 9110, 10.1.1: the proxy reads the content itself, so it asks the client to send it.
      workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
      let before = outputs.toClient.count
      outputs.toClient.append("HTTP/1.1 100 Continue\r\n\r\n")
      record.countOut(outputs.toClient, from: before)
    }
    phase = .collecting
    return .read
  }

  /// Bytes of a body that is being collected.
  mutating func collect(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    times.lastProgress = now
    bodies.held?.contentCame(now: now)
    guard case .length(let remaining) = request.progress else {
      let step = readRequestBody(bytes, now: now, in: &workspace, to: &outputs)
      // This call released the body, complete or not.
      if phase == .connecting { return Step(consumed: step.consumed, action: .connect) }
      return step
    }
    let count = Int(min(remaining, UInt64(bytes.count)))
    if count == 0 { return Step(consumed: 0, action: .read) }
    if let action = collect(bytes.extracting(0..<count), in: &workspace, to: &outputs) {
      return Step(consumed: 0, action: action)
    }
    record.traffic.bytesIn &+= UInt64(count)
    request.progress.moved(count)
    if request.progress != .done { return Step(consumed: count, action: .read) }
    return Step(consumed: count, action: leaveCollected(rewritten: true, in: &workspace, to: &outputs))
  }

  /// Holds a piece of content. Returns an action if the body is not collected any longer: `.connect` means that the
  /// request leaves unchanged, with this piece after the held content.
  private mutating func collect(
    _ piece: Span<UInt8>, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action? {
    guard let held = bodies.held else { return .connect }
    let limits = ruling.contentLimits
    if bodies.spooled == nil, held.content.count + piece.count > limits.heldBytes {
      guard let serialization = ruling.serialization, held.isForSerializer, let decision = record.ruled.decision else {
        return leaveCollected(rewritten: false, in: &workspace, to: &outputs)
      }
      let conflict = serialization.tooLarge("more", limits)
      if let problem = record.note(conflict, serialization, enforces: ruling.enforces) {
        return answer(problem, in: &workspace, to: &outputs)
      }
      guard request.progress.isChunked, policy.request(of: decision).buffersUploads else {
        return leaveCollected(rewritten: false, in: &workspace, to: &outputs)
      }
      // It is sent unchanged except for its framing.
      bodies.spooled = SpooledBody()
    }
    if let spooled = bodies.spooled {
      switch spooled.take(piece, held, heldBytes: limits.heldBytes, ofAll: heldLimit, pool: &workspace.pool) {
      case .held: return nil
      case .tooLarge: return answer(SpooledBody.tooLarge, in: &workspace, to: &outputs)
      }
    }
    guard held.account(ofAll: heldLimit, adding: piece.count) else { return refuseToHold(in: &workspace, to: &outputs) }
    held.append(piece, &workspace.pool)
    return nil
  }

  /// What has been collected leaves after its head: rewritten, if it is for a serializer; with its length, if it is
  /// buffered for that; otherwise as it came, complete or with the rest of it to follow.
  private mutating func leaveCollected(
    rewritten: Bool, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    guard let held = bodies.held, let decision = record.ruled.decision else { preconditionFailure("nothing is held") }
    let edits = policy.request(of: decision)
    let isWhole = request.progress == .done
    var head = held.takeHead()
    readAgain(head.bytes, in: &workspace)
    let isChunked = workspace.request.framing == .chunked
    var bodyEdits = RequestBodyEdits(hasContinued: true)
    var body = ByteBuffer()
    if rewritten, bodies.spooled == nil, held.isForSerializer, let serialization = edits.serialization {
      let limits = ruling.contentLimits
      switch held.rewrite(by: serialization, workspace.request, head.bytes, limits: limits, to: &body) {
      case .success(let made): bodyEdits = made
      case .failure(let conflict):
        if let problem = record.note(conflict, serialization, enforces: ruling.enforces) {
          workspace.pool.reclaim(&head)
          return answer(problem, in: &workspace, to: &outputs)
        }
      }
    }
    let fileBytes = bodies.spooled?.written ?? 0
    if bodyEdits.length == nil {
      if bodies.spooled != nil || isWhole && isChunked && edits.buffersUploads {
        let length = Int(fileBytes) + held.content.count
        bodyEdits = RequestBodyEdits(length: length, hasContinued: true, isAsItCame: true)
        body = held.takeContent()
      } else {
        body = workspace.pool.take(held.content.count + held.trailers.count + ChunkedDecoder.longestSizeLine)
        held.writeAsItCame(isChunked: isChunked, isWhole: isWhole, to: &body)
      }
    }
    writeRequest(head.bytes, edits, body: bodyEdits, in: &workspace, to: &outputs)
    workspace.pool.reclaim(&head)
    phase = .connecting
    if let spooled = bodies.spooled, fileBytes > 0 {
      spooled.end(with: body)
      upstream.carrier.remove(.mayRetry)
      bodies.challenged?.body = .streamed
      held.release(&workspace.pool)
      bodies.held = nil
      return .connect
    }
    bodies.spooled = nil
    if bodyEdits.length != nil || isWhole && bodies.challenged != nil {
      bodies.sendMade(body.bytes, to: &outputs, &upstream.carrier)
    } else {
      outputs.toUpstream.append(contentsOf: body)
    }
    bodies.endCollecting(body.bytes, isWhole: isWhole, outputs, in: &workspace)
    workspace.pool.reclaim(&body)
    return .connect
  }

  /// Reads the held head again, and sets its host again. Reading it cannot fail, because it succeeded before.
  private mutating func readAgain(_ head: Span<UInt8>, in workspace: inout Workspace) {
    let progress = workspace.request.read(head, limits: ruling.headLimits, isInTunnel: tunnel.interior != nil)
    guard progress == .complete(count: head.count), setHost(head, in: &workspace) == nil else {
      preconditionFailure("a head that was read once is malformed")
    }
    setMappedHost(in: &workspace)
  }

  // MARK: The body

  mutating func readRequestBody(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    switch request.progress {
    case .done, .head, .untilClose: return Step(consumed: 0, action: .hold)
    case .length(let remaining):
      let count = Int(min(remaining, UInt64(bytes.count)))
      if count == 0 { return Step(consumed: 0, action: .read) }
      if dropsRequest {
        clientForwarded(count, now: now)
        return Step(consumed: count, action: request.progress == .done ? .hold : .read)
      }
      let allowed = uploadAllowance(of: count)
      return Step(consumed: 0, action: allowed > 0 ? .forward(count: allowed) : .hold)
    case .chunked(var decoder):
      var step: Step
      if let pace = bodies.pacing?.upload, phase == .exchanging, !bytes.isEmpty {
        step = readPacedChunks(bytes, pace.allowance(of: bytes.count), decoder: &decoder, in: &workspace, to: &outputs)
        bodies.pacing?.upload?.spent(step.consumed, now: now)
      } else {
        step = readChunks(bytes, &decoder, in: &workspace, to: &outputs)
      }
      if request.progress != .trailers && request.progress != .done { request.progress = .chunked(decoder) }
      times.lastProgress = now
      record.traffic.bytesIn &+= UInt64(step.consumed)
      return step
    case .trailers:
      let step = readRequestTrailers(bytes, from: 0, in: &workspace, to: &outputs)
      record.traffic.bytesIn &+= UInt64(step.consumed)
      return step
    }
  }

  /// Reads no more of a paced chunked body than may leave, but always enough for a size line.
  private mutating func readPacedChunks(
    _ bytes: Span<UInt8>, _ allowed: Int, decoder: inout ChunkedDecoder, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) -> Step {
    if allowed == 0 { return Step(consumed: 0, action: .hold) }
    var count = min(bytes.count, allowed)
    var step = readChunks(bytes.extracting(first: count), &decoder, in: &workspace, to: &outputs)
    if step.consumed == 0, step.action == .read, count < bytes.count {
      // The allowance cuts a size line.
      count = min(bytes.count, allowed + ChunkedDecoder.longestSizeLine)
      step = readChunks(bytes.extracting(first: count), &decoder, in: &workspace, to: &outputs)
    }
    // The remaining bytes are presented again.
    return count < bytes.count && step.action == .read ? Step(consumed: step.consumed, action: .hold) : step
  }

  private mutating func readChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        if dropsRequest { continue }
        if bodies.held != nil, phase == .collecting {
          guard let action = collect(bytes.extracting(range), in: &workspace, to: &outputs) else { continue }
          if action != .connect { return Step(consumed: bytes.count, action: action) }
        }
        workspace.pool.lend(&outputs.toUpstream, bytes.count + 64)
        let before = outputs.toUpstream.count
        outputs.toUpstream.appendChunk(bytes.extracting(range))
        keepForReplay(from: before, to: &outputs, &workspace.pool)
      case .needMore(let consumed): return Step(consumed: consumed, action: .read)
      case .lastChunk(let consumed):
        request.progress = .trailers
        return readRequestTrailers(bytes, from: consumed, in: &workspace, to: &outputs)
      case .invalid(let fault): return refuseBody(fault, bytes.count, in: &workspace, to: &outputs)
      }
    }
  }

  private mutating func readRequestTrailers(
    _ bytes: Span<UInt8>, from: Int, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    switch TrailerReader.read(bytes, from: from, limits: ruling.headLimits, into: &workspace.trailers) {
    case .incomplete: return Step(consumed: from, action: .read)
    case .invalid(let fault): return refuseBody(fault, bytes.count, in: &workspace, to: &outputs)
    case .complete(let end):
      request.progress = .done
      if !dropsRequest {
        workspace.trailers.drop(namedIn: request.namedFields, bytes)
        ruling.dropEdited(bytes, &workspace.trailers)
        if let held = bodies.held, phase == .collecting {
          workspace.trailers.write(bytes, to: &held.trailers)
          return Step(consumed: end, action: leaveCollected(rewritten: true, in: &workspace, to: &outputs))
        }
        workspace.pool.lend(&outputs.toUpstream, end + 64)
        let before = outputs.toUpstream.count
        outputs.toUpstream.append("0\r\n")
        workspace.trailers.write(bytes, to: &outputs.toUpstream)
        outputs.toUpstream.append("\r\n")
        keepForReplay(from: before, to: &outputs, &workspace.pool)
      }
      return Step(consumed: end, action: response.progress == .done ? endOfResponse() : .hold)
    }
  }

  /// The body turned out to be malformed: the origin must never see a complete request, and the client gets an error.
  private mutating func refuseBody(
    _ fault: MessageFault, _ count: Int, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    outputs.toUpstream.removeAll()
    if response.traits.contains(.hasBegun) { return Step(consumed: count, action: breakOff(.malformedBody)) }
    let kind: Problem.Kind = fault.isHeadLimit ? .headTooLarge : .malformedRequest
    let problem = Problem(kind, "The body of the request \(fault.sentence).")
    return Step(consumed: count, action: answer(problem, in: &workspace, to: &outputs))
  }
}
