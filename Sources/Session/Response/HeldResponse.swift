// Responses that a rule checks ([rule.response]): their head, and their content if a serializer needs it. Such content
// is held, and nothing of the response is sent before the verdict.
//
//   head → (judge) → accepted ──────────────────────────────→ passes as any other
//             │  └ rejected → 502
//             └ held → content … → (judge) → accepted, rewritten or annotated → leaves whole
//                        │             └ rejected → 502
//                        └ longer than may be held → 502, or passes unchecked with what came first
//
// Tests: HeldResponseTests.

import Bytes
import HTTP1
import Policy
import Serialization

/// How the head of a response changes when it is forwarded.
struct ResponseHeadEdits {
  enum Framing: Equatable {
    /// As the header fields and the transfer coding say.
    case asItCame
    /// The content has been held, and has this length.
    case length(Int)
    /// Likewise, followed by trailers.
    case chunked
    /// No length is sent: the length of a response to GET is unknown.
    case unsaid
  }

  var connection: StaticString = ""
  var framing = Framing.asItCame
  /// The content is not what the origin sent.
  var isRewritten = false
  /// The content codings have been removed.
  var isDecoded = false
  /// What Proxy-Status reports about it.
  var violations: [ResponseViolation] = []
  /// Why the response was not checked.
  var unjudged: Unjudged? = nil
}

/// Responses that are not the final answer but a step towards it, or a part of it. NSURLSession does not show the first
/// two to its serializers.
enum Unjudged: String {
  /// 3xx with Location.
  case redirect
  /// 401 with WWW-Authenticate, and 407.
  case challenge
  /// 206 (RFC 9110, 15.3.7).
  case part
}

extension Exchange {
  /// What the response is checked against; nil if it is not checked.
  private var checks: ResponseSerialization? {
    guard let response = record.decision.flatMap({ policy.response(of: $0) }), response.judges else { return nil }
    return response
  }

  mutating func noteSerializer() { if let checks { record.serializer = checks.name } }

  var contentLimits: ContentLimits {
    let limits = policy.configuration.limits
    return ContentLimits(
      heldBytes: limits.bufferedBodyBytes, jsonDepth: limits.jsonDepth, imagePixels: limits.imagePixels)
  }

  /// What to do with a response after its head.
  enum HeadVerdict {
    case passes(ResponseHeadEdits)
    case rejected(HeadJudgement)
    case holds(HeadJudgement)
  }

  /// Judges the head of a response. `response` is the state of the body that follows.
  func judgeHead(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace, _ outputs: borrowing Outputs) -> HeadVerdict {
    // RFC 9110, 15.4.5: 304 stands for what the client has already; 1xx and 204 have no content.
    guard let checks, workspace.response.status != 204 else { return .passes(ResponseHeadEdits()) }
    if workspace.response.status == 304 {
      var edits = ResponseHeadEdits()
      // RFC 9110, 15.4.5: it has the entity tag of the content that the client has, which may have been rewritten.
      edits.isRewritten = checks.removesNulls
      return .passes(edits)
    }
    if let unjudged = unjudged(bytes, workspace, checks) { return .passes(ResponseHeadEdits(unjudged: unjudged)) }
    let judgement = checks.judgeHead(
      status: workspace.response.status, contentType: workspace.response.fields.only(.contentType),
      repeated: workspace.response.fields.repeated(.contentType), in: bytes, hasContent: response.progress != .done)
    if rejects(judgement.violations) { return .rejected(judgement) }
    if judgement.looksAtContent { return .holds(judgement) }
    var edits = ResponseHeadEdits()
    edits.violations = judgement.violations
    if judgement.removesNulls, request.traits.contains(.isHead) {
      // The head does not describe the content that GET would bring.
      edits.isRewritten = true
      edits.framing = .unsaid
    }
    return .passes(edits)
  }

