// [rule.ask], and the keys of [proxy] for asking: the contact for refused clients, and where answers outlive the
// daemon. Tests: AskingTests.

import Bytes

extension AskTerms {
  /// Longest: a client that has waited a day for an answer will not get one.
  static let waitBounds: ClosedRange<Int64> = 1000...86_400_000
}

extension ProxySettings {
  static let longestContact = 200
}

extension ConfigurationReading {
  func askTerms(_ table: ConfigurationTable) -> AskTerms {
    var terms = AskTerms()
    for setting in table.settings {
      switch setting.key {
      case "wait": set(&terms.waitMilliseconds, quantity(setting, .duration, in: AskTerms.waitBounds))
      case "remember": set(&terms.rememberMilliseconds, quantity(setting, .duration, in: Bounds.durationOrZero))
      default: unread(setting, of: .ask)
      }
    }
    return terms
  }

  /// Clients are shown it as a line of text.
  func readContact(_ setting: Setting) {
    guard let text = string(setting) else { return }
    guard (1...ProxySettings.longestContact).contains(text.utf8.count),
      !text.unicodeScalars.contains(where: \.isUnprintable)
    else {
      return error(setting, "expected a text of 1 to \(ProxySettings.longestContact) bytes without control characters")
    }
    configuration.proxy.contact = text
  }

  func readState(_ setting: Setting) {
    configuration.proxy.state = string(setting).flatMap { path(setting, $0) }
  }
}
