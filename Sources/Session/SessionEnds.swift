// Time, and the ways in which an exchange ends: deadlines, breaking off, and answers of the proxy's own.

import Bytes
import HTTP1
import Policy

extension Session {
  // MARK: Time

  /// Those of the rule that decided the exchange under way, else those of all.
  public var timeouts: Timeouts { policy.timeouts(of: record.decision?.rule) }

  /// When `timedOut` has to be called, unless something moves before.
  public var deadline: Int64 {
    let timeouts = self.timeouts
    let own: Int64 =
      switch phase {
      // Who has said nothing yet has no kept connection to be idle on.
      case .idle:
        lastProgress
          + (hasAsked
            ? timeouts.clientIdleMilliseconds
            : min(timeouts.clientIdleMilliseconds, timeouts.clientHeaderMilliseconds))
      case .head: lastProgress + timeouts.clientHeaderMilliseconds
      case .connecting: .max
      case .collecting: min(lastProgress + timeouts.bodyStallMilliseconds, heldDeadline)
      case .exchanging:
        pauseEnd
          ?? lastProgress
          + (flags.contains(.awaitsContinue)
            ? ChallengedRequest.expectationMilliseconds
            : response == .head && request == .done
              ? timeouts.responseHeaderMilliseconds : timeouts.bodyStallMilliseconds)
      case .tunnel:
        pauseEnd.map { min($0, helloDeadline ?? .max) } ?? helloDeadline ?? lastProgress
          + (inspected?.isPlain ?? true ? timeouts.tunnelIdleMilliseconds : timeouts.tlsHandshakeMilliseconds)
      case .over: lastProgress + Self.lingerMilliseconds
      }
    let end = min(own, exchangeDeadline, clientGoneAt)
    guard let held, phase == .exchanging else { return end }
    return min(end, heldDeadline, held.textDeadline ?? .max)
  }

  /// How long nothing of an answer may come for a client that has closed its sending direction, in milliseconds: long
  /// enough for most origins to begin, short for one that works for nobody.
  static let halfClosedMilliseconds: Int64 = 5_000

  /// How long a connection that is being closed is still read, in milliseconds: a client on the same machine, or one
  /// round trip away, has read its answer by then.
  public static let lingerMilliseconds: Int64 = 2_000

  /// The deadline has passed. `upstreamIsFull`: bytes of the request, besides those in `outputs`, wait for the upstream to
  /// take them.
  public mutating func timedOut(
    now: Int64, upstreamIsFull: Bool = false, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    if resumePace(now: now, &workspace, &outputs) { return .read }
    let timeouts = self.timeouts
    switch phase {
    case .idle, .over:
      return .close
    case .head:
      let detail = "The head of the request was not complete after \(timeouts.clientHeaderMilliseconds) ms."
      return refuse(Problem(.slowRequest, detail), now: now, &workspace, &outputs)
    case .collecting, .connecting, .exchanging:
      if now >= clientGoneAt { return breakOff(.clientLeft) }
      if flags.contains(.awaitsContinue), now < exchangeDeadline {
        // RFC 9110, 10.1.1: a server that knows nothing of the expectation waits for the body.
        flags.remove(.awaitsContinue)
        lastProgress = now
        return .read
      }
      if let action = rejectWaiting(&workspace, &outputs) { return action }
      if flags.contains(.responseBegun) {
        return breakOff(now >= exchangeDeadline ? .exchangeTimeout : .stalled)
      }
      if now >= exchangeDeadline {
        let limit = exchangeDeadline - record.begun
        return answer(
          Problem(.exchangeTimeout, "\(destination(outputs)) did not finish within the rule's \(limit) ms."),
          &workspace, &outputs)
      }
      if phase == .exchanging, upstreamIsFull || !outputs.toUpstream.isEmpty {
        let detail =
          "\(responder(outputs)) took no byte of the request for \(text(request == .done ? .responseHeader : .bodyStall))."
        return answer(Problem(.responseTimeout, detail), &workspace, &outputs)
      }
      if let spooled, spooled.move != .none {
        return spoolFailed("it did not get on for \(timeouts.bodyStallMilliseconds) ms", &workspace, &outputs)
      }
      if now >= heldDeadline, now < lastProgress + timeouts.bodyStallMilliseconds {
        return answer(tooSlowToHold(outputs), &workspace, &outputs)
      }
      if request != .done {
        return answer(
          Problem(.stalled, "No byte of the request body moved for \(text(.bodyStall))."),
          &workspace, &outputs)
      }
      if held != nil {
        let detail =
          "\(responder(outputs)) sent no byte of the response body for \(text(.bodyStall))."
        return answer(Problem(.responseTimeout, detail), &workspace, &outputs)
      }
      return answer(
        Problem(.responseTimeout, "\(responder(outputs)) did not begin a response within \(text(.responseHeader))."),
        &workspace, &outputs)
    case .tunnel:
      if let helloDeadline, now >= helloDeadline { return heldTooLong() }
      return endOfTunnel(inspected?.isPlain ?? true ? .tunnelIdle : .stalled)
    }
  }