  /// Why the response is not checked against `checks`; nil: it is.
  private func unjudged(
    _ bytes: Span<UInt8>, _ workspace: borrowing Workspace, _ checks: ResponseSerialization
  ) -> Unjudged? {
    switch workspace.response.status {
    // A part that nobody asked for is a response like any other.
    case 206: checks.parts == .pass && request.asksForPart ? .part : nil
    case 301, 302, 303, 307, 308: leadsElsewhere(bytes, workspace.response.fields) ? .redirect : nil
    case 401: workspace.response.fields.first(.wwwAuthenticate) == nil ? nil : .challenge
    case 407: .challenge
    default: nil
    }
  }

  /// Whether clients follow it, so that its content is shown to no one.
  private func leadsElsewhere(_ bytes: Span<UInt8>, _ fields: FieldSection) -> Bool {
    fields.lines.contains { bytes.equals($0.name, ignoringCase: "location") && !$0.value.isEmpty }
  }

  /// Whether one of them calls for rejection, under an enforced rule.
  private func rejects(_ violations: [ResponseViolation]) -> Bool {
    guard enforces, let checks else { return false }
    return violations.contains { checks.reaction(to: $0.subject) == .reject }
  }

  /// The problem that lists all violations and is named after the first.
  private func problem(
    of violations: [ResponseViolation], _ upstream: Problem.Upstream, _ outputs: borrowing Outputs
  ) -> Problem {
    let sentences = violations.map(\.sentence).joined(separator: "; ")
    return Problem(
      violations.first.map { Problem.Kind($0.subject) } ?? .malformedContent,
      "The response of \(destination(outputs)): \(sentences).", violations: violations,
      receivedStatus: upstream.status, upstream: upstream)
  }

  // MARK: Holding

  /// Starts holding the content of the response whose head has been read.
  mutating func hold(
    _ bytes: Span<UInt8>, _ judgement: HeadJudgement, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    let held = heldBody(bytes, judgement, &workspace)
    held.charset = charset(bytes, workspace)
    if case .length(let length) = response.progress, length > UInt64(contentLimits.heldBytes) {
      return settle([oversize("\(length) bytes")], &workspace, &outputs)
    }
    switch Self.codings(bytes, workspace.response.fields) {
    case .codings(let codings):
      if !codings.isEmpty { held.decode(codings) }
    case .unknown(let name):
      return settle([uncheckable("'\(name)'")], &workspace, &outputs)
    case .tooMany:
      let seen = "more than \(ContentEncoding.mostCodings) codings"
      return settle([uncheckable(seen)], &workspace, &outputs)
    }
    guard held.account(ofAll: heldLimit) else {
      return refuseToHold(&workspace, &outputs)
    }
    return .read
  }

  private mutating func heldBody(
    _ bytes: Span<UInt8>, _ judgement: HeadJudgement, _ workspace: inout Workspace
  ) -> HeldBody {
    let held = HeldBody(workspace.heldBytes)
    bodies.held = held
    held.judgement = judgement
    workspace.pool.lend(&held.head, bytes.count)
    held.head.append(bytes)
    return held
  }

