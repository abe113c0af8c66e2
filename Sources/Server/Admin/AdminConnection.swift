// One client of the admin API: its requests, one after another, and what waits to be sent to it.

import Bytes
import HTTP1
import Policy
import Session
import Sharing
import Transport

/// A request as the API sees it.
struct AdminRequest: Equatable {
  let method: String
  /// Without the query.
  let path: String
  /// After the question mark, as it was received; empty if there is none.
  let query: String
  /// Where it comes from; only for requests to the dashboard.
  var web: WebFields? = nil
}

final class AdminConnection {
  /// The longest request body that is read and ignored: POST needs none.
  static let longestBody: UInt64 = 4 << 10
  /// How many bytes of requests are read before they are answered.
  private static let longestInput = AdminServer.headLimits.bytes + Int(longestBody)

  private enum Phase {
    case reading
    /// The loops have been asked.
    case waiting
    /// Events follow until either side leaves.
    case events
    /// The rest is sent, and then the connection ends.
    case closing
    case closed
  }

  let descriptor: Descriptor
  /// The listener that it came through.
  let kind: AdminListener.Kind
  /// The number it is registered under.
  let data: UInt64
  /// Whose connection it is. For a browser this is known once it has a session.
  private(set) var identity: Claimant
  /// The peer, if it came by TCP.
  private let peer: Accepted?
  /// The session of the request that is being answered.
  private(set) var session: WebSession? = nil
  /// The user at the other end, asked of the kernel at most once.
  private var browserUser: UInt32?? = nil
  private var phase = Phase.reading
  private var input = ByteBuffer()
  private var output = ByteBuffer()
  private var head = RequestHead()
  private var isHead = false
  private(set) var wantsText = false
  private var lostEvents = 0
  /// When it connected, sent its last whole request, or last accepted some of what waits for it. Bytes that make no
  /// request do not extend its time.
  private(set) var lastMoment: Int64
  private var hasAsked = false
  /// The kinds of events that it reads; nil if it reads none.
  private(set) var watched: EventKinds? = nil
  private var filter = EventFilter()
  /// The client has closed its sending direction.
  private var hasEnded = false
  /// It waits for 100 Continue to send a body (RFC 9110, 10.1.1), and has got it.
  private var hasContinued = false
  private var lastOne = false

  init(_ descriptor: Descriptor, data: UInt64, by kind: AdminListener.Kind, peer: Accepted? = nil, now: Int64) {
    self.descriptor = descriptor
    self.peer = peer
    self.kind = kind
    self.data = data
    identity = .user(descriptor.peerUserID ?? .max)
    lastMoment = now
  }

  var isOpen: Bool {
    if case .closed = phase { return false }
    return true
  }

  /// The request being answered is HEAD: only the head of its answer is sent.
  var answersHead: Bool { isHead }

  /// Whether no further request is awaited.
  var expectsNothing: Bool {
    switch phase {
    case .waiting, .events, .closing: true
    case .reading, .closed: false
    }
  }

  var interest: Interest {
    var interest: Interest = hasEnded || input.count >= Self.longestInput ? [] : .read
    if !output.isEmpty { interest.insert(.write) }
    return interest
  }

  /// When it is closed. A watcher is not expected to send anything, and no event may occur for long; a browser watches
  /// as long as its session lasts.
  var deadline: Int64 {
    if case .events = phase { return session?.until ?? .max }
    return lastMoment + AdminServer.idleMilliseconds
  }

  var place: AdminPlace {
    switch phase {
    case .waiting, .events: .served
    case .reading, .closing, .closed:
      !output.isEmpty
        ? .unread(since: lastMoment) : hasAsked ? .kept(since: lastMoment) : .silent(since: lastMoment)
    }
  }

  func close() { phase = .closed }

  // MARK: Requests

  /// Reads what has arrived. If a client sends while its answer is prepared, that is read when its turn comes.
  func receive() {
    while isOpen, input.count < Self.longestInput {
      input.reserve(AdminServer.readBytes)
      switch descriptor.read(into: &input) {
      case .moved: continue
      case .wouldBlock: return
      case .ended:
        // A client that has sent everything may still want the answer; a watcher that ends its side has left.
        hasEnded = true
        if watched != nil { close() }
        return
      case .failed: return close()
      }
    }
  }

  /// The next complete request, once the client has accepted the previous answers.
  func nextRequest() -> AdminRequest? {
    guard case .reading = phase, !input.isEmpty, output.isEmpty else { return nil }
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
    // A browser without a session has no claim to a place: it counts as silent.
    if kind != .web { hasAsked = true }
    session = nil
    lastMoment = Clock.monotonic
    isHead = head.knownMethod == .head
    var bytes = ByteBuffer()
    swap(&bytes, &input)
    wantsText = head.fields.prefersText(bytes.bytes)
    swap(&bytes, &input)
    let web = kind == .web ? webFields(hasBody: bodyBytes > 0) : nil
    let query = (head.path.upperBound..<head.pathAndQuery.upperBound).dropFirst()
    let request = AdminRequest(
      method: isHead ? "GET" : input.string(head.method), path: input.string(head.path),
      query: input.string(query), web: web)
    if head.options.close || head.minorVersion == 0 && !head.options.keepAlive { lastOne = true }
    input.consume(headBytes + bodyBytes)
    return request
  }

