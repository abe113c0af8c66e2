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
}
