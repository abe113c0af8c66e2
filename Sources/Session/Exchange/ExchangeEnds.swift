// Deadlines and pauses, and the ways in which an exchange ends: aborts, and responses of the proxy's own.

import Bytes
import HTTP1
import Policy
import Reachability
import TLSWire

extension Exchange {
  // MARK: Time

  /// When `timedOut` has to be called, unless something moves before.
  var deadline: Int64 {
    if awaitsOperator { return times.operatorDeadline }
    let timeouts = ruling.timeouts
    let own: Int64 =
      switch phase {
      case .head, .connecting: .max
      case .collecting: min(times.lastProgress + timeouts.bodyStallMilliseconds, heldDeadline)
      case .exchanging:
        pauseEnd
          ?? times.lastProgress
          + (upstream.carrier.contains(.awaitsContinue)
            ? ChallengedRequest.expectationMilliseconds
            : response.progress == .head && request.progress == .done
              ? timeouts.responseHeaderMilliseconds : timeouts.bodyStallMilliseconds)
      case .tunnel:
        pauseEnd.map { min($0, helloDeadline ?? .max) } ?? helloDeadline ?? times.lastProgress
          + (tunnel.inspected?.isPlain ?? true ? timeouts.tunnelIdleMilliseconds : timeouts.tlsHandshakeMilliseconds)
      }
    let end = min(own, times.exchangeDeadline, times.clientGoneAt)
    guard let held = bodies.held, phase == .exchanging else { return end }
    return min(end, heldDeadline, held.textDeadline ?? .max)
  }

  /// When more of the held body must have arrived; `.max` if none is held.
  @inline(never)
  private var heldDeadline: Int64 {
    bodies.held?.deadline(grace: ruling.timeouts.bodyStallMilliseconds) ?? .max
  }

  /// How long bytes of a plain tunnel may be held.
  private var helloDeadline: Int64? {
    guard let inspected = tunnel.inspected, inspected.isPlain else { return nil }
    return inspected.heldSince.map { $0 + ruling.timeouts.tlsHandshakeMilliseconds }
  }

  /// The deadline has passed. `upstreamIsFull`: bytes of the request, besides those in `outputs`, wait for the upstream
  /// to accept them.
  mutating func timedOut(
    now: Int64, upstreamIsFull: Bool, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    if awaitsOperator { return unanswered(now: now, in: &workspace, to: &outputs) }
    if resumePace(now: now, in: &workspace, to: &outputs) { return .read }
    switch phase {
    case .head:
      preconditionFailure("nothing is due of an exchange that has not begun")
    case .collecting, .connecting, .exchanging:
      if now >= times.clientGoneAt { return breakOff(.clientLeft) }
      if upstream.carrier.contains(.awaitsContinue), now < times.exchangeDeadline {
        // RFC 9110, 10.1.1: a server that does not support the expectation waits for the body.
        upstream.carrier.remove(.awaitsContinue)
        times.lastProgress = now
        return .read
      }
      if let action = rejectWaiting(in: &workspace, to: &outputs) { return action }
      if response.traits.contains(.hasBegun) {
        return breakOff(now >= times.exchangeDeadline ? .exchangeTimeout : .stalled)
      }
      if let spooled = bodies.spooled, spooled.move != .none, now < times.exchangeDeadline,
        phase != .exchanging || !upstreamIsFull && outputs.toUpstream.isEmpty
      {
        let limit = ruling.timeouts.bodyStallMilliseconds
        return spoolFailed("it did not get on for \(limit) ms", in: &workspace, to: &outputs)
      }
      return answer(problem(ofSilenceUntil: now, upstreamIsFull: upstreamIsFull, outputs), in: &workspace, to: &outputs)
    case .tunnel:
      if let helloDeadline, now >= helloDeadline {
        // The client's first bytes are still undecided, and no more arrive.
        if ruling.enforces { return endOfTunnel(.stalled) }
        tunnel.report(.client(.truncated), &record)
        return .read
      }
      return endOfTunnel(tunnel.inspected?.isPlain ?? true ? .tunnelIdle : .stalled)
    }
  }