  /// `60000 ms`, and whose word it is where it is the rule's.
  private func text(_ timeout: Timeout) -> String {
    let isOwn = rule?.timeouts.map { $0.own.contains(timeout) && $0.values[timeout] == timeouts[timeout] } ?? false
    return "\(isOwn ? "the rule's " : "")\(timeouts[timeout]) ms"
  }

  private func tooSlowToHold(_ outputs: borrowing Outputs) -> Problem {
    let rate = "at less than \(HeldBody.leastBytesPerSecond) bytes a second, too slowly to be held."
    if request != .done { return Problem(.stalled, "The request body came \(rate)") }
    return Problem(.responseTimeout, "The response body of \(destination(outputs)) came \(rate)")
  }

  /// The proxy is stopping: the exchange under way may finish, and is the last.
  public mutating func drain() -> Action {
    if phase == .idle { return .close }
    expectLastExchange()
    return .read
  }

  /// The proxy is stopping, and a client that has asked for nothing yet may still do so: that exchange is the last.
  public mutating func expectLastExchange() {
    flags.insert(.lastExchange)
    flags.remove(.clientPersists)
  }

  /// The time for draining is over. Who waits for an answer that has not begun is told.
  public mutating func shutDown(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    switch phase {
    case .collecting, .connecting, .exchanging:
      if flags.contains(.responseBegun) { return breakOff(.shutDown) }
      expectLastExchange()
      return answer(
        Problem(.shuttingDown, "The proxy is stopping, and the request was not answered in the time that it gives."),
        &workspace, &outputs)
    case .idle, .head, .over, .tunnel: return breakOffNow(.shutDown)
    }
  }

  /// Another client waits for what this one holds above its share.
  public mutating func displaced() -> Action { breakOffNow(.displaced) }

  private mutating func breakOffNow(_ outcome: Outcome) -> Action {
    switch phase {
    case .idle, .head, .over: .close
    case .collecting, .connecting, .exchanging: breakOff(outcome)
    case .tunnel: endOfTunnel(outcome)
    }
  }

  // MARK: Ends

  /// After `.end` has been performed: ready for the next request, or only to be read out.
  public mutating func reset(now: Int64, keeps: Bool) {
    phase = keeps ? .idle : .over
    hasAsked = true
    lastProgress = now
    exchangeDeadline = .max
    clientGoneAt = .max
    request = .head
    response = .head
    hop = HopState(expectation: isRepeatAwaited ? hop.expectation : [])
    inspected = nil
    parent = nil
    passedVia = []
    askedProtocol = []
    held = nil
    substituteWeight = nil
    challenged = nil
    pacing = nil
    pacedBody = ByteBuffer()
    spooled = nil
    flags = []
    record = ExchangeRecord()
  }

  /// The TLS handshake with the client of an intercepted tunnel is over: requests follow.
  public mutating func handshakeDone(now: Int64) { lastProgress = now }

