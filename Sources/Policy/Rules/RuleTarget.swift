// `target` of a rule: a base URL that its requests go to. So a short name on the machine stands for a host, a port, a
// scheme and the beginning of a path.
//
// The base path ends with a slash, written or not. The path of a request is appended without its leading slash, as
// AFNetworking joins relative paths to its baseURL: `/users` becomes `/v2/users`. The query stays unchanged. All
// readings of the joined path (PathReadings) must be below the base path, or the request is denied. The policy is then
// consulted again for the resulting URL, where only a rule that denies counts. A rule that matches there does not map
// again. Tests: RuleTargetTests.

import Bytes

/// A base URL.
public struct RuleTarget: Hashable, Sendable, CustomStringConvertible {
  public let scheme: Scheme
  public let host: CanonicalHost
  public let port: UInt16
  /// Begins and ends with a slash, and has one reading.
  public let path: [UInt8]
  /// The host as in an authority: lower case, an IPv6 address in brackets.
  public let name: [UInt8]
  /// Name, and port if it is not the scheme's default: the value of Host.
  public let authority: [UInt8]

  init(scheme: Scheme, host: CanonicalHost, port: UInt16, path: [UInt8]) {
    self.scheme = scheme
    self.host = host
    self.port = port
    self.path = path
    let isIPv6 = host.address.map { !$0.isIPv4 } ?? false
    name = isIPv6 ? [0x5b] + host.copiedBytes + [0x5d] : host.copiedBytes
    authority = port == scheme.defaultPort ? name : name + Array(":\(port)".utf8)
  }

  public var description: String { url(of: path) }

  /// The whole URL of a path on this host.
  public func url(of path: [UInt8]) -> String {
    "\(scheme.rawValue)://\(String(decoding: authority + path, as: UTF8.self))"
  }

  /// The path of a request, without its query, joined to the base path.
  public func joined(_ path: Span<UInt8>) -> [UInt8] {
    var joined = self.path
    for index in 0..<path.count where index > 0 || path[0] != 0x2f { joined.append(path[index]) }
    return joined
  }

  /// The reading of a joined path that is outside the base path; nil: none is.
  public func escape(_ joined: [UInt8]) -> PathReadingText? {
    if path.count == 1 { return nil }
    var readings = PathReadings()
    readings.set(joined.span)
    return readings.reading(where: { !$0.starts(with: path) })
  }
}

/// Where a request of a rule with a target goes.
public struct RequestMapping: Sendable {
  public let target: RuleTarget
  /// The joined path, without the query.
  public let path: [UInt8]
  /// The policy's objection; nil: none. Its verdict is to allow if the rule behind it is not enforced.
  public let objection: Decision?
  /// How the path climbs out of the base path, if that is the objection.
  public let escape: PathReadingText?
}

extension Policy {
  /// Where a request that `decision` allows goes; nil: to the host that it names. Otherwise `workspace` contains the
  /// host of the target afterwards.
  public func mapping(
    of decision: Decision, _ facts: borrowing RequestFacts, in workspace: inout DecisionWorkspace
  ) -> RequestMapping? {
    guard !facts.isTunnel, decision.verdict != .deny, let number = decision.rule, let target = rules[number].target
    else { return nil }
    let path = target.joined(facts.path)
    _ = workspace.host.set(target.name.span)
    let escape = target.escape(path)
    if escape != nil, rules[number].enforce {
      let objection = Decision(verdict: .deny, reason: .outsideTarget, rule: number)
      return RequestMapping(target: target, path: path, objection: objection, escape: escape)
    }
    let again = decide(
      RequestFacts(
        scheme: target.scheme, port: target.port, method: facts.method, path: path.span, isTunnel: false,
        sender: facts.sender, link: facts.link, wall: facts.wall), in: &workspace)
    // It is no objection that no rule matches the target: the mapping rule allows it.
    let denies = again.reason == .ruleDenies || again.reason == .ruleWouldDeny
    if escape != nil, !(denies && again.verdict == .deny) {
      let objection = Decision(verdict: .allow, reason: .ruleWouldDeny, rule: number)
      return RequestMapping(target: target, path: path, objection: objection, escape: escape)
    }
    return RequestMapping(target: target, path: path, objection: denies ? again : nil, escape: nil)
  }
}

