// [trust] and [authority]: whose signature counts, and the local authority that signs for intercepted tunnels.
// Tests: TrustReadingTests.

import Security

extension Configuration {
  mutating func readTrust(_ table: ConfigurationTable, by reading: ConfigurationReading) {
    for setting in table.settings {
      switch setting.key {
      case "anchors": reading.set(&trust, Self.trust(setting, by: reading))
      case "profile": trustProfile = reading.choice(setting, TrustProfile.self)
      default: reading.unread(setting, of: .trust)
      }
    }
  }

  private static func trust(_ setting: Setting, by reading: ConfigurationReading) -> TrustSource? {
    guard let text = reading.string(setting) else { return nil }
    return text == "system" ? .system : reading.certificates.anchors(text, setting, by: reading).map { .anchors($0) }
  }
}

extension AuthoritySettings {
  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> AuthoritySettings {
    var authority = AuthoritySettings()
    for setting in table.settings {
      switch setting.key {
      case "directory":
        reading.set(&authority.directory, reading.string(setting).flatMap { reading.path(setting, $0) })
      case "key":
        authority.key = reading.secret(setting)
        authority.isKeyWithheld = reading.isWithheld(setting)
      default: reading.unread(setting, of: .authority)
      }
    }
    return authority
  }
}
