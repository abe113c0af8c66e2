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
  var settings: [String: Setting] = [:]
  var pins: String? = nil
  /// The set that `pins` names, once every file has been read.
  var pinSet: PinSet? = nil
  var allowInvalidCertificates: Bool? = nil
  var validatesDomainName: Bool? = nil
  var anchors: Anchors? = nil
  var profile: TrustProfile? = nil
  var minimumVersion: TLSVersion? = nil
  var maximumVersion: TLSVersion? = nil
  var ciphers: CipherList? = nil
  var serverName: String? = nil
  var clientIdentity: ClientIdentity? = nil
  var revocation: RevocationKind? = nil
  var revocationLists: [[UInt8]]? = nil

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

extension ConfigurationReading {
  /// Largest file of revocation lists, in bytes: the largest that public authorities publish are of this order.
  static let largestRevocationListBytes = 16 << 20

  func securityDraft(_ table: ConfigurationTable) -> SecurityDraft {
    let draft = SecurityDraft()
    for setting in table.settings {
      draft.settings[setting.key] = setting
      readSecurityKey(setting, draft)
    }
    return draft
  }

  private func readSecurityKey(_ setting: Setting, _ draft: SecurityDraft) {
    switch setting.key {
    case "pins": draft.pins = string(setting)
    case "allow_invalid_certificates": draft.allowInvalidCertificates = boolean(setting)
    case "validates_domain_name": draft.validatesDomainName = boolean(setting)
    case "anchors": draft.anchors = ownAnchors(setting)
    case "profile": draft.profile = choice(setting, TrustProfile.self)
    case "min_tls": draft.minimumVersion = version(setting)
    case "max_tls": draft.maximumVersion = version(setting)
    case "ciphers": draft.ciphers = ciphers(setting)
    case "server_name": draft.serverName = serverName(setting)
    case "client_certificate": draft.clientIdentity = clientIdentity(setting)
    case "revocation": draft.revocation = choice(setting, SecurityDraft.RevocationKind.self)
    case "crl_file": draft.revocationLists = revocationLists(setting)
    default: unread(setting, of: .security)
    }
  }

  // MARK: Values

  private func ownAnchors(_ setting: Setting) -> SecurityDraft.Anchors? {
    guard let text = string(setting) else { return nil }
    if text == "system" { return .system }
    return anchors(setting, text).map { .own($0) }
  }

  private func version(_ setting: Setting) -> TLSVersion? {
    if case .float = setting.value.content {
      expected("\(Self.alternatives(TLSVersion.allCases.map(\.rawValue))) between quotes", setting)
      return nil
    }
    return choice(setting, TLSVersion.self)
  }

  private func ciphers(_ setting: Setting) -> CipherList? {
    guard let text = string(setting) else { return nil }
    do throws(CipherList.Fault) {
      return try CipherList(text)
    } catch {
      self.error(setting, error.description)
      return nil
    }
  }

  private func serverName(_ setting: Setting) -> String? {
    guard let text = string(setting) else { return nil }
    var host = CanonicalHost()
    switch InternationalName.asciiForm(of: text) {
    case .failure(let fault): error(setting, "\(text.quoted) is no internationalized host name: \(fault)")
    case .success(let name):
      if let fault = host.set(Array(name.utf8).span) {
        error(setting, "expected \(fault.expectation), found \(text.quoted)")
      } else if host.address != nil {
        error(
          setting, "expected a host name, found the address \(text.quoted), which no TLS client sends (RFC 6066, 3)")
      } else {
        return host.bytes.span.string
      }
    }
    return nil
  }

  private func revocationLists(_ setting: Setting) -> [[UInt8]]? {
    guard let text = string(setting), let path = certificatePath(setting, text) else { return nil }
    let content = revocationFiles[path] ?? readRevocationLists(path)
    revocationFiles[path] = content
    switch content {
    case .success(let lists): return lists
    case .failure(let fault):
      error(setting, fault.description)
      return nil
    }
  }

  private func readRevocationLists(_ path: String) -> Result<[[UInt8]], FileFault> {
    switch files.read(path, limit: Self.largestRevocationListBytes) {
    case .failure(let fault): return .failure(FileFault("cannot read \(path.quoted): \(fault)"))
    case .success(let bytes):
      noteRead(path)
      return Revocation.readList(bytes).mapError { FileFault("\(path.quoted): \($0)") }
    }
  }

  // MARK: The client certificate

  private func clientIdentity(_ setting: Setting) -> ClientIdentity? {
    guard case .table = setting.value.content, let table = table(setting) else {
      expected("a table with 'certificate' and 'key'", setting)
      return nil
    }
    var path: String? = nil
    var key: [UInt8]? = nil
    var keys: [String: Setting] = [:]
    for entry in table.settings {
      keys[entry.key] = entry
      switch entry.key {
      case "certificate": path = string(entry).flatMap { certificatePath(entry, $0) }
      case "key": key = secret(entry)
      default: unread(entry, of: .clientCertificate)
      }
    }
    let missing = TableSchema.clientCertificate.names.filter { keys[$0] == nil }.map(\.quoted)
    guard missing.isEmpty else {
      error(setting, "\(missing.joined(separator: " and ")) must be there")
      return nil
    }
    guard let place = keys["certificate"], let path, let key else { return nil }
    if let place = keys["key"], isWithheld(place) {
      if let setting = keys["certificate"] { _ = certificates(setting, file: path) }
      return nil
    }
    return clientIdentity(setting, certificate: path, at: place, key: key)
  }

  private func clientIdentity(
    _ setting: Setting, certificate path: String, at place: Setting, key: [UInt8]
  ) -> ClientIdentity? {
    guard certificates(place, file: path) != nil else { return nil }
    switch files.read(path, limit: Self.largestCertificateFileBytes) {
    case .failure(let fault): error(place, "cannot read \(path.quoted): \(fault)")
    case .success(let bytes):
      switch ClientIdentity.read(certificates: bytes, key: key) {
      case .success(let identity): return identity
      case .failure(let fault): error(setting, "\(path.quoted) and its key: \(fault)")
      }
    }
    return nil
  }
}
