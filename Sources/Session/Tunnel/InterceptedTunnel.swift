// A tunnel of connect = "intercept" within a session: TLS ends at the proxy, and requests inside are treated as any
// others, for the host that the tunnel was opened to.

import Bytes
import HTTP1
import Policy

extension Exchange {
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

  /// Starts a tunnel that the proxy will read.
  mutating func intercept(_ bytes: Span<UInt8>, _ workspace: borrowing Workspace) -> Action {
    let host = bytes.extracting(workspace.request.host).array
    interior = Interior(
      host: host, port: port, authority: port == Scheme.https.defaultPort ? host : host + Array(":\(port)".utf8),
      canonicalHost: workspace.decisions.host.copiedBytes,
      mayUpgrade: rule?.upgrades?.protocols.isEmpty != true)
    return .intercept
  }

  /// A request inside a tunnel is for the host that the tunnel was opened to, whatever it says (RFC 9110, 7.4).
  /// Credentials for the proxy came with CONNECT.
  mutating func judgeInterior(_ bytes: Span<UInt8>, _ workspace: inout Workspace) -> Problem? {
    guard let interior else { return nil }
    let isSameHost = setHost(bytes, &workspace) == nil && workspace.decisions.host.bytes == interior.canonicalHost
    let isSamePort = workspace.request.port == nil || workspace.request.port == interior.port
    let isSameScheme = workspace.request.form != .absolute || workspace.request.isHTTPS
    guard isSameHost, isSamePort, isSameScheme else {
      terms.remove(.persists)
      let expected = "https://" + interior.authority.span.string
      return Problem(
        .misdirected,
        "The request names \(isSameScheme ? "" : "http://")\(bytes.extracting(workspace.request.authority).string), "
          + "and its tunnel was opened for \(expected)."
      )
    }
    port = interior.port
    return Self.loopProblem(workspace, bytes)
  }
}
