// How long things may take: [proxy.timeouts] in general, [rule.timeouts] for exchanges of one rule.
//
// A rule's time-outs are complete: missing ones are copied from [proxy.timeouts], so one look-up is enough.
// Tests: TimeoutTests.

/// A time-out by its key.
public enum Timeout: String, Sendable, CaseIterable {
  /// From the first byte of a request to the end of its head.
  case clientHeader = "client_header"
  /// Between two requests of a connection.
  case clientIdle = "client_idle"
  /// Until an upstream accepts a connection.
  case connect
  /// For one TLS handshake.
  case tlsHandshake = "tls_handshake"
  /// From the end of a request to the head of its response.
  case responseHeader = "response_header"
  /// Without a byte in either direction within a body.
  case bodyStall = "body_stall"
  /// How long an unused upstream connection is kept.
  case upstreamIdle = "upstream_idle"
  /// Without a byte in either direction within a tunnel.
  case tunnelIdle = "tunnel_idle"
  /// For exchanges under way when the daemon stops.
  case drain

  /// The time-outs that a rule can set. The others run before any rule has decided, or for all exchanges at once.
  public static let ofRule = allCases.filter { ![.clientHeader, .clientIdle, .drain].contains($0) }
  /// A rule's time-outs that have no effect on a tunnel, where requests and responses are invisible.
  static let ofRequests: [Timeout] = [.responseHeader, .bodyStall, .upstreamIdle]
}

/// [proxy.timeouts], in milliseconds.
public struct Timeouts: Hashable, Sendable {
  public var clientHeaderMilliseconds: Int64 = 10_000
  public var clientIdleMilliseconds: Int64 = 300_000
  public var connectMilliseconds: Int64 = 10_000
  public var tlsHandshakeMilliseconds: Int64 = 10_000
  public var responseHeaderMilliseconds: Int64 = 60_000
  public var bodyStallMilliseconds: Int64 = 60_000
  public var upstreamIdleMilliseconds: Int64 = 60_000
  public var tunnelIdleMilliseconds: Int64 = 3_600_000
  public var drainMilliseconds: Int64 = 30_000

  public init() {}

  /// In milliseconds.
  public subscript(_ timeout: Timeout) -> Int64 {
    get {
      switch timeout {
      case .clientHeader: clientHeaderMilliseconds
      case .clientIdle: clientIdleMilliseconds
      case .connect: connectMilliseconds
      case .tlsHandshake: tlsHandshakeMilliseconds
      case .responseHeader: responseHeaderMilliseconds
      case .bodyStall: bodyStallMilliseconds
      case .upstreamIdle: upstreamIdleMilliseconds
      case .tunnelIdle: tunnelIdleMilliseconds
      case .drain: drainMilliseconds
      }
    }
    set {
      switch timeout {
      case .clientHeader: clientHeaderMilliseconds = newValue
      case .clientIdle: clientIdleMilliseconds = newValue
      case .connect: connectMilliseconds = newValue
      case .tlsHandshake: tlsHandshakeMilliseconds = newValue
      case .responseHeader: responseHeaderMilliseconds = newValue
      case .bodyStall: bodyStallMilliseconds = newValue
      case .upstreamIdle: upstreamIdleMilliseconds = newValue
      case .tunnelIdle: tunnelIdleMilliseconds = newValue
      case .drain: drainMilliseconds = newValue
      }
    }
  }
}

/// [rule.timeouts].
public struct RuleTimeouts: Hashable, Sendable {
  /// The effective values for the rule.
  public let values: Timeouts
  /// The time-outs that the rule itself sets, in the order of the keys.
  public let own: [Timeout]
  /// The effective values if the rule is not enforced: nothing ends sooner than it would without the rule.
  let lenient: Timeouts

  init(values: Timeouts, own: [Timeout], inherited: Timeouts) {
    self.values = values
    self.own = own
    var lenient = values
    for timeout in own { lenient[timeout] = max(values[timeout], inherited[timeout]) }
    self.lenient = lenient
  }

  /// `response_header 10m, tunnel_idle 2h`.
  var text: String {
    own.map { "\($0.rawValue) \(Quantity.duration.text(values[$0]))" }.joined(separator: ", ")
  }

  var json: JSONText { .object(own.map { ("\($0.rawValue)_ms", .number(Int(values[$0]))) }) }
}

// MARK: Reading

/// [rule.timeouts] as read from the file.
struct TimeoutDraft {
  var values: [Timeout: Int64] = [:]
  /// The position of each key.
  var settings: [Timeout: Setting] = [:]

  func timeouts(inheriting inherited: Timeouts) -> RuleTimeouts {
    var values = inherited
    for (timeout, milliseconds) in self.values { values[timeout] = milliseconds }
    return RuleTimeouts(
      values: values, own: Timeout.ofRule.filter { self.values[$0] != nil }, inherited: inherited)
  }
}

extension Timeouts {
  mutating func read(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in table.settings {
      guard let timeout = Timeout(rawValue: setting.key) else {
        reading.unread(setting, of: .timeouts)
        continue
      }
      if let value = reading.quantity(setting, .duration, in: Bounds.duration) { self[timeout] = value }
    }
  }

}

extension TimeoutDraft {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> TimeoutDraft {
    var draft = TimeoutDraft()
    for setting in table.settings {
      guard let timeout = Timeout(rawValue: setting.key) else {
        reading.unread(setting, of: .ruleTimeouts)
        continue
      }
      guard Timeout.ofRule.contains(timeout) else {
        let reason = timeout == .drain ? "it is for the whole proxy" : "it runs before a rule has decided"
        reading.report(
          .error, setting.source, position: setting.keyBegin,
          message: "'\(setting.key)' in [rule.timeouts]: \(reason), and stands in [proxy.timeouts] alone")
        continue
      }
      draft.settings[timeout] = setting
      if let value = reading.quantity(setting, .duration, in: Bounds.duration) { draft.values[timeout] = value }
    }
    return draft
  }
}
