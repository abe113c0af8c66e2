// A tunnel of connect = "intercept" within a session: TLS ends at the proxy, and requests inside are treated as any
// others, for the host that the tunnel was opened to.

import Bytes
import HTTP1
import Policy

extension Exchange {
  /// Why the policy in force does not allow an intercepted tunnel that is open; nil: it does.
  public static func problem(
    ofTunnel interior: Interior, openedBy sender: Sender, with credential: ProxyCredential?, _ policy: Policy,
    _ workspace: inout Workspace
  ) -> Problem? {
    if !policy.configuration.proxy.accepts(credential) {
      return Problem(.denied, "The credentials that the tunnel was opened with are not valid any more.")
    }
    _ = workspace.decisions.host.set(interior.host.span)
    let (method, path) = (Array("CONNECT".utf8), [UInt8]())
    let facts = RequestFacts(
      scheme: .https, port: interior.port, method: method.span, path: path.span, isTunnel: true, sender: sender,
      link: workspace.link, wall: workspace.wallMilliseconds)
    let decision = workspace.decide(facts, by: policy).decision
    if decision.verdict != .deny, policy.treatment(of: decision) == .intercept { return nil }
    return Problem(.denied, "The policy has changed, and does not open the tunnel that the request came through.")
  }

  /// An intercepted tunnel.
  public struct Interior: Sendable, Equatable {
    /// The host as CONNECT wrote it.
    public let host: [UInt8]
    public let port: UInt16
    /// Host, and port if it is not 443.
    let authority: [UInt8]
    /// The host as rules see it.
    let canonicalHost: [UInt8]
    /// Whether the rule that allowed the tunnel permits WebSocket.
    public let mayUpgrade: Bool
  }
}
