// The way of a response through an exchange: read, checked, and rewritten for the client. A challenge that the proxy
// answers goes no further, and neither does content that a rule holds before its verdict.

import Bytes
import HTTP1
import Policy
import Serialization

extension Exchange {
  mutating func readResponse(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    if response.traits.contains(.isDropped) { return dropResponse(bytes, now: now, in: &workspace, to: &outputs) }
    switch response.progress {
    case .head:
      return readResponseHead(bytes, now: now, in: &workspace, to: &outputs)
    case .length where bodies.held != nil, .untilClose where bodies.held != nil:
      return readHeldContent(bytes, now: now, in: &workspace, to: &outputs)
    case .length(let remaining):
      let count = Int(min(remaining, UInt64(bytes.count)))
      return Step(consumed: 0, action: count == 0 ? .read : .forward(count: count))
    case .untilClose:
      return Step(consumed: 0, action: bytes.isEmpty ? .read : .forward(count: bytes.count))
    case .chunked(var decoder):
      progressed(now: now)
      bodies.held?.contentCame(now: now)
      let step = readChunks(bytes, &decoder, in: &workspace, to: &outputs)
      if case .chunked = response.progress { response.progress = .chunked(decoder) }
      return step
    case .trailers:
      return readResponseTrailers(bytes, from: 0, in: &workspace, to: &outputs)
    case .done:
      // Unsolicited bytes after a response: the connection is not reused.
      upstream.carrier.remove(.persists)
      return Step(consumed: bytes.count, action: request.progress == .done ? endOfResponse() : .read)
    }
  }

  // MARK: The head

  private mutating func readResponseHead(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    if !bytes.isEmpty {
      upstream.carrier.remove(.mayRetry)
      if outputs.replay.capacity != 0 { workspace.pool.reclaim(&outputs.replay) }
    }
    let (limits, isHead) = (ruling.headLimits, request.traits.contains(.isHead))
    var mended = ByteBuffer()
    var progress = workspace.response.read(bytes, limits: limits, toHead: isHead)
    // An unenforced rule also allows mending.
    if case .invalid = progress, !ruling.rejectsMalformedHeads || !ruling.enforces {
      progress = workspace.response.readMending(bytes, limits: limits, toHead: isHead, into: &mended)
    }
    switch progress {
    case .incomplete:
      return Step(consumed: 0, action: .read)
    case .invalid(let fault):
      return Step(consumed: bytes.count, action: refuseResponse(fault, in: &workspace, to: &outputs))
    case .complete(let count):
      noteQuiet(until: now)
      times.lastProgress = now
      if record.times.firstByteMicroseconds < 0 {
        record.times.firstByteMicroseconds = record.microseconds(until: now, workspace.turnMicroseconds)
      }
      let rest = bytes.count - count
      let action: Action
      if workspace.response.mendings.isEmpty {
        action = readHead(bytes.extracting(0..<count), rest: rest, now: now, in: &workspace, to: &outputs)
      } else {
        record.note(workspace.response.mendings, isRefused: ruling.rejectsMalformedHeads)
        action = readHead(mended.bytes, rest: rest, now: now, in: &workspace, to: &outputs)
      }
      // Bytes that follow on an abandoned connection belong to no request.
      return Step(consumed: action == .reconnect ? bytes.count : count, action: action)
    }
  }

  /// A whole head, which may have been mended; `rest`: how many bytes have arrived after it.
  private mutating func readHead(
    _ head: Span<UInt8>, rest: Int, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    workspace.response.isInformational
      ? informational(head, now: now, in: &workspace, to: &outputs)
      : final(head, rest: rest, now: now, in: &workspace, to: &outputs)
  }

  private mutating func refuseResponse(
    _ fault: MessageFault, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    client.terms.remove(.persists)
    let kind: Problem.Kind = fault.isHeadLimit ? .responseHeadTooLarge : .malformedResponse
    let detail = "The response of \(peers(outputs).respondent) \(fault.sentence)."
    return answer(Problem(kind, detail), in: &workspace, to: &outputs)
  }