  private func webFields(hasBody: Bool) -> WebFields {
    var fields = WebFields()
    fields.hasBody = hasBody
    fields.isForProxy = head.form != .origin
    for line in head.fields.lines { fields.take(input.string(line.name).lowercased(), input.string(line.value)) }
    return fields
  }

  // MARK: Browsers

  /// The user whose browser this is; nil if the kernel does not say.
  func browser(_ dashboard: DashboardState) -> UInt32? {
    if let known = browserUser { return known }
    let user = peer.flatMap(dashboard.owner)
    browserUser = .some(user)
    return user
  }

  /// The request has a session.
  func recognise(_ session: WebSession) {
    self.session = session
    identity = .user(session.browser)
    hasAsked = true
  }

  /// The next answer is the last.
  func dismiss() { lastOne = true }

  func await() { phase = .waiting }

  // MARK: Answers

  func write(_ page: AdminPage, allow: String? = nil) {
    if case .closing = phase {} else { phase = lastOne ? .closing : .reading }
    var body = ByteBuffer()
    page.writeBody(to: &body)
    writeHead(page.status, page.contentType)
    output.append("Content-Length: \(body.count)\r\n")
    if let allow { output.append("Allow: \(allow)\r\n") }
    for (name, value) in page.fields { output.append("\(name): \(value)\r\n") }
    if case .closing = phase { output.append("Connection: close\r\n") }
    output.append("\r\n")
    if !isHead { output.append(contentsOf: body) }
  }

  func refuse(_ status: Int, _ detail: String) {
    write(wantsText ? .text(detail + "\n", status: status) : .problem(status, detail))
  }

  func beginEvents(_ kinds: EventKinds, _ filter: EventFilter) {
    self.filter = filter
    let type = wantsText ? "text/plain; charset=utf-8" : "text/event-stream"
    writeHead(200, type)
    output.append("Connection: close\r\n\r\n")
    // Nothing follows the head that answers HEAD.
    phase = isHead ? .closing : .events
    if !isHead { watched = kinds }
  }

  private func writeHead(_ status: Int, _ contentType: String) {
    output.append("HTTP/1.1 \(status) \(Self.reason(status))\r\nDate: ")
    CalendarTime(secondsSince1970: Clock.wall / 1000).writeIMFFixdate(to: &output)
    output.append("\r\nContent-Type: \(contentType)\r\nCache-Control: no-store\r\n")
    if kind == .web { output.append(DashboardGuard.answerFields) }
  }

  // MARK: Events

  /// false: the reader is too slow, and has lost the event.
  func offer(_ leaving: LeavingEvent) -> Bool {
    if !filter.wants(leaving.event) { return true }
    let room = AdminServer.mostWaitingBytes - output.count
    guard room > 0, case let text = wantsText ? leaving.line : leaving.message, text.utf8.count <= room else {
      lostEvents += 1
      return false
    }
    if lostEvents > 0 { writeLoss() }
    output.append(text)
    return true
  }

  /// This many events were lost before they came here.
  func miss(_ count: Int) { lostEvents += count }

  private func writeLoss() {
    let time = JSONText.string(AdminResources.time(Clock.wall))
    let members = [("time", time), ("count", JSONText.number(lostEvents))]
    output.append(
      wantsText
        ? LeavingEvent.line("lost", members)
        : LeavingEvent.message("lost") { $0.append(JSONText.object(members).compactText) })
    lostEvents = 0
  }

  // MARK: Sending

  func send() {
    sendOutput()
    // A reader that has caught up is told of its loss now, since no event may follow for long.
    if isOpen, watched != nil, output.isEmpty, lostEvents > 0 {
      writeLoss()
      sendOutput()
    }
  }

  private func sendOutput() {
    while isOpen, !output.isEmpty {
      switch descriptor.write(output) {
      case .moved(let count):
        output.consume(count)
        lastMoment = Clock.monotonic
      case .wouldBlock: return
      case .ended, .failed: return close()
      }
    }
    if case .closing = phase, output.isEmpty { close() }
  }

  /// After all requests have been answered: nothing more can come, and no answer is being prepared.
  func closeIfOver() { if case .reading = phase, hasEnded, output.isEmpty { close() } }

  private static func reason(_ status: Int) -> String {
    switch status {
    case 200: "OK"
    case 202: "Accepted"
    case 303: "See Other"
    case 400: "Bad Request"
    case 403: "Forbidden"
    case 404: "Not Found"
    case 405: "Method Not Allowed"
    case 413: "Content Too Large"
    case 415: "Unsupported Media Type"
    case 421: "Misdirected Request"
    case 422: "Unprocessable Content"
    default: "Service Unavailable"
    }
  }
}