  /// Rejects a response because of its head, after the beginning of its content has arrived: people look for that
  /// first.
  mutating func reject(
    _ bytes: Span<UInt8>, _ judgement: HeadJudgement, now: Int64, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action {
    let held = heldBody(bytes, judgement, &workspace)
    held.textDeadline = now + Self.textMilliseconds
    guard response.progress != .done, case .codings(let codings) = Self.codings(bytes, workspace.response.fields) else {
      return settle([], &workspace, &outputs)
    }
    if !codings.isEmpty { held.decode(codings) }
    guard held.account(ofAll: heldLimit) else {
      return settle([], &workspace, &outputs)
    }
    return .read
  }

  /// How many bytes of a rejected response's content are shown to the client, at most.
  static let textBytes = 1024
  /// How long to wait for them, in milliseconds. A responsive origin sends the first of them right after the head.
  static let textMilliseconds: Int64 = 500

  /// Adds a piece of a rejected response.
  private mutating func takeText(
    _ piece: Span<UInt8>, _ held: HeldBody, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action? {
    let piece = piece.extracting(first: min(piece.count, 2 * Self.textBytes))
    held.append(piece, &workspace.pool)
    let isEnough: Bool
    switch held.decodeMore(piece, limit: contentLimits.heldBytes, &workspace.pool) {
    case .needsMore: isEnough = max(held.plain.count, held.content.count) >= Self.textBytes
    case .exceedsLimit, .fault: isEnough = true
    }
    return isEnough ? settle([], &workspace, &outputs) : nil
  }

  /// Rejects a response without waiting for more of its text; nil if there is none.
  mutating func rejectWaiting(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action? {
    bodies.held?.textDeadline == nil ? nil : settle([], &workspace, &outputs)
  }

  /// Holds the content that `bytes` contain; the server keeps the rest.
  mutating func readHeldContent(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    noteProgress(now)
    bodies.held?.contentCame(now: now)
    switch response.progress {
    case .length(let remaining):
      let count = Int(min(remaining, UInt64(bytes.count)))
      if count == 0 { return Step(consumed: 0, action: .read) }
      if let action = take(bytes.extracting(0..<count), &workspace, &outputs) {
        return letGo(action, forwarding: count)
      }
      response.progress = remaining == UInt64(count) ? .done : .length(remaining: remaining - UInt64(count))
      return Step(consumed: count, action: response.progress == .done ? judgeHeld(&workspace, &outputs) : .read)
    case .untilClose:
      if bytes.isEmpty { return Step(consumed: 0, action: .read) }
      if let action = take(bytes, &workspace, &outputs) { return letGo(action, forwarding: bytes.count) }
      return Step(consumed: bytes.count, action: .read)
    case .head, .chunked, .trailers, .done:
      preconditionFailure("content is taken in one piece only where it has no transfer coding")
    }
  }

  /// The held content has been released; the bytes at hand follow it, unless the response was refused.
  private func letGo(_ action: Action, forwarding count: Int) -> Step {
    Step(consumed: 0, action: action == .read ? .forward(count: count) : action)
  }

  /// Holds a piece of content. Returns an action if the content is not held any longer: `.read` means that the response
  /// leaves, followed by this piece.
  mutating func take(
    _ piece: Span<UInt8>, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action? {
    guard let held = bodies.held else { return .read }
    if held.textDeadline != nil { return takeText(piece, held, &workspace, &outputs) }
    let limits = contentLimits
    let ofAll = heldLimit
    guard held.content.count + piece.count <= limits.heldBytes else {
      return settle([oversize("more")], &workspace, &outputs)
    }
    guard held.account(ofAll: ofAll, adding: piece.count) else { return refuseToHold(&workspace, &outputs) }
    held.append(piece, &workspace.pool)
    switch held.decodeMore(piece, limit: limits.heldBytes, &workspace.pool) {
    case .needsMore: break
    case .exceedsLimit:
      held.dropLast(piece.count)
      return settle([oversize("more, decoded")], &workspace, &outputs)
    case .fault(let fault):
      held.dropLast(piece.count)
      return settle([undecodable(fault)], &workspace, &outputs)
    }
    guard held.account(ofAll: ofAll) else { return refuseToHold(&workspace, &outputs) }
    return nil
  }

  private func oversize(_ seen: String) -> ResponseViolation {
    ResponseViolation(.size, expected: "content of at most \(contentLimits.heldBytes) bytes", seen: seen)
  }

  static func codings(_ bytes: Span<UInt8>, _ fields: FieldSection) -> ContentEncoding.Reading {
    var encoding = ContentEncoding()
    for index in fields.lines.indices where fields.lines[index].known == .contentEncoding {
      encoding.read(bytes.extracting(fields.lines[index].value))
    }
    return encoding.reading
  }

  private func uncheckable(_ seen: String) -> ResponseViolation {
    ResponseViolation(.contentCoding, expected: "a Content-Encoding of gzip, deflate, br or zstd", seen: seen)
  }

  private func undecodable(_ fault: ContentFault) -> ResponseViolation {
    ResponseViolation(.contentCoding, expected: "content in its Content-Encoding", seen: "a fault at \(fault.sentence)")
  }

  /// The most memory that all held bodies may take together when this client wants more.
  var heldLimit: Int { policy.configuration.limits.heldBodiesBytes + client.heldOverdraft }

  /// When more of the held body must have arrived; `.max` if none is held.
  @inline(never)
  var heldDeadline: Int64 {
    bodies.held?.deadline(grace: timeouts.bodyStallMilliseconds) ?? .max
  }

  /// Another client holds less than its share and waits for memory: this body gives up its own.
  public mutating func giveUpHeld(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    if bodies.held == nil, let challenged = bodies.challenged, challenged.heldBytes > 0 {
      // The copy: the request only cannot be sent again.
      challenged.release(&workspace.pool)
      return .hold
    }
    if bodies.held == nil, hasBodyOnItsWay {
      let hasBegun = phase == .tunnel || response.traits.contains(.hasBegun)
      return hasBegun ? breakOffNow(.displaced) : refuseToHold(&workspace, &outputs)
    }
    precondition(bodies.held != nil, "a body was to be given up that is not held")
    if let spooled = bodies.spooled, phase == .collecting {
      spooled.spills = true
      spooled.spillsAtOnce = true
      return .read
    }
    return refuseToHold(&workspace, &outputs)
  }

  mutating func refuseToHold(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    let limit = policy.configuration.limits.heldBodiesBytes
    return answer(
      Problem(.heldBodiesSpent, "All bodies that are held may take \(limit) bytes together, and they do."),
      &workspace, &outputs)
  }

  // MARK: The verdict

  /// All of the content has arrived.
  mutating func judgeHeld(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action {
    guard let held = bodies.held, let checks, let judgement = held.judgement else { return endOfResponse() }
    if held.textDeadline != nil { return settle([], &workspace, &outputs) }
    if let fault = held.finishDecoding() { return settle([undecodable(fault)], &workspace, &outputs) }
    var rewritten = ByteBuffer()
    let verdict = checks.judgeContent(
      &held.plain, judgement, charset: held.charset, limits: contentLimits, &workspace.tools,
      rewritten: &rewritten)
    switch verdict {
    case .accepted: return settle([], &workspace, &outputs)
    case .violation(let violation): return settle([violation], &workspace, &outputs)
    case .rewritten:
      held.replaceContent(with: &rewritten, accepts: client.accepts, &workspace.pool)
      return settle([], &workspace, &outputs)
    }
  }

  private func charset(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> [UInt8]? {
    guard let checks, checks.readsText, let value = workspace.response.fields.only(.contentType) else { return nil }
    return ResponseSerialization.charset(of: bytes.extracting(value))
  }

  /// Rejects a held response, or releases it with the violations that were found.
  private mutating func settle(
    _ found: [ResponseViolation], _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard let held = bodies.held, let judgement = held.judgement else { return .read }
    let violations = judgement.violations + found
    // Other responses have been read in between. A head that was read once can be read again. If it was mended, it
    // may be longer than heads on the wire may be.
    var head = held.takeHead()
    let limits = HeadLimits(bytes: head.count, fields: policy.configuration.limits.headers)
    guard workspace.response.read(head.bytes, limits: limits, toHead: false) == .complete(count: head.count) else {
      preconditionFailure("a head that was read once is malformed")
    }
    if rejects(violations) {
      let upstream = upstream(head.bytes, held, workspace)
      workspace.pool.reclaim(&head)
      return answer(problem(of: violations, upstream, outputs), &workspace, &outputs)
    }
    note(violations)
    var edits = ResponseHeadEdits()
    edits.violations = violations
    edits.isRewritten = held.isRewritten
    edits.isDecoded = held.isDecoded
    if response.progress == .done {
      edits.framing =
        held.trailers.isEmpty || client.terms.contains(.isHTTP10) ? .length(held.content.count) : .chunked
    } else {
      prepareFraming(workspace.response.framing)
    }
    if request.progress != .done { client.terms.remove(.persists) }
    edits.connection = connectionLine
    response.traits.insert(.hasBegun)
    writeResponseHead(head.bytes, edits, &workspace, &outputs)
    workspace.pool.reclaim(&head)
    writeHeldContent(held, edits.framing, &workspace, &outputs)
    held.becomes(outputs.toClient.count)
    bodies.toClient = held
    releaseHeld(&workspace)
    return response.progress == .done ? endOfResponse() : .read
  }

  /// What the client learns about a response that it does not get.
  private func upstream(
    _ head: Span<UInt8>, _ held: HeldBody, _ workspace: borrowing Workspace
  ) -> Problem.Upstream {
    Problem.Upstream(
      status: workspace.response.status,
      type: workspace.response.fields.only(.contentType).map { head.extracting($0).string },
      text: Self.text(held.plain.bytes))
  }

  /// The beginning of text content; nil if it is empty or not text.
  static func text(_ content: Span<UInt8>) -> String? {
    let begin = content.extracting(first: min(content.count, textBytes))
    if begin.isEmpty { return nil }
    var end = begin.count
    // A character that the limit cuts is left out.
    if content.count > end, let lead = (max(0, end - 4)..<end).last(where: { begin[$0] & 0xc0 != 0x80 }),
      begin[lead] >= 0xc0
    {
      end = lead
    }
    for index in 0..<end where begin[index] < 0x20 && !(0x09...0x0d).contains(begin[index]) { return nil }
    return begin.extracting(0..<end).string
  }

  private mutating func writeHeldContent(
    _ held: HeldBody, _ framing: ResponseHeadEdits.Framing, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    let before = outputs.toClient.count
    let isChunked: Bool
    switch framing {
    case .length, .unsaid: isChunked = false
    case .chunked: isChunked = true
    case .asItCame:
      if case .chunked = response.progress {
        isChunked = !response.traits.contains(.isUnchunked)
      } else {
        isChunked = false
      }
    }
    if isChunked {
      outputs.toClient.appendChunk(held.content.bytes)
    } else {
      outputs.toClient.append(contentsOf: held.content)
    }
    if framing == .chunked {
      outputs.toClient.append("0\r\n")
      outputs.toClient.append(contentsOf: held.trailers)
      outputs.toClient.append("\r\n")
    }
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
  }

  /// Keeps the trailers of a held response, as they may be sent.
  mutating func holdTrailers(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) {
    guard let held = bodies.held else { return }
    workspace.trailers.write(bytes, to: &held.trailers)
  }

  /// Records violations in a response that passes nevertheless.
  mutating func note(_ violations: [ResponseViolation]) {
    guard let first = violations.first else { return }
    record.violation = Problem.Kind(first.subject)
    record.finding = Finding("The response: \(violations.map(\.sentence).joined(separator: "; ")).", first.difference)
    if !enforces, let checks, let refused = violations.first(where: { checks.reaction(to: $0.subject) == .reject }) {
      record.report = Problem.Kind(refused.subject)
    }
  }

  /// Whether a body that was held is still on its way.
  public var hasBodyOnItsWay: Bool { bodies.toClient != nil || bodies.toUpstream != nil }

  /// Nothing waits for one end any more.
  public mutating func sentAll(toClient: Bool) {
    if toClient { bodies.toClient = nil } else if bodies.paced.isEmpty { bodies.toUpstream = nil }
  }

  /// What is left of the request is not sent.
  public mutating func dropUpload() {
    bodies.paced = ByteBuffer()
    bodies.toUpstream = nil
  }

  /// Releases the memory of a held body, if there is one.
  public mutating func releaseHeld(_ workspace: inout Workspace) {
    bodies.held?.release(&workspace.pool)
    bodies.held = nil
    bodies.challenged?.release(&workspace.pool)
  }
}
