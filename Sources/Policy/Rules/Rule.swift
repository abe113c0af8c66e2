// A [[rule]] of the configuration, compiled for matching.

import Bytes
import Reachability
import Security
import Serialization

public enum Scheme: String, Sendable, CaseIterable {
  case http, https

  public var defaultPort: UInt16 { self == .http ? 80 : 443 }
}

/// What a rule does with a request that it matches.
public enum RuleAction: String, Sendable, CaseIterable {
  case allow, deny
  /// The request waits for an operator's answer.
  case ask
}

/// How a CONNECT is treated.
public enum ConnectTreatment: String, Sendable, CaseIterable {
  /// Bytes pass unread.
  case tunnel
  /// TLS stays end to end; the proxy checks the server's certificate before the tunnel opens.
  case verify
  /// TLS ends at the proxy on both sides. Requests inside are treated as any others.
  case intercept
  case deny
}

/// One rule. Immutable once it is part of a `Policy`.
public final class Rule: Sendable {
  public let name: String
  public let location: SourceLocation
  /// The location as text: `/etc/sallyport/sallyport.toml:12`.
  public let place: String
  public let conditions: Conditions
  public let action: RuleAction
  /// [rule.ask]
  public let ask: AskTerms
  /// Shown to the client when the rule denies.
  public let reason: String?
  /// false: nothing in this rule blocks; what it would have done is logged.
  public let enforce: Bool
  /// false: its requests leave no line in the log. Metrics and the history have them.
  public let isLogged: Bool
  /// nil: the rule does not say. Then "verify" if it pins, else "tunnel".
  public let connect: ConnectTreatment?
  /// nil: the rule does not say. Then "match" if only listed destinations are reachable, else "any".
  public let tunnelSNI: TunnelSNI?
  /// Requests for http:// are sent over TLS upstream, and port 80 becomes 443.
  public let upgrade: Bool
  /// Protocols that Upgrade may ask for; nil: any but HTTP itself.
  public let upgrades: UpgradeList?
  /// Protocols for the origin, in order of preference.
  public let protocols: [HTTPProtocol]
  /// Where a redirect may lead the program.
  public let redirects: Redirects
  /// The base URL that requests go to; nil: the host that they name.
  public let target: RuleTarget?
  /// Routes to the destination; the first that works is used. Empty: direct.
  public let routes: [Route]
  /// Replaces deny_addresses of [proxy]; nil: the rule does not say.
  public let denyAddresses: AddressSet?
  /// [rule.timeouts]; nil: the rule does not say.
  public let timeouts: RuleTimeouts?
  public let request: RequestPolicy
  /// [rule.security] over [defaults.security]. Rules with equal settings share one object.
  public let security: SecurityPolicy
  /// [rule.response] over [defaults.response]; nil: responses are not checked.
  public let response: ResponseSerialization?
  /// [rule.cache]; nil: its responses are not stored.
  public let cache: CacheRule?
  /// Keeps stored responses of this rule apart from those of others. It covers the rule's name, what the rule adds to
  /// requests and removes from them, and what it presents to and requires of its origins. A digest, because secrets are
  /// part of it.
  public let cacheIdentity: [UInt8]
  /// Sent when the origin fails; nil: the proxy's own error, or the origin's response.
  public let answer: SubstituteAnswer?

  /// Whether one of its routes leads to a parent proxy, and whether one of these uses Digest.
  public enum Parents: Sendable {
    case none, some, someWithDigest
  }

  public let parents: Parents

  /// The rule refuses what it matches, or makes it wait for an operator. An unenforced rule refuses nothing: it allows,
  /// and later rules are not tried.
  let isStrict: Bool
  let namesUsers: Bool
  /// As this rule evaluates it.
  let pathCondition: PathCondition

