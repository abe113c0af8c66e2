// `authorization` of [rule.request] and [defaults.request]: user name and password for an origin, sent unprompted with
// Basic (RFC 7617), or in response to its challenge with Digest (RFC 7616). Tests: AuthorizationReadingTests.

import Bytes
import Security

extension HeaderEdit {
  /// Never quotes any of it: people put passwords into the wrong key.
  static func authorization(_ setting: Setting, by reading: ConfigurationReading) -> HeaderEdit? {
    guard case .table = setting.value.content, let table = reading.table(setting) else {
      reading.expected("a table with 'username' and 'password'", setting)
      return nil
    }
    var scheme: AuthorizationScheme? = .basic
    var user: [UInt8]? = nil
    var password: [UInt8]? = nil
    for entry in table.settings where entry.key == "scheme" {
      scheme = AuthorizationScheme.read(entry, among: [.basic, .digest], by: reading)
    }
    for entry in table.settings {
      switch entry.key {
      case "scheme": continue
      case "username": user = reading.stringOrSecret(entry, mayBeSecret: false)?.bytes ?? []
      case "password": password = reading.secret(entry) ?? []
      default: reading.unread(entry, of: .authorization)
      }
      if let fault = (scheme ?? .basic).fault(
        ofCredential: entry.key == "username" ? user : password, isUser: entry.key == "username")
      {
        reading.error(entry, fault)
      }
    }
    guard let user, let password else {
      let missing = [user == nil ? "'username'" : nil, password == nil ? "'password'" : nil].compactMap { $0 }
      reading.error(setting, "\(missing.joined(separator: " and ")) must be there")
      return nil
    }
    guard let scheme else { return nil }
    if scheme == .digest {
      return HeaderEdit(
        kind: .set, name: "Authorization", value: GivenValue(bytes: [], isSecret: true),
        digest: DigestCredentials(username: user, password: password), setting: setting)
    }
    let value = Array("Basic ".utf8) + Base64.encode(user + [0x3a] + password)
    if let fault = FieldSyntax.fault(ofValue: value) {
      reading.error(setting, fault)
      return nil
    }
    let given = GivenValue(bytes: value, isSecret: true, isWithheld: table.settings.contains(where: reading.isWithheld))
    return HeaderEdit(kind: .set, name: "Authorization", value: given, setting: setting)
  }
}

extension AuthorizationScheme {
  /// For a Digest user name, in bytes: it is part of the head of every request, which contains much else.
  static let longestDigestUser = 1024

  /// nil: it is not a scheme, and an error has been reported.
  static func read(_ setting: Setting, among schemes: [AuthorizationScheme], by reading: ConfigurationReading)
    -> AuthorizationScheme?
  {
    guard let text = reading.string(setting) else { return nil }
    if let scheme = AuthorizationScheme(rawValue: text), schemes.contains(scheme) { return scheme }
    let place = text == AuthorizationScheme.negotiate.rawValue ? "; Negotiate is for parents, in [routes]" : ""
    reading.error(setting, "expected \(schemes.map(\.rawValue).alternativesInTOML)\(place)")
    return nil
  }

  /// Why the scheme cannot send this user name or password; nil if there is none, or it can.
  func fault(ofCredential bytes: [UInt8]?, isUser: Bool) -> String? {
    if self == .basic { return Self.basicFault(bytes, isUser: isUser) }
    guard let bytes else { return nil }
    // The hash is over `user:realm:password`, and a colon in the name would make it ambiguous.
    if isUser, bytes.contains(0x3a) { return "a user name must not hold ':' (RFC 7616, 3.4.2)" }
    if bytes.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
      return "it must not hold control characters (RFC 7616, 4)"
    }
    if isUser, bytes.count > AuthorizationScheme.longestDigestUser {
      return "expected at most \(AuthorizationScheme.longestDigestUser) bytes, found \(bytes.count)"
    }
    return nil
  }

  /// Why Basic cannot send this user name or password; nil if there is none, or it can.
  private static func basicFault(_ bytes: [UInt8]?, isUser: Bool) -> String? {
    guard let bytes else { return nil }
    if isUser, bytes.contains(0x3a) { return "a user name must not hold ':' (RFC 7617, 2)" }
    if bytes.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
      return "it must not hold control characters (RFC 7617, 2)"
    }
    return nil
  }
}