  /// RFC 9110, 15.2: every 1xx is forwarded, except to an HTTP/1.0 client.
  private mutating func informational(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    if workspace.response.status == 101 { return switched(bytes, in: &workspace, to: &outputs) }
    if upstream.carrier.contains(.awaitsContinue), workspace.response.status == 100 {
      // The response to the proxy's own expectation.
      upstream.carrier.remove(.awaitsContinue)
      return .read
    }
    guard response.informational.take(bytes.count, now: now, burst: ruling.headLimits.bytes) else {
      return refuseResponse(.unexpectedInformational, in: &workspace, to: &outputs)
    }
    if let problem = refusedRedirect(bytes, in: workspace, outputs) {
      return answer(problem, in: &workspace, to: &outputs)
    }
    if !client.terms.contains(.isHTTP10) { writeResponseHead(bytes, ResponseHeadEdits(), in: &workspace, to: &outputs) }
    return .read
  }

  /// RFC 9110, 7.8: not before the request is complete, because the rest of it would become the tunnel's first bytes.
  private mutating func switched(
    _ bytes: Span<UInt8>, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    guard request.traits.contains(.wantsUpgrade), isRequestWhole, workspace.response.options.upgrade,
      let name = workspace.response.fields.relayedProtocol(bytes),
      bytes.equals(name, ignoringCase: request.upgrade.span)
    else { return refuseResponse(.unexpectedSwitch, in: &workspace, to: &outputs) }
    let respondent = peers(outputs).respondent
    if let problem = request.webSocketProof.fault(bytes, workspace.response.fields, by: respondent) {
      client.terms.remove(.persists)
      return answer(problem, in: &workspace, to: &outputs)
    }
    record.answer.status = 101
    let edits = ResponseHeadEdits(connection: "Connection: Upgrade\r\n")
    writeResponseHead(bytes, edits, upgrade: name, in: &workspace, to: &outputs)
    enterTunnel()
    return .tunnel
  }

  private mutating func final(
    _ bytes: Span<UInt8>, rest: Int, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    let status = workspace.response.status
    record.answer.status = status
    record.noteOrigin(workspace.response, bytes, to: &outputs.text)
    if let problem = refusedSwitch(status, outputs) { return answer(problem, in: &workspace, to: &outputs) }
    let isParents = upstream.parent != nil
    if isParents, status == 407, bodies.challenged?.parent == nil {
      return answer(peers(outputs).wantsCredentials(bodies.challenged?.remark), in: &workspace, to: &outputs)
    }
    let mayKeep = workspace.response.isPersistent && (!isParents || workspace.response.options.keepAlive)
    // NTLM and Negotiate authenticate the connection, not the request: a connection that may belong to one client is
    // not shared with others. And if a head had to be mended, the next one may begin where its sender did not mean it
    // to.
    if mayKeep, record.answer.mended.isEmpty, !upstream.carrier.contains(.isBound),
      !workspace.response.fields.bindConnection(bytes)
    {
      upstream.carrier.insert(.persists)
    }
    if workspace.response.options.namesFields {
      response.namedFields = workspace.response.fields.connectionOptions(bytes)
    }
    response.progress = MessageProgress(workspace.response.framing)
    if let action = answerChallenge(bytes, rest: rest, now: now, in: &workspace, to: &outputs) { return action }
    upstream.carrier.remove(.awaitsContinue)
    if isParents, status == 407 {
      upstream.carrier.remove(.persists)
      return answer(peers(outputs).wantsCredentials(bodies.challenged?.remark), in: &workspace, to: &outputs)
    }
    if let problem = refusedRedirect(bytes, in: workspace, outputs) {
      return answer(problem, in: &workspace, to: &outputs)
    }
    if let problem = enforced(ruling.failure(status, of: peers(outputs))) {
      return answer(problem, in: &workspace, to: &outputs)
    }
    return pass(bytes, rest: rest, now: now, in: &workspace, to: &outputs)
  }

