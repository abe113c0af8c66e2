// A [[rule]] as the operator meant it, ready to be matched and carried out.

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
  /// It waits for an operator's answer.
  case ask
}

/// How a CONNECT is treated.
public enum ConnectTreatment: String, Sendable, CaseIterable {
  /// Bytes go through, unread.
  case tunnel
  /// The client keeps TLS from end to end; the proxy looks at the server's certificate before the tunnel opens.
  case verify
  /// TLS ends at the proxy on both sides, and requests inside are requests like others.
  case intercept
  case deny
}

/// One rule. Immutable once it is part of a `Policy`.
public final class Rule: Sendable {
  public let name: String
  public let location: SourceLocation
  /// The same as a text: `/etc/sallyport/sallyport.toml:12`.
  public let place: String
  public let conditions: Conditions
  public let action: RuleAction
  /// [rule.ask]
  public let ask: AskTerms
  /// Shown to the client by a rule that denies.
  public let reason: String?
  /// false: nothing of this rule blocks; what it would have done is logged.
  public let enforce: Bool
  /// nil: the rule does not say; "verify" then where it pins, else "tunnel".
  public let connect: ConnectTreatment?
  /// nil: the rule does not say; "match" then where only what is listed goes out, else "any".
  public let tunnelSNI: TunnelSNI?
  /// Requests for http:// are sent over TLS upstream, and port 80 becomes 443.
  public let upgrade: Bool
  /// Protocols that Upgrade may ask for; nil: any but HTTP itself.
  public let upgrades: UpgradeList?
  /// What the origin is spoken to by, the better first.
  public let protocols: [HTTPProtocol]
  /// What an answer may lead the program to.
  public let redirects: Redirects
  /// The base URL that requests go to; nil: to the host that they name.
  public let target: RuleTarget?
  /// Ways to the destination, the first that holds is taken. Empty: straight.
  public let routes: [Route]
  /// Instead of [proxy] deny_addresses; nil: the rule does not say.
  public let denyAddresses: AddressSet?
  /// [rule.timeouts]; nil: the rule does not say.
  public let timeouts: RuleTimeouts?
  public let request: RequestPolicy
  /// [rule.security] over [defaults.security]. Rules that say the same share one object.
  public let security: SecurityPolicy
  /// [rule.response] over [defaults.response]; nil: responses are not looked at.
  public let response: ResponseSerialization?
  /// [rule.cache]; nil: nothing of its answers is stored.
  public let cache: CacheRule?
  /// By what the answers of this rule are told from those of others: its name, what it adds to requests, and what it shows and
  /// asks of its origins. A digest, for secrets are among it.
  public let cacheIdentity: [UInt8]
  /// What is sent where the origin fails; nil: the proxy's own words, or the origin's.
  public let answer: SubstituteAnswer?

  /// Whether a route of it leads to a parent proxy.
  public let hasParents: Bool
  /// Whether one of these is answered by Digest.
  public let hasDigestParents: Bool

  /// What it matches is refused, or waits for an operator. A rule that is not enforced refuses nothing: it allows, and later
  /// rules are not asked.
  let isStrict: Bool
  let namesUsers: Bool
  /// As this rule asks it.
  let pathCondition: PathCondition

  public init(
    name: String, location: SourceLocation, conditions: Conditions = Conditions(), action: RuleAction = .allow,
    ask: AskTerms = AskTerms(), reason: String? = nil, enforce: Bool = true, connect: ConnectTreatment? = nil,
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
        hexadecimal(sha256(Array(name.utf8) + [0] + request.fields.set.flatMap(\.line) + [0] + security.digest)).utf8)
    hasParents = routes.contains { $0.parent != nil }
    hasDigestParents = routes.contains { $0.parent?.password?.digest != nil }
    isStrict = action != .allow && enforce
    namesUsers = conditions.users != nil
    pathCondition = PathCondition(conditions.paths, denies: isStrict)
  }
}

extension SecurityPolicy {
  /// What holds where nothing is said: verification against the anchors of [trust], no pins, TLS 1.2 and 1.3.
  public static let standard = SecurityPolicy(Settings())
}

