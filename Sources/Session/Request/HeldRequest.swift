// Requests whose body a serializer rewrites ([rule.request]). The body is collected before anything is opened upstream,
// so a slow client occupies no upstream connection, and the origin gets a length.
//
//   head → (work) → nothing, or a body that is made ─────────→ connect
//             └ held → body … → (rewrite) → a new body ──────→ connect
//                       │            └ conflict → 415, or as it came
//                       └ longer than may be held → 413, or as it came, the rest of it streamed
//
// Tests: HeldRequestTests.

import Bytes
import HTTP1
import Policy
import Serialization

/// Changes to the head of a request because of its body.
struct RequestBodyEdits {
  enum TypeEdit {
    case asItCame
    /// Written if neither the client nor the rule has one.
    case ifAbsent([UInt8])
    case replaced([UInt8])
  }

  /// Length of the replacement body; nil: the body is unchanged.
  var length: Int? = nil
  var type = TypeEdit.asItCame
  /// The proxy has sent the client 100 Continue.
  var hasContinued = false
  /// The content is unchanged, although it has a length now, and no trailers.
  var isAsItCame = false
}

extension Exchange {
  private var serialization: RequestSerialization? {
    record.decision.flatMap { policy.request(of: $0).serialization }
  }

  /// Prepares a request for sending: with a body from the serializer, after collecting the original one, or unchanged.
  mutating func prepare(
    _ bytes: Span<UInt8>, headBytes: Int, _ edits: RequestPolicy, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action {
    // RFC 9110, 9.3.8: TRACE has no content, and its response echoes what it receives.
    let isEcho = EchoMethod.includes(bytes.extracting(workspace.request.method))
    guard let serialization = edits.serialization, !isEcho else {
      return send(bytes, headBytes: headBytes, edits, &workspace, &outputs)
    }
    switch work(bytes, serialization, workspace) {
    case .nothing: return send(bytes, headBytes: headBytes, edits, &workspace, &outputs)
    case .made:
      let made = serialization.madeBody(workspace.request.fields.only(.contentType), in: bytes)
      bodies.challenged?.body = .made(made)
      let body = RequestBodyEdits(length: made.count, type: .ifAbsent(serialization.contentType))
      writeRequest(bytes, edits, body, &workspace, &outputs)
      sendMade(made.span, &outputs)
      phase = .connecting
      return .connect
    case .held:
      let action = beginCollecting(bytes, headBytes: headBytes, &workspace, &outputs)
      bodies.held?.isForSerializer = true
      return action
    case .conflict(let conflict):
      if let problem = problem(of: conflict, serialization) { return answer(problem, &workspace, &outputs) }
      return send(bytes, headBytes: headBytes, edits, &workspace, &outputs)
    }
  }

  private mutating func send(
    _ bytes: Span<UInt8>, headBytes: Int, _ edits: RequestPolicy, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action {
    if buffers(edits) {
      bodies.spooled = SpooledBody()
      return beginCollecting(bytes, headBytes: headBytes, &workspace, &outputs)
    }
    if collectsForChallenge(workspace) { return beginCollecting(bytes, headBytes: headBytes, &workspace, &outputs) }
    if request.progress != .done { bodies.challenged?.body = .streamed }
    writeRequest(bytes, edits, RequestBodyEdits(), &workspace, &outputs)
    phase = .connecting
    return .connect
  }

  private func work(
    _ bytes: Span<UInt8>, _ serialization: RequestSerialization, _ workspace: borrowing Workspace
  ) -> BodyWork {
    let contentLength: UInt64? =
      switch workspace.request.framing {
      case .none, .untilClose: 0
      case .length(let length): length
      case .chunked: nil
      }
    let fields = workspace.request.fields
    let contentType = fields.only(.contentType)
    let head = RequestBodyHead(
      contentType: contentType, hasSeveralTypes: contentType == nil && fields.first(.contentType) != nil,
      contentLength: contentLength, isCoded: Self.codings(bytes, fields) != .codings([]),
      isPart: fields.contains(Self.contentRangeName, in: bytes))
    return serialization.work(bytes, method: workspace.request.method, head, limits: contentLimits)
  }

  private static let contentRangeName = Array("content-range".utf8)

  /// The error for a conflict; nil if the rule lets the request pass unchanged.
  private mutating func problem(of conflict: SerializationConflict, _ serialization: RequestSerialization) -> Problem? {
    let kind: Problem.Kind = conflict.subject == .size ? .requestBodyTooLarge : .unsupportedBody
    let problem = Problem(kind, conflict.detail)
    record.serializer = serialization.format.rawValue
    if serialization.onConflict == .reject {
      if enforces { return problem }
      record.report = kind
    }
    record.violation = kind
    record.finding = Finding(problem)
    return nil
  }

  /// Sends a body that the proxy made, at the rule's pace if it sets one.
  mutating func sendMade(_ body: Span<UInt8>, _ outputs: inout Outputs) {
    if bodies.pacing?.isForUploads ?? false {
      bodies.paced.append(body)
      upstream.carrier.remove(.mayRetry)
    } else {
      outputs.toUpstream.append(body)
      if body.count > Self.longestReplayedBody { upstream.carrier.remove(.mayRetry) }
    }
  }

  // MARK: Collecting

  /// Whether the body is collected for the serializer, and not only for a challenge or its length.
  private var isSerialized: Bool { bodies.held?.isForSerializer ?? false }

  private mutating func beginCollecting(
    _ bytes: Span<UInt8>, headBytes: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    let held = HeldBody(workspace.heldBytes)
    bodies.held = held
    workspace.pool.lend(&held.head, headBytes)
    held.head.append(bytes.extracting(0..<headBytes))
    // For its head. If even that is too much, a body that goes to a file is still accepted.
    guard held.account(ofAll: heldLimit) || bodies.spooled != nil else {
      return refuseToHold(&workspace, &outputs)
    }
    if request.traits.contains(.expectsContinue) {
      // RFC 9110, 10.1.1: the proxy reads the content itself, so it asks the client to send it.
      workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
      let before = outputs.toClient.count
      outputs.toClient.append("HTTP/1.1 100 Continue\r\n\r\n")
      record.bytesOut &+= UInt64(outputs.toClient.count - before)
    }
    phase = .collecting
    return .read
  }

  /// Bytes of a body that is being collected.
  mutating func collect(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    times.lastProgress = now
    bodies.held?.contentCame(now: now)
    guard case .length(let remaining) = request.progress else {
      let step = readRequestBody(bytes, now: now, &workspace, &outputs)
      // This call released the body, complete or not.
      if phase == .connecting { return Step(consumed: step.consumed, action: .connect) }
      return step
    }
    let count = Int(min(remaining, UInt64(bytes.count)))
    if count == 0 { return Step(consumed: 0, action: .read) }
    if let action = collect(bytes.extracting(0..<count), &workspace, &outputs) {
      return Step(consumed: 0, action: action)
    }
    record.bytesIn &+= UInt64(count)
    request.progress = remaining == UInt64(count) ? .done : .length(remaining: remaining - UInt64(count))
    return Step(consumed: count, action: request.progress == .done ? finishCollecting(&workspace, &outputs) : .read)
  }

  /// Holds a piece of content. Returns an action if the body is not collected any longer: `.connect` means that the
  /// request leaves unchanged, with this piece after the held content.
  mutating func collect(
    _ piece: Span<UInt8>, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action? {
    guard let held = bodies.held else { return .connect }
    if let spooled = bodies.spooled { return spool(piece, held, spooled, &workspace, &outputs) }
    guard held.content.count + piece.count <= contentLimits.heldBytes else {
      guard let serialization, isSerialized else { return leaveAsItCame(&workspace, &outputs) }
      if let decision = record.decision, buffers(policy.request(of: decision)),
        problem(of: serialization.tooLarge("more", contentLimits), serialization) == nil
      {
        // It is sent unchanged except for its framing.
        let spooled = SpooledBody()
        bodies.spooled = spooled
        return spool(piece, held, spooled, &workspace, &outputs)
      }
      return passOn(serialization.tooLarge("more", contentLimits), &workspace, &outputs)
    }
    guard held.account(ofAll: heldLimit, adding: piece.count) else {
      return refuseToHold(&workspace, &outputs)
    }
    held.append(piece, &workspace.pool)
    return nil
  }

  /// The body is complete: rewrites it, and the head before it.
  mutating func finishCollecting(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    if bodies.spooled != nil { return finishSpooling(&workspace, &outputs) }
    guard let held = bodies.held, let decision = record.decision else { preconditionFailure("nothing was collected") }
    let edits = policy.request(of: decision)
    guard let serialization = edits.serialization, isSerialized else { return leaveAsItCame(&workspace, &outputs) }
    var head = held.takeHead()
    readAgain(head.bytes, &workspace)
    var body = ByteBuffer()
    let outcome = serialization.rewrite(
      held.content.bytes, head.bytes, method: workspace.request.method,
      contentType: workspace.request.fields.only(.contentType), limits: contentLimits, to: &body)
    switch outcome {
    case .failure(let conflict):
      swap(&head, &held.head)
      return passOn(conflict, &workspace, &outputs)
    case .success(let rewritten):
      var bodyEdits = RequestBodyEdits(length: body.count, hasContinued: true)
      switch rewritten {
      case .ofSameType: bodyEdits.type = held.content.isEmpty ? .ifAbsent(serialization.contentType) : .asItCame
      case .ofSerializersType: bodyEdits.type = .replaced(serialization.contentType)
      }
      writeRequest(head.bytes, edits, bodyEdits, &workspace, &outputs)
      workspace.pool.reclaim(&head)
      sendMade(body.bytes, &outputs)
      keepForChallenge(body.bytes, &workspace, outputs)
      phase = .connecting
      return .connect
    }
  }

  /// The body cannot be rewritten: the request is refused, or sent unchanged.
  private mutating func passOn(
    _ conflict: SerializationConflict, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard let serialization else { preconditionFailure("nothing was collected") }
    if let problem = problem(of: conflict, serialization) { return answer(problem, &workspace, &outputs) }
    return leaveAsItCame(&workspace, &outputs)
  }

  /// Sends what has been collected unchanged, complete or with the rest of it to follow.
  private mutating func leaveAsItCame(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    guard let held = bodies.held, let decision = record.decision else { preconditionFailure("nothing was collected") }
    var head = held.takeHead()
    readAgain(head.bytes, &workspace)
    if request.progress == .done, workspace.request.framing == .chunked, policy.request(of: decision).buffersUploads {
      swap(&head, &held.head)
      bodies.spooled = SpooledBody()
      return finishSpooling(&workspace, &outputs)
    }
    // A complete chunked body includes its end; content still to come follows on its own.
    let isChunked = workspace.request.framing == .chunked
    writeRequest(
      head.bytes, policy.request(of: decision), RequestBodyEdits(hasContinued: true), &workspace, &outputs)
    workspace.pool.reclaim(&head)
    var body = workspace.pool.take(held.content.count + held.trailers.count + ChunkedDecoder.longestSizeLine)
    if isChunked {
      body.appendChunk(held.content.bytes)
      if request.progress == .done {
        body.append("0\r\n")
        body.append(contentsOf: held.trailers)
        body.append("\r\n")
      }
    } else {
      body.append(contentsOf: held.content)
    }
    if bodies.challenged != nil, request.progress == .done {
      sendMade(body.bytes, &outputs)
    } else {
      outputs.toUpstream.append(contentsOf: body)
    }
    keepForChallenge(body.bytes, &workspace, outputs)
    workspace.pool.reclaim(&body)
    phase = .connecting
    return .connect
  }

  /// The held body is about to leave as `body`. If a challenge may be answered, the body is kept, provided it is
  /// complete.
  mutating func keepForChallenge(
    _ body: Span<UInt8>, _ workspace: inout Workspace, _ outputs: borrowing Outputs
  ) {
    defer { bodies.held = nil }
    bodies.held?.release(&workspace.pool)
    guard let held = bodies.held else { return }
    accountForUpload(as: held, outputs)
    guard let challenged = bodies.challenged else { return }
    guard request.progress == .done else {
      challenged.body = .streamed
      return
    }
    workspace.pool.lend(&challenged.content, body.count)
    challenged.content.append(body)
    let copy = HeldBody(workspace.heldBytes)
    copy.becomes(body.count)
    challenged.body = .held(copy)
  }

  /// The body is in the output.
  mutating func accountForUpload(as held: HeldBody, _ outputs: borrowing Outputs) {
    held.becomes(outputs.toUpstream.count + bodies.paced.count)
    bodies.toUpstream = held
  }

  /// Reads the held head again, and sets its host again. Reading it cannot fail, because it succeeded before.
  mutating func readAgain(_ head: Span<UInt8>, _ workspace: inout Workspace) {
    let progress = workspace.request.read(head, limits: headLimits, isInTunnel: tunnel.interior != nil)
    guard progress == .complete(count: head.count), setHost(head, &workspace) == nil else {
      preconditionFailure("a head that was read once is malformed")
    }
    setMappedHost(&workspace)
  }
}
