// [rule.security] and [defaults.security]: reading the keys, and how the first inherits from the second, key by key.
// SecurityChecks checks combinations of keys. Tests: SecurityReadingTests.

import Bytes
import Security

/// A security table. A class: most of 10,000 rules have none, and one is large.
final class SecurityDraft {
  enum Anchors {
    /// Those of [trust], which are the system's.
    case system
    case own(TrustAnchors)
  }

  /// `revocation`
  enum RevocationKind: String, CaseIterable { case none, staple, crl }

  /// The position of each key. A key without a value below has an error, which has been reported.
  private(set) var settings: [String: Setting] = [:]
  private(set) var pins: String? = nil
  /// The set that `pins` names, once every file has been read.
  private(set) var pinSet: PinSet? = nil
  private(set) var allowInvalidCertificates: Bool? = nil
  private(set) var validatesDomainName: Bool? = nil
  private(set) var anchors: Anchors? = nil
  private(set) var profile: TrustProfile? = nil
  private(set) var minimumVersion: TLSVersion? = nil
  private(set) var maximumVersion: TLSVersion? = nil
  private(set) var ciphers: CipherList? = nil
  private(set) var serverName: String? = nil
  private(set) var clientIdentity: ClientIdentity? = nil
  private(set) var revocation: RevocationKind? = nil
  private(set) var revocationLists: [[UInt8]]? = nil

  init() {}

  /// The effective settings of a rule with `own` that inherits the rest.
  init(_ own: SecurityDraft, inheriting inherited: SecurityDraft) {
    func pick<Value>(_ key: String, _ field: KeyPath<SecurityDraft, Value?>) -> Value? {
      own.settings[key] == nil ? inherited[keyPath: field] : own[keyPath: field]
    }
    settings = own.settings.merging(inherited.settings) { own, _ in own }
    pins = pick("pins", \.pins)
    pinSet = pick("pins", \.pinSet)
    allowInvalidCertificates = pick("allow_invalid_certificates", \.allowInvalidCertificates)
    validatesDomainName = pick("validates_domain_name", \.validatesDomainName)
    anchors = pick("anchors", \.anchors)
    profile = pick("profile", \.profile)
    minimumVersion = pick("min_tls", \.minimumVersion)
    maximumVersion = pick("max_tls", \.maximumVersion)
    ciphers = pick("ciphers", \.ciphers)
    serverName = pick("server_name", \.serverName)
    clientIdentity = pick("client_certificate", \.clientIdentity)
    revocation = pick("revocation", \.revocation)
    revocationLists = pick("crl_file", \.revocationLists)
  }

  /// Looks up the set of pins.
  func resolvePins(in sets: inout PinSets, by reading: ConfigurationReading) {
    guard let name = pins, let setting = settings["pins"] else { return }
    pinSet = sets.use(name, setting, by: reading)
  }

  /// As a value.
  var policySettings: SecurityPolicy.Settings {
    var settings = SecurityPolicy.Settings()
    settings.pinSet = pinSet
    settings.allowInvalidCertificates = allowInvalidCertificates ?? settings.allowInvalidCertificates
    settings.validatesDomainName = validatesDomainName ?? settings.validatesDomainName
    if case .own(let anchors) = anchors { settings.anchors = anchors }
    settings.profile = profile
    settings.minimumVersion = minimumVersion ?? settings.minimumVersion
    settings.maximumVersion = maximumVersion ?? settings.maximumVersion
    settings.ciphers = ciphers
    settings.serverName = serverName
    settings.clientIdentity = clientIdentity
    switch revocation ?? .none {
    case .none: settings.revocation = .none
    case .staple: settings.revocation = .staple
    case .crl: settings.revocation = .crl(revocationLists ?? [])
    }
    return settings
  }
}

extension SecurityDraft {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> SecurityDraft {
    let draft = SecurityDraft()
    for setting in table.settings {
      draft.settings[setting.key] = setting
      draft.read(setting, by: reading)
    }
    return draft
  }

