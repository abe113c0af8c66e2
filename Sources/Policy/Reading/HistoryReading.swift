// [history]: the file of what was decided, how long and how much. Tests: HistoryReadingTests.

extension Bounds {
  /// Shortest: what was a moment ago is in the log. Longest: ten years.
  static let historyKeep: ClosedRange<Int64> = 3_600_000...3_650 * 86_400_000
  /// Smallest: a hundred thousand exchanges, beside what SQLite needs to write. Largest: as much as a machine may have.
  static let historySize: ClosedRange<Int64> = 16 << 20...1 << 40
}

extension ConfigurationReading {
  func readHistory(_ table: ConfigurationTable) {
    var history = HistorySettings()
    for setting in table.settings {
      switch setting.key {
      case "file": set(&history.file, string(setting).flatMap { path(setting, $0) })
      case "keep": set(&history.keepMilliseconds, quantity(setting, .duration, in: Bounds.historyKeep))
      case "size": set(&history.sizeBytes, quantity(setting, .size, in: Bounds.historySize))
      default: unread(setting, of: .history)
      }
    }
    configuration.history = history
  }
}
