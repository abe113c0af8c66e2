// Questions of the admin side to the loops, and their answers. A question is a message like any other. A loop answers
// it in its turn, from state that only it may touch, and only the one who asked waits.

import Bytes
import Policy
import Session
import Transport

/// A question to every loop.
enum Question: Sendable {
  case statistics
  case connections
  case decision(Reference)
  /// The newest that have ended. `areRefused`: only those that were refused, or only the others; nil: all.
  case decisions(limit: Int, areRefused: Bool?)
  /// The loop posts the progress of its exchanges.
  case progress
  /// The loop ends the selected exchanges.
  case cancel(CancelSelection)
  /// The loop drops what it keeps for later requests.
  case flush
  /// The loop ends what the policy in force denies; the answer comes once it has checked everything.
  case closeDenied
}

/// The answer of one loop.
enum Answer: Sendable {
  case statistics(Statistics)
  case connections([OpenConnection])
  case decision(RecentDecision?)
  case decisions([RecentDecision])
  case progress
  /// The number of exchanges and tunnels that were ended.
  case cancelled(Int)
  case flushed(FlushedThings)

  /// How many exchanges and tunnels the loops have ended.
  static func cancelledCount(_ answers: [Answer]) -> Int {
    answers.reduce(0) { sum, answer in if case .cancelled(let count) = answer { sum + count } else { sum } }
  }
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
  /// Method and target; empty without a request.
  let text: String
  let reference: Reference?
  let rule: String?
  let upstream: SocketAddress?
  /// The user who asks; nil if no rule had to know, or it is unknown.
  let user: LocalClient?
  let program: String?
  /// The destination; nil if none is named.
  let destination: NamedOrigin?
  let wire: HTTPProtocol
  /// nil: nothing has been sent to an upstream.
  var upstreamWire: HTTPProtocol? = nil
  let decision: Decision?
  let bytesIn: UInt64
  let bytesOut: UInt64
  /// Since the current request began, in milliseconds; nil if there is none.
  let ageMilliseconds: Int64?
}

/// Host and port of a target: `https://a.example/path`, `a.example:443`.
struct NamedOrigin: Equatable, Sendable {
  let host: String
  let port: UInt16

  /// nil: the target names none, such as `*`.
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

extension Statistics.Gauges {
  /// What is open at the moment.
  init(_ occupants: [Occupant]) {
    self.init()
    for occupant in occupants {
      switch occupant {
      case .client(let conversation):
        if conversation.isStream { streams += 1 } else { clients += 1 }
        if conversation.session.exchange.isInTunnel { tunnels += 1 }
      case .upstream(let upstream):
        if upstream.isStream { continue }
        if upstream.owner == nil { idleUpstreams += 1 } else { busyUpstreams += 1 }
      case .multiplexed(let connection) where connection.isClient: clients += 1
      case .multiplexed(let connection): if connection.isUnused { idleUpstreams += 1 } else { busyUpstreams += 1 }
      case .fetch: busyUpstreams += 1
      case .free, .listener, .mailbox, .connector, .attempt, .probe, .acceptPause: break
      }
    }
  }
}

extension OpenConnection {
  /// The most connections that one loop reports: a page that a person can still read, and that takes little time to
  /// make.
  private static let mostShown = 1000

  static func list(_ occupants: [Occupant], now: Int64) -> [OpenConnection] {
    var open: [OpenConnection] = []
    for occupant in occupants {
      if open.count == mostShown { break }
      switch occupant {
      case .client(let conversation) where !conversation.hasNoClient:
        open.append(OpenConnection(conversation, now: now))
      // Its streams are shown one by one, as long as it has any.
      case .multiplexed(let connection) where connection.openStreams == 0:
        if case .client(let client) = connection.peer { open.append(client.summary(on: connection.wire)) }
      default: break
      }
    }
    return open
  }
}

extension MultiplexedClient {
  /// Between requests.
  func summary(on wire: HTTPProtocol) -> OpenConnection {
    OpenConnection(
      client: accepted.peer, state: .idle, text: "", reference: nil, rule: nil, upstream: nil, user: nil, program: nil,
      destination: nil, wire: wire, decision: nil, bytesIn: 0, bytesOut: 0, ageMilliseconds: nil)
  }
}

extension OpenConnection {
  init(_ conversation: Conversation, now: Int64) {
    let record = conversation.session.exchange.record
    let isOpen = conversation.session.isInExchange
    let isTunnel = conversation.session.exchange.isInTunnel
    var text = ""
    var target = ""
    if isOpen {
      target = conversation.outputs.text.string(record.text.target)
      let method = conversation.outputs.text.string(record.text.method)
      text = record.text.target.isEmpty ? method : "\(method) \(target)"
    }
    self.init(
      client: conversation.peer, state: isTunnel ? .tunnel : isOpen ? .request : .idle, text: text,
      reference: isOpen ? record.reference : nil, rule: isOpen ? conversation.session.exchange.ruleName : nil,
      upstream: record.way.upstream.map { SocketAddress($0, port: record.way.upstreamPort) },
      user: isOpen ? record.sender.client : nil, program: isOpen ? record.sender.program : nil,
      destination: NamedOrigin(target), wire: record.sender.wire, upstreamWire: record.way.upstreamWire,
      decision: isOpen ? record.ruled.decision : nil, bytesIn: record.traffic.bytesIn,
      bytesOut: record.traffic.bytesOut,
      ageMilliseconds: isOpen ? now - record.times.begun : nil)
  }
}
