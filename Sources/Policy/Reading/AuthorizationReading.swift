// `authorization` of [rule.request] and [defaults.request]: user name and password for an origin, sent unprompted with
// Basic (RFC 7617), or in response to its challenge with Digest (RFC 7616). Tests: AuthorizationReadingTests.

import Bytes
import Security

extension AuthorizationScheme {
  /// For a Digest user name, in bytes: it is part of the head of every request, which contains much else.
  static let longestDigestUser = 1024
}

extension ConfigurationReading {
  /// Never quotes any of it: people put passwords into the wrong key.
  func authorization(_ setting: Setting) -> HeaderEdit? {
    guard case .table = setting.value.content, let table = table(setting) else {
      expected("a table with 'username' and 'password'", setting)
      return nil
    }
    var scheme: AuthorizationScheme? = .basic
    var user: [UInt8]? = nil
    var password: [UInt8]? = nil
    for entry in table.settings where entry.key == "scheme" {
      scheme = authorizationScheme(entry, among: [.basic, .digest])
    }
    for entry in table.settings {
      switch entry.key {
      case "scheme": continue
      case "username": user = stringOrSecret(entry, mayBeSecret: false)?.bytes ?? []
      case "password": password = secret(entry) ?? []
      default: unread(entry, of: .authorization)
      }
      if let fault = Self.fault(
        ofCredential: entry.key == "username" ? user : password, isUser: entry.key == "username", scheme ?? .basic)
      {
        error(entry, fault)
      }
    }
    guard let user, let password else {
      let missing = [user == nil ? "'username'" : nil, password == nil ? "'password'" : nil].compactMap { $0 }
      error(setting, "\(missing.joined(separator: " and ")) must be there")
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
      error(setting, fault)
      return nil
    }
    let given = GivenValue(bytes: value, isSecret: true, isWithheld: table.settings.contains(where: isWithheld))
    return HeaderEdit(kind: .set, name: "Authorization", value: given, setting: setting)
  }

  /// nil: it is not a scheme, and an error has been reported.
  func authorizationScheme(_ setting: Setting, among schemes: [AuthorizationScheme]) -> AuthorizationScheme? {
    guard let text = string(setting) else { return nil }
    if let scheme = AuthorizationScheme(rawValue: text), schemes.contains(scheme) { return scheme }
    let place = text == AuthorizationScheme.negotiate.rawValue ? "; Negotiate is for parents, in [routes]" : ""
    error(setting, "expected \(Self.alternatives(schemes.map(\.rawValue)))\(place)")
    return nil
  }

  /// Why the scheme cannot send this user name or password; nil if there is none, or it can.
  static func fault(ofCredential bytes: [UInt8]?, isUser: Bool, _ scheme: AuthorizationScheme) -> String? {
    if scheme == .basic { return basicFault(bytes, isUser: isUser) }
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
  static func basicFault(_ bytes: [UInt8]?, isUser: Bool) -> String? {
    guard let bytes else { return nil }
    if isUser, bytes.contains(0x3a) { return "a user name must not hold ':' (RFC 7617, 2)" }
    if bytes.contains(where: { $0 < 0x20 || $0 == 0x7f }) {
      return "it must not hold control characters (RFC 7617, 2)"
    }
    return nil
  }
}
