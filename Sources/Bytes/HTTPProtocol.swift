// The protocols on the two sides of an exchange, by their names in TLS negotiation (ALPN, RFC 7301).

public enum HTTPProtocol: String, Sendable, CaseIterable {
  case http2 = "h2"
  case http11 = "http/1.1"

  /// An offer in wire format: each name is preceded by its length.
  public static func offer(_ protocols: [HTTPProtocol]) -> [UInt8] {
    protocols.flatMap { [UInt8($0.rawValue.utf8.count)] + Array($0.rawValue.utf8) }
  }

  /// The version in Via (RFC 9110, 7.6.3), without the name HTTP.
  public func version(minor: Int) -> StaticString { self == .http2 ? "2" : minor == 1 ? "1.1" : "1.0" }
}
