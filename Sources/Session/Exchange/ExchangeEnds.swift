// Deadlines, and the ways in which an exchange ends: aborts, and responses of the proxy's own.

import Bytes
import HTTP1
import Policy

extension Exchange {
  // MARK: Time

  /// The time-outs of the rule that decided the current exchange, otherwise the general ones.
  public var timeouts: Timeouts { policy.timeouts(of: record.decision?.rule) }

  /// When `timedOut` has to be called, unless something moves before.
  var deadline: Int64 {
    if awaitsOperator { return times.operatorDeadline }
    let timeouts = self.timeouts
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

  /// How long a client that has closed its sending direction waits for more of a response, in milliseconds: long enough
  /// for most origins to begin, short enough not to keep one working for no client.
  static let halfClosedMilliseconds: Int64 = 5_000

  /// The deadline has passed. `upstreamIsFull`: bytes of the request, besides those in `outputs`, wait for the upstream
  /// to accept them.
  mutating func timedOut(
    now: Int64, upstreamIsFull: Bool, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    if awaitsOperator { return unanswered(now: now, &workspace, &outputs) }
    if resumePace(now: now, &workspace, &outputs) { return .read }
    let timeouts = self.timeouts
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
      if let action = rejectWaiting(&workspace, &outputs) { return action }
      if response.traits.contains(.hasBegun) {
        return breakOff(now >= times.exchangeDeadline ? .exchangeTimeout : .stalled)
      }
      if now >= times.exchangeDeadline {
        let limit = times.exchangeDeadline - record.begun
        return answer(
          Problem(.exchangeTimeout, "\(destination(outputs)) did not finish within the rule's \(limit) ms."),
          &workspace, &outputs)
      }
      if phase == .exchanging, upstreamIsFull || !outputs.toUpstream.isEmpty {
        let detail =
          "\(responder(outputs)) took no byte of the request for \(text(request.progress == .done ? .responseHeader : .bodyStall))."
        return answer(Problem(.responseTimeout, detail), &workspace, &outputs)
      }
      if let spooled = bodies.spooled, spooled.move != .none {
        return spoolFailed("it did not get on for \(timeouts.bodyStallMilliseconds) ms", &workspace, &outputs)
      }
      if now >= heldDeadline, now < times.lastProgress + timeouts.bodyStallMilliseconds {
        return answer(tooSlowToHold(outputs), &workspace, &outputs)
      }
      if request.progress != .done {
        return answer(
          Problem(.stalled, "No byte of the request body moved for \(text(.bodyStall))."),
          &workspace, &outputs)
      }
      if bodies.held != nil {
        let detail =
          "\(responder(outputs)) sent no byte of the response body for \(text(.bodyStall))."
        return answer(Problem(.responseTimeout, detail), &workspace, &outputs)
      }
      return answer(
        Problem(.responseTimeout, "\(responder(outputs)) did not begin a response within \(text(.responseHeader))."),
        &workspace, &outputs)
    case .tunnel:
      if let helloDeadline, now >= helloDeadline { return heldTooLong() }
      return endOfTunnel(tunnel.inspected?.isPlain ?? true ? .tunnelIdle : .stalled)
    }
  }

  /// Whether the client has left, and its time to come back is over.
  public func clientIsGone(now: Int64) -> Bool { now >= times.clientGoneAt }
  /// Whether the time that the rule gives the whole exchange is over.
  public func isOutOfTime(now: Int64) -> Bool { now >= times.exchangeDeadline }

  /// The deadline has passed, and only the client has to take what is left.
  mutating func deliveryTimedOut(now: Int64) -> Action {
    breakOffNow(now >= times.exchangeDeadline ? .exchangeTimeout : now >= times.clientGoneAt ? .clientLeft : .stalled)
  }

  /// The client did not get the last `count` bytes of its response.
  public mutating func clientMissed(_ count: Int, _ outcome: Outcome) {
    record.bytesOut -= min(record.bytesOut, UInt64(count))
    if count > 0, record.outcome == .done { record.outcome = outcome }
  }

  /// `60000 ms`, marked as the rule's if the rule sets it.
  private func text(_ timeout: Timeout) -> String {
    let isOwn = rule?.timeouts.map { $0.own.contains(timeout) && $0.values[timeout] == timeouts[timeout] } ?? false
    return "\(isOwn ? "the rule's " : "")\(timeouts[timeout]) ms"
  }

