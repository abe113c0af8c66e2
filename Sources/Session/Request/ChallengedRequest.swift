// A request that the proxy authenticates when its origin or its parent asks for it. It is kept until its response has
// begun, so that it can be sent again with credentials (RFC 9110, 11.6).
//
//   leaves bare, or with a known nonce → 401, 407 → (choose) → leaves again with the answer → 401, stale → once more
//                                           │                                          └ 401 → passes: refused
//                                           └ nothing to choose → passes, Proxy-Status says why
//
// Its body is collected first, if it is small enough to hold. A longer body streams: at once if a nonce is known,
// otherwise after `Expect: 100-continue` and the origin's response to it. Tests: ChallengedRequestTests.

import Bytes
import HTTP1
import Policy
import Security

/// One request and its credentials. A class, so a session whose rule has none pays one word.
final class ChallengedRequest {
  enum Body {
    case none
    /// Made by the proxy, the same for all requests of the rule.
    case made([UInt8])
    /// `content`. The held body accounts for its memory.
    case held(HeldBody)
    /// It streams: it cannot be sent twice.
    case streamed
  }

  /// Attempts at the origin; nil: the client answers its challenges.
  var origin: DigestAttempts?
  /// Attempts at the parent in use; nil: the proxy answers none of its challenges.
  var parent: DigestAttempts? = nil
  /// The head as sent to the origin, without credentials.
  var head = ByteBuffer()
  var body = Body.none
  /// The body as sent, with framing and trailers, if it was held.
  var content = ByteBuffer()
  /// State of the body when the request was sent: while the state is unchanged, no byte of the body has been sent.
  var begun = Exchange.Progress.done
  /// The request may be sent a second time if a kept connection turns out to be dead.
  var mayRetry = false
  /// Lines for the parent in use; nil: no parent.
  var parentLines: [UInt8]? = nil
  /// Bytes of challenge content that have been dropped.
  var dropped: UInt64 = 0
  /// Why the credentials did not help, if the challenge is passed on: "were refused".
  var remark: String? = nil

  init(_ origin: DigestAttempts?) { self.origin = origin }

  /// Most bytes of challenge content that are read to keep the connection: error pages are shorter, and reading more
  /// costs more than a connection.
  static let mostDropped: UInt64 = 64 << 10

  /// How long a body that streams waits for 100 or a challenge, in milliseconds. An origin that supports the
  /// expectation responds at once; any other would wait for the body.
  static let expectationMilliseconds: Int64 = 1000

  var heldBytes: Int {
    if case .held(let held) = body { return held.taken }
    return 0
  }

  /// Its response has begun, or another body needs its memory: it cannot be sent again.
  func release(_ pool: inout BufferPool) {
    pool.reclaim(&head)
    if case .held = body {
      body = .streamed
      pool.reclaim(&content)
    }
  }
}

extension Exchange {
  /// Starts keeping the request if its rule answers challenges.
  mutating func noteChallenges(_ edits: RequestPolicy, _ workspace: borrowing Workspace) {
    guard edits.digest != nil || rule?.parents == .someWithDigest, !request.traits.contains(.isTunnel) else { return }
    bodies.challenged = ChallengedRequest(
      edits.digest.map {
        DigestAttempts(
          $0,
          for: NonceMemory.Place(
            keeper: rule?.name, isSecure: upstream.way.contains(.isSecure),
            host: workspace.decisions.host.copiedBytes, port: upstream.port))
      })
  }

  /// Whether the request body is collected first, so that it can be sent again.
  func collectsForChallenge(_ workspace: borrowing Workspace) -> Bool {
    guard bodies.challenged != nil else { return false }
    return switch request.progress {
    case .length(let length): length <= UInt64(contentLimits.heldBytes)
    case .chunked: true
    case .head, .trailers, .untilClose, .done: false
    }
  }

  // MARK: Leaving

  /// Additional lines for the head in `outputs` on its way to the origin: credentials if a nonce is known. A body that
  /// can be sent only once gets an expectation if there are no credentials.
  mutating func challengeLines(_ workspace: inout Workspace, _ outputs: borrowing Outputs) -> [UInt8] {
    guard let challenged = bodies.challenged else { return [] }
    // Of a request that goes again a part of the body may leave with the head.
    let isHeadAlone = Self.isHeadAlone(outputs.toUpstream.bytes, from: upstream.written.behindHost)
    challenged.begun = isHeadAlone ? request.progress : .untilClose
    challenged.mayRetry = upstream.carrier.contains(.mayRetry)
    var lines: [UInt8] = []
    let bytes = outputs.toUpstream.bytes
    let (method, target) = (
      bytes.extracting(upstream.written.method).array, bytes.extracting(upstream.written.target).array
    )
    if let answer = challenged.origin?.answer(method: method, target: target, &workspace.nonces) {
      lines = Array("Authorization: ".utf8) + answer + [0x0d, 0x0a]
    }
    let isBare =
      challenged.origin != nil && lines.isEmpty || challenged.parent.map { !workspace.nonces.knows($0.place) } ?? false
    guard isBare, isHeadAlone, case .streamed = challenged.body, case .length = request.progress,
      !request.traits.contains(.expectsContinue)
    else { return lines }
    upstream.carrier.insert(.awaitsContinue)
    return lines + Array("Expect: 100-continue\r\n".utf8)
  }

