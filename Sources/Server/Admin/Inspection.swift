// What the admin side asks of the loops, and what they answer. A question is a message like any other: a loop answers it
// in its turn, from what it alone may touch, and nobody waits for it but who asked.

import Bytes
import Policy
import Session
import Transport

/// A question to every loop.
enum Question: Sendable {
  case statistics
  case connections
  case decision(Reference)
  /// The newest that have ended. `areRefused`: only those that were refused, or only the others.
  case decisions(limit: Int, areRefused: Bool?)
  /// Has the loop post how far its exchanges are.
  case progress
  /// Has it end those that are meant.
  case cancel(CancelSelection)
  /// Has it drop what it keeps for later requests.
  case flush
}

/// What one loop has to say.
enum Answer: Sendable {
  case statistics(Statistics)
  case connections([OpenConnection])
  case decision(RecentDecision?)
  case decisions([RecentDecision])
  case progress
  /// How many exchanges and tunnels were ended.
  case cancelled(Int)
  case flushed(FlushedThings)
}

/// One client's connection, as GET /v1/connections shows it.
struct OpenConnection: Sendable {
  enum State: String, Sendable {
    case idle
    case request
    case tunnel
  }

  let client: SocketAddress
  let state: State
  /// Method and target; empty where no request is under way.
  let text: String
  let reference: Reference?
  let rule: String?
  let upstream: SocketAddress?
  /// Who asks; nil where nobody had to know, or could.
  let user: LocalClient?
  let program: String?
  /// The destination; nil where none is named.
  let destination: NamedOrigin?
  let wire: HTTPProtocol
  let decision: Decision?
  let bytesIn: UInt64
  let bytesOut: UInt64
  /// Since the request under way began, in milliseconds; nil where none is.
  let ageMilliseconds: Int64?
}

/// Host and port of a target: `https://a.example/path`, `a.example:443`.
struct NamedOrigin: Equatable, Sendable {
  let host: String
  let port: UInt16

  /// nil: it names none, such as `*`.
  init?(_ target: String) {
    var rest = target[...]
    var port: UInt16? = nil
    if let colon = target.firstRange(of: "://") {
      port = target[..<colon.lowerBound] == "https" ? 443 : 80
      rest = target[colon.upperBound...].prefix { $0 != "/" && $0 != "?" }
    }
    if let colon = rest.lastIndex(of: ":"), rest[colon...].utf8.dropFirst().allSatisfy({ (0x30...0x39).contains($0) }) {
      port = UInt16(rest[rest.index(after: colon)...]) ?? port
      rest = rest[..<colon]
    }
    guard let port, !rest.isEmpty else { return nil }
    self.host = String(rest)
    self.port = port
  }
}

extension Worker {
  /// Most connections that one loop tells of: a page that somebody can still read, and little time to make.
  static let mostConnectionsShown = 1000

  func answer(_ question: Question) -> Answer {
    switch question {
    case .statistics: .statistics(statisticsNow())
    case .connections: .connections(openConnections())
    case .decision(let reference): .decision(recent.find(reference))
    case .decisions(let limit, let areRefused): .decisions(recent.newest(limit, areRefused: areRefused))
    case .progress: tellProgress()
    case .cancel(let selection): .cancelled(cancel(selection))
    case .flush: .flushed(flush())
    }
  }

  private func statisticsNow() -> Statistics {
    var copy = statistics.inOwnStorage
    var gauges = Statistics.Gauges()
    for occupant in occupants {
      switch occupant {
      case .client(let conversation):
        if conversation.isStream { gauges.streams += 1 } else { gauges.clients += 1 }
        if conversation.session.exchange.isInTunnel { gauges.tunnels += 1 }
      case .upstream(let upstream):
        if upstream.stream.carried != nil { continue }
        if upstream.owner == nil { gauges.idleUpstreams += 1 } else { gauges.busyUpstreams += 1 }
      case .http2(let endpoint) where endpoint.isClient: gauges.clients += 1
      case .http2(let endpoint):
        if endpoint.connection.openStreams == 0 { gauges.idleUpstreams += 1 } else { gauges.busyUpstreams += 1 }
      case .fetch: gauges.busyUpstreams += 1
      case .free, .listener, .mailbox, .connector, .attempt, .probe, .acceptPause: break
      }
    }
    copy.gauges = gauges
    return copy
  }

  private func openConnections() -> [OpenConnection] {
    var open: [OpenConnection] = []
    for case .client(let conversation) in occupants where !conversation.hasNoClient {
      if open.count == Self.mostConnectionsShown { break }
      open.append(conversation.summary(now))
    }
    return open
  }
}

extension Conversation {
  func summary(_ now: Int64) -> OpenConnection {
    let record = session.exchange.record
    let isOpen = session.isInExchange
    return OpenConnection(
      client: peer, state: session.exchange.isInTunnel ? .tunnel : isOpen ? .request : .idle,
      text: isOpen ? summaryText(record) : "", reference: isOpen ? record.reference : nil,
      rule: isOpen ? session.exchange.ruleName : nil,
      upstream: record.upstream.map { SocketAddress($0, port: record.upstreamPort) },
      user: isOpen ? record.client : nil, program: isOpen ? record.program : nil,
      destination: isOpen ? NamedOrigin(outputs.text.string(record.target)) : nil, wire: record.wire,
      decision: isOpen ? record.decision : nil, bytesIn: record.bytesIn,
      bytesOut: record.bytesOut, ageMilliseconds: isOpen ? now - record.begun : nil)
  }

  private func summaryText(_ record: ExchangeRecord) -> String {
    let method = outputs.text.string(record.method)
    return record.target.isEmpty ? method : "\(method) \(outputs.text.string(record.target))"
  }
}