  private func tooSlowToHold(_ outputs: borrowing Outputs) -> Problem {
    let rate = "at less than \(HeldBody.leastBytesPerSecond) bytes a second, too slowly to be held."
    if request.progress != .done { return Problem(.stalled, "The request body came \(rate)") }
    return Problem(.responseTimeout, "The response body of \(destination(outputs)) came \(rate)")
  }

  /// The proxy is stopping: this is the last exchange of its connection.
  mutating func expectNoOther() {
    client.terms.insert(.isLast)
    client.terms.remove(.persists)
  }

  /// The time for draining is over. A client whose response has not begun gets an error.
  mutating func shutDown(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    end(
      .shutDown,
      Problem(.shuttingDown, "The proxy is stopping, and the request was not answered in the time that it gives."),
      &workspace, &outputs)
  }

  /// An operator ends it, in any phase.
  mutating func cancelled(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    end(.cancelled, Problem(.cancelled, "An operator has ended the request (sallyport cancel)."), &workspace, &outputs)
  }

  /// The policy in force now denies it, and the operator wants that to apply to exchanges under way.
  /// `denial`: what denies it, as the subject of a sentence.
  mutating func policyChanged(
    _ denial: String, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    if awaitsOperator { settle(.deny, .ruleDenies) }
    // Its own rule, which is of the policy before, does not deny it: a rule before that one would change nothing.
    let advice = Advice(
      reason: record.decision?.reason ?? .ruleDenies, contact: policy.configuration.proxy.contact, rule: nil,
      question: nil)
    let problem = Problem(.denied, "The policy has changed, and \(denial) denies this request now.", advice: advice)
    return end(.policyChanged, problem, &workspace, &outputs)
  }

  /// A client whose response has not begun gets an error.
  private mutating func end(
    _ outcome: Outcome, _ problem: Problem, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    if phase == .tunnel || response.traits.contains(.hasBegun) { return breakOffNow(outcome) }
    expectNoOther()
    return answer(problem, &workspace, &outputs)
  }

  /// Ends it in any phase.
  mutating func breakOffNow(_ outcome: Outcome) -> Action {
    phase == .tunnel ? endOfTunnel(outcome) : breakOff(outcome)
  }

  // MARK: Ends

  /// The response is complete.
  mutating func endOfResponse() -> Action {
    endUploadPace()
    let whole = request.progress == .done
    let keeps = upstream.carrier.contains(.persists) && whole && !upstream.carrier.contains(.dropsRequest) && isBodyOut
    return .end(
      Ending(client: !whole ? .linger : client.terms.contains(.persists) ? .keep : .close, keepsUpstream: keeps))
  }

  /// Ends an exchange that cannot be completed, without anything that could pass for its end. If the framing shows that
  /// something is missing, the client gets all that has arrived. If only the end of the connection would show it, the
  /// client gets a reset.
  mutating func breakOff(_ outcome: Outcome) -> Action {
    endUploadPace()
    record.outcome = outcome
    if !response.traits.contains(.hasBegun) { record.status = 0 }
    var showsCut = outcome != .clientLeft && response.traits.contains(.hasBegun)
    switch response.progress {
    case .length: break
    case .chunked, .trailers: if response.traits.contains(.isUnchunked) { showsCut = false }
    case .head, .untilClose, .done: showsCut = false
    }
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
    _ problem: Problem, bytesIn count: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    request.progress = .head
    record.bytesIn = UInt64(count)
    return answer(problem, &workspace, &outputs)
  }