// MARK: Reading

/// Why a text is not a base URL, with a suggestion. Contains no password.
struct RuleTargetFault: Error, Hashable, Sendable {
  let description: String

  init(_ description: String) { self.description = description }
}

extension RuleTarget {
  static let expectation = "a base URL such as \"https://api.example.com/v2/\""

  init(_ text: String) throws(RuleTargetFault) {
    if text.utf8.contains(0x40) {
      throw RuleTargetFault("a user name and a password do not stand in the URL; [rule.request] has 'authorization'")
    }
    guard let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://"),
      let scheme = Scheme(rawValue: text[..<colon].lowercased())
    else { throw RuleTargetFault("expected \(Self.expectation), found \(text.quoted)") }
    let rest = text[colon...].dropFirst(3)
    let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let path = rest[authority.endIndex...]
    if path.contains("?") || path.contains("#") {
      throw RuleTargetFault(
        "expected \(Self.expectation), found a query or a fragment; parameters stand in [rule.request]")
    }
    let isBracketed = authority.hasPrefix("[")
    let end =
      (isBracketed ? authority.firstIndex(of: "]").map(authority.index(after:)) : authority.firstIndex(of: ":"))
      ?? authority.endIndex
    let behind = authority[end...]
    guard behind.isEmpty || behind.hasPrefix(":") else {
      throw RuleTargetFault("expected \(Self.expectation), found \(text.quoted)")
    }
    var port = scheme.defaultPort
    if !behind.isEmpty {
      let digits = String(behind.dropFirst())
      guard let number = Int(digits), String(number) == digits, Bounds.ports.contains(number) else {
        throw RuleTargetFault(
          "expected a port from \(Bounds.ports.lowerBound) to \(Bounds.ports.upperBound), found \(digits.quoted)")
      }
      port = UInt16(number)
    }
    self.init(
      scheme: scheme, host: try Self.host(authority[..<end], of: text), port: port, path: try Self.basePath(path))
  }

  private static func host(_ name: Substring, of text: String) throws(RuleTargetFault) -> CanonicalHost {
    if name.isEmpty { throw RuleTargetFault("\(text.quoted) names no host") }
    guard case .success(let ascii) = InternationalName.asciiForm(of: String(name)) else {
      throw RuleTargetFault("\(String(name).quoted) is no internationalized host name")
    }
    var host = CanonicalHost()
    if let fault = host.set(Array(ascii.utf8).span) {
      throw RuleTargetFault("expected \(fault.expectation), found \(text.quoted)")
    }
    return host
  }

  /// With a trailing slash. Only a path that all servers read alike can serve as a base path.
  private static func basePath(_ text: Substring) throws(RuleTargetFault) -> [UInt8] {
    var path = Array(text.utf8)
    if path.last != 0x2f { path.append(0x2f) }
    let isPlain = path.allSatisfy { byte in
      switch byte {
      // ! $ & ' ( ) * + , - . / 0-9 : = A-Z _ a-z ~
      case 0x21, 0x24, 0x26...0x3a, 0x3d, 0x41...0x5a, 0x5f, 0x61...0x7a, 0x7e: true
      default: false
      }
    }
    guard isPlain, PathReadings.isOrdinary(path.span) else {
      throw RuleTargetFault(
        "expected a path without escapes, ';', empty segments and dots at the end of one, found "
          + String(text).quoted)
    }
    return path
  }
}

extension RuleTarget {
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> RuleTarget? {
    guard let text = reading.string(setting) else { return nil }
    do throws(RuleTargetFault) {
      return try RuleTarget(text)
    } catch {
      reading.error(setting, error.description)
      return nil
    }
  }
}

extension RuleDraft {
  /// Whether every request of it is sent over TLS; nil: as the program asks.
  var leavesByTLS: Bool? {
    if let target { return target.scheme == .https }
    return upgrade ? true : nil
  }
}
