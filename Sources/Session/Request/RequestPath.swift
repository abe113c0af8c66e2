// The path of a request through an exchange: checked, decided, and rewritten for its origin.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// Longest body, in bytes, that is kept for a retry until the response begins.
  static let longestReplayedBody: UInt64 = 16 << 10
  static let rangeName = Array("range".utf8)
  /// Longest path, in bytes, in a log line.
  static let longestLoggedPath = 1024
  /// The same for a method, and for host and port: any that can be served are shorter.
  static let longestLoggedMethod = 32
  static let longestLoggedAuthority = 300

  var headLimits: HeadLimits {
    HeadLimits(bytes: policy.configuration.limits.headerBytes, fields: policy.configuration.limits.headers)
  }

  /// The head in `workspace.request` is the first `count` of these bytes. Returns what to do next, and how much of the
  /// bytes after the head has been used.
  mutating func headReceived(
    _ bytes: Span<UInt8>, headBytes count: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    let action =
      workspace.request.holdsRawPath
      ? beginEncoded(bytes, headBytes: count, now: now, &workspace, &outputs)
      : begin(bytes, headBytes: count, received: count, isEncoded: false, now: now, &workspace, &outputs)
    if request.progress == .head { return Step(consumed: bytes.count, action: action) }
    if count < bytes.count { request.traits.insert(.bodyBegun) }
    guard phase == .collecting else { return Step(consumed: count, action: action) }
    let step = collect(bytes.extracting(count..<bytes.count), now: now, &workspace, &outputs)
    return Step(consumed: count + step.consumed, action: step.action)
  }

  /// The head cannot be read, or must not be: `bytes` are all of it or its beginning.
  mutating func headRefused(
    _ bytes: Span<UInt8>, _ problem: Problem, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    noteReadable(bytes, &workspace, &outputs)
    return refuse(problem, bytesIn: bytes.count, &workspace, &outputs)
  }

  // MARK: Paths with raw bytes above 0x7F
  //
  // RFC 3986 does not allow them, and curl sends them for `http://host/查询`. If no rule says `encode_path = true`, such
  // a head is refused like any other malformed one. Otherwise the path is percent-encoded before anything else
  // happens, and the head is read again. Rules match that path, its readings come from it, and it is the path that is
  // sent. Only then, when the deciding rule is known, is the request refused unless that rule accepts such paths: no
  // rule is chosen by bytes that another reader would not see. Tests: RawPathTests.

  /// The first `headBytes` of `bytes` are a head whose path contains bytes above 0x7F.
  mutating func beginEncoded(
    _ bytes: Span<UInt8>, headBytes: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    var head = ByteBuffer()
    RawPath.encode(bytes.extracting(0..<headBytes), path: workspace.request.path, to: &head)
    switch workspace.request.read(head.bytes, limits: headLimits, isInTunnel: tunnel.interior != nil) {
    case .complete(let count):
      return begin(head.bytes, headBytes: count, received: headBytes, isEncoded: true, now: now, &workspace, &outputs)
    // It can only be too long: everything else in it has been read before.
    case .incomplete, .invalid:
      return refuse(
        Problem(.headTooLarge, "The request \(MessageFault.headTooLarge.sentence) once its path is percent-encoded."),
        bytesIn: bytes.count, &workspace, &outputs)
    }
  }

  /// The error for such a path if its rule does not accept it.
  static let rawPath = Problem(
    .malformedRequest,
    "The request has bytes above 0x7F in its path, where they must be percent-encoded; the rule that decides it has no "
      + "encode_path = true.")

  // MARK: The head

  /// The head is complete: checks it, decides, and prepares what is sent. It was received as `received` bytes;
  /// `isEncoded`: the proxy has encoded its path.
  mutating func begin(
    _ bytes: Span<UInt8>, headBytes: Int, received: Int, isEncoded: Bool, now: Int64, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Action {
    record.bytesIn = UInt64(received)
    times.lastProgress = now
    noteRequest(bytes, &workspace, &outputs)
    if let problem = judge(bytes, &workspace) { return answer(problem, &workspace, &outputs) }
    if workspace.request.form == .asterisk && tunnel.interior == nil || workspace.request.maxForwards(bytes) == 0 {
      // No rule decides, so none accepts the path.
      if isEncoded { return answer(Self.rawPath, &workspace, &outputs) }
      return answerForItself(bytes, headBytes: headBytes, &workspace, &outputs)
    }
    let decision = decide(bytes, &workspace)
    if decision.verdict == .deny { return answer(denial(of: decision), &workspace, &outputs) }
    if isEncoded, !policy.request(of: decision).encodesPath { return answer(Self.rawPath, &workspace, &outputs) }
    if let problem = mapRequest(bytes, decision, &workspace) { return answer(problem, &workspace, &outputs) }
    noteSecurity(decision, &workspace)
    if let problem = deniedLiteral(workspace, decision) { return answer(problem, &workspace, &outputs) }
    let edits = policy.request(of: decision)
    if let timeout = edits.timeoutMilliseconds, rule?.enforce ?? true { times.exchangeDeadline = now + timeout }
    prepareReports(edits)
    if !edits.cookies { response.traits.insert(.hasNoCookies) }
    noteChallenges(edits, workspace)
    if let throttle = edits.throttle { bodies.pacing = Pacing(throttle) }
    if (rule?.parents ?? .none) != .none { upstream.passedVia = workspace.request.fields.passedVia(bytes) }
    if policy.response(of: decision) != nil {
      request.asksForPart = workspace.request.fields.contains(Self.rangeName, in: bytes)
    }
    if policy.response(of: decision)?.removesNulls ?? false {
      client.accepts = workspace.request.fields.acceptedCodings(bytes)
    }
    if request.traits.contains(.isTunnel) {
      phase = .connecting
      return policy.treatment(of: decision) == .intercept
        ? intercept(bytes, workspace) : .connect
    }
    if let problem = deniedUpgrade(bytes, workspace) { return answer(problem, &workspace, &outputs) }
    return prepare(bytes, headBytes: headBytes, edits, &workspace, &outputs)
  }

  /// Consults the policy and the operators' temporary decisions.
  private mutating func decide(_ bytes: Span<UInt8>, _ workspace: inout Workspace) -> Decision {
    let facts = RequestFacts(
      scheme: isSecure(workspace.request) ? .https : .http, port: upstream.port,
      method: bytes.extracting(workspace.request.method), path: bytes.extracting(workspace.request.path),
      isTunnel: request.traits.contains(.isTunnel), sender: sender, link: workspace.link,
      wall: workspace.wallMilliseconds)
    let decided = workspace.decide(facts, by: policy)
    var decision = decided.decision
    record.answeredBy = decided.rule?.by
    if decision.verdict == .ask, request.traits.contains(.isTunnel) {
      decision = decision.asTunnel(connect: policy.treatment(of: decision))
    }
    record.decision = decision
    record.link = workspace.link
    switch decision.reason {
    case .ruleWouldDeny: record.report = .denied
    case .ruleWouldAsk: record.report = .unanswered
    default: break
    }
    if decision.verdict == .ask || decision.verdict == .deny && decision.isMendable {
      request.question = Question(
        AskedRequest(facts, isIntercepted: tunnel.interior != nil, workspace.decisions),
        path: facts.isTunnel ? nil : facts.path.string)
    }
    return decision
  }

  func isSecure(_ head: borrowing RequestHead) -> Bool { head.isHTTPS || tunnel.interior != nil }

  /// Chooses the security of the upstream connection.
  private mutating func noteSecurity(_ decision: Decision, _ workspace: inout Workspace) {
    if request.traits.contains(.isTunnel) {
      switch policy.treatment(of: decision) {
      case .verify: prepareInspection(workspace)
      case .tunnel: prepareBeginning(decision, &workspace)
      case .intercept, .deny: break
      }
    } else if let target {
      if target.scheme == .https { upstream.way.insert(.isSecure) }
    } else if isSecure(workspace.request) {
      upstream.way.insert(.isSecure)
    } else if rule?.upgrade ?? false {
      upstream.way.insert([.isSecure, .isUpgraded])
      if upstream.port == Scheme.http.defaultPort { upstream.port = Scheme.https.defaultPort }
    }
  }

  /// Copies from the head what the exchange must remember after its bytes are gone.
  private mutating func noteRequest(
    _ bytes: Span<UInt8>, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    let method = workspace.request.knownMethod
    if workspace.request.isPersistent, !client.terms.contains(.isLast) { client.terms.insert(.persists) }
    if workspace.request.options.keepAlive { client.terms.insert(.asksToKeep) }
    if workspace.request.minorVersion == 0 { client.terms.insert(.isHTTP10) }
    if method == .head { request.traits.insert(.isHead) }
    if method == .connect { request.traits.insert(.isTunnel) }
    switch workspace.request.framing {
    case .none, .length(0):
      request.progress = .done
      if method.isIdempotent { upstream.carrier.insert(.mayRetry) }
    case .length(let length):
      request.progress = .length(remaining: length)
      if method.isIdempotent, length <= Self.longestReplayedBody { upstream.carrier.insert(.mayRetry) }
    case .chunked: request.progress = .chunked(ChunkedDecoder())
    case .untilClose: preconditionFailure("a request never ends with its connection")
    }
    response.progress = .head
    if let value = workspace.request.fields.first(.authorization), bytes.authenticatesConnection(value) {
      upstream.carrier.insert(.isBound)
      upstream.carrier.remove(.mayRetry)
    }
    if workspace.request.options.namesFields { request.namedFields = workspace.request.fields.connectionOptions(bytes) }
    noteExpectation(bytes, workspace)
    if workspace.request.fields.prefersText(bytes) { client.answerForm = .text }
    noteGRPC(bytes, workspace.request.fields)
    writeText(bytes, workspace.request, &workspace.pool, &outputs.text)
  }

  /// Records what was readable in a head that is refused.
  private mutating func noteReadable(
    _ bytes: Span<UInt8>, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    if workspace.request.understood == .nothing { return }
    switch workspace.request.knownMethod {
    case .head: request.traits.insert(.isHead)
    case .connect: break
    // Whoever writes `connect` takes a 200 for a tunnel, too.
    case .other where bytes.equals(workspace.request.method, ignoringCase: "connect"): break
    default: noteRefusedGRPC(bytes)
    }
    if workspace.request.understood == .target {
      return writeText(bytes, workspace.request, &workspace.pool, &outputs.text)
    }
    outputs.text.removeAll()
    workspace.pool.lend(&outputs.text, BufferPool.smallestBlock)
    outputs.text.append(bytes.extracting(workspace.request.method.prefix(Self.longestLoggedMethod)))
    record.method = 0..<outputs.text.count
    record.target = outputs.text.count..<outputs.text.count
  }

  /// Writes the method, and the target without query, for the log line and errors.
  private mutating func writeText(
    _ bytes: Span<UInt8>, _ head: borrowing RequestHead, _ pool: inout BufferPool, _ text: inout ByteBuffer
  ) {
    text.removeAll()
    pool.lend(&text, BufferPool.smallestBlock)
    text.append(bytes.extracting(head.method.prefix(Self.longestLoggedMethod)))
    record.method = 0..<text.count
    record.isTextCut =
      head.method.count > Self.longestLoggedMethod || head.path.count > Self.longestLoggedPath
      || head.authority.count > Self.longestLoggedAuthority
    switch head.form {
    case .asterisk: text.append("*")
    case .authority: text.append(bytes.extracting(head.authority.prefix(Self.longestLoggedAuthority)))
    case .origin:
      text.append("https://")
      if let interior = tunnel.interior { text.append(Array(interior.authority.prefix(Self.longestLoggedAuthority))) }
      text.append(bytes.extracting(head.path.prefix(Self.longestLoggedPath)))
    case .absolute:
      text.append(head.isHTTPS ? "https://" : "http://")
      text.append(bytes.extracting(head.authority.prefix(Self.longestLoggedAuthority)))
      let path = head.path
      text.append(bytes.extracting(path.prefix(Self.longestLoggedPath)))
    }
    record.target = record.method.upperBound..<text.count
  }

  /// Checks that precede all rules: credentials, host, loops.
  private mutating func judge(_ bytes: Span<UInt8>, _ workspace: inout Workspace) -> Problem? {
    let credentials = policy.configuration.proxy.credentials
    if tunnel.interior != nil { return judgeInterior(bytes, &workspace) }
    if !credentials.isEmpty {
      guard let known = workspace.request.fields.credential(bytes, of: credentials) else {
        return Problem(
          .authenticationRequired, "Proxy-Authorization with Basic credentials that the proxy knows was expected.")
      }
      record.credential = known
    }
    if workspace.request.form == .asterisk { return nil }
    if let fault = setHost(bytes, &workspace) {
      client.terms.remove(.persists)
      return Problem(.malformedRequest, "The target names a malformed host; expected \(fault.expectation).")
    }
    upstream.port = workspace.request.port ?? (workspace.request.isHTTPS ? 443 : 80)
    return Self.loopProblem(workspace, bytes)
  }

  /// Sets the host of the request, for deciding and connecting. Inside a tunnel, a request without a host means the
  /// tunnel's.
  func setHost(_ bytes: Span<UInt8>, _ workspace: inout Workspace) -> HostFault? {
    let named = bytes.extracting(workspace.request.host)
    if named.isEmpty, let interior = tunnel.interior { return workspace.decisions.host.set(interior.host.span) }
    return workspace.decisions.host.set(named)
  }

  private func denial(of decision: Decision) -> Problem {
    if decision.reason == .methodRefused { return refusedEcho(decision) }
    return Problem(.denied, sentence(of: decision), advice: advice(on: decision))
  }

  private func sentence(of decision: Decision) -> String {
    if decision.reason == .temporaryDeny { return "An operator denies this request for now." }
    guard let rule = decision.rule.map({ policy.rules[$0] }) else {
      return "No rule allows this request, and the default is to deny."
    }
    if decision.reason == .portNotListed {
      return "Rule \(rule.name) allows tunnels to port 443 and to ports that it lists; \(upstream.port) is not one. "
        + "Add ports = [443, \(upstream.port)] to the rule."
    }
    if let reason = rule.reason { return reason }
    return decision.reason == .connectDenied
      ? "Rule \(rule.name) denies tunnels to this host." : "Rule \(rule.name) denies this request."
  }

  /// A literal address is checked before anything is opened.
  private func deniedLiteral(_ workspace: borrowing Workspace, _ decision: Decision) -> Problem? {
    guard let address = workspace.decisions.host.address else { return nil }
    // A closure on the stack: a reference to the method would be allocated for each request.
    let own = workspace.own
    guard let match = policy.denyingBlock(address, rule: decision.rule, isOwn: { own.contains($0) }) else { return nil }
    return Problem(.addressDenied, "\(address) \(match.sentence).")
  }

  /// The problem with a request that has come back; nil if nothing shows that it has.
  private static func loopProblem(_ workspace: borrowing Workspace, _ bytes: Span<UInt8>) -> Problem? {
    switch workspace.request.fields.passage(bytes, through: workspace.name, own: workspace.via) {
    case .new: nil
    case .again: Problem(.loop, "The request has passed through this proxy already, as its Via field says.")
    case .endless:
      Problem(
        .loop,
        "The request has passed through more than \(FieldSection.maximumNamesakes) proxies of this name, as its Via field says."
      )
    }
  }

  /// Starts a tunnel that the proxy will read.
  mutating func intercept(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Action {
    let host = bytes.extracting(workspace.request.host).array
    tunnel.interior = Interior(
      host: host, port: upstream.port,
      authority: upstream.port == Scheme.https.defaultPort ? host : host + Array(":\(upstream.port)".utf8),
      canonicalHost: workspace.decisions.host.copiedBytes,
      mayUpgrade: rule?.upgrades?.protocols.isEmpty != true)
    return .intercept
  }

  /// A request inside a tunnel is for the host that the tunnel was opened to, whatever it says (RFC 9110, 7.4).
  /// Credentials for the proxy came with CONNECT.
  mutating func judgeInterior(_ bytes: Span<UInt8>, _ workspace: inout Workspace) -> Problem? {
    guard let interior = tunnel.interior else { return nil }
    if tunnel.isUnchecked,
      let problem = Self.problem(
        ofTunnel: interior, openedBy: sender, with: record.credential, policy, &workspace)
    {
      client.terms.remove(.persists)
      return problem
    }
    let isSameHost = setHost(bytes, &workspace) == nil && workspace.decisions.host.bytes == interior.canonicalHost
    // Without a port, Host means the tunnel's, and the target in absolute-form the scheme's.
    let isAbsolute = workspace.request.form == .absolute
    let port = workspace.request.port ?? (isAbsolute ? Scheme.https.defaultPort : interior.port)
    let isSamePort = port == interior.port
    let isSameScheme = !isAbsolute || workspace.request.isHTTPS
    guard isSameHost, isSamePort, isSameScheme else {
      client.terms.remove(.persists)
      let expected = "https://" + interior.authority.span.string
      return Problem(
        .misdirected,
        "The request names \(isAbsolute ? workspace.request.isHTTPS ? "https://" : "http://" : "")\(bytes.extracting(workspace.request.authority).string), "
          + "and its tunnel was opened for \(expected)."
      )
    }
    upstream.port = interior.port
    return Self.loopProblem(workspace, bytes)
  }

  // MARK: What a rule refuses in requests that it allows

  /// RFC 9110, 15.5.6.
  func refusedEcho(_ decision: Decision) -> Problem {
    let keeper = decision.rule.map { "rule \(policy.rules[$0].name)" } ?? "[defaults.request]"
    return Problem(
      .methodNotAllowed,
      "The server answers this method with the request as it arrives, and \(keeper) adds a secret to it.",
      allowed: policy.otherMethods(of: decision))
  }

  /// Upgrade to a protocol that the rule does not list is refused, not dropped: the server would respond as if the
  /// client had not asked, and the program would report that instead of the operator's ban. Protocols that are never
  /// relayed (HTTP itself, which Java's client asks for with every request) are dropped as always, and are no reason to
  /// refuse.
  mutating func deniedUpgrade(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Problem? {
    guard let rule, let upgrades = rule.upgrades, let name = workspace.request.requestedUpgrade(bytes),
      !upgrades.allows(bytes.extracting(name))
    else { return nil }
    let asked = bytes.extracting(name).string
    let problem = Problem(
      .denied, "Rule \(rule.name) does not allow Upgrade to \(asked); it allows: \(upgrades).",
      difference: Difference(expected: "\(upgrades)", seen: asked))
    if rule.enforce { return problem }
    record.report = problem.kind
    record.finding = Finding(problem)
    return nil
  }

  /// RFC 9110, 7.8.
  mutating func noteUpgrade(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) {
    guard let name = workspace.request.requestedUpgrade(bytes) else { return }
    request.upgrade = name.map { bytes[$0].asciiLowercased }
    request.traits.insert(.wantsUpgrade)
    if request.upgrade == Self.webSocket, record.wire == .http2 {
      request.webSocketProof = WebSocketProof(bytes, workspace.request.fields)
    }
    upstream.carrier.remove(.mayRetry)
  }

  mutating func noteGRPC(_ bytes: Span<UInt8>, _ fields: FieldSection) {
    if let type = fields.only(.contentType), GRPC.isType(bytes.extracting(type)) { noteGRPC() }
  }

  /// The same for a head that is refused, of which `bytes` are all or the beginning. Its fields may not have been read.
  mutating func noteRefusedGRPC(_ bytes: Span<UInt8>) { if GRPC.isAsked(inHead: bytes) { noteGRPC() } }

  /// CONNECT is no call, and a client would take the 200 of a trailers-only response for a tunnel.
  private mutating func noteGRPC() {
    if request.traits.contains(.isTunnel) { return }
    request.traits.insert(.isGRPC)
    client.answerForm = .grpc
  }

  func needsHTTP2(_ outputs: borrowing Outputs) -> Problem {
    Problem(
      .protocolNotOffered,
      "\(destination(outputs)) speaks HTTP/1.1 here, and a gRPC call needs HTTP/2 all the way to its server.",
      difference: Difference(expected: HTTPProtocol.http2.rawValue, seen: HTTPProtocol.http11.rawValue))
  }

  // MARK: The body

  mutating func readRequestBody(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch request.progress {
    case .done, .head, .untilClose:
      return Step(consumed: 0, action: .hold)
    case .length(let remaining):
      let count = Int(min(remaining, UInt64(bytes.count)))
      if count == 0 { return Step(consumed: 0, action: .read) }
      if upstream.carrier.contains(.dropsRequest) {
        clientForwarded(count, now: now)
        return Step(consumed: count, action: request.progress == .done ? .hold : .read)
      }
      let allowed = bodies.pacing?.upload?.allowance(of: count) ?? count
      return Step(consumed: 0, action: allowed > 0 ? .forward(count: allowed) : .hold)
    case .chunked(var decoder):
      var step: Step
      if let pace = bodies.pacing?.upload, phase == .exchanging, !bytes.isEmpty {
        step = readPacedChunks(bytes, pace.allowance(of: bytes.count), &decoder, &workspace, &outputs)
        bodies.pacing?.upload?.spent(step.consumed, now: now)
      } else {
        step = readChunks(bytes, &decoder, &workspace, &outputs)
      }
      if request.progress != .trailers && request.progress != .done { request.progress = .chunked(decoder) }
      times.lastProgress = now
      record.bytesIn &+= UInt64(step.consumed)
      return step
    case .trailers:
      let step = readRequestTrailers(bytes, from: 0, &workspace, &outputs)
      record.bytesIn &+= UInt64(step.consumed)
      return step
    }
  }

  /// Reads no more of a paced chunked body than may leave, but always enough for a size line.
  private mutating func readPacedChunks(
    _ bytes: Span<UInt8>, _ allowed: Int, _ decoder: inout ChunkedDecoder, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) -> Step {
    if allowed == 0 { return Step(consumed: 0, action: .hold) }
    var count = min(bytes.count, allowed)
    var step = readChunks(bytes.extracting(first: count), &decoder, &workspace, &outputs)
    if step.consumed == 0, step.action == .read, count < bytes.count {
      // The allowance cuts a size line.
      count = min(bytes.count, allowed + ChunkedDecoder.longestSizeLine)
      step = readChunks(bytes.extracting(first: count), &decoder, &workspace, &outputs)
    }
    // The remaining bytes are presented again.
    return count < bytes.count && step.action == .read ? Step(consumed: step.consumed, action: .hold) : step
  }

  private mutating func readChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        if upstream.carrier.contains(.dropsRequest) { continue }
        if bodies.held != nil, phase == .collecting {
          guard let action = collect(bytes.extracting(range), &workspace, &outputs) else { continue }
          if action != .connect { return Step(consumed: bytes.count, action: action) }
        }
        workspace.pool.lend(&outputs.toUpstream, bytes.count + 64)
        let before = outputs.toUpstream.count
        outputs.toUpstream.appendChunk(bytes.extracting(range))
        keepForReplay(from: before, &outputs, &workspace.pool)
      case .needMore(let consumed):
        return Step(consumed: consumed, action: .read)
      case .lastChunk(let consumed):
        request.progress = .trailers
        return readRequestTrailers(bytes, from: consumed, &workspace, &outputs)
      case .invalid(let fault):
        return refuseBody(fault, bytes.count, &workspace, &outputs)
      }
    }
  }

  private mutating func readRequestTrailers(
    _ bytes: Span<UInt8>, from: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch TrailerReader.read(bytes, from: from, limits: headLimits, into: &workspace.trailers) {
    case .incomplete: return Step(consumed: from, action: .read)
    case .invalid(let fault): return refuseBody(fault, bytes.count, &workspace, &outputs)
    case .complete(let end):
      request.progress = .done
      if !upstream.carrier.contains(.dropsRequest) {
        dropEditedTrailers(bytes, &workspace.trailers)
        if let held = bodies.held, phase == .collecting {
          workspace.trailers.write(bytes, to: &held.trailers)
          return Step(consumed: end, action: finishCollecting(&workspace, &outputs))
        }
        workspace.pool.lend(&outputs.toUpstream, end + 64)
        let before = outputs.toUpstream.count
        outputs.toUpstream.append("0\r\n")
        workspace.trailers.write(bytes, to: &outputs.toUpstream)
        outputs.toUpstream.append("\r\n")
        keepForReplay(from: before, &outputs, &workspace.pool)
      }
      return Step(consumed: end, action: response.progress == .done ? endOfResponse() : .hold)
    }
  }

  /// Fields that the rule removes from the head must not return as trailers.
  private func dropEditedTrailers(_ bytes: Span<UInt8>, _ trailers: inout FieldSection) {
    trailers.drop(namedIn: request.namedFields, bytes)
    guard let decision = record.decision else { return }
    let edits = policy.request(of: decision)
    if !edits.cookies { trailers.drop(.cookie) }
    for name in edits.fields.removed { trailers.drop(name, in: bytes) }
  }

  /// The body turned out to be malformed: the origin must never see a complete request, and the client gets an error.
  private mutating func refuseBody(
    _ fault: MessageFault, _ count: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    outputs.toUpstream.removeAll()
    if response.traits.contains(.hasBegun) { return Step(consumed: count, action: breakOff(.malformedBody)) }
    let kind: Problem.Kind = fault.isHeadLimit ? .headTooLarge : .malformedRequest
    return Step(
      consumed: count,
      action: answer(Problem(kind, "The body of the request \(fault.sentence)."), &workspace, &outputs))
  }
}
