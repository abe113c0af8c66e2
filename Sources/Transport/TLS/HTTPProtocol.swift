// The protocols that TLS connections are opened for (ALPN, RFC 7301).

/// By the names of the registry.
public enum HTTPProtocol: String, Sendable, CaseIterable {
  case http2 = "h2"
  case http11 = "http/1.1"

  /// In the form of the wire: each name behind its length.
  static func offer(_ protocols: [HTTPProtocol]) -> [UInt8] {
    protocols.flatMap { [UInt8($0.rawValue.utf8.count)] + Array($0.rawValue.utf8) }
  }
}