  /// What did not come in time.
  private func problem(
    ofSilenceUntil now: Int64, upstreamIsFull: Bool, _ outputs: borrowing Outputs
  ) -> Problem {
    let (ruling, peers, isRequestDone) = (ruling, peers(outputs), request.progress == .done)
    if now >= times.exchangeDeadline {
      let limit = times.exchangeDeadline - record.times.begun
      return Problem(.exchangeTimeout, "\(peers.destination) did not finish within the rule's \(limit) ms.")
    }
    if phase == .exchanging, upstreamIsFull || !outputs.toUpstream.isEmpty {
      let limit = ruling.text(of: isRequestDone ? .responseHeader : .bodyStall)
      return Problem(.responseTimeout, "\(peers.responder) took no byte of the request for \(limit).")
    }
    if now >= heldDeadline, now < times.lastProgress + ruling.timeouts.bodyStallMilliseconds {
      let rate = "at less than \(HeldBody.leastBytesPerSecond) bytes a second, too slowly to be held."
      return isRequestDone
        ? Problem(.responseTimeout, "The response body of \(peers.destination) came \(rate)")
        : Problem(.stalled, "The request body came \(rate)")
    }
    if !isRequestDone {
      return Problem(.stalled, "No byte of the request body moved for \(ruling.text(of: .bodyStall)).")
    }
    if bodies.held != nil {
      let limit = ruling.text(of: .bodyStall)
      return Problem(.responseTimeout, "\(peers.responder) sent no byte of the response body for \(limit).")
    }
    let limit = ruling.text(of: .responseHeader)
    return Problem(.responseTimeout, "\(peers.responder) did not begin a response within \(limit).")
  }

  /// Whether the client has left, and its time to come back is over.
  public func clientIsGone(now: Int64) -> Bool { now >= times.clientGoneAt }
  /// Whether the time that the rule gives the whole exchange is over.
  public func isOutOfTime(now: Int64) -> Bool { now >= times.exchangeDeadline }

  /// The deadline has passed, and only the client has to take what is left.
  mutating func deliveryTimedOut(now: Int64) -> Action {
    breakOffNow(now >= times.exchangeDeadline ? .exchangeTimeout : now >= times.clientGoneAt ? .clientLeft : .stalled)
  }

  // MARK: Times of a rule that is not enforced

  /// Something took this long, and the rule may have a time-out for it.
  mutating func noteTime(_ milliseconds: Int64, of timeout: Timeout) {
    guard response.traits.contains(.reportsTimes) else { return }
    let isDone = request.progress == .done
    if let excess = ExceededTime(milliseconds, of: timeout, by: ruling.rule, requestIsDone: isDone) {
      record.report(excess)
    }
  }

  /// Nothing moved until now.
  mutating func noteQuiet(until now: Int64) {
    // An exchange that pauses at the pace of its rule is not idle.
    if !response.traits.contains(.reportsTimes) || bodies.pacing != nil { return }
    switch phase {
    case .tunnel: noteTime(now - times.lastProgress, of: .tunnelIdle)
    case .exchanging:
      let awaitsHead = response.progress == .head && request.progress == .done
      noteTime(now - times.lastProgress, of: awaitsHead ? .responseHeader : .bodyStall)
    case .collecting: noteTime(now - times.lastProgress, of: .bodyStall)
    case .head, .connecting: break
    }
  }

  /// The exchange is over. For a tunnel the rule's time counts only until it is open.
  public mutating func noteWhole(now: Int64) {
    guard response.traits.contains(.reportsTimes), !isTunnel else { return }
    if let excess = ExceededTime(whole: now - record.times.begun, by: ruling.rule) { record.report(excess) }
  }

  // MARK: Pace

  /// The destination is reached, over a link of this kind: from here on bytes keep the rule's pace. `owing`: bytes for
  /// the destination that have already been read.
  public mutating func beginPace(on link: ReachabilityStatus, owing: Int = 0, now: Int64) {
    bodies.pacing?.begin(on: link, now: now)
    if owing > 0 { bodies.pacing?.upload?.spent(owing, now: now) }
  }

