// The server's reports to an exchange: bytes that it has moved, and how long things took.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// Whether the response of the exchange is the proxy's own.
  public var answeredItself: Bool {
    if case .problem = record.outcome { return true }
    return false
  }
  /// Whether the method or the target in the log is only the beginning of it.
  public var isTextCut: Bool { record.isTextCut }
  /// Whether a body is held, and how much it takes of the memory for all held bodies.
  public var holdsBody: Bool { bodies.held != nil || bodies.challenged != nil || hasBodyOnItsWay }
  public var heldBytes: Int {
    (bodies.held?.taken ?? 0) + (bodies.toClient?.taken ?? 0) + (bodies.toUpstream?.taken ?? 0)
      + (bodies.challenged?.heldBytes ?? 0)
  }
  /// Whether its held body is on its way into a file, which gives the memory back.
  public var yieldsHeld: Bool {
    phase == .collecting && bodies.spooled.map { $0.spillsAtOnce || $0.move == .writing } ?? false
  }

  /// The server has moved `count` bytes of this side unchanged, after `.forward` or on its own.
  public mutating func clientForwarded(_ count: Int, now: Int64) {
    noteQuiet(until: now)
    times.lastProgress = now
    record.bytesIn &+= UInt64(count)
    bodies.pacing?.upload?.spent(count, now: now)
    if phase == .exchanging { request.traits.insert(.bodyBegun) }
    if case .length(let remaining) = request.progress, phase == .exchanging {
      let left = remaining - UInt64(count)
      request.progress = left == 0 ? .done : .length(remaining: left)
    }
  }

  public mutating func upstreamForwarded(_ count: Int, now: Int64) {
    noteProgress(now)
    record.bytesOut &+= UInt64(count)
    if case .length(let remaining) = response.progress, phase == .exchanging {
      let left = remaining - UInt64(count)
      response.progress = left == 0 ? .done : .length(remaining: left)
    }
  }

  mutating func noteProgress(_ now: Int64) {
    noteQuiet(until: now)
    times.lastProgress = now
    if times.clientGoneAt != .max { times.clientGoneAt = now + Self.halfClosedMilliseconds }
  }

  /// Waiting bytes have left: the connection is alive, however slow.
  public mutating func progressed(now: Int64) { noteProgress(now) }

  /// A parent is connected, by a route: its next message may be its last.
  public mutating func noteParent(_ address: IPAddress, port: UInt16, route: String) {
    record.route = route
    record.upstream = address
    record.upstreamPort = port
  }

  /// The route that was tried last gave no connection.
  public mutating func noteRefused(route: String) { if record.route == nil { record.route = route } }

  /// The final size of the request with its head, counted as in `record.bytesIn`; nil if unknown.
  public var expectedBytesIn: UInt64? {
    if isTunnel { return nil }
    return switch request.progress {
    case .length(let remaining): record.bytesIn &+ remaining
    case .done: record.bytesIn
    case .head, .chunked, .trailers, .untilClose: nil
    }
  }

  /// Likewise for the response and `record.bytesOut`. A held response may still become another one.
  public var expectedBytesOut: UInt64? {
    if isTunnel || bodies.held != nil { return nil }
    return switch response.progress {
    case .length(let remaining): record.bytesOut &+ remaining
    case .done: record.bytesOut
    case .head, .chunked, .trailers, .untilClose: nil
    }
  }

  /// How long the name look-up, the connecting, and the TLS handshake took, in microseconds.
  public mutating func noteNameTime(_ microseconds: Int64) { record.nameMicroseconds = microseconds }
  public mutating func noteConnectTime(_ microseconds: Int64) {
    record.connectMicroseconds = microseconds
    noteTime(microseconds / 1000, of: .connect)
  }
  public mutating func noteReport(_ kind: Problem.Kind, _ finding: Finding?, isForgiven: Bool) {
    record.report = kind
    record.finding = finding
    record.isForgiven = isForgiven
  }
  public mutating func noteTLSTime(_ microseconds: Int64) {
    record.tlsMicroseconds = microseconds
    noteTime(microseconds / 1000, of: .tlsHandshake)
  }

  /// Whether both directions are done: to be checked after forwarding.
  public mutating func endIfComplete() -> Action? {
    if let inspected = tunnel.inspected, inspected.endsAfterForward { return endOfTunnel(.done) }
    return phase == .exchanging && response.progress == .done ? endOfResponse() : nil
  }
}