  /// A final response to the request as it was asked: checks its head, and passes it or holds its content.
  private mutating func pass(
    _ bytes: Span<UInt8>, rest: Int, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    var edits = ResponseHeadEdits()
    if let check = ResponseCheck(ruling) {
      let hasContent = response.progress != .done
      switch check.judge(workspace.response, bytes, to: request, hasContent: hasContent) {
      case .passes(let passing):
        edits = passing
        if edits.unjudged == nil { record.answer.serializer = check.checks.name }
        note(edits.violations, check)
      case .rejected(let judgement):
        record.answer.serializer = check.checks.name
        let held = held(bytes, judgement, in: &workspace)
        let awaits = held.awaitText(workspace.response, bytes, hasContent: hasContent, now: now)
        return awaits && held.account(ofAll: heldLimit) ? .read : settle(nil, in: &workspace, to: &outputs)
      case .holds(let judgement):
        record.answer.serializer = check.checks.name
        return hold(bytes, judgement, check: check, in: &workspace, to: &outputs)
      }
    }
    response.traits.insert(.hasBegun)
    response.prepare(workspace.response.framing, for: &client.terms)
    // While a request's body is still on its way, another request cannot safely follow on this connection.
    if request.progress != .done, !refusesExpectation(workspace.response.status) { client.terms.remove(.persists) }
    edits.connection = client.connectionLine
    writeResponseHead(bytes, edits, in: &workspace, to: &outputs)
    switch response.progress {
    case .done:
      // More bytes arrived than belong to it.
      if rest > 0 { upstream.carrier.remove(.persists) }
      return endOfResponse()
    case .length(let remaining):
      return rest > 0 ? .forward(count: Int(min(remaining, UInt64(rest)))) : .read
    case .untilClose:
      return rest > 0 ? .forward(count: rest) : .read
    case .chunked, .head, .trailers:
      return .read
    }
  }

  /// Why a final response cannot answer a request to open a tunnel on a stream: any 2xx would open it there
  /// (RFC 8441, 5), and the origin has not switched.
  private func refusedSwitch(_ status: Int, _ outputs: borrowing Outputs) -> Problem? {
    guard record.sender.wire.isMultiplexed, request.traits.contains(.wantsUpgrade), (200..<300).contains(status) else {
      return nil
    }
    let difference = Difference(expected: "101 to \(request.upgrade.span.string)", seen: "\(status)")
    return Problem(
      .protocolNotOffered,
      "\(peers(outputs).responder) did not switch: expected \(difference.expected), seen \(status).",
      difference: difference, receivedStatus: status)
  }

  /// Why the response whose head has been read is refused for its redirect; nil: it is not.
  private mutating func refusedRedirect(
    _ bytes: Span<UInt8>, in workspace: borrowing Workspace, _ outputs: borrowing Outputs
  ) -> Problem? {
    guard let redirects = ruling.rule?.redirects, redirects != .pass else { return nil }
    let asked = outputs.text.bytes.extracting(record.text.target)
    let sent = SentURL(asked, upstream, mapped: target)
    return enforced(sent.problem(of: workspace.response, bytes, by: redirects, from: asked))
  }

  /// Whether the response refuses the expectation of the request, which ends before its body has begun.
  private mutating func refusesExpectation(_ status: Int) -> Bool {
    guard status == RefusedExpectation.status, request.traits.contains(.expectsContinue),
      !request.traits.contains(.bodyBegun), client.terms.contains(.persists), response.informational.isUntouched,
      bodies.areOut
    else { return false }
    request.progress = .done
    // The upstream still waits for the body.
    upstream.carrier.remove(.persists)
    client.terms.insert(.awaitsRepeat)
    return true
  }

  /// The only request that may follow on the connection after that; empty: any may.
  var awaitedRepeat: [UInt8] { client.terms.isSuperset(of: [.awaitsRepeat, .persists]) ? request.expectation : [] }

  /// Records violations in a response that passes nevertheless.
  private mutating func note(_ violations: [ResponseViolation], _ check: ResponseCheck) {
    record.note(violations, refused: check.enforces ? nil : check.refused(violations))
  }

  private mutating func writeResponseHead(
    _ bytes: Span<UInt8>, _ edits: ResponseHeadEdits, upgrade: Range<Int>? = nil, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) {
    let (ruling, target) = (ruling, target)
    let writer = ResponseHeadWriter(
      wire: record.way.upstreamWire ?? .http11, traits: response.traits, isChunked: response.progress.isChunked,
      proofs: bodies.challenged?.proofs ?? [], upgrade: upgrade, remark: bodies.challenged?.remark,
      mended: record.answer.mended, ruling: ruling, cacheStatus: response.cacheStatus)
    var translation: FieldTranslation? = nil
    if !workspace.response.isInformational, target != nil || upstream.way.contains(.isUpgraded) {
      let text = outputs.text.bytes
      translation = FieldTranslation(
        policy: policy, sender: sender, method: text.extracting(record.text.method).array,
        url: text.extracting(record.text.target).array, port: upstream.port)
    }
    let before = outputs.toClient.count
    writer.write(
      bytes, edits, translation: translation, target: target, ending: response.namedFields, workspace: &workspace,
      to: &outputs.toClient)
    record.countOut(outputs.toClient, from: before)
  }

