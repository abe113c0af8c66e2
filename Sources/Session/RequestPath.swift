// The way of a request through a session: read, judged, decided, and written anew for its origin.

import Bytes
import HTTP1
import Policy

extension Session {
  /// Longest body in bytes that is kept for a second try, until the response begins.
  static let longestReplayedBody: UInt64 = 16 << 10
  /// Longest path in bytes that a log line holds.
  static let longestLoggedPath = 1024
  /// The same of a method, and of host and port: any that can be served are shorter.
  static let longestLoggedMethod = 32
  static let longestLoggedAuthority = 300

  var headLimits: HeadLimits {
    HeadLimits(bytes: policy.configuration.limits.headerBytes, fields: policy.configuration.limits.headers)
  }

  mutating func readRequestHead(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    headBytesSeen = bytes.count
    switch workspace.request.read(bytes, limits: headLimits, isInTunnel: interior != nil) {
    case .incomplete:
      return Step(consumed: 0, action: .read)
    case .invalid(let fault):
      let kind: Problem.Kind = fault.isHeadLimit ? .headTooLarge : .malformedRequest
      beginRecord(now: now, &workspace)
      request = .head
      record.bytesIn = UInt64(bytes.count)
      noteReadable(bytes, &workspace, &outputs)
      let action = answer(Problem(kind, "The request \(fault.sentence)."), &workspace, &outputs)
      return Step(consumed: bytes.count, action: action)
    case .complete(let count):
      let action = begin(bytes, headBytes: count, now: now, &workspace, &outputs)
      return Step(consumed: count, action: action)
    }
  }

  /// A whole head is there: judges it, decides, and prepares what leaves.
  private mutating func begin(
    _ bytes: Span<UInt8>, headBytes: Int, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    beginRecord(now: now, &workspace)
    record.bytesIn = UInt64(headBytes)
    lastProgress = now
    noteRequest(bytes, &workspace, &outputs)
    if let problem = judge(bytes, &workspace) { return answer(problem, &workspace, &outputs) }
    if workspace.request.form == .asterisk && interior == nil || isLastRecipient(bytes, workspace) {
      return answerForItself(bytes, headBytes: headBytes, &workspace, &outputs)
    }
    let decision = policy.decide(
      RequestFacts(
        scheme: isSecure(workspace.request) ? .https : .http, port: port,
        method: bytes.extracting(workspace.request.method), path: bytes.extracting(workspace.request.path),
        isTunnel: flags.contains(.isTunnel)), &workspace.decisions)
    record.decision = decision
    if decision.verdict == .deny { return answer(denial(of: decision), &workspace, &outputs) }
    noteSecurity(decision, workspace)
    if let problem = deniedLiteral(workspace, decision) { return answer(problem, &workspace, &outputs) }
    let edits = policy.request(of: decision)
    if let timeout = edits.timeoutMilliseconds, rule?.enforce ?? true { exchangeDeadline = now + timeout }
    if !edits.cookies { flags.insert(.removesSetCookie) }
    phase = .connecting
    if flags.contains(.isTunnel) {
      return policy.treatment(of: decision) == .intercept
        ? intercept(bytes, workspace) : .connect
    }
    writeRequest(bytes, edits, &workspace, &outputs)
    return .connect
  }

  private func isSecure(_ head: borrowing RequestHead) -> Bool { head.isHTTPS || interior != nil }

  /// How the destination is spoken to.
  private mutating func noteSecurity(_ decision: Decision, _ workspace: borrowing Workspace) {
    if flags.contains(.isTunnel) {
      if policy.treatment(of: decision) == .verify { prepareInspection(workspace) }
    } else if isSecure(workspace.request) {
      flags.insert(.upstreamTLS)
    } else if rule?.upgrade ?? false {
      flags.insert([.upstreamTLS, .upgraded])
      if port == Scheme.http.defaultPort { port = Scheme.https.defaultPort }
    }
  }

