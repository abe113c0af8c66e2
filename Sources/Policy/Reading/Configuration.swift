// The tables of the configuration as values. Names and defaults are those of sallyport.toml. Durations are in
// milliseconds, sizes in bytes; the unit is last in each name.

import Bytes
import Reachability
import Security

/// A place in a configuration file. Lines and columns count from 1; columns are characters.
public struct SourceLocation: Hashable, Sendable, CustomStringConvertible {
  public let file: String
  public let line: Int
  public let column: Int

  public init(file: String, line: Int, column: Int) {
    self.file = file
    self.line = line
    self.column = column
  }

  public var description: String { "\(file):\(line)" }
}

/// An address and port to listen on.
public struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
  public let address: IPAddress
  public let port: UInt16

  public init(address: IPAddress, port: UInt16) {
    self.address = address
    self.port = port
  }

  public var description: String { address.isIPv4 ? "\(address):\(port)" : "[\(address)]:\(port)" }

  /// Whether only one of two sockets can listen there. An IPv6 socket of the proxy takes no IPv4 connections.
  func collides(with other: Self) -> Bool {
    port == other.port && port != 0 && address.isIPv4 == other.address.isIPv4
      && (address == other.address || address.isUnspecified || other.address.isUnspecified)
  }
}

/// `user:password`, as Proxy-Authorization carries it (RFC 7617). Never printed.
public struct ProxyCredential: Hashable, Sendable {
  /// UTF-8 of `user:password`.
  public let userAndPassword: [UInt8]
  /// The part before the first colon (RFC 7617, 2).
  public let user: String

  /// Stands for those of a file that this user may not read. Not for requests.
  public static let withheld = ProxyCredential(userAndPassword: Array("withheld:withheld".utf8))

  public init(userAndPassword: [UInt8]) {
    self.userAndPassword = userAndPassword
    user = String(decoding: userAndPassword.prefix { $0 != 0x3a }, as: UTF8.self)
  }
}

/// [proxy]
public struct ProxySettings: Hashable, Sendable {
  public enum DefaultAction: String, Sendable, CaseIterable { case allow, deny }

  public var listen: [ListenAddress] = [
    ListenAddress(address: IPAddress(ipv4: 0x7f00_0001), port: 3128),
    ListenAddress(address: IPAddress(ipv6High: 0, low: 1), port: 3128),
  ]
  /// Whether a client that has shown this, name and password, may use the proxy.
  public func accepts(_ credential: ProxyCredential?) -> Bool {
    credentials.isEmpty || credential.map(credentials.contains) ?? false
  }

  /// nil is "auto": one event loop per core.
  public var workers: Int? = nil
  public var name = "sallyport"
  public var defaultAction = DefaultAction.allow
  /// Whom a refused client may ask; nil: no contact is given.
  public var contact: String? = nil
  /// Directory of state that outlives the daemon: temporary rules; nil: none does.
  public var state: String? = nil
  public var allowRemote = false
  /// Empty: no authentication is required.
  public var credentials: [ProxyCredential] = []
  public var denyAddresses: AddressSet

  public init() {
    denyAddresses = AddressSet()
    for name in Self.deniedByDefault { _ = denyAddresses.insert(name) }
  }

  static let deniedByDefault = ["link-local", "multicast", "unspecified"]
}

/// [proxy.limits]
public struct Limits: Hashable, Sendable {
  public var connections = 10_000
  public var headerBytes = 64 << 10
  public var headers = 128
  /// The largest body that is held to be checked or rewritten.
  public var bufferedBodyBytes = 1 << 20
  public var idlePerHost = 64
  /// For all held bodies together, in the whole process.
  public var heldBodiesBytes = 64 << 20
  /// How deep arrays and objects of a JSON body may nest.
  public var jsonDepth = 512
  /// Width times height of an image.
  public var imagePixels = 100_000_000
  /// Connections to one host, in the whole process; beyond it requests queue. 0: unlimited.
  public var connectionsPerHost = 0
  /// Requests that one HTTP/2 connection may have open at once.
  public var streams = 128
  /// Of these, how many a client may reset within ten seconds before they are answered.
  public var streamResets = 200
  /// The part of each limit that one client identity may have while others wait.
  public var share = 0.25

