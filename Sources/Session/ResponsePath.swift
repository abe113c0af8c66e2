// The way of a response through a session: read, judged, and written anew for the client.

import Bytes
import HTTP1
import Policy

extension Session {
  mutating func readResponse(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch response {
    case .head:
      return readResponseHead(bytes, now: now, &workspace, &outputs)
    case .length(let remaining):
      let count = Int(min(remaining, UInt64(bytes.count)))
      return Step(consumed: 0, action: count == 0 ? .read : .forward(count: count))
    case .untilClose:
      return Step(consumed: 0, action: bytes.isEmpty ? .read : .forward(count: bytes.count))
    case .chunked(var decoder):
      noteProgress(now)
      let step = readChunks(bytes, &decoder, &workspace, &outputs)
      if case .chunked = response { response = .chunked(decoder) }
      return step
    case .trailers:
      return readResponseTrailers(bytes, from: 0, &workspace, &outputs)
    case .done:
      // Bytes behind a response that nobody asked for: the connection is not used again.
      flags.remove(.upstreamPersists)
      return Step(consumed: bytes.count, action: request == .done ? endOfResponse() : .read)
    }
  }

  private mutating func readResponseHead(
    _ bytes: Span<UInt8>, now: Int64, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    if !bytes.isEmpty {
      flags.remove(.mayRetry)
      if outputs.replay.capacity != 0 { workspace.pool.reclaim(&outputs.replay) }
    }
    switch workspace.response.read(bytes, limits: headLimits, toHead: flags.contains(.isHead)) {
    case .incomplete:
      return Step(consumed: 0, action: .read)
    case .invalid(let fault):
      return Step(consumed: bytes.count, action: refuseResponse(fault, &workspace, &outputs))
    case .complete(let count):
      lastProgress = now
      if record.firstByteMilliseconds < 0 { record.firstByteMilliseconds = now - record.begun }
      if workspace.response.isInformational {
        return informational(bytes, headBytes: count, &workspace, &outputs)
      }
      return final(bytes, headBytes: count, &workspace, &outputs)
    }
  }

