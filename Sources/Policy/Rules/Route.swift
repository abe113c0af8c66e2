// [routes.NAME]: a route to a destination, direct or through a parent proxy.

import Bytes
import Reachability
import Security

/// One route. Routes with equal settings are equal, wherever they are defined: kept connections belong to one, even
/// after a reload.
public struct Route: Hashable, Sendable {
  /// A proxy that the connection goes through.
  public struct Parent: Hashable, Sendable {
    public enum Kind: String, Sendable, CaseIterable { case http, https, socks5 }

    public let kind: Kind
    /// The name in lower case and A-labels, or the address as text.
    public let host: CanonicalHost
    public let port: UInt16
    /// nil: the parent requires none.
    public let credentials: ParentCredentials?
    /// What an https parent is offered, the preferred one first.
    public let protocols: [HTTPProtocol]

    /// `protocols`: nil: whatever its credentials allow.
    public init(
      kind: Kind, host: CanonicalHost, port: UInt16, credentials: ParentCredentials? = nil,
      protocols: [HTTPProtocol]? = nil
    ) {
      self.kind = kind
      self.host = host
      self.port = port
      self.credentials = credentials
      if let protocols {
        self.protocols = protocols
      } else if case .kerberos = credentials {
        // A ticket is for a connection (RFC 4559, 6), and the streams of one are anybody's.
        self.protocols = [.http11]
      } else {
        self.protocols = HTTPProtocol.allCases
      }
    }

    /// User name and password for the parent; nil: none are sent.
    public var password: RouteCredentials? { if case .password(let given) = credentials { given } else { nil } }

    /// The proxy's Kerberos identity for the parent; nil: no ticket is requested.
    public var kerberos: KerberosClient? { if case .kerberos(let client) = credentials { client } else { nil } }

    /// `proxy.office.example:3128`
    public var authority: String {
      let text = host.bytes.span.string
      return host.address.map { !$0.isIPv4 } == true ? "[\(text)]:\(port)" : "\(text):\(port)"
    }
  }

  public let name: String
  /// nil: directly to the destination.
  public let parent: Parent?
  /// Kinds of link over which the parent, or the destination if there is none, must be reached; empty: any.
  public let links: [ReachabilityStatus]
  /// The interface that packets must use (SO_BINDTODEVICE); nil: as the routing table says.
  public let interface: String?
  /// How long a request waits until the route can be used, in milliseconds; nil: not at all.
  public let waitMilliseconds: Int64?
  /// What the certificate of an https parent is checked against.
  public let security: SecurityPolicy

  public init(
    name: String, parent: Parent? = nil, links: [ReachabilityStatus] = [], interface: String? = nil,
    waitMilliseconds: Int64? = nil, security: SecurityPolicy = .standard
  ) {
    self.name = name
    self.parent = parent
    self.links = links
    self.interface = interface
    self.waitMilliseconds = waitMilliseconds
    self.security = security
  }

  /// `direct`, or the parent as `http://proxy.office.example:3128`; contains no credentials.
  public var via: String { parent.map { "\($0.kind.rawValue)://\($0.authority)" } ?? "direct" }

  /// Whether the parent is sent credentials, which come back if it is the last recipient (Max-Forwards).
  var carriesSecret: Bool { parent?.credentials != nil }

  /// "direct", which rules may list without a table of that name, and which a rule without `route` uses.
  public static let direct = Route(name: "direct")

  public static func == (one: Route, other: Route) -> Bool {
    one.name == other.name && one.parent == other.parent && one.links == other.links
      && one.interface == other.interface && one.waitMilliseconds == other.waitMilliseconds
      && one.security.digest == other.security.digest
  }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(name)
    hasher.combine(parent)
  }
}

/// Credentials for a parent.
public enum ParentCredentials: Hashable, Sendable {
  case password(RouteCredentials)
  /// RFC 4559.
  case kerberos(KerberosClient)

  public var scheme: AuthorizationScheme {
    switch self {
    case .password(let given): given.scheme
    case .kerberos: .negotiate
    }
  }
}

/// How credentials are sent to an HTTP server or parent.
public enum AuthorizationScheme: String, Sendable, CaseIterable {
  /// RFC 7617: sent unprompted.
  case basic
  /// RFC 7616: in response to a challenge.
  case digest
  /// RFC 4559: a Kerberos ticket for the parent, sent unprompted.
  case negotiate
}

/// User name and password for a parent: for an HTTP scheme, or for RFC 1929. Never printed.
public struct RouteCredentials: Hashable, Sendable {
  public let scheme: AuthorizationScheme
  public let username: [UInt8]
  public let password: [UInt8]

  public init(username: [UInt8], password: [UInt8], scheme: AuthorizationScheme = .basic) {
    self.scheme = scheme
    self.username = username
    self.password = password
  }

  /// The answer to challenges; nil: none, because the credentials are sent unprompted.
  public var digest: DigestCredentials? {
    scheme == .digest ? DigestCredentials(username: username, password: password) : nil
  }

  /// `Basic dXNlcjpwYXNz` (RFC 7617, 2). A secret.
  public var basic: [UInt8] { Array("Basic ".utf8) + Base64.encode(username + [0x3a] + password) }
}
