// One client of the admin API: its requests, one after another, and what waits to be sent to it.

import Bytes
import HTTP1
import Session
import Transport

/// A request as the API sees it.
struct AdminRequest: Equatable {
  let method: String
  /// Without the query.
  let path: String
}

final class AdminConnection {
  /// Longest body of a request that is read and passed over: POST needs none.
  static let longestBody: UInt64 = 4 << 10

  private enum Phase {
    case reading
    /// The loops have been asked.
    case waiting
    /// Events follow until somebody leaves.
    case events
    /// What there is is sent, and then it is over.
    case closing
    case closed
  }

  let descriptor: Descriptor
  /// What it is registered under.
  let data: UInt64
  private var phase = Phase.reading
  private var input = ByteBuffer()
  private var output = ByteBuffer()
  private var head = RequestHead()
  private var isHead = false
  private(set) var wantsText = false
  private var lostEvents = 0
  private(set) var deadline: Int64
  private(set) var watches = false
  /// The client has closed its sending direction.
  private(set) var hasEnded = false
  /// It waits to be bidden to send a body (RFC 9110, 10.1.1), and has been.
  private var hasContinued = false

  init(_ descriptor: Descriptor, data: UInt64, now: Int64) {
    self.descriptor = descriptor
    self.data = data
    deadline = now + AdminServer.idleMilliseconds
  }

  var isOpen: Bool {
    if case .closed = phase { return false }
    return true
  }
  var hasOutput: Bool { !output.isEmpty }

  func close() { phase = .closed }

  /// Takes in what has come. A client that says something while its answer is prepared is read when it is its turn.
  func receive() {
    while input.count < AdminServer.headLimits.bytes + Int(Self.longestBody) {
      input.reserve(AdminServer.readBytes)
      switch descriptor.read(into: &input) {
      case .moved: deadline = Clock.monotonic + AdminServer.idleMilliseconds
      case .wouldBlock: return
      case .ended:
        // Who has said all may still want the answer; who watches and ends has left.
        hasEnded = true
        if watches { close() }
        return
      case .failed: return close()
      }
    }
  }

  /// The next request that is complete.
  func nextRequest() -> AdminRequest? {
    guard case .reading = phase, !input.isEmpty else { return nil }
    switch head.read(input.bytes, limits: AdminServer.headLimits, isInTunnel: true) {
    case .incomplete: return nil
    case .invalid(let fault):
      phase = .closing
      write(.problem(400, "the request \(fault.sentence)"))
      return nil
    case .complete(let count): return request(headBytes: count)
    }
  }

  private func request(headBytes: Int) -> AdminRequest? {
    var bodyBytes = 0
    switch head.framing {
    case .none: break
    case .length(let length) where length <= Self.longestBody: bodyBytes = Int(length)
    case .length, .chunked, .untilClose:
      phase = .closing
      write(.problem(413, "expected a body of at most \(Self.longestBody) bytes, and none is needed"))
      return nil
    }
    if input.count < headBytes + bodyBytes {
      if head.fields.first(.expect) != nil, !hasContinued { output.append("HTTP/1.1 100 Continue\r\n\r\n") }
      hasContinued = true
      return nil
    }
    hasContinued = false
    isHead = head.knownMethod == .head
    var bytes = ByteBuffer()
    swap(&bytes, &input)
    wantsText = Session.prefersText(head.fields, bytes.bytes)
    swap(&bytes, &input)
    let request = AdminRequest(method: isHead ? "GET" : input.string(head.method), path: input.string(head.path))
    if head.options.close || head.minorVersion == 0 && !head.options.keepAlive { lastOne = true }
    input.consume(headBytes + bodyBytes)
    return request
  }

  private var lastOne = false

  func await() { phase = .waiting }

  // MARK: Answers

  func write(_ page: AdminPage, allow: String? = nil) {
    if case .closing = phase {} else { phase = lastOne ? .closing : .reading }
    writeHead(page.status, page.contentType)
    output.append("Content-Length: \(page.body.utf8.count)\r\n")
    if let allow { output.append("Allow: \(allow)\r\n") }
    if case .closing = phase { output.append("Connection: close\r\n") }
    output.append("\r\n")
    if !isHead { output.append(page.body) }
  }

  func beginEvents() {
    phase = .events
    watches = true
    let type = wantsText ? "text/plain; charset=utf-8" : "text/event-stream"
    writeHead(200, type)
    output.append("Connection: close\r\n\r\n")
  }

  private func writeHead(_ status: Int, _ contentType: String) {
    output.append("HTTP/1.1 \(status) \(Self.reason(status))\r\nDate: ")
    CalendarTime(secondsSince1970: Clock.wall / 1000).writeIMFFixdate(to: &output)
    output.append("\r\nContent-Type: \(contentType)\r\nCache-Control: no-store\r\n")
  }

  /// false: the reader is too slow, and has lost the event.
  func offer(_ event: ProxyEvent) -> Bool {
    guard output.count + event.json.utf8.count <= AdminServer.mostWaitingBytes else {
      lostEvents += 1
      return false
    }
    if lostEvents > 0 { writeLoss() }
    write(event: event.kind.rawValue, event.json)
    return true
  }

  private func write(event: String, _ json: String) {
    output.append(wantsText ? "\(event) \(json)\n" : "event: \(event)\ndata: \(json)\n\n")
  }

  func send() {
    sendOutput()
    // A reader that has caught up hears of its loss, though nothing more may happen.
    if isOpen, watches, output.isEmpty, lostEvents > 0 {
      writeLoss()
      sendOutput()
    }
  }

  private func writeLoss() {
    write(event: "lost", "{\"count\":\(lostEvents)}")
    lostEvents = 0
  }

  private func sendOutput() {
    while !output.isEmpty {
      switch descriptor.write(output) {
      case .moved(let count):
        output.consume(count)
        deadline = Clock.monotonic + AdminServer.idleMilliseconds
      case .wouldBlock: return
      case .ended, .failed: return close()
      }
    }
    if case .closing = phase { close() }
    // Nothing more can come, and nothing is being prepared.
    if case .reading = phase, hasEnded { close() }
    // Nothing is expected of who watches, and nothing may happen for long.
    if case .events = phase { deadline = .max }
  }

  private static func reason(_ status: Int) -> String {
    switch status {
    case 200: "OK"
    case 202: "Accepted"
    case 400: "Bad Request"
    case 404: "Not Found"
    case 405: "Method Not Allowed"
    case 413: "Content Too Large"
    case 422: "Unprocessable Content"
    default: "Not Implemented"
    }
  }
}