  public init() {}
}

/// [dns]
public struct NameServices: Hashable, Sendable {
  /// Name servers with their ports; empty: the system's resolv.conf.
  public var servers: [ListenAddress] = []
  public var timeoutMilliseconds: Int64 = 5_000
  public var cacheMilliseconds: Int64 = 60_000

  public init() {}
}

/// [trust]: whose signature makes a certificate trusted if a rule does not say.
public enum TrustSource: Hashable, Sendable {
  /// The system's anchors. They are not read here: loading them takes 18 ms, and the program does it once.
  case system
  case anchors(TrustAnchors)

  /// What the chains to these are checked against by default.
  public var profile: TrustProfile {
    switch self {
    case .system: .public
    case .anchors(let anchors): anchors.profile
    }
  }

  /// Anchors besides the system's, in PEM.
  public var pem: [UInt8] {
    switch self {
    case .system: []
    case .anchors(let anchors): anchors.pem
    }
  }
}

/// [authority]: the local authority of connect = "intercept". The program loads it.
public struct AuthoritySettings: Hashable, Sendable {
  /// Where `ca init` writes and `run` reads: authority.pem, and authority.key unless `key` is set.
  public var directory = "/var/lib/sallyport/authority"
  /// The authority's private key, as given. Never printed.
  public var key: [UInt8]? = nil
  /// `key` is a placeholder for one that this user may not read.
  public var isKeyWithheld = false

  public init() {}
}

/// [reachability]
public struct ReachabilitySettings: Hashable, Sendable {
  /// Kinds of link by interface name: "wwan", "wifi" or "wired". They take precedence over what the kernel reports.
  public var interfaces: [String: ReachabilityStatus] = [:]

  public init() {}
}

/// [log]
public struct LogSettings: Hashable, Sendable {
  public enum Format: String, Sendable, CaseIterable { case auto, text, json, journal }
  public enum Level: String, Sendable, CaseIterable { case error, warning, info, debug }

  public var format = Format.auto
  public var level = Level.info
  public var access = true
  /// Whether the log names the user, unit and program of each client even if no rule needs them.
  public var who = true

  public init() {}
}

/// [admin]
public struct AdminSettings: Hashable, Sendable {
  /// The file system socket on which the admin API listens.
  public var socket = Self.standardSocket

  /// TCP address that serves only /metrics; nil: none.
  public var metrics: ListenAddress? = nil
  /// Address of the dashboard for browsers, on the loopback interface; nil: none.
  public var web: ListenAddress? = nil
  /// User ids that may change the daemon, besides root and the user that it runs as.
  public var operators: [UInt32] = []

  public static let standardSocket = "/run/sallyport/admin.sock"

  /// Whether the files set their own path. The default one is skipped if its directory does not exist, as on a machine
  /// without the service.
  public var isGiven: Bool { socket != Self.standardSocket }

  public init() {}
}

/// [history]: the file of past decisions.
public struct HistorySettings: Hashable, Sendable {
  public var file = "/var/lib/sallyport/history.db"
  /// How long an exchange stays in it.
  public var keepMilliseconds: Int64 = 30 * 86_400_000
  /// The most disk space it uses, with SQLite's additional files.
  public var sizeBytes: Int64 = 512 << 20

  public init() {}
}

/// Everything in the files except the rules.
public struct Configuration: Hashable, Sendable {
  public var proxy = ProxySettings()
  public var limits = Limits()
  public var timeouts = Timeouts()
  public var dns = NameServices()
  public var trust = TrustSource.system
  /// What the chains to these are checked against, if [trust] says so; nil: the default of the anchors.
  public var trustProfile: TrustProfile? = nil
  public var authority = AuthoritySettings()
  public var reachability = ReachabilitySettings()
  public var log = LogSettings()
  public var admin = AdminSettings()
  /// [cache]; nil: nothing is stored.
  public var cache: CacheStorage? = nil
  /// [history]; nil: there is none.
  public var history: HistorySettings? = nil

  public init() {}
}
