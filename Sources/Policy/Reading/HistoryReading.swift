// [history]: the file of past decisions, its age and size limits. Tests: HistoryReadingTests.

extension HistorySettings {
  /// Shortest: the log shows what has just happened. Longest: ten years.
  static let keepBounds: ClosedRange<Int64> = 3_600_000...3_650 * 86_400_000
  /// Smallest: a hundred thousand exchanges, plus what SQLite needs for writing. Largest: as much as a machine may
  /// have.
  static let sizeBounds: ClosedRange<Int64> = 16 << 20...1 << 40
}

extension ConfigurationReading {
  func readHistory(_ table: ConfigurationTable) {
    var history = HistorySettings()
    for setting in table.settings {
      switch setting.key {
      case "file": set(&history.file, string(setting).flatMap { path(setting, $0) })
      case "keep": set(&history.keepMilliseconds, quantity(setting, .duration, in: HistorySettings.keepBounds))
      case "size": set(&history.sizeBytes, quantity(setting, .size, in: HistorySettings.sizeBounds))
      default: unread(setting, of: .history)
      }
    }
    configuration.history = history
  }
}