  /// The response is complete.
  mutating func endOfResponse() -> Action {
    endUploadPace()
    let whole = request == .done
    let keeps = flags.contains(.upstreamPersists) && whole && !flags.contains(.dropsRequest) && isBodyOut
    return .end(
      Ending(client: !whole ? .linger : flags.contains(.clientPersists) ? .keep : .close, keepsUpstream: keeps))
  }

  /// Ends an exchange that cannot be completed, without a word that could be taken for its end. Where the framing shows
  /// that something is missing the client gets all there is; where only the end of the connection would, a reset.
  mutating func breakOff(_ outcome: Outcome) -> Action {
    endUploadPace()
    record.outcome = outcome
    if !flags.contains(.responseBegun) { record.status = 0 }
    var showsCut = outcome != .clientLeft && flags.contains(.responseBegun)
    switch response {
    case .length: break
    case .chunked, .trailers: if flags.contains(.unchunksResponse) { showsCut = false }
    case .head, .untilClose, .done: showsCut = false
    }
    return .end(Ending(client: showsCut ? .cut : .abort, keepsUpstream: false))
  }

  mutating func endOfTunnel(_ outcome: Outcome) -> Action {
    endUploadPace()
    // What a rule that is not enforced would have refused is what its operator waits to read, however the tunnel ends.
    if case .tunnelFaultReported = record.outcome {} else { record.outcome = outcome }
    return .end(Ending(client: outcome == .done ? .close : .abort, keepsUpstream: false))
  }

  /// Begins an exchange for a request that could not be read, so that it is answered and logged like any other.
  mutating func refuse(
    _ problem: Problem, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    beginRecord(now: now, &workspace)
    request = .head
    record.bytesIn = UInt64(headBytesSeen)
    return answer(problem, &workspace, &outputs)
  }

  mutating func beginRecord(now: Int64, _ workspace: inout Workspace) {
    record = ExchangeRecord()
    record.reference = workspace.references.take()
    record.client = client
    record.program = program
    if interior != nil { record.proxyUser = proxyUser }
    record.begun = now
    record.begunMicroseconds = workspace.turnMicroseconds
    record.begunWall = workspace.wallMilliseconds
    flags = flags.intersection([.lastExchange])
  }

  /// Answers for the proxy itself. The client's connection is kept only where its request is wholly read.
  mutating func answer(_ problem: Problem, _ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    let persists =
      flags.contains(.clientPersists) && request == .done
    record.outcome = .problem(problem.kind)
    record.finding = Finding(problem)
    if problem.kind == .addressDenied {
      record.decision = Decision(verdict: .deny, reason: .addressDenied, rule: record.decision?.rule)
    }
    record.status = problem.status
    phase = .exchanging
    // The proxy's own words leave at once.
    pacing = nil
    spooled = nil
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    ProblemWriter(
      problem: problem, rule: rule?.name, reference: record.reference, proxyName: workspace.name,
      prefersText: flags.contains(.prefersText), isHead: flags.contains(.isHead), closes: !persists,
      substitute: accountedSubstitute(for: problem, workspace)
    ).write(to: &outputs.toClient, date: workspace.date.bytes)
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
    // What came of a response has been read to its end, where its content was judged.
    let keepsUpstream =
      response == .done && request == .done && flags.contains(.upstreamPersists) && isBodyOut
    releaseHeld(&workspace)
    return .end(Ending(client: persists ? .keep : .linger, keepsUpstream: keepsUpstream))
  }

  /// Who answers on the connection, at the beginning of a sentence: a parent that takes requests in absolute-form, else the
  /// destination.
  func responder(_ outputs: borrowing Outputs) -> String {
    parent == nil ? destination(outputs) : "The \(parentText(outputs))"
  }

  /// The same within a sentence.
  func respondent(_ outputs: borrowing Outputs) -> String {
    parent == nil ? destination(outputs) : "the \(parentText(outputs))"
  }

  private func parentText(_ outputs: borrowing Outputs) -> String {
    "parent \(parent ?? "") of route '\(record.route ?? "-")', asked for \(destination(outputs)),"
  }

  /// The destination as the log names it, for the text of an error.
  func destination(_ outputs: borrowing Outputs) -> String {
    outputs.text.bytes.extracting(record.target).string
  }
}
