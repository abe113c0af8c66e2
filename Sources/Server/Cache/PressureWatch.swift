// If memory is short, the store gives back a part of it, as AFAutoPurgingImageCache does at a memory warning.
// Tests: MemoryPressureTests, Tests/EndToEndTests/test_cache_pressure.py.

import Transport

enum PressureWatch {
  /// How long to wait after a purge, in milliseconds: its effect has to show before more is freed.
  private static let restMilliseconds: Int32 = 2000

  /// Starts a thread that waits until memory is short. `cache`: the store in force at that time.
  static func start(log: LogWriter, cache: @escaping @Sendable () -> SharedCache?) {
    guard let pressure = MemoryPressure() else { return }
    startThread(named: "pressure") { while waitAndPurge(pressure, log, cache: cache) {} }
  }

  /// See `startThread`. false: there are no more reports.
  @inline(never)
  private static func waitAndPurge(
    _ pressure: MemoryPressure, _ log: LogWriter, cache: () -> SharedCache?
  ) -> Bool {
    guard pressure.wait() else { return false }
    if let cache = cache() {
      let count = cache.purgeUnderPressure()
      if count > 0 {
        MemoryPressure.giveBack()
        log.event(.info, "cache: memory is short; \(count) stored answers were dropped from it")
      }
    }
    Clock.rest(milliseconds: restMilliseconds)
    return true
  }
}
