// The protocols of an exchange's two sides, by the names that TLS negotiates them by (ALPN, RFC 7301).

public enum HTTPProtocol: String, Sendable, CaseIterable {
  case http2 = "h2"
  case http11 = "http/1.1"

  /// An offer in the form of the wire: each name behind its length.
  public static func offer(_ protocols: [HTTPProtocol]) -> [UInt8] {
    protocols.flatMap { [UInt8($0.rawValue.utf8.count)] + Array($0.rawValue.utf8) }
  }

  /// As Via names it (RFC 9110, 7.6.3), without the name of HTTP.
  public func version(minor: Int) -> StaticString { self == .http2 ? "2" : minor == 1 ? "1.1" : "1.0" }
}
