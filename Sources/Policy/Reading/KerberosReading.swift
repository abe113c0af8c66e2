// `credentials = { scheme = "negotiate", keytab = …, principal = … }` of a route: the proxy presents a Kerberos ticket
// to a parent (RFC 4559, RFC 4120). Tests: KerberosReadingTests.

/// The proxy's identity in Kerberos.
public struct KerberosClient: Hashable, Sendable {
  /// Path of the client's keys, as ktutil(1) writes them.
  public let keytab: String
  /// `proxy@EXAMPLE.ORG`; nil: the first in the keytab.
  public let principal: String?

  public init(keytab: String, principal: String? = nil) {
    self.keytab = keytab
    self.principal = principal
  }
}

extension KerberosClient {
  /// In bytes: a name, an instance and a realm, each at most as long as a host name.
  static let longestPrincipal = 1024

  /// Version 2 of the format, at the beginning of every keytab.
  private static let keytabVersion: [UInt8] = [5, 2]

  static func read(_ settings: [Setting], of owner: Setting, by reading: ConfigurationReading) -> KerberosClient? {
    var keytab: String? = nil
    var principal: String? = nil
    let errorsBefore = reading.errorCount
    for entry in settings {
      switch entry.key {
      case "scheme": continue
      case "keytab": keytab = Self.keytab(entry, by: reading)
      case "principal": principal = Self.principal(entry, by: reading)
      case "username", "password":
        reading.error(entry, "scheme = \"negotiate\" takes a 'keytab', and no user name and password")
      default: reading.unread(entry, of: .routeCredentials)
      }
    }
    if !settings.contains(where: { $0.key == "keytab" }) { reading.error(owner, "'keytab' must be there") }
    guard let keytab, reading.errorCount == errorsBefore else { return nil }
    return KerberosClient(keytab: keytab, principal: principal)
  }

  static func refuse(_ setting: Setting, by reading: ConfigurationReading) {
    switch setting.value.content {
    case .string, .table:
      reading.error(setting, "it belongs to scheme = \"negotiate\"; other schemes take 'username' and 'password'")
    default: reading.expected("a string", setting)
    }
  }

  private static func principal(_ setting: Setting, by reading: ConfigurationReading) -> String? {
    guard let text = reading.string(setting) else { return nil }
    let isPrintable = text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7f }
    if !text.isEmpty, isPrintable, text.utf8.count <= KerberosClient.longestPrincipal { return text }
    reading.error(setting, "expected a principal, as in \"proxy@EXAMPLE.ORG\", found \(text.quoted)")
    return nil
  }

  /// A path, or a systemd credential.
  private static func keytab(_ setting: Setting, by reading: ConfigurationReading) -> String? {
    if case .string(let text) = setting.value.content {
      return reading.path(setting, text).flatMap { keytab(at: $0, setting, by: reading) }
    }
    guard case .table = setting.value.content, let entries = reading.table(setting)?.settings, entries.count == 1,
      entries[0].key == "credential"
    else {
      reading.expected("a path, or { credential = \"…\" }", setting)
      return nil
    }
    guard let name = reading.string(entries[0]) else { return nil }
    if reading.files.credentialsDirectory == nil, reading.secretUse != .required,
      ConfigurationReading.isCredentialName(name)
    {
      // Only the service has it.
      if reading.secretUse == .inspected {
        reading.note(setting, "not readable by you: the service reads it (the credential \(name.quoted) of systemd)")
      }
      return ""
    }
    return reading.credentialPath(entries[0], name).flatMap { keytab(at: $0, setting, by: reading) }
  }

  /// The file is checked here, so a missing or wrong one is found before a request needs it.
  private static func keytab(at path: String, _ setting: Setting, by reading: ConfigurationReading) -> String? {
    if reading.secretUse == .unneeded { return path }
    switch reading.secretFile(path) {
    case .failure(let fault) where reading.secretUse == .inspected && fault.isDenied:
      reading.note(setting, "not readable by you: the service reads it (\(path.quoted): \(fault))")
      return path
    case .failure(let fault):
      reading.error(setting, "cannot read \(path.quoted): \(fault)")
      return nil
    case .success(let bytes):
      guard bytes.starts(with: Self.keytabVersion) else {
        reading.error(
          setting, "expected a keytab, as ktutil(1) or 'kadmin ktadd' writes it, and \(path.quoted) is something else")
        return nil
      }
      reading.warnOfOtherReaders(of: path, setting)
      return path
    }
  }
}