  // MARK: Challenges

  /// Handles the final response to a request that is kept. Returns an action if it is a challenge that the proxy
  /// answers; nil: the response is passed on.
  private mutating func answerChallenge(
    _ bytes: Span<UInt8>, rest: Int, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action? {
    guard let challenged = bodies.challenged else { return nil }
    switch challenged.read(workspace.response, bytes, nonces: &workspace.nonces) {
    case .none: break
    case .unanswered(let fault): challenged.remark = fault
    case .answered:
      if challenged.isIntact(request.progress) {
        return sendAgain(challenged, rest: rest, now: now, in: &workspace, to: &outputs)
      }
      challenged.remark = ChallengedRequest.notKept
    }
    challenged.release(&workspace.pool)
    return nil
  }

  private mutating func sendAgain(
    _ challenged: ChallengedRequest, rest: Int, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    // A stream serves one request.
    let mayKeep =
      upstream.carrier.contains(.persists) && isRequestWhole && outputs.toUpstream.isEmpty && !dropsRequest
      && !(record.way.upstreamWire?.isMultiplexed ?? false)
    response.namedFields = []
    response.informational = InformationalAllowance()
    // The second response counts, and it may have no type.
    record.text.upstreamType = 0..<0
    upstream.carrier.remove(.awaitsContinue)
    let drops: Bool =
      switch response.progress {
      case .length(let length): length <= ChallengedRequest.mostDropped
      case .chunked: true
      case .head, .trailers, .untilClose, .done: false
      }
    if mayKeep, response.progress == .done, rest == 0 { return leaveAgain(now: now, in: &workspace, to: &outputs) }
    if mayKeep, drops {
      challenged.beginDropping()
      response.traits.insert(.isDropped)
      return .read
    }
    return leaveOnAnother(in: &workspace, to: &outputs)
  }

  /// On the connection that the challenge arrived on.
  private mutating func leaveAgain(
    now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    guard let challenged = writeAgain(in: &workspace, to: &outputs) else {
      return refuseToHold(in: &workspace, to: &outputs)
    }
    upstream.carrier.remove(.persists)
    times.lastProgress = now
    // An origin may close it after a challenge as after any other exchange.
    upstream.carrier.insert(.isReused)
    if challenged.mayRetry { upstream.carrier.insert(.mayRetry) }
    leave(parentLines: challenged.parentLines ?? [], now: now, in: &workspace, to: &outputs)
    return .read
  }

  mutating func leaveOnAnother(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    if writeAgain(in: &workspace, to: &outputs) == nil { return refuseToHold(in: &workspace, to: &outputs) }
    upstream.carrier.remove([.persists, .dropsRequest])
    phase = .connecting
    return .reconnect
  }

  /// Writes the request that was challenged again; nil: it is no longer kept.
  private mutating func writeAgain(
    in workspace: inout Workspace, to outputs: inout Outputs
  ) -> ChallengedRequest? {
    guard let challenged = bodies.challenged,
      bodies.writeAgain(
        challenged, request.progress, carrier: &upstream.carrier, workspace: &workspace, outputs: &outputs)
    else { return nil }
    response.traits.remove(.isDropped)
    response.progress = .head
    return challenged
  }

  /// Content of a challenge that the proxy answers: nothing of it is passed on.
  private mutating func dropResponse(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    guard let challenged = bodies.challenged else {
      preconditionFailure("a response is dropped that no request asked for")
    }
    progressed(now: now)
    switch challenged.drop(bytes, &response.progress, limits: ruling.headLimits, trailers: &workspace.trailers) {
    case .continues(let consumed): return Step(consumed: consumed, action: .read)
    case .isOver: return Step(consumed: bytes.count, action: leaveAgain(now: now, in: &workspace, to: &outputs))
    case .fails: return Step(consumed: bytes.count, action: leaveOnAnother(in: &workspace, to: &outputs))
    }
  }

  // MARK: Holding

  private mutating func held(
    _ bytes: Span<UInt8>, _ judgement: HeadJudgement, in workspace: inout Workspace
  ) -> HeldBody {
    let held = HeldBody(workspace.heldBytes)
    bodies.held = held
    held.judgement = judgement
    workspace.pool.lend(&held.head, bytes.count)
    held.head.append(bytes)
    return held
  }

  /// Starts holding the content of the response whose head has been read.
  private mutating func hold(
    _ bytes: Span<UInt8>, _ judgement: HeadJudgement, check: ResponseCheck, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) -> Action {
    let held = held(bytes, judgement, in: &workspace)
    held.charset = check.charset(workspace.response, bytes)
    if let violation = held.begin(
      workspace.response, bytes, progress: response.progress, heldBytes: check.limits.heldBytes)
    {
      return settle(violation, in: &workspace, to: &outputs)
    }
    return held.account(ofAll: heldLimit) ? .read : refuseToHold(in: &workspace, to: &outputs)
  }

  /// Rejects a response without waiting for more of its text; nil if there is none.
  mutating func rejectWaiting(in workspace: inout Workspace, to outputs: inout Outputs) -> Action? {
    bodies.held?.textDeadline == nil ? nil : settle(nil, in: &workspace, to: &outputs)
  }

  /// Holds the content that `bytes` contain; the server keeps the rest.
  private mutating func readHeldContent(
    _ bytes: Span<UInt8>, now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    progressed(now: now)
    bodies.held?.contentCame(now: now)
    var count = bytes.count
    if case .length(let remaining) = response.progress { count = Int(min(remaining, UInt64(count))) }
    if count == 0 { return Step(consumed: 0, action: .read) }
    if let action = take(bytes.extracting(first: count), in: &workspace, to: &outputs) {
      // The held content has been released; the bytes at hand follow it, unless the response was refused.
      return Step(consumed: 0, action: action == .read ? .forward(count: count) : action)
    }
    response.progress.moved(count)
    return Step(consumed: count, action: response.progress == .done ? judgeHeld(in: &workspace, to: &outputs) : .read)
  }

  /// Holds a piece of content. Returns an action if the content is not held any longer: `.read` means that the response
  /// leaves, followed by this piece.
  private mutating func take(
    _ piece: Span<UInt8>, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action? {
    guard let held = bodies.held else { return .read }
    switch held.take(piece, limits: ruling.contentLimits, ofAll: heldLimit, &workspace.pool) {
    case .held: return nil
    case .enough: return settle(nil, in: &workspace, to: &outputs)
    case .violation(let violation): return settle(violation, in: &workspace, to: &outputs)
    case .noRoom: return refuseToHold(in: &workspace, to: &outputs)
    }
  }

  /// All of the content has arrived.
  mutating func judgeHeld(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    guard let held = bodies.held, let check = ResponseCheck(ruling), let judgement = held.judgement else {
      return endOfResponse()
    }
    if held.textDeadline != nil { return settle(nil, in: &workspace, to: &outputs) }
    let violation = held.judge(
      by: check, judgement, accepts: client.accepts, &workspace.tools, pool: &workspace.pool)
    return settle(violation, in: &workspace, to: &outputs)
  }

  /// Rejects a held response, or releases it with the violations that were found.
  private mutating func settle(
    _ found: ResponseViolation?, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    guard let held = bodies.held, let check = ResponseCheck(ruling), let judgement = held.judgement else {
      return .read
    }
    let violations = judgement.violations + (found.map { [$0] } ?? [])
    // Other responses have been read in between. A head that was read once can be read again. If it was mended, it
    // may be longer than heads on the wire may be.
    var head = held.takeHead()
    let limits = HeadLimits(bytes: head.count, fields: ruling.headLimits.fields)
    guard workspace.response.read(head.bytes, limits: limits, toHead: false) == .complete(count: head.count) else {
      preconditionFailure("a head that was read once is malformed")
    }
    if check.rejects(violations) {
      let seen = HeldBody.upstream(workspace.response, head.bytes, of: held)
      workspace.pool.reclaim(&head)
      let problem = ResponseCheck.problem(of: violations, in: seen, from: peers(outputs).destination)
      return answer(problem, in: &workspace, to: &outputs)
    }
    note(violations, check)
    var edits = ResponseHeadEdits()
    edits.violations = violations
    edits.isRewritten = held.isRewritten
    edits.isDecoded = held.isDecoded
    if response.progress == .done {
      edits.framing =
        held.trailers.isEmpty || client.terms.contains(.isHTTP10) ? .length(held.content.count) : .chunked
    } else {
      response.prepare(workspace.response.framing, for: &client.terms)
    }
    if request.progress != .done { client.terms.remove(.persists) }
    edits.connection = client.connectionLine
    response.traits.insert(.hasBegun)
    writeResponseHead(head.bytes, edits, in: &workspace, to: &outputs)
    workspace.pool.reclaim(&head)
    let before = outputs.toClient.count
    let isChunked = response.progress.isChunked && !response.traits.contains(.isUnchunked)
    held.writeContent(edits.framing, isChunked: isChunked, to: &outputs.toClient)
    record.countOut(outputs.toClient, from: before)
    held.becomes(outputs.toClient.count)
    bodies.toClient = held
    releaseHeld(in: &workspace)
    return response.progress == .done ? endOfResponse() : .read
  }

  // MARK: Chunks and trailers

  private mutating func readChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        if bodies.held != nil {
          guard let action = take(bytes.extracting(range), in: &workspace, to: &outputs) else { continue }
          if action != .read { return Step(consumed: bytes.count, action: action) }
        }
        workspace.pool.lend(&outputs.toClient, bytes.count + 64)
        let before = outputs.toClient.count
        if response.traits.contains(.isUnchunked) {
          outputs.toClient.append(bytes.extracting(range))
        } else {
          outputs.toClient.appendChunk(bytes.extracting(range))
        }
        record.countOut(outputs.toClient, from: before)
      case .needMore(let consumed):
        return Step(consumed: consumed, action: .read)
      case .lastChunk(let consumed):
        response.progress = .trailers
        return readResponseTrailers(bytes, from: consumed, in: &workspace, to: &outputs)
      case .invalid(let fault):
        return Step(consumed: bytes.count, action: refuseResponseBody(fault, in: &workspace, to: &outputs))
      }
    }
  }

  /// If no byte of the response has left yet, the client gets an error; otherwise the response is cut short.
  private mutating func refuseResponseBody(
    _ fault: MessageFault, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    guard record.traffic.bytesOut == UInt64(outputs.toClient.count) else {
      record.found.finding = Finding("The body of the response of \(peers(outputs).respondent) \(fault.sentence).")
      return breakOff(.malformedBody)
    }
    outputs.toClient.removeAll()
    record.traffic.bytesOut = 0
    client.terms.remove(.persists)
    let kind: Problem.Kind = fault.isHeadLimit ? .responseHeadTooLarge : .malformedResponse
    return answer(
      Problem(kind, "The body of the response of \(peers(outputs).respondent) \(fault.sentence)."), in: &workspace,
      to: &outputs
    )
  }

  private mutating func readResponseTrailers(
    _ bytes: Span<UInt8>, from: Int, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Step {
    switch TrailerReader.read(bytes, from: from, limits: ruling.headLimits, into: &workspace.trailers) {
    case .incomplete: return Step(consumed: from, action: .read)
    case .invalid(let fault):
      return Step(consumed: bytes.count, action: refuseResponseBody(fault, in: &workspace, to: &outputs))
    case .complete(let end):
      response.progress = .done
      if response.traits.contains(.hasNoCookies) { workspace.trailers.drop(.setCookie) }
      for name in bodies.challenged?.proofs ?? [] { workspace.trailers.drop(name, in: bytes) }
      workspace.trailers.drop(namedIn: response.namedFields, bytes)
      if let held = bodies.held {
        if end < bytes.count { upstream.carrier.remove(.persists) }
        workspace.trailers.write(bytes, to: &held.trailers)
        return Step(consumed: end, action: judgeHeld(in: &workspace, to: &outputs))
      }
      if !response.traits.contains(.isUnchunked) {
        workspace.pool.lend(&outputs.toClient, end + 64)
        let before = outputs.toClient.count
        outputs.toClient.append("0\r\n")
        workspace.trailers.write(bytes, to: &outputs.toClient)
        outputs.toClient.append("\r\n")
        record.countOut(outputs.toClient, from: before)
      }
      if end < bytes.count { upstream.carrier.remove(.persists) }
      return Step(consumed: end, action: endOfResponse())
    }
  }
}
