// The protocols on the two sides of an exchange, by their names in TLS negotiation (ALPN, RFC 7301), and what is true
// of each. A protocol that is added answers here, and the compiler asks for each answer. Elsewhere only HTTP/1.1 is
// named, which needs no agreement.

public enum HTTPProtocol: String, Sendable, CaseIterable {
  // The preferred one first.
  case http2 = "h2"
  case http11 = "http/1.1"

  /// As people call it.
  public var name: StaticString {
    switch self {
    case .http2: "HTTP/2"
    case .http11: "HTTP/1.1"
    }
  }

  /// Whether a connection carries many exchanges at once, each on a stream of its own that ends with it. Credentials
  /// of a connection and Upgrade (RFC 9110, 7.8) have no place there; WebSockets are opened by CONNECT (RFC 8441).
  public var isMultiplexed: Bool {
    switch self {
    case .http2: true
    case .http11: false
    }
  }

  /// The version in Via (RFC 9110, 7.6.3), without the name HTTP. `minor`: of the message, where the protocol has one.
  public func version(minor: Int) -> StaticString {
    switch self {
    case .http2: "2"
    case .http11: minor == 1 ? "1.1" : "1.0"
    }
  }

  /// What a server is offered where no list is given, as TOML.
  public static let standardList = "[" + allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ") + "]"

  /// An offer in wire format: each name is preceded by its length.
  public static func offer(_ protocols: [HTTPProtocol]) -> [UInt8] {
    protocols.flatMap { [UInt8($0.rawValue.utf8.count)] + Array($0.rawValue.utf8) }
  }
}

extension [HTTPProtocol] {
  /// Whether one of them would carry many exchanges on one connection.
  public var includeMultiplexed: Bool { contains { $0.isMultiplexed } }

  /// Those whose connections carry one exchange at a time.
  public var withoutMultiplexed: [HTTPProtocol] { filter { !$0.isMultiplexed } }
}
