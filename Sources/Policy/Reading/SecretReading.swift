// Secrets: `{ file = "…" }`, `{ credential = "NAME" }`, `{ env = "NAME" }` or a plain string.
//
// Secrets read here go only into the policy: no message quotes them, and `SourceText` hides one that is written in the
// file itself. Tests: SecretTests.

/// How a load treats secrets. A policy that was loaded without them is for inspection, not for requests.
public enum SecretUse: Sendable {
  /// Each is read, and a failure is an error: the daemon.
  case required
  /// Each is read if this user may; a note names those that may not be read: `check` and `explain`. The service may run
  /// as another user, with credentials from systemd and its own environment.
  case inspected
  /// None is read: commands that need an address or a directory.
  case unneeded
}

/// A value that may be a secret, as given.
struct GivenValue {
  var bytes: [UInt8]
  /// It came from a file, a credential or the environment, or is in a place for secrets only.
  var isSecret: Bool
  /// It was not read: `bytes` is a placeholder.
  var isWithheld = false
}

/// What a load remembers of secrets.
final class SecretMemory {
  /// Locations of secrets that were not read; what is made from them is never sent.
  private var withheld: Set<SourceLocation> = []
  /// Files of secrets that a warning has named.
  private var warned: Set<String> = []

  fileprivate func isWithheld(_ setting: Setting) -> Bool {
    withheld.contains(setting.source.location(setting.value.begin))
  }

  fileprivate func withhold(_ setting: Setting) { withheld.insert(setting.source.location(setting.value.begin)) }

  /// false: a warning has named it.
  fileprivate func isFirstWarning(of path: String) -> Bool { warned.insert(path).inserted }
}

extension ConfigurationReading {
  /// Largest file of a secret, in bytes: a bundle of keys or a thousand lines of user:password.
  static let largestSecretBytes = 64 << 10

  /// A secret without its final newline.
  func secret(_ setting: Setting) -> [UInt8]? {
    if case .string(let text) = setting.value.content {
      warnOfSecretInPlace(setting)
      return nonEmpty(Self.withoutFinalNewline(Array(text.utf8)), "the secret", setting: setting)
    }
    guard case .table = setting.value.content else {
      expected("a secret (a table with 'file', 'credential' or 'env', or a string)", setting)
      return nil
    }
    return referredSecret(setting)
  }

  /// A string, or a secret in one of the table forms. `mayBeSecret`: a string here counts as a secret too.
  func stringOrSecret(_ setting: Setting, mayBeSecret: Bool) -> GivenValue? {
    switch setting.value.content {
    case .string(let text):
      if mayBeSecret { warnOfSecretInPlace(setting) }
      return GivenValue(bytes: Array(text.utf8), isSecret: mayBeSecret)
    case .table:
      return referredSecret(setting).map {
        GivenValue(bytes: $0, isSecret: true, isWithheld: isWithheld(setting))
      }
    default:
      expected("a string", setting)
      return nil
    }
  }

  private func warnOfSecretInPlace(_ setting: Setting) {
    guard files.isReadableByOthers(setting.source.name) else { return }
    warning(
      setting, "a secret stands in this file, which others can read; use { file = \"…\" }, or mode 0640")
  }

  /// The secret that a table refers to.
  private func referredSecret(_ setting: Setting) -> [UInt8]? {
    guard let table = table(setting) else { return nil }
    var known: [Setting] = []
    var isSound = true
    for entry in table.settings {
      if TableSchema.secret.names.contains(entry.key) {
        known.append(entry)
      } else {
        unread(entry, of: .secret)
        isSound = false
      }
    }
    guard isSound else { return nil }
    guard let reference = known.first, known.count == 1 else {
      let found = known.isEmpty ? "none" : known.map { $0.key.quoted }.joined(separator: " and ")
      error(setting, "a secret takes exactly one of 'file', 'credential' and 'env', found \(found)")
      return nil
    }
    guard let name = string(reference) else { return nil }
    if secretUse == .unneeded { return withhold(reference, of: setting) }
    switch reference.key {
    case "file": return fileSecret(reference, of: setting, name)
    case "credential": return credentialSecret(reference, of: setting, name)
    default: return environmentSecret(reference, of: setting, name)
    }
  }

  /// Placeholder for a secret that was not read: valid wherever a text is.
  private static let standIn = Array("withheld".utf8)

  /// Whether the value of this setting is a secret that was not read.
  func isWithheld(_ setting: Setting) -> Bool { secrets.isWithheld(setting) }