  public init(
    name: String, location: SourceLocation, conditions: Conditions = Conditions(), action: RuleAction = .allow,
    ask: AskTerms = AskTerms(), reason: String? = nil, enforce: Bool = true, isLogged: Bool = true,
    connect: ConnectTreatment? = nil,
    tunnelSNI: TunnelSNI? = nil, upgrade: Bool = false, upgrades: UpgradeList? = nil,
    protocols: [HTTPProtocol] = HTTPProtocol.allCases, redirects: Redirects = .pass, target: RuleTarget? = nil,
    routes: [Route] = [],
    denyAddresses: AddressSet? = nil, timeouts: RuleTimeouts? = nil,
    request: RequestPolicy = RequestPolicy(),
    security: SecurityPolicy = .standard, response: ResponseSerialization? = nil,
    answer: SubstituteAnswer? = nil, cache: CacheRule? = nil
  ) {
    self.name = name
    self.location = location
    place = location.description
    self.conditions = conditions
    self.action = action
    self.ask = ask
    self.reason = reason
    self.enforce = enforce
    self.isLogged = isLogged
    self.connect = connect
    self.tunnelSNI = tunnelSNI
    self.denyAddresses = denyAddresses
    self.timeouts = timeouts
    self.request = request
    self.upgrade = upgrade
    self.upgrades = upgrades
    self.protocols = protocols
    self.redirects = redirects
    self.target = target
    self.routes = routes
    self.security = security
    self.response = response
    self.answer = answer
    self.cache = cache
    cacheIdentity =
      cache == nil
      ? []
      : Array(
        hexadecimal(
          sha256(
            Array(name.utf8) + [0] + request.fields.set.flatMap(\.line) + [0] + request.fields.defaults.flatMap(\.line)
              + [0] + request.fields.removed.flatMap { $0 + [0] } + [request.cookies ? 1 : 0] + security.digest)
        ).utf8)
    let parents = routes.compactMap(\.parent)
    self.parents = parents.isEmpty ? .none : parents.contains { $0.password?.digest != nil } ? .someWithDigest : .some
    isStrict = action != .allow && enforce
    namesUsers = conditions[UserCondition.self]?.numbers != nil
    pathCondition = PathCondition(conditions.values(of: PathsCondition.self), denies: isStrict)
  }

  /// Whether an http request of the program is sent over TLS.
  public var leavesByTLS: Bool { target.map { $0.scheme == .https } ?? upgrade }
}

extension SecurityPolicy {
  /// The built-in default: verification against the anchors of [trust], no pins, TLS 1.2 and 1.3.
  public static let standard = SecurityPolicy(Settings())
}

/// [rule.request] and [defaults.request], merged: what to do to a request before it is sent.
public struct RequestPolicy: Sendable {
  /// For the whole exchange, in milliseconds; nil: no limit of its own.
  public var timeoutMilliseconds: Int64? = nil
  /// false: Cookie is removed from requests and Set-Cookie from responses.
  public var cookies = true
  /// true: bytes above 0x7F in a path are percent-encoded. false: a request with such bytes is refused.
  public var encodesPath = false
  /// Edits of the header fields.
  public var fields = FieldEdits()
  /// Credentials that answer a Digest challenge of the origin; nil: the client answers challenges.
  public var digest: DigestCredentials? = nil
  /// Parameters and bodies; nil: both stay as they are.
  public var serialization: RequestSerialization? = nil
  /// Form names of parameters whose values `explain` does not show.
  public var secretParameters: Set<String> = []
  /// A body of unknown length is buffered whole and sent with its length.
  public var buffersUploads = false
  public var serviceType = ServiceType.standard
  /// Pace of both directions; nil: none.
  public var throttle: Throttle? = nil
  /// false: 503 while a cellular link leads to the destination.
  public var allowsCellularAccess = true
  public var cachePolicy = CachePolicy.useProtocol
  /// A download that the origin cuts short is continued.
  public var resumesDownloads = false

  public init() {}
}

/// `service_type`, NSURLRequest's networkServiceType: how the packets of a request are marked.
public enum ServiceType: String, Sendable, CaseIterable {
  case standard = "default"
  case background, video, voice, responsive