  /// Whether the head that continues at `begin` ends with these bytes.
  private static func isHeadAlone(_ bytes: Span<UInt8>, from begin: Int) -> Bool {
    var at = max(0, begin - 2)
    while let end = bytes.firstIndex(of: 0x0d, from: at), end + 4 <= bytes.count {
      if bytes.equals(end..<end + 4, "\r\n\r\n") { return end + 4 == bytes.count }
      at = end + 1
    }
    return true
  }

  /// Adds the credentials for the parent that the head in `outputs` was written for.
  mutating func addParentLine(to head: WrittenHead, _ workspace: inout Workspace, _ outputs: inout Outputs) {
    guard let challenged = bodies.challenged, challenged.parent != nil else { return }
    let method = outputs.toUpstream.bytes.extracting(head.method).array
    let target = outputs.toUpstream.bytes.extracting(head.target).array
    guard let answer = challenged.parent?.answer(method: method, target: target, &workspace.nonces) else { return }
    ParentRequest.insert(ParentRequest.authorizationLine(answer), into: &outputs.toUpstream, head, &workspace.pool)
  }

  /// Writes the request and its body again as sent without credentials; false: it is no longer kept.
  private mutating func writeAgain(
    _ challenged: ChallengedRequest, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Bool {
    outputs.toUpstream.removeAll()
    workspace.pool.lend(&outputs.toUpstream, challenged.head.count)
    outputs.toUpstream.append(contentsOf: challenged.head)
    switch challenged.body {
    case .none: break
    case .made(let body): sendMade(body.span, &outputs)
    case .held:
      var content = ByteBuffer()
      swap(&content, &challenged.content)
      sendMade(content.bytes, &outputs)
      swap(&content, &challenged.content)
      accountForUpload(as: HeldBody(workspace.heldBytes), outputs)
    case .streamed: return request.progress == challenged.begun && request.progress != .done
    }
    return request.progress == .done
  }

  // MARK: The challenge

  /// Handles the final response to a request that is kept. Returns an action if it is a challenge that the proxy
  /// answers; nil: the response is passed on.
  mutating func answerChallenge(
    _ bytes: Span<UInt8>, rest: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action? {
    guard let challenged = bodies.challenged else { return nil }
    let fields = workspace.response.fields
    let fault: String?
    if workspace.response.status == 401, challenged.origin != nil {
      fault = challenged.origin?.challenged(by: Self.values(of: .wwwAuthenticate, bytes, fields), &workspace.nonces)
    } else if workspace.response.status == 407, challenged.parent != nil {
      fault = challenged.parent?.challenged(by: Self.values(of: .proxyAuthenticate, bytes, fields), &workspace.nonces)
    } else {
      noteNextNonces(bytes, challenged, &workspace)
      challenged.release(&workspace.pool)
      return nil
    }
    if fault == nil, let action = sendAgain(challenged, rest: rest, now: now, &workspace, &outputs) { return action }
    challenged.remark = fault ?? Self.notKept
    challenged.release(&workspace.pool)
    return nil
  }

  private static let notKept =
    "were not sent: the body, which had begun to leave, is longer than buffered_body, and is not kept; they go with the next "
    + "request at once"

  /// nil: the request cannot be sent again.
  private mutating func sendAgain(
    _ challenged: ChallengedRequest, rest: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action? {
    let hasLeft = outputs.toUpstream.isEmpty && isBodyOut
    // A stream serves one request.
    let mayKeep =
      upstream.carrier.contains(.persists) && request.progress == .done && hasLeft
      && !upstream.carrier.contains(.dropsRequest)
      && record.upstreamWire != .http2
    if case .streamed = challenged.body, request.progress == .done || request.progress != challenged.begun {
      return nil
    }
    response.namedFields = []
    response.informational = InformationalAllowance()
    // The second response counts, and it may have no type.
    record.upstreamType = 0..<0
    upstream.carrier.remove(.awaitsContinue)
    let dropsLength =
      if case .length(let length) = response.progress { length <= ChallengedRequest.mostDropped } else { false }
    let dropsChunks = if case .chunked = response.progress { true } else { false }
    if mayKeep, response.progress == .done, rest == 0 {
      return leaveAgain(challenged, now: now, &workspace, &outputs)
    }
    if mayKeep, dropsLength || dropsChunks {
      challenged.dropped = 0
      response.traits.insert(.isDropped)
      return .read
    }
    return leaveOnAnother(challenged, &workspace, &outputs)
  }

  /// On the connection that the challenge arrived on.
  private mutating func leaveAgain(
    _ challenged: ChallengedRequest, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard writeAgain(challenged, &workspace, &outputs) else { return refuseToHold(&workspace, &outputs) }
    response.traits.remove(.isDropped)
    upstream.carrier.remove(.persists)
    response.progress = .head
    times.lastProgress = now
    // An origin may close it after a challenge as after any other exchange.
    upstream.carrier.insert(.isReused)
    if challenged.mayRetry { upstream.carrier.insert(.mayRetry) }
    leave(parentLines: challenged.parentLines ?? [], now: now, &workspace, &outputs)
    return .read
  }

  private mutating func leaveOnAnother(
    _ challenged: ChallengedRequest, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard writeAgain(challenged, &workspace, &outputs) else { return refuseToHold(&workspace, &outputs) }
    response.traits.remove(.isDropped)
    upstream.carrier.remove([.persists, .dropsRequest])
    response.progress = .head
    phase = .connecting
    return .reconnect
  }

  /// Content of a challenge that the proxy answers: nothing of it is passed on.
  mutating func dropResponse(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    guard let challenged = bodies.challenged else {
      preconditionFailure("a response is dropped that no request asked for")
    }
    noteProgress(now)
    var consumed = 0
    switch response.progress {
    case .length(let remaining):
      consumed = Int(min(remaining, UInt64(bytes.count)))
      response.progress = remaining == UInt64(consumed) ? .done : .length(remaining: remaining - UInt64(consumed))
    case .chunked(var decoder):
      consumed = dropChunks(bytes, &decoder, challenged)
      if case .chunked = response.progress { response.progress = .chunked(decoder) }
    case .head, .trailers, .untilClose, .done: break
    }
    if case .trailers = response.progress {
      switch TrailerReader.read(bytes, from: consumed, limits: headLimits, into: &workspace.trailers) {
      case .incomplete: return Step(consumed: consumed, action: .read)
      case .invalid: response.progress = .head
      case .complete(let end):
        consumed = end
        response.progress = .done
      }
    }
    if response.progress == .done, consumed == bytes.count {
      return Step(
        consumed: consumed, action: leaveAgain(challenged, now: now, &workspace, &outputs))
    }
    if response.progress == .done || response.progress == .head || challenged.dropped > ChallengedRequest.mostDropped {
      return Step(consumed: bytes.count, action: leaveOnAnother(challenged, &workspace, &outputs))
    }
    return Step(consumed: consumed, action: .read)
  }

  /// Returns the number of bytes consumed. Sets `response` to the head again if the coding is broken.
  private mutating func dropChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, _ challenged: ChallengedRequest
  ) -> Int {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        challenged.dropped += UInt64(range.count)
      case .needMore(let consumed): return consumed
      case .lastChunk(let consumed):
        response.progress = .trailers
        return consumed
      case .invalid:
        response.progress = .head
        return bytes.count
      }
    }
  }