  /// Whether the client's bytes have a pace, so that the session has to see them.
  public var pacesUpload: Bool { bodies.pacing?.upload != nil }
  /// How many bytes of the client can be used at once; nil: any number.
  public var uploadAllowance: Int? { bodies.pacing?.upload?.allowance(of: .max) }
  /// The same, of `count`.
  func uploadAllowance(of count: Int) -> Int { bodies.pacing?.upload?.allowance(of: count) ?? count }

  /// Whether more of the upload waits for the end of a pause, if there is one.
  private var uploadWaits: Bool {
    switch phase {
    case .tunnel: true
    // After the last byte nothing waits.
    case .exchanging: !isRequestWhole
    case .head, .collecting, .connecting: false
    }
  }

  public var uploadRests: Bool { bodies.pacing?.upload?.resumesAt != nil && uploadWaits }

  /// An exchange that is ending reads no more from the client.
  mutating func endUploadPace() { bodies.pacing?.upload = nil }

  /// Whether bytes for the client have a pace.
  public var pacesDownload: Bool { bodies.pacing?.download != nil }
  public var downloadRests: Bool { bodies.pacing?.download?.resumesAt != nil }
  /// How many bytes may leave for the client now; nil: any number.
  public func downloadAllowance(now: Int64) -> Int? { bodies.pacing?.download?.allowance(of: .max, now: now) }
  /// `count` bytes have left for the client.
  public mutating func clientTook(_ count: Int, now: Int64) { bodies.pacing?.download?.spent(count, now: now) }

  /// When the first pause ends; nil: there is none.
  private var pauseEnd: Int64? { bodies.pacing?.pauseEnd(uploads: uploadWaits) }

  /// The deadline has passed. Returns whether it ended a pause, so that more may leave for the client.
  public mutating func resumeDownload(now: Int64) -> Bool {
    guard bodies.pacing?.download?.resume(now: now) ?? false else { return false }
    times.lastProgress = now
    return true
  }

  /// Ends the pauses that are over; false: none is. A pause does not count as idle time.
  private mutating func resumePace(now: Int64, in workspace: inout Workspace, to outputs: inout Outputs) -> Bool {
    guard let pacing = bodies.pacing else { return false }
    let downloads = resumeDownload(now: now)
    let uploads = uploadRests && pacing.upload?.resume(now: now) ?? false
    if uploads {
      times.lastProgress = now
      bodies.sendPaced(now: now, to: &outputs, &workspace.pool)
    }
    return uploads || downloads
  }

  // MARK: The operator

  /// What was asked, if it is refused or an operator is asked about it.
  public var question: Question? { request.question }

  /// Whether an operator has to allow the request before anything is opened (action = "ask").
  public var awaitsOperator: Bool { phase == .connecting && record.ruled.decision?.verdict == .ask }

  /// The question has been put.
  public mutating func operatorAsked(now: Int64) {
    times.lastProgress = now
    times.operatorDeadline = now + ruling.askTerms.waitMilliseconds
  }

  /// The operator's answer. Returns what to do next.
  public mutating func operatorAnswered(
    _ verdict: TemporaryRule.Verdict, by operatorName: String, now: Int64, in workspace: inout Workspace,
    to outputs: inout Outputs
  ) -> Action {
    precondition(awaitsOperator, "an answer that nobody waits for")
    record.ruled.answeredBy = operatorName
    if verdict == .allow {
      decideForOperator(.allow, .operatorAllows)
      times.operatorAllowed(now: now)
      return .connect
    }
    decideForOperator(.deny, .operatorDenies)
    return answer(problem(.denied, "An operator denies this request.", asked: .denied), in: &workspace, to: &outputs)
  }

  /// No operator can be asked, for the reason in `sentence`.
  public mutating func operatorMissing(
    _ sentence: String, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    decideForOperator(.deny, .unanswered)
    return answer(problem(.unanswered, sentence, asked: .unasked), in: &workspace, to: &outputs)
  }

