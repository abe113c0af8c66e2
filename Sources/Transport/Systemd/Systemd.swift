// The interface between systemd and a service: the service's state, the watchdog, and sockets that systemd opened.
//
// Without systemd, the calls here do nothing. Tests: Tests/EndToEndTests/test_service.py.

import CLinux
import CSystemd
import Glibc

/// The service manager, if it is systemd (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)).
public enum Systemd {
  /// Sends lines `NAME=value` of the sd_notify(3) protocol. It waits for no answer, and there may be no receiver.
  public static func notify(_ state: String) { _ = sd_notify(0, state) }

  /// After how many milliseconds without a sign of life systemd ends the service; nil if it does not watch.
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

  /// The sockets that were passed, with their names. Only the first call gets any. It has to come before the first
  /// thread, because it removes the variables that announce them from the environment.
  public static func takeSockets() -> Result<[PassedSocket], SystemError> {
    var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? = nil
    let count = sd_listen_fds_with_names(1, &names)
    guard count >= 0 else { return .failure(SystemError(-count)) }
    defer { free(names) }
    var sockets: [PassedSocket] = []
    for index in 0..<count {
      let name = names?[Int(index)]
      defer { free(name) }
      sockets.append(
        PassedSocket(
          descriptor: Descriptor(number: SD_LISTEN_FDS_START + index), name: name.map { String(cString: $0) } ?? ""))
    }
    return .success(sockets)
  }
}

/// A descriptor that was open when the program started.
public struct PassedSocket: Sendable {
  /// What kind it turned out to be.
  public enum Kind: Sendable {
    case internetListener
    case localListener
    case other
  }

  public let descriptor: Descriptor
  /// FileDescriptorName= of the socket unit; without that, the unit's own name.
  public let name: String

  public var kind: Kind {
    let number = descriptor.number
    let stream: Int32 = CL_SOCK_STREAM
    if sd_is_socket(number, AF_INET, stream, 1) > 0 || sd_is_socket(number, AF_INET6, stream, 1) > 0 {
      return .internetListener
    }
    return sd_is_socket(number, AF_UNIX, stream, 1) > 0 ? .localListener : .other
  }
}
