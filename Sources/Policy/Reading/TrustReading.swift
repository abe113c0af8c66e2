// [trust] and [authority]: whose signature counts, and the local authority that signs for intercepted tunnels.
// Tests: TrustReadingTests.

import Security

extension ConfigurationReading {
  func readTrust(_ table: ConfigurationTable) {
    for setting in table.settings {
      switch setting.key {
      case "anchors": readTrustAnchors(setting)
      case "profile": configuration.trustProfile = choice(setting, TrustProfile.self)
      default: unread(setting, of: .trust)
      }
    }
  }

  private func readTrustAnchors(_ setting: Setting) {
    guard let text = string(setting), text != "system" else { return }
    guard let anchors = anchors(setting, text) else { return }
    configuration.trust = .anchors(anchors)
  }

  func readAuthority(_ table: ConfigurationTable) {
    for setting in table.settings {
      switch setting.key {
      case "directory": readAuthorityDirectory(setting)
      case "key":
        configuration.authority.key = secret(setting)
        configuration.authority.isKeyWithheld = isWithheld(setting)
      default: unread(setting, of: .authority)
      }
    }
  }

  private func readAuthorityDirectory(_ setting: Setting) {
    guard let text = string(setting), let path = path(setting, text) else { return }
    configuration.authority.directory = path
  }
}
