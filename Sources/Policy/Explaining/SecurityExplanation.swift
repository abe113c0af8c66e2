// The part of `explain` about TLS: how a tunnel is treated, how certain the proxy's verdict on a certificate is, and
// what a certificate is checked against. It shows nothing of a key. Tests: SecurityExplanationTests.

import Bytes
import Security

/// How a request or a tunnel reaches its origin over TLS.
public struct SecurityExplanation: Sendable {
  /// How far the check of a certificate applies to the connection that carries the bytes. The words of the access log.
  public enum Assurance: String, Sendable {
    /// Nothing is checked.
    case none
    /// Only the name in the ClientHello is checked.
    case sni
    /// The certificate of the proxy's own handshake with the same address.
    case probe
    /// The certificate of this very connection.
    case exact
  }

  /// How the tunnel is treated; nil for a request.
  public let treatment: ConnectTreatment?
  /// What the first bytes in a plain tunnel are checked against; nil otherwise.
  public var opening: TunnelOpening? = nil
  /// The requested host, and whether it is an address.
  var host = ""
  var isAddress = false
  /// The port to which an http:// request is sent over TLS; nil if it is not upgraded.
  public let upgradedPort: UInt16?
  /// What the certificate is checked against.
  public let policy: SecurityPolicy
  /// The anchors if the policy has none of its own.
  public let trust: TrustSource
  /// What the chains to those are checked against.
  public let trustProfile: TrustProfile
  /// false: what fails is allowed, and logged.
  public let isEnforced: Bool

  /// What may apply, the weaker first: it depends on the TLS version that client and origin agree on.
  public var assurances: [Assurance] {
    let settings = policy.settings
    let isChecked = !settings.allowInvalidCertificates || settings.validatesDomainName || policy.isPinning
    switch treatment {
    case .tunnel:
      // An address has no server name.
      guard let opening, opening.sni == .match, !isAddress else { return [.none] }
      return opening.requiresHello ? [.sni] : [.none, .sni]
    case .deny: return [.none]
    case .intercept, nil: return [isChecked ? .exact : .none]
    case .verify:
      if !isChecked { return [.sni] }
      // Up to TLS 1.2 the certificate crosses the tunnel in the clear.
      if settings.maximumVersion < .tls13 { return [.exact] }
      return settings.minimumVersion < .tls13 ? [.probe, .exact] : [.probe]
    }
  }
}

extension SecurityExplanation {
  /// nil if denied, and for a request that is sent in the clear.
  init?(
    by policy: Policy, of decision: Decision, scheme: Scheme, host: CanonicalHost, port: UInt16, isTunnel: Bool
  ) {
    let rule = decision.rule.map { policy.rules[$0] }
    let isUpgraded = !isTunnel && scheme == .http && rule?.target == nil && rule?.upgrade ?? false
    guard decision.verdict != .deny, isTunnel || isUpgraded || scheme == .https else { return nil }
    let treatment = isTunnel ? policy.treatment(of: decision) : nil
    var workspace = DecisionWorkspace()
    workspace.host = host
    self.init(
      treatment: treatment,
      opening: treatment == .tunnel ? policy.opening(of: decision, port: port, in: &workspace) : nil,
      host: host.bytes.span.string, isAddress: host.address != nil,
      upgradedPort: isUpgraded ? (port == Scheme.http.defaultPort ? Scheme.https.defaultPort : port) : nil,
      policy: policy.security(of: decision), trust: policy.configuration.trust,
      trustProfile: policy.configuration.trustProfile ?? policy.configuration.trust.profile,
      isEnforced: rule?.enforce ?? true)
  }
}

// MARK: As text

extension SecurityExplanation {
  var lines: [String] {
    var lines: [String] = []
    if let treatment { lines.append("connect: \(treatment.sentence)") }
    lines += openingLines
    if let upgradedPort { lines.append("upgrade: sent over TLS, to port \(upgradedPort)") }
    lines.append("assurance: \(assuranceText)")
    if treatment != .tunnel { lines += termLines }
    return lines.map { "  \($0)" }
  }

  /// What the certificate and the connection are checked against.
  var termLines: [String] { certificateLines + connectionLines }

  private var assuranceText: String {
    let words = assurances
    guard words.count == 2 else { return words[0].rawValue }
    if treatment == .tunnel { return "\(words[0].rawValue), \(words[1].rawValue) where the client speaks TLS" }
    return "\(words[0].rawValue) under TLS 1.3, \(words[1].rawValue) under TLS 1.2 and lower"
  }

  /// What the first bytes in the tunnel are checked against.
  private var openingLines: [String] {
    guard let opening else { return [] }
    var lines: [String] = []
    if opening.sni == .match {
      let names = [host] + [policy.settings.serverName].compactMap { $0 }
      let name = isAddress ? "names no server" : "names \(names.joined(separator: " or "))"
      lines.append(
        opening.requiresHello
          ? "tunnel_sni: match; the tunnel must begin with a ClientHello that \(name)"
          : "tunnel_sni: match; a ClientHello must be one that \(name); what is no TLS passes")
    }
    if opening.refusesRequests {
      lines.append("an HTTP request in the clear ends the tunnel, as there are rules about requests to this host")
    }
    return lines
  }