  /// Continues without the secret; `cause`: why it cannot be read here, nil if it is not needed.
  private func withhold(_ setting: Setting, of owner: Setting, because cause: String? = nil) -> [UInt8] {
    secrets.withhold(owner)
    if let cause { note(setting, "not readable by you: the service reads it (\(cause))") }
    return Self.standIn
  }

  private func fileSecret(_ setting: Setting, of owner: Setting, _ name: String) -> [UInt8]? {
    guard let path = path(setting, name) else { return nil }
    if secretUse == .inspected, case .failure(let fault) = secretFile(path), fault.isDenied {
      return withhold(setting, of: owner, because: "\(path.quoted): \(fault)")
    }
    guard let bytes = secretBytes(setting, path) else { return nil }
    warnOfOtherReaders(of: path, setting)
    return nonEmpty(bytes, "the file \(path.quoted)", setting: setting)
  }

  func warnOfOtherReaders(of path: String, _ setting: Setting) {
    if files.isReadableByOthers(path), secrets.isFirstWarning(of: path) {
      warning(setting, "others can read \(path.quoted), which holds a secret; give it mode 0600 or 0640")
    }
  }

  private func credentialSecret(_ setting: Setting, of owner: Setting, _ name: String) -> [UInt8]? {
    if secretUse == .inspected, files.credentialsDirectory == nil, Self.isCredentialName(name) {
      return withhold(setting, of: owner, because: "the credential \(name.quoted) of systemd")
    }
    guard let path = credentialPath(setting, name) else { return nil }
    return secretBytes(setting, path).flatMap { nonEmpty($0, "the credential \(name.quoted)", setting: setting) }
  }

  static func isCredentialName(_ name: String) -> Bool {
    !name.isEmpty && name != "." && name != ".." && !name.utf8.contains { $0 == 0x2f || $0 == 0 }
  }

  /// The path of the systemd credential; nil after an error.
  func credentialPath(_ setting: Setting, _ name: String) -> String? {
    guard Self.isCredentialName(name) else {
      error(setting, "expected the name of a credential, without '/', found \(name.quoted)")
      return nil
    }
    guard let directory = files.credentialsDirectory else {
      error(
        setting,
        "the credential \(name.quoted) is not there: $CREDENTIALS_DIRECTORY is not set; "
          + "systemd sets it for a service with LoadCredential=")
      return nil
    }
    return ConfigurationPath.join(directory, name)
  }

  private func environmentSecret(_ setting: Setting, of owner: Setting, _ name: String) -> [UInt8]? {
    guard !name.isEmpty, !name.utf8.contains(where: { $0 == 0x3d || $0 == 0 }) else {
      error(setting, "expected the name of an environment variable, found \(name.quoted)")
      return nil
    }
    guard let bytes = files.environment(name) else {
      if secretUse == .inspected {
        return withhold(setting, of: owner, because: "your environment has no variable \(name.quoted)")
      }
      error(setting, "the environment has no variable \(name.quoted)")
      return nil
    }
    return nonEmpty(Self.withoutFinalNewline(bytes), "the variable \(name.quoted)", setting: setting)
  }

  /// The file's bytes without a final newline.
  private func secretBytes(_ setting: Setting, _ path: String) -> [UInt8]? {
    switch secretFile(path) {
    case .success(let bytes): return Self.withoutFinalNewline(bytes)
    case .failure(let fault):
      error(setting, "cannot read \(path.quoted): \(fault)")
      return nil
    }
  }

  func secretFile(_ path: String) -> Result<[UInt8], FileFault> { files.read(path, limit: Self.largestSecretBytes) }

  private func nonEmpty(_ bytes: [UInt8], _ name: String, setting: Setting) -> [UInt8]? {
    if !bytes.isEmpty { return bytes }
    error(setting, "\(name) is empty")
    return nil
  }

  /// A path relative to the file that names it.
  func path(_ setting: Setting, _ path: String) -> String? {
    guard !path.isEmpty, !path.utf8.contains(0) else {
      error(setting, "expected a path, found \(path.quoted)")
      return nil
    }
    return ConfigurationPath.join(ConfigurationPath.directory(of: setting.source.name), path)
  }

  static func withoutFinalNewline(_ bytes: [UInt8]) -> [UInt8] {
    guard bytes.last == 0x0a else { return bytes }
    return bytes.dropLast(bytes.dropLast().last == 0x0d ? 2 : 1)
  }
}
