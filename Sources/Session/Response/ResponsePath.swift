// The path of a response through a session: read, checked, and rewritten for the client.

import Bytes
import HTTP1
import Policy
import Serialization

extension Exchange {
  mutating func readResponse(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    if response.traits.contains(.isDropped) { return dropResponse(bytes, now: now, &workspace, &outputs) }
    switch response.progress {
    case .head:
      return readResponseHead(bytes, now: now, &workspace, &outputs)
    case .length where bodies.held != nil, .untilClose where bodies.held != nil:
      return readHeldContent(bytes, now: now, &workspace, &outputs)
    case .length(let remaining):
      let count = Int(min(remaining, UInt64(bytes.count)))
      return Step(consumed: 0, action: count == 0 ? .read : .forward(count: count))
    case .untilClose:
      return Step(consumed: 0, action: bytes.isEmpty ? .read : .forward(count: bytes.count))
    case .chunked(var decoder):
      noteProgress(now)
      bodies.held?.contentCame(now: now)
      let step = readChunks(bytes, &decoder, &workspace, &outputs)
      if case .chunked = response.progress { response.progress = .chunked(decoder) }
      return step
    case .trailers:
      return readResponseTrailers(bytes, from: 0, &workspace, &outputs)
    case .done:
      // Unsolicited bytes after a response: the connection is not reused.
      upstream.carrier.remove(.persists)
      return Step(consumed: bytes.count, action: request.progress == .done ? endOfResponse() : .read)
    }
  }

  private mutating func readResponseHead(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    if !bytes.isEmpty {
      upstream.carrier.remove(.mayRetry)
      if outputs.replay.capacity != 0 { workspace.pool.reclaim(&outputs.replay) }
    }
    var mended = ByteBuffer()
    var progress = workspace.response.read(bytes, limits: headLimits, toHead: request.traits.contains(.isHead))
    if case .invalid = progress, mendsHeads {
      progress = workspace.response.readMending(
        bytes, limits: headLimits, toHead: request.traits.contains(.isHead), into: &mended)
    }
    switch progress {
    case .incomplete:
      return Step(consumed: 0, action: .read)
    case .invalid(let fault):
      return Step(consumed: bytes.count, action: refuseResponse(fault, &workspace, &outputs))
    case .complete(let count):
      noteQuiet(until: now)
      times.lastProgress = now
      if record.firstByteMicroseconds < 0 {
        record.firstByteMicroseconds = record.microseconds(until: now, workspace.turnMicroseconds)
      }
      let rest = bytes.count - count
      let action: Action
      if workspace.response.mendings.isEmpty {
        action = readHead(bytes.extracting(0..<count), rest: rest, now: now, &workspace, &outputs)
      } else {
        note(workspace.response.mendings)
        action = readHead(mended.bytes, rest: rest, now: now, &workspace, &outputs)
      }
      // Bytes that follow on an abandoned connection belong to no request.
      return Step(consumed: action == .reconnect ? bytes.count : count, action: action)
    }
  }

  /// A whole head, which may have been mended; `rest`: how many bytes have arrived after it.
  private mutating func readHead(
    _ head: Span<UInt8>, rest: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    workspace.response.isInformational
      ? informational(head, now: now, &workspace, &outputs) : final(head, rest: rest, now: now, &workspace, &outputs)
  }

  /// Whether a malformed head is mended if possible. An unenforced rule also allows that.
  private var mendsHeads: Bool { !rejectsMalformedHeads || !enforces }

  private var rejectsMalformedHeads: Bool {
    record.decision.flatMap { policy.response(of: $0) }?.malformed == .reject
  }

  private mutating func note(_ mendings: HeadMendings) {
    record.mended.formUnion(mendings)
    if rejectsMalformedHeads {
      record.report = .malformedResponse
      record.finding = Finding("The head of the response was mended: \(mendings.text).")
    }
  }