  /// NTLM and Negotiate authenticate the connection, not the request: one that may be somebody's is nobody else's.
  private func bindsConnection(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Bool {
    if flags.contains(.bindsConnection) { return true }
    for index in workspace.response.fields.lines.indices
    where workspace.response.fields.lines[index].known == .wwwAuthenticate {
      if Self.authenticatesConnection(bytes, workspace.response.fields.lines[index].value) { return true }
    }
    return false
  }

  private mutating func refuseResponse(
    _ fault: MessageFault, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    flags.remove(.clientPersists)
    let kind: Problem.Kind = fault.isHeadLimit ? .responseHeadTooLarge : .malformedResponse
    return answer(
      Problem(kind, "The response of \(destination(outputs)) \(fault.sentence)."), &workspace, &outputs)
  }

  /// RFC 9110, 15.2: every 1xx is passed on, except to a client of HTTP/1.0.
  private mutating func informational(
    _ bytes: Span<UInt8>, headBytes: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    if workspace.response.status == 101 {
      // RFC 9110, 7.8: not before the request is through, for the rest of it would become the tunnel's first bytes.
      guard flags.contains(.wantsUpgrade), request == .done, workspace.response.options.upgrade,
        let name = Self.relayedProtocol(workspace.response.fields, bytes)
      else {
        return Step(consumed: bytes.count, action: refuseResponse(.unexpectedSwitch, &workspace, &outputs))
      }
      record.status = 101
      writeResponseHead(bytes, connection: "Connection: Upgrade\r\n", upgrade: name, &workspace, &outputs)
      enterTunnel()
      return Step(consumed: headBytes, action: .tunnel)
    }
    informationalCount += 1
    if informationalCount > Self.maximumInformational {
      return Step(consumed: bytes.count, action: refuseResponse(.unexpectedInformational, &workspace, &outputs))
    }
    if !flags.contains(.clientIsHTTP10) {
      writeResponseHead(bytes, connection: "", &workspace, &outputs)
    }
    return Step(consumed: headBytes, action: .read)
  }

  private mutating func final(
    _ bytes: Span<UInt8>, headBytes: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    record.status = workspace.response.status
    if workspace.response.isPersistent, !bindsConnection(bytes, workspace) { flags.insert(.upstreamPersists) }
    if workspace.response.options.namesFields { flags.insert(.dropsResponseTrailers) }
    flags.insert(.responseBegun)
    switch workspace.response.framing {
    case .none, .length(0): response = .done
    case .length(let length): response = .length(remaining: length)
    case .chunked:
      response = .chunked(ChunkedDecoder())
      if flags.contains(.clientIsHTTP10) {
        flags.insert(.unchunksResponse)
        flags.remove(.clientPersists)
      }
    case .untilClose:
      response = .untilClose
      flags.remove(.clientPersists)
    }
    // A request whose body is still on its way cannot be followed by another on this connection for certain.
    if request != .done { flags.remove(.clientPersists) }
    let connection: StaticString = flags.contains(.clientPersists) ? "" : "Connection: close\r\n"
    writeResponseHead(bytes, connection: connection, &workspace, &outputs)
    let rest = bytes.count - headBytes
    switch response {
    case .done:
      return Step(consumed: headBytes, action: request == .done && rest == 0 ? endOfResponse() : endOrDiscard(rest))
    case .length(let remaining):
      return Step(consumed: headBytes, action: rest > 0 ? .forward(count: Int(min(remaining, UInt64(rest)))) : .read)
    case .untilClose:
      return Step(consumed: headBytes, action: rest > 0 ? .forward(count: rest) : .read)
    case .chunked, .head, .trailers:
      return Step(consumed: headBytes, action: .read)
    }
  }

  /// The response is complete with its head, yet more bytes came, or the request is not through.
  private mutating func endOrDiscard(_ rest: Int) -> Action {
    if rest > 0 { flags.remove(.upstreamPersists) }
    return endOfResponse()
  }

  private mutating func writeResponseHead(
    _ bytes: Span<UInt8>, connection: StaticString, upgrade: Range<Int>? = nil, _ workspace: inout Workspace,
    _ outputs: inout Outputs
  ) {
    let last = workspace.response.fields.lines.last.map { $0.line.upperBound } ?? 64
    workspace.pool.lend(&outputs.toClient, last + 256)
    let before = outputs.toClient.count
    dropRepeatedLength(&workspace.response.fields)
    // RFC 9110, 8.6: none in a 1xx or 204, whatever the server thought.
    if workspace.response.isInformational || workspace.response.status == 204 {
      workspace.response.fields.drop(.contentLength)
    }
    if flags.contains(.removesSetCookie) { workspace.response.fields.drop(.setCookie) }
    outputs.toClient.append("HTTP/1.1 ")
    outputs.toClient.append(decimal: UInt64(workspace.response.status), width: 3)
    outputs.toClient.append(0x20)
    outputs.toClient.append(bytes.extracting(workspace.response.reason))
    outputs.toClient.append("\r\n")
    workspace.response.fields.write(bytes, to: &outputs.toClient)
    // RFC 9110, 6.6.1: who passes on a response without a date says when it came.
    if !workspace.response.isInformational, workspace.response.fields.first(.date) == nil {
      outputs.toClient.append("Date: ")
      outputs.toClient.append(workspace.date.bytes)
      outputs.toClient.append("\r\n")
    }
    if case .chunked = response, !flags.contains(.unchunksResponse), !workspace.response.isInformational {
      outputs.toClient.append("Transfer-Encoding: chunked\r\n")
    }
    outputs.toClient.append(connection)
    if let upgrade {
      outputs.toClient.append("Upgrade: ")
      outputs.toClient.append(bytes.extracting(upgrade))
      outputs.toClient.append("\r\n")
    }
    outputs.toClient.append("Via: 1.")
    outputs.toClient.append(workspace.response.minorVersion == 1 ? "1 " : "0 ")
    outputs.toClient.append(workspace.name)
    outputs.toClient.append("\r\n\r\n")
    record.bytesOut &+= UInt64(outputs.toClient.count - before)
  }

  private mutating func readChunks(
    _ bytes: Span<UInt8>, _ decoder: inout ChunkedDecoder, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    var at = 0
    while true {
      switch decoder.next(bytes, from: at) {
      case .data(let range):
        at = range.upperBound
        workspace.pool.lend(&outputs.toClient, bytes.count + 64)
        let before = outputs.toClient.count
        if flags.contains(.unchunksResponse) {
          outputs.toClient.append(bytes.extracting(range))
        } else {
          outputs.toClient.appendChunk(bytes.extracting(range))
        }
        record.bytesOut &+= UInt64(outputs.toClient.count - before)
      case .needMore(let consumed):
        return Step(consumed: consumed, action: .read)
      case .lastChunk(let consumed):
        response = .trailers
        return readResponseTrailers(bytes, from: consumed, &workspace, &outputs)
      case .invalid(let fault):
        return Step(consumed: bytes.count, action: refuseResponseBody(fault, &workspace, &outputs))
      }
    }
  }

  /// Where not a byte of the response has left yet, the client is told; else what it got is cut short.
  private mutating func refuseResponseBody(
    _ fault: MessageFault, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Action {
    guard record.bytesOut == UInt64(outputs.toClient.count) else { return breakOff(.malformedBody) }
    outputs.toClient.removeAll()
    record.bytesOut = 0
    flags.remove(.clientPersists)
    let kind: Problem.Kind = fault.isHeadLimit ? .responseHeadTooLarge : .malformedResponse
    return answer(
      Problem(kind, "The body of the response of \(destination(outputs)) \(fault.sentence)."), &workspace, &outputs)
  }

  private mutating func readResponseTrailers(
    _ bytes: Span<UInt8>, from: Int, _ workspace: inout Workspace, _ outputs: inout Outputs
  ) -> Step {
    switch TrailerReader.read(bytes, from: from, limits: headLimits, into: &workspace.trailers) {
    case .incomplete: return Step(consumed: from, action: .read)
    case .invalid(let fault):
      return Step(consumed: bytes.count, action: refuseResponseBody(fault, &workspace, &outputs))
    case .complete(let end):
      response = .done
      if !flags.contains(.unchunksResponse) {
        workspace.pool.lend(&outputs.toClient, end + 64)
        if flags.contains(.removesSetCookie) { workspace.trailers.drop(.setCookie) }
        if flags.contains(.dropsResponseTrailers) { workspace.trailers.lines.removeAll(keepingCapacity: true) }
        let before = outputs.toClient.count
        outputs.toClient.append("0\r\n")
        workspace.trailers.write(bytes, to: &outputs.toClient)
        outputs.toClient.append("\r\n")
        record.bytesOut &+= UInt64(outputs.toClient.count - before)
      }
      if end < bytes.count { flags.remove(.upstreamPersists) }
      return Step(consumed: end, action: endOfResponse())
    }
  }
}