  private mutating func unanswered(now: Int64, in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    decideForOperator(.deny, .unanswered)
    let seconds = ruling.askTerms.waitMilliseconds / 1000
    let detail =
      "Rule \(ruling.rule?.name ?? "-") asks an operator, and none answered within \(seconds) s. "
      + "To allow it: sallyport allow \(record.reference.text)"
    return answer(problem(.unanswered, detail, asked: .unanswered), in: &workspace, to: &outputs)
  }

  private mutating func decideForOperator(_ verdict: Decision.Verdict, _ reason: Decision.Reason) {
    record.ruled.decision = Decision(verdict: verdict, reason: reason, rule: record.ruled.decision?.rule)
    times.operatorDeadline = .max
  }

  private func problem(_ kind: Problem.Kind, _ detail: String, asked: Advice.Question) -> Problem {
    let isTunnel = request.traits.contains(.isTunnel)
    return Problem(kind, detail, advice: ruling.advice(on: request.question, isTunnel: isTunnel, asked: asked))
  }

  // MARK: Ends from outside

  /// The time for draining is over. A client whose response has not begun gets an error.
  mutating func shutDown(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    end(
      .shutDown,
      Problem(.shuttingDown, "The proxy is stopping, and the request was not answered in the time that it gives."),
      in: &workspace, to: &outputs)
  }

  /// An operator ends it, in any phase.
  mutating func cancelled(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    end(
      .cancelled, Problem(.cancelled, "An operator has ended the request (sallyport cancel)."), in: &workspace,
      to: &outputs)
  }

  /// The policy in force now denies it, and the operator wants that to apply to exchanges under way.
  /// `denial`: what denies it, as the subject of a sentence.
  mutating func policyChanged(
    _ denial: String, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    if awaitsOperator { decideForOperator(.deny, .ruleDenies) }
    // Its own rule, which is of the policy before, does not deny it: a rule before that one would change nothing.
    let advice = Advice(
      reason: record.ruled.decision?.reason ?? .ruleDenies, contact: policy.configuration.proxy.contact, rule: nil,
      question: nil)
    let problem = Problem(.denied, "The policy has changed, and \(denial) denies this request now.", advice: advice)
    return end(.policyChanged, problem, in: &workspace, to: &outputs)
  }

  /// A client whose response has not begun gets an error.
  private mutating func end(
    _ outcome: Outcome, _ problem: Problem, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    if phase == .tunnel || response.traits.contains(.hasBegun) { return breakOffNow(outcome) }
    client.expectNoOther()
    return answer(problem, in: &workspace, to: &outputs)
  }

  /// Ends it in any phase.
  mutating func breakOffNow(_ outcome: Outcome) -> Action {
    phase == .tunnel ? endOfTunnel(outcome) : breakOff(outcome)
  }

  /// The client did not get the last `count` bytes of its response.
  public mutating func clientMissed(_ count: Int, _ outcome: Outcome) {
    record.traffic.bytesOut -= min(record.traffic.bytesOut, UInt64(count))
    if count > 0, record.outcome == .done { record.outcome = outcome }
  }

  // MARK: Ends

  /// The response is complete.
  mutating func endOfResponse() -> Action {
    endUploadPace()
    let whole = request.progress == .done
    let keeps = upstream.carrier.contains(.persists) && whole && !dropsRequest && bodies.areOut
    return .end(
      Ending(client: !whole ? .linger : client.terms.contains(.persists) ? .keep : .close, keepsUpstream: keeps))
  }

  /// Ends an exchange that cannot be completed, without anything that could pass for its end. If the framing shows that
  /// something is missing, the client gets all that has arrived. If only the end of the connection would show it, the
  /// client gets a reset.
  mutating func breakOff(_ outcome: Outcome) -> Action {
    endUploadPace()
    record.outcome = outcome
    if !response.traits.contains(.hasBegun) { record.answer.status = 0 }
    let showsCut = outcome != .clientLeft && response.showsCut
    return .end(Ending(client: showsCut ? .cut : .abort, keepsUpstream: false))
  }