  private func read(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.key {
    case "pins": pins = reading.string(setting)
    case "allow_invalid_certificates": allowInvalidCertificates = reading.boolean(setting)
    case "validates_domain_name": validatesDomainName = reading.boolean(setting)
    case "anchors": anchors = Self.ownAnchors(of: setting, by: reading)
    case "profile": profile = reading.choice(setting, TrustProfile.self)
    case "min_tls": minimumVersion = Self.version(of: setting, by: reading)
    case "max_tls": maximumVersion = Self.version(of: setting, by: reading)
    case "ciphers": ciphers = Self.ciphers(of: setting, by: reading)
    case "server_name": serverName = Self.serverName(of: setting, by: reading)
    case "client_certificate": clientIdentity = Self.clientIdentity(of: setting, by: reading)
    case "revocation": revocation = reading.choice(setting, SecurityDraft.RevocationKind.self)
    case "crl_file":
      revocationLists =
        reading.string(setting).flatMap { reading.certificates.revocationLists($0, setting, by: reading) }
    default: reading.unread(setting, of: .security)
    }
  }

  // MARK: Values

  private static func ownAnchors(of setting: Setting, by reading: ConfigurationReading) -> SecurityDraft.Anchors? {
    guard let text = reading.string(setting) else { return nil }
    if text == "system" { return .system }
    return reading.certificates.anchors(text, setting, by: reading).map { .own($0) }
  }

  private static func version(of setting: Setting, by reading: ConfigurationReading) -> TLSVersion? {
    if case .float = setting.value.content {
      reading.expected("\(TLSVersion.allCases.map(\.rawValue).alternativesInTOML) between quotes", setting)
      return nil
    }
    return reading.choice(setting, TLSVersion.self)
  }

  private static func ciphers(of setting: Setting, by reading: ConfigurationReading) -> CipherList? {
    guard let text = reading.string(setting) else { return nil }
    do throws(CipherList.Fault) {
      return try CipherList(text)
    } catch {
      reading.error(setting, error.description)
      return nil
    }
  }

  private static func serverName(of setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let text = reading.string(setting) else { return nil }
    var host = CanonicalHost()
    switch InternationalName.asciiForm(of: text) {
    case .failure(let fault): reading.error(setting, "\(text.quoted) is no internationalized host name: \(fault)")
    case .success(let name):
      if let fault = host.set(Array(name.utf8).span) {
        reading.error(setting, "expected \(fault.expectation), found \(text.quoted)")
      } else if host.address != nil {
        reading.error(
          setting, "expected a host name, found the address \(text.quoted), which no TLS client sends (RFC 6066, 3)")
      } else {
        return host.bytes.span.string
      }
    }
    return nil
  }

  // MARK: The client certificate

  private static func clientIdentity(of setting: Setting, by reading: ConfigurationReading) -> ClientIdentity? {
    guard case .table = setting.value.content, let table = reading.table(setting) else {
      reading.expected("a table with 'certificate' and 'key'", setting)
      return nil
    }
    var path: String? = nil
    var key: [UInt8]? = nil
    var keys: [String: Setting] = [:]
    for entry in table.settings {
      keys[entry.key] = entry
      switch entry.key {
      case "certificate": path = reading.string(entry).flatMap { CertificateMemory.path($0, entry, by: reading) }
      case "key": key = reading.secret(entry)
      default: reading.unread(entry, of: .clientCertificate)
      }
    }
    let missing = TableSchema.clientCertificate.names.filter { keys[$0] == nil }.map(\.quoted)
    guard missing.isEmpty else {
      reading.error(setting, "\(missing.joined(separator: " and ")) must be there")
      return nil
    }
    guard let place = keys["certificate"], let path, let key else { return nil }
    if let place = keys["key"], reading.isWithheld(place) {
      if let setting = keys["certificate"] { _ = reading.certificates.certificates(at: path, setting, by: reading) }
      return nil
    }
    return clientIdentity(setting, certificate: path, at: place, key: key, by: reading)
  }

  private static func clientIdentity(
    _ setting: Setting, certificate path: String, at place: Setting, key: [UInt8], by reading: ConfigurationReading
  ) -> ClientIdentity? {
    guard reading.certificates.certificates(at: path, place, by: reading) != nil else { return nil }
    switch reading.files.read(path, limit: CertificateMemory.largestFileBytes) {
    case .failure(let fault): reading.error(place, "cannot read \(path.quoted): \(fault)")
    case .success(let bytes):
      switch ClientIdentity.read(certificates: bytes, key: key) {
      case .success(let identity): return identity
      case .failure(let fault): reading.error(setting, "\(path.quoted) and its key: \(fault)")
      }
    }
    return nil
  }
}
