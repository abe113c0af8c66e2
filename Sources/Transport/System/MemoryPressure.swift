// When memory is short, as the kernel says it: pressure stall information (the kernel's accounting/psi.rst), of our own control group
// where that can be asked and else of the machine, and what the group has counted against its limits (memory.events). Where the
// service manager names a file to watch (MEMORY_PRESSURE_WATCH, systemd's MEMORY_PRESSURE.md), it is that one.
//
// It is a thread's: `wait` waits. Tests: MemoryPressureTests.

import CLinux
import Glibc

public final class MemoryPressure: Sendable {
  private enum Kind: Sendable {
    /// The kernel tells of a trigger that was written to it.
    case trigger
    /// Counters: it tells of every change, until they are read.
    case counters
    /// A FIFO or socket: bytes mean that memory is short, whatever they are.
    case messages
  }

  private struct Watched: Sendable {
    let number: Int32
    let kind: Kind
  }

  private let watched: [Watched]

  /// Some task stood still for want of memory for 200 ms of two seconds: what systemd takes for its own services, and the shortest
  /// window that the kernel gives to those who are not root.
  static let trigger = "some 200000 2000000"

  /// nil: nobody tells. `watch`: what MEMORY_PRESSURE_WATCH says; nil: nothing. `group`: the directory of our control group.
  public init?(
    watch: String? = Files.environment("MEMORY_PRESSURE_WATCH"), group: String? = MemoryPressure.ownGroup(),
    machine: String = "/proc/pressure/memory"
  ) {
    var watched: [Watched] = []
    if let watch {
      // So the service manager says that it is not wanted.
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
    // What was counted before is no news.
    for one in watched { _ = Self.isNews(one) }
  }

  deinit { for one in watched { close(one.number) } }

  private static func open(_ path: String) -> Watched? {
    // Of a FIFO also for writing: else its end would be seen where its writer closes it.
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

  /// The directory of the control group that this process is in; nil: it is in none of version 2, or in the root, which has no
  /// limits.
  public static func ownGroup() -> String? {
    guard case .success(let bytes) = Files.read("/proc/self/cgroup", limit: 64 << 10) else { return nil }
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    guard let path = lines.first(where: { $0.hasPrefix("0::/") })?.dropFirst(3), path != "/" else { return nil }
    return ControlGroupWalk.roots.map { $0 + path }.first { Files.exists("\($0)/memory.events") }
  }

  /// Waits until memory is short. `milliseconds`: at most so long; -1: for ever. Whether it is.
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
        // A group that was removed is in error for good; of counters it is what tells of a change.
        if entry.revents & Int16(POLLNVAL) != 0 || one.kind == .trigger && entry.revents & Int16(POLLPRI) == 0 {
          return false
        }
        if Self.isNews(one) { isShort = true }
      }
      if isShort { return true }
    }
  }

  /// What was freed goes back to the kernel; it would be kept for what comes next.
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