  /// Sends a response of the proxy's own. The client's connection is kept only if the request was read completely.
  mutating func answer(_ problem: Problem, _ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    let persists =
      client.terms.contains(.persists) && request.progress == .done
    record.outcome = .problem(problem.kind)
    record.finding = Finding(problem)
    if record.cache == .stored {
      // What is refused is not kept.
      record.cache = .miss
      response.cacheStatus = String(response.cacheStatus.prefix { $0 != ";" })
    }
    if problem.kind == .addressDenied {
      record.decision = Decision(verdict: .deny, reason: .addressDenied, rule: record.decision?.rule)
    }
    record.status = problem.status
    var problem = problem
    if problem.advice == nil, let decision = record.decision, decision.verdict == .deny {
      problem.advice = advice(on: decision)
    }
    phase = .exchanging
    // The proxy's own responses leave at once.
    bodies.pacing = nil
    bodies.spooled = nil
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    ProblemWriter(
      problem: problem, rule: rule?.name, reference: record.reference, proxyName: workspace.name,
      form: client.answerForm, isHead: request.traits.contains(.isHead), closes: !persists,
      cacheStatus: response.cacheStatus,
      substitute: client.answerForm == .grpc ? nil : accountedSubstitute(for: problem, workspace)
    ).write(to: &outputs.toClient, date: workspace.date.bytes)
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
    // If the content of a response was checked, the response has been read to its end.
    let keepsUpstream =
      response.progress == .done && request.progress == .done && upstream.carrier.contains(.persists) && isBodyOut
    releaseHeld(&workspace)
    return .end(Ending(client: persists ? .keep : .linger, keepsUpstream: keepsUpstream))
  }

  /// The peer that answers on the connection, for the beginning of a sentence: a parent that takes requests in
  /// absolute-form, otherwise the destination.
  func responder(_ outputs: borrowing Outputs) -> String {
    upstream.parent == nil ? destination(outputs) : "The \(parentText(outputs))"
  }

  /// The same, for within a sentence.
  func respondent(_ outputs: borrowing Outputs) -> String {
    upstream.parent == nil ? destination(outputs) : "the \(parentText(outputs))"
  }

  private func parentText(_ outputs: borrowing Outputs) -> String {
    "parent \(upstream.parent ?? "") of route '\(record.route ?? "-")', asked for \(destination(outputs)),"
  }

  /// The destination as the log names it, for the text of an error.
  func destination(_ outputs: borrowing Outputs) -> String {
    outputs.text.bytes.extracting(record.target).string
  }

  /// A parent's 407 is about the credentials of the route, not the client's. Passed on, it would look as if this proxy
  /// asked the client for them.
  func parentWantsCredentials(_ parent: String, _ outputs: borrowing Outputs) -> Problem {
    Problem(
      .parentAuthentication,
      "The parent \(parent) of route '\(record.route ?? "-")' answered 407 for \(destination(outputs)): "
        + (bodies.challenged?.remark.map { "the route's digest credentials \($0)." }
          ?? "it expects other credentials than it was given."),
      receivedStatus: 407)
  }

  /// Advice on the refusal by `decision`.
  func advice(on decision: Decision, question: Advice.Question? = nil) -> Advice {
    Advice(
      reason: decision.reason, contact: policy.configuration.proxy.contact,
      rule: decision.isMendable ? narrowestRule(for: decision) : nil, question: question)
  }

  /// If the rule that asks sets `connect`, the proposed rule sets it too.
  private func narrowestRule(for decision: Decision) -> String? {
    let connect = decision.rule.flatMap { policy.rules[$0].connect }
    guard let question = request.question else { return nil }
    let rule = question.request.rule(connect: request.traits.contains(.isTunnel) ? connect : nil, path: question.path)
    guard let text = rule?.text else { return nil }
    return decision.placed(text, before: self.rule?.name)
  }

  // MARK: Requests that go no further

  /// Answers OPTIONS * and TRACE and OPTIONS that may go no further (RFC 9110, 7.6.2).
  mutating func answerForItself(
    _ bytes: Span<UInt8>, headBytes: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    let persists =
      client.terms.contains(.persists) && !client.terms.contains(.isHTTP10) && request.progress == .done
    record.status = 200
    phase = .exchanging
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    outputs.toClient.append("HTTP/1.1 200 OK\r\nDate: ")
    outputs.toClient.append(workspace.date.bytes)
    if workspace.request.knownMethod == .trace {
      var echo = ByteBuffer()
      workspace.request.writeEcho(bytes, to: &echo)
      outputs.toClient.append("\r\nContent-Type: message/http\r\nContent-Length: ")
      outputs.toClient.append(decimal: UInt64(echo.count))
      outputs.toClient.append(persists ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n")
      outputs.toClient.append(echo.bytes)
    } else {
      outputs.toClient.append(
        "\r\nAllow: CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, TRACE\r\nContent-Length: 0")
      outputs.toClient.append(persists ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n")
    }
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
    return .end(Ending(client: persists ? .keep : .linger, keepsUpstream: false))
  }
}
