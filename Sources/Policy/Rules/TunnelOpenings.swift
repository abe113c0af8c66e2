// The checks of a plain tunnel: the port that it may open to, and the first bytes that the client sends into it.
//
// Only the beginning of a tunnel is readable. It contains the server name in the clear, and reveals an unencrypted
// request. Tests: TunnelOpeningsTests.

import Bytes

/// `tunnel_sni`: the requirement for the server name in the client's ClientHello.
public enum TunnelSNI: String, Sendable, CaseIterable {
  /// It must be the host of the CONNECT.
  case match
  /// Nothing.
  case any
}

/// What the first bytes in a tunnel are checked against.
public struct TunnelOpening: Equatable, Sendable {
  public let sni: TunnelSNI
  /// The first bytes must be a ClientHello: the port is that of https.
  public let requiresHello: Bool
  /// A request in the clear ends the tunnel: some rule has settings for requests to the host.
  public var refusesRequests: Bool

  public init(sni: TunnelSNI, requiresHello: Bool, refusesRequests: Bool) {
    self.sni = sni
    self.requiresHello = requiresHello
    self.refusesRequests = refusesRequests
  }

  /// Whether the tunnel needs no check.
  public var isFree: Bool { sni == .any && !refusesRequests }
}

extension Policy {
  /// What the first bytes are checked against in a tunnel of `decision`, to the host in `workspace`, that is neither
  /// verified nor intercepted.
  public func opening(of decision: Decision, port: UInt16, in workspace: inout DecisionWorkspace) -> TunnelOpening {
    let sni = tunnelSNI(of: decision)
    return TunnelOpening(
      sni: sni, requiresHello: sni == .match && port == Scheme.https.defaultPort,
      refusesRequests: speaksOfRequestsToHost(in: &workspace))
  }

  /// As the rule says; otherwise "match" if the policy allows only what it lists, or if an operator was asked about the
  /// host.
  func tunnelSNI(of decision: Decision) -> TunnelSNI {
    let rule = decision.rule.map { rules[$0] }
    return rule?.tunnelSNI
      ?? (configuration.proxy.defaultAction == .deny || rule?.action == .ask ? .match : .any)
  }

  /// Whether the rule allows a tunnel to `port`. If the policy allows only what it lists, the port must be listed too:
  /// except for the https port, there may be anything on it, a mail server or a database.
  func allowsTunnel(_ rule: Rule, to port: UInt16) -> Bool {
    configuration.proxy.defaultAction == .allow || port == Scheme.https.defaultPort
      || rule.conditions.values(of: PortCondition.self).contains(port)
  }
}

extension Rule {
  /// Whether it has settings for requests that cannot be applied to a tunnel: the requests must be read for them.
  var speaksOfRequests: Bool {
    if conditions.areAboutRequests || conditions.values(of: SchemeCondition.self) == [.http] { return true }
    if action == .deny && enforce { return false }
    return upgrade || upgrades != nil || redirects != .pass || target != nil || request.speaksOfRequests
      || response != nil
  }
}

extension RequestPolicy {
  /// Whether it changes or holds back requests. Time-outs, packet marks, pace and cellular access apply to tunnels too.
  var speaksOfRequests: Bool {
    !cookies || !fields.isEmpty || digest != nil || serialization != nil || buffersUploads
      || cachePolicy != .useProtocol
  }
}