/// [rule.request] and [defaults.request], merged: what is done to a request before it leaves.
public struct RequestPolicy: Sendable {
  /// Whole exchange, in milliseconds; nil: no bound of its own.
  public var timeoutMilliseconds: Int64? = nil
  /// false: Cookie is removed from requests and Set-Cookie from responses.
  public var cookies = true
  /// Bytes above 0x7F in a path are percent-encoded; false: a request with any is refused.
  public var encodesPath = false
  /// What is done to the fields of the head.
  public var fields = FieldEdits()
  /// What a Digest challenge of the origin is answered with; nil: challenges are the client's to answer.
  public var digest: DigestCredentials? = nil
  /// Parameters and bodies; nil: both are left as they are.
  public var serialization: RequestSerialization? = nil
  /// Names of parameters, as a form has them, whose values `explain` does not tell.
  public var secretParameters: Set<String> = []
  /// A body of unknown length is taken whole and leaves with its length.
  public var buffersUploads = false
  public var serviceType = ServiceType.standard
  /// Pace of what moves either way; nil: none.
  public var throttle: Throttle? = nil
  /// false: 503 while the destination is reached by a cellular link.
  public var allowsCellularAccess = true
  public var cachePolicy = CachePolicy.useProtocol
  /// A download that breaks off at the origin is gone on with.
  public var resumesDownloads = false

  public init() {}
}

/// `service_type`, NSURLRequest's networkServiceType: how the bytes of a request are marked on the way out.
public enum ServiceType: String, Sendable, CaseIterable {
  case standard = "default"
  case background, video, voice, responsive

  /// The code point of RFC 2474 that Apple's systems mark the type with: CS1, AF41, EF, AF21.
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

/// `throttle`: the pace of request bodies, of responses, and of tunnels both ways.
public struct Throttle: Hashable, Sendable {
  /// After each packet nothing is sent for a while.
  public struct Upload: Hashable, Sendable {
    public let packetBytes: Int
    public let delayMilliseconds: Int64

    public init(packetBytes: Int, delayMilliseconds: Int64) {
      self.packetBytes = packetBytes
      self.delayMilliseconds = delayMilliseconds
    }
  }

  /// Towards the destination: request bodies, and what the client says in a tunnel; nil: as fast as it goes.
  public let upload: Upload?
  /// Bytes a second towards the client: responses, and what the destination says in a tunnel; nil: as fast as they come.
  public let downloadBytesPerSecond: Int64?
  /// Kinds of link by which the destination, or the parent on the way to it, must be reached for it to hold; empty: any.
  public let links: [ReachabilityStatus]

  public init(upload: Upload?, downloadBytesPerSecond: Int64? = nil, links: [ReachabilityStatus] = []) {
    self.upload = upload
    self.downloadBytesPerSecond = downloadBytesPerSecond
    self.links = links
  }
}

/// Edits of a header section, compiled: names in lower case for comparison, lines as they are written.
public struct FieldEdits: Sendable {
  /// A field that the proxy writes. `name` is in lower case, `line` is `Name: value` and CR LF.
  public struct Line: Sendable, Hashable {
    public let name: [UInt8]
    public let line: [UInt8]
    /// The value came from a secret: `explain` does not show it.
    public let isSecret: Bool
    /// The secret was not read, and something else stands in for it: for looking at, not for requests.
    public let isWithheld: Bool

    /// `value` holds no CR, LF or NUL: the loader refuses one.
    public init(name: String, value: [UInt8], isSecret: Bool = false, isWithheld: Bool = false) {
      self.isSecret = isSecret
      self.isWithheld = isWithheld
      self.name = name.utf8.map { $0.asciiLowercased }
      line = Array(name.utf8) + [0x3a, 0x20] + value + [0x0d, 0x0a]
    }

    /// Name, colon and space stand before it; CR and LF behind.
    var value: [UInt8] { Array(line.dropFirst(name.count + 2).dropLast(2)) }
  }

  /// Names, in lower case, whose fields are taken out of what the client sent: `remove`, and each name of `set`.
  public private(set) var removed: [[UInt8]] = []
  /// Written in place of whatever the client sent.
  public private(set) var set: [Line] = []
  /// Written only where the client sent no field of that name.
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

  /// Most bytes that the edits add to a head.
  public var addedBytes: Int { (set + defaults).reduce(0) { $0 + $1.line.count } }
}
