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
}

extension ConfigurationReading {
  /// Version 2 of the format, at the beginning of every keytab.
  private static let keytabVersion: [UInt8] = [5, 2]

  func kerberosClient(_ settings: [Setting], _ owner: Setting) -> KerberosClient? {
    var keytab: String? = nil
    var principal: String? = nil
    let errorsBefore = errorCount
    for entry in settings {
      switch entry.key {
      case "scheme": continue
      case "keytab": keytab = self.keytab(entry)
      case "principal": principal = self.principal(entry)
      case "username", "password":
        error(entry, "scheme = \"negotiate\" takes a 'keytab', and no user name and password")
      default: unread(entry, of: .routeCredentials)
      }
    }
    if !settings.contains(where: { $0.key == "keytab" }) { error(owner, "'keytab' must be there") }
    guard let keytab, errorCount == errorsBefore else { return nil }
    return KerberosClient(keytab: keytab, principal: principal)
  }

  func refuseKerberosKey(_ setting: Setting) {
    switch setting.value.content {
    case .string, .table:
      error(setting, "it belongs to scheme = \"negotiate\"; other schemes take 'username' and 'password'")
    default: expected("a string", setting)
    }
  }

  private func principal(_ setting: Setting) -> String? {
    guard let text = string(setting) else { return nil }
    let isPrintable = text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7f }
    if !text.isEmpty, isPrintable, text.utf8.count <= KerberosClient.longestPrincipal { return text }
    error(setting, "expected a principal, as in \"proxy@EXAMPLE.ORG\", found \(text.quoted)")
    return nil
  }

  /// A path, or a systemd credential.
  private func keytab(_ setting: Setting) -> String? {
    if case .string(let text) = setting.value.content { return path(setting, text).flatMap { keytab(at: $0, setting) } }
    guard case .table = setting.value.content, let entries = table(setting)?.settings, entries.count == 1,
      entries[0].key == "credential"
    else {
      expected("a path, or { credential = \"…\" }", setting)
      return nil
    }
    guard let name = string(entries[0]) else { return nil }
    if files.credentialsDirectory == nil, secretUse != .required, Self.isCredentialName(name) {
      // Only the service has it.
      if secretUse == .inspected {
        note(setting, "not readable by you: the service reads it (the credential \(name.quoted) of systemd)")
      }
      return ""
    }
    return credentialPath(entries[0], name).flatMap { keytab(at: $0, setting) }
  }

  /// The file is checked here, so a missing or wrong one is found before a request needs it.
  private func keytab(at path: String, _ setting: Setting) -> String? {
    if secretUse == .unneeded { return path }
    switch secretFile(path) {
    case .failure(let fault) where secretUse == .inspected && fault.isDenied:
      note(setting, "not readable by you: the service reads it (\(path.quoted): \(fault))")
      return path
    case .failure(let fault):
      error(setting, "cannot read \(path.quoted): \(fault)")
      return nil
    case .success(let bytes):
      noteRead(path)
      guard bytes.starts(with: Self.keytabVersion) else {
        error(
          setting, "expected a keytab, as ktutil(1) or 'kadmin ktadd' writes it, and \(path.quoted) is something else")
        return nil
      }
      warnOfOtherReaders(of: path, setting)
      return path
    }
  }
}
