// What a service tells systemd: its state, and that it lives.
//
// Started by anything else, the calls here do nothing. Tests: Tests/EndToEndTests/test_service.py.

import CSystemd
import Glibc

/// The service manager, where it is systemd (sd_notify(3), sd_watchdog_enabled(3)).
public enum Systemd {
  /// Lines `NAME=value` of the protocol of sd_notify(3). Nothing waits for an answer, and there may be none to hear it.
  public static func notify(_ state: String) { _ = sd_notify(0, state) }

  /// Milliseconds after which systemd ends a service that has not been heard of; nil where it does not watch.
  public static var watchdogMilliseconds: Int64? {
    var microseconds: UInt64 = 0
    guard sd_watchdog_enabled(0, &microseconds) > 0 else { return nil }
    return max(1, Int64(clamping: microseconds / 1000))
  }

  /// The clock that systemd orders reloads by, in microseconds.
  public static var monotonicMicroseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    return Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1000
  }
}