  /// The code point (RFC 2474) that Apple's systems use for the type: CS1, AF41, EF, AF21.
  public var codePoint: UInt8 {
    switch self {
    case .standard: 0
    case .background: 8
    case .video: 34
    case .voice: 46
    case .responsive: 18
    }
  }
}

/// `throttle`: the pace of request bodies, of responses, and of both directions of tunnels.
public struct Throttle: Hashable, Sendable {
  /// Nothing is sent for a while after each packet.
  public struct Upload: Hashable, Sendable {
    public let packetBytes: Int
    public let delayMilliseconds: Int64
    /// A rate: each packet is due one delay after the last was, however late that one was. false: the delay begins when
    /// the packet has been sent.
    public let keepsRate: Bool

    public init(packetBytes: Int, delayMilliseconds: Int64, keepsRate: Bool = false) {
      self.packetBytes = packetBytes
      self.delayMilliseconds = delayMilliseconds
      self.keepsRate = keepsRate
    }
  }

  /// Towards the destination: request bodies, and the client's side of a tunnel; nil: unlimited.
  public let upload: Upload?
  /// Bytes per second towards the client: responses, and the destination's side of a tunnel; nil: unlimited.
  public let downloadBytesPerSecond: Int64?
  /// The throttle applies only if one of these kinds of link leads to the destination, or to the parent before it;
  /// empty: any.
  public let links: [ReachabilityStatus]

  public init(upload: Upload?, downloadBytesPerSecond: Int64? = nil, links: [ReachabilityStatus] = []) {
    self.upload = upload
    self.downloadBytesPerSecond = downloadBytesPerSecond
    self.links = links
  }
}

/// Edits of a header section, compiled: names in lower case for comparison, lines as they are written.
public struct FieldEdits: Sendable {
  /// A field that the proxy writes. `name` is in lower case; `line` is `Name: value` and CR LF.
  public struct Line: Sendable, Hashable {
    public let name: [UInt8]
    public let line: [UInt8]
    /// The value came from a secret: `explain` does not show it.
    public let isSecret: Bool
    /// The secret was not read, and a placeholder stands in for it: for display, not for requests.
    public let isWithheld: Bool

    /// `value` contains no CR, LF or NUL: the loader rejects them.
    public init(name: String, value: [UInt8], isSecret: Bool = false, isWithheld: Bool = false) {
      self.isSecret = isSecret
      self.isWithheld = isWithheld
      self.name = name.utf8.map { $0.asciiLowercased }
      line = Array(name.utf8) + [0x3a, 0x20] + value + [0x0d, 0x0a]
    }

    /// Without the name, colon and space before it, and the CR LF after it.
    public var value: [UInt8] { Array(line.dropFirst(name.count + 2).dropLast(2)) }
  }

  /// Names, in lower case, of fields that are removed from the client's request: `remove`, and each name of `set`.
  public private(set) var removed: [[UInt8]] = []
  /// Written in place of what the client sent.
  public private(set) var set: [Line] = []
  /// Written only if the client sent no field of that name.
  public private(set) var defaults: [Line] = []

  public init() {}

  public var isEmpty: Bool { removed.isEmpty && set.isEmpty && defaults.isEmpty }

  public mutating func remove(_ name: String) {
    let lower = name.utf8.map { $0.asciiLowercased }
    if !removed.contains(lower) { removed.append(lower) }
  }

  public mutating func set(_ name: String, _ value: [UInt8], isSecret: Bool = false, isWithheld: Bool = false) {
    remove(name)
    let line = Line(name: name, value: value, isSecret: isSecret, isWithheld: isWithheld)
    set.removeAll { $0.name == line.name }
    set.append(line)
  }

  public mutating func setDefault(_ name: String, _ value: [UInt8], isSecret: Bool = false, isWithheld: Bool = false) {
    let line = Line(name: name, value: value, isSecret: isSecret, isWithheld: isWithheld)
    defaults.removeAll { $0.name == line.name }
    defaults.append(line)
  }

  /// The most bytes that the edits add to a head.
  public var addedBytes: Int { (set + defaults).reduce(0) { $0 + $1.line.count } }
}
