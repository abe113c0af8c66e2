// A tunnel of connect = "intercept" within a session: TLS ends at the proxy, and requests inside are treated as any
// others, for the host that the tunnel was opened to.

import Bytes
import HTTP1
import Policy

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

  init(host: [UInt8], port: UInt16, canonicalHost: [UInt8], mayUpgrade: Bool) {
    self.host = host
    self.port = port
    authority = port == Scheme.https.defaultPort ? host : host + Array(":\(port)".utf8)
    self.canonicalHost = canonicalHost
    self.mayUpgrade = mayUpgrade
  }

  /// Why the policy in force does not allow the tunnel, which is open; nil: it does.
  public func problem(
    openedBy sender: Sender, with credential: ProxyCredential?, _ policy: Policy, in workspace: inout Workspace
  ) -> Problem? {
    if !policy.configuration.proxy.accepts(credential) {
      return Problem(.denied, "The credentials that the tunnel was opened with are not valid any more.")
    }
    _ = workspace.decisions.host.set(host.span)
    let (method, path) = (Array("CONNECT".utf8), [UInt8]())
    let facts = RequestFacts(
      scheme: .https, port: port, method: method.span, path: path.span, isTunnel: true, sender: sender,
      link: workspace.link, wall: workspace.wallMilliseconds)
    let decision = workspace.decide(facts, by: policy).decision
    if decision.verdict != .deny, policy.treatment(of: decision) == .intercept { return nil }
    return Problem(.denied, "The policy has changed, and does not open the tunnel that the request came through.")
  }

  /// Sets the host of a request, for deciding and connecting. A request without a host means the tunnel's.
  func setHost(_ named: Span<UInt8>, in workspace: inout Workspace) -> HostFault? {
    workspace.decisions.host.set(named.isEmpty ? host.span : named)
  }

  /// A request inside is for the host that the tunnel was opened to, whatever it says (RFC 9110, 7.4). Its head is in
  /// `workspace`.
  func misdirection(_ bytes: Span<UInt8>, in workspace: inout Workspace) -> Problem? {
    let named = bytes.extracting(workspace.request.host)
    let isSameHost = setHost(named, in: &workspace) == nil && workspace.decisions.host.bytes == canonicalHost
    // Without a port, Host means the tunnel's, and the target in absolute-form the scheme's.
    let isAbsolute = workspace.request.form == .absolute
    let isSamePort = (workspace.request.port ?? (isAbsolute ? Scheme.https.defaultPort : port)) == port
    let isSameScheme = !isAbsolute || workspace.request.isHTTPS
    if isSameHost, isSamePort, isSameScheme { return nil }
    let scheme = isAbsolute ? workspace.request.isHTTPS ? "https://" : "http://" : ""
    return Problem(
      .misdirected,
      "The request names \(scheme)\(bytes.extracting(workspace.request.authority).string), "
        + "and its tunnel was opened for https://\(authority.span.string).")
  }
}