  /// Takes from the head what the exchange has to remember once its bytes are gone.
  private mutating func noteRequest(
    _ bytes: Span<UInt8>, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    let method = workspace.request.knownMethod
    if workspace.request.isPersistent, !flags.contains(.lastExchange) { flags.insert(.clientPersists) }
    if workspace.request.minorVersion == 0 { flags.insert(.clientIsHTTP10) }
    if method == .head { flags.insert(.isHead) }
    if method == .connect { flags.insert(.isTunnel) }
    switch workspace.request.framing {
    case .none, .length(0):
      request = .done
      if method.isIdempotent { flags.insert(.mayRetry) }
    case .length(let length):
      request = .length(remaining: length)
      if method.isIdempotent, length <= Self.longestReplayedBody { flags.insert(.mayRetry) }
    case .chunked: request = .chunked(ChunkedDecoder())
    case .untilClose: preconditionFailure("a request never ends with its connection")
    }
    response = .head
    if let value = workspace.request.fields.first(.authorization), Self.authenticatesConnection(bytes, value) {
      flags.insert(.bindsConnection)
      flags.remove(.mayRetry)
    }
    if workspace.request.options.namesFields { flags.insert(.dropsRequestTrailers) }
    if Self.prefersText(workspace.request.fields, bytes) { flags.insert(.prefersText) }
    writeText(bytes, workspace.request, &workspace.pool, &outputs.text)
  }

  /// What could be read of a head that is refused.
  private mutating func noteReadable(
    _ bytes: Span<UInt8>, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    if workspace.request.understood == .nothing { return }
    if workspace.request.knownMethod == .head { flags.insert(.isHead) }
    if workspace.request.understood == .target {
      return writeText(bytes, workspace.request, &workspace.pool, &outputs.text)
    }
    outputs.text.removeAll()
    workspace.pool.lend(&outputs.text, BufferPool.smallestBlock)
    outputs.text.append(bytes.extracting(workspace.request.method.prefix(Self.longestLoggedMethod)))
    record.method = 0..<outputs.text.count
    record.target = outputs.text.count..<outputs.text.count
  }

  /// Method, and the target without query: what the log line and errors show.
  private mutating func writeText(
    _ bytes: Span<UInt8>, _ head: borrowing RequestHead, _ pool: inout BufferPool, _ text: inout ByteBuffer
  ) {
    text.removeAll()
    pool.lend(&text, BufferPool.smallestBlock)
    text.append(bytes.extracting(head.method.prefix(Self.longestLoggedMethod)))
    record.method = 0..<text.count
    switch head.form {
    case .asterisk: text.append("*")
    case .authority: text.append(bytes.extracting(head.authority.prefix(Self.longestLoggedAuthority)))
    case .origin:
      text.append("https://")
      if let interior { text.append(Array(interior.authority.prefix(Self.longestLoggedAuthority))) }
      text.append(bytes.extracting(head.path.prefix(Self.longestLoggedPath)))
    case .absolute:
      text.append(head.isHTTPS ? "https://" : "http://")
      text.append(bytes.extracting(head.authority.prefix(Self.longestLoggedAuthority)))
      let path = head.path
      text.append(bytes.extracting(path.prefix(Self.longestLoggedPath)))
    }
    record.target = record.method.upperBound..<text.count
  }

  /// What has to be right before any rule is asked: credentials, host, no loop.
  private mutating func judge(_ bytes: Span<UInt8>, _ workspace: inout Workspace) -> Problem? {
    let credentials = policy.configuration.proxy.credentials
    if interior != nil { return judgeInterior(bytes, &workspace) }
    if !credentials.isEmpty, !Self.isAuthorized(workspace.request.fields, bytes, credentials) {
      return Problem(
        .authenticationRequired, "Proxy-Authorization with Basic credentials that the proxy knows was expected.")
    }
    if workspace.request.form == .asterisk { return nil }
    if let fault = workspace.decisions.host.set(bytes.extracting(workspace.request.host)) {
      flags.remove(.clientPersists)
      return Problem(.malformedRequest, "The target names a malformed host; expected \(fault.expectation).")
    }
    port = workspace.request.port ?? (workspace.request.isHTTPS ? 443 : 80)
    if Self.hasPassedThrough(workspace.via, workspace.request.fields, bytes) {
      return Problem(.loop, "The request has passed through this proxy already, as its Via field says.")
    }
    return nil
  }