  mutating func endOfTunnel(_ outcome: Outcome) -> Action {
    endUploadPace()
    // The operator waits to read what an unenforced rule would have refused, however the tunnel ends.
    if case .tunnelFaultReported = record.outcome {} else { record.outcome = outcome }
    return .end(Ending(client: outcome == .done ? .close : .abort, keepsUpstream: false))
  }

  /// Answers a request that is not read any further, after `count` bytes of it. It is the last of its connection.
  mutating func refuse(
    _ problem: Problem, bytesIn count: Int, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    request.progress = .head
    record.traffic.bytesIn = UInt64(count)
    return answer(problem, in: &workspace, to: &outputs)
  }

  /// Sends a response of the proxy's own. The client's connection is kept only if the request was read completely.
  mutating func answer(_ problem: Problem, in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    let persists = client.terms.contains(.persists) && request.progress == .done
    record.outcome = .problem(problem.kind)
    record.found.finding = Finding(problem)
    response.cacheStatus = record.dropStored(response.cacheStatus)
    if problem.kind == .addressDenied {
      record.ruled.decision = Decision(verdict: .deny, reason: .addressDenied, rule: record.ruled.decision?.rule)
    }
    record.answer.status = problem.status
    var problem = problem
    if problem.advice == nil, record.ruled.decision?.verdict == .deny {
      problem.advice = ruling.advice(on: request.question, isTunnel: request.traits.contains(.isTunnel))
    }
    phase = .exchanging
    // The proxy's own responses leave at once.
    bodies.pacing = nil
    bodies.spooled = nil
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    ProblemWriter(
      problem: problem, rule: ruling.rule?.name, reference: record.reference, proxyName: workspace.name,
      form: client.answerForm, isHead: request.traits.contains(.isHead), closes: !persists,
      cacheStatus: response.cacheStatus, substitute: substitute(for: problem, in: workspace)
    ).write(to: &outputs.toClient, date: workspace.date.bytes)
    record.countOut(outputs.toClient, from: before)
    // If the content of a response was checked, the response has been read to its end.
    let keepsUpstream = response.progress == .done && isRequestWhole && upstream.carrier.contains(.persists)
    releaseHeld(in: &workspace)
    return .end(Ending(client: persists ? .keep : .linger, keepsUpstream: keepsUpstream))
  }

  /// The file in place of the problem's body, as long as there is memory for it. What a slow client has not received
  /// yet counts like a held body: a thousand such clients would have a thousand copies.
  private mutating func substitute(for problem: Problem, in workspace: borrowing Workspace) -> SubstituteAnswer? {
    guard client.answerForm != .grpc,
      let answer = ruling.substitute(for: problem, isTunnel: request.traits.contains(.isTunnel))
    else { return nil }
    if request.traits.contains(.isHead) { return answer }
    let weight = HeldBody(workspace.heldBytes)
    guard weight.account(ofAll: heldLimit, adding: answer.content.count) else { return nil }
    bodies.toClient = weight
    return answer
  }

  /// Answers OPTIONS * and TRACE and OPTIONS that may go no further (RFC 9110, 7.6.2).
  mutating func answerForItself(
    _ bytes: Span<UInt8>, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    let persists =
      client.terms.contains(.persists) && !client.terms.contains(.isHTTP10) && request.progress == .done
    record.answer.status = 200
    phase = .exchanging
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    workspace.request.writeOwnAnswer(bytes, date: workspace.date.bytes, closes: !persists, to: &outputs.toClient)
    record.countOut(outputs.toClient, from: before)
    return .end(Ending(client: persists ? .keep : .linger, keepsUpstream: false))
  }

  // MARK: Tunnels

  /// The proxy can act as the host: the tunnel is granted, and no upstream is opened before a request arrives.
  public mutating func interiorOpened(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    precondition(phase == .connecting && tunnel.interior != nil, "a tunnel was opened that nobody waits for")
    phase = .exchanging
    request.progress = .done
    grantTunnel(in: &workspace, to: &outputs)
    return .end(Ending(client: .intercept, keepsUpstream: false))
  }