  /// NTLM and Negotiate authenticate the connection, not the request: a connection that may belong to one client is not
  /// shared with others.
  private func bindsConnection(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Bool {
    if upstream.carrier.contains(.isBound) { return true }
    for index in workspace.response.fields.lines.indices
    where workspace.response.fields.lines[index].known == .wwwAuthenticate {
      if bytes.authenticatesConnection(workspace.response.fields.lines[index].value) { return true }
    }
    return false
  }

  private mutating func refuseResponse(
    _ fault: MessageFault, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    client.terms.remove(.persists)
    let kind: Problem.Kind = fault.isHeadLimit ? .responseHeadTooLarge : .malformedResponse
    return answer(
      Problem(kind, "The response of \(respondent(outputs)) \(fault.sentence)."), &workspace, &outputs)
  }

  /// RFC 9110, 15.2: every 1xx is forwarded, except to an HTTP/1.0 client.
  private mutating func informational(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    if workspace.response.status == 101 {
      // RFC 9110, 7.8: not before the request is complete, because the rest of it would become the tunnel's first
      // bytes.
      guard request.traits.contains(.wantsUpgrade), request.progress == .done, isBodyOut,
        workspace.response.options.upgrade,
        let name = workspace.response.fields.relayedProtocol(bytes),
        bytes.equals(name, ignoringCase: request.upgrade.span)
      else { return refuseResponse(.unexpectedSwitch, &workspace, &outputs) }
      if let problem = request.webSocketProof.fault(bytes, workspace.response.fields, by: respondent(outputs)) {
        client.terms.remove(.persists)
        return answer(problem, &workspace, &outputs)
      }
      record.status = 101
      writeResponseHead(
        bytes, ResponseHeadEdits(connection: "Connection: Upgrade\r\n"), upgrade: name, &workspace, &outputs)
      enterTunnel()
      return .tunnel
    }
    if upstream.carrier.contains(.awaitsContinue), workspace.response.status == 100 {
      // The response to the proxy's own expectation.
      upstream.carrier.remove(.awaitsContinue)
      return .read
    }
    guard response.informational.take(bytes.count, now: now, burst: headLimits.bytes) else {
      return refuseResponse(.unexpectedInformational, &workspace, &outputs)
    }
    if let problem = judgeRedirects(bytes, workspace, outputs) { return answer(problem, &workspace, &outputs) }
    if !client.terms.contains(.isHTTP10) {
      writeResponseHead(bytes, ResponseHeadEdits(), &workspace, &outputs)
    }
    return .read
  }

  private mutating func final(
    _ bytes: Span<UInt8>, rest: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    record.status = workspace.response.status
    noteOrigin(bytes, workspace, &outputs)
    if let problem = refusedSwitch(workspace.response.status, outputs) {
      return answer(problem, &workspace, &outputs)
    }
    if let parent = upstream.parent, workspace.response.status == 407, bodies.challenged?.parent == nil {
      return answer(parentWantsCredentials(parent, outputs), &workspace, &outputs)
    }
    let mayKeep = workspace.response.isPersistent && (upstream.parent == nil || workspace.response.options.keepAlive)
    // If a head had to be mended, the next one may begin where its sender did not mean it to.
    if mayKeep, record.mended.isEmpty, !bindsConnection(bytes, workspace) { upstream.carrier.insert(.persists) }
    if workspace.response.options.namesFields {
      response.namedFields = workspace.response.fields.connectionOptions(bytes)
    }
    response.progress = Self.progress(of: workspace.response.framing)
    if let action = answerChallenge(bytes, rest: rest, now: now, &workspace, &outputs) { return action }
    upstream.carrier.remove(.awaitsContinue)
    if let parent = upstream.parent, workspace.response.status == 407 {
      upstream.carrier.remove(.persists)
      return answer(parentWantsCredentials(parent, outputs), &workspace, &outputs)
    }
    if let problem = judgeRedirects(bytes, workspace, outputs) { return answer(problem, &workspace, &outputs) }
    if let problem = judgeFailure(bytes, workspace, outputs) { return answer(problem, &workspace, &outputs) }
    var edits = ResponseHeadEdits()
    switch judgeHead(bytes, workspace, outputs) {
    case .passes(let passing):
      edits = passing
      if edits.unjudged == nil { noteSerializer() }
      note(edits.violations)
    case .rejected(let judgement):
      noteSerializer()
      return reject(bytes, judgement, now: now, &workspace, &outputs)
    case .holds(let judgement):
      noteSerializer()
      return hold(bytes, judgement, &workspace, &outputs)
    }
    response.traits.insert(.hasBegun)
    prepareFraming(workspace.response.framing)
    // While a request's body is still on its way, another request cannot safely follow on this connection.
    if request.progress != .done, !refusesExpectation(workspace.response.status) { client.terms.remove(.persists) }
    edits.connection = connectionLine
    writeResponseHead(bytes, edits, &workspace, &outputs)
    switch response.progress {
    case .done:
      return request.progress == .done && rest == 0 ? endOfResponse() : endOrDiscard(rest)
    case .length(let remaining):
      return rest > 0 ? .forward(count: Int(min(remaining, UInt64(rest)))) : .read
    case .untilClose:
      return rest > 0 ? .forward(count: rest) : .read
    case .chunked, .head, .trailers:
      return .read
    }
  }

  /// Why a final response cannot answer a request to open a tunnel on a stream of HTTP/2: any 2xx would open it there
  /// (RFC 8441, 5), and the origin has not switched.
  private func refusedSwitch(_ status: Int, _ outputs: borrowing Outputs) -> Problem? {
    guard record.wire == .http2, request.traits.contains(.wantsUpgrade), (200..<300).contains(status) else {
      return nil
    }
    let difference = Difference(expected: "101 to \(request.upgrade.span.string)", seen: "\(status)")
    return Problem(
      .protocolNotOffered, "\(responder(outputs)) did not switch: expected \(difference.expected), seen \(status).",
      difference: difference, receivedStatus: status)
  }

  /// Records what the log line shows of the original response, whatever the client gets.
  private mutating func noteOrigin(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace, _ outputs: inout Outputs) {
    // A response from the store has no origin status.
    if record.cache?.isSaidByOrigin ?? true { record.upstreamStatus = workspace.response.status }
    guard let type = workspace.response.fields.only(.contentType) else { return }
    // If a request was sent twice the second response counts; the first was discarded.
    let begin = outputs.text.count
    outputs.text.append(bytes.extracting(type.prefix(Self.longestLoggedType)))
    record.upstreamType = begin..<outputs.text.count
  }

  /// Longest Content-Type in bytes in a log line; those in use are shorter.
  static let longestLoggedType = 100

  /// The Connection field for the client.
  var connectionLine: StaticString {
    if !client.terms.contains(.persists) { return "Connection: close\r\n" }
    return client.terms.contains(.asksToKeep) ? "Connection: keep-alive\r\n" : ""
  }

  private static func progress(of framing: BodyFraming) -> Progress {
    switch framing {
    case .none, .length(0): .done
    case .length(let length): .length(remaining: length)
    case .chunked: .chunked(ChunkedDecoder())
    case .untilClose: .untilClose
    }
  }

  /// Adapts the client's connection to the framing of a response that is forwarded unchanged.
  mutating func prepareFraming(_ framing: BodyFraming) {
    switch framing {
    case .none, .length: break
    case .chunked:
      if client.terms.contains(.isHTTP10) {
        response.traits.insert(.isUnchunked)
        client.terms.remove(.persists)
      }
    case .untilClose: client.terms.remove(.persists)
    }
  }

  /// The response ends with its head, although more bytes arrived, or the request is incomplete.
  private mutating func endOrDiscard(_ rest: Int) -> Action {
    if rest > 0 { upstream.carrier.remove(.persists) }
    return endOfResponse()
  }

  mutating func writeResponseHead(
    _ bytes: Span<UInt8>, _ edits: ResponseHeadEdits, upgrade: Range<Int>? = nil, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) {
    let last = workspace.response.fields.lines.last.map { $0.line.upperBound } ?? 64
    workspace.pool.lend(&outputs.toClient, last + 256)
    let before = outputs.toClient.count
    workspace.response.fields.dropRepeatedLength()
    // RFC 9110, 8.6: none in a 1xx or 204, whatever the server sends.
    if workspace.response.isInformational || workspace.response.status == 204 {
      workspace.response.fields.drop(.contentLength)
    }
    if response.traits.contains(.hasNoCookies) { workspace.response.fields.drop(.setCookie) }
    dropProofs(bytes, &workspace.response.fields)
    if edits.framing != .asItCame { workspace.response.fields.drop(.contentLength) }
    if edits.isDecoded { workspace.response.fields.drop(.contentEncoding) }
    // RFC 9110, 15.5.22: the Upgrade field of 426 names the protocol to use instead.
    let keepsUpgrade = workspace.response.status == 426 && workspace.response.fields.keep(.upgrade)
    let told = workspace.response.isInformational ? [] : translatedFields(bytes, &workspace, outputs)
    let tag = edits.isRewritten ? dropDigests(bytes, &workspace.response.fields) : nil
    // Without its chunked coding the content has no trailers.
    if response.traits.contains(.isUnchunked) { workspace.response.fields.drop(.trailer) }
    let announced =
      workspace.response.fields.first(.trailer) == nil
      ? []
      : workspace.response.fields.announceTrailers(bytes, without: removedTrailers, response.namedFields)
    outputs.toClient.append("HTTP/1.1 ")
    outputs.toClient.append(decimal: UInt64(workspace.response.status), width: 3)
    outputs.toClient.append(0x20)
    outputs.toClient.append(bytes.extracting(workspace.response.reason))
    outputs.toClient.append("\r\n")
    workspace.response.fields.write(bytes, to: &outputs.toClient)
    outputs.toClient.append(told)
    outputs.toClient.append(announced)
    // RFC 9110, 6.6.1: a proxy that forwards a response without a date adds the time of arrival.
    if !workspace.response.isInformational, workspace.response.fields.first(.date) == nil {
      outputs.toClient.append("Date: ")
      outputs.toClient.append(workspace.date.bytes)
      outputs.toClient.append("\r\n")
    }
    if let tag {
      outputs.toClient.append("ETag: W/")
      outputs.toClient.append(bytes.extracting(tag))
      outputs.toClient.append("\r\n")
    }
    writeFraming(edits.framing, workspace, &outputs)
    if !workspace.response.isInformational {
      writeProxyStatus(edits, workspace, &outputs)
      writeCacheStatus(workspace, &outputs.toClient)
    }
    if keepsUpgrade { outputs.toClient.append("Connection: Upgrade\r\n") }
    outputs.toClient.append(edits.connection)
    if let upgrade {
      outputs.toClient.append("Upgrade: ")
      outputs.toClient.append(bytes.extracting(upgrade))
      outputs.toClient.append("\r\n")
    }
    outputs.toClient.append("Via: ")
    outputs.toClient.append((record.upstreamWire ?? .http11).version(minor: workspace.response.minorVersion))
    outputs.toClient.append(0x20)
    outputs.toClient.append(workspace.name)
    outputs.toClient.append("\r\n\r\n")
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
  }

  /// Fields translated for the program, because its request was sent to another URL: their new lines with line ends.
  private func translatedFields(
    _ bytes: Span<UInt8>, _ workspace: inout Workspace, _ outputs: borrowing Outputs
  ) -> [UInt8] {
    guard target != nil || upstream.way.contains(.isUpgraded) else { return [] }
    let text = outputs.text.bytes
    let translation = FieldTranslation(
      policy: policy, sender: sender, method: text.extracting(record.method).array,
      url: text.extracting(record.target).array, port: upstream.port)
    return translation.translate(bytes, of: target, &workspace)
  }

  /// Names of fields that are removed from trailers for the client.
  private var removedTrailers: [[UInt8]] {
    (response.traits.contains(.hasNoCookies) ? [Array("set-cookie".utf8)] : []) + removedProofs
  }

  private func writeFraming(
    _ framing: ResponseHeadEdits.Framing, _ workspace: borrowing Workspace, _ outputs: inout Outputs
  ) {
    switch framing {
    case .asItCame:
      guard case .chunked = response.progress, !response.traits.contains(.isUnchunked),
        !workspace.response.isInformational
      else {
        return
      }
      outputs.toClient.append("Transfer-Encoding: chunked\r\n")
    case .unsaid: return
    case .chunked: outputs.toClient.append("Transfer-Encoding: chunked\r\n")
    case .length(let count):
      outputs.toClient.append("Content-Length: ")
      outputs.toClient.append(decimal: UInt64(count))
      outputs.toClient.append("\r\n")
    }
  }

  /// Reports to the client why the response was not checked, what it violates, and what was mended.
  private func writeProxyStatus(
    _ edits: ResponseHeadEdits, _ workspace: borrowing Workspace, _ outputs: inout Outputs
  ) {
    let remark = bodies.challenged?.remark
    if edits.violations.isEmpty, edits.unjudged == nil, record.mended.isEmpty, remark == nil { return }
    var details = edits.violations.map(\.sentence)
    if let remark { details.append("the rule's digest credentials \(remark)") }
    if let unjudged = edits.unjudged { details.append("not judged: \(unjudged.rawValue)") }
    if !record.mended.isEmpty { details.append("mended: \(record.mended.text)") }
    outputs.toClient.append("Proxy-Status: ")
    outputs.toClient.append(
      proxyStatusOf: workspace.name, error: edits.violations.first.map { Problem.Kind($0.subject).errorType },
      details: details.joined(separator: "; "), rule: rule?.name)
    outputs.toClient.append("\r\n")
  }

  /// Drops fields that describe the original content after a rewrite (RFC 9530; RFC 9110, 8.8.3 and 14.3). Returns the
  /// value of a strong entity tag, which continues as a weak one.
  private func dropDigests(_ bytes: Span<UInt8>, _ fields: inout FieldSection) -> Range<Int>? {
    for name in Self.digestFields { fields.drop(name, in: bytes) }
    for index in fields.lines.indices
    where !fields.lines[index].isDropped && bytes.equals(fields.lines[index].name, ignoringCase: "etag") {
      let value = fields.lines[index].value
      guard let first = value.first, bytes[first] == 0x22 else { continue }
      fields.lines[index].isDropped = true
      return value
    }
    return nil
  }

  static let digestFields = ["content-md5", "digest", "content-digest", "repr-digest", "accept-ranges"].map {
    Array($0.utf8)
  }

  private mutating func readChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        if bodies.held != nil {
          guard let action = take(bytes.extracting(range), &workspace, &outputs) else { continue }
          if action != .read { return Step(consumed: bytes.count, action: action) }
        }
        workspace.pool.lend(&outputs.toClient, bytes.count + 64)
        let before = outputs.toClient.count
        if response.traits.contains(.isUnchunked) {
          outputs.toClient.append(bytes.extracting(range))
        } else {
          outputs.toClient.appendChunk(bytes.extracting(range))
        }
        record.bytesOut &+= UInt64(outputs.toClient.count - before)
      case .needMore(let consumed):
        return Step(consumed: consumed, action: .read)
      case .lastChunk(let consumed):
        response.progress = .trailers
        return readResponseTrailers(bytes, from: consumed, &workspace, &outputs)
      case .invalid(let fault):
        return Step(consumed: bytes.count, action: refuseResponseBody(fault, &workspace, &outputs))
      }
    }
  }

  /// If no byte of the response has left yet, the client gets an error; otherwise the response is cut short.
  private mutating func refuseResponseBody(
    _ fault: MessageFault, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard record.bytesOut == UInt64(outputs.toClient.count) else {
      record.finding = Finding("The body of the response of \(respondent(outputs)) \(fault.sentence).")
      return breakOff(.malformedBody)
    }
    outputs.toClient.removeAll()
    record.bytesOut = 0
    client.terms.remove(.persists)
    let kind: Problem.Kind = fault.isHeadLimit ? .responseHeadTooLarge : .malformedResponse
    return answer(
      Problem(kind, "The body of the response of \(respondent(outputs)) \(fault.sentence)."), &workspace, &outputs)
  }

  private mutating func readResponseTrailers(
    _ bytes: Span<UInt8>, from: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch TrailerReader.read(bytes, from: from, limits: headLimits, into: &workspace.trailers) {
    case .incomplete: return Step(consumed: from, action: .read)
    case .invalid(let fault):
      return Step(consumed: bytes.count, action: refuseResponseBody(fault, &workspace, &outputs))
    case .complete(let end):
      response.progress = .done
      if response.traits.contains(.hasNoCookies) { workspace.trailers.drop(.setCookie) }
      dropProofs(bytes, &workspace.trailers)
      workspace.trailers.drop(namedIn: response.namedFields, bytes)
      if bodies.held != nil {
        if end < bytes.count { upstream.carrier.remove(.persists) }
        holdTrailers(bytes, workspace)
        return Step(consumed: end, action: judgeHeld(&workspace, &outputs))
      }
      if !response.traits.contains(.isUnchunked) {
        workspace.pool.lend(&outputs.toClient, end + 64)
        let before = outputs.toClient.count
        outputs.toClient.append("0\r\n")
        workspace.trailers.write(bytes, to: &outputs.toClient)
        outputs.toClient.append("\r\n")
        record.bytesOut &+= UInt64(outputs.toClient.count - before)
      }
      if end < bytes.count { upstream.carrier.remove(.persists) }
      return Step(consumed: end, action: endOfResponse())
    }
  }
}