  private func denial(of decision: Decision) -> Problem {
    guard let rule = decision.rule.map({ policy.rules[$0] }) else {
      return Problem(.denied, "No rule allows this request, and the default is to deny.")
    }
    if let reason = rule.reason { return Problem(.denied, reason) }
    return Problem(
      .denied,
      decision.reason == .connectDenied
        ? "Rule \(rule.name) denies tunnels to this host." : "Rule \(rule.name) denies this request.")
  }

  /// A literal address is judged before anything is opened.
  private func deniedLiteral(_ workspace: borrowing Workspace, _ decision: Decision) -> Problem? {
    guard let address = workspace.decisions.host.address,
      let block = policy.denyingBlock(address, rule: decision.rule)
    else { return nil }
    return Problem(.addressDenied, "\(address) is in \(block), which deny_addresses lists.")
  }

  // MARK: Requests for the proxy itself

  /// RFC 9110, 7.6.2: TRACE and OPTIONS that may go no further are answered here.
  private func isLastRecipient(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Bool {
    Self.maxForwards(bytes, workspace.request) == 0
  }

  /// The number in Max-Forwards, of the methods that heed it; nil where there is none that any sender needs.
  private static func maxForwards(_ bytes: Span<UInt8>, _ head: borrowing RequestHead) -> UInt64? {
    guard head.knownMethod == .trace || head.knownMethod == .options, let value = head.fields.first(.maxForwards),
      !value.isEmpty, value.count <= 9
    else { return nil }
    var number: UInt64 = 0
    for index in value {
      guard bytes[index].isASCIIDigit else { return nil }
      number = number * 10 + UInt64(bytes[index] & 0xf)
    }
    return number
  }

  private mutating func answerForItself(
    _ bytes: Span<UInt8>, headBytes: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    let persists =
      flags.contains(.clientPersists) && !flags.contains(.clientIsHTTP10) && request == .done
    record.status = 200
    phase = .exchanging
    workspace.pool.lend(&outputs.toClient, BufferPool.smallestBlock)
    let before = outputs.toClient.count
    outputs.toClient.append("HTTP/1.1 200 OK\r\nDate: ")
    outputs.toClient.append(workspace.date.bytes)
    if workspace.request.knownMethod == .trace {
      var echo = ByteBuffer()
      Self.writeEcho(bytes, workspace.request, to: &echo)
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

  /// RFC 9110, 9.3.8: the request as it came, without the fields that carry credentials.
  private static func writeEcho(_ bytes: Span<UInt8>, _ head: borrowing RequestHead, to out: inout ByteBuffer) {
    out.append(bytes.extracting(head.method))
    out.append(0x20)
    out.append(bytes.extracting(head.target))
    out.append(head.minorVersion == 1 ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n")
    for index in head.fields.lines.indices {
      switch head.fields.lines[index].known {
      case .authorization, .proxyAuthorization, .cookie: continue
      default: out.append(bytes.extracting(head.fields.lines[index].line))
      }
    }
    out.append("\r\n")
  }

  // MARK: What leaves for the origin

  private mutating func writeRequest(
    _ bytes: Span<UInt8>, _ edits: RequestPolicy, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) {
    let method = workspace.request.knownMethod
    noteUpgrade(bytes, workspace)
    dropEdited(bytes, edits, &workspace.request.fields)
    workspace.pool.lend(
      &outputs.toUpstream,
      workspace.request.fields.lines.last.map { $0.line.upperBound + 256 } ?? 1024 + edits.fields.addedBytes)
    outputs.toUpstream.append(bytes.extracting(workspace.request.method))
    outputs.toUpstream.append(0x20)
    let target = workspace.request.pathAndQuery
    if target.isEmpty {
      // RFC 9112, 3.2.4: OPTIONS without a path asks for the server as a whole.
      outputs.toUpstream.append(method == .options ? "*" : "/")
    } else {
      if bytes[target.lowerBound] == 0x3f { outputs.toUpstream.append(0x2f) }
      outputs.toUpstream.append(bytes.extracting(target))
    }
    outputs.toUpstream.append(" HTTP/1.1\r\nHost: ")
    if let interior, workspace.request.authority.isEmpty {
      outputs.toUpstream.append(interior.authority)
    } else if flags.contains(.upgraded), workspace.request.port == Scheme.http.defaultPort {
      // The port goes with the scheme: 443 is what an https origin expects unsaid.
      outputs.toUpstream.append(bytes.extracting(workspace.request.host))
    } else {
      outputs.toUpstream.append(bytes.extracting(workspace.request.authority))
    }
    outputs.toUpstream.append("\r\n")
    writeMaxForwards(bytes, &workspace.request, to: &outputs.toUpstream)
    workspace.request.fields.write(bytes, to: &outputs.toUpstream)
    for line in edits.fields.set { outputs.toUpstream.append(line.line) }
    for line in edits.fields.defaults where !workspace.request.fields.contains(line.name, in: bytes) {
      outputs.toUpstream.append(line.line)
    }
    writeConnectionFields(bytes, workspace, to: &outputs.toUpstream)
    outputs.toUpstream.append("Via: 1.")
    outputs.toUpstream.append(workspace.request.minorVersion == 1 ? "1 " : "0 ")
    outputs.toUpstream.append(workspace.via)
    outputs.toUpstream.append("\r\n\r\n")
  }

  /// RFC 9110, 7.8.
  private mutating func noteUpgrade(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) {
    guard workspace.request.options.upgrade, workspace.request.minorVersion == 1,
      Self.relayedProtocol(workspace.request.fields, bytes) != nil
    else { return }
    flags.insert(.wantsUpgrade)
    flags.remove(.mayRetry)
  }

  /// The one protocol that Upgrade names, where it is relayed. HTTP in another guise (h2c, TLS) is not, for it would
  /// carry requests past the policy; a choice of several is not, for nobody could say what the tunnel holds.
  static func relayedProtocol(_ fields: FieldSection, _ bytes: Span<UInt8>) -> Range<Int>? {
    guard let value = fields.first(.upgrade) else { return nil }
    var elements = ListElements(value)
    guard let name = elements.next(bytes), elements.next(bytes) == nil else { return nil }
    for index in name where !bytes[index].isTokenCharacter && bytes[index] != 0x2f { return nil }
    func begins(_ text: StaticString) -> Bool {
      name.count >= text.utf8CodeUnitCount
        && bytes.equals(name.prefix(text.utf8CodeUnitCount), ignoringCase: text)
    }
    return begins("h2c") || begins("http") || begins("tls") ? nil : name
  }

  private func dropEdited(_ bytes: Span<UInt8>, _ edits: RequestPolicy, _ fields: inout FieldSection) {
    fields.drop(.host)
    if flags.contains(.clientIsHTTP10) { fields.drop(.expect) }
    dropRepeatedLength(&fields)
    if !edits.cookies { fields.drop(.cookie) }
    for name in edits.fields.removed { fields.drop(name, in: bytes) }
  }

  private func writeMaxForwards(_ bytes: Span<UInt8>, _ head: inout RequestHead, to out: inout ByteBuffer) {
    guard let number = Self.maxForwards(bytes, head), number > 0 else { return }
    head.fields.drop(.maxForwards)
    out.append("Max-Forwards: ")
    out.append(decimal: number - 1)
    out.append("\r\n")
  }

  private func writeConnectionFields(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace, to out: inout ByteBuffer) {
    if case .chunked = request { out.append("Transfer-Encoding: chunked\r\n") }
    let trailers = workspace.request.options.te && Self.acceptsTrailers(workspace.request.fields, bytes)
    if trailers { out.append("TE: trailers\r\n") }
    if flags.contains(.wantsUpgrade), let name = Self.relayedProtocol(workspace.request.fields, bytes) {
      out.append(trailers ? "Connection: TE, Upgrade\r\nUpgrade: " : "Connection: Upgrade\r\nUpgrade: ")
      out.append(bytes.extracting(name))
      out.append("\r\n")
    } else if trailers {
      out.append("Connection: TE\r\n")
    }
  }

  private static func acceptsTrailers(_ fields: FieldSection, _ bytes: Span<UInt8>) -> Bool {
    for index in fields.lines.indices where fields.lines[index].known == .te {
      var elements = ListElements(fields.lines[index].value)
      while let element = elements.next(bytes) {
        if bytes.equals(element, ignoringCase: "trailers") { return true }
      }
    }
    return false
  }

  // MARK: The body

  mutating func readRequestBody(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch request {
    case .done, .head, .untilClose:
      return Step(consumed: 0, action: .hold)
    case .length(let remaining):
      let count = Int(min(remaining, UInt64(bytes.count)))
      if count == 0 { return Step(consumed: 0, action: .read) }
      if flags.contains(.dropsRequest) {
        clientForwarded(count, now: now)
        return Step(consumed: count, action: request == .done ? .hold : .read)
      }
      return Step(consumed: 0, action: .forward(count: count))
    case .chunked(var decoder):
      let step = readChunks(bytes, &decoder, &workspace, &outputs)
      if request != .trailers && request != .done { request = .chunked(decoder) }
      lastProgress = now
      record.bytesIn &+= UInt64(step.consumed)
      return step
    case .trailers:
      let step = readRequestTrailers(bytes, from: 0, &workspace, &outputs)
      record.bytesIn &+= UInt64(step.consumed)
      return step
    }
  }

  private mutating func readChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        if flags.contains(.dropsRequest) { continue }
        workspace.pool.lend(&outputs.toUpstream, bytes.count + 64)
        outputs.toUpstream.appendChunk(bytes.extracting(range))
      case .needMore(let consumed):
        return Step(consumed: consumed, action: .read)
      case .lastChunk(let consumed):
        request = .trailers
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
      request = .done
      if !flags.contains(.dropsRequest) {
        workspace.pool.lend(&outputs.toUpstream, end + 64)
        dropEditedTrailers(bytes, &workspace.trailers)
        outputs.toUpstream.append("0\r\n")
        workspace.trailers.write(bytes, to: &outputs.toUpstream)
        outputs.toUpstream.append("\r\n")
      }
      return Step(consumed: end, action: response == .done ? endOfResponse() : .hold)
    }
  }

  /// What the rule takes out of the head does not come in by the back door.
  private func dropEditedTrailers(_ bytes: Span<UInt8>, _ trailers: inout FieldSection) {
    if flags.contains(.dropsRequestTrailers) { return trailers.lines.removeAll(keepingCapacity: true) }
    guard let decision = record.decision else { return }
    let edits = policy.request(of: decision)
    if !edits.cookies { trailers.drop(.cookie) }
    for name in edits.fields.removed { trailers.drop(name, in: bytes) }
  }

  /// The body turned out malformed: the origin must never see a whole request, and the client is told.
  private mutating func refuseBody(
    _ fault: MessageFault, _ count: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    outputs.toUpstream.removeAll()
    if flags.contains(.responseBegun) { return Step(consumed: count, action: breakOff(.malformedBody)) }
    let kind: Problem.Kind = fault.isHeadLimit ? .headTooLarge : .malformedRequest
    return Step(
      consumed: count,
      action: answer(Problem(kind, "The body of the request \(fault.sentence)."), &workspace, &outputs))
  }

  /// Identical Content-Length fields are one length (RFC 9110, 8.6): one of them leaves.
  func dropRepeatedLength(_ fields: inout FieldSection) {
    var seen = false
    for index in fields.lines.indices where fields.lines[index].known == .contentLength {
      if seen { fields.lines[index].isDropped = true }
      seen = true
    }
  }
}

extension ByteBuffer {
  /// One chunk (RFC 9112, 7.1). Empty content is no chunk: a size of zero would end the body.
  mutating func appendChunk(_ content: Span<UInt8>) {
    if content.isEmpty { return }
    append(hexadecimal: UInt64(content.count))
    append("\r\n")
    append(content)
    append("\r\n")
  }
}