  private var certificateLines: [String] {
    let settings = policy.settings
    var lines = settings.pinSet.map { ["pins: \($0.summary)"] } ?? []
    lines.append(
      settings.allowInvalidCertificates
        ? "anchors: any certificate (allow_invalid_certificates)" : "anchors: \(anchorsText)")
    if !settings.allowInvalidCertificates { lines.append("profile: \(profile.rawValue)") }
    lines.append("name: \(settings.validatesDomainName ? "validated" : "not validated")")
    switch settings.revocation {
    case .none: break
    case .staple: lines.append("revocation: a stapled answer is required")
    case .crl(let lists): lines.append("revocation: \(String.counted(lists.count, "list"))")
    }
    if !isEnforced { lines.append("enforce = false: what does not hold is allowed, and logged") }
    return lines
  }

  private var connectionLines: [String] {
    let settings = policy.settings
    let (low, high) = (settings.minimumVersion.rawValue, settings.maximumVersion.rawValue)
    var lines = ["TLS: \(low == high ? low : "\(low) to \(high)")"]
    if let ciphers = settings.ciphers { lines.append("ciphers: \(ciphers.text)") }
    if let name = settings.serverName { lines.append("server name: \(name)") }
    if let subject = settings.clientIdentity?.certificates.first?.subject {
      let isShown = treatment != .verify
      lines.append("client certificate: \(subject)\(isShown ? "" : ", not shown in a tunnel that is verified")")
    }
    return lines
  }

  /// What a chain is checked against.
  private var profile: TrustProfile {
    policy.settings.profile ?? policy.settings.anchors?.profile ?? trustProfile
  }

  private var anchorsText: String {
    if let own = policy.settings.anchors { return "\(own.origin), \(String.counted(own.count, "certificate"))" }
    switch trust {
    case .system: return "system"
    case .anchors(let anchors): return "\(anchors.origin), \(String.counted(anchors.count, "certificate"))"
    }
  }
}

extension ConnectTreatment {
  fileprivate var sentence: String {
    switch self {
    case .tunnel: "tunnel; what passes inside is not read or changed"
    case .verify: "verify; the server's certificate is checked before the tunnel opens, and TLS stays the client's own"
    case .intercept: "intercept; TLS ends at the proxy, and each request inside is decided on by itself"
    case .deny: "deny"
    }
  }
}

extension PinSet {
  /// `payments, public-key, 2 pins, enforced, until the end of 2027-06-01 (UTC)`
  fileprivate var summary: String {
    guard isPinning else { return "\(name), none: nothing is pinned" }
    let parts = [name, mode.rawValue, String.counted(pinCount, "pin"), enforce ? "enforced" : "report only"]
    return (parts + [expires.map(expiryText)].compactMap { $0 }).joined(separator: ", ")
  }

  private func expiryText(_ end: Int64) -> String {
    let isMidnight = end % CalendarTime.secondsPerDay == 0
    let date = isMidnight ? "the end of \(CalendarDate.text(end - 1)) (UTC)" : CalendarDate.timeText(end)
    return "until \(date)\(failsOnExpiry || !enforce ? "" : ", then report only")"
  }
}

// MARK: As JSON

extension SecurityExplanation {
  /// Members of the object that shows what will be done. `security` is null if nothing is checked.
  var json: [(String, JSONText)] {
    var members: [(String, JSONText)] = []
    if let treatment { members.append(("connect", .string(treatment.rawValue))) }
    if let opening {
      members.append(("tunnel_sni", .string(opening.sni.rawValue)))
      members.append(("requires_tls", .boolean(opening.requiresHello)))
      members.append(("refuses_clear_requests", .boolean(opening.refusesRequests)))
    }
    if let upgradedPort { members.append(("upgrade", .object([("port", .number(Int(upgradedPort)))]))) }
    members.append(("assurance", .array(assurances.map { .string($0.rawValue) })))
    members.append(("security", treatment == .tunnel ? .null : policyJSON))
    return members
  }

  var policyJSON: JSONText {
    let settings = policy.settings
    return .object([
      ("pins", settings.pinSet?.json ?? .null),
      ("allow_invalid_certificates", .boolean(settings.allowInvalidCertificates)),
      ("validates_domain_name", .boolean(settings.validatesDomainName)),
      ("anchors", .string(anchorsOrigin)), ("profile", .string(profile.rawValue)),
      ("min_tls", .string(settings.minimumVersion.rawValue)),
      ("max_tls", .string(settings.maximumVersion.rawValue)),
      ("ciphers", settings.ciphers.map { .string($0.text) } ?? .null),
      ("server_name", settings.serverName.map(JSONText.string) ?? .null),
      (
        "client_certificate",
        settings.clientIdentity?.certificates.first.map { .string($0.subject) } ?? .null
      ),
      ("revocation", .string(settings.revocation.word)), ("enforce", .boolean(isEnforced)),
    ])
  }

  private var anchorsOrigin: String {
    if let own = policy.settings.anchors { return own.origin }
    if case .anchors(let anchors) = trust { return anchors.origin }
    return "system"
  }
}

extension Revocation {
  fileprivate var word: String {
    switch self {
    case .none: "none"
    case .staple: "staple"
    case .crl: "crl"
    }
  }
}

extension PinSet {
  fileprivate var json: JSONText {
    .object([
      ("name", .string(name)), ("mode", .string(mode.rawValue)), ("count", .number(pinCount)),
      ("enforce", .boolean(enforce)), ("expires", expires.map { .number(Int($0)) } ?? .null),
      ("on_expiry", .string(failsOnExpiry ? "fail" : "report")),
    ])
  }
}