  mutating func grantTunnel(in workspace: inout Workspace, to outputs: inout Outputs) {
    record.answer.status = 200
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    outputs.toClient.append("HTTP/1.1 200 Connection established\r\n\r\n")
    record.countOut(outputs.toClient, from: before)
  }

  /// From here on bytes go both ways.
  mutating func enterTunnel() {
    phase = .tunnel
    tunnel.ends = []
    times.enterTunnel()
  }

  /// Whether moving bytes both ways is all that is left to do. The server knows whether it terminates TLS on either
  /// side.
  public var isPlainTunnel: Bool { phase == .tunnel && tunnel.inspected == nil && tunnel.interior == nil }

  /// Whether bytes of the tunnel have to be inspected before they are moved.
  public var isInspecting: Bool { tunnel.inspected != nil }
  public var looksAtUpstreamBytes: Bool { tunnel.inspected?.looksAtUpstreamBytes ?? false }
  /// The certificates that the server presented, for `.judge`.
  public var presentedCertificates: PresentedCertificates? { tunnel.inspected?.presented }
  public var clientAsksForStaple: Bool { tunnel.inspected?.clientAsksForStaple ?? false }

  /// The client has closed its sending direction. See `InspectedTunnel.takesLastBytes`.
  public mutating func clientSaidAll() -> Bool { phase == .tunnel && tunnel.inspected?.takesLastBytes() ?? false }

  /// Performs the verdict of an inspection on bytes of the client, or of the upstream.
  mutating func perform(
    _ verdict: InspectedTunnel.Verdict, _ bytes: Span<UInt8>, isClients: Bool, workspace: inout Workspace,
    outputs: inout Outputs
  ) -> Step {
    if tunnel.inspected?.isKnownByName ?? false { record.way.assurance = .sni }
    switch verdict {
    case .hold, .forward(count: 0): return Step(consumed: 0, action: .read)
    case .forward(let count): return Step(consumed: 0, action: .forward(count: count))
    case .judge: return Step(consumed: 0, action: .judge)
    case .end: return Step(consumed: bytes.count, action: endOfTunnel(.done))
    case .refuse(let fault):
      if isClients { record.traffic.bytesIn &+= UInt64(bytes.count) }
      return Step(consumed: bytes.count, action: refuseTunnel(fault, in: &workspace, to: &outputs))
    case .report(let fault):
      record.way.assurance = Assurance.none
      tunnel.report(fault, &record)
    case .release: tunnel.inspected = nil
    }
    return bytes.isEmpty ? Step(consumed: 0, action: .read) : Step(consumed: 0, action: .forward(count: bytes.count))
  }

  mutating func refuseTunnel(_ fault: TunnelFault, in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    tunnel.refuse(fault, &record)
    return sayAlert(TunnelAlert(fault), in: &workspace, to: &outputs)
  }

  /// The certificates in the tunnel have been checked against the policy; `refusal` nil: they satisfy it.
  public mutating func tunnelJudged(
    _ refusal: Problem?, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    if tunnel.judged(refusal, enforces: ruling.enforces, &record) { return .read }
    return sayAlert(.badCertificate, in: &workspace, to: &outputs)
  }

  /// Tells the client why its tunnel ends; `alert` nil: it does not speak TLS.
  private mutating func sayAlert(
    _ alert: TunnelAlert?, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    if let alert {
      workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
      outputs.toClient.append(alert.record)
      record.traffic.bytesOut &+= UInt64(alert.record.count)
    }
    return .end(Ending(client: .linger, keepsUpstream: false))
  }

  // MARK: Memory for held bodies

  /// The most memory that all held bodies may take together when this client wants more.
  var heldLimit: Int { policy.configuration.limits.heldBodiesBytes + client.heldOverdraft }

