// [history]: the file of past decisions, its age and size limits. Tests: HistoryReadingTests.

extension HistorySettings {
  /// Shortest: the log shows what has just happened. Longest: ten years.
  static let keepBounds: ClosedRange<Int64> = 3_600_000...3_650 * 86_400_000
  /// Smallest: a hundred thousand exchanges, plus what SQLite needs for writing. Largest: as much as a machine may
  /// have.
  static let sizeBounds: ClosedRange<Int64> = 16 << 20...1 << 40

  static func read(_ table: ConfigurationTable, by reading: ConfigurationReading) -> HistorySettings {
    var history = HistorySettings()
    for setting in table.settings {
      switch setting.key {
      case "file": reading.set(&history.file, reading.string(setting).flatMap { reading.path(setting, $0) })
      case "keep":
        reading.set(&history.keepMilliseconds, reading.quantity(setting, .duration, in: HistorySettings.keepBounds))
      case "size": reading.set(&history.sizeBytes, reading.quantity(setting, .size, in: HistorySettings.sizeBounds))
      default: reading.unread(setting, of: .history)
      }
    }
    return history
  }
}