  /// The connection ended within a challenge that the proxy answers; nil: it was something else.
  mutating func endedWithinChallenge(_ workspace: inout Workspace, _ outputs: inout Outputs) -> Action? {
    guard response.traits.contains(.isDropped), let challenged = bodies.challenged else { return nil }
    return leaveOnAnother(challenged, &workspace, &outputs)
  }

  /// RFC 7616, 3.5.
  private func noteNextNonces(
    _ bytes: Span<UInt8>, _ challenged: ChallengedRequest, _ workspace: inout Workspace
  ) {
    for (attempts, name) in [
      (challenged.origin, Self.authenticationInfo), (challenged.parent, Self.proxyAuthenticationInfo),
    ] {
      guard let attempts, attempts.hasAnswered else { continue }
      for line in workspace.response.fields.lines where bytes.equals(line.name, ignoringCase: name.span) {
        guard let next = AuthenticationChallenge.readParameters(bytes.extracting(line.value).array)?["nextnonce"] else {
          continue
        }
        workspace.nonces.take(next: next, for: attempts.place)
      }
    }
  }

  /// Drops what the origin computes from the rule's password: the client could use it only to guess the password.
  func dropProofs(_ bytes: Span<UInt8>, _ fields: inout FieldSection) {
    for name in removedProofs { fields.drop(name, in: bytes) }
  }

  var removedProofs: [[UInt8]] { bodies.challenged?.origin == nil ? [] : [Self.authenticationInfo] }

  private static let authenticationInfo = Array("authentication-info".utf8)
  private static let proxyAuthenticationInfo = Array("proxy-authentication-info".utf8)

  static func values(of name: KnownField, _ bytes: Span<UInt8>, _ fields: FieldSection) -> [[UInt8]] {
    fields.lines.filter { $0.known == name }.map { bytes.extracting($0.value).array }
  }
}