  /// Whether a body is held, and how much it takes of the memory for all held bodies.
  public var holdsBody: Bool { bodies.held != nil || bodies.challenged != nil || hasBodyOnItsWay }
  public var heldBytes: Int { bodies.heldBytes }
  public var hasBodyOnItsWay: Bool { bodies.areOnTheirWay }
  /// Whether its held body is on its way into a file, which gives the memory back.
  public var yieldsHeld: Bool { phase == .collecting && bodies.spooled?.yields ?? false }

  /// Another client holds less than its share and waits for memory: this body gives up its own.
  public mutating func giveUpHeld(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    if bodies.held == nil, let challenged = bodies.challenged, challenged.heldBytes > 0 {
      // The copy: the request only cannot be sent again.
      challenged.release(&workspace.pool)
      return .hold
    }
    if bodies.held == nil, hasBodyOnItsWay {
      let hasBegun = phase == .tunnel || response.traits.contains(.hasBegun)
      return hasBegun ? breakOffNow(.displaced) : refuseToHold(in: &workspace, to: &outputs)
    }
    precondition(bodies.held != nil, "a body was to be given up that is not held")
    if let spooled = bodies.spooled, phase == .collecting {
      spooled.spillAtOnce()
      return .read
    }
    return refuseToHold(in: &workspace, to: &outputs)
  }

  mutating func refuseToHold(in workspace: inout Workspace, to outputs: inout Outputs) -> Action {
    let limit = policy.configuration.limits.heldBodiesBytes
    return answer(
      Problem(.heldBodiesSpent, "All bodies that are held may take \(limit) bytes together, and they do."),
      in: &workspace, to: &outputs)
  }

  /// Nothing waits for one end any more.
  public mutating func sentAll(toClient: Bool) { bodies.sentAll(toClient: toClient) }
  /// What is left of the request is not sent.
  public mutating func dropUpload() { bodies.dropUpload() }
  /// Releases the memory of a held body, if there is one.
  public mutating func releaseHeld(in workspace: inout Workspace) { bodies.releaseHeld(&workspace.pool) }

  // MARK: The file of a body that is buffered whole

  /// Bytes read from a client at once while its body is buffered whole. They may arrive when no more may be held.
  public static let spooledReadBytes = 64 << 10

  /// Whether a body is being buffered whole for its length, or sent from its file.
  public var spools: Bool { bodies.spooled != nil }

  /// Moves into `bytes` what must be written to the file now, and returns the offset; nil: nothing. `spoolWritten` or
  /// `spoolFailed` follows.
  public mutating func takeForSpool(_ bytes: inout ByteBuffer) -> UInt64? {
    guard phase == .collecting, request.progress != .done, let held = bodies.held else { return nil }
    return bodies.spooled?.takePiece(of: held, &bytes)
  }

  public mutating func spoolWritten(now: Int64) {
    bodies.spooled?.pieceWritten()
    times.lastProgress = now
    bodies.held?.giveBack()
  }

  /// The file cannot be written or read: `reason` includes its path.
  public mutating func spoolFailed(
    _ reason: String, in workspace: inout Workspace, to outputs: inout Outputs
  ) -> Action {
    let detail = "The body of the request is kept in a file until its length is known: \(reason)."
    if response.traits.contains(.hasBegun) { return breakOff(.problem(.spoolFailed)) }
    return answer(Problem(.spoolFailed, detail), in: &workspace, to: &outputs)
  }

  /// The bytes of the file to send next; nil: none now. `spoolRead` or `spoolFailed` follows.
  public mutating func takeFromSpool() -> (offset: UInt64, count: Int)? {
    phase == .exchanging && bodies.paced.isEmpty && !uploadRests ? bodies.spooled?.nextPiece() : nil
  }

  public mutating func spoolRead(
    _ bytes: [UInt8], now: Int64, in workspace: inout Workspace, to outputs: inout Outputs
  ) {
    times.lastProgress = now
    if bodies.spooled?.pieceRead(bytes, to: &bodies.paced) ?? false { bodies.spooled = nil }
    bodies.sendPaced(now: now, to: &outputs, &workspace.pool)
  }
}
