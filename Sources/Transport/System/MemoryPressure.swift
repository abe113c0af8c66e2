// Reports when memory is short, by the kernel's pressure stall information (the kernel's accounting/psi.rst): of our
// own control group if that can be asked, or else of the machine; and by what the group has counted against its limits
// (memory.events). If the service manager names a file to watch (MEMORY_PRESSURE_WATCH, systemd's MEMORY_PRESSURE.md),
// that one is used.
//
// For a thread of its own: `wait` blocks. Tests: MemoryPressureTests.

import CLinux
import Glibc

public final class MemoryPressure: Sendable {
  private enum Kind: Sendable {
    /// The kernel reports a trigger that was written to it.
    case trigger
    /// Counters: the file reports every change, until they are read.
    case counters
    /// A FIFO or socket: any bytes mean that memory is short.
    case messages
  }

  private struct Watched: Sendable {
    let number: Int32
    let kind: Kind
  }

  private let watched: [Watched]

  /// Some task was stalled by lack of memory for 200 ms out of two seconds: systemd's setting for its own services, and
  /// the shortest window that the kernel allows without root.
  static let trigger = "some 200000 2000000"

  /// nil: there is nothing to watch. `watch`: the value of MEMORY_PRESSURE_WATCH; nil: not set. `group`: the directory
  /// of our control group.
  public init?(
    watch: String? = Files.environment("MEMORY_PRESSURE_WATCH"), group: String? = MemoryPressure.ownGroup(),
    machine: String = "/proc/pressure/memory"
  ) {
    var watched: [Watched] = []
    if let watch {
      // The service manager says in this way that watching is not wanted.
      if watch == "/dev/null" { return nil }
      if let one = Self.open(watch) { watched.append(one) }
    } else {
      let pressure = group.flatMap { Self.open("\($0)/memory.pressure") } ?? Self.open(machine)
      if let pressure { watched.append(pressure) }
    }
    if let group {
      let number = Glibc.open("\(group)/memory.events", O_RDONLY | O_CLOEXEC)
      if number >= 0 { watched.append(Watched(number: number, kind: .counters)) }
    }
    if watched.isEmpty { return nil }
    self.watched = watched
    // Earlier counts are not news.
    for one in watched { _ = Self.isNews(one) }
  }

  deinit { for one in watched { close(one.number) } }

  private static func open(_ path: String) -> Watched? {
    // A FIFO is also opened for writing: otherwise its end would show when its writer closes it.
    let number = Glibc.open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
    guard number >= 0 else { return nil }
    var status = stat()
    guard fstat(number, &status) == 0 else {
      close(number)
      return nil
    }
    if status.st_mode & S_IFMT == S_IFIFO { return Watched(number: number, kind: .messages) }
    let wrote = trigger.withCString { write(number, $0, trigger.utf8.count + 1) }
    if wrote < 0 {
      close(number)
      return nil
    }
    return Watched(number: number, kind: .trigger)
  }

  /// The directory of this process's control group; nil: it has none of version 2, or is in the root, which has no
  /// limits.
  public static func ownGroup() -> String? {
    guard case .success(let bytes) = Files.read("/proc/self/cgroup", limit: 64 << 10) else { return nil }
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    guard let path = lines.first(where: { $0.hasPrefix("0::/") })?.dropFirst(3), path != "/" else { return nil }
    return ControlGroupWalk.roots.map { $0 + path }.first { Files.exists("\($0)/memory.events") }
  }

  /// Waits until memory is short, and returns whether it is. `milliseconds`: at most this long; -1: for ever.
  public func wait(milliseconds: Int32 = -1) -> Bool {
    var entries = watched.map {
      pollfd(fd: $0.number, events: Int16($0.kind == .messages ? POLLIN : POLLPRI), revents: 0)
    }
    while true {
      let count = poll(&entries, nfds_t(entries.count), milliseconds)
      if count < 0, errno == EINTR { continue }
      if count <= 0 { return false }
      var isShort = false
      for (entry, one) in zip(entries, watched) where entry.revents != 0 {
        // A removed group stays in the error state; for counters, an error is how a change is reported.
        if entry.revents & Int16(POLLNVAL) != 0 || one.kind == .trigger && entry.revents & Int16(POLLPRI) == 0 {
          return false
        }
        if Self.isNews(one) { isShort = true }
      }
      if isShort { return true }
    }
  }

  /// Gives freed memory back to the kernel; otherwise it is kept for later use.
  public static func giveBack() { cl_give_back_memory() }

  private static func isNews(_ one: Watched) -> Bool {
    switch one.kind {
    case .trigger: return true
    case .messages:
      var bytes = [UInt8](repeating: 0, count: 4096)
      return read(one.number, &bytes, bytes.count) > 0
    case .counters:
      var bytes = [UInt8](repeating: 0, count: 4096)
      return pread(one.number, &bytes, bytes.count, 0) > 0
    }
  }
}
