// [rule.ask]: how long a request waits for an operator, and how long the answer lasts. Tests: AskingTests.

extension AskTerms {
  /// Longest: a client that has waited a day for an answer will not get one.
  static let waitBounds: ClosedRange<Int64> = 1000...86_400_000

  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> AskTerms {
    var terms = AskTerms()
    for setting in table.settings {
      switch setting.key {
      case "wait": reading.set(&terms.waitMilliseconds, reading.quantity(setting, .duration, in: waitBounds))
      case "remember":
        reading.set(&terms.rememberMilliseconds, reading.quantity(setting, .duration, in: Bounds.durationOrZero))
      default: reading.unread(setting, of: .ask)
      }
    }
    return terms
  }
}
