// What a plain tunnel is held to: the port that it may be opened to, and the first bytes that the client sends into it.
//
// Nothing of a tunnel can be read but its beginning. There the name of the server stands in the clear, and a request that
// is not encrypted shows itself. Tests: TunnelOpeningsTests.

import Bytes

/// `tunnel_sni`: what is asked of the server name in the client's ClientHello.
public enum TunnelSNI: String, Sendable, CaseIterable {
  /// It is the host of the CONNECT.
  case match
  /// Nothing.
  case any
}

/// What the first bytes in a tunnel are held to.
public struct TunnelOpening: Equatable, Sendable {
  public let sni: TunnelSNI
  /// The first bytes must be a ClientHello: the port is that of https.
  public let requiresHello: Bool
  /// A request in the clear ends the tunnel: some rule speaks of requests to the host.
  public let refusesRequests: Bool

  public init(sni: TunnelSNI, requiresHello: Bool, refusesRequests: Bool) {
    self.sni = sni
    self.requiresHello = requiresHello
    self.refusesRequests = refusesRequests
  }

  /// Whether the tunnel need not be looked at.
  public var isFree: Bool { sni == .any && !refusesRequests }
}

extension Policy {
  /// What the first bytes are held to in a tunnel of `decision`, to the host in `workspace`, that is neither verified nor
  /// intercepted.
  public func opening(of decision: Decision, port: UInt16, _ workspace: inout DecisionWorkspace) -> TunnelOpening {
    let sni = tunnelSNI(of: decision)
    return TunnelOpening(
      sni: sni, requiresHello: sni == .match && port == Scheme.https.defaultPort,
      refusesRequests: speaksOfRequestsToHost(&workspace))
  }

  /// What the rule says, else "match" in a policy that lets out only what it lists, and where an operator was asked about
  /// the host.
  func tunnelSNI(of decision: Decision) -> TunnelSNI {
    let rule = decision.rule.map { rules[$0] }
    return rule?.tunnelSNI
      ?? (configuration.proxy.defaultAction == .deny || rule?.action == .ask ? .match : .any)
  }

  /// Whether a tunnel to `port` is one that the rule allows. Where only what is listed goes out, a port is listed too:
  /// behind another than that of https there may be anything, a mail server or a database.
  func allowsTunnel(_ rule: Rule, to port: UInt16) -> Bool {
    configuration.proxy.defaultAction == .allow || port == Scheme.https.defaultPort
      || rule.conditions.ports.contains(port)
  }
}

extension Rule {
  /// Whether it says something of requests that no tunnel is held to: the requests must be read for it.
  var speaksOfRequests: Bool {
    if conditions.areAboutRequests || conditions.schemes == [.http] { return true }
    if action == .deny && enforce { return false }
    return upgrade || upgrades != nil || redirects != .pass || target != nil || request.speaksOfRequests
      || response != nil
  }
}

extension RequestPolicy {
  /// Whether it changes or holds back requests that are read. A time-out, the mark of the bytes, their pace and cellular access
  /// hold for tunnels too.
  var speaksOfRequests: Bool { !cookies || !fields.isEmpty || digest != nil || serialization != nil || buffersUploads }
}
